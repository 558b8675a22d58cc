/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's pipeline cache between processes: vk_device.c reads it when a device opens, and writes it when it closes, each in its
 * caller's thread. A driver gets only complete data (the kit's checksum) with its own header: its behaviour on other data is unknown.
 */
#include "backends/vulkan/vlk.h"

#include "plugins/kit/kit_cache.h"

static kit_cache cache_of(void)
{
    return (kit_cache){.host = vlk_host, .plugin = VLK_WHO, .prefix = VLK_WHO};
}

static uint64_t cache_key(const vlk_physical *p)
{
    const uint32_t own[3] = {p->properties.vendorID, p->properties.deviceID, p->properties.driverVersion};
    return kit_hash(kit_hash(KIT_HASH_SEED, own, sizeof own), p->properties.pipelineCacheUUID, VK_UUID_SIZE);
}

/* True if the data begin with this driver's header (VkPipelineCacheHeaderVersionOne) and have more bytes. */
static bool data_fits(const vlk_physical *p, const void *data, size_t bytes)
{
    VkPipelineCacheHeaderVersionOne head;
    if (bytes <= sizeof head)
        return false;
    memcpy(&head, data, sizeof head);
    return head.headerSize >= sizeof head && head.headerSize <= bytes && head.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
           head.vendorID == p->properties.vendorID && head.deviceID == p->properties.deviceID &&
           !memcmp(head.pipelineCacheUUID, p->properties.pipelineCacheUUID, VK_UUID_SIZE);
}

/* Reads stored data, allocated by host->alloc; NULL if none fit. */
static void *data_read(const vlk_physical *p, size_t *bytes)
{
    const kit_cache kept = cache_of();
    void *data = kit_cache_read(&kept, cache_key(p), bytes);
    if (!data || data_fits(p, data, *bytes))
        return data;
    vlk_host->log(2, VLK_WHO, "the kept pipelines are not of %s: compiled anew", p->properties.deviceName);
    kit_cache_drop(&kept, cache_key(p));
    vlk_free(data);
    return NULL;
}

static VkResult cache_make(yk_device *d, size_t *bytes, VkPipelineCache *cache)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    void *data = data_read(d->physical, bytes);
    VkResult result = VK_ERROR_UNKNOWN;
    if (data) {
        info.initialDataSize = *bytes;
        info.pInitialData = data;
        result = vkCreatePipelineCache(d->handle, &info, NULL, cache);
        vlk_free(data);
    }
    if (result == VK_SUCCESS)
        return result;
    *bytes = 0;
    info = (VkPipelineCacheCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    return vkCreatePipelineCache(d->handle, &info, NULL, cache);
}

VkResult vlk_cache_open(yk_device *d)
{
    const VkResult result = cache_make(d, &d->cache_bytes, &d->cache);
    if (result == VK_SUCCESS && d->cache_bytes)
        vlk_host->log(3, VLK_WHO, "%zu bytes of pipelines were kept by another process", d->cache_bytes);
    return result;
}

/* Merges the data that other processes have stored meanwhile. */
static void others_merge(yk_device *d)
{
    VkPipelineCache theirs;
    size_t bytes;
    if (cache_make(d, &bytes, &theirs) != VK_SUCCESS)
        return;
    if (bytes)
        vkMergePipelineCaches(d->handle, d->cache, 1, &theirs);
    vkDestroyPipelineCache(d->handle, theirs, NULL);
}

static void cache_keep(yk_device *d)
{
    const kit_cache kept = cache_of();
    size_t bytes = 0;
    if (vkGetPipelineCacheData(d->handle, d->cache, &bytes, NULL) != VK_SUCCESS || bytes == d->cache_bytes)
        return;
    others_merge(d);
    if (vkGetPipelineCacheData(d->handle, d->cache, &bytes, NULL) != VK_SUCCESS)
        return;
    void *data = vlk_alloc(bytes);
    if (data && vkGetPipelineCacheData(d->handle, d->cache, &bytes, data) == VK_SUCCESS && data_fits(d->physical, data, bytes)) {
        kit_cache_write(&kept, cache_key(d->physical), data, bytes);
        vlk_host->log(3, VLK_WHO, "%zu bytes of pipelines are kept", bytes);
    }
    vlk_free(data);
}

void vlk_cache_close(yk_device *d)
{
    if (!d->cache)
        return;
    cache_keep(d);
    vkDestroyPipelineCache(d->handle, d->cache, NULL);
}
