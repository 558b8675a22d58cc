/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open Vulkan device: the logical device, its queue, and objects that all programs share. vk_list.c makes it; the table in vk_plugin.c
 * closes it. Calls to the driver's queue are under a lock.
 */
#include "backends/vulkan/vk_coop.h"

#include <unistd.h>

#include "plugins/kit/spirv/spirv.h"

/* Device features for kernels with cooperative matrices. */
typedef struct coop_features {
    vlk_bfloat16_features bf16;
    vlk_coop_features coop;
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT size;
} coop_features;

/* Adds these features in front of `next`, and their extensions' names, if the target has such kernels. */
static void *coop_ask(const kit_target *target, coop_features *f, void *next, const char **name, uint32_t *n)
{
    *f = (coop_features){.bf16 = {.sType = (VkStructureType)VLK_TYPE_BFLOAT16_FEATURES, .pNext = next, .type = VK_TRUE, .matrix = VK_TRUE},
                         .coop = {.sType = (VkStructureType)VLK_TYPE_COOP_FEATURES, .pNext = next, .matrix = VK_TRUE},
                         .size = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT,
                                  .pNext = &f->coop,
                                  .subgroupSizeControl = VK_TRUE,
                                  .computeFullSubgroups = VK_TRUE}};
    if (!target->coop_lanes)
        return next;
    name[(*n)++] = VLK_COOP_EXTENSION;
    name[(*n)++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (target->coop[KIT_COOP_BF16].rows) {
        name[(*n)++] = VLK_BFLOAT16_EXTENSION;
        f->coop.pNext = &f->bf16;
    }
    return &f->size;
}

static VkResult handle_make(const vlk_physical *p, const kit_target *target, VkDevice *handle)
{
    const float priority = 1.0f;
    const char *extension[4];
    uint32_t n_extension = 0;
    coop_features coop;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = p->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .storageBuffer8BitAccess = VK_TRUE,
                                            .bufferDeviceAddress = VK_TRUE,
                                            .timelineSemaphore = VK_TRUE,
                                            .shaderFloat16 = target->coop_lanes != 0,
                                            .vulkanMemoryModel = target->coop_lanes != 0};
    VkPhysicalDevice16BitStorageFeatures wide = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                                                 .pNext = &v12,
                                                 .storageBuffer16BitAccess = VK_TRUE};
    if (p->imports)
        extension[n_extension++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    const VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                           .pNext = coop_ask(target, &coop, &wide, extension, &n_extension),
                                           .features = {.shaderInt64 = VK_TRUE}};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &all,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = n_extension,
                                     .ppEnabledExtensionNames = extension};
    return vkCreateDevice(p->handle, &info, NULL, handle);
}

static VkResult layout_make(yk_device *d)
{
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(kit_spirv_push)};
    const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &push};
    return vkCreatePipelineLayout(d->handle, &layout, NULL, &d->layout);
}

static yk_status device_start(yk_device *d)
{
    const vlk_physical *p = d->physical;
    d->target = (kit_target){.host = vlk_host,
                             .plugin = VLK_WHO,
                             .lanes = p->lanes,
                             .units = 1,
                             .max_group = p->max_group,
                             .max_local = p->max_local,
                             .max_alloc = p->max_alloc};
    vlk_coop_find(p, &d->target);
    VkResult result = handle_make(p, &d->target, &d->handle);
    if (result == VK_SUCCESS) {
        vkGetDeviceQueue(d->handle, p->family, 0, &d->queue);
        if (p->imports)
            d->host_properties = (PFN_vkGetMemoryHostPointerPropertiesEXT)vkGetDeviceProcAddr(
                d->handle, "vkGetMemoryHostPointerPropertiesEXT");
        result = layout_make(d);
    }
    if (result == VK_SUCCESS)
        result = vlk_cache_open(d);
    return result == VK_SUCCESS ? YK_OK : vlk_error(result, "opening the device");
}

yk_status vlk_device_make(const vlk_physical *physical, yk_device **dev)
{
    yk_device *d = vlk_alloc(sizeof *d);
    if (!d)
        return YK_E_MEM;
    d->physical = physical;
    d->profile.host = vlk_host;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->queue_lock, NULL);
    const yk_status s = device_start(d);
    if (s)
        vlk_device_close(d);
    else
        *dev = d;
    return s;
}

void vlk_device_close(yk_device *d)
{
    if (!d || atomic_load(&d->left_behind))
        return;
    kit_profile_end(&d->profile, d->physical->properties.deviceName);
    if (d->handle) {
        vlk_lanes_free(d);
        vlk_pipelines_free(d);
        vlk_cache_close(d);
        vkDestroyPipelineLayout(d->handle, d->layout, NULL);
        vkDestroyDevice(d->handle, NULL);
    }
    pthread_mutex_destroy(&d->queue_lock);
    pthread_mutex_destroy(&d->lock);
    vlk_free(d);
}

uint32_t vlk_device_claims(yk_device *dev, const yk_graph *graph, uint32_t node)
{
    return kit_claims(&dev->target, graph, node);
}
