/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open device in short form: buffers, copies through its one queue, and waits. core/run/queue.c and the start-up probe call it, in the
 * thread that opened the device; yk__device_claims and yk__device_abort may come from any thread. A failed call names the plugin and the
 * device.
 *
 * A wait gives up a device whose points and driver both stand still for too long (point.c).
 */
#include <stdio.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/device/device_internal.h"

yk_status yk__device_fail(yk__device *dev, yk_status status, const char *what, yk_error *err)
{
    return status ? yk__plugin_fail(err, dev->plugin, status, what) : YK_OK;
}

uint32_t yk__device_claims(const yk__device *dev, const yk_graph *g, uint32_t node)
{
    return yk__plugin_knows(dev->table, g, node) ? dev->table->claims(dev->handle, g, node) : 0;
}

yk_status yk__device_buffer(yk__device *dev, uint64_t bytes, yk_buffer **b, yk_error *err)
{
    const yk_buffer_desc desc = {.size = sizeof desc, .bytes = bytes};
    yk_buffer *made = NULL;
    char what[80];
    yk_status s;
    yk__host_message_clear();
    s = dev->table->buffer_new(dev->handle, &desc, &made);
    s = yk__plugin_made(s, made);
    if (!s)
        *b = made;
    snprintf(what, sizeof what, "a buffer of %llu bytes", (unsigned long long)bytes);
    return yk__device_fail(dev, s, what, err);
}

yk_status yk__device_put(yk__device *dev, yk_buffer *b, uint64_t off, const void *src, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_message_clear();
    return yk__device_fail(dev, yk_put(dev->table, dev->queue, b, off, src, bytes, point), "copying to the device", err);
}

yk_status yk__device_get(yk__device *dev, yk_buffer *b, uint64_t off, void *dst, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_message_clear();
    return yk__device_fail(dev, yk_get(dev->table, dev->queue, b, off, dst, bytes, point), "copying from the device", err);
}

/* ---- Waiting ---- */

void yk__device_abort(yk__device *dev, yk_status why)
{
    atomic_store(&dev->aborted, true);
    if (!yk__plugin_aborts(dev->plugin))
        return;
    pthread_mutex_lock(&dev->queues_lock);
    if (dev->queue)
        dev->table->queue_abort(dev->queue, why);
    if (dev->side)
        dev->table->queue_abort(dev->side, why);
    pthread_mutex_unlock(&dev->queues_lock);
}

static yk_status lose_device(yk__device *dev, uint64_t idle_ns, yk_error *err)
{
    dev->table->queue_abort(dev->queue, YK_E_DEVICE_LOST); /* other waiting threads then return at once */
    if (dev->side)
        dev->table->queue_abort(dev->side, YK_E_DEVICE_LOST);
    dev->lost = true;
    return yk__fail(err, YK_E_DEVICE_LOST, "%s:%u (%s) has finished nothing for %.1f s (YOKE_STUCK_MS%s); its driver may hang",
                    dev->plugin->name, dev->place.device, dev->caps.name, (double)idle_ns * 1e-9, yk__call_ms() ? " would set it" : "");
}

/* A plugin leaves work behind only after 2 s without progress (plugin.h, queue_abort). It may then still access the host's memory, too. */
#define LEFT_SECONDS 1.9

void yk__device_settle(yk__device *dev)
{
    const yk_queue_desc desc = {.size = sizeof desc, .kind = YK_QUEUE_COMPUTE};
    yk_queue *other = NULL;
    if (dev->stopped || dev->lost || !dev->queue || !yk__plugin_aborts(dev->plugin)) /* a lost one is kept, as its driver may hang */
        return;
    if (dev->table->queue_new(dev->handle, &desc, &other) || !other)
        return;
    yk__device_abort(dev, YK_E_CANCELLED);
    pthread_mutex_lock(&dev->queues_lock);
    yk_queue *queue = dev->queue, *side = dev->side;
    dev->queue = other;
    dev->side = NULL;
    dev->stopped = true;
    pthread_mutex_unlock(&dev->queues_lock);
    yk__device_abort(dev, YK_E_CANCELLED);
    const double begun = yk__clock_seconds();
    if (side)
        dev->table->queue_free(side); /* first: its commands wait for points of the other */
    dev->table->queue_free(queue);
    dev->lost = yk__clock_seconds() - begun >= LEFT_SECONDS;
}

void yk__device_drain(yk__device *dev, uint64_t point)
{
    yk_error ignored = YK_ERROR_INIT;
    if (yk__device_wait(dev, point, NULL, &ignored) == YK_E_CANCELLED)
        yk__device_settle(dev);
}

static yk_status queue_await(yk__device *dev, yk_queue *queue, uint64_t point, const volatile int *cancel, yk_error *err)
{
    uint64_t idle_ns = 0;
    yk_status s;
    yk__host_message_clear();
    if (dev->lost)
        return yk__fail(err, YK_E_DEVICE_LOST, "%s:%u has hung", dev->plugin->name, dev->place.device);
    if (!queue)
        return yk__fail(err, YK_E_CANCELLED, "%s:%u was stopped", dev->plugin->name, dev->place.device);
    s = yk__point_wait(dev->table, queue, queue == dev->queue ? dev->side : dev->queue, point, cancel, &idle_ns);
    if (s == YK_E_CANCELLED && cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE))
        return yk__fail(err, YK_E_CANCELLED, "%s: the wait for the device was cancelled", dev->plugin->name);
    return s == YK_E_TIMEOUT ? lose_device(dev, idle_ns, err) : yk__device_fail(dev, s, "running on the device", err);
}

yk_status yk__device_wait(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err)
{
    return queue_await(dev, dev->queue, point, cancel, err);
}

/* ---- In parallel to the programs ---- */

yk_status yk__device_side(yk__device *dev, yk_queue **side, yk_error *err)
{
    const yk_queue_desc desc = {.size = sizeof desc, .kind = YK_QUEUE_COLL};
    *side = dev->side;
    if (dev->side || dev->plans_only || dev->stopped || !(dev->caps.flags & YK_CAP_PINS))
        return YK_OK;
    yk__host_message_clear();
    const yk_status s = dev->table->queue_new(dev->handle, &desc, side);
    if (yk__device_fail(dev, yk__plugin_made(s, *side), "making a queue for copies", err))
        return err->status;
    pthread_mutex_lock(&dev->queues_lock);
    dev->side = *side;
    pthread_mutex_unlock(&dev->queues_lock);
    return YK_OK;
}

yk_status yk__device_wait_side(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err)
{
    return queue_await(dev, dev->side, point, cancel, err);
}
