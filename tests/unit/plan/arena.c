/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena of a device whose largest buffer is too small for it: in parts, with the same results; a value that fits no part; a step's
 * memory for backward. Matrices whose rows are no multiple of 16 bytes.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/plan_internal.h"
#include "tests/support/plan_lab.h"
#include "tests/support/run.h"

enum { WIDE = 3000 };

/* Parts of the arena: none is larger than the device's largest buffer, together they are the arena, and results are the same. */
static void expect_parts(const net *n, yk__plan_request *r, uint32_t least)
{
    yk__plan *whole = plan_new(r), *parts;
    yk_device_caps caps = ref_caps;
    uint64_t sum = 0;
    uint32_t many = 0;
    ck_assert_uint_eq(whole->n_arena, 1);
    ck_assert_uint_eq(whole->graph.slot[0].bytes, whole->arena_bytes);
    caps.max_alloc = whole->arena_bytes / least + 100; /* no multiple of anything */
    r->caps = &caps;
    parts = plan_new(r);
    for (size_t i = 0; i < parts->graph.n_slot; i++) {
        const yk_slot *s = &parts->graph.slot[i];
        if (s->kind != YK_SLOT_ARENA)
            continue;
        ck_assert_uint_eq(s->key, many);
        ck_assert_uint_eq(yk__arena_slot(parts->arena_slot, many++), i);
        ck_assert_uint_gt(s->bytes, 0);
        ck_assert_uint_le(s->bytes, caps.max_alloc);
        sum += s->bytes;
    }
    ck_assert_uint_eq(many, parts->n_arena);
    ck_assert_uint_ge(many, least);
    ck_assert_uint_eq(sum, parts->arena_bytes);
    ck_assert_uint_eq(parts->kept_bytes, whole->kept_bytes);
    net_compare(n, parts, false, 2e-6);
    yk__plan_free(parts);
    yk__plan_free(whole);
}

