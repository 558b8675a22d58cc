/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts's test cases of composites: convolutions, pools, attention. cases.c lists them; the groups composite, body and guard (groups.c)
 * run each in their child process, and compare with the reference.
 */
#include <string.h>

#include "tools/cts/cts.h"

static void sums_of(cts_check *k, yk_dtype dtype, double n, double low)
{
    k->tol = CTS_LARGEST;
    k->in_type = dtype;
    k->n = n;
    k->low = dtype == YK_F32 ? 0 : low;
}

typedef struct conv {
    const char *name;
    int64_t n, c, h, w, o, kh, kw, attr[7]; /* sh sw ph pw dh dw groups */
} conv;

static const conv convs[] = {
    {"3x3", 2, 3, 9, 8, 5, 3, 3, {1, 1, 1, 1, 1, 1, 1}},        {"1x1", 2, 16, 7, 7, 8, 1, 1, {1, 1, 0, 0, 1, 1, 1}},
    {"stride2", 3, 4, 10, 9, 6, 3, 3, {2, 2, 1, 1, 1, 1, 1}},    {"dilated", 1, 3, 12, 11, 4, 3, 2, {1, 2, 2, 1, 2, 3, 1}},
    {"groups", 2, 6, 8, 8, 9, 3, 3, {1, 1, 1, 1, 1, 1, 3}},      {"depthwise", 2, 8, 9, 9, 8, 3, 3, {2, 2, 1, 1, 1, 1, 8}},
    {"patch", 1, 3, 16, 16, 10, 4, 4, {4, 4, 0, 0, 1, 1, 1}},    {"one", 1, 1, 1, 1, 1, 1, 1, {1, 1, 0, 0, 1, 1, 1}},
    {"16x16", 2, 16, 16, 16, 32, 3, 3, {1, 1, 1, 1, 1, 1, 1}},   {"7x7s2", 1, 3, 23, 21, 16, 7, 7, {2, 2, 3, 3, 1, 1, 1}},
    {"even1x1", 3, 16, 8, 8, 24, 1, 1, {1, 1, 0, 0, 1, 1, 1}},   {"down1x1", 2, 16, 8, 8, 32, 1, 1, {2, 2, 0, 0, 1, 1, 1}},
    {"tall", 2, 2, 13, 3, 3, 5, 1, {1, 1, 2, 0, 1, 1, 1}},        {"narrow", 9, 16, 16, 16, 16, 3, 3, {1, 1, 1, 1, 1, 1, 1}},
    {"wide", 1, 3, 5, 70, 4, 3, 3, {2, 2, 1, 1, 1, 1, 1}},       {"stem", 5, 3, 9, 11, 6, 3, 3, {1, 1, 1, 1, 1, 1, 1}},
    {"short_lines", 6, 20, 8, 8, 35, 3, 3, {2, 2, 1, 1, 1, 1, 1}},   {"deep", 4, 300, 5, 19, 9, 3, 3, {2, 2, 1, 1, 1, 1, 1}},
    {"far", 4, 9, 6, 5, 10, 3, 2, {2, 2, 3, 2, 1, 1, 1}},        {"batch33", 33, 2, 4, 5, 3, 3, 3, {1, 1, 1, 1, 1, 1, 1}},
    {"planes", 257, 2, 1, 1, 257, 1, 1, {1, 1, 0, 0, 1, 1, 1}}, /* more pictures of a channel than 16 bits count */
};
#define N_CONV (sizeof convs / sizeof *convs)

