/* SPDX-License-Identifier: Apache-2.0 */
/* Joining an island. The join waits for all its members, and can be given up, as a dead member never comes. */
#ifndef YOKE_CORE_RUN_ISLAND_JOIN_H
#define YOKE_CORE_RUN_ISLAND_JOIN_H

#include <yoke/extension.h>

#include "core/device/device.h"

/*
 * yk_coll.join of this device, as member `own` of `size`. It ends with YK_E_CANCELLED soon after the liveness thread sets *cancel. The
 * plugin's call then goes on by itself until its own limit, and the device is lost: it is not closed any more. Step thread.
 */
yk_status yk__island_join(yk__device *dev, const yk_coll *coll, const uint8_t *ticket, uint32_t bytes, uint32_t own, uint32_t size,
                          const volatile int *cancel, yk_comm **comm, yk_error *err);

#endif
