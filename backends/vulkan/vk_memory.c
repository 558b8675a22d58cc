/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the Vulkan plugin: one allocation each, whose address kernels get. The host calls it through the table in vk_plugin.c, in any
 * thread. Sizes are bytes. If host and device share memory, the host sees buffers, and a buffer can wrap host memory
 * (VK_EXT_external_memory_host). Buffers are not exported, and the device limits their size.
 */
#include "backends/vulkan/vlk.h"

#define BUFFER_USAGE                                                                                                               \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |                     \
     VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT)
#define HOST_TYPE VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT

/* Rounds a size up to an eighth of a power of two, at most an eighth more. So freed blocks fit later allocations, and buffers of growing
 * sizes do not fragment a heap. */
static uint64_t size_class(uint64_t bytes)
{
    uint64_t step = VLK_PAGE;
    while (bytes / step >= 16)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

/* Allocates the rounded size, or the needed size if memory is short. */
static VkResult memory_allocate(const yk_device *dev, VkMemoryAllocateInfo info, VkDeviceMemory *memory)
{
    const uint64_t need = info.allocationSize;
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    info.allocationSize = size_class(need);
    if (info.allocationSize <= dev->physical->max_alloc)
        result = vkAllocateMemory(dev->handle, &info, NULL, memory);
    info.allocationSize = need;
    return result == VK_SUCCESS ? result : vkAllocateMemory(dev->handle, &info, NULL, memory);
}

/* Allocates memory of that type, or imports memory (next); at least `bytes`, even if the buffer asks for less. */
static VkResult memory_bind(yk_device *dev, uint32_t type, const void *next, uint64_t bytes, vlk_memory *m)
{
    VkMemoryRequirements need;
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .pNext = next,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    vkGetBufferMemoryRequirements(dev->handle, m->buffer, &need);
    if (next && (need.size > bytes || !(need.memoryTypeBits >> type & 1)))
        return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = next ? bytes : need.size,
                                       .memoryTypeIndex = type};
    VkResult result =
        next ? vkAllocateMemory(dev->handle, &info, NULL, &m->memory) : memory_allocate(dev, info, &m->memory);
    if (result == VK_SUCCESS)
        result = vkBindBufferMemory(dev->handle, m->buffer, m->memory, 0);
    return result;
}

static VkResult memory_buffer(yk_device *dev, const void *next, vlk_memory *m)
{
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .pNext = next,
                                     .size = m->bytes,
                                     .usage = BUFFER_USAGE,
                                     .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    return vkCreateBuffer(dev->handle, &info, NULL, &m->buffer);
}

static void memory_address(yk_device *dev, vlk_memory *m)
{
    const VkBufferDeviceAddressInfo which = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = m->buffer};
    m->address = vkGetBufferDeviceAddress(dev->handle, &which);
}

static VkResult memory_make(yk_device *dev, bool staging, vlk_memory *m)
{
    VkResult result = memory_buffer(dev, NULL, m);
    if (result == VK_SUCCESS)
        result = memory_bind(dev, staging ? dev->physical->staging_type : dev->physical->memory_type, NULL, 0, m);
    if (result == VK_SUCCESS && (staging || dev->physical->visible))
        result = vkMapMemory(dev->handle, m->memory, 0, VK_WHOLE_SIZE, 0, &m->host);
    if (result == VK_SUCCESS)
        memory_address(dev, m);
    return result;
}

/* Finds a memory type that can import this host memory coherently. */
static VkResult import_type(yk_device *dev, const void *host, uint32_t *type)
{
    const VkMemoryPropertyFlags must = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryHostPointerPropertiesEXT can = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    const VkPhysicalDeviceMemoryProperties *memory = &dev->physical->memory;
    const VkResult result = dev->host_properties(dev->handle, HOST_TYPE, host, &can);
    if (result != VK_SUCCESS)
        return result;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++)
        if (can.memoryTypeBits >> i & 1 && (memory->memoryTypes[i].propertyFlags & must) == must) {
            *type = i;
            return VK_SUCCESS;
        }
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
}

/* Imports whole pages: the last one is mapped even if other data share it. */
static VkResult memory_import(yk_device *dev, void *host, vlk_memory *m)
{
    const VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                       .handleTypes = HOST_TYPE};
    const VkImportMemoryHostPointerInfoEXT import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                                     .handleType = HOST_TYPE,
                                                     .pHostPointer = host};
    uint32_t type = 0;
    VkResult result = import_type(dev, host, &type);
    if (result == VK_SUCCESS)
        result = memory_buffer(dev, &external, m);
    if (result == VK_SUCCESS)
        result = memory_bind(dev, type, &import, (m->bytes + VLK_PAGE - 1) / VLK_PAGE * VLK_PAGE, m);
    if (result == VK_SUCCESS)
        memory_address(dev, m);
    m->host = host;
    return result;
}

static yk_status memory_admit(const yk_device *dev, uint64_t bytes, const char *what)
{
    if (bytes <= dev->physical->max_alloc)
        return YK_OK;
    vlk_host->fail(VLK_WHO, "%s of %llu bytes: this device allows %llu at most", what, (unsigned long long)bytes,
                   (unsigned long long)dev->physical->max_alloc);
    return YK_E_MEM;
}

yk_status vlk_memory_new(yk_device *dev, uint64_t bytes, bool staging, vlk_memory *m, const char *what)
{
    *m = (vlk_memory){.bytes = (bytes ? bytes + 15 : 16) / 16 * 16};
    const yk_status admitted = memory_admit(dev, bytes, what);
    if (admitted)
        return admitted;
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

yk_status vlk_buffer_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **out)
{
    if (!dev->host_properties) {
        vlk_host->fail(VLK_WHO, "this device cannot compute in host memory");
        return YK_E_UNSUPPORTED;
    }
    if (!host || (uintptr_t)host % VLK_PAGE) {
        vlk_host->fail(VLK_WHO, "host memory at %p: expected an address that is a multiple of %u", host, VLK_PAGE);
        return YK_E_ARG;
    }
    const yk_status admitted = memory_admit(dev, bytes, "host memory");
    if (admitted)
        return admitted;
    yk_buffer *buffer = vlk_alloc(sizeof *buffer);
    if (!buffer)
        return YK_E_MEM;
    *buffer = (yk_buffer){.dev = dev, .bytes = bytes, .memory.bytes = bytes ? bytes : 1};
    const VkResult result = memory_import(dev, host, &buffer->memory);
    if (result == VK_SUCCESS) {
        *out = buffer;
        return YK_OK;
    }
    vlk_buffer_free(buffer);
    vlk_host->fail(VLK_WHO, "%llu bytes of host memory: %s", (unsigned long long)bytes, vlk_result_name(result));
    return vlk_result_status(result) == YK_E_DEVICE_LOST ? YK_E_DEVICE_LOST : YK_E_MEM;
}

void vlk_buffer_free(yk_buffer *buffer)
{
    if (!buffer || atomic_load(&buffer->dev->left_behind))
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
