/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cooperative matrices: finds the sizes that products of 16 bits can use (plugins/kit/kit_coop.h), when vk_device.c opens a device, in
 * any thread. A debug line tells why a device has none; products use plain kernels then.
 */
#include "backends/vulkan/vk_coop.h"

#include <stddef.h>
#include <stdio.h>

#include "plugins/kit/kit_coop.h"
#include "plugins/kit/plugin.h"

#define LIST_MOST 1024u /* most entries accepted from a driver; a longer list is invalid */

#ifdef VK_KHR_cooperative_matrix
#define SAME(own, theirs)                                                                                                \
    (sizeof(((vlk_coop_properties *)0)->own) == sizeof(((VkCooperativeMatrixPropertiesKHR *)0)->theirs) &&               \
     offsetof(vlk_coop_properties, own) == offsetof(VkCooperativeMatrixPropertiesKHR, theirs))
_Static_assert(sizeof(vlk_coop_properties) == sizeof(VkCooperativeMatrixPropertiesKHR) && SAME(rows, MSize) && SAME(cols, NSize) &&
                   SAME(terms, KSize) && SAME(left, AType) && SAME(right, BType) && SAME(addend, CType) && SAME(result, ResultType) &&
                   SAME(saturates, saturatingAccumulation) && SAME(scope, scope),
               "vlk_coop_properties is not VkCooperativeMatrixPropertiesKHR");
_Static_assert(sizeof(vlk_coop_features) == sizeof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR) &&
                   offsetof(vlk_coop_features, matrix) == offsetof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrix),
               "vlk_coop_features is not VkPhysicalDeviceCooperativeMatrixFeaturesKHR");
_Static_assert((int)VLK_TYPE_COOP_FEATURES == (int)VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR &&
                   (int)VLK_TYPE_COOP_PROPERTIES == (int)VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR &&
                   (int)VLK_COMPONENT_FLOAT16 == (int)VK_COMPONENT_TYPE_FLOAT16_KHR &&
                   (int)VLK_COMPONENT_FLOAT32 == (int)VK_COMPONENT_TYPE_FLOAT32_KHR &&
                   (int)VLK_SCOPE_SUBGROUP == (int)VK_SCOPE_SUBGROUP_KHR,
               "a number of VK_KHR_cooperative_matrix");
#endif
#ifdef VK_KHR_shader_bfloat16
_Static_assert(sizeof(vlk_bfloat16_features) == sizeof(VkPhysicalDeviceShaderBfloat16FeaturesKHR) &&
                   offsetof(vlk_bfloat16_features, type) == offsetof(VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16Type) &&
                   offsetof(vlk_bfloat16_features, matrix) ==
                       offsetof(VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16CooperativeMatrix) &&
                   (int)VLK_TYPE_BFLOAT16_FEATURES == (int)VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR &&
                   (int)VLK_COMPONENT_BFLOAT16 == (int)VK_COMPONENT_TYPE_BFLOAT16_KHR,
               "vlk_bfloat16_features is not VkPhysicalDeviceShaderBfloat16FeaturesKHR");
#endif

/* ---- Features ---- */

typedef struct features {
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT size;
    vlk_coop_features coop;
    vlk_bfloat16_features bf16;
} features;

/* The first missing feature, or NULL. The subgroup size must be selectable, as a tile is split by it. */
static const char *feature_missing(const vlk_physical *p, features *f)
{
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f->v12};
    *f = (features){.v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &f->size},
                    .size = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT, .pNext = &f->coop},
                    .coop = {.sType = (VkStructureType)VLK_TYPE_COOP_FEATURES},
                    .bf16 = {.sType = (VkStructureType)VLK_TYPE_BFLOAT16_FEATURES}};
    if (!vlk_extension_there(p->handle, VLK_COOP_EXTENSION))
        return VLK_COOP_EXTENSION;
    if (!vlk_extension_there(p->handle, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        return VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (vlk_extension_there(p->handle, VLK_BFLOAT16_EXTENSION))
        f->coop.pNext = &f->bf16;
    vkGetPhysicalDeviceFeatures2(p->handle, &all);
    return !f->coop.matrix              ? "cooperativeMatrix"
           : !f->v12.shaderFloat16      ? "shaderFloat16"
           : !f->v12.vulkanMemoryModel  ? "vulkanMemoryModel"
           : !f->size.subgroupSizeControl  ? "subgroupSizeControl"
           : !f->size.computeFullSubgroups ? "computeFullSubgroups"
                                           : NULL;
}

/* The default size of subgroups; 0 if kernels cannot request it. */
static uint32_t subgroup_size(const vlk_physical *p)
{
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT};
    VkPhysicalDeviceSubgroupProperties own = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &control};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &own};
    vkGetPhysicalDeviceProperties2(p->handle, &all);
    const uint32_t size = own.subgroupSize;
    const bool can = control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT && size >= control.minSubgroupSize &&
                     size <= control.maxSubgroupSize && size && KIT_COOP_TEAM / size <= control.maxComputeWorkgroupSubgroups;
    return can ? size : 0;
}

