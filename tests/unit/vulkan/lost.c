/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before the Vulkan loader (LD_PRELOAD), it makes a device fail as GPUs do: the submission of number YOKE_TEST_VULKAN_LOST, and all
 * after it, are VK_ERROR_DEVICE_LOST, or so is waiting for it (YOKE_TEST_VULKAN_LOST_WAIT); allocations of more than
 * YOKE_TEST_VULKAN_MEMORY bytes altogether are VK_ERROR_OUT_OF_DEVICE_MEMORY; with YOKE_TEST_VULKAN_NAN the kernels of
 * products begin their sums with NaN; with YOKE_TEST_VULKAN_BUDGET=N the device says that N bytes of its memory are free; with
 * YOKE_TEST_VULKAN_CACHE=N a pipeline cache has N bytes behind its header, and what it begins with is said and looked at; with
 * YOKE_TEST_VULKAN_SIZES allocations are said that import nothing. With
 * VK_FAKE_UUID=N the device is a card, every byte of whose own number is N, with VK_FAKE_BUS=N one in place 0000:N:02.1 of the PCI bus
 * (named as the settings of drivers, for each of which answers about devices are kept).
 * For tests/cts/vulkan_faults.sh and same_card.sh.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define SHOWN __attribute__((visibility("default")))

static atomic_ullong submitted, waited, allocated;

/* The number in the environment, or one that is never reached. */
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
    if (atomic_fetch_add(&allocated, info->allocationSize) + info->allocationSize > number_of("YOKE_TEST_VULKAN_MEMORY")) {
        atomic_fetch_sub(&allocated, info->allocationSize); // a refused request takes no memory from the next one
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    real_find(&real, "vkAllocateMemory");
    if (getenv("YOKE_TEST_VULKAN_SIZES") && info->pNext && !((const VkBaseInStructure *)info->pNext)->pNext)
        fprintf(stderr, "lost: an allocation of %llu bytes\n", (unsigned long long)info->allocationSize);
    return real(device, info, own, memory);
}

enum { CACHE_HEAD = 32, CACHE_BYTE = 0x5a };

SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkGetPipelineCacheData(VkDevice device, VkPipelineCache cache, size_t *bytes, void *data)
{
    PFN_vkGetPipelineCacheData real;
    size_t head = CACHE_HEAD;
    real_find(&real, "vkGetPipelineCacheData");
    if (!getenv("YOKE_TEST_VULKAN_CACHE"))
        return real(device, cache, bytes, data);
    if (data && (real(device, cache, &head, data) != VK_SUCCESS || head != CACHE_HEAD))
        abort();
    if (data)
        memset((char *)data + CACHE_HEAD, CACHE_BYTE, *bytes - CACHE_HEAD);
    *bytes = CACHE_HEAD + number_of("YOKE_TEST_VULKAN_CACHE");
    return VK_SUCCESS;
}

SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkCreatePipelineCache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                                                           const VkAllocationCallbacks *own, VkPipelineCache *cache)
{
    PFN_vkCreatePipelineCache real;
    VkPipelineCacheCreateInfo head = *info;
    real_find(&real, "vkCreatePipelineCache");
    if (getenv("YOKE_TEST_VULKAN_CACHE") && info->initialDataSize) {
        fprintf(stderr, "lost: a cache begins with %zu bytes\n", info->initialDataSize);
        for (size_t i = CACHE_HEAD; i < info->initialDataSize; i++)
            if (((const unsigned char *)info->pInitialData)[i] != CACHE_BYTE)
                abort();
        head.initialDataSize = CACHE_HEAD;
    }
    return real(device, &head, own, cache);
}

static int is_gpu(void)
{
    return getenv("VK_FAKE_UUID") || getenv("VK_FAKE_BUS");
}

