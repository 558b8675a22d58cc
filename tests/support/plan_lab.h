/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of tests of plans: a small transformer, memory for its slots, a run of a plan's segments on the reference evaluator, and the
 * same from the unplanned graph.
 */
#ifndef YOKE_TESTS_SUPPORT_PLAN_LAB_H
#define YOKE_TESTS_SUPPORT_PLAN_LAB_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/grad/grad.h"
#include "core/plan/plan.h"
#include "tests/support/refplugin.h"

/* ---- A small transformer: every kind of node the planner treats specially ---- */

enum { B = 2, T = 4, C = 8, H = 2, V = 11, MOST_PARAM = 16 * 16 + 8 };

typedef struct net {
    yk__graph g;
    yk__vid loss, seed, logits, counted;
    uint32_t n_param, state;
    yk__plan_param param[MOST_PARAM];
    uint64_t bucket_bytes[1];
    yk__recompute block[16];
    uint32_t n_block;
    uint32_t stream;
    yk__vid key, rows;
} net;

static yk__vid net_param(net *n, uint32_t dims, const int64_t *dim)
{
    int64_t count = 1;
    yk__vid v;
    for (uint32_t i = 0; i < dims; i++)
        count *= dim[i];
    v = yk__leaf(&n->g, yk__slot_new(&n->g, YK_SLOT_PARAM, (uint64_t)count * 4, n->n_param), 0, YK_F32, dims, dim);
    n->param[n->n_param++] = (yk__plan_param){v, count, 0, n->bucket_bytes[0], 0};
    n->bucket_bytes[0] += ((uint64_t)count * 4 + 255) / 256 * 256;
    return v;
}

static yk__vid net_vector(net *n, int64_t a)
{
    return net_param(n, 1, &a);
}

static yk__vid net_matrix(net *n, int64_t a, int64_t b)
{
    return net_param(n, 2, (const int64_t[]){a, b});
}

static yk__vid net_norm(net *n, yk__vid x, int64_t c)
{
    const int64_t eps = yk_attr_of_f64(1e-5);
    yk__vid in[3] = {yk__reshape(&n->g, x, 2, (const int64_t[]){-1, c}), net_vector(n, c), net_vector(n, c)}, out[3];
    ck_assert_uint_eq(yk__apply(&n->g, YK_OP_LAYER_NORM, 3, in, 1, &eps, YK_DTYPE_COUNT, 0, NULL, out, 3), 3);
    return out[0];
}

static yk__vid net_dropout(net *n, yk__vid x)
{
    const int64_t attr[2] = {yk_attr_of_f64(0.25), n->stream++};
    yk__vid in[3] = {x, n->key, n->rows}, y;
    ck_assert_uint_eq(yk__apply(&n->g, YK_OP_DROPOUT, 3, in, 2, attr, YK_DTYPE_COUNT, 0, NULL, &y, 1), 1);
    return y;
}

static yk__vid net_linear(net *n, yk__vid x, int64_t from, int64_t to)
{
    return yk__bin(&n->g, YK_OP_ADD, yk__dot(&n->g, x, net_matrix(n, from, to), false, false), net_vector(n, to));
}

static yk__vid net_head(net *n, yk__vid qkv, int64_t i, int64_t c)
{
    yk__graph *g = &n->g;
    yk__vid x = yk__slice(g, qkv, 2, i * c, (i + 1) * c, 1);
    return yk__permute(g, yk__reshape(g, x, 4, (const int64_t[]){B, T, H, c / H}), (const uint32_t[]){0, 2, 1, 3});
}

