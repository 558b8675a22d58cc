/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A complete plugin for Yoke, to copy and change. It computes in the thread that calls queue_run: a few operations by its own loops,
 * every other one by the host's reference kernels (host->eval_node). It is slow and right.
 *
 * Change these functions, in this order: device_count and device_caps (your devices), buffers (the place of memory), program_new and
 * queue_run. program_new turns the graph into a program that your device can run repeatedly; queue_run runs it. Then claim composites, one
 * after another, and run `yoke-cts --plugin ./yoke_template.so` after each.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <yoke/plugin.h>

#include "plugins/kit/plugin.h"
#include "plugins/kit/value.h"

#ifndef SANITIZER
#define SANITIZER "none"
#endif
#define WHO "template"

struct yk_device {
    int number;
};

struct yk_buffer {
    uint8_t *memory;
    uint64_t bytes;
    bool wrapped; /* the memory is the caller's */
};

struct yk_program {
    const yk_graph *graph; /* the host keeps it as long as the program, so there is no copy */
};

struct yk_queue {
    _Atomic uint64_t point; /* the last point, which is also the last finished one, as a call returns after its work */
    _Atomic int failed;     /* yk_status of the first failure, which every later call returns; atomic, as another thread may wait */
};

static const yk_host *host;
static struct yk_device the_device;

/* ---- Devices ------------------------------------------------------------------------------------------------------ */

static yk_status plugin_init(const yk_host *h)
{
    if (h->size < offsetof(yk_host, option)) /* an older host without the functions used here */
        return YK_E_ABI;
    host = h;
    return YK_OK;
}

static void plugin_fini(void)
{
    host = NULL;
}

static yk_status device_count(uint32_t *n)
{
    *n = 1; /* without a driver return 0 devices, not an error */
    return YK_OK;
}

static yk_status device_caps(uint32_t i, yk_device_caps *caps)
{
    /* YK_CAP_LONG_SUMS holds, as the reference kernels add up in double. Remove it if yours add more than 32 terms in f32. */
    const yk_device_caps c = {.flags = YK_CAP_HOST_VISIBLE | YK_CAP_WRAP | YK_CAP_DETERMINISTIC | YK_CAP_CPU | YK_CAP_LONG_SUMS,
                        .name = "one core, reference kernels",
                        .mem_total = kit_host_memory(),
                        .max_alloc = kit_host_memory(),
                        .align = 64,
                        .units = 1,
                        .store = 1u << YK_F32 | 1u << YK_BF16 | 1u << YK_F16 | 1u << YK_I32 | 1u << YK_U8 | 1u << YK_BOOL,
                        .compute = 1u << YK_F32 | 1u << YK_BF16 | 1u << YK_F16,
                        .isa = "c"};
    if (i != 0)
        return YK_E_ARG;
    kit_caps_give(caps, &c);
    return YK_OK;
}

static yk_status device_open(uint32_t i, yk_device **dev)
{
    if (i != 0)
        return YK_E_ARG;
    *dev = &the_device;
    return YK_OK;
}

static void device_close(yk_device *dev)
{
    (void)dev;
}

/* The host replaces unclaimed composites by primitives. This one is claimed as an example. */
static uint32_t node_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    (void)dev;
    return g->node[node].op == YK_OP_RELU ? YK_CLAIM_RUN : 0;
}

/* ---- Buffers ------------------------------------------------------------------------------------------------------ */

static yk_status buffer_make(void *memory, uint64_t bytes, yk_buffer **out)
{
    yk_buffer *b;
    if (!memory && bytes > kit_host_memory())
        return kit_no_memory(host, WHO, bytes, "a buffer");
    b = kit_zeroed(host, WHO, sizeof *b, "a buffer");
    if (!b)
        return YK_E_MEM;
    b->wrapped = memory != NULL;
    b->bytes = bytes;
    b->memory = memory ? memory : host->alloc(bytes, 64);
    if (!b->memory) {
        host->free(b);
        return kit_no_memory(host, WHO, bytes, "a buffer");
    }
    *out = b;
    return YK_OK;
}

static yk_status buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    (void)dev;
    return buffer_make(NULL, desc->bytes, b); /* the kind of buffer makes no difference here */
}

static yk_status buffer_wrap(yk_device *dev, void *memory, uint64_t bytes, yk_buffer **b)
{
    (void)dev;
    return buffer_make(memory, bytes, b);
}

static void buffer_free(yk_buffer *b)
{
    if (!b->wrapped)
        host->free(b->memory);
    host->free(b);
}

