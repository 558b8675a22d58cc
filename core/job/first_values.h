/* SPDX-License-Identifier: Apache-2.0 */
/* First values of a parameter or state, by range: from the seed, its name and the element's number alone. */
#ifndef YOKE_CORE_JOB_FIRST_VALUES_H
#define YOKE_CORE_JOB_FIRST_VALUES_H

#include "core/job/job.h"

/* The source keeps no pointer to p. */
yk_status yk__first_values(const yk__job_param *p, uint64_t seed, yk__source *out, yk_error *err);

#endif