static yk__vid net_attention(net *n, yk__vid x, int64_t c)
{
    yk__graph *g = &n->g;
    const int64_t attr[5] = {1, yk_attr_of_f64(0.5), yk_attr_of_f64(0.0), 0, 0};
    yk__vid qkv = yk__reshape(g, net_linear(n, net_norm(n, x, c), c, 3 * c), 3, (const int64_t[]){B, T, 3 * c});
    yk__vid in[3], out[2], y;
    for (int i = 0; i < 3; i++)
        in[i] = net_head(n, qkv, i, c);
    ck_assert_uint_eq(yk__apply(g, YK_OP_ATTENTION, 3, in, 5, attr, YK_DTYPE_COUNT, 0, NULL, out, 2), 2);
    y = yk__permute(g, out[0], (const uint32_t[]){0, 2, 1, 3});
    y = net_linear(n, yk__reshape(g, y, 2, (const int64_t[]){B * T, c}), c, c);
    return yk__bin(g, YK_OP_ADD, x, net_dropout(n, yk__reshape(g, y, 3, (const int64_t[]){B, T, c})));
}

static yk__vid net_feed_forward(net *n, yk__vid x, int64_t c)
{
    yk__graph *g = &n->g;
    yk__vid y = net_linear(n, net_norm(n, x, c), c, 2 * c);
    y = net_linear(n, yk__un(g, YK_OP_GELU_TANH, y), 2 * c, c);
    return yk__bin(g, YK_OP_ADD, x, net_dropout(n, yk__reshape(g, y, 3, (const int64_t[]){B, T, c})));
}

static inline void net_build(net *n, int layers, int64_t c)
{
    const int64_t ids[2] = {B, T}, four = 4, b = B, flat = B * T, ce[2] = {-100, yk_attr_of_f64(0.1)};
    yk__graph *g = &n->g;
    yk__vid table, x, in[2], out[2], id, label;
    memset(n, 0, sizeof *n);
    yk__graph_init(g);
    id = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, B * T * 4, 0), 0, YK_I32, 2, ids);
    label = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, B * T * 4, 1), 0, YK_I32, 1, &flat);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    n->key = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 16, 3), 0, YK_I32, 1, &four);
    n->rows = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, B * 4, 4), 0, YK_I32, 1, &b);
    n->state = yk__slot_new(g, YK_SLOT_STATE, 4, 0);
    table = net_matrix(n, V, c);
    x = yk__bin(g, YK_OP_ADD, yk__gather(g, table, id), net_matrix(n, T, c));
    for (int i = 0; i < layers; i++) {
        const uint32_t begin = (uint32_t)g->n_node;
        x = net_feed_forward(n, net_attention(n, x, c), c);
        if (n->n_block < 16)
            n->block[n->n_block++] = (yk__recompute){begin, (uint32_t)g->n_node};
    }
    n->logits = yk__dot(g, net_norm(n, x, c), table, false, true); /* tied */
    in[0] = n->logits, in[1] = label;
    if (n->logits != YK_NONE && yk__apply(g, YK_OP_CROSS_ENTROPY, 2, in, 2, ce, YK_DTYPE_COUNT, 0, NULL, out, 2))
        n->loss = yk__reshape(g, yk__scale(g, yk__sum(g, out[0], 1), 1.0 / (B * T)), 0, NULL);
    n->counted = yk__bin(g, YK_OP_ADD, yk__leaf(g, n->state, 0, YK_F32, 0, NULL), n->loss);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

/* ---- Running a plan ---- */

/* Keys of input slots: the gradient's seed, 1; rows, 0 and on; floats from NET_FLOATS on. From NET_INDEX on the last ten bits are the
 * rows of a table: its indices, some of them -1. Other inputs are tokens, below V. */
enum { NET_SEED = 2, NET_ROWS = 4, NET_FLOATS = 16, NET_INDEX = 1024 };

typedef struct memory {
    void *slot[512];
    uint64_t bytes[512];
    uint32_t n;
} memory;

static float draw_number(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return (float)(*s >> 8) / (1 << 24) - 0.5f;
}

static inline uint32_t number_draw(uint32_t *seed, uint32_t below)
{
    return (uint32_t)((draw_number(seed) + 0.5f) * (float)below) % below;
}

