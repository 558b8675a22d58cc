/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks do the same. Each describes what it is about to do by a few small hashes (graph, optimizer, learning rate,
 * clipping and precision, seed, place in the data), which travel with the counts of losses that yk_backward adds up over ranks
 * anyway. Where all n hashes h are equal, n * sum(h^2) = sum(h)^2; both sums are exact.
 *
 * What may differ between ranks is not in it: rows and what moves them (padding is taken out on one rank and not on another),
 * devices, the format a device computes in, and operations that the loss does not depend on.
 */
#ifndef YOKE_CORE_JOB_AGREE_H
#define YOKE_CORE_JOB_AGREE_H

#include "core/job/job.h"

#define YK__AGREE_PARTS 6
#define YK__AGREE_NUMBERS (1 + 2 * YK__AGREE_PARTS)

/* This rank's part of the sum; false after a failure (of memory). For the loss of the step under way. */
bool yk__agree_numbers(yk_job *job, double number[YK__AGREE_NUMBERS]);
/* After the sum, the same on every rank: false where they differ, and the job's error then names the first rank that differs
 * from most, in what, and the values. Collective in that case. */
bool yk__agree_check(yk_job *job, const double sum[YK__AGREE_NUMBERS]);

/* The same question about data sets when they are opened: rows, and a hash of what is in them. Collective. */
bool yk__agree_data(yk_job *job, const char *spec, uint64_t rows, uint64_t hash);

#endif
