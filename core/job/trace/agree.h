/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the ranks' actions. Each rank describes its next actions by a few small hashes (graph, optimizer, learning rate, clipping and
 * precision, seed, place in the data, parameters). They travel with the counts of losses that yk_backward sums over ranks anyway. If all
 * n hashes h are equal, n * sum(h^2) = sum(h)^2; both sums are exact.
 *
 * The graph's hash is the sign of the loss and of the assigned states (recipe.h): operations, operands in order, settings and mode. It
 * leaves out the differences that ranks may have: the number of rows, removed padding, devices, the format of computing, recomputed
 * blocks, and operations that neither the loss nor a state depends on. Decision 0016.
 */
#ifndef YOKE_CORE_JOB_TRACE_AGREE_H
#define YOKE_CORE_JOB_TRACE_AGREE_H

#include "core/job/job.h"

#define YK__AGREE_PARTS 7
#define YK__AGREE_NUMBERS (1 + 2 * YK__AGREE_PARTS)

/* This rank's numbers for the sum, for the loss of the current step; false if memory is out. */
bool yk__agree_numbers(yk_job *job, double number[YK__AGREE_NUMBERS]);
/* Checks the sum, alike on every rank. False if ranks differ; the job's error then names the first rank that differs from most ranks,
 * the part and the values. Collective in that case. */
bool yk__agree_check(yk_job *job, const double sum[YK__AGREE_NUMBERS]);

/* Of what an optimizer step does beyond yk_backward: rate, clipping and late assignments, which a program may set after it. The update
 * compares the sign (yk__update.sign). yk__agree_update_tell fails the job where signs differ, on all ranks. */
uint32_t yk__agree_update_sign(const yk_job *job);
void yk__agree_update_tell(yk_job *job);

typedef struct yk__agree_number {
    const char *name;
    double value, rest; /* rest: low bits of a whole number that value lacks; else 0 */
} yk__agree_number;

/* A whole number with all of its bits. */
yk__agree_number yk__agree_whole(const char *name, uint64_t whole);

/* Compares data sets when they are opened: a hash of their contents, and up to YK__AGREE_SETTINGS numbers. Collective. */
#define YK__AGREE_SETTINGS 16
bool yk__agree_data(yk_job *job, const char *spec, uint64_t hash, uint32_t n, const yk__agree_number *number);

#endif