static bool slot_has_floats(const yk_slot *s)
{
    return s->kind != YK_SLOT_INPUT || s->key == NET_SEED || (s->key >= NET_FLOATS && s->key < NET_INDEX);
}

static int32_t index_draw(const yk_slot *s, uint64_t i, uint32_t *seed)
{
    if (s->key >= NET_INDEX)
        return (int32_t)number_draw(seed, s->key % NET_INDEX + 1) - 1;
    return s->key == NET_ROWS ? (int32_t)i : (int32_t)((draw_number(seed) + 0.5f) * V);
}

static void fill_slot(const yk_slot *s, void *p)
{
    uint32_t seed = 17 + s->key * 101 + s->kind;
    memset(p, 0xff, s->bytes);
    if (s->kind == YK_SLOT_INPUT && s->key == NET_SEED)
        *(float *)p = 1.0f;
    for (uint64_t i = 0; i < s->bytes / 4 && s->kind != YK_SLOT_ARENA && s->kind != YK_SLOT_RESULT; i++) {
        if (!slot_has_floats(s))
            ((int32_t *)p)[i] = index_draw(s, i, &seed);
        else if (s->kind != YK_SLOT_INPUT || s->key != NET_SEED)
            ((float *)p)[i] = draw_number(&seed);
    }
}

static void memory_new(memory *m, const yk__graph *g)
{
    m->n = (uint32_t)g->n_slot;
    ck_assert_uint_le(m->n, 512);
    for (uint32_t i = 0; i < m->n; i++) {
        m->bytes[i] = g->slot[i].bytes;
        m->slot[i] = malloc(m->bytes[i] + 1);
        fill_slot(&g->slot[i], m->slot[i]);
    }
}

static void memory_free(memory *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        free(m->slot[i]);
}

/* The segment sees the slots that it is said to touch and no other. */
static void run_segment(const yk__plan *p, const yk__segment *s, const memory *m)
{
    yk_error err = YK_ERROR_INIT;
    void *slot[512] = {0};
    for (uint32_t i = s->first_use; i < s->first_use + s->n_use; i++)
        slot[p->use[i]] = m->slot[p->use[i]];
    ck_assert_msg(!yk__graph_check(&s->graph, &err), "%s", err.text);
    for (uint32_t k = 0; k < s->graph.n_node; k++)
        ck_assert_msg(!yk__eval_node(&s->graph, k, slot, &err), "%s", err.text);
}

/* The sum over one rank; while it is on its way, its place holds nothing of use. */
static char *begin_sum(const yk__action *a, const memory *m)
{
    char *at = (char *)m->slot[a->target] + a->offset, *sum = malloc(a->count * 4);
    memcpy(sum, at, a->count * 4);
    memset(at, 0xff, a->count * 4);
    return sum;
}

static void end_sums(const yk__plan *p, uint32_t first, uint32_t n, char **sum, const memory *m)
{
    for (uint32_t i = first; i < first + n; i++) {
        const yk__action *a = &p->action[p->before[i]];
        if (a->kind != YK__ACTION_ALL_REDUCE)
            continue;
        ck_assert_ptr_nonnull(*sum);
        memcpy((char *)m->slot[a->target] + a->offset, *sum, a->count * 4);
        free(*sum);
        *sum = NULL;
    }
}

/* A value's place in the arena. */
static char *value_place(const yk__plan *p, const memory *m, yk__vid v)
{
    return (char *)m->slot[p->graph.value[v].slot] + p->graph.value[v].offset;
}

/* A value goes to the host, and its place holds nothing of use from then on. */
static void store_value(const yk__plan *p, const yk__away *v, const memory *m, char *host)
{
    ck_assert_uint_le(v->offset + v->bytes, p->away_bytes);
    memcpy(host + v->offset, value_place(p, m, v->from), v->bytes);
    memset(value_place(p, m, v->from), 0xff, v->bytes);
}

