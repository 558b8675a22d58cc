/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan plugin's functions for the kit's queue, which has a thread per queue: running a program, copying, in that thread. The table in
 * vk_plugin.c makes queues with it.
 */
#include "backends/vulkan/vlk.h"

/* Checks that both ends belong to this device: each device has a separate VkDevice. */
static yk_status queue_admit(yk_device *dev, const yk_submit *s, const yk_copy *c)
{
    if (c && ((c->src && c->src->dev != dev) || (c->dst && c->dst->dev != dev))) {
        vlk_host->fail(VLK_WHO, "a copy from one device to another");
        return YK_E_UNSUPPORTED;
    }
    for (uint32_t i = 0; s && i < s->n_slot; i++)
        if (s->slot[i] && s->slot[i]->dev != dev) {
            vlk_host->fail(VLK_WHO, "slot %u lies on another device than the queue", i);
            return YK_E_ARG;
        }
    return YK_OK;
}

static void queue_left(yk_device *dev, yk_queue *q)
{
    (void)q;
    atomic_store(&dev->left_behind, true);
    vlk_instance_keep();
}

static kit_queue_ops ops = {.plugin = VLK_WHO,
                            .graph = vlk_program_graph,
                            .bytes = vlk_buffer_bytes,
                            .run = vlk_program_run,
                            .copy = vlk_copy_run,
                            .admit = queue_admit,
                            .left = queue_left};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void ops_begin(void)
{
    ops.host = vlk_host;
}

yk_status vlk_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **queue)
{
    (void)desc; /* all kinds are alike: the driver runs queues in parallel if it can */
    pthread_once(&once, ops_begin);
    return kit_queue_new(dev, &ops, queue);
}
