/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open device in short form: buffers, copies through its one queue, and waits, which give up a device whose points and
 * driver have both stood still for too long.
 */
#include <stdio.h>
#include <time.h>

#include "core/base/advance.h"
#include "core/base/option.h"
#include "core/device/intern.h"

#define SLICE_NS 50000000ull /* how long a wait goes without a look at `cancel` */

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
    char what[80];
    yk_status s;
    yk__host_words_clear();
    s = dev->table->buffer_new(dev->handle, &desc, b);
    snprintf(what, sizeof what, "a buffer of %llu bytes", (unsigned long long)bytes);
    return yk__device_fail(dev, s, what, err);
}

yk_status yk__device_put(yk__device *dev, yk_buffer *b, uint64_t off, const void *src, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_words_clear();
    return yk__device_fail(dev, yk_put(dev->table, dev->queue, b, off, src, bytes, point), "copying to the device", err);
}

yk_status yk__device_get(yk__device *dev, yk_buffer *b, uint64_t off, void *dst, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_words_clear();
    return yk__device_fail(dev, yk_get(dev->table, dev->queue, b, off, dst, bytes, point), "copying from the device", err);
}

/* ---- Waiting ---- */

/* What a wait sees of a device that is not done: the last finished point, for how long nothing has moved, processor time. */
typedef struct idle_device {
    uint64_t done, ns, last, cpu; /* last, cpu: of the last look */
} idle_device;

static uint64_t clock_ns(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How far its queues are, together; what was known before where one does not say. */
static uint64_t points_done(const yk__device *dev, uint64_t before)
{
    uint64_t done = 0, side = 0;
    if (dev->table->queue_poll(dev->queue, &done) || (dev->side && dev->table->queue_poll(dev->side, &side)))
        return before;
    return done + side;
}

/* After each slice. A point that moves is progress; so is this process's computing, but that could be a driver's busy wait. */
static void count_idle(const yk__device *dev, idle_device *idle)
{
    const uint64_t now = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    const uint64_t step = now - idle->last < 3 * SLICE_NS ? now - idle->last : 3 * SLICE_NS; /* more was this process's pause */
    const bool computes = cpu - idle->cpu > step / 4;
    const uint64_t done = points_done(dev, idle->done);
    idle->last = now;
    idle->cpu = cpu;
    if (done != idle->done) {
        idle->done = done;
        idle->ns = 0;
        yk__advance();
        return;
    }
    idle->ns += computes ? step / 10 : step;
    if (computes)
        yk__advance();
}

/* True: nothing has moved for too long. Most waits end within their first slice and look at nothing. */
static bool device_is_stuck(const yk__device *dev, idle_device *idle)
{
    const uint64_t limit = yk__stuck_ms() * 1000000ull;
    if (idle->last)
        count_idle(dev, idle);
    else
        *idle = (idle_device){.last = clock_ns(CLOCK_MONOTONIC), .cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID)};
    return limit && idle->ns >= limit;
}

static yk_status lose_device(yk__device *dev, const idle_device *idle, yk_error *err)
{
    dev->table->queue_abort(dev->queue, YK_E_DEVICE_LOST); /* who else waits for it need not find out for himself */
    if (dev->side)
        dev->table->queue_abort(dev->side, YK_E_DEVICE_LOST);
    dev->lost = true;
    return yk__fail(err, YK_E_DEVICE_LOST, "%s:%u (%s) has finished nothing for %.1f s (YOKE_STUCK_MS); its driver may hang",
                    dev->plugin->name, dev->place.device, dev->caps.name, (double)idle->ns * 1e-9);
}

static yk_status queue_await(yk__device *dev, yk_queue *queue, uint64_t point, const volatile int *cancel, yk_error *err)
{
    idle_device idle = {0};
    yk_status s;
    yk__host_words_clear();
    if (dev->lost)
        return yk__fail(err, YK_E_DEVICE_LOST, "%s:%u has hung", dev->plugin->name, dev->place.device);
    do {
        if (cancel && *cancel)
            return yk__fail(err, YK_E_CANCELLED, "%s: the wait for the device was cancelled", dev->plugin->name);
        s = dev->table->queue_wait(queue, point, SLICE_NS);
        if (s == YK_E_TIMEOUT && device_is_stuck(dev, &idle))
            return lose_device(dev, &idle, err);
    } while (s == YK_E_TIMEOUT);
    return yk__device_fail(dev, s, "running on the device", err);
}

yk_status yk__device_wait(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err)
{
    return queue_await(dev, dev->queue, point, cancel, err);
}

/* ---- Beside the programs ---- */

yk_status yk__device_side(yk__device *dev, yk_queue **side, yk_error *err)
{
    const yk_queue_desc desc = {.size = sizeof desc, .kind = YK_QUEUE_COLL};
    *side = dev->side;
    if (dev->side || dev->plans_only || !(dev->caps.flags & YK_CAP_PINS))
        return YK_OK;
    yk__host_words_clear();
    if (yk__device_fail(dev, dev->table->queue_new(dev->handle, &desc, &dev->side), "making a queue for copies", err))
        return err->status;
    *side = dev->side;
    return YK_OK;
}

yk_status yk__device_wait_side(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err)
{
    return queue_await(dev, dev->side, point, cancel, err);
}
