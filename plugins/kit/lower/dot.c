/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dot and dot_map. The CPU shape packs both operands into panels first (gemm.kc), in slabs of bounded size, and then runs
 * the kernel with the epilogue over them; the GPU shape takes the operands as they are. Kernels with their epilogues are
 * part of the program's generated source, so that one compilation makes them all.
 */
#include "plugins/kit/lower/lower.h"
#include "plugins/kit/source.h"

#include <stdio.h>

#define GEMM_MR 8
#define GEMM_NR 32
#define GEMM_MC 128
#define GEMM_NC 256
#define GEMM_GPU 64
#define BLOCK_A (96 * 1024)      /* elements of A that a group's rows should have at most: they stay in its cache */
#define PANELS_MOST (16 << 20)   /* elements of packed panels of one operand, where one panel has fewer */

/* A matrix operand: length and stride of its batch, rows and columns. */
typedef struct matrix {
    int64_t batch, rows, cols, bs, rs, cs;
} matrix;

static matrix matrix_of(const yk_value *v)
{
    uint32_t d = v->dims;
    matrix m = {1, v->dim[d - 2], v->dim[d - 1], 0, v->stride[d - 2], v->stride[d - 1]};
    if (d == 3) {
        m.batch = v->dim[0];
        m.bs = v->dim[0] == 1 ? 0 : v->stride[0];
    }
    if (m.rows == 1)
        m.rs = m.cols; /* any: pick the plain layout */
    if (m.cols == 1)
        m.cs = 1;
    return m;
}

static bool dot_fits(const yk_value *a, const yk_value *b, const yk_value *c)
{
    return kit_is_float(a->dtype) && a->dtype == b->dtype && kit_is_float(c->dtype) && a->dims >= 2 && b->dims >= 2;
}

/* ---- dot_map: the chain on the product is the epilogue of the kernel ---- */

static bool epilogue_strides(const yk_value *v, int64_t s[3])
{
    uint32_t d = v->dims;
    s[0] = d == 3 && v->dim[0] > 1 ? v->stride[0] : 0;
    s[1] = v->dim[d - 2] > 1 ? v->stride[d - 2] : 0;
    s[2] = v->dim[d - 1] > 1 ? v->stride[d - 1] : 0;
    return s[2] == 0 || s[2] == 1;
}

/* The chain behind the dot: its result is leaf 0, the node's further inputs are the other leaves. */
static bool epilogue_of(const yk_graph *g, const yk_node *n, kit_chain *c)
{
    const yk_node *body = &g->node[n->body];
    int64_t s[3];
    char name[16];
    *c = (kit_chain){.g = g, .node = body + 1, .n_node = n->n_body - 1, .n_leaf = n->n_in - 1u, .n_out = n->n_out};
    if (!n->n_body || body->op != YK_OP_DOT || n->n_out > 3 || c->n_leaf > KIT_LEAVES || c->n_node > KIT_LOCALS)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (g->index[body->in + i] != g->index[n->in + i])
            return false;
    c->leaf[0] = g->index[body->out];
    for (uint32_t i = 1; i < c->n_leaf; i++) {
        c->leaf[i] = g->index[n->in + 1 + i];
        if (g->value[c->leaf[i]].dims < 2 || !epilogue_strides(&g->value[c->leaf[i]], s)) /* fewer: of a dropout */
            return false;
    }
    for (uint32_t i = 0; i < c->n_out; i++) {
        c->out[i] = c->value[i] = g->index[n->out + i];
        if (!kit_local_name(c, c->out[i], name))
            return false;
    }
    return kit_chain_fits(c) && dot_fits(&g->value[g->index[n->in]], &g->value[g->index[n->in + 1]], &g->value[c->leaf[0]]);
}

