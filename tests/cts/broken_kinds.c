/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template plugin with one fault, chosen by -D, of the process's end, of answers that change, or of numbers, sizes and shapes that few
 * programs have: what the suite must find.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define yk_plugin_query good_query
#include "template.c"
#undef yk_plugin_query

static yk_plugin bad;

#ifdef BREAK_EXIT_FINI /* a library's clean-up ends the process, as if all was well */
static void bad_fini(void)
{
    exit(0);
}
#endif

#ifdef BREAK_EXIT_UNLOAD
__attribute__((destructor)) static void process_end(void)
{
    _exit(0);
}
#endif

#if defined BREAK_CAPS_ISA || defined BREAK_CAPS_ALIGN || defined BREAK_CONTROL
static yk_status bad_caps(uint32_t i, yk_device_caps *caps)
{
    static uint32_t times;
    const yk_status s = device_caps(i, caps);
    (void)times;
    if (s || caps->size < sizeof *caps)
        return s;
#if defined BREAK_CAPS_ISA /* the library that was loaded last is named */
    snprintf(caps->isa, sizeof caps->isa, "template%u", times++);
#elif defined BREAK_CAPS_ALIGN /* known after the first open, or question */
    caps->align = times++ ? 512 : 256;
#else
    snprintf(caps->name, sizeof caps->name, "two\nlines");
#endif
    return s;
}
#endif

#if defined BREAK_COUNT || defined BREAK_NO_DEVICES
static yk_status bad_count(uint32_t *n)
{
    static uint32_t devices;
#ifdef BREAK_COUNT /* each question finds a further device */
    devices++;
#endif
    *n = devices;
    return YK_OK;
}
#endif

#ifdef BREAK_SLOT_24 /* a slot's offset in its buffer has 24 bits */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_submit low = *s;
    uint64_t offset[64];
    for (uint32_t i = 0; i < s->n_slot && i < 64; i++)
        offset[i] = s->slot_offset[i] & 0xffffff;
    low.slot_offset = offset;
    return queue_run(q, &low, point);
}
#endif

#ifdef BREAK_NODES /* a table of 256 commands */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *was = s->program->graph;
    yk_graph first = *was;
    first.n_node = first.n_node < 256 ? first.n_node : 256;
    s->program->graph = &first;
    const yk_status st = queue_run(q, s, point);
    s->program->graph = was;
    return st;
}
#endif

#if defined BREAK_GARBAGE || defined BREAK_LARGE || defined BREAK_LOSES_NAN || defined BREAK_SMALL || defined BREAK_SAME || \
    defined BREAK_SPREAD || defined BREAK_FILL_F32 || defined BREAK_FLOOR || defined BREAK_TILE || defined BREAK_ALMOST_TILE || \
    defined BREAK_TERMS || defined BREAK_TINY_RESULT || defined BREAK_DILATION || defined BREAK_GAPS || defined BREAK_ROOT_ZERO || \
    defined BREAK_LEAST
#define CHANGES
#define MIB (1 << 20)

static float *value_at(const yk_submit *s, const yk_value *v)
{
    return (float *)(s->slot[v->slot]->memory + s->slot_offset[v->slot] + v->offset);
}

static const yk_value *operand_of(const yk_graph *g, const yk_node *n, uint32_t i)
{
    return &g->value[g->index[n->in + i]];
}

/* True if the result of a node is to be wrong in its last element. */
static bool node_is_bad(const yk_graph *g, const yk_node *n, const yk_value *y)
{
    const yk_value *x = n->n_in ? operand_of(g, n, 0) : y;
    const int64_t *attr = g->attr + n->attr;
    (void)x, (void)attr, (void)y;
#if defined BREAK_LARGE /* values of more than a MiB go through another kernel */
    return (kit_value_count(x) * yk_dtype_bytes(x->dtype) > MIB || kit_value_count(y) * yk_dtype_bytes(y->dtype) > MIB);
#elif defined BREAK_SAME /* an operand is read once */
    return n->n_in == 2 && g->index[n->in] == g->index[n->in + 1];
#elif defined BREAK_SPREAD /* a dimension in the middle is not broadcast */
    return n->op == YK_OP_COPY && x->dims == 3 && !x->stride[1] && x->dim[1] > 1;
#elif defined BREAK_TILE /* whole tiles */
    return n->op == YK_OP_DOT && y->dim[y->dims - 1] % 128 == 0 && x->dim[x->dims - 1] % 128 == 0;
#elif defined BREAK_ALMOST_TILE
    return n->op == YK_OP_DOT && y->dim[y->dims - 2] % 32 == 31;
#elif defined BREAK_TERMS /* terms are split, and each part adds the output */
    return n->op == YK_OP_DOT && n->flags & YK_NODE_ACCUMULATE && x->dim[x->dims - 1] > 256;
#elif defined BREAK_DILATION
    return n->op == YK_OP_UNFOLD && attr[6] != attr[7];
#elif defined BREAK_GAPS /* windows that leave pixels out */
    return n->op == YK_OP_FOLD && attr[2] > attr[0];
#else
    return false;
#endif
}

