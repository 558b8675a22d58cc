/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's device: bound, loaded, opened, probed; buffers, transfers and waits in short form.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/advance.h"
#include "core/base/cgroup.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/intern.h"

#define SLICE_NS 50000000ull /* how long a wait goes without a look at `cancel` */

static yk_status device_fail(yk__device *dev, yk_status status, const char *what, yk_error *err)
{
    return status ? yk__plugin_fail(err, dev->plugin, status, what) : YK_OK;
}

static yk_status check_caps(const yk__device *dev, yk_error *err)
{
    const yk_device_caps *c = &dev->caps;
    const uint32_t must = 1u << YK_F32 | 1u << YK_I32 | 1u << YK_BOOL;
    if (c->align == 0 || (c->align & (c->align - 1)) || (c->value_align & (c->value_align - 1)))
        return yk__fail(err, YK_E_ABI, "%s: device %u says alignments %u and %u; expected powers of two", dev->plugin->name,
                        dev->place.device, c->align, c->value_align);
    if ((c->store & must) != must || !(c->compute & 1u << YK_F32))
        return yk__fail(err, YK_E_ABI, "%s: device %u lacks one of the mandatory types f32, i32, bool", dev->plugin->name,
                        dev->place.device);
    return YK_OK;
}

void yk__device_cap_memory(yk_device_caps *caps)
{
    uint64_t limit, left;
    if (!(caps->flags & YK_CAP_CPU) || !yk__cgroup_memory(&limit, &left))
        return;
    caps->mem_total = limit < caps->mem_total ? limit : caps->mem_total;
    caps->mem_free = left < caps->mem_free ? left : caps->mem_free;
}

/* The planner aligns all values alike, and no slot is larger than its buffer. */
static void caps_adapt(yk_device_caps *c, const yk_plugin *t)
{
    const uint32_t known = t->n_dtype < 32 ? (1u << t->n_dtype) - 1 : UINT32_MAX;
    c->align = c->value_align > c->align ? c->value_align : c->align;
    if (c->max_bind && (!c->max_alloc || c->max_bind < c->max_alloc))
        c->max_alloc = c->max_bind;
    c->store &= known;
    c->compute &= known;
}

static yk_status read_caps(yk__device *dev, yk_error *err)
{
    uint32_t n = 0;
    yk__host_words_clear();
    if (device_fail(dev, dev->table->device_count(&n), "counting its devices", err))
        return err->status;
    if (dev->place.device >= n)
        return yk__fail(err, YK_E_ARG, "%s: there is no device %u; it has %u", dev->plugin->name, dev->place.device, n);
    dev->caps.size = sizeof dev->caps;
    if (device_fail(dev, dev->table->device_caps(dev->place.device, &dev->caps), "asking a device what it can do", err))
        return err->status;
    dev->caps.name[sizeof dev->caps.name - 1] = 0;
    dev->caps.locality[sizeof dev->caps.locality - 1] = 0;
    dev->caps.isa[sizeof dev->caps.isa - 1] = 0;
    yk__device_cap_memory(&dev->caps);
    if (check_caps(dev, err) == YK_OK)
        caps_adapt(&dev->caps, dev->table);
    return err->status;
}

static yk_status open_plugin(yk__device *dev, yk_error *err)
{
    const char *cores = dev->place.cores;
    if (*cores && yk__bind_cores(cores, err))
        return err->status;
    if (yk__plugin_open(dev->place.plugin, &dev->plugin, err))
        return err->status;
    if (*cores && yk__plugin_option_set(dev->plugin->name, "CORES", cores, err))
        return err->status;
    if (yk__plugin_start(dev->plugin, err))
        return err->status;
    dev->table = dev->plugin->call;
    return YK_OK;
}

yk_status yk__device_open(const yk__placement *place, yk__device **out, yk_error *err)
{
    const yk_queue_desc desc = {.size = sizeof desc, .kind = YK_QUEUE_COMPUTE};
    yk__device *dev = yk__calloc(1, sizeof *dev);
    if (!dev)
        return yk__fail_mem(err, sizeof *dev, "a device");
    dev->place = *place;
    if (open_plugin(dev, err) || read_caps(dev, err) ||
        device_fail(dev, dev->table->device_open(place->device, &dev->handle), "opening the device", err) ||
        device_fail(dev, dev->table->queue_new(dev->handle, &desc, &dev->queue), "making a queue", err) ||
        (yk__option_words(YK__OPTION_PROBE) == 0 && yk__probe(dev, err))) {
        yk__device_close(dev);
        return err->status;
    }
    yk__log(YK_LOG_INFO, "device", "%s:%u is %s (%s), %u units", dev->plugin->name, place->device, dev->caps.name,
            dev->caps.isa, dev->caps.units);
    *out = dev;
    return YK_OK;
}

static yk__device *volatile lost_devices; /* kept for good */

void yk__device_close(yk__device *dev)
{
    if (dev && dev->lost) {
        dev->lost_before = lost_devices;
        lost_devices = dev;
    }
    if (!dev || dev->lost)
        return;
    if (dev->queue)
        dev->table->queue_free(dev->queue);
    if (dev->handle)
        dev->table->device_close(dev->handle);
    yk__free(dev);
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
    return device_fail(dev, s, what, err);
}

yk_status yk__device_put(yk__device *dev, yk_buffer *b, uint64_t off, const void *src, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_words_clear();
    return device_fail(dev, yk_put(dev->table, dev->queue, b, off, src, bytes, point), "copying to the device", err);
}

yk_status yk__device_get(yk__device *dev, yk_buffer *b, uint64_t off, void *dst, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_words_clear();
    return device_fail(dev, yk_get(dev->table, dev->queue, b, off, dst, bytes, point), "copying from the device", err);
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

/* After each slice. A point that moves is progress; so is this process's computing, but that could be a driver's busy wait. */
static void count_idle(const yk__device *dev, idle_device *idle)
{
    const uint64_t now = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    const uint64_t step = now - idle->last < 3 * SLICE_NS ? now - idle->last : 3 * SLICE_NS; /* more was this process's pause */
    const bool computes = cpu - idle->cpu > step / 4;
    uint64_t done = idle->done;
    idle->last = now;
    idle->cpu = cpu;
    if (dev->table->queue_poll(dev->queue, &done) == YK_OK && done != idle->done) {
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
    dev->lost = true;
    return yk__fail(err, YK_E_DEVICE_LOST, "%s:%u (%s) has finished nothing for %.1f s (YOKE_STUCK_MS); its driver may hang",
                    dev->plugin->name, dev->place.device, dev->caps.name, (double)idle->ns * 1e-9);
}

yk_status yk__device_wait(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err)
{
    idle_device idle = {0};
    yk_status s;
    yk__host_words_clear();
    if (dev->lost)
        return yk__fail(err, YK_E_DEVICE_LOST, "%s:%u has hung", dev->plugin->name, dev->place.device);
    do {
        if (cancel && *cancel)
            return yk__fail(err, YK_E_CANCELLED, "%s: the wait for the device was cancelled", dev->plugin->name);
        s = dev->table->queue_wait(dev->queue, point, SLICE_NS);
        if (s == YK_E_TIMEOUT && device_is_stuck(dev, &idle))
            return lose_device(dev, &idle, err);
    } while (s == YK_E_TIMEOUT);
    return device_fail(dev, s, "running on the device", err);
}
