/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of devices of all Vulkan drivers that can run the kit's kernels. The host calls it through the table in vk_plugin.c, in any
 * thread. No driver, no device: both are normal. A device that lacks a feature is excluded, and the log names the feature.
 * plugins/kit/devices.h tells when drivers are loaded.
 */
#include "backends/vulkan/vlk.h"

#include <stdio.h>
#include <unistd.h>

#include "plugins/kit/devices.h"
#include "plugins/kit/plugin.h"

#define NONE UINT32_MAX
#define LANES_MOST 16u /* because the translator unrolls loops over lanes */

static bool devices_load(void);

static VkInstance instance;
static atomic_bool instance_kept; /* a device was left behind: its driver stays loaded */
static vlk_physical physical[KIT_DEVICES]; /* filled once the drivers are loaded */
static kit_devices list = {.survey = vlk_survey,
                           .find_key = vlk_probe_key,
                           .drivers_known = vlk_probe_known,
                           .load = devices_load,
                           .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Features of a device ---- */

typedef struct features {
    VkPhysicalDeviceFeatures2 all;
    VkPhysicalDevice16BitStorageFeatures wide;
    VkPhysicalDeviceVulkan12Features v12;
} features;

static const char *feature_missing(VkPhysicalDevice handle)
{
    features f = {.all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2},
                  .wide = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES},
                  .v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES}};
    f.all.pNext = &f.wide;
    f.wide.pNext = &f.v12;
    vkGetPhysicalDeviceFeatures2(handle, &f.all);
    return !f.all.features.shaderInt64                ? "shaderInt64"
           : !f.wide.storageBuffer16BitAccess         ? "storageBuffer16BitAccess"
           : !f.v12.storageBuffer8BitAccess           ? "storageBuffer8BitAccess"
           : !f.v12.bufferDeviceAddress               ? "bufferDeviceAddress"
           : !f.v12.timelineSemaphore                 ? "timelineSemaphore"
                                                      : NULL;
}