static void load_values(const yk__plan *p, const yk__segment *s, const memory *m, const char *host)
{
    for (uint32_t i = s->first_before; i < s->first_before + s->n_before; i++) {
        const yk__action *a = &p->action[p->before[i]];
        const yk__away *v = a->kind == YK__ACTION_LOAD ? &p->away[a->target] : NULL;
        if (v)
            memcpy(value_place(p, m, v->to), host + v->offset, v->bytes);
    }
}

static void plan_run(const yk__plan *p, memory *m)
{
    char *sum = NULL; /* on its way; one at most */
    char *host = calloc(1, p->away_bytes + 1);
    memory_new(m, &p->graph);
    for (uint32_t i = 0; i < p->n_segment; i++) {
        const yk__segment *s = &p->segment[i];
        end_sums(p, s->first_before, s->n_before, &sum, m);
        load_values(p, s, m, host);
        run_segment(p, s, m);
        for (uint32_t k = s->first_after; k < s->first_after + s->n_after; k++) {
            if (p->action[k].kind == YK__ACTION_STORE)
                store_value(p, &p->away[p->action[k].target], m, host);
            if (p->action[k].kind != YK__ACTION_ALL_REDUCE)
                continue;
            ck_assert_ptr_null(sum);
            sum = begin_sum(&p->action[k], m);
        }
    }
    end_sums(p, p->first_at_end, p->n_action - p->first_at_end, &sum, m);
    ck_assert_ptr_null(sum);
    free(host);
}

/* Follows who wrote each stretch of the arena last: an operand must still be there. */
typedef struct stretch {
    uint64_t begin, end;
    uint32_t slot;
    yk__vid root;
} stretch;

static bool in_arena(const yk__graph *g, yk__vid r)
{
    return g->slot[g->value[r].slot].kind == YK_SLOT_ARENA;
}

static uint64_t root_end(const yk__graph *g, yk__vid r)
{
    return g->value[r].offset + yk__value_bytes(&g->value[r]);
}

static void write_root(const yk__graph *g, yk__vid r, stretch *s, uint32_t *n)
{
    uint32_t kept = 0;
    if (!in_arena(g, r))
        return;
    for (uint32_t i = 0; i < *n; i++)
        if (s[i].slot != g->value[r].slot || s[i].end <= g->value[r].offset || s[i].begin >= root_end(g, r))
            s[kept++] = s[i];
    s[kept++] = (stretch){g->value[r].offset, root_end(g, r), g->value[r].slot, r};
    *n = kept;
}

static bool is_there(yk__vid r, const stretch *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (s[i].root == r)
            return true;
    return false;
}

/* A value that comes back is written by no node: it is there from its first reader on. */
static void come_back(const yk__plan *p, yk__vid r, stretch *s, uint32_t *n, bool *came)
{
    for (uint32_t i = 0; i < p->n_away; i++)
        if (p->away[i].to == r && !came[r]) {
            came[r] = true;
            write_root(&p->graph, r, s, n);
        }
}

static void check_lifetimes(const yk__plan *p)
{
    const yk__graph *g = &p->graph;
    stretch *s = malloc((g->n_value + 1) * sizeof *s);
    bool *came = calloc(g->n_value + 1, sizeof *came);
    uint32_t n = 0;
    for (size_t k = 0; k < g->n_node; k++) {
        const yk_node *d = &g->node[k];
        for (uint32_t i = 0; i < d->n_in; i++) {
            const yk__vid r = g->value[g->index[d->in + i]].base;
            come_back(p, r, s, &n, came);
            ck_assert_uint_ne(g->value[r].slot, YK_NONE);
            ck_assert_msg(!in_arena(g, r) || is_there(r, s, n), "node %zu reads value %u, which is gone", k, r);
        }
        for (uint32_t i = 0; i < d->n_out; i++) {
            const yk__vid r = g->value[g->index[d->out + i]].base;
            ck_assert(!in_arena(g, r) || root_end(g, r) <= g->slot[g->value[r].slot].bytes);
            write_root(g, r, s, &n);
        }
    }
    free(came);
    free(s);
}

