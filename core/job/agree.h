/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks do the same. Each describes what it is about to do by a few small hashes (graph, optimizer, learning rate,
 * clipping and precision, seed, place in the data, parameters), which travel with the counts of losses that yk_backward adds up over ranks
 * anyway. Where all n hashes h are equal, n * sum(h^2) = sum(h)^2; both sums are exact.
 *
 * Of the graph that is the sign of the loss and of what states are assigned (recipe.h): operations, operands in order, settings and mode.
 * What may differ between ranks is not in it: how many rows there are, padding that is taken out of them, devices, the format a device
 * computes in, blocks that are computed again, and operations that neither the loss nor a state depends on. Decision 0016.
 */
#ifndef YOKE_CORE_JOB_AGREE_H
#define YOKE_CORE_JOB_AGREE_H

#include "core/job/job.h"

#define YK__AGREE_PARTS 7
#define YK__AGREE_NUMBERS (1 + 2 * YK__AGREE_PARTS)

/* This rank's part of the sum; false after a failure (of memory). For the loss of the step under way. */
bool yk__agree_numbers(yk_job *job, double number[YK__AGREE_NUMBERS]);
/* After the sum, the same on every rank: false where they differ, and the job's error then names the first rank that differs
 * from most, in what, and the values. Collective in that case. */
bool yk__agree_check(yk_job *job, const double sum[YK__AGREE_NUMBERS]);

typedef struct yk__agree_number {
    const char *name;
    double value;
} yk__agree_number;

/* The same question about data sets when they are opened: a hash of what is in them, and up to YK__AGREE_SETTINGS numbers. Collective. */
#define YK__AGREE_SETTINGS 16
bool yk__agree_data(yk_job *job, const char *spec, uint64_t hash, uint32_t n, const yk__agree_number *number);

#endif
