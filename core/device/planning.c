/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that only plans: a table over an opened device. It reports the device's capabilities (claims, scratch memory); its buffers,
 * programs and queue store and run nothing. open.c wraps a rank's device in it for yk_config.plan_only. So the job's own code counts a
 * job's memory, in the step thread, on a machine that does not have as much.
 *
 * The plugin compiles the programs if the caller asks for it (cmd_estimate.c), and if compiling alone tells their memory. Contents of
 * buffers are never read or written; sizes, ranges and points are as on a device.
 */
#include <string.h>

#include <yoke/extension.h>

#include "core/base/mem.h"
#include "core/device/device_internal.h"

typedef struct planned_device {
    yk_plugin table;
    const yk_plugin *inner;
    yk_device *device; /* the plugin's */
    yk_queue *queue;   /* the plugin's; no call submits work to it */
    bool compiles;     /* program_new makes the plugin's program, too */
} planned_device;

typedef struct planned_buffer {
    uint64_t bytes;
} planned_buffer;

typedef struct planned_program {
    const planned_device *device;
    const yk_graph *graph; /* outlives it */
    yk_program *inner;     /* the plugin's; NULL unless the device compiles */
} planned_program;

typedef struct planned_queue {
    uint64_t last;
} planned_queue;

static void planned_device_close(yk_device *dev)
{
    planned_device *d = (planned_device *)(void *)dev;
    if (d->queue)
        d->inner->queue_free(d->queue);
    d->inner->device_close(d->device);
    yk__free(d);
}

static uint32_t planned_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    const planned_device *d = (planned_device *)(void *)dev;
    return d->inner->claims(d->device, g, node);
}

static yk_status planned_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    const planned_device *d = (planned_device *)(void *)dev;
    return d->inner->graph_scratch(d->device, g, bytes);
}

static yk_status planned_buffer_make(uint64_t bytes, yk_buffer **b)
{
    planned_buffer *p = yk__calloc(1, sizeof *p);
    if (!p)
        return YK_E_MEM;
    p->bytes = bytes;
    *b = (yk_buffer *)(void *)p;
    return YK_OK;
}

static yk_status planned_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    (void)dev;
    return planned_buffer_make(desc->bytes, b);
}

static yk_status planned_buffer_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **b)
{
    (void)dev, (void)host;
    return planned_buffer_make(bytes, b);
}

static void planned_buffer_free(yk_buffer *b)
{
    yk__free(b);
}

static yk_status planned_program_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    const planned_device *d = (planned_device *)(void *)dev;
    planned_program *p = yk__calloc(1, sizeof *p);
    if (!p)
        return YK_E_MEM;
    p->device = d;
    p->graph = g;
    yk_status s = d->compiles ? d->inner->program_new(d->device, g, &p->inner) : YK_OK;
    s = d->compiles ? yk__plugin_made(s, p->inner) : s;
    if (s)
        yk__free(p);
    else
        *out = (yk_program *)(void *)p;
    return s;
}

static void planned_program_free(yk_program *program)
{
    planned_program *p = (planned_program *)(void *)program;
    if (p && p->inner)
        p->device->inner->program_free(p->inner);
    yk__free(p);
}

static yk_status planned_memory(const yk_program *program, yk_program_memory *m)
{
    const planned_program *p = (const planned_program *)(const void *)program;
    return p->inner ? p->device->inner->program_memory(p->inner, m) : YK_E_UNSUPPORTED;
}

static yk_status planned_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    (void)dev, (void)desc;
    *q = yk__calloc(1, sizeof(planned_queue));
    return *q ? YK_OK : YK_E_MEM;
}

static void planned_queue_free(yk_queue *q)
{
    yk__free(q);
}

static yk_status planned_queue_point(yk_queue *q, uint64_t *point)
{
    *point = ++((planned_queue *)(void *)q)->last;
    return YK_OK;
}

static yk_status planned_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = ((const planned_program *)(const void *)s->program)->graph;
    for (uint32_t i = 0; i < g->n_slot; i++) {
        const planned_buffer *b = (const planned_buffer *)(const void *)s->slot[i];
        if (b && (s->slot_offset[i] > b->bytes || g->slot[i].bytes > b->bytes - s->slot_offset[i]))
            return YK_E_ARG;
    }
    return planned_queue_point(q, point);
}

static bool planned_range(const yk_buffer *b, uint64_t offset, uint64_t bytes)
{
    const planned_buffer *p = (const planned_buffer *)(const void *)b;
    return !p || (offset <= p->bytes && bytes <= p->bytes - offset);
}

static yk_status planned_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    if (!planned_range(c->src, c->src_offset, c->bytes) || !planned_range(c->dst, c->dst_offset, c->bytes))
        return YK_E_ARG;
    return planned_queue_point(q, point);
}

static yk_status planned_queue_poll(yk_queue *q, uint64_t *done)
{
    *done = ((const planned_queue *)(void *)q)->last;
    return YK_OK;
}

static yk_status planned_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    (void)timeout_ns;
    return point > ((const planned_queue *)(void *)q)->last ? YK_E_ARG : YK_OK;
}

/* Functions that take none of the plugin's handles stay the plugin's. */
static yk_plugin planned_table(const yk_plugin *inner)
{
    return (yk_plugin){
        .size = sizeof(yk_plugin),
        .abi = inner->abi,
        .minor = inner->minor,
        .n_op = inner->n_op,
        .n_dtype = inner->n_dtype,
        .name = inner->name,
        .version = inner->version,
        .sanitizer = inner->sanitizer,
        .device_count = inner->device_count,
        .device_caps = inner->device_caps,
        .device_open = inner->device_open,
        .device_close = planned_device_close,
        .claims = planned_claims,
        .graph_scratch = planned_scratch,
        .buffer_new = planned_buffer_new,
        .buffer_wrap = planned_buffer_wrap,
        .buffer_free = planned_buffer_free,
        .program_new = planned_program_new,
        .program_free = planned_program_free,
        .queue_new = planned_queue_new,
        .queue_free = planned_queue_free,
        .queue_run = planned_queue_run,
        .queue_copy = planned_queue_copy,
        .queue_poll = planned_queue_poll,
        .queue_wait = planned_queue_wait,
        .program_memory = planned_memory,
    };
}

const yk_coll *yk__device_coll(const yk__device *dev, yk_device **handle)
{
    const planned_device *d = (const planned_device *)(void *)dev->handle;
    *handle = dev->plans_only ? d->device : dev->handle;
    return (dev->plans_only ? d->inner : dev->table)->extension(YK_EXT_COLL);
}

yk_status yk__device_plan_only(yk__device *dev, yk_error *err)
{
    const yk_plugin given = planned_table(dev->table);
    planned_device *d = yk__calloc(1, sizeof *d);
    yk_queue *queue = NULL;
    if (!d || planned_queue_new(NULL, NULL, &queue)) {
        yk__free(d);
        return yk__fail_mem(err, sizeof *d, "a device that plans only");
    }
    if (yk__plugin_table_take(&given, dev->table->name, &d->table, err)) {
        planned_queue_free(queue);
        yk__free(d);
        return err->status;
    }
    d->inner = dev->table;
    d->device = dev->handle;
    d->queue = dev->queue;
    dev->table = &d->table;
    dev->handle = (yk_device *)(void *)d;
    dev->queue = queue;
    dev->plans_only = true;
    return YK_OK;
}

void yk__device_plan_compiles(yk__device *dev)
{
    if (dev->plans_only)
        ((planned_device *)(void *)dev->handle)->compiles = yk__plugin_accounts(dev->plugin);
}
