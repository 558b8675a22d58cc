/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole plugin over a few functions of a device (kit_device.h): its table, devices, buffers, queues and copies. kit_device_program.c has
 * programs. An author's file, such as plugins/template/cc.c, ends in KIT_DEVICE_EXPORT, which hands its kit_device over.
 *
 * The host calls the table. Copies run in the queue's thread (kit_queue.c), and the other functions in any thread. A shared object holds
 * one plugin, so the kit_device and the host are variables of this file. With YOKE_<PLUGIN>_PROFILE=1 the kit times its programs; another
 * value than 0 or 1 is an error. A failure's text belongs to the thread that said it.
 */
#include <stdarg.h>
#include <stdio.h>

#include "plugins/kit/kit_device_internal.h"
#include "plugins/kit/kit_options.h"
#include "plugins/kit/value.h"

#define STAGE (1u << 20) /* bytes that a copy inside the device moves over host memory at a time */
#define MOST 64u         /* devices of a plugin */
#define ALIGN 256u       /* default of yk_device_caps.align */

const kit_device *kit_device_own;
const yk_host *kit_device_lent;
static _Atomic uint64_t taken[MOST]; /* bytes of each device that are allocated */
static kit_queue_ops queue_ops;
static const kit_option profile_option = {"PROFILE", kit_option_is_flag, KIT_ALLOWED_FLAG};
static _Thread_local char said[KIT_WHY]; /* by a function that a queue's thread called; "" if nothing */

/* ---- Words of a failure ---- */

void kit_device_say(const char *fmt, ...)
{
    char text[KIT_WHY];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (kit_queue_current())
        memcpy(said, text, sizeof said);
    else
        kit_device_lent->fail(kit_device_own->name, "%s", text);
}

/* In a queue's thread: the text becomes the reason of the queue's failure. */
static yk_status status_of(yk_status s, char why[KIT_WHY])
{
    if (s && said[0])
        memcpy(why, said, KIT_WHY);
    else if (s)
        snprintf(why, KIT_WHY, "the device failed, and the plugin gave no reason (kit_device_say)");
    said[0] = 0;
    return s;
}

const yk_host *kit_device_host(void)
{
    return kit_device_lent;
}

/* ---- Devices ---- */

static yk_status device_init(const yk_host *host)
{
    if (!kit_host_fits(host))
        return YK_E_ABI;
    kit_device_lent = queue_ops.host = host;
    return kit_options_values_check(host, kit_device_own->name, &profile_option, 1);
}

static yk_status device_count(uint32_t *n)
{
    *n = kit_device_own->count ? kit_device_own->count() : 1;
    *n = *n < MOST ? *n : MOST;
    return YK_OK;
}

static yk_status device_check(uint32_t i)
{
    uint32_t n = 0;
    device_count(&n);
    return kit_device_check(kit_device_lent, kit_device_own->name, i, n);
}

static void device_describe(uint32_t i, yk_device_caps *caps, kit_target *target)
{
    *caps = (yk_device_caps){.align = ALIGN, .units = 1, .store = KIT_STORE, .compute = KIT_COMPUTE};
    *target = (kit_target){.host = kit_device_lent, .plugin = kit_device_own->name, .cpu_shape = kit_device_own->entries, .units = 1,
                           .max_local = KIT_LOCAL_LEAST};
    kit_device_own->describe(i, caps, target);
    const uint64_t used = taken[i];
    if (caps->mem_total && !caps->mem_free)
        caps->mem_free = caps->mem_total > used ? caps->mem_total - used : 0;
    if (!caps->max_alloc || (caps->mem_total && caps->max_alloc > caps->mem_total))
        caps->max_alloc = caps->mem_total;
}

static yk_status device_caps(uint32_t i, yk_device_caps *caps)
{
    yk_device_caps own;
    kit_target target;
    const yk_status s = device_check(i);
    if (s)
        return s;
    device_describe(i, &own, &target);
    kit_caps_give(caps, &own);
    return YK_OK;
}

static yk_status stream_make(const yk_device *dev, void **stream)
{
    *stream = dev->own;
    return kit_device_own->stream_new ? kit_device_own->stream_new(dev->own, stream) : YK_OK;
}

static void stream_end(void *stream)
{
    if (kit_device_own->stream_free)
        kit_device_own->stream_free(stream);
}