static void epilogue_loads(kit_text *t, const kit_chain *c)
{
    int64_t s[3];
    for (uint32_t i = 1; i < c->n_leaf; i++) {
        uint32_t dtype = c->g->value[c->leaf[i]].dtype;
        const char *name = kit_type(dtype), *v = kit_is_float(dtype) ? "V" : "VI";
        epilogue_strides(&c->g->value[c->leaf[i]], s);
        if (s[2])
            kit_text_add(t, "%s x%u = LD_%s(i%u + (z)*sz%u + (m)*sm%u + (n), cnt); ", v, i, name, i, i, i);
        else if (kit_is_float(dtype))
            kit_text_add(t, "V x%u = V_SPLAT(GET_%s(i%u[(z)*sz%u + (m)*sm%u])); ", i, name, i, i, i);
        else
            kit_text_add(t, "VI x%u = VI_SPLAT(i%u[(z)*sz%u + (m)*sm%u]%s); ", i, i, i, i, dtype == YK_BOOL ? " ? -1 : 0" : "");
    }
}

/* The macros gemm_dot.kc asks for. */
static void epilogue_emit(kit_text *t, const kit_chain *c)
{
    char name[16];
    kit_text_add(t, "#define EPI_ARGS ");
    for (uint32_t i = 1; i < c->n_leaf; i++)
        kit_text_add(t, ", IN(t_%s, i%u), long sz%u, long sm%u", kit_type(c->g->value[c->leaf[i]].dtype), i, i, i);
    for (uint32_t i = 0; i < c->n_out; i++)
        kit_text_add(t, ", OUT(t_%s, y%u)", kit_type(c->g->value[c->out[i]].dtype), i);
    kit_text_add(t, "\n#define EPI_BIND ");
    for (uint32_t i = 1; i < c->n_leaf; i++)
        kit_text_add(t, "ATC(t_%s, i%u); ", kit_type(c->g->value[c->leaf[i]].dtype), i);
    for (uint32_t i = 0; i < c->n_out; i++)
        kit_text_add(t, "AT(t_%s, y%u); ", kit_type(c->g->value[c->out[i]].dtype), i);
    kit_text_add(t, "\n#define EPI(v, z, m, n, cnt) do { V x0 = v; ");
    epilogue_loads(t, c);
    size_t from = t->n;
    kit_emit_nodes(t, c);
    for (size_t i = from; t->s && i < t->n; i++)
        if (t->s[i] == '\n')
            t->s[i] = ' ';
    for (uint32_t i = 0; i < c->n_out; i++) {
        kit_local_name(c, c->out[i], name);
        kit_text_add(t, "ST_%s(y%u + (z)*cbs + (m)*N + (n), %s, cnt); ", kit_type(c->g->value[c->out[i]].dtype), i, name);
    }
    kit_text_add(t, "} while (0)\n");
}

static void plain_emit(kit_text *t)
{
    kit_text_add(t, "#define EPI_ARGS\n#define EPI_BIND\n#define EPI(v, z, m, n, cnt) do { "
                    "GLOBAL K_CAT(t_, TC) *p_ = c + (z)*cbs + (m)*N + (n); if (accumulate) v += K_CAT(LD_, TC)(p_, cnt); "
                    "K_CAT(ST_, TC)(p_, v, cnt); } while (0)\n");
}

/* ---- Kernels ---- */

typedef struct dot {
    const kit_target *target;
    const yk_value *a, *b, *c;
    kit_chain epilogue; /* n_node 0: the product itself is stored */
    uint32_t unit;      /* its kernel */
} dot;

static bool dot_of(const yk_graph *g, const yk_node *n, dot *d)
{
    d->a = &g->value[g->index[n->in]];
    d->b = &g->value[g->index[n->in + 1]];
    d->c = &g->value[g->index[n->out]];
    d->epilogue = (kit_chain){.g = g};
    return n->op == YK_OP_DOT_MAP ? epilogue_of(g, n, &d->epilogue) && kit_is_float(d->c->dtype) : dot_fits(d->a, d->b, d->c);
}

/* The CPU shape's kernel knows no type of its operands: they are packed. */
static void dot_emit(kit_text *t, const char *name, const void *what)
{
    const dot *d = what;
    const char *source = kit_dot_source(d->target);
    kit_text_add(t, "#undef EPI_ARGS\n#undef EPI_BIND\n#undef EPI\n#undef GEMM_NAME\n#undef TC\n#undef TA\n");
    kit_text_add(t, "#define GEMM_NAME %s\n#define TC %s\n#define TA %s\n", name, kit_type(d->c->dtype),
                 d->target->cpu_shape ? "f32" : kit_type(d->a->dtype));
    if (d->epilogue.n_node)
        epilogue_emit(t, &d->epilogue);
    else
        plain_emit(t);
    kit_text_put(t, source, strlen(source));
}

