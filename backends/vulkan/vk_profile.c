/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time per kernel (YOKE_VULKAN_PROFILE=1): a timestamp before the first launch of a recorded program and after each launch. vk_program.c
 * records them, and adds the differences after a run, in the queue's thread.
 *
 * Differences are added up by operation, kernel and shape, and printed when the device is closed, longest first. The first run of each, in
 * which drivers compile, is listed separately.
 */
#include "backends/vulkan/vlk.h"

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

void vlk_profile_add(yk_device *dev, VkQueryPool pool, const yk_graph *graph, const kit_program *kit)
{
    const uint32_t n = (uint32_t)kit->n_launch + 1;
    const double period = (double)dev->physical->properties.limits.timestampPeriod;
    char name[KIT_LAUNCH_TEXT];
    uint64_t *ticks = vlk_alloc(n * sizeof *ticks);
    if (ticks && vkGetQueryPoolResults(dev->handle, pool, 0, n, n * sizeof *ticks, ticks, sizeof *ticks,
                                       VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) == VK_SUCCESS) {
        pthread_mutex_lock(&dev->lock);
        for (uint32_t i = 0; i + 1 < n; i++) {
            kit_launch_text(graph, &kit->launch[i], name);
            kit_profile_add(&dev->profile, name, (uint64_t)((double)(ticks[i + 1] - ticks[i]) * period));
        }
        pthread_mutex_unlock(&dev->lock);
    }
    vlk_free(ticks);
}
