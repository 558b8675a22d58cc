/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that all files of the Vulkan plugin share: the host's services, memory, options, texts of failed calls, and the list of a driver's
 * extensions. Any thread.
 */
#include "backends/vulkan/vlk.h"

#include "plugins/kit/plugin.h"

const yk_host *vlk_host;

void *vlk_alloc(size_t bytes)
{
    return kit_zeroed(vlk_host, VLK_WHO, bytes, "the plugin's state");
}

void vlk_free(void *p)
{
    kit_release(vlk_host, p);
}

const char *vlk_option(const char *key)
{
    return kit_option_value(vlk_host, VLK_WHO, key);
}

#define RESULTS(X)                                                                                                     \
    X(VK_NOT_READY) X(VK_TIMEOUT) X(VK_INCOMPLETE) X(VK_ERROR_OUT_OF_HOST_MEMORY) X(VK_ERROR_OUT_OF_DEVICE_MEMORY)     \
    X(VK_ERROR_INITIALIZATION_FAILED) X(VK_ERROR_DEVICE_LOST) X(VK_ERROR_MEMORY_MAP_FAILED)                            \
    X(VK_ERROR_LAYER_NOT_PRESENT) X(VK_ERROR_EXTENSION_NOT_PRESENT) X(VK_ERROR_FEATURE_NOT_PRESENT)                    \
    X(VK_ERROR_INCOMPATIBLE_DRIVER) X(VK_ERROR_TOO_MANY_OBJECTS) X(VK_ERROR_FRAGMENTED_POOL) X(VK_ERROR_UNKNOWN)       \
    X(VK_ERROR_OUT_OF_POOL_MEMORY) X(VK_ERROR_INVALID_EXTERNAL_HANDLE) X(VK_ERROR_FRAGMENTATION)                       \
    X(VK_ERROR_INVALID_SHADER_NV)

const char *vlk_result_name(VkResult result)
{
    switch (result) {
#define RESULT_CASE(name)                                                                                              \
    case name:                                                                                                         \
        return #name;
        RESULTS(RESULT_CASE)
#undef RESULT_CASE
    default:
        return "a Vulkan error";
    }
}

yk_status vlk_result_status(VkResult result)
{
    switch (result) {
    case VK_SUCCESS:
        return YK_OK;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
        return YK_E_MEM;
    case VK_ERROR_DEVICE_LOST:
        return YK_E_DEVICE_LOST;
    default:
        return YK_E_INTERNAL;
    }
}

yk_status vlk_error(VkResult result, const char *what)
{
    vlk_host->fail(VLK_WHO, "%s: %s (%d)", what, vlk_result_name(result), (int)result);
    return vlk_result_status(result);
}

bool vlk_extension_there(VkPhysicalDevice handle, const char *name)
{
    uint32_t n = 0;
    bool there = false;
    vkEnumerateDeviceExtensionProperties(handle, NULL, &n, NULL);
    VkExtensionProperties *all = vlk_alloc(n * sizeof *all);
    if (all && vkEnumerateDeviceExtensionProperties(handle, NULL, &n, all) == VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++)
            there |= !strcmp(all[i].extensionName, name);
    vlk_free(all);
    return there;
}
