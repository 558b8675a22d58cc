/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of losses over all ranks. */
#ifndef YOKE_CORE_JOB_COUNT_H
#define YOKE_CORE_JOB_COUNT_H

#include "core/job/job.h"

/* A loss that counts `local` items here; *inverse: the leaf of 1 / the count of all ranks. YK_NONE after a failure. */
uint32_t yk__counted_new(yk_job *job, double local, yk__vid *inverse);
bool yk__count_ranks(yk_job *job); /* collective: fills global, rows, scalars */

#endif
