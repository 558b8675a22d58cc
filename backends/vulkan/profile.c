/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a device's time goes (YOKE_VULKAN_PROFILE=1): a timestamp before the first launch of a recorded program and behind each one; what
 * lies between is added up by operation, kernel and shape, and printed when the device is closed, the longest first. The first run of each,
 * in which drivers compile, stands by itself.
 */
#include "backends/vulkan/vlk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct vlk_profile_entry {
    vlk_profile_entry *next;
    char name[KIT_LAUNCH_TEXT];
    uint64_t first_ns, ns, runs; /* the first run; the others */
};

bool vlk_profile_wanted(void)
{
    const char *v = vlk_option("PROFILE");
    return v && *v == '1';
}

VkResult vlk_profile_begin(yk_device *dev, uint32_t n_launch, VkQueryPool *pool)
{
    const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                        .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                        .queryCount = n_launch + 1};
    return vkCreateQueryPool(dev->handle, &info, NULL, pool);
}

/* Under the device's lock. */
static void entry_add(yk_device *dev, const char *name, uint64_t ns)
{
    vlk_profile_entry *e = dev->profile;
    while (e && strcmp(e->name, name))
        e = e->next;
    if (!e) {
        if (!(e = vlk_alloc(sizeof *e)))
            return;
        snprintf(e->name, sizeof e->name, "%s", name);
        e->first_ns = ns;
        e->next = dev->profile;
        dev->profile = e;
        return;
    }
    e->ns += ns;
    e->runs++;
}

void vlk_profile_add(yk_device *dev, VkQueryPool pool, const yk_graph *graph, const kit_program *kit)
{
    const uint32_t n = (uint32_t)kit->n_launch + 1;
    char name[KIT_LAUNCH_TEXT];
    uint64_t *ticks = vlk_alloc(n * sizeof *ticks);
    if (ticks && vkGetQueryPoolResults(dev->handle, pool, 0, n, n * sizeof *ticks, ticks, sizeof *ticks,
                                       VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) == VK_SUCCESS) {
        pthread_mutex_lock(&dev->lock);
        for (uint32_t i = 0; i + 1 < n; i++) {
            kit_launch_text(graph, &kit->launch[i], name);
            entry_add(dev, name, (uint64_t)((double)(ticks[i + 1] - ticks[i]) * (double)dev->physical->properties.limits.timestampPeriod));
        }
        pthread_mutex_unlock(&dev->lock);
    }
    vlk_free(ticks);
}

/* The longest that is left, taken out. */
static vlk_profile_entry *entry_take(yk_device *dev)
{
    vlk_profile_entry **most = &dev->profile;
    for (vlk_profile_entry **at = most; *at; at = &(*at)->next)
        if ((*at)->ns > (*most)->ns)
            most = at;
    vlk_profile_entry *e = *most;
    if (e)
        *most = e->next;
    return e;
}

void vlk_profile_end(yk_device *dev)
{
    if (dev->profile)
        fprintf(stderr, "%12s %8s %12s  %s\n", "us", "runs", "first us", dev->physical->properties.deviceName);
    for (vlk_profile_entry *e; (e = entry_take(dev)) != NULL; vlk_free(e))
        fprintf(stderr, "%12.1f %8" PRIu64 " %12.1f  %s\n", (double)e->ns * 1e-3, e->runs, (double)e->first_ns * 1e-3, e->name);
}
