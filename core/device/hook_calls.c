/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers' functions with a handle (YOKE_LAYERS). Each unwraps the host's handles, calls the plugin's function of the same name, and
 * checks, times or prints the call.
 *
 * layers.c puts them in a plugin's table in place of its own. All of core calls them through that table, without knowing of the layer, in
 * the thread of each call. validate.c has the checks; hook_copy.c has the calls for copies.
 */
#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/device/hook.h"

#define GUARD 4096u

static bool hook_validates(const hook *h)
{
    return h->layers & HOOK_VALIDATE;
}

/* ---- Devices ----------------------------------------------------------------------------------------------------------- */

static void device_close(yk_device *dev)
{
    hook_object *o = (hook_object *)dev;
    hook_call c;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return;
    c = yk__hook_begin(o->hook, HOOK_device_close);
    for (const hook_object *p = o->hook->live; p && hook_validates(o->hook); p = p->next)
        if (p->device == o) {
            yk__hook_wrong("%s: a device is closed before the objects that were made on it", o->hook->inner->name);
            break;
        }
    if (o->checker)
        o->hook->inner->queue_free(o->checker);
    o->hook->inner->device_close(o->inner);
    yk__hook_end(&c, YK_OK, 0);
    yk__hook_drop(o);
}

static uint32_t device_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    hook_object *o = (hook_object *)dev;
    hook_call c;
    uint32_t answer;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return 0;
    c = yk__hook_begin(o->hook, HOOK_claims);
    if (hook_validates(o->hook) && yk__hook_reserved_check(g, "claims")) {
        yk__hook_end(&c, YK_E_INTERNAL, 0);
        return 0;
    }
    answer = o->hook->inner->claims(o->inner, g, node);
    if (hook_validates(o->hook) && answer &&
        (!(answer & YK_CLAIM_RUN) || answer & ~(uint32_t)(YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE | YK_CLAIM_NARROW_OUT | YK_CLAIM_STRIDED_OUT)))
        yk__hook_wrong("%s: claims answers %u for node %u; expected 0, or YK_CLAIM_RUN with further flags", o->hook->inner->name,
                       answer, node);
    yk__hook_end(&c, YK_OK, 0);
    return answer;
}

/* ---- Buffers ----------------------------------------------------------------------------------------------------------- */

static yk_status buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    hook_object *d = (hook_object *)dev, *o;
    yk_buffer_desc guarded = *desc;
    const uint64_t bytes = desc->bytes;
    hook_call c;
    yk_status s = YK_OK;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(d->hook, HOOK_buffer_new);
    o = yk__hook_object(d->hook, HOOK_BUFFER, d, &s);
    if (!o)
        return yk__hook_end(&c, s, 0);
    o->bytes = bytes;
    o->guard = hook_validates(d->hook) && bytes < UINT64_MAX / 2 ? (d->align > GUARD ? d->align : GUARD) : 0;
    guarded.size = sizeof guarded;
    guarded.bytes += 2 * o->guard;
    s = d->hook->inner->buffer_new(d->inner, &guarded, (yk_buffer **)&o->inner);
    s = yk__plugin_made(s, o->inner);
    if (!s && o->guard && (s = yk__hook_guard_fill(o)))
        d->hook->inner->buffer_free(o->inner);
    if (s)
        yk__hook_drop(o);
    else
        *b = (yk_buffer *)o;
    return yk__hook_end(&c, s, bytes);
}

static yk_status buffer_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **b)
{
    hook_object *d = (hook_object *)dev, *o;
    hook_call c;
    yk_status s = YK_OK;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    if (hook_validates(d->hook) && (uintptr_t)host % 4096)
        return yk__hook_wrong("%s: buffer_wrap of memory that is not page-aligned", d->hook->inner->name);
    c = yk__hook_begin(d->hook, HOOK_buffer_wrap);
    o = yk__hook_object(d->hook, HOOK_BUFFER, d, &s);
    if (!o)
        return yk__hook_end(&c, s, 0);
    o->bytes = bytes;
    o->wrapped = true;
    s = d->hook->inner->buffer_wrap(d->inner, host, bytes, (yk_buffer **)&o->inner);
    s = yk__plugin_made(s, o->inner);
    if (s)
        yk__hook_drop(o);
    else
        *b = (yk_buffer *)o;
    return yk__hook_end(&c, s, bytes);
}

