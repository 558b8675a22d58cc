/* SPDX-License-Identifier: Apache-2.0 */
/* Times of a device's launches, summed by operation, kernel and shape (kit_launch_text). The caller's lock. */
#ifndef YOKE_PLUGINS_KIT_KIT_PROFILE_H
#define YOKE_PLUGINS_KIT_KIT_PROFILE_H

#include <stdint.h>

#include <yoke/plugin.h>

typedef struct kit_profile_entry kit_profile_entry;

typedef struct kit_profile {
    const yk_host *host;
    kit_profile_entry *first;
} kit_profile;

/* Adds one run. The first run of each name, in which drivers compile, is kept apart. Without memory the run is dropped. */
void kit_profile_add(kit_profile *profile, const char *name, uint64_t ns);
/* Prints to the log under the device's name, the longest first, and clears the list; no-op for an empty list. */
void kit_profile_end(kit_profile *profile, const char *device);

#endif
