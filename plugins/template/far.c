/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second plugin to copy: a device with its own memory and a thread that drives it, over the kit's queue (plugins/kit/kit_queue.h). It
 * shows a host a GPU's features: buffers that cannot be mapped, copies in parallel to the caller, points, several queues, registered host
 * memory. The reference kernels play the device.
 *
 * Change these functions, in this order: device_caps (its flags first, as they describe this machine), memory_take and memory_give (the
 * place of buffers), far_copy (moving bytes). Then come program_new (compile), far_run (run) and node_claims. Build it as its Makefile.am
 * says, and run `yoke-cts --plugin ./yoke_far.so` after each.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <yoke/plugin.h>

#include "plugins/kit/kit_queue.h"
#include "plugins/kit/plugin.h"
#include "plugins/kit/value.h"

#ifndef SANITIZER
#define SANITIZER "none"
#endif
#define WHO "far"
#define DEVICES 2u
#define ALIGN 256u       /* alignment of slots in buffers */
#define VALUE_ALIGN 128u /* alignment of values in slots */
#define STAGE 65536u     /* bytes per part in copies of unregistered host memory */

struct yk_device {
    uint32_t number;
};

struct yk_buffer {
    yk_device *dev;
    char *far; /* an address that only the device may use */
    uint64_t bytes;
    uint32_t use;
};

struct yk_program {
    const yk_graph *graph;
};

struct yk_pin {
    yk_pin *next;
    const char *begin;
    uint64_t bytes;
};

static const yk_graph *program_graph(const yk_program *p);
static uint64_t buffer_bytes(const yk_buffer *b);
static yk_status far_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY]);
static yk_status far_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY]);
static yk_status far_admit(yk_device *dev, const yk_submit *s, const yk_copy *c);

static kit_queue_ops queue_ops = {
    .plugin = WHO, .graph = program_graph, .bytes = buffer_bytes, .run = far_run, .copy = far_copy, .admit = far_admit};
static const yk_host *host;
static yk_device devices[DEVICES] = {{0}, {1}};
static yk_pin *pins;
static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Devices ------------------------------------------------------------------------------------------------------ */

static yk_status plugin_init(const yk_host *h)
{
    if (h->size < offsetof(yk_host, option))
        return YK_E_ABI;
    host = queue_ops.host = h;
    return YK_OK;
}

static yk_status device_count(uint32_t *n)
{
    *n = DEVICES;
    return YK_OK;
}

static yk_status device_caps(uint32_t i, yk_device_caps *caps)
{
    /* This example has YK_CAP_CPU, as it computes on the host's cores. So `auto` leaves it out if another plugin has them, its memory
     * has the process's limits, and no test looks for leaks of device memory. A device with its own chip must not set it.
     * YK_CAP_DETERMINISTIC promises equal bits for equal inputs. YK_CAP_LONG_SUMS promises exact sums of any length, which the reference
     * kernels make in double. */
    yk_device_caps c = {.flags = YK_CAP_DETERMINISTIC | YK_CAP_CPU | YK_CAP_PINS | YK_CAP_LONG_SUMS,
                        .mem_total = kit_host_memory(),
                        .max_alloc = kit_host_memory(),
                        .max_bind = 1u << 30,
                        .align = ALIGN,
                        .value_align = VALUE_ALIGN,
                        .units = 1,
                        .store = 1u << YK_F32 | 1u << YK_BF16 | 1u << YK_F16 | 1u << YK_I32 | 1u << YK_U8 | 1u << YK_BOOL,
                        .compute = 1u << YK_F32 | 1u << YK_BF16 | 1u << YK_F16,
                        .isa = "reference"};
    if (i >= DEVICES)
        return YK_E_ARG;
    snprintf(c.name, sizeof c.name, "far memory %u, reference kernels", i);
    kit_caps_give(caps, &c);
    return YK_OK;
}

static yk_status device_open(uint32_t i, yk_device **dev)
{
    if (i >= DEVICES)
        return YK_E_ARG;
    *dev = &devices[i];
    return YK_OK;
}

