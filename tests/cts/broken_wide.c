/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template plugin with one fault, chosen by -D, of large buffers, long sums, threads, or two opens: what the suite must find.
 */
#define _GNU_SOURCE
#include <pthread.h>

#define yk_plugin_query good_query
#include "template.c"
#undef yk_plugin_query

static yk_plugin bad;

#ifdef BREAK_COPY_32 /* offsets of a copy have 32 bits */
static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_copy low = *c;
    low.src_offset = (uint32_t)c->src_offset;
    low.dst_offset = (uint32_t)c->dst_offset;
    return queue_copy(q, &low, point);
}
#endif

#ifdef BREAK_LENGTH_32 /* the length of a copy has 32 bits */
static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_copy low = *c;
    low.bytes = (uint32_t)c->bytes;
    return queue_copy(q, &low, point);
}
#endif

#ifdef BREAK_SLOT_32 /* a slot's offset in its buffer has 32 bits */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_submit low = *s;
    uint64_t offset[64];
    for (uint32_t i = 0; i < s->n_slot && i < 64; i++)
        offset[i] = (uint32_t)s->slot_offset[i];
    low.slot_offset = offset;
    return queue_run(q, &low, point);
}
#endif

#ifdef BREAK_VALUE_32 /* a value's offset in its slot has 32 bits */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *was = s->program->graph;
    yk_graph g = *was;
    yk_value value[64];
    if (g.n_value > 64)
        return queue_run(q, s, point);
    memcpy(value, g.value, g.n_value * sizeof *value);
    for (uint32_t i = 0; i < g.n_value; i++)
        value[i].offset = (uint32_t)value[i].offset;
    g.value = value;
    s->program->graph = &g;
    const yk_status st = queue_run(q, s, point);
    s->program->graph = was;
    return st;
}
#endif

#ifdef BREAK_ROW_32 /* a look-up of its own, in which a row begins at a byte that has 32 bits */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    char *at[3];
    if (g->n_node != 1 || g->node[0].op != YK_OP_GATHER)
        return queue_run(q, s, point);
    for (uint32_t k = 0; k < 3; k++) {
        const yk_value *v = &g->value[g->index[k < 2 ? g->node[0].in + k : g->node[0].out]];
        at[k] = s->slot[v->slot]->memory + s->slot_offset[v->slot] + v->offset;
    }
    const yk_value *y = &g->value[g->index[g->node[0].out]];
    const uint64_t row = (uint64_t)y->dim[1] * yk_dtype_bytes(y->dtype);
    for (int64_t k = 0; k < y->dim[0]; k++)
        memcpy(at[2] + (uint64_t)k * row, at[0] + (uint32_t)(((const int32_t *)at[1])[k] * row), row);
    return yk_put(&table, q, s->slot[g->value[g->index[g->node[0].out]].slot], 0, NULL, 0, point);
}
#endif

#ifdef BREAK_LONG_SUMS /* long sums are made in f32, one term after the other, which the capabilities deny */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    const yk_status st = queue_run(q, s, point);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        const yk_value *y = &g->value[g->index[g->node[i].out]], *x = &g->value[g->index[g->node[i].in]];
        const float *in = (const float *)(s->slot[x->slot]->memory + s->slot_offset[x->slot] + x->offset);
        float sum = 0;
        if (g->node[i].op != YK_OP_SUM || kit_value_count(y) != 1)
            continue;
        for (int64_t k = 0; k < kit_value_count(x); k++)
            sum += in[k];
        memcpy(s->slot[y->slot]->memory + s->slot_offset[y->slot] + y->offset, &sum, sizeof sum);
    }
    return st;
}
#endif

#ifdef BREAK_AROUND /* the last block of a slot's buffer is written whole, also behind the slot */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_status st = queue_run(q, s, point);
    for (uint32_t i = 0; i < s->n_slot && !st; i++) {
        const uint64_t end = s->slot_offset[i] + s->program->graph->slot[i].bytes;
        if (end < s->slot[i]->bytes)
            memset(s->slot[i]->memory + end, 0, 1);
    }
    return st;
}
#endif

#ifdef BREAK_INTEGERS /* integers go through f32, those of an iota through 16 bits */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    const yk_status st = queue_run(q, s, point);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        const yk_value *y = &g->value[g->index[g->node[i].out]];
        int32_t *at = (int32_t *)(s->slot[y->slot]->memory + s->slot_offset[y->slot] + y->offset);
        for (int64_t k = 0; k < kit_value_count(y) && y->dtype == YK_I32 && kit_value_dense(y); k++)
            if (g->node[i].op == YK_OP_ADD)
                at[k] = at[k] < 1 << 24 && at[k] > -(1 << 24) ? at[k] : at[k] / 128 * 128;
            else if (g->node[i].op == YK_OP_IOTA)
                at[k] &= 0xffff;
    }
    return st;
}
#endif

#ifdef BREAK_CLAIM_THREAD /* answers hold for the thread that asked first */
static uint32_t bad_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    static pthread_t first;
    static int asked;
    if (!asked++)
        first = pthread_self();
    return pthread_equal(first, pthread_self()) ? node_claims(dev, g, node) : 0;
}
#endif

#ifdef BREAK_OPEN_TWICE /* closing one of two opens ends the work of both */
static bool is_closed;

static yk_status bad_open(uint32_t i, yk_device **dev)
{
    is_closed = false;
    return device_open(i, dev);
}

static void bad_close(yk_device *dev)
{
    is_closed = true;
    device_close(dev);
}

static yk_status bad_copy(yk_queue *q, const yk_copy *copy, uint64_t *point)
{
    if (is_closed)
        host->fail(WHO, "the device is closed");
    return is_closed ? YK_E_ARG : queue_copy(q, copy, point);
}
#endif

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = table;
#ifdef BREAK_OPEN_TWICE
    bad.device_open = bad_open;
    bad.device_close = bad_close;
#endif
#if defined BREAK_COPY_32 || defined BREAK_LENGTH_32 || defined BREAK_OPEN_TWICE
    bad.queue_copy = bad_copy;
#endif
#if defined BREAK_SLOT_32 || defined BREAK_VALUE_32 || defined BREAK_ROW_32 || defined BREAK_LONG_SUMS || defined BREAK_AROUND || \
    defined BREAK_INTEGERS
    bad.queue_run = bad_run;
#endif
#ifdef BREAK_CLAIM_THREAD
    bad.claims = bad_claims;
#endif
    return abi == YK_ABI ? &bad : NULL;
}