/* ---- The list ---- */

static vlk_coop_properties *list_read(const vlk_physical *p, uint32_t *n)
{
    const vlk_coop_get get = (vlk_coop_get)vkGetInstanceProcAddr(p->instance, VLK_COOP_GET);
    *n = 0;
    if (!get || get(p->handle, n, NULL) != VK_SUCCESS || !*n || *n > LIST_MOST)
        return NULL;
    vlk_coop_properties *all = vlk_alloc(*n * sizeof *all);
    for (uint32_t i = 0; all && i < *n; i++)
        all[i].sType = (VkStructureType)VLK_TYPE_COOP_PROPERTIES;
    if (all && get(p->handle, n, all) != VK_SUCCESS) {
        vlk_free(all);
        return NULL;
    }
    return all;
}

/* The size for operands of a type. llvmpipe (Mesa 26.2) lists 8x8x8 for all subgroup sizes, and crashes unless it is 8. */
static kit_coop size_choose(const vlk_physical *p, const vlk_coop_properties *all, uint32_t n, int32_t component, uint32_t lanes,
                            char why[KIT_COOP_WHY])
{
    kit_coop *size = vlk_alloc(n * sizeof *size), best = {0};
    size_t kept = 0;
    for (uint32_t i = 0; size && i < n; i++)
        if (all[i].left == component && all[i].right == component && all[i].addend == VLK_COMPONENT_FLOAT32 &&
            all[i].result == VLK_COMPONENT_FLOAT32 && !all[i].saturates && all[i].scope == VLK_SCOPE_SUBGROUP &&
            (!p->ends_loops || all[i].rows == lanes))
            size[kept++] = (kit_coop){all[i].rows, all[i].cols, all[i].terms};
    if (size)
        best = kit_coop_choose(size, kept, lanes, why);
    vlk_free(size);
    return best;
}

static void size_tell(const vlk_physical *p, const char *type, const kit_coop *size, uint32_t lanes, const char *why)
{
    if (size->rows)
        vlk_host->log(3, VLK_WHO, "%.80s: products of %s use cooperative matrices of %ux%ux%u, subgroups of %u", p->properties.deviceName,
                      type, size->rows, size->cols, size->terms, lanes);
    else
        vlk_host->log(3, VLK_WHO, "%.80s: products of %s use no cooperative matrices: %s", p->properties.deviceName, type, why);
}

/* The reason to use none, or NULL. */
static const char *reason_find(const vlk_physical *p, features *f)
{
    const char *option = vlk_option("MMA");
    if (option && *option == '0')
        return "MMA=0";
    return p->lanes && !option ? "this is a software driver (MMA=1: there too)" : feature_missing(p, f);
}

void vlk_coop_find(const vlk_physical *p, kit_target *target)
{
    char why[KIT_COOP_WHY] = "out of memory";
    uint32_t n = 0;
    features f;
    const char *lacks = reason_find(p, &f);
    const uint32_t lanes = lacks ? 0 : subgroup_size(p);
    vlk_coop_properties *all = lanes ? list_read(p, &n) : NULL;
    if (!all) {
        vlk_host->log(3, VLK_WHO, "%.80s: no cooperative matrices: %s", p->properties.deviceName,
                      lacks ? lacks : lanes ? "the driver's list of them cannot be read" : "the size of subgroups cannot be asked for");
        return;
    }
    target->coop[KIT_COOP_F16] = size_choose(p, all, n, VLK_COMPONENT_FLOAT16, lanes, why);
    size_tell(p, "f16", &target->coop[KIT_COOP_F16], lanes, why);
    if (f.bf16.type && f.bf16.matrix) {
        target->coop[KIT_COOP_BF16] = size_choose(p, all, n, VLK_COMPONENT_BFLOAT16, lanes, why);
        size_tell(p, "bf16", &target->coop[KIT_COOP_BF16], lanes, why);
    } else {
        size_tell(p, "bf16", &target->coop[KIT_COOP_BF16], lanes, "shaderBFloat16CooperativeMatrix is not there");
    }
    target->coop_lanes = target->coop[KIT_COOP_F16].rows || target->coop[KIT_COOP_BF16].rows ? lanes : 0;
    vlk_free(all);
}