static void *buffer_map(yk_buffer *b)
{
    return b->memory;
}

/* ---- Our own kernels: f32, all operands dense. They return false for nodes that the host must run. -------------------- */

typedef struct operands {
    const yk_graph *graph;
    const yk_node *node;
    void *const *slot;
} operands;

static const yk_value *value_of(const operands *o, uint32_t entry)
{
    return &o->graph->value[o->graph->index[entry]];
}

static bool value_plain(const yk_value *v)
{
    return v->dtype == YK_F32 && kit_value_dense(v);
}

static float *data_of(const operands *o, uint32_t entry)
{
    const yk_value *v = value_of(o, entry);
    return (float *)((uint8_t *)o->slot[v->slot] + v->offset);
}

static bool all_plain(const operands *o)
{
    bool ok = value_plain(value_of(o, o->node->out));
    for (uint32_t i = 0; i < o->node->n_in; i++)
        ok = ok && value_plain(value_of(o, o->node->in + i));
    return ok;
}

static bool run_elementwise(const operands *o)
{
    const float *a = data_of(o, o->node->in), *b = o->node->n_in > 1 ? data_of(o, o->node->in + 1) : a;
    float *y = data_of(o, o->node->out);
    int64_t n = kit_value_count(value_of(o, o->node->out));
    for (int64_t i = 0; i < n; i++)
        switch (o->node->op) {
        case YK_OP_ADD:
            y[i] = a[i] + b[i];
            break;
        case YK_OP_MUL:
            y[i] = a[i] * b[i];
            break;
        case YK_OP_RELU:
            y[i] = a[i] > 0 || a[i] != a[i] ? a[i] : 0;
            break;
        default:
            return false;
        }
    return true;
}

/* y [M,N] (+)= a [M,K] b [K,N] */
static bool run_dot(const operands *o)
{
    const yk_value *va = value_of(o, o->node->in), *vy = value_of(o, o->node->out);
    const float *a = data_of(o, o->node->in), *b = data_of(o, o->node->in + 1);
    float *y = data_of(o, o->node->out);
    bool add = o->node->flags & YK_NODE_ACCUMULATE;
    if (va->dims != 2)
        return false;
    for (int64_t i = 0; i < vy->dim[0]; i++)
        for (int64_t j = 0; j < vy->dim[1]; j++) {
            double sum = add ? y[i * vy->dim[1] + j] : 0;
            for (int64_t k = 0; k < va->dim[1]; k++)
                sum += (double)a[i * va->dim[1] + k] * b[k * vy->dim[1] + j];
            y[i * vy->dim[1] + j] = (float)sum;
        }
    return true;
}

static yk_status run_node(const yk_graph *g, uint32_t node, void *const *slot)
{
    operands o = {.graph = g, .node = &g->node[node], .slot = slot};
    switch (o.node->op) {
    case YK_OP_ADD:
    case YK_OP_MUL:
    case YK_OP_RELU:
        if (all_plain(&o) && run_elementwise(&o))
            return YK_OK;
        break;
    case YK_OP_DOT:
        if (all_plain(&o) && run_dot(&o))
            return YK_OK;
        break;
    default:
        break;
    }
    return host->eval_node(g, node, slot);
}

/* ---- Programs ----------------------------------------------------------------------------------------------------- */

static yk_status program_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    yk_program *p;
    for (uint32_t i = 0; i < g->n_node; i++)
        if (!yk_op_is_primitive(g->node[i].op) && !node_claims(dev, g, i)) {
            KIT_FAIL_NODE(host, WHO, g->node[i].stream, "node %u (operation %u) is neither a primitive nor claimed", i, g->node[i].op);
            return YK_E_UNSUPPORTED;
        }
    p = kit_zeroed(host, WHO, sizeof *p, "a program");
    if (!p)
        return YK_E_MEM;
    p->graph = g;
    *out = p;
    return YK_OK;
}

static void program_free(yk_program *p)
{
    host->free(p);
}

/* ---- Queues ------------------------------------------------------------------------------------------------------- */

static yk_status queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **out)
{
    yk_queue *q = kit_zeroed(host, WHO, sizeof *q, "a queue");
    (void)dev, (void)desc; /* one kind of queue serves all purposes */
    if (!q)
        return YK_E_MEM;
    *out = q;
    return YK_OK;
}

static void queue_free(yk_queue *q)
{
    host->free(q);
}

/* Ends every submission. A refused argument changes nothing; any other failure stays. */
static yk_status queue_end(yk_queue *q, yk_status s, uint64_t *point)
{
    int none = YK_OK;
    if (!s)
        *point = ++q->point;
    else if (s != YK_E_ARG)
        atomic_compare_exchange_strong(&q->failed, &none, (int)s);
    return s;
}

