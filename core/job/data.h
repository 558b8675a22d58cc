/* SPDX-License-Identifier: Apache-2.0 */
/* A job's data sets, as checkpoints see them. */
#ifndef YOKE_CORE_JOB_DATA_H
#define YOKE_CORE_JOB_DATA_H

#include "core/job/job.h"

/* Epoch and number of the batch that comes next. */
void yk__data_place(const yk_data *d, uint64_t *epoch, uint64_t *batch);
bool yk__data_trains(const yk_data *d);

#endif
