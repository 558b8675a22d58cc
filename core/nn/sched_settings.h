/* SPDX-License-Identifier: Apache-2.0 */
/* What each setting of a schedule may be; one table for the schedules of all three sources. */
#ifndef YOKE_CORE_NN_SCHED_SETTINGS_H
#define YOKE_CORE_NN_SCHED_SETTINGS_H

#include "core/base/error.h"

/* YK_E_ARG naming schedule, setting, value and range. `rate` is the optimizer's own rate, the highest some settings may be.
 * "null" and "None" are not given, and right for every setting. */
yk_status yk__sched_setting_check(const char *schedule, const char *key, const char *value, double rate, yk_error *err);

#endif
