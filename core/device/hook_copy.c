/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers' functions for copies, registered host memory, abort and spans (YOKE_LAYERS). As in hook_calls.c each unwraps the host's
 * handles, calls the plugin's function of the same name, and checks, times or prints the call.
 *
 * layers.c puts them in a plugin's table in place of its own. So all of core calls them without knowing of the layer, in the thread of
 * each call.
 */
#include "core/base/mem.h"
#include "core/device/hook.h"

/* ---- Copies ---- */

static yk_status end_check(yk_buffer *b, const void *host, uint64_t offset, uint64_t bytes)
{
    if (b && !yk__hook_alive(b, HOOK_BUFFER))
        return YK_E_INTERNAL;
    if (!b)
        return host || !bytes ? YK_OK : yk__hook_wrong("queue_copy: an end is neither a buffer nor host memory");
    return yk__hook_range_check((const hook_object *)b, offset, bytes);
}

static bool is_of_device(const hook_object *q, yk_buffer *b)
{
    return b && ((const hook_object *)b)->device == q->device;
}

static yk_status copy_check(const hook_object *q, const yk_copy *c)
{
    yk_status s = end_check(c->src, c->src_host, c->src_offset, c->bytes);
    if (!s)
        s = end_check(c->dst, c->dst_host, c->dst_offset, c->bytes);
    if (!s && q->hook->layers & HOOK_VALIDATE && !is_of_device(q, c->src) && !is_of_device(q, c->dst))
        s = yk__hook_wrong("queue_copy: no end is a buffer of the queue's device");
    for (uint32_t i = 0; i < c->n_wait && !s; i++)
        s = yk__hook_alive(c->wait[i].queue, HOOK_QUEUE) ? YK_OK : YK_E_INTERNAL;
    return s;
}

/* The plugin's own buffer; moves *offset by the guard before the host's bytes. */
static yk_buffer *end_translate(yk_buffer *b, uint64_t *offset)
{
    hook_object *o = (hook_object *)b;
    *offset += o ? o->guard : 0;
    return o ? o->inner : NULL;
}

static yk_status copy_forward(hook_object *q, const yk_copy *c, uint64_t *point)
{
    yk_copy inner = *c;
    yk_wait *wait = yk__calloc(c->n_wait ? c->n_wait : 1, sizeof *wait);
    yk_status s;
    if (!wait)
        return YK_E_MEM;
    yk__hook_waits(c->wait, c->n_wait, wait);
    inner.wait = wait;
    inner.src = end_translate(c->src, &inner.src_offset);
    inner.dst = end_translate(c->dst, &inner.dst_offset);
    s = q->hook->inner->queue_copy(q->inner, &inner, point);
    yk__free(wait);
    return yk__hook_point_check(q, s, *point, "queue_copy");
}

static yk_status queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    hook_object *o = (hook_object *)q;
    hook_call call;
    yk_status s;
    if (!yk__hook_alive(q, HOOK_QUEUE))
        return YK_E_INTERNAL;
    call = yk__hook_begin(o->hook, HOOK_queue_copy);
    s = copy_check(o, c);
    if (!s)
        s = copy_forward(o, c, point);
    return yk__hook_end(&call, s, c->bytes);
}

/* ---- Abort and spans ---- */

static void queue_abort(yk_queue *q, yk_status why)
{
    hook_object *o = (hook_object *)q;
    hook_call c;
    if (!yk__hook_alive(q, HOOK_QUEUE))
        return;
    c = yk__hook_begin(o->hook, HOOK_queue_abort);
    o->hook->inner->queue_abort(o->inner, why);
    yk__hook_end(&c, YK_OK, 0);
}

static yk_status queue_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
    hook_object *o = (hook_object *)q;
    hook_call c;
    yk_status s;
    if (!yk__hook_alive(q, HOOK_QUEUE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(o->hook, HOOK_queue_span);
    s = o->hook->inner->queue_span(o->inner, point, begin_ns, end_ns);
    if (!s && o->hook->layers & HOOK_VALIDATE && *end_ns < *begin_ns)
        s = yk__hook_wrong("%s: the work of point %llu ends before it begins", o->hook->inner->name, (unsigned long long)point);
    return yk__hook_end(&c, s, 0);
}

/* ---- Registered host memory ---- */

static yk_status host_pin(yk_device *dev, void *memory, uint64_t bytes, yk_pin **pin)
{
    hook_object *d = (hook_object *)dev, *o;
    hook_call c;
    yk_status s = YK_OK;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(d->hook, HOOK_host_pin);
    o = yk__hook_object(d->hook, HOOK_PIN, d, &s);
    if (!o)
        return yk__hook_end(&c, s, 0);
    s = d->hook->inner->host_pin(d->inner, memory, bytes, (yk_pin **)&o->inner);
    if (s)
        yk__hook_drop(o);
    else
        *pin = (yk_pin *)o;
    return yk__hook_end(&c, s, bytes);
}

static void host_unpin(yk_pin *pin)
{
    hook_object *o = (hook_object *)pin;
    hook_call c;
    if (!yk__hook_alive(pin, HOOK_PIN))
        return;
    c = yk__hook_begin(o->hook, HOOK_host_unpin);
    o->hook->inner->host_unpin(o->inner);
    yk__hook_end(&c, YK_OK, 0);
    yk__hook_drop(o);
}

void yk__hook_copy_functions(yk_plugin *t)
{
    t->queue_copy = queue_copy;
    t->queue_abort = queue_abort;
    t->queue_span = queue_span;
    t->host_pin = host_pin;
    t->host_unpin = host_unpin;
}