uint32_t kit_claims_dot_map(const yk_graph *g, const yk_node *n)
{
    dot d = {0};
    return dot_of(g, n, &d) ? YK_CLAIM_RUN : 0;
}

/* ---- Launches ---- */

/* A part of the product: rows, columns and matrices from.. to.. */
typedef struct slab {
    int64_t m0, m1, n0, n1, z0, z1;
} slab;

/* Blocks small enough that there is work for every unit. The order of sums does not depend on them. */
static void dot_blocks(const kit_target *target, const slab *s, int64_t K, int64_t *mc, int64_t *nc)
{
    int64_t M = s->m1 - s->m0, N = s->n1 - s->n0, batch = s->z1 - s->z0, want = 2 * (int64_t)target->units;
    *mc = GEMM_MC;
    *nc = GEMM_NC;
    while (*mc > 16 && *mc * K > BLOCK_A)
        *mc /= 2;
    while (target->units > 1 && *mc > 16 && batch * kit_div_up(M, *mc) * kit_div_up(N, *nc) < want)
        if (*nc > 64)
            *nc /= 2;
        else
            *mc /= 2;
}

/* Rows from..to of x[z0..z1] to scratch memory at `at`; panels of a broadcast matrix are made once. */
static void dot_pack(kit_lowering *ctx, uint32_t value, const matrix *x, int64_t K, int64_t from, int64_t to, int64_t z0, int64_t z1,
                     int64_t side, uint64_t at, uint64_t bytes)
{
    char defines[64];
    int64_t n = x->bs ? z1 - z0 : 1;
    snprintf(defines, sizeof defines, "-DGEMM_PANELS -DTA=%s", kit_type(ctx->g->value[value].dtype));
    kit_launch_add(ctx, "gemm", defines, "gemm_panels", kit_div_up(to - from, side), n, 1, 1);
    kit_arg_value_at(ctx, value, z0 * x->bs);
    kit_arg_scratch(ctx, at, bytes, 4);
    const int64_t size[] = {from, to, K, x->rs, x->cs, x->bs, kit_div_up(to - from, side) * side * K};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        kit_arg_i64(ctx, size[i]);
    kit_arg_i32(ctx, side);
}

static void dot_epilogue_args(kit_lowering *ctx, const kit_chain *c)
{
    for (uint32_t i = 1; i < c->n_leaf; i++) {
        int64_t s[3];
        epilogue_strides(&ctx->g->value[c->leaf[i]], s);
        kit_arg_value(ctx, c->leaf[i]);
        kit_arg_i64(ctx, s[0]);
        kit_arg_i64(ctx, s[1]);
    }
    for (uint32_t i = 0; i < c->n_out && c->n_node; i++)
        kit_arg_value(ctx, c->out[i]);
}

static void dot_whole(kit_lowering *ctx, const yk_node *n, const dot *d)
{
    matrix a = matrix_of(d->a), b = matrix_of(d->b), c = matrix_of(d->c);
    kit_launch_add_generated(ctx, d->unit, kit_div_up(c.cols, GEMM_GPU), kit_div_up(c.rows, GEMM_GPU), c.batch, 256);
    kit_arg_value(ctx, ctx->g->index[n->in]);
    kit_arg_value(ctx, ctx->g->index[n->in + 1]);
    kit_arg_value(ctx, ctx->g->index[n->out]);
    const int64_t size[] = {c.rows, c.cols, a.cols, a.rs, a.cs, a.bs, b.rs, b.cs, b.bs, c.rows * c.cols};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        kit_arg_i64(ctx, size[i]);
    kit_arg_i32(ctx, GEMM_GPU);
    kit_arg_i32(ctx, GEMM_GPU);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
    dot_epilogue_args(ctx, &d->epilogue);
}