static void buffer_free(yk_buffer *b)
{
    hook_object *o = (hook_object *)b;
    hook_call c;
    if (!yk__hook_alive(b, HOOK_BUFFER))
        return;
    c = yk__hook_begin(o->hook, HOOK_buffer_free);
    if (o->guard)
        yk__hook_guard_check(o, "when the buffer is freed");
    o->hook->inner->buffer_free(o->inner);
    yk__hook_end(&c, YK_OK, o->bytes);
    yk__hook_drop(o);
}

static void *buffer_map(yk_buffer *b)
{
    hook_object *o = (hook_object *)b;
    hook_call c;
    uint8_t *p;
    if (!yk__hook_alive(b, HOOK_BUFFER))
        return NULL;
    c = yk__hook_begin(o->hook, HOOK_buffer_map);
    p = o->hook->inner->buffer_map(o->inner);
    yk__hook_end(&c, YK_OK, o->bytes);
    return p ? p + o->guard : NULL;
}

/* ---- Programs ---------------------------------------------------------------------------------------------------------- */

static yk_status program_new(yk_device *dev, const yk_graph *g, yk_program **p)
{
    hook_object *d = (hook_object *)dev, *o;
    hook_call c;
    yk_status s = YK_OK;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(d->hook, HOOK_program_new);
    o = yk__hook_object(d->hook, HOOK_PROGRAM, d, &s);
    if (!o)
        return yk__hook_end(&c, s, 0);
    o->graph = g;
    if (hook_validates(d->hook))
        s = yk__hook_graph_check(o, g);
    if (!s)
        s = d->hook->inner->program_new(d->inner, g, (yk_program **)&o->inner);
    s = yk__plugin_made(s, o->inner);
    if (s)
        yk__hook_drop(o);
    else
        *p = (yk_program *)o;
    return yk__hook_end(&c, s, 0);
}

static yk_status graph_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    hook_object *d = (hook_object *)dev;
    hook_call c;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(d->hook, HOOK_graph_scratch);
    return yk__hook_end(&c, d->hook->inner->graph_scratch(d->inner, g, bytes), 0);
}

static yk_status program_memory(const yk_program *p, yk_program_memory *m)
{
    const hook_object *o = (const hook_object *)p;
    hook_call c;
    if (!yk__hook_alive(p, HOOK_PROGRAM))
        return YK_E_INTERNAL;
    c = yk__hook_begin(o->hook, HOOK_program_memory);
    return yk__hook_end(&c, o->hook->inner->program_memory(o->inner, m), 0);
}

static void program_free(yk_program *p)
{
    hook_object *o = (hook_object *)p;
    hook_call c;
    if (!yk__hook_alive(p, HOOK_PROGRAM))
        return;
    c = yk__hook_begin(o->hook, HOOK_program_free);
    o->hook->inner->program_free(o->inner);
    yk__hook_end(&c, YK_OK, 0);
    yk__hook_drop(o);
}

/* ---- Queues ------------------------------------------------------------------------------------------------------------ */

static yk_status queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    hook_object *d = (hook_object *)dev, *o;
    hook_call c;
    yk_status s = YK_OK;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(d->hook, HOOK_queue_new);
    o = yk__hook_object(d->hook, HOOK_QUEUE, d, &s);
    if (!o)
        return yk__hook_end(&c, s, 0);
    s = d->hook->inner->queue_new(d->inner, desc, (yk_queue **)&o->inner);
    s = yk__plugin_made(s, o->inner);
    if (s)
        yk__hook_drop(o);
    else
        *q = (yk_queue *)o;
    return yk__hook_end(&c, s, 0);
}

static void queue_free(yk_queue *q)
{
    hook_object *o = (hook_object *)q;
    hook_call c;
    if (!yk__hook_alive(q, HOOK_QUEUE))
        return;
    c = yk__hook_begin(o->hook, HOOK_queue_free);
    o->hook->inner->queue_free(o->inner);
    yk__hook_end(&c, YK_OK, 0);
    yk__hook_drop(o);
}

typedef struct translated {
    yk_submit submit;
    yk_buffer **slot;
    uint64_t *offset;
    yk_wait *wait;
} translated;

static void translated_free(translated *t)
{
    yk__free(t->slot);
    yk__free(t->offset);
    yk__free(t->wait);
}

