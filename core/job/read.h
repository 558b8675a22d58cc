/* SPDX-License-Identifier: Apache-2.0 */
/* Values that the host reads. */
#ifndef YOKE_CORE_JOB_READ_H
#define YOKE_CORE_JOB_READ_H

#include "core/job/job.h"

yk__kept *yk__kept_add(yk_job *job, yk__vid v);
bool yk__kept_fetch(yk_job *job, yk__kept *k); /* its data is in host memory; may run the step */
double yk__kept_number(yk_job *job, yk__kept *k); /* of a loss the sum over ranks: collective */

#endif
