/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin "far" (plugins/template/far.c) with one fault of its queues, chosen by -D: what the suite must find.
 */
#define yk_plugin_query good_query
#include "plugins/template/far.c"
#undef yk_plugin_query

static yk_plugin bad;

#if defined BREAK_WAITS || defined BREAK_LAST_WAIT /* runs do not wait; not for the last of what they are to wait for */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_submit hasty = *s;
#ifdef BREAK_WAITS
    hasty.n_wait = 0;
#else
    hasty.n_wait -= hasty.n_wait > 0;
#endif
    return kit_queue_run(q, &hasty, point);
}
#endif

#ifdef BREAK_COPY_WAITS
static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_copy hasty = *c;
    hasty.n_wait = 0;
    return kit_queue_copy(q, &hasty, point);
}
#endif

#ifdef BREAK_PIN_KEPT /* what registered memory held when it was sent first is sent again */
static yk_status kept_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    static char first[1 << 16];
    static const void *first_of;
    yk_copy again = *c;
    if (c->src_host && c->bytes <= sizeof first && is_pinned(c->src_host, c->bytes)) {
        if (first_of != c->src_host)
            memcpy(first, c->src_host, c->bytes);
        first_of = c->src_host;
        again.src_host = first;
    }
    return far_copy(dev, &again, why);
}
#endif

#ifdef BREAK_EARLY /* the point is done before the last node is */
typedef struct rest {
    const yk_graph *graph;
    void *slot[16];
} rest;

static void *rest_run(void *arg)
{
    rest *r = arg;
    usleep(3000);
    host->eval_node(r->graph, r->graph->n_node - 1, r->slot);
    host->free(r);
    return NULL;
}

static yk_status early_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    rest *r = host->alloc(sizeof *r, 64);
    yk_graph most = *s->program->graph;
    yk_program part = {&most};
    yk_submit begun = *s;
    pthread_t t;
    r->graph = s->program->graph;
    for (uint32_t i = 0; i < r->graph->n_slot && i < 16; i++)
        r->slot[i] = s->slot[i] ? s->slot[i]->far + s->slot_offset[i] : NULL;
    most.n_node--;
    begun.program = &part;
    if (pthread_create(&t, NULL, rest_run, r) || pthread_detach(t))
        return YK_E_MEM;
    return far_run(dev, &begun, why);
}
#endif

#ifdef BREAK_SCRATCH /* the arena of all queues is one; the pause lets another queue write it on a busy machine too */
static yk_status scratch_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    static char memory[1 << 20] __attribute__((aligned(256)));
    const yk_graph *g = s->program->graph;
    void *slot[16] = {memory};
    yk_status st = YK_OK;
    (void)dev, (void)why;
    for (uint32_t i = 1; i < g->n_slot && i < 16; i++)
        slot[i] = s->slot[i] ? s->slot[i]->far + s->slot_offset[i] : NULL;
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        if (i == g->n_node - 1)
            usleep(300);
        st = host->eval_node(g, i, slot);
    }
    return st;
}
#endif

#ifdef BREAK_ABORT
static void bad_abort(yk_queue *q, yk_status why)
{
    (void)q, (void)why;
}
#endif

#ifdef BREAK_SPAN
static yk_status bad_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
    (void)q, (void)point;
    *begin_ns = *end_ns = 1;
    return YK_OK;
}
#endif

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = table;
#if defined BREAK_WAITS || defined BREAK_LAST_WAIT
    bad.queue_run = bad_run;
#endif
#ifdef BREAK_COPY_WAITS
    bad.queue_copy = bad_copy;
#endif
#ifdef BREAK_PIN_KEPT
    queue_ops.copy = kept_copy;
#endif
#ifdef BREAK_EARLY
    queue_ops.run = early_run;
#endif
#ifdef BREAK_SCRATCH
    queue_ops.run = scratch_run;
#endif
#ifdef BREAK_ABORT
    bad.queue_abort = bad_abort;
#endif
#ifdef BREAK_SPAN
    bad.queue_span = bad_span;
#endif
    return abi == YK_ABI ? &bad : NULL;
}
