/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of kernels and allocations of a Vulkan device. The file vk_list.c reads them for each device, and vk_plugin.c checks the option
 * LIMITS at the plugin's start, in the host's thread. The option lowers them, to imitate a smaller device on a larger one:
 * "alloc=BYTES,local=BYTES,group=N", or "phone" for the guarantees of small mobile GPUs. Push constants never exceed the least limit of all
 * devices (128 bytes), as kit_spirv_push has 32.
 */
#include "backends/vulkan/vlk.h"

#include <errno.h>
#include <stdlib.h>

#define PHONE "alloc=1073741824,local=16384,group=128"

static const struct {
    const char *name;
    uint64_t least;
} limit[] = {{"alloc=", 1u << 20}, {"local=", KIT_LOCAL_LEAST / 2}, {"group=", KIT_GROUP_LEAST}};
#define N_LIMITS (sizeof limit / sizeof *limit)

/* Reads one entry of a list; false if malformed. */
static bool limit_parse(const char **text, uint64_t value[N_LIMITS])
{
    for (size_t i = 0; i < N_LIMITS; i++) {
        const size_t n = strlen(limit[i].name);
        char *end;
        if (strncmp(*text, limit[i].name, n))
            continue;
        errno = 0;
        value[i] = strtoull(*text + n, &end, 10);
        const bool good = !errno && end != *text + n && (!*end || *end == ',') && value[i] >= limit[i].least;
        *text = *end ? end + 1 : end;
        return good;
    }
    return false;
}

static bool limits_parse(const char *text, uint64_t value[N_LIMITS])
{
    if (!strcmp(text, "phone"))
        text = PHONE;
    while (*text)
        if (!limit_parse(&text, value))
            return false;
    return true;
}

bool vlk_limits_good(const char *text)
{
    uint64_t value[N_LIMITS];
    return limits_parse(text, value);
}

static uint64_t limit_of(uint64_t own, uint64_t wanted)
{
    return wanted < own ? wanted : own;
}

void vlk_limits_read(vlk_physical *p)
{
    VkPhysicalDeviceMaintenance3Properties most = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &most};
    uint64_t wanted[N_LIMITS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const char *option = vlk_option("LIMITS");
    vkGetPhysicalDeviceProperties2(p->handle, &all);
    const VkPhysicalDeviceLimits *own = &all.properties.limits;
    const uint32_t group = own->maxComputeWorkGroupInvocations < own->maxComputeWorkGroupSize[0] ? own->maxComputeWorkGroupInvocations
                                                                                                    : own->maxComputeWorkGroupSize[0];
    if (option)
        limits_parse(option, wanted);
    p->max_alloc = limit_of(most.maxMemoryAllocationSize, wanted[0]);
    p->max_local = (uint32_t)limit_of(own->maxComputeSharedMemorySize, wanted[1]);
    p->max_group = (uint32_t)limit_of(group, wanted[2]);
}
