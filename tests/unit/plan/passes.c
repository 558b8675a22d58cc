/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans on the reference evaluator: a planned program's buckets, results and states equal the unplanned graph's, with fusion and
 * without; recomputation changes no bit; no value is read after its memory was given away.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "tests/support/plan_lab.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

enum { STORED, CHEAP, BLOCKS }; /* kinds of recomputation */

static void against_truth(yk_dtype precision, bool accumulate, int again, double tol)
{
    yk__plan_request r;
    yk__plan *p;
    net n;
    net_build(&n, 2, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.precision = precision;
    r.accumulate = accumulate;
    r.n_recompute = again == BLOCKS ? n.n_block : 0, r.recompute = n.block;
    r.large = again == CHEAP;
    p = plan_new(&r);
    if (ref.claim == REF_CLAIM_ALL && precision == YK_F32)
        ck_assert_uint_lt(p->nodes_after, p->nodes_before);
    net_compare(&n, p, accumulate, tol);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}

START_TEST(planned_equals_unplanned)
{
    ref.claim = _i;
    against_truth(YK_F32, false, STORED, 2e-6);
    against_truth(YK_F32, true, CHEAP, 2e-6);
    against_truth(YK_F32, true, BLOCKS, 2e-6);
    against_truth(YK_BF16, false, CHEAP, 0.03);
    against_truth(YK_F16, false, BLOCKS, 0.004);
}
END_TEST

/* ---- Batch norm ---- */

static yk__vid net_convolve(net *n, yk__vid x, int64_t from, int64_t to)
{
    const int64_t attr[7] = {1, 1, 1, 1, 1, 1, 1}, dim[4] = {to, from, 3, 3};
    yk__vid in[2] = {x, net_param(n, 4, dim)}, y = YK_NONE;
    yk__apply(&n->g, YK_OP_CONV2D, 2, in, 7, attr, YK_DTYPE_COUNT, 0, NULL, &y, 1);
    return y;
}

/* conv, (x - mean) * scale + shift with the mean of x itself, relu, conv */
static void build_norm(net *n)
{
    const int64_t image[4] = {B, 3, 6, 6}, channel[4] = {1, C, 1, 1};
    yk__graph *g = &n->g;
    yk__vid x, mean, y;
    memset(n, 0, sizeof *n);
    yk__graph_init(g);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    n->state = yk__slot_new(g, YK_SLOT_STATE, 4, 0);
    x = net_convolve(n, net_param(n, 4, image), 3, C);
    mean = yk__scale(g, yk__all_reduce(g, yk__sum(g, x, 13)), 1.0 / (B * 36));
    y = yk__bin(g, YK_OP_MUL, yk__bin(g, YK_OP_SUB, x, mean), net_param(n, 4, channel));
    y = yk__un(g, YK_OP_RELU, yk__bin(g, YK_OP_ADD, y, net_param(n, 4, channel)));
    y = net_convolve(n, y, C, 3);
    n->loss = yk__reshape(g, yk__scale(g, yk__sum(g, yk__bin(g, YK_OP_MUL, y, y), 15), 0.01), 0, NULL);
    n->counted = yk__bin(g, YK_OP_ADD, yk__leaf(g, n->state, 0, YK_F32, 0, NULL), n->loss);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

/* Its plan, compared with the graph itself. */
static yk__plan *plan_norm(net *n, bool single_rank)
{
    yk__plan_request r;
    yk__plan *p;
    build_norm(n);
    net_request(n, &r, &(yk__assign){0, n->counted});
    r.single_rank = single_rank;
    p = plan_new(&r);
    net_compare(n, p, false, 2e-6);
    return p;
}

/* The three sums of backward are one pass that takes relu's mask in; the gradient of x is another, from stored values alone. */
START_TEST(norm_backward_in_two_passes)
{
    yk__plan *p;
    net n;
    uint32_t sums = 0, passes = 0;
    ref.claim = _i;
    p = plan_norm(&n, true);
    for (size_t k = 0; k < p->graph.n_node; k++) {
        const yk_node *d = &p->graph.node[k];
        const yk_value *x = d->n_in ? &p->graph.value[p->graph.index[d->in]] : NULL;
        const yk_value *y = &p->graph.value[p->graph.index[d->out]];
        sums += d->op == YK_OP_MAP_SUM && d->n_out == 2;
        passes += x && yk__value_count(y) == B * C * 36 && (yk__op_is_map(d->op) || d->op == YK_OP_MAP);
    }
    if (_i == REF_CLAIM_ALL) {
        ck_assert_uint_eq(sums, 1);
        ck_assert_uint_eq(passes, 2); /* forward and the gradient of x */
    }
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* The gradients of weights that stand before a sum over ranks run while it is on its way: of the second convolution beside
 * that of the mean's gradient. Nothing else changes. */
START_TEST(weight_gradients_overlap_sums)
{
    yk__plan *p;
    net n;
    uint32_t sums = 0, overlapped = 0;
    ref.claim = _i;
    p = plan_norm(&n, false);
    for (uint32_t j = 0; j < p->n_action; j++) {
        const yk__action *a = &p->action[j];
        sums += a->kind == YK__ACTION_ALL_REDUCE;
        for (uint32_t i = a->start_after + 1; sums == 2 && a->kind == YK__ACTION_ALL_REDUCE && i < a->needed_by; i++)
            for (uint32_t k = 0; k < p->segment[i].graph.n_node; k++)
                overlapped += p->segment[i].graph.node[k].op == YK_OP_CONV2D_DW;
    }
    ck_assert_uint_eq(sums, 2);
    if (_i == REF_CLAIM_ALL)
        ck_assert_uint_eq(overlapped, 1);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* ---- Actions ---- */

/* True if a use of the slot is in segments [from, to). */
static bool is_used(const yk__plan *p, uint32_t from, uint32_t to, uint32_t slot)
{
    for (uint32_t s = from; s < to; s++)
        for (uint32_t i = 0; i < p->segment[s].n_use; i++)
            if (p->use[p->segment[s].first_use + i] == slot)
                return true;
    return false;
}

/* True if segments [from, to) use a parameter of the bucket. */
static bool is_bucket_read(const yk__plan *p, const net *n, uint32_t from, uint32_t to, uint32_t bucket)
{
    for (uint32_t i = 0; i < p->graph.n_slot; i++)
        if (p->graph.slot[i].kind == YK_SLOT_PARAM && n->param[p->graph.slot[i].key].bucket == bucket && is_used(p, from, to, i))
            return true;
    return false;
}

/* A bucket of parameters that is on its way is needed by the first segment that reads it: the later layers' by a later one, of a plan
 * that computes the same. */
START_TEST(parameters_are_waited_for_when_read)
{
    uint64_t bytes[2];
    uint32_t needed_by[2] = {0}, gathers = 0;
    yk__plan_request r;
    yk__plan *p;
    net n;
    ref.claim = _i;
    net_build(&n, 2, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    for (uint32_t i = 0; i < n.n_param; i++)
        n.param[i].bucket = i < n.n_param / 2;
    bytes[0] = bytes[1] = n.bucket_bytes[0];
    r.n_bucket = 2, r.bucket_bytes = bytes;
    r.single_rank = false;
    r.gathers = true;
    p = plan_new(&r);
    for (uint32_t s = 0; s < p->n_segment; s++)
        for (uint32_t i = p->segment[s].first_before; i < p->segment[s].first_before + p->segment[s].n_before; i++) {
            const yk__action *a = &p->action[p->before[i]];
            ck_assert(a->kind == YK__ACTION_ALL_GATHER && a->start_after == YK_NONE && a->needed_by == s);
            ck_assert(is_bucket_read(p, &n, s, s + 1, a->target) && !is_bucket_read(p, &n, 0, s, a->target));
            needed_by[a->target] = s;
            gathers++;
        }
    ck_assert_uint_eq(gathers, 2);
    ck_assert_uint_lt(needed_by[1], needed_by[0]);
    ck_assert_uint_eq(p->n_action - p->first_at_end, 2); /* the sums of both are for the update */
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* Each bucket is given over behind the last segment that writes it, and not before; segments know the first and last use. */
START_TEST(buckets_are_given_over_when_complete)
{
    uint64_t bytes[2];
    uint32_t given[2] = {0}, waited = 0;
    yk__plan_request r;
    yk__plan *p;
    net n;
    ref.claim = _i;
    net_build(&n, 2, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    for (uint32_t i = 0; i < n.n_param; i++)
        n.param[i].bucket = i < n.n_param / 2; /* backward reaches the later ones first */
    bytes[0] = bytes[1] = n.bucket_bytes[0];
    r.n_bucket = 2, r.bucket_bytes = bytes;
    r.single_rank = false;
    p = plan_new(&r);
    for (uint32_t i = 0; i < p->n_action; i++) {
        const yk__action *a = &p->action[i];
        ck_assert_int_eq(a->kind, YK__ACTION_REDUCE_SCATTER);
        ck_assert_uint_eq(a->count, bytes[0] / 4);
        ck_assert_uint_eq(a->needed_by, p->n_segment);
        ck_assert(is_used(p, a->start_after, a->start_after + 1, p->bucket_slot + a->target));
        ck_assert(!is_used(p, a->start_after + 1, p->n_segment, p->bucket_slot + a->target));
        given[a->target]++;
    }
    ck_assert(given[0] == 1 && given[1] == 1 && p->n_action == 2);
    ck_assert_uint_eq(p->action[0].target, 0);
    ck_assert_uint_lt(p->action[0].start_after, p->action[1].start_after);
    for (uint32_t s = 0; s < p->n_segment; s++)
        waited += p->segment[s].n_before;
    ck_assert_uint_eq(waited, 0); /* the update waits for buckets */
    ck_assert_uint_eq(p->n_action - p->first_at_end, 2);
    yk__plan_free(p);
    r.single_rank = true;
    p = plan_new(&r);
    ck_assert(p->n_action == 2 && p->n_segment == 1 && p->first_at_end == 0);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* ---- Recomputation ---- */

static void buckets_equal(const yk__plan *a, const yk__plan *b)
{
    memory x, y;
    plan_run(a, &x);
    plan_run(b, &y);
    ck_assert_uint_eq(x.bytes[a->bucket_slot], y.bytes[b->bucket_slot]);
    ck_assert(!memcmp(x.slot[a->bucket_slot], y.slot[b->bucket_slot], x.bytes[a->bucket_slot]));
    memory_free(&x);
    memory_free(&y);
}

START_TEST(recomputed_bits_are_equal)
{
    yk__plan_request r;
    yk__plan *p, *q, *l;
    yk_error err = YK_ERROR_INIT;
    net n;
    ref.claim = _i;
    net_build(&n, 6, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    p = plan_new(&r);
    r.n_recompute = n.n_block, r.recompute = n.block;
    q = plan_new(&r);
    ck_assert_uint_lt(q->arena_bytes, p->arena_bytes);
    ck_assert_uint_gt(q->graph.n_node, p->graph.n_node);
    buckets_equal(p, q);
    r.n_recompute = 0;
    r.arena_limit = p->arena_bytes * 3 / 4;
    l = plan_new(&r);
    ck_assert_uint_le(l->arena_bytes, r.arena_limit);
    buckets_equal(p, l);
    yk__plan_free(l);
    r.arena_limit = 1024;
    ck_assert(yk__plan_new(&r, &l, &err) == YK_E_MEM);
    ck_assert_ptr_nonnull(strstr(err.text, "1024"));
    yk__plan_free(q);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* The gradient lies where the logits were. */
START_TEST(loss_in_place)
{
    yk__plan_request r;
    yk__plan *p;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, 1, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    p = plan_new(&r);
    for (size_t k = 0; k < p->graph.n_node; k++) {
        const yk_node *d = &p->graph.node[k];
        const yk_value *v = p->graph.value;
        if (d->op == YK_OP_CROSS_ENTROPY_BWD)
            ck_assert_uint_eq(v[p->graph.index[d->in + 1]].offset, v[p->graph.index[d->out]].offset);
    }
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* ---- Dropout in maps ---- */

/* Takes everything but dropout in a body. */
static uint32_t claims_no_drop(void *arg, const yk_graph *g, uint32_t node)
{
    const yk_node *n = &g->node[node];
    for (uint32_t k = 0; k < n->n_body; k++)
        if (g->node[n->body + k].op == YK_OP_DROPOUT)
            return 0;
    return ref_claims(arg, g, node);
}

static void count_drops(const yk__plan *p, uint32_t *unfused, uint32_t *fused, uint32_t *maps)
{
    *unfused = *fused = *maps = 0;
    for (size_t k = 0; k < p->graph.n_node; k++) {
        const yk_node *n = &p->graph.node[k];
        *unfused += n->op == YK_OP_DROPOUT;
        *maps += n->op == YK_OP_MAP || n->op == YK_OP_DOT_MAP;
        for (uint32_t j = 0; j < n->n_body; j++)
            *fused += p->graph.body[n->body + j].op == YK_OP_DROPOUT;
    }
}

/* Four dropouts and their backward become members of maps; if a device does not take them there, their neighbours are still joined. */
START_TEST(dropout_is_fused_where_the_device_takes_it)
{
    yk__plan_request r;
    yk__plan *p;
    uint32_t unfused, fused, maps;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, 2, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    p = plan_new(&r);
    count_drops(p, &unfused, &fused, &maps);
    ck_assert_uint_eq(fused, 8 - unfused);
    ck_assert_uint_le(unfused, 1); /* one has nothing beside it that it could join */
    yk__plan_free(p);
    r.claims = claims_no_drop;
    p = plan_new(&r);
    count_drops(p, &unfused, &fused, &maps);
    ck_assert_uint_eq(fused, 0);
    ck_assert_uint_eq(unfused, 8);
    ck_assert_uint_ge(maps, 8);
    net_compare(&n, p, false, 2e-6);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* Placement of attention's operands and results */

/* Takes attention with dense operands only. */
static uint32_t claims_dense(void *arg, const yk_graph *g, uint32_t node)
{
    const yk_node *n = &g->node[node];
    for (uint32_t i = 0; i < n->n_in && (n->op == YK_OP_ATTENTION || n->op == YK_OP_ATTENTION_BWD); i++)
        if (!yk__value_is_dense(&g->value[g->index[n->in + i]]))
            return 0;
    return ref_claims(arg, g, node);
}

/* The same, but never forward. */
static uint32_t claims_backward(void *arg, const yk_graph *g, uint32_t node)
{
    return g->node[node].op == YK_OP_ATTENTION ? 0 : claims_dense(arg, g, node);
}

static uint32_t count_ops(const yk__plan *p, yk_op op)
{
    uint32_t n = 0;
    for (size_t k = 0; k < p->graph.n_node; k++)
        n += p->graph.node[k].op == op;
    return n;
}

START_TEST(attention_gets_dense_operands)
{
    yk__plan_request r;
    yk__plan *p;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, 2, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.claims = claims_dense;
    p = plan_new(&r);
    ck_assert_uint_eq(count_ops(p, YK_OP_ATTENTION), 2);
    ck_assert_uint_eq(count_ops(p, YK_OP_ATTENTION_BWD), 2);
    net_compare(&n, p, false, 2e-6);
    yk__plan_free(p);
    r.claims = claims_backward;
    p = plan_new(&r);
    ck_assert_uint_eq(count_ops(p, YK_OP_ATTENTION), 0);
    ck_assert_uint_eq(count_ops(p, YK_OP_ATTENTION_BWD), 2);
    net_compare(&n, p, false, 2e-6);
    yk__plan_free(p);
    r.claims = claims_dense; /* in blocks that are computed again, too */
    r.n_recompute = n.n_block, r.recompute = n.block;
    p = plan_new(&r);
    ck_assert_uint_eq(count_ops(p, YK_OP_ATTENTION_BWD), 2);
    net_compare(&n, p, false, 2e-6);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* The copy of each result to rows of tokens, the one that backward would make again, and those of the three gradients into
 * that of the joint projection fall away. */
START_TEST(attention_writes_rows)
{
    yk__plan_request r;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, 2, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    for (int again = 0; again < 2; again++) {
        uint32_t copies, fills;
        yk__plan *p;
        r.large = (uint64_t)again;
        p = plan_new(&r);
        copies = count_ops(p, YK_OP_COPY), fills = count_ops(p, YK_OP_FILL);
        yk__plan_free(p);
        ref.strided = 1;
        p = plan_new(&r);
        ref.strided = 0;
        ck_assert_uint_eq(count_ops(p, YK_OP_COPY), copies - 2 * (again ? 5 : 4));
        ck_assert_uint_eq(count_ops(p, YK_OP_FILL), fills - 2);
        net_compare(&n, p, false, 2e-6);
        yk__plan_free(p);
    }
    yk__graph_free(&n.g);
}
END_TEST

/* ---- Activations made again ---- */

/* An activation that is recomputed for a weight's gradient comes out of the product that includes its backward. */
START_TEST(activation_again_with_its_backward)
{
    yk__plan_request r;
    yk__plan *p;
    uint32_t both = 0, unfused = 0;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, 2, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.large = 1;
    p = plan_new(&r);
    for (size_t k = 0; k < p->graph.n_node; k++) {
        const yk_node *d = &p->graph.node[k];
        uint32_t has = 0;
        for (uint32_t j = 0; j < d->n_body; j++) {
            const uint16_t op = p->graph.body[d->body + j].op;
            has |= op == YK_OP_GELU_TANH ? 1 : op == YK_OP_GELU_TANH_BWD ? 2 : 0;
        }
        both += d->op == YK_OP_DOT_MAP && has == 3;
        unfused += d->op == YK_OP_GELU_TANH;
    }
    ck_assert_uint_eq(both, 2);
    ck_assert_uint_eq(unfused, 0);
    net_compare(&n, p, false, 2e-6);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* ---- Formats ---- */

START_TEST(formats_of_mixed_precision)
{
    yk__plan_request r;
    yk__plan *p;
    uint32_t dots = 0, wide = 0;
    net n;
    ref.claim = REF_CLAIM_NONE; /* every node is seen by itself */
    net_build(&n, 1, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.precision = YK_BF16;
    p = plan_new(&r);
    for (size_t k = 0; k < p->graph.n_node; k++) {
        const yk__graph *g = &p->graph;
        const yk_node *d = &g->node[k];
        const yk_value *y = &g->value[g->index[d->out]], *x = &g->value[g->index[d->in]];
        if (d->op == YK_OP_DOT && y->dims == 2) {
            ck_assert_int_eq(x->dtype, YK_BF16);
            dots++;
            wide += y->dtype == YK_F32;
            ck_assert(y->slot != p->bucket_slot || y->dtype == YK_F32);
        }
        if (d->op == YK_OP_EXP || d->op == YK_OP_LOG || d->op == YK_OP_SUM)
            ck_assert_int_eq(x->dtype, YK_F32);
    }
    ck_assert_uint_ge(dots, 12);
    ck_assert_uint_ge(wide, 4); /* at least the weights' gradients */
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* The node that makes x's root; NULL: none does. */
static const yk_node *maker_of(const yk__graph *g, yk__vid x)
{
    for (size_t k = 0; k < g->n_node; k++)
        for (uint32_t i = 0; i < g->node[k].n_out; i++)
            if (g->value[g->index[g->node[k].out + i]].base == g->value[x].base)
                return &g->node[k];
    return NULL;
}

/* Two layers of 4 matrices: forward and its gradients, each with both operands rounded, and no other product. */
START_TEST(products_of_fp8)
{
    enum { E4M3, E5M2 };
    yk__plan_request r;
    net n;
    ref.claim = REF_CLAIM_ALL;
    for (int64_t c = 16; c <= 24; c += 8) {
        uint32_t count[3][3] = {{0}}, roundings = 0, marked_bodies = 0;
        net_build(&n, 2, c);
        net_request(&n, &r, &(yk__assign){0, n.counted});
        r.precision = YK_BF16, r.rounds8 = true;
        yk__plan *p = plan_new(&r);
        for (size_t k = 0; k < p->graph.n_node; k++) {
            const yk__graph *g = &p->graph;
            const yk_node *d = &g->node[k];
            uint32_t format[2];
            roundings += d->op == YK_OP_ROUND8;
            if (d->op != YK_OP_DOT && d->op != YK_OP_DOT_MAP)
                continue;
            for (uint32_t i = 0; i < 2; i++) {
                const yk_node *m = maker_of(g, g->index[d->in + i]);
                m = m && m->op == YK_OP_CAST ? maker_of(g, g->index[m->in]) : m;
                format[i] = m && m->op == YK_OP_ROUND8 ? (uint32_t)g->attr[m->attr] : 2;
            }
            count[format[0]][format[1]]++;
            static const uint16_t mark[2][3] = {{YK_NODE_A_E4M3, YK_NODE_A_E5M2}, {YK_NODE_B_E4M3, YK_NODE_B_E5M2}};
            const yk_node *own = d->op == YK_OP_DOT ? d : &g->body[d->body];
            ck_assert_uint_eq(own->flags & ~YK_NODE_ACCUMULATE, mark[0][format[0]] | mark[1][format[1]]);
            marked_bodies += own != d && own->flags;
        }
        const uint32_t layers = c % 16 ? 0 : 8; /* matrices of 24 stay, as does the head in any case */
        ck_assert_uint_eq(count[E4M3][E4M3], layers);
        ck_assert_uint_eq(count[E4M3][E5M2] + count[E5M2][E4M3], 2 * layers);
        ck_assert_uint_eq(count[2][2], 3 + (c % 16 ? 24 : 0));
        ck_assert_uint_eq(roundings, 3 * layers); /* once for a value */
        ck_assert(!layers || marked_bodies);
        yk__plan_free(p);
        yk__graph_free(&n.g);
    }
}
END_TEST

/* ---- Frozen and unused parameters ---- */

START_TEST(frozen_and_unused_parameters)
{
    yk__plan_request r;
    yk__plan *p;
    memory m;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, 1, C);
    n.param[2].bucket = YK_NONE;
    n.param[n.n_param] = (yk__plan_param){YK_NONE, 5, 0, n.bucket_bytes[0], 0};
    n.n_param++;
    n.bucket_bytes[0] += 256;
    net_request(&n, &r, &(yk__assign){0, n.counted});
    p = plan_new(&r);
    plan_run(p, &m);
    for (int k = 0; k < 5; k++)
        ck_assert(((float *)m.slot[p->bucket_slot])[n.param[n.n_param - 1].grad_offset / 4 + (uint64_t)k] == 0.0f);
    for (size_t k = 0; k < p->graph.n_node; k++)
        for (uint32_t i = 0; i < p->graph.node[k].n_out; i++) {
            const yk_value *y = &p->graph.value[p->graph.index[p->graph.node[k].out + i]];
            ck_assert(y->slot != p->bucket_slot || y->offset != n.param[2].grad_offset);
        }
    memory_free(&m);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* Log lines of the passes */

/* The lines of a plan in bf16 for several ranks under YOKE_LOG=debug; dir: YOKE_DUMP. */
static yk__plan *plan_logged(const yk__plan_request *r, const char *dir, char *text, size_t size)
{
    FILE *f = tmpfile();
    const int err = dup(STDERR_FILENO), level = yk__log_level();
    size_t n;
    yk__plan *p;
    ck_assert(f && err >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    setenv("YOKE_DUMP", dir, 1);
    yk__log_set_level(YK_LOG_DEBUG);
    p = plan_new(r);
    yk__log_set_level(level);
    unsetenv("YOKE_DUMP");
    dup2(err, STDERR_FILENO);
    close(err);
    rewind(f);
    n = fread(text, 1, size - 1, f);
    text[n] = 0;
    fclose(f);
    return p;
}

/* The number of nodes in the line of pass `name` of plan p; a line has its milliseconds too. *at: from there on, then behind it. */
static unsigned nodes_after_pass(const yk__plan *p, const char *name, char **at)
{
    char want[40], unit[4] = "";
    unsigned nodes = 0;
    double ms = -1.0;
    snprintf(want, sizeof want, " plan: %u %s: ", p->number, name);
    *at = strstr(*at, want);
    ck_assert_msg(*at, "no line%s", want);
    *at += strlen(want);
    ck_assert_int_eq(sscanf(*at, "%u nodes, %lf %3s", &nodes, &ms, unit), 3);
    ck_assert(ms >= 0.0 && !strcmp(unit, "ms"));
    return nodes;
}

/* There is a file KIND-N NAME, and something in it. */
static bool has_dump(const char *dir, const char *kind, const yk__plan *p, const char *name)
{
    char cmd[200];
    snprintf(cmd, sizeof cmd, "test -s \"$(ls %s/%s-%u%s)\"", dir, kind, p->number, name);
    return system(cmd) == 0;
}

/* CONTRIBUTING promises node counts of every pass and its graph: each pass that applies has its line, in order, and its file. */
START_TEST(each_pass_is_logged_and_dumped)
{
    static const char *const name[] = {"trace",     "grad",     "inverse",  "stats",     "relu",      "factor",  "keep-sums",
                                       "empty",     "autocast", "remat",    "recompute", "operands",  "claim",   "results",
                                       "narrow",    "fuse",     "lines",    "overlap",   "slots",     "place",   "away",
                                       "memory",    "cut"};
    char dir[] = "/tmp/yoke-plan-XXXXXX", file[40], cmd[64], *text = malloc(1 << 16), *at = text;
    unsigned nodes[sizeof name / sizeof *name];
    yk__plan_request r;
    yk__plan *p;
    net n;
    ref.claim = REF_CLAIM_ALL;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    net_build(&n, 1, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.precision = YK_BF16, r.single_rank = false, r.stores = true;
    p = plan_logged(&r, dir, text, 1 << 16);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        nodes[i] = nodes_after_pass(p, name[i], &at);
        snprintf(file, sizeof file, "-%02zu-%s.txt", i, name[i]);
        ck_assert_msg(has_dump(dir, "pass", p, file), "no file %s", file);
    }
    ck_assert_uint_le(nodes[0], n.g.n_node);
    ck_assert_uint_gt(nodes[1], nodes[0]);             /* backward came */
    ck_assert_uint_eq(nodes[14], p->nodes_before);     /* narrow, before fusion */
    ck_assert_uint_eq(nodes[15], p->nodes_after);      /* fuse */
    ck_assert_uint_eq(nodes[22], p->graph.n_node);     /* cut */
    ck_assert(has_dump(dir, "plan", p, ".txt") && has_dump(dir, "plan", p, ".dot"));
    yk__plan_free(p);
    r.single_rank = true, r.precision = YK_F32, r.stores = false;
    p = plan_logged(&r, dir, text, 1 << 16);
    ck_assert(!strstr(text, " autocast: ") && !strstr(text, " stats: ")); /* do not apply */
    ck_assert(!strstr(text, " overlap: ") && !strstr(text, " away: "));
    yk__plan_free(p);
    yk__graph_free(&n.g);
    free(text);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

/* A folder that is missing is made; of one that cannot be there is one line, with the reason. */
START_TEST(a_missing_folder_of_dumps)
{
    char dir[] = "/tmp/yoke-plan-XXXXXX", missing[40], cmd[64], *text = malloc(1 << 16), *line;
    yk__plan_request r;
    yk__plan *p;
    net n;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(missing, sizeof missing, "%s/new", dir);
    net_build(&n, 1, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    p = plan_logged(&r, missing, text, 1 << 16);
    ck_assert(has_dump(missing, "plan", p, ".txt") && !strstr(text, "cannot write"));
    yk__plan_free(p);
    p = plan_logged(&r, "/proc/nodir", text, 1 << 16);
    line = strstr(text, "YOKE_DUMP: cannot write /proc/nodir/pass-");
    ck_assert_msg(line && strstr(line, ".txt: No such file or directory"), "%s", text);
    ck_assert_ptr_null(strstr(strchr(line, '\n'), "cannot write"));
    yk__plan_free(p);
    yk__graph_free(&n.g);
    free(text);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

/* ---- Memory runs out ---- */

/* Under ASan each way of claiming has a third of the allocations fail, each another third. */
START_TEST(every_allocation_may_fail)
{
    yk__plan_request r;
    yk_error err = {.status = YK_E_MEM};
    yk__plan *p = NULL;
    long n;
    net t;
    yk_device_caps caps = ref_caps;
    caps.max_alloc = 2048; /* an arena in parts */
    ref.claim = _i;
    net_build(&t, 1, C);
    net_request(&t, &r, &(yk__assign){0, t.counted});
    r.caps = &caps;
    ref.strided = 1;
    r.claims = claims_dense;
    r.precision = YK_BF16;
    r.n_recompute = 1, r.recompute = t.block;
    for (n = TEST_UNDER_ASAN ? _i % 3 : 0; err.status; n += TEST_UNDER_ASAN ? 3 : 1) {
        err = (yk_error)YK_ERROR_INIT;
        yk__mem_fail_after(n);
        yk__plan_new(&r, &p, &err);
        yk__mem_fail_after(-1);
        ck_assert_msg(!err.status || err.status == YK_E_MEM, "allocation %ld: %s", n, err.text);
        ck_assert(!err.status || *err.text);
    }
    ck_assert_int_gt(n, 100);
    yk__plan_free(p);
    yk__graph_free(&t.g);
}
END_TEST

/* ---- Speed ---- */

START_TEST(twelve_layers_are_planned_quickly)
{
    yk__plan_request r;
    yk__plan *p;
    struct timespec a, b;
    double ms, best = 1e9;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, 12, 64);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.claims = ref_claims; /* without the checks of every graph */
    r.precision = YK_BF16;
    for (int i = 0; i < 5; i++) {
        yk_error err = YK_ERROR_INIT;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a); /* other tests may have the cores */
        ck_assert(!yk__plan_new(&r, &p, &err));
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        ms = 1e3 * (double)(b.tv_sec - a.tv_sec) + 1e-6 * (double)(b.tv_nsec - a.tv_nsec);
        best = ms < best ? ms : best;
        yk__plan_free(p);
    }
    printf("# 12 layers: %zu nodes of the trace planned in %.1f ms\n", n.g.n_node, best);
    ck_assert_msg(best < 150.0, "%.1f ms", best);
    yk__graph_free(&n.g);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("passes");
    tcase_add_loop_test(c, planned_equals_unplanned, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, norm_backward_in_two_passes, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, weight_gradients_overlap_sums, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, parameters_are_waited_for_when_read, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, buckets_are_given_over_when_complete, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, recomputed_bits_are_equal, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_test(c, loss_in_place);
    tcase_add_test(c, dropout_is_fused_where_the_device_takes_it);
    tcase_add_test(c, attention_gets_dense_operands);
    tcase_add_test(c, attention_writes_rows);
    tcase_add_test(c, activation_again_with_its_backward);
    tcase_add_test(c, formats_of_mixed_precision);
    tcase_add_test(c, products_of_fp8);
    tcase_add_test(c, frozen_and_unused_parameters);
    tcase_add_test(c, each_pass_is_logged_and_dumped);
    tcase_add_test(c, a_missing_folder_of_dumps);
    tcase_add_loop_test(c, every_allocation_may_fail, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_test(c, twelve_layers_are_planned_quickly);
    return suite_run("plan", c);
}
