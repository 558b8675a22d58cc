/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's times by operation, kernel and shape, for a YOKE_<PLUGIN>_PROFILE option: adds up nanoseconds, and prints the longest first.
 *
 * The CUDA and Vulkan plugins and kit_device_program.c add each launch's time, under a lock of their own. The list is printed and freed
 * when the device closes (cuda_list.c, vk_device.c, kit_device.c). An entry's first run counts apart, as drivers compile in it.
 */
#include "plugins/kit/kit_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plugins/kit/kit_program.h"

struct kit_profile_entry {
    kit_profile_entry *next;
    char name[KIT_LAUNCH_TEXT];
    uint64_t first_ns, ns, runs; /* ns of the first run; ns of the other runs */
};

void kit_profile_add(kit_profile *profile, const char *name, uint64_t ns)
{
    kit_profile_entry *e = profile->first;
    while (e && strcmp(e->name, name) != 0)
        e = e->next;
    if (e) {
        e->ns += ns;
        e->runs++;
        return;
    }
    if (!(e = profile->host->alloc(sizeof *e, sizeof(void *))))
        return;
    *e = (kit_profile_entry){.next = profile->first, .first_ns = ns};
    snprintf(e->name, sizeof e->name, "%s", name);
    profile->first = e;
}

/* The longest that is left, taken out. */
static kit_profile_entry *entry_take(kit_profile *profile)
{
    kit_profile_entry **most = &profile->first;
    for (kit_profile_entry **at = most; *at; at = &(*at)->next)
        if ((*at)->ns > (*most)->ns)
            most = at;
    kit_profile_entry *e = *most;
    if (e)
        *most = e->next;
    return e;
}

void kit_profile_end(kit_profile *profile, const char *device)
{
    if (profile->first)
        profile->host->log(0, device, "%12s %8s %12s", "us", "runs", "first us");
    for (kit_profile_entry *e; (e = entry_take(profile)) != NULL; profile->host->free(e))
        profile->host->log(0, device, "%12.1f %8" PRIu64 " %12.1f  %s", (double)e->ns * 1e-3, e->runs, (double)e->first_ns * 1e-3, e->name);
}
