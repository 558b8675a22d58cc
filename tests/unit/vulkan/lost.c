/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before the Vulkan loader (LD_PRELOAD), it makes a device fail as GPUs do: the submission of number YOKE_TEST_VULKAN_LOST, and all
 * after it, are VK_ERROR_DEVICE_LOST, or so is waiting for it (YOKE_TEST_VULKAN_LOST_WAIT); allocations of more than
 * YOKE_TEST_VULKAN_MEMORY bytes altogether are VK_ERROR_OUT_OF_DEVICE_MEMORY. For tests/cts/vulkan_faults.sh.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define SHOWN __attribute__((visibility("default")))

static atomic_ullong submitted, waited, allocated;

/* What the environment says, or a number that is never reached. */
static unsigned long long number_of(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? strtoull(v, NULL, 10) : ~0ull;
}

/* The loader's own function, which this one stands before. The loader came with a plugin: it is not among what RTLD_NEXT searches. */
static void real_find(void *function, const char *name)
{
    void *const loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_NOLOAD), *const found = loader ? dlsym(loader, name) : NULL;
    if (!found)
        abort();
    memcpy(function, &found, sizeof found);
}

SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit(VkQueue queue, uint32_t n, const VkSubmitInfo *submit, VkFence fence)
{
    PFN_vkQueueSubmit real;
    if (atomic_fetch_add(&submitted, 1) + 1 >= number_of("YOKE_TEST_VULKAN_LOST"))
        return VK_ERROR_DEVICE_LOST;
    real_find(&real, "vkQueueSubmit");
    return real(queue, n, submit, fence);
}

SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkWaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    PFN_vkWaitSemaphores real;
    real_find(&real, "vkWaitSemaphores");
    const VkResult result = real(device, info, timeout);
    return atomic_fetch_add(&waited, 1) + 1 >= number_of("YOKE_TEST_VULKAN_LOST_WAIT") ? VK_ERROR_DEVICE_LOST : result;
}

SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *own,
                                                      VkDeviceMemory *memory)
{
    PFN_vkAllocateMemory real;
    if (atomic_fetch_add(&allocated, info->allocationSize) + info->allocationSize > number_of("YOKE_TEST_VULKAN_MEMORY"))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    real_find(&real, "vkAllocateMemory");
    return real(device, info, own, memory);
}
