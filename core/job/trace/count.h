/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of losses over all ranks. */
#ifndef YOKE_CORE_JOB_TRACE_COUNT_H
#define YOKE_CORE_JOB_TRACE_COUNT_H

#include "core/job/job.h"

/* Registers a loss that counts `local` items here; *inverse: the leaf of 1 / the count over all ranks. YK_NONE after a failure. */
uint32_t yk__counted_new(yk_job *job, double local, yk__vid *inverse);
/* Marks the values that the loss depends on; NULL after a failure. */
const uint8_t *yk__count_reached(yk_job *job, yk__vid loss);
/* Bit mask of the counted losses that the loss depends on, through their 1 / count. */
uint32_t yk__count_terms(const yk_job *job, const uint8_t *need);
/* Number of this rank's items, labels or rows, in the mean that a value is; below 0 if it is no mean. */
double yk__count_own(yk_job *job, yk__vid v);
bool yk__count_ranks(yk_job *job); /* collective: fills global, rows, scalars */
/* Fails the job at the batch norm's call if it is in training and has one value per channel over all ranks, which is an error in PyTorch
 * too. values: the count over all ranks for step->norm_call. Returns false then. */
bool yk__batch_norm_check(yk_job *job, double values);

#endif
