/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of ranks as core/run and core/job see it: who is in it, and what they do together. Thin calls over the control plane
 * (core/control) and the collectives (core/coll), whose headers say who is a member, what an excluded rank is, in which order
 * calls are made, and how waits end.
 *
 * There are three kinds of operations:
 *   by all      yk__group_barrier, all_gather, sum_f64, broadcast, shared, set_members: what users and checkpoints do. An
 *               excluded rank takes part; it is woken for it.
 *   for all     yk__group_sum_members, gather_members: what a step decides by. Members alone take part; an excluded rank that
 *               makes the same call sleeps until the result is there (at most some 0.5 s late), and gets the same result.
 *   by members  reduce_*, reduce_slice, slices_ready: an excluded rank does not call them. broadcast_members does nothing on it.
 * So the same program runs on every rank, and calls the first two kinds in the same order everywhere.
 *
 * Thread rule: one thread per group (the step thread).
 */
#ifndef YOKE_CORE_GROUP_GROUP_H
#define YOKE_CORE_GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/exact.h"
#include "core/coll/coll.h"

typedef struct yk__group yk__group;

/* A group of one. */
yk_status yk__group_solo(yk__group **g, yk_error *err);
/* Joins the group that this process's origin describes (core/control/origin.h); YK_E_ARG when there is none. name: what others call
 * this rank in messages ("rank 1 (opencl:0@1)"), under yoke launch; elsewhere it bears its host's name. */
yk_status yk__group_join(const char *name, yk__group **g, yk_error *err);
void yk__group_leave(yk__group *g); /* says goodbye, so that others do not take it for a death */
/* Ends the job for all ranks with this error; every wait of theirs returns it. */
void yk__group_abort(yk__group *g, const yk_error *why);
/* For an error of this process, before or after it joined: ends the job with it (as yk__group_abort). In a process that yk__launch
 * started the launcher prints it once, with the rank's name, and the process exits without printing. False when there is no launcher
 * of ours that prints: then each rank does. An error that a wait returned because of another rank may be reported too: the first one
 * counts. */
bool yk__group_report(const yk_error *why);

uint32_t yk__group_rank(const yk__group *g);
uint32_t yk__group_size(const yk__group *g);
bool yk__group_same_host(const yk__group *g, uint32_t rank, uint32_t other);
const char *yk__group_name(const yk__group *g, uint32_t rank);
/* Non-zero once the job is to end; for yk__device_wait. Another process or thread writes it: read it by
 * __atomic_load_n(p, __ATOMIC_ACQUIRE). */
const volatile int *yk__group_cancel(const yk__group *g);

bool yk__group_member(const yk__group *g, uint32_t rank);
bool yk__group_excludes(const yk__group *g); /* some rank is excluded */
/* By all, with equal members on all: who is a member from here on; some rank is. */
yk_status yk__group_set_members(yk__group *g, const bool *member, yk_error *err);
/* Where in the user's program an operation is called; for errors. file: NULL or a string that stays. */
void yk__group_place(yk__group *g, void (*place)(const char **file, int *line));

/* A block of memory shared by all ranks of the group (same `bytes` on all); the address differs between ranks. Page
 * aligned, zero at first. Released with the group at the latest. For a group of one: ordinary memory. */
yk_status yk__group_shared(yk__group *g, const char *what, uint64_t bytes, void **mem, yk_error *err);
/* Gives it back; NULL: nothing. All ranks in the same order beside what they make; others may go on to use theirs. */
void yk__group_release(yk__group *g, void *mem);

#define YK__SMALL_BYTES YK__COLL_SMALL /* bytes of a small message of one rank */

yk_status yk__group_barrier(yk__group *g, yk_error *err);
/* out[r * bytes ..] = rank r's `in`, on every rank. Small messages (up to 64 KiB a rank). */
yk_status yk__group_all_gather(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err);
/* A small sum in rank order (up to 64 KiB). */
yk_status yk__group_sum_f64(yk__group *g, double *v, uint32_t n, yk_error *err);
/* The same of members, for all; what an excluded rank gives counts nothing, and of it others get zeros. The results of one
 * call are at most 256 KiB while a rank is excluded. */
yk_status yk__group_gather_members(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err);
yk_status yk__group_sum_members(yk__group *g, double *v, uint32_t n, yk_error *err);
/* Small reductions of f32, in rank order and in two parts: begin takes v along, end writes the
 * result over it; between them the caller does what does not need it. One row: the sum, or the largest. Three rows: moments
 * (YK__COLL_MOMENTS). */
#define YK__GROUP_FLOATS (YK__COLL_SMALL / 4u) /* rows * n at most */
typedef struct yk__columns {
    float *v;
    uint32_t rows, n; /* 1 or 3 rows of n */
    uint64_t pitch;   /* floats from row to row */
    bool max;         /* of one row: the largest, not the sum */
} yk__columns;
yk_status yk__group_reduce_begin(yk__group *g, const yk__columns *c, yk_error *err);
yk_status yk__group_reduce_end(yk__group *g, const yk__columns *c, yk_error *err);
yk_status yk__group_broadcast(yk__group *g, uint32_t root, void *data, uint64_t bytes, yk_error *err); /* any size */
yk_status yk__group_broadcast_members(yk__group *g, uint32_t root, void *data, uint64_t bytes, yk_error *err);

/* Reduce-scatter of n f32 of each member, of whom rank r's stand at base + r * stride_bytes (see yk__group_shared): waits until
 * all have written theirs, and writes the sum over members (in rank order) of my slice to out (may be my own block's slice).
 * squares: the squares of what was written to out are added to it; NULL: they are not. A block may be written again after the
 * slices_ready that follows its reduce_slice: then all ranks have read it. */
yk_status yk__group_reduce_slice(yk__group *g, const float *base, uint64_t stride_bytes, const yk__slices *s,
                                 float *out, yk__exact *squares, yk_error *err);
/* All-gather: every member has written its slice at shared[begin..]; returns when all have. */
yk_status yk__group_slices_ready(yk__group *g, yk_error *err);
/* Members tell when they begin to write slices (each before an exchange that precedes it) and when all have; an excluded rank
 * that reads them meanwhile does so between begin and end, and again until end says that nothing was written. */
void yk__group_updating(yk__group *g, bool on);
uint32_t yk__group_read_begin(yk__group *g);
bool yk__group_read_end(yk__group *g, uint32_t begun);

#endif