SHOWN VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties *own)
{
    PFN_vkGetPhysicalDeviceProperties real;
    real_find(&real, "vkGetPhysicalDeviceProperties");
    real(device, own);
    if (is_gpu())
        own->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

/* The last extensions, which nobody asks for here, are of other names. */
SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char *layer, uint32_t *n,
                                                                          VkExtensionProperties *all)
{
    PFN_vkEnumerateDeviceExtensionProperties real;
    real_find(&real, "vkEnumerateDeviceExtensionProperties");
    const VkResult result = real(device, layer, n, all);
    if (all && *n && getenv("VK_FAKE_BUS"))
        memcpy(all[*n - 1].extensionName, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME, sizeof VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    if (all && *n > 1 && getenv("YOKE_TEST_VULKAN_BUDGET"))
        memcpy(all[*n - 2].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, sizeof VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    return result;
}

SHOWN VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *own)
{
    PFN_vkGetPhysicalDeviceMemoryProperties2 real;
    real_find(&real, "vkGetPhysicalDeviceMemoryProperties2");
    real(device, own);
    for (VkBaseOutStructure *next = own->pNext; next; next = next->pNext) {
        VkPhysicalDeviceMemoryBudgetPropertiesEXT *const budget = (VkPhysicalDeviceMemoryBudgetPropertiesEXT *)next;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT && getenv("YOKE_TEST_VULKAN_BUDGET"))
            for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) {
                budget->heapUsage[i] = 1000;
                budget->heapBudget[i] = number_of("YOKE_TEST_VULKAN_BUDGET") + budget->heapUsage[i];
            }
    }
}

SHOWN VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *own)
{
    PFN_vkGetPhysicalDeviceProperties2 real;
    real_find(&real, "vkGetPhysicalDeviceProperties2");
    real(device, own);
    for (VkBaseOutStructure *next = own->pNext; next; next = next->pNext) {
        VkPhysicalDevicePCIBusInfoPropertiesEXT *const pci = (VkPhysicalDevicePCIBusInfoPropertiesEXT *)next;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES && getenv("VK_FAKE_UUID"))
            memset(((VkPhysicalDeviceIDProperties *)next)->deviceUUID, (int)number_of("VK_FAKE_UUID"), VK_UUID_SIZE);
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT && getenv("VK_FAKE_BUS"))
            pci->pciDomain = 0, pci->pciBus = (uint32_t)number_of("VK_FAKE_BUS"), pci->pciDevice = 2, pci->pciFunction = 1;
    }
}

/* In a kernel in which a subgroup passes numbers round, a product's on a software driver, every 0 of the floating-point type becomes a NaN:
 * constants are words of their own. */
static void zeros_spoil(uint32_t *word, size_t n)
{
    enum { HEAD = 5, OP_TYPE_FLOAT = 22, OP_CONSTANT = 43, OP_BROADCAST = 337 };
    uint32_t type = 0;
    size_t zero = 0;
    for (size_t i = HEAD; i < n && word[i] >> 16; i += word[i] >> 16) {
        const uint32_t op = word[i] & 0xffff;
        if (op == OP_TYPE_FLOAT)
            type = word[i + 1];
        else if (op == OP_CONSTANT && type && word[i + 1] == type && word[i + 3] == 0)
            zero = i + 3;
        else if (op == OP_BROADCAST && zero)
            word[zero] = 0x7fc00000;
    }
}

SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                          const VkAllocationCallbacks *own, VkShaderModule *module)
{
    PFN_vkCreateShaderModule real;
    real_find(&real, "vkCreateShaderModule");
    if (!getenv("YOKE_TEST_VULKAN_NAN"))
        return real(device, info, own, module);
    uint32_t *copy = malloc(info->codeSize);
    if (!copy)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(copy, info->pCode, info->codeSize);
    zeros_spoil(copy, info->codeSize / sizeof *copy);
    VkShaderModuleCreateInfo spoilt = *info;
    spoilt.pCode = copy;
    const VkResult result = real(device, &spoilt, own, module);
    free(copy);
    return result;
}
