/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices the ranks of this host are to have. Thread rule: as for a fork; no driver is touched in this process. */
#ifndef YOKE_CORE_LAUNCH_CHOOSE_H
#define YOKE_CORE_LAUNCH_CHOOSE_H

#include <stdint.h>

#include "core/base/error.h"

struct yk__placement; /* core/device/device.h */

/* yk__device_select in a child process, so that the launcher can fork afterwards: no driver has run in it. The result
 * is released with yk__free. */
yk_status yk__launch_select(const char *device_specs, struct yk__placement **place, uint32_t *n, yk_error *err);
/* The same for so many ranks of this host. Where the specs are "auto", NULL or "", of more devices the cards first, and where there are
 * fewer, parts of the cores. Where they name one device, that one for all; any other number than that of the ranks is an error. ranks 0:
 * one per device. */
yk_status yk__launch_select_ranks(const char *device_specs, uint32_t ranks, struct yk__placement **place, uint32_t *n, yk_error *err);

#endif
