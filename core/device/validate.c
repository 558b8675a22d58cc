/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer validate (YOKE_LAYERS=validate): checks the contract of host and plugin on every call. hook_calls.c and hook_copy.c ask it before
 * and after each call, in the thread of the call. The first breach is an error that names it.
 *
 * Buffers get guard bands, which are checked after each run and when a buffer is freed; so the layer waits for every run.
 */
#include <stdarg.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/device/hook.h"
#include "core/graph/graph.h"

#define GUARD_BYTE 0x5A

const char *const yk__hook_kinds[HOOK_KIND_COUNT] = {"device", "buffer", "program", "queue", "pin", "communicator"};

yk_status yk__hook_wrong(const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yk__log(YK_LOG_ERROR, "validate", "%s", text);
    yk__host_table()->fail("validate", "%s", text);
    return YK_E_INTERNAL;
}

/* True if the handle is in a list of living objects. It searches all lists, as a dead handle's own hook cannot be read. */
static bool in_list(const void *handle, hook_kind kind, hook *h)
{
    bool found = false;
    pthread_mutex_lock(&h->lock);
    for (const hook_object *o = h->live; o && !found; o = o->next)
        found = o == handle && o->kind == kind;
    pthread_mutex_unlock(&h->lock);
    return found;
}

bool yk__hook_alive(const void *handle, hook_kind kind)
{
    uint32_t n = 0, validating = 0;
    hook *h;
    for (; (h = yk__hook_number(n)); n++) {
        validating += !!(h->layers & HOOK_VALIDATE);
        if (validating && in_list(handle, kind, h))
            return true;
    }
    if (!validating)
        return true;
    yk__hook_wrong("%p is no living %s", handle, yk__hook_kinds[kind]);
    return false;
}

void yk__layers_cancel(const yk__device *dev, const volatile int *cancel)
{
    hook *h;
    for (uint32_t n = 0; (h = yk__hook_number(n)); n++)
        if (in_list(dev->handle, HOOK_DEVICE, h))
            ((hook_object *)dev->handle)->cancel = cancel;
}

/* ---- Guards ------------------------------------------------------------------------------------------------------------ */

yk_status yk__hook_reached(const hook *h, yk_queue *queue, uint64_t point, const volatile int *cancel)
{
    uint64_t idle_ns = 0;
    const yk_status s = yk__point_wait(h->inner, queue, NULL, point, cancel, &idle_ns);
    if (s != YK_E_TIMEOUT)
        return s;
    return yk__hook_wrong("%s: point %llu is not reached, and nothing has been for %.1f s (YOKE_STUCK_MS); it is lost", h->inner->name,
                          (unsigned long long)point, (double)idle_ns * 1e-9);
}

static yk_status guards_move(hook_object *b, uint8_t *bytes, bool put)
{
    hook_object *d = b->device;
    const yk_plugin *t = b->hook->inner;
    const uint64_t at[2] = {0, b->guard + b->bytes};
    uint64_t point = 0;
    yk_status s = d->checker ? YK_OK : YK_E_INTERNAL;
    pthread_mutex_lock(&b->hook->lock); /* only one thread at a time may use a queue */
    for (int i = 0; i < 2 && !s; i++)
        s = put ? yk_put(t, d->checker, b->inner, at[i], bytes + (uint64_t)i * b->guard, b->guard, &point)
                : yk_get(t, d->checker, b->inner, at[i], bytes + (uint64_t)i * b->guard, b->guard, &point);
    if (!s)
        s = yk__hook_reached(b->hook, d->checker, point, NULL); /* no collective is in this queue, and `bytes` go next */
    pthread_mutex_unlock(&b->hook->lock);
    return s;
}

yk_status yk__hook_guard_fill(hook_object *b)
{
    uint8_t *bytes = yk__malloc(2 * b->guard);
    yk_status s;
    if (!bytes)
        return YK_E_MEM;
    memset(bytes, GUARD_BYTE, 2 * b->guard);
    s = guards_move(b, bytes, true);
    yk__free(bytes);
    return s;
}

