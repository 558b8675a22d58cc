/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of losses over all ranks. */
#ifndef YOKE_CORE_JOB_COUNT_H
#define YOKE_CORE_JOB_COUNT_H

#include "core/job/job.h"

/* A loss that counts `local` items here; *inverse: the leaf of 1 / the count of all ranks. YK_NONE after a failure. */
uint32_t yk__counted_new(yk_job *job, double local, yk__vid *inverse);
/* Marks the values that the loss depends on; NULL after a failure. */
const uint8_t *yk__count_reached(yk_job *job, yk__vid loss);
/* Which counted losses it depends on, as a bit mask: those whose 1/count is read on the way. */
uint32_t yk__count_terms(const yk_job *job, const uint8_t *need);
/* How many items of this rank's a value is the mean of, labels or rows; below 0: it is no mean. */
double yk__count_own(yk_job *job, yk__vid v);
bool yk__count_ranks(yk_job *job); /* collective: fills global, rows, scalars */
/* False, and the job fails at its call, where a batch norm in training has one value of a channel on all ranks together: in
 * PyTorch it is an error, too. values: those of step->norm_call, of all ranks. */
bool yk__batch_norm_check(yk_job *job, double values);

#endif