static yk_status device_open(uint32_t i, yk_device **out)
{
    yk_status s = device_check(i);
    yk_device *dev = s ? NULL : kit_zeroed(kit_device_lent, kit_device_own->name, sizeof *dev, "a device");
    if (!dev)
        return s ? s : YK_E_MEM;
    const char *profile = kit_option_value(kit_device_lent, kit_device_own->name, profile_option.key);
    dev->profiles = profile && !strcmp(profile, "1");
    dev->profile.host = kit_device_lent;
    dev->number = i;
    device_describe(i, &dev->caps, &dev->target);
    s = kit_device_own->open ? kit_device_own->open(i, &dev->own) : YK_OK;
    if (!s && (s = stream_make(dev, &dev->stream)) != YK_OK && kit_device_own->close)
        kit_device_own->close(dev->own);
    if (s) {
        kit_device_lent->free(dev);
        return s;
    }
    pthread_mutex_init(&dev->lock, NULL);
    kit_device_programs_begin(dev);
    *out = dev;
    return YK_OK;
}

static void device_close(yk_device *dev)
{
    if (dev->left_behind)
        return;
    kit_profile_end(&dev->profile, dev->caps.name);
    kit_device_programs_end(dev);
    stream_end(dev->stream);
    if (kit_device_own->close)
        kit_device_own->close(dev->own);
    pthread_mutex_destroy(&dev->lock);
    kit_device_lent->free(dev);
}

/* ---- Memory ---- */

/* Counts bytes as taken, unless that is beyond the device's memory. */
static bool memory_count(const yk_device *dev, uint64_t bytes)
{
    _Atomic uint64_t *of = &taken[dev->number];
    uint64_t used = *of;
    do
        if (dev->caps.mem_total && (bytes > dev->caps.mem_total || used > dev->caps.mem_total - bytes))
            return false;
    while (!atomic_compare_exchange_weak(of, &used, used + bytes));
    return true;
}

void *kit_device_memory_take(const yk_device *dev, uint64_t bytes)
{
    bytes += !bytes;
    if ((dev->caps.max_alloc && bytes > dev->caps.max_alloc) || !memory_count(dev, bytes))
        return NULL;
    void *memory = kit_device_own->alloc(dev->own, bytes);
    if (!memory)
        taken[dev->number] -= bytes;
    return memory;
}

void kit_device_memory_give(const yk_device *dev, void *memory, uint64_t bytes)
{
    if (!memory || dev->left_behind)
        return;
    kit_device_own->free(dev->own, memory);
    taken[dev->number] -= bytes + !bytes;
}

static yk_status buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    if (desc->flags & YK_BUF_EXPORT) {
        kit_device_lent->fail(kit_device_own->name, "buffers are not shared with other processes");
        return YK_E_UNSUPPORTED;
    }
    yk_buffer *b = kit_zeroed(kit_device_lent, kit_device_own->name, sizeof *b, "a buffer");
    if (!b)
        return YK_E_MEM;
    *b = (yk_buffer){.dev = dev, .bytes = desc->bytes, .memory = kit_device_memory_take(dev, desc->bytes)};
    if (!b->memory) {
        kit_device_lent->free(b);
        if (dev->caps.mem_total)
            kit_device_say("it does not fit: the device has %llu bytes, and %llu of them are in use",
                           (unsigned long long)dev->caps.mem_total, (unsigned long long)taken[dev->number]);
        else
            kit_device_say("the device has no memory for it");
        return YK_E_MEM;
    }
    *out = b;
    return YK_OK;
}

static void buffer_free(yk_buffer *b)
{
    if (b->dev->left_behind)
        return;
    kit_device_memory_give(b->dev, b->memory, b->bytes);
    kit_device_lent->free(b);
}

static uint64_t buffer_bytes(const yk_buffer *b)
{
    return b->bytes;
}

/* ---- Copies: in the queue's thread ---- */

static yk_status stream_wait(void *stream)
{
    return kit_device_own->wait ? kit_device_own->wait(stream) : YK_OK;
}

