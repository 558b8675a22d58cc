/* SPDX-License-Identifier: Apache-2.0 */
/* The allowed values of each schedule setting: one table for the schedules of all three sources. */
#ifndef YOKE_CORE_NN_SCHED_SETTINGS_H
#define YOKE_CORE_NN_SCHED_SETTINGS_H

#include "core/base/error.h"

/* YK_E_ARG that names schedule, setting, value and range. rate: the optimizer's own rate, the upper limit of some settings. "null" and
 * "None" mean "not given", which every setting accepts. */
yk_status yk__sched_setting_check(const char *schedule, const char *key, const char *value, double rate, yk_error *err);

#endif