/* A queue family, preferably one without graphics: it runs beside a desktop. */
static uint32_t family_find(VkPhysicalDevice handle)
{
    VkQueueFamilyProperties family[16];
    uint32_t n = 16, found = NONE;
    vkGetPhysicalDeviceQueueFamilyProperties(handle, &n, family);
    for (uint32_t i = n; i-- > 0;)
        if ((family[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && (found == NONE || !(family[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            found = i;
    return found;
}

/* The first memory type with all flags of `wanted`, preferably with those of `better` too. */
static uint32_t type_find(const VkPhysicalDeviceMemoryProperties *memory, VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags better)
{
    uint32_t found = NONE;
    for (uint32_t i = memory->memoryTypeCount; i-- > 0;) {
        const VkMemoryPropertyFlags flags = memory->memoryTypes[i].propertyFlags;
        const bool is_better = found == NONE || (flags & better) == better ||
                               (memory->memoryTypes[found].propertyFlags & better) != better;
        if ((flags & wanted) == wanted && is_better)
            found = i;
    }
    return found;
}

/* Places buffers in host-visible memory if host and device share memory, unless STAGING=1 denies that. */
static bool memory_choose(vlk_physical *p)
{
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const bool shares = p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                        p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const char *staging = vlk_option("STAGING");
    const uint32_t both = type_find(&p->memory, host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    p->staging_type = type_find(&p->memory, host, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    p->visible = shares && both != NONE && !(staging && *staging == '1');
    p->memory_type = p->visible ? both : type_find(&p->memory, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0);
    return p->memory_type != NONE && p->staging_type != NONE;
}

/*
 * Lanes of a software driver whose subgroups have one size: its kernels get the shape for lanes of a vector. No timing decides that,
 * unlike a GPU's families (decision 0012): its barriers are slow by design. SHAPE=groups selects a GPU's kernels.
 */
static uint32_t lanes_find(const vlk_physical *p)
{
    const VkSubgroupFeatureFlags need = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT;
    const char *shape = vlk_option("SHAPE");
    VkPhysicalDeviceSubgroupProperties own = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &own};
    vkGetPhysicalDeviceProperties2(p->handle, &all);
    const bool can = (own.supportedOperations & need) == need && own.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
    const bool is_cpu = p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    return can && is_cpu && own.subgroupSize <= LANES_MOST && !(shape && !strcmp(shape, "groups")) ? own.subgroupSize : 0;
}

static void traits_read(vlk_physical *p, char locality[64])
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceVulkan12Properties v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceIDProperties own = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, .pNext = &v12};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT import = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &own};
    const bool has_pci = vlk_extension_there(p->handle, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME),
               has_import = vlk_extension_there(p->handle, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    if (has_pci)
        v12.pNext = &pci;
    import.pNext = v12.pNext;
    if (has_import)
        v12.pNext = &import;
    vkGetPhysicalDeviceProperties2(p->handle, &all);
    p->keeps_nan = v12.shaderSignedZeroInfNanPreserveFloat32;
    p->ends_loops = v12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
    p->lanes = lanes_find(p);
    p->imports = has_import && p->visible && import.minImportedHostPointerAlignment <= VLK_PAGE;
    p->budget = vlk_extension_there(p->handle, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (has_pci)
        snprintf(locality, 64, "pci:%04x:%02x:%02x.%x", pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction);
    else if (p->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU)
        kit_uuid_text(own.deviceUUID, locality);
}

static bool device_usable(vlk_physical *p)
{
    const char *missing;
    vlk_limits_read(p);
    if (p->properties.apiVersion < VK_API_VERSION_1_2)
        missing = "Vulkan 1.2";
    else if (!(missing = feature_missing(p->handle)) && (p->family = family_find(p->handle)) == NONE)
        missing = "a queue that computes";
    if (!missing && p->max_group < KIT_GROUP_LEAST)
        missing = "groups of 128 work-items";
    if (!missing && p->max_local < KIT_LOCAL_LEAST / 2)
        missing = "16 KiB of memory that a group shares";
    if (!missing && !memory_choose(p))
        missing = "memory that the host sees";
    if (missing)
        vlk_host->log(2, VLK_WHO, "%s is not used: it lacks %s", p->properties.deviceName, missing);
    return !missing;
}

/* ---- The list ---- */

static void caps_fill(const vlk_physical *p, yk_device_caps *c);

static void list_device(VkPhysicalDevice handle)
{
    vlk_physical *p = &physical[list.n];
    *p = (vlk_physical){.instance = instance, .handle = handle};
    vkGetPhysicalDeviceProperties(handle, &p->properties);
    vkGetPhysicalDeviceMemoryProperties(handle, &p->memory);
    if (!device_usable(p))
        return;
    yk_device_caps caps = {.size = sizeof caps};
    traits_read(p, caps.locality);
    caps_fill(p, &caps);
    list.caps[list.n++] = caps;
}

static void list_drivers(void)
{
    const VkApplicationInfo own = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "yoke",
                                   .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &own};
    VkPhysicalDevice handle[KIT_DEVICES];
    uint32_t n = KIT_DEVICES;
    list.n = 0;
    const VkResult result = vkCreateInstance(&info, NULL, &instance);
    if (result != VK_SUCCESS) {
        instance = NULL;
        vlk_host->log(3, VLK_WHO, "no driver: %s", vlk_result_name(result));
        return;
    }
    const VkResult found = vkEnumeratePhysicalDevices(instance, &n, handle);
    for (uint32_t i = 0; (found == VK_SUCCESS || found == VK_INCOMPLETE) && i < n; i++)
        list_device(handle[i]);
}

/* An answer with free memory is not stored, as that number changes every time. */
static bool devices_load(void)
{
    bool keeps = true;
    vlk_probe_drivers();
    list_drivers();
    vlk_probe_done();
    for (uint32_t i = 0; i < list.n; i++)
        keeps = keeps && !physical[i].budget;
    return keeps;
}

void vlk_instance_keep(void)
{
    atomic_store(&instance_kept, true);
}

void vlk_devices_forget(void)
{
    if (instance && !atomic_load(&instance_kept))
        vkDestroyInstance(instance, NULL);
    instance = NULL;
    kit_devices_forget(&list);
}

yk_status vlk_device_count(uint32_t *n)
{
    kit_devices_need(&list, false);
    *n = list.n;
    return YK_OK;
}

/* ---- Capabilities ---- */

static void memory_free(const vlk_physical *p, yk_device_caps *c)
{
    const uint32_t heap = p->memory.memoryTypes[p->memory_type].heapIndex;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
    if (!p->budget)
        return;
    vkGetPhysicalDeviceMemoryProperties2(p->handle, &all);
    c->mem_free = budget.heapBudget[heap] > budget.heapUsage[heap] ? budget.heapBudget[heap] - budget.heapUsage[heap] : 0;
}

static void caps_fill(const vlk_physical *p, yk_device_caps *c)
{
    const uint32_t heap = p->memory.memoryTypes[p->memory_type].heapIndex, version = p->properties.apiVersion;
    const bool cpu = p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    snprintf(c->name, sizeof c->name, "%.95s", p->properties.deviceName);
    const int n = snprintf(c->isa, sizeof c->isa, "Vulkan %u.%u, %s", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                           p->visible ? "memory in place" : "memory of its own");
    if (p->lanes)
        snprintf(c->isa + n, sizeof c->isa - (size_t)n, ", subgroups of %u", p->lanes);
    c->flags = YK_CAP_DETERMINISTIC | YK_CAP_LONG_SUMS | (cpu ? YK_CAP_CPU : 0u) | (p->visible ? YK_CAP_HOST_VISIBLE : 0u) |
               (p->imports ? YK_CAP_WRAP : 0u);
    c->mem_total = p->memory.memoryHeaps[heap].size;
    c->max_alloc = p->max_alloc < c->mem_total ? p->max_alloc : c->mem_total;
    c->align = 64;
    c->units = cpu ? (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) : 1;
    c->store = KIT_STORE;
    c->compute = KIT_COMPUTE;
}

yk_status vlk_device_caps(uint32_t i, yk_device_caps *caps)
{
    const yk_status s = kit_devices_find(&list, i, false);
    if (s)
        return s;
    yk_device_caps own = list.caps[i];
    if (list.loaded)
        memory_free(&physical[i], &own);
    kit_caps_give(caps, &own);
    return YK_OK;
}

yk_status vlk_device_open(uint32_t i, yk_device **dev)
{
    const yk_status s = kit_devices_find(&list, i, true);
    if (s)
        return s;
    return vlk_device_make(&physical[i], dev);
}
