/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submissions to the driver's queue: a thread takes a lane (commands, a timeline semaphore, staging memory, scratch memory), submits, waits
 * for the semaphore, and returns the lane. So there are as many lanes as threads that work at the same time. vk_program.c and copies
 * (vk_queue.c) use it, in the queues' threads; vk_device.c frees the lanes.
 */
#include "backends/vulkan/vlk.h"

#include <stdio.h>

#define STAGING (4u << 20)

/* ---- Lanes ---- */

static VkResult lane_start(yk_device *dev, vlk_lane *lane)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = dev->physical->family};
    const VkSemaphoreTypeCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                                .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline};
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    VkResult result = vkCreateCommandPool(dev->handle, &pool, NULL, &lane->pool);
    if (result == VK_SUCCESS)
        result = vkCreateSemaphore(dev->handle, &semaphore, NULL, &lane->done);
    commands.commandPool = lane->pool;
    if (result == VK_SUCCESS)
        result = vkAllocateCommandBuffers(dev->handle, &commands, &lane->copy);
    return result;
}

static void lane_free(yk_device *dev, vlk_lane *lane)
{
    vlk_memory_free(dev, &lane->staging);
    vlk_memory_free(dev, &lane->scratch);
    vkDestroySemaphore(dev->handle, lane->done, NULL);
    vkDestroyCommandPool(dev->handle, lane->pool, NULL);
    vlk_free(lane);
}

yk_status vlk_lane_take(yk_device *dev, vlk_lane **out, char why[KIT_WHY])
{
    pthread_mutex_lock(&dev->lock);
    vlk_lane *lane = dev->lane;
    if (lane)
        dev->lane = lane->next;
    pthread_mutex_unlock(&dev->lock);
    *out = lane;
    if (lane)
        return YK_OK;
    lane = vlk_alloc(sizeof *lane);
    const VkResult result = lane ? lane_start(dev, lane) : VK_ERROR_OUT_OF_HOST_MEMORY;
    if (result == VK_SUCCESS) {
        *out = lane;
        return YK_OK;
    }
    snprintf(why, KIT_WHY, "commands of a queue: %s", vlk_result_name(result));
    if (lane)
        lane_free(dev, lane);
    return vlk_result_status(result);
}

void vlk_lane_give(yk_device *dev, vlk_lane *lane)
{
    pthread_mutex_lock(&dev->lock);
    lane->next = dev->lane;
    dev->lane = lane;
    pthread_mutex_unlock(&dev->lock);
}

void vlk_lanes_free(yk_device *dev)
{
    while (dev->lane) {
        vlk_lane *lane = dev->lane;
        dev->lane = lane->next;
        lane_free(dev, lane);
    }
}

/* ---- Submitting ---- */

void vlk_barrier(VkCommandBuffer commands)
{
    const VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                 .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                 .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    vkCmdPipelineBarrier(commands, work, work, 0, 1, &all, 0, NULL, 0, NULL);
}

VkResult vlk_lane_run(yk_device *dev, vlk_lane *lane, VkCommandBuffer commands)
{
    const uint64_t point = ++lane->point;
    const VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                    .signalSemaphoreValueCount = 1,
                                                    .pSignalSemaphoreValues = &point};
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .pNext = &timeline,
                                 .commandBufferCount = 1,
                                 .pCommandBuffers = &commands,
                                 .signalSemaphoreCount = 1,
                                 .pSignalSemaphores = &lane->done};
    const VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &lane->done,
                                      .pValues = &point};
    pthread_mutex_lock(&dev->queue_lock);
    VkResult result = vkQueueSubmit(dev->queue, 1, &submit, VK_NULL_HANDLE);
    pthread_mutex_unlock(&dev->queue_lock);
    if (result == VK_SUCCESS)
        result = vkWaitSemaphores(dev->handle, &wait, UINT64_MAX);
    return result;
}

/* ---- Copies ---- */

static VkResult region_copy(yk_device *dev, vlk_lane *lane, VkBuffer from, uint64_t from_at, VkBuffer to, uint64_t to_at, uint64_t bytes)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    const VkBufferCopy region = {from_at, to_at, bytes};
    VkResult result = vkBeginCommandBuffer(lane->copy, &begin);
    if (result != VK_SUCCESS)
        return result;
    vlk_barrier(lane->copy);
    vkCmdCopyBuffer(lane->copy, from, to, 1, &region);
    vlk_barrier(lane->copy);
    result = vkEndCommandBuffer(lane->copy);
    return result == VK_SUCCESS ? vlk_lane_run(dev, lane, lane->copy) : result;
}

/* Copies between host memory and a buffer that the host does not see, in parts. */
static VkResult host_copy(yk_device *dev, vlk_lane *lane, const yk_copy *c)
{
    VkResult result = VK_SUCCESS;
    for (uint64_t at = 0; at < c->bytes && result == VK_SUCCESS; at += STAGING) {
        const uint64_t part = c->bytes - at < STAGING ? c->bytes - at : STAGING;
        if (c->src) {
            result = region_copy(dev, lane, c->src->memory.buffer, c->src_offset + at, lane->staging.buffer, 0, part);
            if (result == VK_SUCCESS)
                memcpy((char *)c->dst_host + at, lane->staging.host, part);
        } else {
            memcpy(lane->staging.host, (const char *)c->src_host + at, part);
            result = region_copy(dev, lane, lane->staging.buffer, 0, c->dst->memory.buffer, c->dst_offset + at, part);
        }
    }
    return result;
}

/* Host address of an end of a copy, or NULL. */
static char *end_seen(const yk_buffer *buffer, uint64_t offset, const void *host)
{
    if (!buffer)
        return (char *)(uintptr_t)host;
    return buffer->memory.host ? (char *)buffer->memory.host + offset : NULL;
}

yk_status vlk_copy_run(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    const char *from = end_seen(c->src, c->src_offset, c->src_host);
    char *to = end_seen(c->dst, c->dst_offset, c->dst_host);
    vlk_lane *lane;
    VkResult result;
    if (from && to) {
        memcpy(to, from, c->bytes);
        return YK_OK;
    }
    yk_status s = vlk_lane_take(dev, &lane, why);
    if (s)
        return s;
    if (!lane->staging.buffer && !(c->src && c->dst) && (s = vlk_memory_new(dev, STAGING, true, &lane->staging, "memory for copies")))
        snprintf(why, KIT_WHY, "%.80s: no memory for copies between host and device (%u bytes)", dev->physical->properties.deviceName,
                 STAGING);
    if (!s) {
        result = !c->src || !c->dst ? host_copy(dev, lane, c)
                                    : region_copy(dev, lane, c->src->memory.buffer, c->src_offset, c->dst->memory.buffer,
                                                  c->dst_offset, c->bytes);
        if ((s = vlk_result_status(result)) != YK_OK)
            snprintf(why, KIT_WHY, "%.80s: %s in a copy of %llu bytes", dev->physical->properties.deviceName, vlk_result_name(result),
                     (unsigned long long)c->bytes);
    }
    vlk_lane_give(dev, lane);
    return s;
}