static yk_status queue_status(const yk_queue *q)
{
    const int s = q->failed;
    if (s)
        host->fail(WHO, "the queue has failed before, or was aborted");
    return (yk_status)s;
}

static void queue_abort(yk_queue *q, yk_status why)
{
    int none = YK_OK;
    atomic_compare_exchange_strong(&q->failed, &none, (int)why);
}

static yk_status bind_slots(const yk_graph *g, const yk_submit *s, void **slot)
{
    if (s->n_slot != g->n_slot) {
        host->fail(WHO, "%u slots are bound, the program has %u", s->n_slot, g->n_slot);
        return YK_E_ARG;
    }
    for (uint32_t i = 0; i < g->n_slot; i++) {
        const yk_buffer *b = s->slot[i];
        slot[i] = b ? b->memory + s->slot_offset[i] : NULL;
        if (b && (s->slot_offset[i] > b->bytes || g->slot[i].bytes > b->bytes - s->slot_offset[i])) {
            host->fail(WHO, "slot %u does not fit its buffer", i);
            return YK_E_ARG;
        }
    }
    return YK_OK;
}

/* s->wait needs no wait, as the work of this plugin's other queues is done already. */
static yk_status queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    void **slot;
    yk_status status = queue_status(q);
    if (status)
        return status;
    slot = kit_zeroed(host, WHO, g->n_slot * sizeof *slot, "a table of slots");
    if (!slot)
        return queue_end(q, YK_E_MEM, point);
    status = bind_slots(g, s, slot);
    for (uint32_t i = 0; i < g->n_node && !status; i++)
        status = run_node(g, i, slot);
    host->free(slot);
    return queue_end(q, status, point);
}

/* Address of an end of a copy; NULL, with a message, if it is outside the buffer. */
static void *copy_end(const yk_buffer *b, const void *memory, uint64_t offset, uint64_t bytes)
{
    if (!b)
        return (void *)(uintptr_t)memory;
    if (offset <= b->bytes && bytes <= b->bytes - offset)
        return b->memory + offset;
    host->fail(WHO, "bytes %llu..%llu of a buffer of %llu", (unsigned long long)offset, (unsigned long long)(offset + bytes),
               (unsigned long long)b->bytes);
    return NULL;
}

static yk_status queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_status s = queue_status(q);
    if (s)
        return s;
    if (!c->src && !c->dst) {
        host->fail(WHO, "a copy: expected a buffer at one end, got host memory at both: use memcpy");
        return YK_E_ARG;
    }
    const void *src = copy_end(c->src, c->src_host, c->src_offset, c->bytes);
    void *dst = copy_end(c->dst, c->dst_host, c->dst_offset, c->bytes);
    if (c->bytes && (!src || !dst))
        return YK_E_ARG;
    if (c->bytes)
        memcpy(dst, src, c->bytes);
    return queue_end(q, YK_OK, point);
}

static yk_status queue_poll(yk_queue *q, uint64_t *done)
{
    *done = q->point;
    return queue_status(q);
}

static yk_status queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    (void)timeout_ns; /* a point that was given out is done already */
    if (point <= q->point)
        return queue_status(q);
    host->fail(WHO, "waiting for point %llu; the last one is %llu", (unsigned long long)point, (unsigned long long)q->point);
    return YK_E_ARG;
}

/* ---- The table ----------------------------------------------------------------------------------------------------- */

static const yk_plugin table = {
    .size = sizeof table,
    .abi = YK_ABI,
    .minor = YK_ABI_MINOR,
    .n_op = YK_OP_COUNT,
    .n_dtype = YK_DTYPE_COUNT,
    .name = "template",
    .version = "1",
    .sanitizer = SANITIZER,
    .init = plugin_init,
    .fini = plugin_fini,
    .device_count = device_count,
    .device_caps = device_caps,
    .device_open = device_open,
    .device_close = device_close,
    .claims = node_claims,
    .buffer_new = buffer_new,
    .buffer_wrap = buffer_wrap,
    .buffer_free = buffer_free,
    .buffer_map = buffer_map,
    .program_new = program_new,
    .program_free = program_free,
    .queue_new = queue_new,
    .queue_free = queue_free,
    .queue_run = queue_run,
    .queue_copy = queue_copy,
    .queue_poll = queue_poll,
    .queue_wait = queue_wait,
    .queue_abort = queue_abort,
};

KIT_PLUGIN_EXPORT(table)
