/* SPDX-License-Identifier: Apache-2.0 */
/* What operations share. */
#ifndef YOKE_CORE_JOB_OP_H
#define YOKE_CORE_JOB_OP_H

#include "core/job/job.h"

yk__vid yk__as_float(yk_job *job, yk__vid v); /* cast to f32 where it is not float */
bool yk__dropout_wanted(yk_job *job, const char *name, float p); /* false in evaluation, and after a failure */
yk__vid yk__dropout(yk_job *job, yk__vid x, float p, yk__vid rows);

#endif
