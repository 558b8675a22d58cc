/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base of all layers (YOKE_LAYERS), which trace, count or check calls of a plugin. It has the hooks of this process, their living
 * objects, and the timing of a call.
 *
 * layers.c makes a hook for a wrapped plugin. hook_calls.c and hook_copy.c use it in each call, in any thread that calls the plugin. So the
 * list of objects has a lock.
 */
#include "core/device/hook.h"


#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

static hook hooks[HOOKS]; /* filled in order, under the loader's lock */
static uint32_t n_hook;

static const char *const fn_names[] = {
#define HOOK_NAME(name) #name,
    HOOK_TABLE(HOOK_NAME)
#undef HOOK_NAME
};

hook *yk__hook_new(void)
{
    if (n_hook == HOOKS)
        return NULL;
    hook *h = &hooks[n_hook];
    h->number = n_hook++;
    pthread_mutex_init(&h->lock, NULL);
    return h;
}

hook *yk__hook_number(uint32_t n)
{
    return n < n_hook ? &hooks[n] : NULL;
}

/* ---- Objects ---- */

hook_object *yk__hook_object(hook *h, hook_kind kind, hook_object *device, yk_status *s)
{
    hook_object *o = yk__calloc(1, sizeof *o);
    if (!o) {
        *s = YK_E_MEM;
        return NULL;
    }
    o->hook = h;
    o->kind = kind;
    o->device = device;
    pthread_mutex_lock(&h->lock);
    o->next = h->live;
    h->live = o;
    pthread_mutex_unlock(&h->lock);
    return o;
}

void yk__hook_drop(hook_object *o)
{
    hook *h = o->hook;
    hook_object **p = &h->live;
    pthread_mutex_lock(&h->lock);
    while (*p && *p != o)
        p = &(*p)->next;
    if (*p)
        *p = o->next;
    pthread_mutex_unlock(&h->lock);
    yk__free(o->used);
    yk__free(o);
}

void yk__hook_waits(const yk_wait *from, uint32_t n, yk_wait *to)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (yk_wait){((const hook_object *)from[i].queue)->inner, from[i].point};
}

/* ---- One call ---- */

hook_call yk__hook_begin(hook *h, hook_fn fn)
{
    return (hook_call){h, fn, yk__clock_seconds()};
}

yk_status yk__hook_end(const hook_call *c, yk_status s, uint64_t bytes)
{
    double took = yk__clock_seconds() - c->begin;
    pthread_mutex_lock(&c->h->lock);
    c->h->stat[c->fn].calls++;
    c->h->stat[c->fn].bytes += bytes;
    c->h->stat[c->fn].seconds += took;
    pthread_mutex_unlock(&c->h->lock);
    if (c->h->layers & HOOK_TRACE) /* the user asked for it, so it has the ordinary level */
        yk__log(YK_LOG_WARN, "trace", "%s %s %llu bytes %.1f us %s", c->h->inner->name, fn_names[c->fn],
                (unsigned long long)bytes, 1e6 * took, yk__status_name(s));
    return s;
}

void yk__hook_report(hook *h)
{
    for (int i = 0; i < HOOK_FN_COUNT; i++)
        if (h->stat[i].calls)
            yk__log(YK_LOG_WARN, "count", "%s %s: %llu calls, %llu bytes, %.6f s", h->inner->name, fn_names[i],
                    (unsigned long long)h->stat[i].calls, (unsigned long long)h->stat[i].bytes, h->stat[i].seconds);
    memset(h->stat, 0, sizeof h->stat);
}