/* The panels of the slab's A lie at 0, those of its B at `at`. */
static void dot_slab(kit_lowering *ctx, const yk_node *n, const dot *d, const slab *s, uint64_t at, uint64_t bytes)
{
    matrix a = matrix_of(d->a), b = matrix_of(d->b), c = matrix_of(d->c);
    int64_t mc, nc, K = a.cols;
    dot_blocks(ctx->target, s, K, &mc, &nc);
    kit_launch_add_generated(ctx, d->unit, kit_div_up(s->n1 - s->n0, nc), kit_div_up(s->m1 - s->m0, mc), s->z1 - s->z0, 1);
    kit_arg_scratch(ctx, 0, at, 4);
    kit_arg_scratch(ctx, at, bytes, 4);
    kit_arg_value(ctx, ctx->g->index[n->out]);
    const int64_t size[] = {c.cols, K, s->m0, s->m1, s->n0, s->n1, s->z0,
                            a.bs ? kit_round_up(s->m1 - s->m0, GEMM_MR) * K : 0,
                            b.bs ? kit_round_up(s->n1 - s->n0, GEMM_NR) * K : 0, c.rows * c.cols};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        kit_arg_i64(ctx, size[i]);
    kit_arg_i32(ctx, mc);
    kit_arg_i32(ctx, nc);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
    dot_epilogue_args(ctx, &d->epilogue);
}

/* Both operands' panels are one allocation; a tenth of it is left for what is rounded up. */
static int64_t panels_most(const kit_target *target)
{
    const int64_t fit = (int64_t)(target->max_alloc / 10 * 9 / 8);
    return fit && fit < PANELS_MOST ? fit : PANELS_MOST;
}

/* How many rows of `side` give at most `most` elements of K each, at least one panel. */
static int64_t dot_part(int64_t rows, int64_t K, int64_t side, int64_t most)
{
    int64_t fit = most / (K > 0 ? K : 1) / side * side;
    return rows <= fit ? rows : fit < side ? side : fit;
}

static void dot_slabs(kit_lowering *ctx, const yk_node *n, const dot *d)
{
    matrix a = matrix_of(d->a), b = matrix_of(d->b), c = matrix_of(d->c), bt = b;
    const int64_t most = panels_most(ctx->target), K = a.cols;
    int64_t mp = dot_part(c.rows, K, GEMM_MR, most), np = dot_part(c.cols, K, GEMM_NR, most), zp = c.batch;
    int64_t each = kit_round_up(mp, GEMM_MR) > kit_round_up(np, GEMM_NR) ? kit_round_up(mp, GEMM_MR) : kit_round_up(np, GEMM_NR);
    if (zp * each * K > most)
        zp = dot_part(c.batch, each * K, 1, most);
    uint64_t at = (uint64_t)(kit_round_up(mp, GEMM_MR) * K * (a.bs ? zp : 1)) * 4, end;
    at = (uint64_t)kit_round_up((int64_t)at, 64);
    end = (uint64_t)(kit_round_up(np, GEMM_NR) * K * (b.bs ? zp : 1)) * 4;
    bt.rs = b.cs; /* columns of B are the rows of its panels */
    bt.cs = b.rs;
    for (int64_t z = 0; z < c.batch; z += zp)
        for (int64_t i = 0; i < c.cols; i += np) {
            slab s = {.n0 = i, .n1 = i + np < c.cols ? i + np : c.cols, .z0 = z, .z1 = z + zp < c.batch ? z + zp : c.batch};
            dot_pack(ctx, ctx->g->index[n->in + 1], &bt, K, s.n0, s.n1, s.z0, s.z1, GEMM_NR, at, end);
            for (s.m0 = 0; s.m0 < c.rows; s.m0 += mp) {
                s.m1 = s.m0 + mp < c.rows ? s.m0 + mp : c.rows;
                if (i == 0 || mp < c.rows)
                    dot_pack(ctx, ctx->g->index[n->in], &a, K, s.m0, s.m1, s.z0, s.z1, GEMM_MR, 0, at);
                dot_slab(ctx, n, d, &s, at, end);
            }
        }
}

void kit_lower_dot(kit_lowering *ctx, const yk_node *n)
{
    dot d = {.target = ctx->target};
    if (!dot_of(ctx->g, n, &d)) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return;
    }
    d.unit = kit_unit_generated(ctx, "gemm_", dot_emit, &d);
    if (ctx->target->cpu_shape)
        dot_slabs(ctx, n, &d);
    else
        dot_whole(ctx, n, &d);
}
