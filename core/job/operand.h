/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a handle in the current step. */
#ifndef YOKE_CORE_JOB_OPERAND_H
#define YOKE_CORE_JOB_OPERAND_H

#include "core/job/job.h"

/* The value in the step's trace; YK_NONE after a failure, which the job has. */
yk__vid yk__step_value(yk_job *job, const char *name, yk_t x);
const yk_value *yk__handle_info(const yk_job *job, yk_t x, yk_value *buf); /* type and shape of any living handle; NULL for a dead one */

#endif