yk_status yk__hook_guard_check(hook_object *b, const char *when)
{
    uint8_t *bytes = yk__calloc(2, b->guard);
    yk_status s = bytes ? guards_move(b, bytes, false) : YK_E_MEM;
    for (uint64_t i = 0; i < 2 * b->guard && !s; i++)
        if (bytes[i] != GUARD_BYTE)
            s = yk__hook_wrong("%s: %s byte %lld of a buffer of %llu bytes is found written", b->hook->inner->name, when,
                               i < b->guard ? (long long)i - (long long)b->guard : (long long)(b->bytes + i - b->guard),
                               (unsigned long long)b->bytes);
    yk__free(bytes);
    return s;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------- */

yk_status yk__hook_reserved_check(const yk_graph *g, const char *call)
{
    for (uint32_t i = 0; i < g->n_value; i++)
        if (g->value[i].reserved)
            return yk__hook_wrong("%s: the reserved word of value %u is %u; the host leaves it 0", call, i, g->value[i].reserved);
    for (uint32_t i = 0; i < g->n_all_node; i++)
        if (g->node[i].reserved)
            return yk__hook_wrong("%s: the reserved word of node %u is %u; the host leaves it 0", call, i, g->node[i].reserved);
    return g->reserved ? yk__hook_wrong("%s: the graph's reserved word is %u; the host leaves it 0", call, g->reserved) : YK_OK;
}

yk_status yk__hook_graph_check(hook_object *p, const yk_graph *g)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__graph_check(g, &err))
        return yk__hook_wrong("program_new: %s", err.text);
    if (yk__hook_reserved_check(g, "program_new"))
        return YK_E_INTERNAL;
    p->used = yk__calloc(g->n_slot ? g->n_slot : 1, 1);
    if (!p->used)
        return YK_E_MEM;
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < (uint32_t)g->node[i].n_in + g->node[i].n_out; k++) {
            const yk_node *n = &g->node[i];
            uint32_t slot = g->value[g->index[k < n->n_in ? n->in + k : n->out + k - n->n_in]].slot;
            if (slot < g->n_slot)
                p->used[slot] = 1;
        }
    return YK_OK;
}

static yk_status slot_check(const hook_object *q, const yk_submit *s, const hook_object *p, uint32_t i)
{
    const hook_object *b = (const hook_object *)s->slot[i];
    uint64_t need = p->graph->slot[i].bytes;
    if (!b)
        return p->used[i] ? yk__hook_wrong("queue_run: slot %u is used by the program and has no buffer", i) : YK_OK;
    if (!yk__hook_alive(b, HOOK_BUFFER))
        return YK_E_INTERNAL;
    if (b->device != q->device)
        return yk__hook_wrong("queue_run: the buffer of slot %u is of another device", i);
    if (s->slot_offset[i] % q->device->align)
        return yk__hook_wrong("queue_run: the offset %llu of slot %u is no multiple of %u", (unsigned long long)s->slot_offset[i], i,
                              q->device->align);
    if (s->slot_offset[i] > b->bytes || need > b->bytes - s->slot_offset[i])
        return yk__hook_wrong("queue_run: slot %u needs %llu bytes from %llu on; its buffer has %llu", i,
                              (unsigned long long)need, (unsigned long long)s->slot_offset[i], (unsigned long long)b->bytes);
    return YK_OK;
}

yk_status yk__hook_submit_check(const hook_object *q, const yk_submit *s)
{
    const hook_object *p = (const hook_object *)s->program;
    yk_status st = YK_OK;
    if (!yk__hook_alive(p, HOOK_PROGRAM))
        return YK_E_INTERNAL;
    if (p->device != q->device)
        return yk__hook_wrong("queue_run: the program is of another device");
    if (s->n_slot != p->graph->n_slot)
        return yk__hook_wrong("queue_run: %u slots are given, the program has %u", s->n_slot, p->graph->n_slot);
    for (uint32_t i = 0; i < s->n_wait; i++)
        if (!yk__hook_alive(s->wait[i].queue, HOOK_QUEUE))
            return YK_E_INTERNAL;
    for (uint32_t i = 0; i < s->n_slot && !st; i++)
        st = slot_check(q, s, p, i);
    return st;
}

yk_status yk__hook_point_check(hook_object *q, yk_status s, uint64_t point, const char *what)
{
    bool check = q->hook->layers & HOOK_VALIDATE;
    yk_status before = q->failed;
    uint64_t last = q->last;
    if (s && s != YK_E_ARG) /* a call that refused its argument may leave the queue as it was */
        q->failed = q->failed ? q->failed : s;
    else if (!s)
        q->last = point;
    if (check && before && s != before)
        return yk__hook_wrong("%s: %s gives %s after the queue failed with %s", q->hook->inner->name, what, yk__status_name(s),
                              yk__status_name(before));
    if (check && !s && point != last + 1)
        return yk__hook_wrong("%s: %s gives point %llu after %llu; points grow by one", q->hook->inner->name, what,
                              (unsigned long long)point, (unsigned long long)last);
    return s;
}

yk_status yk__hook_range_check(const hook_object *b, uint64_t offset, uint64_t bytes)
{
    if (!(b->hook->layers & HOOK_VALIDATE))
        return YK_OK;
    if (offset > b->bytes || bytes > b->bytes - offset)
        return yk__hook_wrong("a transfer of %llu bytes at %llu of a buffer of %llu", (unsigned long long)bytes,
                              (unsigned long long)offset, (unsigned long long)b->bytes),
               YK_E_ARG;
    return YK_OK;
}