/* The first byte of a value in its slot, and the one behind its last. */
static stretch value_stretch(const yk_value *v)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < v->dims; i++)
        last += (v->dim[i] - 1) * v->stride[i];
    return (stretch){.begin = v->offset, .end = v->offset + (uint64_t)(last + 1) * yk_dtype_bytes((yk_dtype)v->dtype)};
}

/* True if the node may write its result over this operand: element by element, or by its definition. */
static bool may_overlap(const yk_node *n, uint32_t i, const yk_value *x, const yk_value *y)
{
    const bool same = x->offset == y->offset && yk_dtype_bytes((yk_dtype)x->dtype) == yk_dtype_bytes((yk_dtype)y->dtype) &&
                      yk__value_count(x) == yk__value_count(y) && yk__value_is_dense(x) && yk__value_is_dense(y);
    if (i == 1 && (n->op == YK_OP_COPY || n->op == YK_OP_CROSS_ENTROPY_BWD))
        return true;
    return same && (yk__op_is_map(n->op) || n->op == YK_OP_MAP || n->op == YK_OP_ALL_REDUCE || n->op == YK_OP_COPY);
}

/* No node writes its result over memory that it still reads. */
static void check_places(const yk__plan *p)
{
    const yk__graph *g = &p->graph;
    for (size_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        for (uint32_t o = 0; o < n->n_out; o++)
            for (uint32_t i = 0; i < n->n_in; i++) {
                const yk_value *x = &g->value[g->index[n->in + i]], *y = &g->value[g->index[n->out + o]];
                const stretch a = value_stretch(x), b = value_stretch(y);
                ck_assert_msg(x->slot != y->slot || a.end <= b.begin || b.end <= a.begin || may_overlap(n, i, x, y),
                              "node %zu (%s) writes result %u over its operand %u", k, yk__op_info_of(n->op)->name, o, i);
            }
    }
}

/* The ABI's reserved words are the host's to leave 0. */
static void check_reserved(const yk_value *value, size_t n_value, const yk_node *node, size_t n_node)
{
    for (size_t i = 0; i < n_value; i++)
        ck_assert_uint_eq(value[i].reserved, 0);
    for (size_t i = 0; i < n_node; i++)
        ck_assert_uint_eq(node[i].reserved, 0);
}

static uint32_t claims_checked(void *arg, const yk_graph *g, uint32_t node)
{
    check_reserved(g->value, g->n_value, g->node, g->n_all_node);
    return ref_claims(arg, g, node);
}

static void net_request(const net *n, yk__plan_request *r, const yk__assign *assign)
{
    *r = (yk__plan_request){.trace = &n->g, .loss = n->loss, .seed = n->seed, .single_rank = true, .precision = YK_F32,
                            .caps = &ref_caps, .claims = claims_checked, .n_param = n->n_param, .n_bucket = 1,
                            .n_result = 1, .n_assign = 1, .param = n->param, .bucket_bytes = n->bucket_bytes,
                            .result = &n->loss, .assign = assign};
}

static yk__plan *plan_new(const yk__plan_request *r)
{
    yk_error err = YK_ERROR_INIT;
    yk__plan *p = NULL;
    ck_assert_msg(!yk__plan_new(r, &p, &err), "%s", err.text);
    check_lifetimes(p);
    check_places(p);
    check_reserved(p->graph.value, p->graph.n_value, p->graph.node, p->graph.n_node);
    for (uint32_t i = 0; i < p->n_segment; i++)
        check_reserved(p->segment[i].graph.value, p->segment[i].graph.n_value, p->segment[i].graph.node,
                       p->segment[i].graph.n_all_node);
    return p;
}

