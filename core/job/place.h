/* SPDX-License-Identifier: Apache-2.0 */
/* Which device is this process's. */
#ifndef YOKE_CORE_JOB_PLACE_H
#define YOKE_CORE_JOB_PLACE_H

#include "core/job/job.h"

/* By the launcher, the configuration, YOKE_DEVICES or what there is. Collective where the job has its group already: ranks that another
 * launcher started share out the devices of their host. Fills job->topology. */
yk_status yk__place_choose(yk_job *job, yk__placement *chosen, yk_error *err);

#endif