/* Large vectors that ranks add up lie there too: loss = sum(w s s) / WIDE, s the sum over ranks of x x. */
static void build_sums(net *n)
{
    yk__graph *g = &n->g;
    memset(n, 0, sizeof *n);
    yk__graph_init(g);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    n->state = yk__slot_new(g, YK_SLOT_STATE, 4, 0);
    const yk__vid x = net_vector(n, WIDE), w = net_vector(n, WIDE);
    yk__vid y = yk__all_reduce(g, yk__bin(g, YK_OP_MUL, x, x));
    y = yk__all_reduce(g, yk__bin(g, YK_OP_MUL, y, y));
    n->loss = yk__reshape(g, yk__scale(g, yk__sum(g, yk__bin(g, YK_OP_MUL, w, y), 1), 1.0 / WIDE), 0, NULL);
    n->counted = yk__bin(g, YK_OP_ADD, yk__leaf(g, n->state, 0, YK_F32, 0, NULL), n->loss);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

START_TEST(arena_in_parts)
{
    yk__plan_request r;
    net n;
    ref.claim = _i;
    for (uint32_t least = 2; least <= 5; least++) {
        net_build(&n, 4, C);
        net_request(&n, &r, &(yk__assign){0, n.counted});
        expect_parts(&n, &r, least);
        yk__graph_free(&n.g);
    }
    build_sums(&n);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.single_rank = false;
    expect_parts(&n, &r, 2);
    yk__graph_free(&n.g);
}
END_TEST

/* True if a segment up to the last one outputs the vector for the action, as a value that is no view. */
static bool leaves_vector(const yk__plan *p, const yk__action *a)
{
    for (uint32_t k = 0; k <= a->start_after; k++)
        for (uint32_t v = 0; v < p->segment[k].graph.n_value; v++) {
            const yk_value *x = &p->segment[k].graph.value[v];
            if (x->base == v && x->slot == a->target && x->offset == a->offset && x->flags & YK_VALUE_OUTPUT &&
                (uint64_t)yk__value_count(x) == a->count)
                return true;
        }
    return false;
}

/* A plugin whose values have no addresses keeps outputs alone. */
START_TEST(sums_take_outputs)
{
    yk__plan_request r;
    uint32_t sums = 0;
    net n;
    ref.claim = _i;
    build_sums(&n);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.single_rank = false;
    yk__plan *p = plan_new(&r);
    for (uint32_t j = 0; j < p->n_action; j++)
        if (p->action[j].kind == YK__ACTION_ALL_REDUCE) {
            ck_assert_msg(leaves_vector(p, &p->action[j]), "action %u", j);
            sums++;
        }
    ck_assert_uint_ge(sums, 2);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* A value too large for any buffer of the device: the error has its operation, its shape, and both sizes. */
START_TEST(value_larger_than_a_buffer)
{
    yk_device_caps caps = ref_caps;
    yk__plan_request r;
    yk__plan *p = NULL;
    yk_error err = YK_ERROR_INIT;
    net n;
    ref.claim = _i;
    net_build(&n, 1, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    caps.max_alloc = 300;
    r.caps = &caps;
    ck_assert(yk__plan_new(&r, &p, &err) == YK_E_MEM);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(err.text, "reference: a result of ") && strstr(err.text, "f32[") &&
                      strstr(err.text, "the device's largest buffer has 300"), "%s", err.text);
    yk__graph_free(&n.g);
}
END_TEST

static uint32_t count_ops(const yk__plan *p, yk_op op)
{
    uint32_t n = 0;
    for (size_t k = 0; k < p->graph.n_node; k++)
        n += p->graph.node[k].op == op;
    return n;
}

/*
 * Forward's memory for backward, to the byte. With r bytes for B T rows of ROW floats: each norm's operand, and its mean and rstd (a
 * small vector takes 256 bytes); in a layer q, k and v (3 r), attention's result (r) and lse, and gelu's input (2 r); logits (two small
 * ones, 352 bytes) and lse. Without recomputation also each norm's result (r), attention's in the order of rows (r) and gelu's (2 r);
 * with cheap results kept, norms' results and gelu's.
 */
START_TEST(kept_to_the_byte)
{
    enum { ROW = 64, LAYERS = 3, NORMS = 2 * LAYERS + 1 };
    const uint64_t r = 4ull * B * T * ROW;
    yk__plan_request q;
    yk__plan *stored, *cheap, *kept;
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, LAYERS, ROW);
    net_request(&n, &q, &(yk__assign){0, n.counted});
    q.large = UINT64_MAX;
    stored = plan_new(&q);
    q.large = r;
    cheap = plan_new(&q);
    q.keep_cheap = true;
    kept = plan_new(&q);
    ck_assert_uint_eq(kept->kept_bytes, cheap->kept_bytes + NORMS * r + LAYERS * 2 * r);
    ck_assert_uint_eq(count_ops(kept, YK_OP_LAYER_NORM), NORMS);
    ck_assert_uint_eq(count_ops(cheap, YK_OP_LAYER_NORM), 2 * NORMS);
    yk__plan_free(kept);
    ck_assert_uint_eq(cheap->kept_bytes, NORMS * (r + 2 * 256) + LAYERS * (6 * r + 256) + 3 * 256);
    ck_assert_uint_eq(stored->kept_bytes, cheap->kept_bytes + NORMS * r + LAYERS * 3 * r);
    yk__plan_free(cheap);
    yk__plan_free(stored);
    yk__graph_free(&n.g);
}
END_TEST

/* In bf16 what is kept is kept in 16 bits, as the product before which it stands reads it, and rounded once. */
START_TEST(results_are_kept_in_16_bits)
{
    enum { ROW = 64, LAYERS = 2, NORMS = 2 * LAYERS + 1 };
    const uint64_t r = 4ull * B * T * ROW;
    yk__plan_request q;
    yk__plan *p[2];
    net n;
    ref.claim = REF_CLAIM_ALL;
    net_build(&n, LAYERS, ROW);
    net_request(&n, &q, &(yk__assign){0, n.counted});
    q.precision = YK_BF16;
    for (int keep = 0; keep < 2; keep++) {
        q.large = r / 2;
        q.keep_cheap = keep;
        p[keep] = plan_new(&q);
        ck_assert_uint_eq(count_ops(p[keep], YK_OP_LAYER_NORM), keep ? NORMS : 2 * NORMS);
    }
    ck_assert_uint_eq(p[1]->kept_bytes, p[0]->kept_bytes + NORMS * r / 2 + LAYERS * 2 * r / 2);
    yk__plan_free(p[1]);
    yk__plan_free(p[0]);
    yk__graph_free(&n.g);
}
END_TEST

/* ---- Rows that are no multiple of 16 bytes ---- */

enum { ROWS = 6, WORDS = 1027, LINE = 1088 }; /* a multiple of 128 bytes */

static void build_words(net *n, int64_t words)
{
    const int64_t rows = ROWS, attr[2] = {-100, 0};
    yk__graph *g = &n->g;
    yk__vid in[2], out[2];
    memset(n, 0, sizeof *n);
    yk__graph_init(g);
    in[1] = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, ROWS * 4, 1), 0, YK_I32, 1, &rows);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    n->state = yk__slot_new(g, YK_SLOT_STATE, 4, 0);
    in[0] = yk__dot(g, net_matrix(n, ROWS, C), net_matrix(n, words, C), false, true);
    ck_assert_uint_eq(yk__apply(g, YK_OP_CROSS_ENTROPY, 2, in, 2, attr, YK_DTYPE_COUNT, 0, NULL, out, 2), 2);
    n->loss = yk__reshape(g, yk__scale(g, yk__sum(g, out[0], 1), 1.0 / ROWS), 0, NULL);
    n->counted = yk__bin(g, YK_OP_ADD, yk__leaf(g, n->state, 0, YK_F32, 0, NULL), n->loss);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