static int64_t out_of(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
{
    return (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

bool cts_case_conv(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const char *const names[] = {"conv2d", "conv2d_dx", "conv2d_dw"};
    uint32_t which = number / N_CONV;
    const conv *v = &convs[number % N_CONV];
    const int64_t *a = v->attr;
    const int64_t x[] = {v->n, v->c, v->h, v->w}, w[] = {v->o, v->c / a[6], v->kh, v->kw};
    const int64_t y[] = {v->n, v->o, out_of(v->h, v->kh, a[0], a[2], a[4]), out_of(v->w, v->kw, a[1], a[3], a[5])};
    double sums[] = {(double)(w[1] * v->kh * v->kw), (double)(v->o / a[6] * v->kh * v->kw), (double)(v->n * y[2] * y[3])};
    yk__vid in[2], out = YK_NONE;
    if (which >= 3)
        return false;
    snprintf(name, n, "%s.%s", names[which], v->name);
    k->tol = CTS_ABSSUM;
    k->n = sums[which];
    in[0] = cts_leaf(&k->g, dtype, CTS_UNIT, 0, 4, which == 0 ? x : y);
    in[1] = cts_leaf(&k->g, dtype, CTS_UNIT, 1, 4, which == 2 ? x : w);
    yk__apply(&k->g, YK_OP_CONV2D + which, 2, in, 7, a, YK_DTYPE_COUNT, which ? 4 : YK_NONE,
              which == 1 ? x : which == 2 ? w : NULL, &out, 1);
    cts_want(k, out);
    return true;
}

/* ---- Pools ------------------------------------------------------------------------------------------------------------------ */

typedef struct pool {
    const char *name;
    int64_t dim[4], attr[8]; /* kh kw sh sw ph pw dh dw */
} pool;

static const pool pools[] = {
    {"2x2", {2, 3, 8, 6}, {2, 2, 2, 2, 0, 0, 1, 1}},     {"3x3s2p1", {2, 4, 9, 11}, {3, 3, 2, 2, 1, 1, 1, 1}},
    {"overlap", {1, 2, 7, 7}, {3, 2, 1, 1, 1, 0, 1, 1}}, {"whole", {3, 5, 4, 4}, {4, 4, 1, 1, 0, 0, 1, 1}},
    {"dilated", {1, 2, 9, 9}, {2, 3, 2, 1, 0, 1, 2, 2}}, {"one", {1, 1, 1, 1}, {1, 1, 1, 1, 0, 0, 1, 1}},
    {"planes", {257, 257, 2, 1}, {2, 1, 2, 1, 0, 0, 1, 1}}, {"many", {1, 3, 24, 23}, {12, 12, 1, 1, 0, 0, 1, 1}},
};
#define MANY 64 /* elements of a window from which on one maximum is that of many windows */
#define N_POOL (sizeof pools / sizeof *pools)

static const int64_t *pool_apply(const pool *p, bool max, int64_t *y)
{
    const int64_t *a = p->attr;
    y[0] = p->dim[0], y[1] = p->dim[1];
    y[2] = out_of(p->dim[2], a[0], a[2], a[4], max ? a[6] : 1);
    y[3] = out_of(p->dim[3], a[1], a[3], a[5], max ? a[7] : 1);
    return y;
}

static void max_pool(cts_check *k, yk_dtype dtype, const pool *p, bool backward, cts_dist dist)
{
    int64_t y[4];
    yk__vid in[2], out = YK_NONE;
    const bool many = p->attr[0] * p->attr[1] >= MANY;
    in[0] = cts_leaf(&k->g, dtype, many && dist == CTS_TIES ? CTS_UNIT : dist, 0, 4, p->dim);
    if (!backward) {
        yk__apply(&k->g, YK_OP_MAX_POOL, 1, in, 8, p->attr, YK_DTYPE_COUNT, YK_NONE, NULL, &out, 1);
    } else {
        in[1] = cts_leaf(&k->g, dtype, many ? CTS_LARGE : CTS_UNIT, 0, 4, pool_apply(p, true, y));
        yk__apply(&k->g, YK_OP_MAX_POOL_BWD, 2, in, 8, p->attr, YK_DTYPE_COUNT, 4, p->dim, &out, 1);
        sums_of(k, dtype, (double)(p->attr[0] * p->attr[1]), 0); /* in f32, rounded once */
    }
    cts_want(k, out);
}

static void avg_pool(cts_check *k, yk_dtype dtype, const pool *p, bool backward, bool padded)
{
    int64_t y[4], attr[7] = {p->attr[0], p->attr[1], p->attr[2], p->attr[3], p->attr[4], p->attr[5], padded};
    yk__vid in, out = YK_NONE;
    in = cts_leaf(&k->g, dtype, CTS_UNIT, 0, 4, backward ? pool_apply(p, false, y) : p->dim);
    yk__apply(&k->g, backward ? YK_OP_AVG_POOL_BWD : YK_OP_AVG_POOL, 1, &in, 7, attr, YK_DTYPE_COUNT, backward ? 4 : YK_NONE,
              backward ? p->dim : NULL, &out, 1);
    sums_of(k, dtype, (double)(p->attr[0] * p->attr[1]), 0); /* in f32, rounded once */
    cts_want(k, out);
}

bool cts_case_pool(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    const pool *p = &pools[number % N_POOL];
    uint32_t which = number / N_POOL;
    bool backward = which & 1;
    if (which >= 7)
        return false;
    if (which == 6) {
        snprintf(name, n, "max_pool.%s.nan", p->name);
        max_pool(k, dtype, p, false, CTS_SPECIAL);
        k->any_zero = true;
    } else if (which < 2) {
        snprintf(name, n, "max_pool%s.%s", backward ? "_bwd" : "", p->name);
        max_pool(k, dtype, p, backward, CTS_TIES); /* the first of equal maxima counts */
    } else {
        snprintf(name, n, "avg_pool%s.%s%s", backward ? "_bwd" : "", p->name, which >= 4 ? ".include_pad" : "");
        avg_pool(k, dtype, p, backward, which >= 4);
    }
    return true;
}

/* ---- Attention --------------------------------------------------------------------------------------------------------------- */

typedef struct att {
    const char *name;
    int64_t b, h, hk, tq, tk, d, causal, flags;
    bool bias_row; /* one bias row for all queries and heads */
} att;

static const att atts[] = {
    {"plain", 2, 3, 3, 9, 9, 16, 0, 0, false},
    {"causal", 2, 2, 2, 17, 17, 8, 1, 0, false},
    {"long", 1, 2, 2, 130, 130, 32, 1, 0, false},
    {"cross", 2, 2, 2, 5, 33, 64, 0, 0, false},
    {"cross_causal", 1, 2, 2, 5, 12, 16, 1, 0, false},
    {"grouped", 2, 4, 2, 7, 7, 8, 1, 0, false},
    {"keep", 3, 2, 2, 11, 11, 16, 0, YK_ATT_KEEP, false},
    {"bias", 2, 3, 3, 6, 10, 8, 0, YK_ATT_BIAS | YK_ATT_GBIAS, false},
    {"bias_row", 2, 3, 3, 6, 10, 8, 0, YK_ATT_BIAS, true},
    {"drop", 2, 2, 2, 9, 9, 16, 1, YK_ATT_DROP, false},
    {"all", 2, 4, 2, 9, 9, 16, 1, YK_ATT_KEEP | YK_ATT_BIAS | YK_ATT_DROP | YK_ATT_GBIAS, false},
    {"one", 1, 1, 1, 1, 1, 4, 0, 0, false},
    {"blind", 1, 2, 2, 6, 3, 8, 1, 0, false}, /* the first queries see no key */
    {"blind16", 1, 2, 2, 70, 3, 16, 1, 0, false},
    {"heads64", 2, 4, 2, 75, 83, 64, 1, 0, false},
    {"heads64_all", 1, 2, 2, 37, 141, 64, 0, YK_ATT_KEEP | YK_ATT_BIAS | YK_ATT_DROP | YK_ATT_GBIAS, false},
    {"heads128", 1, 2, 2, 130, 130, 128, 1, YK_ATT_DROP, false},
};
#define N_ATT (sizeof atts / sizeof *atts)
static const att many_heads = {"many_heads", 5958, 11, 11, 1, 2, 2, 0, 0, false}; /* more than 16 bits count */

static uint32_t attention_extras(cts_check *k, const att *a, yk__vid *in)
{
    const int64_t keep[] = {a->b, a->tk}, full[] = {a->b, a->h, a->tq, a->tk}, row[] = {1, 1, 1, a->tk}, four[] = {4};
    uint32_t n = 0;
    if (a->flags & YK_ATT_KEEP)
        in[n++] = cts_leaf(&k->g, YK_F32, CTS_MASK, 0, 2, keep);
    if (a->flags & YK_ATT_BIAS)
        in[n++] = a->bias_row ? yk__expand(&k->g, cts_leaf(&k->g, YK_F32, CTS_UNIT, 0, 4, row), 4, full)
                              : cts_leaf(&k->g, YK_F32, CTS_UNIT, 0, 4, full);
    if (a->flags & YK_ATT_DROP) {
        in[n++] = cts_leaf(&k->g, YK_I32, CTS_KEY, 0, 1, four);
        in[n++] = cts_leaf(&k->g, YK_I32, CTS_ROWS, 0, 1, &a->b);
    }
    return n;
}

/* Writes the first `many` results of the last node as rows of tokens: [B,H,T,D] in the order [B,T,H,D]. The rows are then wanted. */
static void as_rows(yk__graph *g, uint32_t many, yk__vid *y)
{
    for (uint32_t i = 0; i < many && !g->error.status; i++) {
        yk_value v = g->value[y[i]];
        const int64_t dim[] = {v.dim[0], v.dim[2], v.dim[1], v.dim[3]};
        const yk__vid rows = yk__value_new(g, (yk_dtype)v.dtype, 4, dim);
        if (rows == YK_NONE)
            return;
        v.stride[0] = dim[1] * dim[2] * dim[3], v.stride[1] = dim[3], v.stride[2] = dim[2] * dim[3], v.stride[3] = 1;
        g->index[g->node[g->n_node - 1].out + i] = yk__alias_new(g, rows, &v);
        y[i] = rows;
    }
}

/* [B,H,T,D]; as a view of rows of tokens, [B,T,H,D], in which other elements lie between the heads, so that these begin anywhere */
static yk__vid head_leaf(cts_check *k, yk_dtype dtype, uint32_t n, const int64_t *dim, bool view)
{
    static const uint32_t turn[] = {0, 2, 1, 3};
    const int64_t rows[] = {dim[0], dim[2], dim[1], dim[3] + 8}, begin = n % 2 ? 8 : 1;
    yk__vid x;
    if (!view)
        return cts_leaf(&k->g, dtype, CTS_UNIT, n, 4, dim);
    x = cts_leaf(&k->g, dtype, CTS_UNIT, n, 4, rows);
    return yk__permute(&k->g, yk__slice(&k->g, x, 3, begin, begin + dim[3], 1), turn);
}

bool cts_case_attention(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    const bool many = number >= 6 * N_ATT;
    const att *a = many ? &many_heads : &atts[number % N_ATT];
    const bool backward = many ? number & 1 : number / N_ATT & 1;
    const bool rows = number / N_ATT / 2 == 1, views = number / N_ATT / 2 == 2;
    const int64_t q[] = {a->b, a->h, a->tq, a->d}, kv[] = {a->b, a->hk, a->tk, a->d};
    int64_t attr[] = {a->causal, yk_attr_of_f64(0.35), yk_attr_of_f64(a->flags & YK_ATT_DROP ? 0.25 : 0), 11, a->flags};
    yk__vid in[10], y[2], b[12], out[4];
    uint32_t n_in, n_out;
    if (number >= 6 * N_ATT + (dtype == YK_F32 ? 2 : 0))
        return false;
    snprintf(name, n, "attention%s.%s%s", backward ? "_bwd" : "", a->name, rows ? ".rows" : views ? ".views" : "");
    k->claims = rows ? YK_CLAIM_STRIDED_OUT : 0;
    sums_of(k, dtype, (double)(a->tk + a->tq + a->d), 6);
    k->least = 0.05; /* with few keys gradients vanish */
    in[0] = head_leaf(k, dtype, 0, q, views);
    in[1] = head_leaf(k, dtype, 1, kv, views);
    in[2] = head_leaf(k, dtype, 2, kv, views);
    n_in = 3 + attention_extras(k, a, in + 3);
    n_out = yk__apply(&k->g, YK_OP_ATTENTION, n_in, in, 5, attr, YK_DTYPE_COUNT, YK_NONE, NULL, y, 2);
    if (backward && n_out) {
        b[0] = head_leaf(k, dtype, 3, q, views);
        b[1] = y[0], b[2] = y[1];
        memcpy(b + 3, in, n_in * sizeof *in);
        n_out = yk__apply(&k->g, YK_OP_ATTENTION_BWD, n_in + 3, b, 5, attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 4);
    }
    if (rows && n_out)
        as_rows(&k->g, yk__strided_results(backward ? YK_OP_ATTENTION_BWD : YK_OP_ATTENTION), backward ? out : y);
    for (uint32_t i = 0; i < n_out; i++)
        cts_want(k, backward ? out[i] : y[i]);
    return true;
}
