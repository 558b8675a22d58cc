/* SPDX-License-Identifier: Apache-2.0 */
/* A job's data sets, as checkpoints see them. */
#ifndef YOKE_CORE_JOB_DATA_H
#define YOKE_CORE_JOB_DATA_H

#include "core/job/job.h"

bool yk__data_trains(const yk_data *d);

#endif
