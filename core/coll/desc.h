/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a collective: kinds, operations, and the buffers that it works on. Plain data; the caller's thread. */
#ifndef YOKE_CORE_COLL_DESC_H
#define YOKE_CORE_COLL_DESC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/dtype.h>

#include "core/coll/exact.h"
#include "core/coll/slices.h"

typedef enum yk__coll_mode {
    YK__COLL_PRIVATE, /* a block per rank */
    YK__COLL_COMMON,  /* one block for all ranks, if all have memory in common; else a copy per rank */
    YK__COLL_SPARSE   /* as COMMON; in common memory yk__coll_fill reserves its memory range by range */
} yk__coll_mode;

/* Registered memory. Page aligned, zero at first. */
typedef struct yk__coll_buffer {
    void *mem;        /* this rank's block */
    void *base;       /* first of the blocks that this rank sees; NULL if it sees only its own */
    const uint32_t *local; /* [world]: index of each rank's block at base, UINT32_MAX for none; NULL if the index is the rank */
    uint64_t stride;  /* bytes from one rank's block to the next; 0 if all ranks have one block */
    uint64_t bytes;   /* bytes of a block */
    void *registered; /* yk_tr_mem of the memory; NULL if unregistered */
    float *residual;  /* rounding error of each number of this rank's block; NULL without error feedback (yk__coll_keep_residual) */
} yk__coll_buffer;

/* That rank's block in common memory; NULL if it is not there. */
static inline void *yk__coll_peer_view(const yk__coll_buffer *buffer, uint32_t rank)
{
    const uint32_t place = buffer->local ? buffer->local[rank] : rank;
    return buffer->base && place != UINT32_MAX ? (char *)buffer->base + buffer->stride * place : NULL;
}

typedef enum yk__coll_kind {
    YK__COLL_NONE,
    YK__COLL_BARRIER,
    YK__COLL_BROADCAST,      /* the root's out[0..count) goes to all */
    YK__COLL_ALL_GATHER,     /* out[r * count ..] = rank r's in[0..count); zeros for ranks outside the communicator. Small */
    YK__COLL_ALL_REDUCE,     /* sums (or op) of rows * count numbers of f32 or f64 at out, with `pitch` between rows. Small */
    YK__COLL_REDUCE_SCATTER, /* out = the sum over the members of this rank's slice (parts) of buffer[offset .. + count), f32 */
    YK__COLL_ALL_GATHERV,    /* each member has written its slice of buffer[offset .. + count); afterwards every slice is there */
    YK__COLL_ALLOC,          /* by yk__coll_alloc and its relatives: no request */
    YK__COLL_MEMBERS
} yk__coll_kind;

typedef enum yk__coll_op {
    YK__COLL_SUM,
    YK__COLL_MAX, /* any rank's NaN gives NaN, as in a maximum over rows of one rank */
    /* Three rows of f32: mean, sum((x - mean)^2) and count of a part of some numbers, one part per column. The result has the moments of
     * all parts together (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
     * Parts with count 0 do not contribute. */
    YK__COLL_MOMENTS
} yk__coll_op;

/* The function of yoke.h that makes a request on the user's memory. Several make equal requests, such as a sum and a mean. */
typedef enum yk__coll_use {
    YK__USE_NONE,
    YK__USE_SUM,
    YK__USE_MEAN,
    YK__USE_MAX,
    YK__USE_GATHER,
    YK__USE_GATHER_OBJECT,
    YK__USE_GATHER_FOR_METRICS,
    YK__USE_BROADCAST,
    YK__USE_BROADCAST_OBJECT,
    YK__USE_PAD,
    YK__USE_BARRIER,
    YK__USE_MAKE_DIR,
    YK__USE_MAIN_FIRST,
    YK__USE_TRIGGER,
    YK__USE_PRINT
} yk__coll_use;

#define YK__COLL_SMALL 65536u /* bytes of one rank's part of a small collective, at most */
#define YK__COLL_REQUESTS 32u /* requests in progress on one communicator, at most */

typedef struct yk__coll_desc {
    yk__coll_kind kind;
    yk_dtype dtype; /* YK_U8 for bytes */
    yk__coll_op op;
    bool feeds;    /* excluded ranks make the same call and get the result. All-gather and all-reduce, at most 256 KiB */
    uint32_t root; /* root of a broadcast */
    const void *in;
    void *out;
    uint64_t count;
    uint32_t rows;  /* rows of an all-reduce; 0 means 1 */
    uint64_t pitch; /* elements from one row to the next */
    const yk__coll_buffer *buffer; /* buffer of a reduce-scatter or all-gatherv */
    uint64_t offset;               /* elements */
    const yk__slices *parts;       /* slices of `count` elements */
    bool narrow; /* all-gatherv: bf16 holds every number exactly, so numbers go to other hosts in two bytes each */
    yk__exact *squares; /* reduce-scatter: adds the squares of the numbers written to out; NULL for none */
    int64_t *done_ns;   /* set to the time of completion, ns of CLOCK_MONOTONIC; NULL if unwanted */
    const char *file;   /* file of the call; NULL: ask yk__coll_config.place */
    int line;
} yk__coll_desc;

#endif
