/* SPDX-License-Identifier: Apache-2.0 */
/* What a collective is described by: kinds, operations, and the buffers it works on. Plain data; the caller's thread. */
#ifndef YOKE_CORE_COLL_DESC_H
#define YOKE_CORE_COLL_DESC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/dtype.h>

#include "core/base/exact.h"
#include "core/coll/slices.h"

typedef enum yk__coll_mode {
    YK__COLL_PRIVATE, /* a block per rank */
    YK__COLL_COMMON,  /* one block for all ranks, where all have memory in common; else a copy per rank */
    YK__COLL_SPARSE   /* the same, whose memory is taken range by range (yk__coll_fill), in common memory */
} yk__coll_mode;

/* Registered memory. Page aligned, zero at first. */
typedef struct yk__coll_buffer {
    void *mem;        /* this rank's block */
    void *base;       /* the first block of those that this rank sees; NULL: it sees none but its own */
    const uint32_t *local; /* [world]: the place of each rank's block there, UINT32_MAX: none; NULL: the rank's number */
    uint64_t stride;  /* bytes from one rank's block to the next; 0: all have one */
    uint64_t bytes;   /* of a block */
    void *registered; /* yk_tr_mem of it; NULL: none */
    float *residual;  /* of each number of this rank's block; NULL: none (yk__coll_keep_residual) */
} yk__coll_buffer;

/* That rank's block, in memory that it shares with this rank; NULL over a wire. */
static inline void *yk__coll_peer_view(const yk__coll_buffer *buffer, uint32_t rank)
{
    const uint32_t place = buffer->local ? buffer->local[rank] : rank;
    return buffer->base && place != UINT32_MAX ? (char *)buffer->base + buffer->stride * place : NULL;
}

typedef enum yk__coll_kind {
    YK__COLL_NONE,
    YK__COLL_BARRIER,
    YK__COLL_BROADCAST,      /* out[0..count) of the root goes to all */
    YK__COLL_ALL_GATHER,     /* out[r * count ..] = rank r's in[0..count); zeros for ranks that are not in the communicator. Small */
    YK__COLL_ALL_REDUCE,     /* rows * count numbers of f32 or f64 at out, row by row `pitch` apart, become the sum, .. Small */
    YK__COLL_REDUCE_SCATTER, /* out = the sum of this rank's slice (parts) of all members' buffer[offset .. + count), f32 */
    YK__COLL_ALL_GATHERV,    /* each member has written its slice of buffer[offset .. + count); then all slices are there */
    YK__COLL_ALLOC,          /* by yk__coll_alloc and the like: no requests */
    YK__COLL_MEMBERS
} yk__coll_kind;

typedef enum yk__coll_op {
    YK__COLL_SUM,
    YK__COLL_MAX, /* a NaN of any rank stays one, as in a maximum over the rows of one */
    /* Three rows of f32: each column is the moments of a part of some numbers, mean, sum((x - mean)^2) and count, and becomes those
     * of all of them (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
     * 1979); parts without numbers are no parts. */
    YK__COLL_MOMENTS
} yk__coll_op;

#define YK__COLL_SMALL 65536u /* bytes of one rank's part of a small collective */
#define YK__COLL_REQUESTS 32u /* under way at once on a communicator */

typedef struct yk__coll_desc {
    yk__coll_kind kind;
    yk_dtype dtype; /* YK_U8 for bytes */
    yk__coll_op op;
    bool feeds;    /* excluded ranks make the same call and get the result. All-gather and all-reduce, at most 256 KiB */
    uint32_t root; /* of a broadcast */
    const void *in;
    void *out;
    uint64_t count;
    uint32_t rows;  /* of an all-reduce; 0: one */
    uint64_t pitch; /* elements from row to row */
    const yk__coll_buffer *buffer; /* of reduce-scatter and all-gatherv */
    uint64_t offset;               /* elements */
    const yk__slices *parts;       /* of `count` elements */
    bool narrow; /* of all-gatherv: all numbers are such that bf16 holds them; they go to other hosts in two bytes each */
    yk__exact *squares; /* of reduce-scatter: the squares of what was written to out are added to it; NULL: they are not */
    int64_t *done_ns;   /* when it was done, in ns of CLOCK_MONOTONIC; NULL: nobody asks */
    const char *file;   /* of the call; NULL: as yk__coll_config.place says */
    int line;
} yk__coll_desc;

#endif
