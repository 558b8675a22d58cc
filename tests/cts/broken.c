/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template plugin with one fault, chosen by -D: what the suite must find.
 */
#define yk_plugin_query good_query
#include "template.c"
#undef yk_plugin_query

static yk_plugin bad;

#ifdef BREAK_RESULT /* one operation is a little wrong in one element */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_run(q, s, point);
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_node && !st; i++)
        if (g->node[i].op == YK_OP_MUL) {
            const yk_value *v = &g->value[g->index[g->node[i].out]];
            float *y = (float *)(s->slot[v->slot]->memory + s->slot_offset[v->slot] + v->offset);
            if (v->dtype == YK_F32)
                y[count(v) - 1] *= 1.001f;
        }
    return st;
}
#endif

#ifdef BREAK_END /* one element too many is stored */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_run(q, s, point);
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_node && !st; i++)
        if (g->node[i].op == YK_OP_ADD) {
            const yk_value *v = &g->value[g->index[g->node[i].out]];
            const yk_buffer *b = s->slot[v->slot];
            uint64_t end = s->slot_offset[v->slot] + v->offset + (uint64_t)count(v) * yk_dtype_bytes(v->dtype);
            if (end + 4 <= b->bytes)
                memset(b->memory + end, 0, 4);
        }
    return st;
}
#endif

#ifdef BREAK_POINT /* every 17th point is never reached */
static uint32_t calls;

static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_status st = queue_copy(q, c, point);
    if (!st && ++calls % 17 == 0)
        q->point--;
    return st;
}

static yk_status bad_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    yk_status st = queue_wait(q, point, timeout_ns);
    if (st == YK_E_TIMEOUT)
        usleep(timeout_ns > 20000000 ? 20000 : (useconds_t)(timeout_ns / 1000));
    return st;
}
#endif

#ifdef BREAK_SYMBOL /* a helper leaks out */
__attribute__((visibility("default"))) int helper(void);
__attribute__((visibility("default"))) int helper(void)
{
    return 1;
}
#endif

#ifdef BREAK_CRASH
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    if (s->program->graph->node[0].op == YK_OP_GATHER)
        *(volatile int *)8 = 1;
    return queue_run(q, s, point);
}
#endif

#ifdef BREAK_VERSION /* weights are kept over a change of their contents */
static float kept[64 * 64];
static const void *kept_of;

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_slot; i++)
        if (g->slot[i].kind == YK_SLOT_PARAM && g->slot[i].bytes <= sizeof kept && s->slot[i]) {
            void *now = s->slot[i]->memory + s->slot_offset[i];
            if (kept_of == now)
                memcpy(now, kept, g->slot[i].bytes);
            kept_of = now;
            memcpy(kept, now, g->slot[i].bytes);
            break;
        }
    return queue_run(q, s, point);
}
#endif

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = table;
#if defined BREAK_RESULT || defined BREAK_END || defined BREAK_CRASH || defined BREAK_VERSION
    bad.queue_run = bad_run;
#endif
#ifdef BREAK_POINT
    bad.queue_copy = bad_copy;
    bad.queue_wait = bad_wait;
#endif
#ifdef BREAK_SIZE
    bad.size = offsetof(yk_plugin, queue_run);
#endif
#ifdef BREAK_STICKY /* a failure is forgotten */
    bad.queue_poll = NULL;
#endif
    return abi == YK_ABI ? &bad : NULL;
}