/* Makes the same submission with the plugin's handles, and with offsets moved by the guards. */
static yk_status submit_translate(const yk_submit *s, translated *t)
{
    memset(t, 0, sizeof *t);
    t->slot = yk__calloc(s->n_slot, sizeof *t->slot);
    t->offset = yk__calloc(s->n_slot, sizeof *t->offset);
    t->wait = yk__calloc(s->n_wait, sizeof *t->wait);
    if (!t->slot || !t->offset || !t->wait) {
        translated_free(t);
        return YK_E_MEM;
    }
    for (uint32_t i = 0; i < s->n_slot; i++) {
        const hook_object *b = (const hook_object *)s->slot[i];
        t->slot[i] = b ? b->inner : NULL;
        t->offset[i] = s->slot_offset[i] + (b ? b->guard : 0);
    }
    yk__hook_waits(s->wait, s->n_wait, t->wait);
    t->submit = *s;
    t->submit.program = ((const hook_object *)s->program)->inner;
    t->submit.slot = t->slot;
    t->submit.slot_offset = t->offset;
    t->submit.wait = t->wait;
    return YK_OK;
}

/* A run may stand behind a collective of a rank that is gone. If the job ends, the run is submitted, and its guards stay as they are. */
static yk_status guards_after_run(hook_object *q, const yk_submit *s, uint64_t point)
{
    const volatile int *cancel = q->device->cancel;
    yk_status st = yk__hook_reached(q->hook, q->inner, point, cancel);
    if (st == YK_E_CANCELLED && cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE))
        return YK_OK;
    for (uint32_t i = 0; i < s->n_slot && !st; i++)
        if (s->slot[i] && ((hook_object *)s->slot[i])->guard)
            st = yk__hook_guard_check((hook_object *)s->slot[i], "after a run");
    return st;
}

static yk_status queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    hook_object *o = (hook_object *)q;
    translated t;
    hook_call c;
    yk_status st = YK_OK;
    if (!yk__hook_alive(q, HOOK_QUEUE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(o->hook, HOOK_queue_run);
    if (hook_validates(o->hook))
        st = yk__hook_submit_check(o, s);
    if (st || (st = submit_translate(s, &t)))
        return yk__hook_end(&c, st, 0);
    st = o->hook->inner->queue_run(o->inner, &t.submit, point);
    translated_free(&t);
    st = yk__hook_point_check(o, st, *point, "queue_run");
    if (!st && hook_validates(o->hook))
        st = guards_after_run(o, s, *point);
    return yk__hook_end(&c, st, 0);
}

static yk_status queue_poll(yk_queue *q, uint64_t *done)
{
    hook_object *o = (hook_object *)q;
    hook_call c;
    uint64_t before;
    yk_status s;
    if (!yk__hook_alive(q, HOOK_QUEUE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(o->hook, HOOK_queue_poll);
    before = o->done;
    s = o->hook->inner->queue_poll(o->inner, done);
    if (!s && hook_validates(o->hook) && (*done < before || *done > o->last + 1)) /* + 1: another thread may be about to receive it */
        s = yk__hook_wrong("%s: queue_poll says point %llu is done; it said %llu before, and %llu were given out",
                           o->hook->inner->name, (unsigned long long)*done, (unsigned long long)before,
                           (unsigned long long)o->last);
    if (!s)
        o->done = *done;
    return yk__hook_end(&c, s, 0);
}

static yk_status queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    hook_object *o = (hook_object *)q;
    hook_call c;
    yk_status s;
    if (!yk__hook_alive(q, HOOK_QUEUE))
        return YK_E_INTERNAL;
    c = yk__hook_begin(o->hook, HOOK_queue_wait);
    s = o->hook->inner->queue_wait(o->inner, point, timeout_ns);
    if (!s && hook_validates(o->hook) && point > o->last)
        s = yk__hook_wrong("%s: point %llu is said to be done; only %llu were given out", o->hook->inner->name,
                           (unsigned long long)point, (unsigned long long)o->last);
    return yk__hook_end(&c, s, 0);
}

void yk__hook_functions(yk_plugin *t)
{
    t->device_close = device_close;
    t->claims = device_claims;
    t->buffer_new = buffer_new;
    t->buffer_wrap = buffer_wrap;
    t->buffer_free = buffer_free;
    t->buffer_map = buffer_map;
    t->program_new = program_new;
    t->graph_scratch = graph_scratch;
    t->program_free = program_free;
    t->program_memory = program_memory;
    t->queue_new = queue_new;
    t->queue_free = queue_free;
    t->queue_run = queue_run;
    t->queue_poll = queue_poll;
    t->queue_wait = queue_wait;
}