/* Sets one to three blocks of nodes of the trace that backward computes again. */
static inline void blocks_draw(net *n, uint32_t *seed)
{
    const uint32_t nodes = (uint32_t)n->g.n_node;
    n->n_block = 0;
    for (uint32_t at = number_draw(seed, 3), most = 1 + number_draw(seed, 3); at + 2 < nodes && n->n_block < most;) {
        const uint32_t end = at + 2 + number_draw(seed, nodes - at - 1);
        n->block[n->n_block++] = (yk__recompute){at, end < nodes ? end : nodes - 1};
        at = end + number_draw(seed, 2);
    }
}

/* ---- Equal to the graph itself ---- */

/* Values of a graph in double precision, from memory before a run. */
static void values_truth(const yk__graph *g, const memory *m, uint32_t n_want, const yk__vid *want, double *const *out)
{
    yk_error err = YK_ERROR_INIT;
    double *copy[512] = {0};
    void *slot[512] = {0};
    for (uint32_t i = 1; i < g->n_slot; i++) {
        const bool floats = slot_has_floats(&g->slot[i]);
        copy[i] = malloc(g->slot[i].bytes * 2);
        for (uint64_t k = 0; floats && k < g->slot[i].bytes / 4; k++)
            copy[i][k] = (double)((float *)m->slot[i])[k];
        slot[i] = floats ? (void *)copy[i] : m->slot[i];
    }
    ck_assert_msg(!yk__eval_graph(g, slot, n_want, want, out, &err), "%s", err.text);
    for (uint32_t i = 0; i < 512; i++)
        free(copy[i]);
}

/* Values and gradients of the unplanned graph in double precision. */
static void net_truth(const net *n, const memory *m, uint32_t n_want, const yk__vid *values, double *const *into, double *grad)
{
    yk_error err = YK_ERROR_INIT;
    yk__vid want[MOST_PARAM + 8], leaf[MOST_PARAM], d[MOST_PARAM];
    double *out[MOST_PARAM + 8];
    yk__graph g;
    ck_assert(!yk__graph_copy(&n->g, &g, &err));
    for (uint32_t i = 0; i < n->n_param; i++)
        leaf[i] = n->param[i].leaf;
    ck_assert_msg(!yk__grad(&g, n->loss, n->seed, n->n_param, leaf, d, NULL, NULL, &err), "%s", err.text);
    ck_assert_uint_le(n_want, 8);
    memcpy(want, values, n_want * sizeof *want);
    memcpy(out, into, n_want * sizeof *out);
    for (uint32_t i = 0; i < n->n_param; i++)
        if (d[i] != YK_NONE) { /* the loss depends on it: else its gradient is zero, as `grad` is */
            want[n_want] = d[i];
            out[n_want++] = grad + n->param[i].grad_offset / 4;
        }
    values_truth(&g, m, n_want, want, out);
    yk__graph_free(&g);
}

static inline void net_compare(const net *n, const yk__plan *p, bool accumulate, double tol)
{
    memory m, before;
    double loss, state, *grad = calloc(n->bucket_bytes[0] / 4 + 1, sizeof *grad);
    memory_new(&before, &p->graph);
    plan_run(p, &m);
    net_truth(n, &before, 2, (const yk__vid[]){n->loss, n->counted}, (double *[]){&loss, &state}, grad);
    ck_assert_double_eq_tol(*(float *)((char *)m.slot[p->result_slot] + p->result_offset[0]), loss, tol);
    ck_assert_double_eq_tol(*(float *)m.slot[n->state], state, tol);
    for (uint32_t i = 0; i < n->n_param; i++)
        for (int64_t k = 0; k < n->param[i].n; k++) {
            const uint64_t at = n->param[i].grad_offset / 4 + (uint64_t)k;
            const double old = accumulate ? (double)((float *)before.slot[p->bucket_slot])[at] : 0.0;
            ck_assert_msg(fabs((double)((float *)m.slot[p->bucket_slot])[at] - old - grad[at]) <= tol,
                          "gradient %u[%d]: %g, expected %g", i, (int)k, (double)((float *)m.slot[p->bucket_slot])[at],
                          grad[at] + old);
        }
    free(grad);
    memory_free(&before);
    memory_free(&m);
}

#endif
