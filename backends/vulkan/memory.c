/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: an allocation each, whose address kernels are given. Where host and device share memory the host sees them. */
#include "backends/vulkan/vlk.h"

static VkResult memory_bind(yk_device *dev, uint32_t type, vlk_memory *m)
{
    VkMemoryRequirements need;
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    vkGetBufferMemoryRequirements(dev->handle, m->buffer, &need);
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = need.size,
                                       .memoryTypeIndex = type};
    VkResult result = vkAllocateMemory(dev->handle, &info, NULL, &m->memory);
    if (result == VK_SUCCESS)
        result = vkBindBufferMemory(dev->handle, m->buffer, m->memory, 0);
    return result;
}

static VkResult memory_make(yk_device *dev, bool staging, vlk_memory *m)
{
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = m->bytes,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
                                     .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    VkBufferDeviceAddressInfo which = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
    VkResult result = vkCreateBuffer(dev->handle, &info, NULL, &m->buffer);
    if (result == VK_SUCCESS)
        result = memory_bind(dev, staging ? dev->physical->staging_type : dev->physical->memory_type, m);
    if (result == VK_SUCCESS && (staging || dev->physical->visible))
        result = vkMapMemory(dev->handle, m->memory, 0, VK_WHOLE_SIZE, 0, &m->host);
    if (result != VK_SUCCESS)
        return result;
    which.buffer = m->buffer;
    m->address = vkGetBufferDeviceAddress(dev->handle, &which);
    return VK_SUCCESS;
}

yk_status vlk_memory_new(yk_device *dev, uint64_t bytes, bool staging, vlk_memory *m, const char *what)
{
    *m = (vlk_memory){.bytes = (bytes ? bytes + 15 : 16) / 16 * 16};
    if (bytes > dev->physical->max_alloc) {
        vlk_host->fail(VLK_WHO, "%s of %llu bytes: this device allows %llu at most", what, (unsigned long long)bytes,
                       (unsigned long long)dev->physical->max_alloc);
        return YK_E_MEM;
    }
    const VkResult result = memory_make(dev, staging, m);
    if (result == VK_SUCCESS)
        return YK_OK;
    vlk_memory_free(dev, m);
    vlk_host->fail(VLK_WHO, "%s of %llu bytes: %s", what, (unsigned long long)bytes, vlk_result_name(result));
    return vlk_result_status(result) == YK_E_DEVICE_LOST ? YK_E_DEVICE_LOST : YK_E_MEM;
}

void vlk_memory_free(yk_device *dev, vlk_memory *m)
{
    vkDestroyBuffer(dev->handle, m->buffer, NULL);
    vkFreeMemory(dev->handle, m->memory, NULL);
    *m = (vlk_memory){0};
}

yk_status vlk_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    if (desc->flags & YK_BUF_EXPORT) {
        vlk_host->fail(VLK_WHO, "buffers of this plugin are not exported");
        return YK_E_UNSUPPORTED;
    }
    yk_buffer *buffer = vlk_alloc(sizeof *buffer);
    if (!buffer)
        return YK_E_MEM;
    buffer->dev = dev;
    buffer->bytes = desc->bytes;
    const yk_status s = vlk_memory_new(dev, desc->bytes, false, &buffer->memory, "a buffer");
    if (s)
        vlk_free(buffer);
    else
        *out = buffer;
    return s;
}

void vlk_buffer_free(yk_buffer *buffer)
{
    if (!buffer)
        return;
    vlk_memory_free(buffer->dev, &buffer->memory);
    vlk_free(buffer);
}

void *vlk_buffer_map(yk_buffer *buffer)
{
    return buffer->memory.host;
}

uint64_t vlk_buffer_bytes(const yk_buffer *buffer)
{
    return buffer->bytes;
}