/* The reference kernels run every composite, and can add to the output. */
static uint32_t node_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    (void)dev, (void)g, (void)node;
    return YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE | YK_CLAIM_NARROW_OUT | YK_CLAIM_STRIDED_OUT;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------- */

static char *memory_take(uint64_t bytes)
{
    return bytes > kit_host_memory() ? NULL : host->alloc(bytes + 1, ALIGN);
}

static void memory_give(char *far)
{
    host->free(far);
}

static yk_status buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    yk_buffer *b = kit_zeroed(host, WHO, sizeof *b, "a buffer");
    if (!b)
        return YK_E_MEM;
    *b = (yk_buffer){.dev = dev, .bytes = desc->bytes, .use = desc->use, .far = memory_take(desc->bytes)};
    if (!b->far) {
        host->free(b);
        return kit_no_memory(host, WHO, desc->bytes, "a buffer");
    }
    *out = b;
    return YK_OK;
}

static void buffer_free(yk_buffer *b)
{
    memory_give(b->far);
    host->free(b);
}

static uint64_t buffer_bytes(const yk_buffer *b)
{
    return b->bytes;
}

static yk_status host_pin(yk_device *dev, void *memory, uint64_t bytes, yk_pin **out)
{
    yk_pin *pin = kit_zeroed(host, WHO, sizeof *pin, "a registration");
    (void)dev;
    if (!pin)
        return YK_E_MEM;
    pthread_mutex_lock(&pins_lock);
    *pin = (yk_pin){.next = pins, .begin = memory, .bytes = bytes};
    pins = pin;
    pthread_mutex_unlock(&pins_lock);
    *out = pin;
    return YK_OK;
}

static void host_unpin(yk_pin *pin)
{
    yk_pin **at = &pins;
    pthread_mutex_lock(&pins_lock);
    while (*at != pin)
        at = &(*at)->next;
    *at = pin->next;
    pthread_mutex_unlock(&pins_lock);
    host->free(pin);
}

static bool is_pinned(const char *memory, uint64_t bytes)
{
    bool inside = false;
    pthread_mutex_lock(&pins_lock);
    for (const yk_pin *p = pins; p && !inside; p = p->next)
        inside = memory >= p->begin && bytes <= p->bytes && (uint64_t)(memory - p->begin) <= p->bytes - bytes;
    pthread_mutex_unlock(&pins_lock);
    return inside;
}

/* ---- Programs ----------------------------------------------------------------------------------------------------- */

static uint64_t value_bytes(const yk_value *v)
{
    return (uint64_t)kit_value_count(v) * yk_dtype_bytes(v->dtype);
}

/* Reserved words must be 0: a host that sets one uses a feature that this plugin does not know. */
static bool reserved_is_zero(const yk_graph *g)
{
    uint32_t any = g->reserved;
    for (uint32_t i = 0; i < g->n_value; i++)
        any |= g->value[i].reserved;
    for (uint32_t i = 0; i < g->n_all_node; i++)
        any |= g->node[i].reserved;
    return !any;
}

static yk_status program_check(const yk_graph *g)
{
    if (!reserved_is_zero(g)) {
        host->fail(WHO, "a reserved word of the graph is not 0");
        return YK_E_ARG;
    }
    for (uint32_t i = 0; i < g->n_node; i++)
        if (yk_op_kind(g->node[i].op) == YK_OP_KIND_NONE || yk_op_kind(g->node[i].op) == YK_OP_KIND_CORE) {
            KIT_FAIL_NODE(host, WHO, g->node[i].stream, "node %u: there is no operation %u here", i, g->node[i].op);
            return YK_E_UNSUPPORTED;
        }
    for (uint32_t i = 0; i < g->n_value; i++)
        if (g->value[i].base == i && g->value[i].slot != YK_NONE && value_bytes(&g->value[i]) >= VALUE_ALIGN &&
            g->value[i].offset % VALUE_ALIGN) {
            host->fail(WHO, "value %u lies at byte %llu, no multiple of %u", i, (unsigned long long)g->value[i].offset, VALUE_ALIGN);
            return YK_E_ARG;
        }
    return YK_OK;
}

