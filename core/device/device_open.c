/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes a rank's device: binds the thread to its cores, loads the plugin, checks the device's capabilities, and makes its queue.
 * Then it runs the start-up probe (probe.c) unless YOKE_PROBE=off.
 *
 * core/job opens a rank's device, core/run/host_device.c the host's of a rank that offloads, and yoke-cts the one under test. The caller's
 * thread uses the device from then on, and frees it by yk__device_close.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/advance.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/process/signals.h"
#include "core/device/device_internal.h"

static bool is_alignment(uint32_t n)
{
    return (n & (n - 1)) == 0 && n <= 65536;
}

static yk_status check_caps(const yk__device *dev, yk_error *err)
{
    const yk_device_caps *c = &dev->caps;
    const uint32_t must = 1u << YK_F32 | 1u << YK_I32 | 1u << YK_BOOL;
    if (c->align == 0 || !is_alignment(c->align) || !is_alignment(c->value_align))
        return yk__fail(err, YK_E_ABI, "%s: device %u says alignments %u and %u; expected powers of two, at most 65536",
                        dev->plugin->name, dev->place.device, c->align, c->value_align);
    if ((c->store & must) != must || !(c->compute & 1u << YK_F32))
        return yk__fail(err, YK_E_ABI, "%s: device %u lacks one of the mandatory types f32, i32, bool", dev->plugin->name,
                        dev->place.device);
    if (c->product_bits && (c->product_bits < 8 || c->product_bits > YK__F32_BITS))
        return yk__fail(err, YK_E_ABI, "%s: device %u says that products keep %llu bits of f32; expected 8 to 24, or 0 for each",
                        dev->plugin->name, dev->place.device, (unsigned long long)c->product_bits);
    return YK_OK;
}

/* Adapts capabilities to the planner, which aligns all values alike and has no slot larger than its buffer. */
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
    if (yk__plugin_devices(dev->plugin, &n, err))
        return err->status;
    const char *said = yk__plugin_message();
    if (!n)
        return yk__fail(err, YK_E_ARG, "%s: the plugin has no devices%s%s", dev->plugin->name, *said ? ": " : "", said);
    if (dev->place.device >= n)
        return yk__fail(err, YK_E_ARG, "%s: there is no device %u; it has %u", dev->plugin->name, dev->place.device, n);
    if (yk__plugin_caps(dev->plugin, dev->place.device, &dev->caps, err))
        return err->status;
    if (check_caps(dev, err) == YK_OK)
        caps_adapt(&dev->caps, dev->table);
    return err->status;
}

static yk_status open_plugin(yk__device *dev, yk_error *err)
{
    char number[16];
    const char *cores = dev->place.cores;
    if (*cores && yk__bind_cores(cores, err))
        return err->status;
    if (yk__plugin_open(dev->place.plugin, &dev->plugin, err))
        return err->status;
    if (*cores && yk__plugin_option_set(dev->plugin->name, "CORES", cores, err))
        return err->status;
    snprintf(number, sizeof number, "%u", dev->place.device);
    if (yk__plugin_device_hint(dev->plugin, number, err) || yk__plugin_start(dev->plugin, err))
        return err->status;
    dev->table = dev->plugin->call;
    return YK_OK;
}

static yk_status make_handles(yk__device *dev, yk_error *err)
{
    const yk_queue_desc desc = {.size = sizeof desc, .kind = YK_QUEUE_COMPUTE};
    yk_status s = dev->table->device_open(dev->place.device, &dev->handle);
    if (yk__device_fail(dev, yk__plugin_made(s, dev->handle), "opening the device", err))
        return err->status;
    s = dev->table->queue_new(dev->handle, &desc, &dev->queue);
    return yk__device_fail(dev, yk__plugin_made(s, dev->queue), "making a queue", err);
}

/* Reads the free memory again, as some drivers know it only once the device is open. */
static yk_status read_free(yk__device *dev, yk_error *err)
{
    yk_device_caps now;
    if (dev->caps.mem_free)
        return YK_OK;
    if (yk__plugin_caps(dev->plugin, dev->place.device, &now, err))
        return err->status;
    dev->caps.mem_free = now.mem_free;
    return YK_OK;
}

static yk_status open_parts(yk__device *dev, yk_error *err)
{
    if (open_plugin(dev, err) || read_caps(dev, err) || make_handles(dev, err) || read_free(dev, err))
        return err->status;
    return yk__option_words(YK__OPTION_PROBE) == 0 ? yk__probe(dev, err) : YK_OK;
}

yk_status yk__device_open(const yk__placement *place, yk__device **out, yk_error *err)
{
    yk__device *dev = yk__calloc(1, sizeof *dev);
    yk__signals kept;
    yk_status s;
    if (!dev)
        return yk__fail_mem(err, sizeof *dev, "a device");
    dev->place = *place;
    pthread_mutex_init(&dev->queues_lock, NULL);
    yk__act_begin(YK__ACT_OPEN);
    yk__signals_keep(&kept);
    s = open_parts(dev, err);
    yk__act_end(YK__ACT_OPEN);
    yk__signals_restore(&kept);
    if (s) {
        yk__device_close(dev);
        return err->status;
    }
    char products[64] = "";
    if (yk__product_bits(&dev->caps) < YK__F32_BITS)
        snprintf(products, sizeof products, "; products keep %u of 24 bits of f32", yk__product_bits(&dev->caps));
    yk__log(YK_LOG_INFO, "device", "%s:%u is %s (%s), %u units%s%s", dev->plugin->name, place->device, dev->caps.name,
            dev->caps.isa, dev->caps.units, products,
            dev->caps.flags & YK_CAP_LONG_SUMS ? "" : "; a sum of n terms may lose n 2^-24 of them (no YK_CAP_LONG_SUMS)");
    *out = dev;
    return YK_OK;
}

static yk__device *volatile lost_devices; /* kept for ever */

void yk__device_close(yk__device *dev)
{
    if (dev && dev->lost) {
        dev->lost_before = lost_devices;
        lost_devices = dev;
    }
    if (!dev || dev->lost)
        return;
    if (dev->side)
        dev->table->queue_free(dev->side);
    if (dev->queue)
        dev->table->queue_free(dev->queue);
    if (dev->handle)
        dev->table->device_close(dev->handle);
    pthread_mutex_destroy(&dev->queues_lock);
    yk__free(dev);
}
