/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of cores as options name them. Define _GNU_SOURCE first. */
#ifndef YOKE_PLUGINS_KIT_KIT_CORES_H
#define YOKE_PLUGINS_KIT_KIT_CORES_H

#include <sched.h>

/* "0-3,6" to a set; returns how many they are, 0 if it is no such list. */
int kit_cores_parse(const char *list, cpu_set_t *set);

#endif
