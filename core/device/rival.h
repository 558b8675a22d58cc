/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses between two plugins that offer one device. */
#ifndef YOKE_CORE_DEVICE_RIVAL_H
#define YOKE_CORE_DEVICE_RIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct yk__plugin;

/* True if the second plugin should have the device: its product is clearly faster, and the first has no collectives among devices
 * (YK_EXT_COLL). A single product does not show these. Opens both devices. One thread. */
bool yk__rival_wins(const struct yk__plugin *first, uint32_t first_device, const struct yk__plugin *second, uint32_t second_device);

/* Seconds of a product on that device; 0 if it failed. Tests replace the function. */
extern double (*yk__rival_measure)(const char *plugin, uint32_t device);

#endif
