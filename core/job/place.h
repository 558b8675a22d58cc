/* SPDX-License-Identifier: Apache-2.0 */
/* Which device is this process's. */
#ifndef YOKE_CORE_JOB_PLACE_H
#define YOKE_CORE_JOB_PLACE_H

#include "core/job/job.h"

/* By yoke launch, else the configuration, yk__place_ask, YOKE_DEVICES or what there is. Collective where the job has its group already:
 * ranks that another launcher started share out the devices of their host, and an error of one is an error of all. YK_E_ARG where the
 * program names other devices than yoke launch. Fills job->topology. */
yk_status yk__place_choose(yk_job *job, yk__placement *chosen, yk_error *err);
/* Devices for jobs of this process whose configuration names none; copied; NULL: none. Thread rule: the thread that opens jobs. */
void yk__place_ask(const char *devices);

#endif
