/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VK_KHR_cooperative_matrix and the needed part of VK_KHR_shader_bfloat16, from the specification: Debian 12's headers (1.3.239) are
 * older. vk_coop.c compares them with the headers that have them.
 */
#ifndef YOKE_BACKENDS_VULKAN_VK_COOP_H
#define YOKE_BACKENDS_VULKAN_VK_COOP_H

#include "backends/vulkan/vlk.h"

#define VLK_COOP_EXTENSION "VK_KHR_cooperative_matrix"
#define VLK_BFLOAT16_EXTENSION "VK_KHR_shader_bfloat16"
#define VLK_COOP_GET "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"

enum { /* values of VkStructureType */
    VLK_TYPE_BFLOAT16_FEATURES = 1000141000,
    VLK_TYPE_COOP_FEATURES = 1000506000,
    VLK_TYPE_COOP_PROPERTIES = 1000506001,
};
enum { VLK_COMPONENT_FLOAT16 = 0, VLK_COMPONENT_FLOAT32 = 1, VLK_COMPONENT_BFLOAT16 = 1000141000 }; /* VkComponentTypeKHR */
enum { VLK_SCOPE_SUBGROUP = 3 };                                                                   /* VkScopeKHR */

typedef struct vlk_coop_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 matrix, robust;
} vlk_coop_features;

typedef struct vlk_bfloat16_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 type, dot_product, matrix;
} vlk_bfloat16_features;

typedef struct vlk_coop_properties {
    VkStructureType sType;
    void *pNext;
    uint32_t rows, cols, terms;
    int32_t left, right, addend, result; /* VLK_COMPONENT_* */
    VkBool32 saturates;
    int32_t scope;
} vlk_coop_properties;

typedef VkResult(VKAPI_PTR *vlk_coop_get)(VkPhysicalDevice, uint32_t *, vlk_coop_properties *);

#endif
