/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two plugins has a device that both offer. */
#ifndef YOKE_CORE_DEVICE_RIVAL_H
#define YOKE_CORE_DEVICE_RIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct yk__plugin;

/* Whether the second is to have it: it computes a product in clearly less time, and the first has no collectives among devices
 * (YK_EXT_COLL), which a single product does not show. Both devices are opened for it. One thread. */
bool yk__rival_wins(const struct yk__plugin *first, uint32_t first_device, const struct yk__plugin *second, uint32_t second_device);

/* Seconds that device takes for a product, 0: it could not be run. Tests put another in its place. */
extern double (*yk__rival_measure)(const char *plugin, uint32_t device);

#endif