/* Device to device over host memory. */
static yk_status bytes_carry(void *stream, const yk_copy *c)
{
    char *stage = kit_device_lent->alloc(STAGE, 64);
    yk_status s = stage ? YK_OK : YK_E_MEM;
    if (!stage)
        kit_device_say("no memory for a copy of %llu bytes", (unsigned long long)c->bytes);
    for (uint64_t at = 0; at < c->bytes && !s; at += STAGE) {
        const uint64_t part = c->bytes - at < STAGE ? c->bytes - at : STAGE;
        s = kit_device_own->get(stream, c->src->memory, c->src_offset + at, stage, part);
        if (!s)
            s = stream_wait(stream);
        if (!s)
            s = kit_device_own->put(stream, c->dst->memory, c->dst_offset + at, stage, part);
        if (!s)
            s = stream_wait(stream);
    }
    if (stage)
        kit_device_lent->free(stage);
    return s;
}

static yk_status queue_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    void *stream = kit_device_queue_data(kit_queue_current())->stream;
    yk_status s;
    (void)dev;
    if (!c->src)
        s = kit_device_own->put(stream, c->dst->memory, c->dst_offset, c->src_host, c->bytes);
    else if (!c->dst)
        s = kit_device_own->get(stream, c->src->memory, c->src_offset, c->dst_host, c->bytes);
    else if (kit_device_own->move)
        s = kit_device_own->move(stream, c->dst->memory, c->dst_offset, c->src->memory, c->src_offset, c->bytes);
    else
        s = bytes_carry(stream, c);
    if (!s)
        s = stream_wait(stream);
    return status_of(s, why);
}

/* ---- Queues ---- */

static yk_status queue_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    kit_device_queue *q = kit_device_queue_data(kit_queue_current());
    yk_status status = kit_device_program_run(dev, q, s);
    const yk_status waited = stream_wait(q->stream); /* also after a failure, as launches may be under way */
    if (!status)
        status = waited;
    return status_of(status, why);
}

/* Refuses memory of another open device, as each has a driver's handles of its own. */
static yk_status queue_admit(yk_device *dev, const yk_submit *s, const yk_copy *c)
{
    if (c && ((c->src && c->src->dev != dev) || (c->dst && c->dst->dev != dev))) {
        kit_device_lent->fail(kit_device_own->name, "a copy from one device to another");
        return YK_E_UNSUPPORTED;
    }
    for (uint32_t i = 0; s && i < s->n_slot; i++)
        if (s->slot[i] && s->slot[i]->dev != dev) {
            kit_device_lent->fail(kit_device_own->name, "slot %u lies on another device than the queue", i);
            return YK_E_ARG;
        }
    return YK_OK;
}

static void queue_data_free(kit_device_queue *own)
{
    kit_device_memory_give(own->dev, own->scratch, own->scratch_bytes);
    stream_end(own->stream);
    kit_device_lent->free(own);
}

static void queue_end(yk_queue *q)
{
    if (kit_device_queue_data(q))
        queue_data_free(kit_device_queue_data(q));
}

static void queue_left(yk_device *dev, yk_queue *q)
{
    dev->left_behind = true;
    if (kit_device_own->left)
        kit_device_own->left(dev->own, kit_device_queue_data(q)->stream);
}

static kit_queue_ops queue_ops = {.graph = kit_device_program_graph, .bytes = buffer_bytes, .run = queue_run, .copy = queue_copy,
                                  .admit = queue_admit, .end = queue_end, .left = queue_left};

static yk_status queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    kit_device_queue *own = kit_zeroed(kit_device_lent, kit_device_own->name, sizeof *own, "a queue");
    (void)desc; /* a thread and a stream for each kind */
    if (!own)
        return YK_E_MEM;
    own->dev = dev;
    yk_status s = stream_make(dev, &own->stream);
    if (s) {
        kit_device_lent->free(own);
        return s;
    }
    if ((s = kit_queue_new(dev, &queue_ops, q)) != YK_OK)
        queue_data_free(own);
    else
        *kit_queue_own(*q) = own; /* the thread reads it with its first job, which this thread gives it later */
    return s;
}

/* ---- The table ---- */

static yk_plugin table = {
    KIT_PLUGIN_HEAD(NULL, NULL),
    .init = device_init,
    .device_count = device_count,
    .device_caps = device_caps,
    .device_open = device_open,
    .device_close = device_close,
    .claims = kit_device_claims,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .program_new = kit_device_program_new,
    .program_free = kit_device_program_free,
    .queue_new = queue_new,
    KIT_QUEUE_TABLE,
    .graph_scratch = kit_device_scratch,
};

const yk_plugin *kit_device_plugin(const kit_device *device)
{
    kit_device_own = device;
    table.name = queue_ops.plugin = device->name;
    table.version = device->version;
    return &table;
}