/* Changes one element of a result of f32, or of i32. */
static void element_change(const yk_node *n, const yk_value *y, float *at)
{
    int32_t whole;
    memcpy(&whole, at, sizeof whole);
    (void)n, (void)y;
#if defined BREAK_LOSES_NAN /* a comparison cuts the result off */
    if (y->dtype == YK_F32 && n->op >= YK_OP_EXP && n->op <= YK_OP_ERF && *at != *at)
        *at = 1;
#elif defined BREAK_SMALL /* a formula for large numbers */
    if (y->dtype == YK_F32 && (n->op == YK_OP_TANH || n->op == YK_OP_ERF) && fabsf(*at) < 1e-5f)
        *at = 0;
#elif defined BREAK_ROOT_ZERO /* sqrt(x) is x rsqrt(x): 0 times infinity at 0 */
    if (y->dtype == YK_F32 && n->op == YK_OP_SQRT && *at == 0)
        *at = NAN;
#elif defined BREAK_LEAST /* an operand of 0 counts as the least normal number */
    if (y->dtype == YK_F32 && n->op >= YK_OP_LOG && n->op <= YK_OP_RECIP && !isfinite(*at))
        *at = n->op == YK_OP_LOG ? -87.33655f : n->op == YK_OP_RSQRT ? 9.223372e18f : 8.507059e37f;
#elif defined BREAK_FILL_F32
    if (y->dtype == YK_I32 && n->op == YK_OP_FILL)
        whole = (int32_t)(float)whole;
#elif defined BREAK_TINY_RESULT /* the exponent wraps */
    if (y->dtype == YK_F32 && n->op == YK_OP_MUL && *at != 0 && fabsf(*at) < 1.17e-38f)
        *at = 1e-30f;
#elif defined BREAK_FLOOR /* a quotient is rounded down */
    if (y->dtype == YK_I32 && n->op == YK_OP_DIV && whole < 0)
        whole--;
#endif
    if (y->dtype == YK_I32)
        memcpy(at, &whole, sizeof whole);
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    const yk_value *first = &g->value[g->index[g->node[0].out]];
    const bool product = g->n_node == 1 && g->node[0].op == YK_OP_DOT && first->dtype == YK_F32 && !g->node[0].flags;
    const int64_t n_old = product ? kit_value_count(first) : 0;
    float *old = malloc((size_t)n_old * sizeof *old + 1);
    memcpy(old, value_at(s, first), (size_t)n_old * sizeof *old);
    const yk_status st = queue_run(q, s, point);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        const yk_node *n = &g->node[i];
        const yk_value *y = &g->value[g->index[n->out]];
        uint8_t *end = (uint8_t *)value_at(s, y) + kit_value_count(y) * yk_dtype_bytes(y->dtype);
        if (kit_value_dense(y) && node_is_bad(g, n, y))
            end[-1] ^= 0x43;
        for (int64_t k = 0; k < kit_value_count(y) && kit_value_dense(y) && yk_dtype_bytes(y->dtype) == 4; k++)
            element_change(n, y, value_at(s, y) + k);
    }
#ifdef BREAK_GARBAGE /* a library is told to keep none of the output, and multiplies it by 0 */
    for (int64_t k = 0; k < n_old; k++)
        value_at(s, first)[k] += 0 * old[k];
#endif
    free(old);
    return st;
}
#endif

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = table;
#if defined CHANGES || defined BREAK_SLOT_24 || defined BREAK_NODES
    bad.queue_run = bad_run;
#endif
#ifdef BREAK_EXIT_FINI
    bad.fini = bad_fini;
#endif
#if defined BREAK_CAPS_ISA || defined BREAK_CAPS_ALIGN || defined BREAK_CONTROL
    bad.device_caps = bad_caps;
#endif
#if defined BREAK_COUNT || defined BREAK_NO_DEVICES
    bad.device_count = bad_count;
#endif
    return abi == YK_ABI ? &bad : NULL;
}
