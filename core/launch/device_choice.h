/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing devices for the ranks of this host. Thread rule: as for a fork; no driver is touched in this process. */
#ifndef YOKE_CORE_LAUNCH_DEVICE_CHOICE_H
#define YOKE_CORE_LAUNCH_DEVICE_CHOICE_H

#include <stdint.h>

#include "core/base/error.h"

struct yk__placement; /* core/device/device.h */

/* yk__device_select in a child process, so that the launcher can fork afterwards: no driver has run in it. The caller releases the
 * result with yk__free. */
yk_status yk__launch_select(const char *device_specs, struct yk__placement **place, uint32_t *n, yk_error *err);
/* The same for a number of ranks of this host; ranks 0: one per device. With specs "auto", NULL or "", surplus devices are dropped,
 * cards last; too few devices are replaced by equal parts of the cores. Specs of one device give it to every rank. Any other count
 * than `ranks` is an error. */
yk_status yk__launch_select_ranks(const char *device_specs, uint32_t ranks, struct yk__placement **place, uint32_t *n, yk_error *err);

#endif
