/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's device: bound, loaded, opened, probed; buffers, transfers and waits in short form.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/intern.h"

#define SLICE_NS 50000000ull /* how long a wait goes without a look at `cancel` */

static yk_status started(yk__device *dev, yk_status status, const char *what, yk_error *err)
{
    return status ? yk__plugin_fail(err, dev->plugin, status, what) : YK_OK;
}

static yk_status check_caps(const yk__device *dev, yk_error *err)
{
    const yk_device_caps *c = &dev->caps;
    const uint32_t must = 1u << YK_F32 | 1u << YK_I32 | 1u << YK_BOOL;
    if (c->align == 0 || (c->align & (c->align - 1)))
        return yk__fail(err, YK_E_ABI, "%s: device %u says alignment %u; expected a power of two", dev->plugin->name,
                        dev->place.device, c->align);
    if ((c->store & must) != must || !(c->compute & 1u << YK_F32))
        return yk__fail(err, YK_E_ABI, "%s: device %u lacks one of the mandatory types f32, i32, bool", dev->plugin->name,
                        dev->place.device);
    return YK_OK;
}

static yk_status read_caps(yk__device *dev, yk_error *err)
{
    uint32_t n = 0;
    yk__host_words_clear();
    if (started(dev, dev->table->device_count(&n), "counting its devices", err))
        return err->status;
    if (dev->place.device >= n)
        return yk__fail(err, YK_E_ARG, "%s: there is no device %u; it has %u", dev->plugin->name, dev->place.device, n);
    dev->caps.size = sizeof dev->caps;
    if (started(dev, dev->table->device_caps(dev->place.device, &dev->caps), "asking a device what it can do", err))
        return err->status;
    dev->caps.name[sizeof dev->caps.name - 1] = 0;
    dev->caps.locality[sizeof dev->caps.locality - 1] = 0;
    dev->caps.isa[sizeof dev->caps.isa - 1] = 0;
    return check_caps(dev, err);
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
    yk__device *dev = yk__calloc(1, sizeof *dev);
    if (!dev)
        return yk__fail_mem(err, sizeof *dev, "a device");
    dev->place = *place;
    if (open_plugin(dev, err) || read_caps(dev, err) ||
        started(dev, dev->table->device_open(place->device, &dev->handle), "opening the device", err) ||
        started(dev, dev->table->queue_new(dev->handle, &dev->queue), "making a queue", err) ||
        (yk__option_words(YK__OPTION_PROBE) == 0 && yk__probe(dev, err))) {
        yk__device_close(dev);
        return err->status;
    }
    yk__log(YK_LOG_INFO, "device", "%s:%u is %s (%s), %u units", dev->plugin->name, place->device, dev->caps.name,
            dev->caps.isa, dev->caps.units);
    *out = dev;
    return YK_OK;
}

void yk__device_close(yk__device *dev)
{
    if (!dev)
        return;
    if (dev->queue)
        dev->table->queue_free(dev->queue);
    if (dev->handle)
        dev->table->device_close(dev->handle);
    yk__free(dev);
}

yk_status yk__device_buffer(yk__device *dev, uint64_t bytes, yk_buffer **b, yk_error *err)
{
    char what[80];
    yk_status s;
    yk__host_words_clear();
    s = dev->table->buffer_new(dev->handle, bytes, b);
    snprintf(what, sizeof what, "a buffer of %llu bytes", (unsigned long long)bytes);
    return started(dev, s, what, err);
}

yk_status yk__device_put(yk__device *dev, yk_buffer *b, uint64_t off, const void *src, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_words_clear();
    return started(dev, dev->table->queue_put(dev->queue, b, off, src, bytes, point), "copying to the device", err);
}

yk_status yk__device_get(yk__device *dev, yk_buffer *b, uint64_t off, void *dst, uint64_t bytes, uint64_t *point,
                         yk_error *err)
{
    yk__host_words_clear();
    return started(dev, dev->table->queue_get(dev->queue, b, off, dst, bytes, point), "copying from the device", err);
}

yk_status yk__device_wait(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err)
{
    yk_status s;
    yk__host_words_clear();
    do {
        if (cancel && *cancel)
            return yk__fail(err, YK_E_CANCELLED, "%s: the wait for the device was cancelled", dev->plugin->name);
        s = dev->table->queue_wait(dev->queue, point, SLICE_NS);
    } while (s == YK_E_TIMEOUT);
    return started(dev, s, "running on the device", err);
}