static yk_status program_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    yk_status s = program_check(g);
    yk_program *p = s ? NULL : kit_zeroed(host, WHO, sizeof *p, "a program");
    (void)dev;
    if (s || !p)
        return s ? s : YK_E_MEM;
    p->graph = g;
    *out = p;
    return YK_OK;
}

static void program_free(yk_program *p)
{
    host->free(p);
}

static const yk_graph *program_graph(const yk_program *p)
{
    return p->graph;
}

/* ---- Functions of the queue's thread -------------------------------------------------------------------------------- */

static yk_status far_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    const yk_graph *g = s->program->graph;
    void **slot = host->alloc(g->n_slot * sizeof *slot, 64);
    yk_status st = slot ? YK_OK : YK_E_MEM;
    (void)dev;
    for (uint32_t i = 0; i < g->n_slot && slot; i++)
        slot[i] = s->slot[i] ? s->slot[i]->far + s->slot_offset[i] : NULL;
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        if (kit_queue_failed(kit_queue_current())) { /* aborted: the rest would keep kit_queue_free waiting */
            st = YK_E_CANCELLED;
            break;
        }
        st = host->eval_node(g, i, slot);
        if (st) {
            snprintf(why, KIT_WHY, "node %u could not be run", i);
            kit_queue_blame(g->node[i].stream);
        }
    }
    host->free(slot);
    return st;
}

/* Copies unregistered host memory in parts, as drivers do. */
static void bytes_move(char *to, const char *from, uint64_t bytes, bool at_once)
{
    char stage[STAGE];
    for (uint64_t at = 0; at < bytes && !at_once; at += STAGE) {
        const size_t part = bytes - at < STAGE ? (size_t)(bytes - at) : STAGE;
        memcpy(stage, from + at, part);
        memcpy(to + at, stage, part);
    }
    if (at_once)
        memcpy(to, from, bytes);
}

static yk_status far_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    const char *from = c->src ? c->src->far + c->src_offset : c->src_host;
    char *to = c->dst ? c->dst->far + c->dst_offset : c->dst_host;
    (void)dev, (void)why;
    bytes_move(to, from, c->bytes, (c->src && c->dst) || is_pinned(c->src ? to : from, c->bytes));
    return YK_OK;
}

/* Refuses a buffer in a slot of a kind that it was not made for. */
static yk_status far_admit(yk_device *dev, const yk_submit *s, const yk_copy *c)
{
    (void)dev, (void)c;
    for (uint32_t i = 0; s && i < s->n_slot; i++) {
        const uint32_t kind = s->program->graph->slot[i].kind;
        if (s->slot[i] && s->slot[i]->use && !(s->slot[i]->use & 1u << kind)) {
            host->fail(WHO, "slot %u is of kind %u; its buffer was made for other kinds (use %#x)", i, kind, s->slot[i]->use);
            return YK_E_ARG;
        }
    }
    return YK_OK;
}

static yk_status queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    (void)desc; /* every kind of queue is a thread */
    return kit_queue_new(dev, &queue_ops, q);
}

/* ---- The table ----------------------------------------------------------------------------------------------------- */

static const yk_plugin table = {
    .size = sizeof table,
    .abi = YK_ABI,
    .minor = YK_ABI_MINOR,
    .n_op = YK_OP_COUNT,
    .n_dtype = YK_DTYPE_COUNT,
    .name = WHO,
    .version = "1",
    .sanitizer = SANITIZER,
    .init = plugin_init,
    .device_count = device_count,
    .device_caps = device_caps,
    .device_open = device_open,
    .claims = node_claims,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .program_new = program_new,
    .program_free = program_free,
    .queue_new = queue_new,
    .queue_free = kit_queue_free,
    .queue_run = kit_queue_run,
    .queue_copy = kit_queue_copy,
    .queue_poll = kit_queue_poll,
    .queue_wait = kit_queue_wait,
    .queue_abort = kit_queue_abort,
    .queue_span = kit_queue_span,
    .host_pin = host_pin,
    .host_unpin = host_unpin,
};

KIT_PLUGIN_EXPORT(table)