static uint32_t claims_dense_gradient(void *arg, const yk_graph *g, uint32_t node)
{
    return claims_checked(arg, g, node) & ~(g->node[node].op == YK_OP_CROSS_ENTROPY_BWD ? (uint32_t)YK_CLAIM_STRIDED_OUT : 0);
}

/* How often nodes read or write a matrix whose rows are LINE elements apart; of all that have a row for each word. */
static uint32_t count_padded(const yk__plan *p, int64_t words, uint32_t *all)
{
    uint32_t padded = 0;
    *all = 0;
    for (size_t k = 0; k < p->graph.n_node; k++) {
        const yk_node *d = &p->graph.node[k];
        for (uint32_t i = 0; i < d->n_in + (uint32_t)d->n_out; i++) {
            const yk_value *v = &p->graph.value[p->graph.index[i < d->n_in ? d->in + i : d->out + i - d->n_in]];
            const bool transposed = v->dims == 2 && v->dim[0] == words && v->dim[1] == ROWS;
            if (!transposed && (v->dims != 2 || v->dim[1] != words || v->dim[0] != ROWS))
                continue;
            ++*all;
            padded += v->stride[transposed] == LINE && v->stride[!transposed] == 1;
        }
        if (d->op == YK_OP_CROSS_ENTROPY_BWD)
            ck_assert_uint_eq(p->graph.value[p->graph.index[d->in + 1]].offset, p->graph.value[p->graph.index[d->out]].offset);
    }
    return padded;
}

/* The gradient is that of the logits' memory in any case; the odd matrix is longer where all that touch it take that. */
START_TEST(odd_rows_become_longer)
{
    static const struct {
        bool strided, but_gradient, wide, padded;
        int64_t words;
    } cases[] = {{true, false, false, true, WORDS}, {false, false, false, false, WORDS}, {true, true, false, false, WORDS},
                 {true, false, true, false, WORDS}, {true, false, false, false, WORDS + 5}, {true, false, false, false, 1001}};
    yk__plan_request r;
    yk__plan *p;
    net n;
    uint32_t all, padded;
    ref.claim = REF_CLAIM_ALL;
    build_words(&n, cases[_i].words);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.precision = cases[_i].wide ? YK_F32 : YK_BF16;
    if (cases[_i].but_gradient)
        r.claims = claims_dense_gradient;
    ref.strided = cases[_i].strided;
    p = plan_new(&r);
    ref.strided = 0;
    padded = count_padded(p, cases[_i].words, &all);
    ck_assert_uint_eq(all, 6); /* product, loss, its gradient twice, and two products */
    ck_assert_uint_eq(padded, cases[_i].padded ? all : 0);
    net_compare(&n, p, false, 0.01);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

/* Stays of random times: in no lane two are there at one node, a lane fits each bucket, and stays that follow each other share. */
START_TEST(buckets_take_turns_in_lanes)
{
    enum { STAYS = 40, NODES = 60 };
    const uint64_t bytes[4] = {64, 4096, 256, 1024};
    const yk__plan_request request = {.n_bucket = 4, .bucket_bytes = bytes};
    yk_error err = YK_ERROR_INIT;
    yk__stay list[STAYS];
    yk__lanes lanes = {0};
    for (uint32_t i = 0; i < STAYS; i++) {
        const uint32_t begin = (uint32_t)((i * 37 + (uint32_t)_i * 11) % NODES);
        list[i] = (yk__stay){.bucket = (i + (uint32_t)_i) % 4,
                             .begin = i % 9 == 8 ? YK_NONE : begin,
                             .end = begin + i * 13 % 7,
                             .lane = YK_NONE};
    }
    ck_assert_int_eq(yk__plan_lay_lanes(&request, list, STAYS, &lanes, &err), YK_OK);
    for (uint32_t i = 0; i < STAYS; i++) {
        if (list[i].begin == YK_NONE) {
            ck_assert_uint_eq(list[i].lane, YK_NONE);
            continue;
        }
        ck_assert_uint_lt(list[i].lane, lanes.n);
        ck_assert_uint_ge(lanes.bytes[list[i].lane], bytes[list[i].bucket]);
        for (uint32_t k = 0; k < i; k++)
            ck_assert_msg(list[k].lane != list[i].lane || list[k].end < list[i].begin || list[i].end < list[k].begin,
                          "stays %u (%u to %u) and %u (%u to %u) share a lane", k, list[k].begin, list[k].end, i, list[i].begin,
                          list[i].end);
    }
    ck_assert_uint_lt(lanes.n, STAYS / 2);
    yk__free(lanes.bytes);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("arena");
    tcase_add_loop_test(c, buckets_take_turns_in_lanes, 0, 8);
    tcase_add_loop_test(c, odd_rows_become_longer, 0, 6);
    tcase_add_loop_test(c, arena_in_parts, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, sums_take_outputs, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, value_larger_than_a_buffer, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_test(c, kept_to_the_byte);
    tcase_add_test(c, results_are_kept_in_16_bits);
    return suite_run("plan", c);
}
