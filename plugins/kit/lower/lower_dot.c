/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of products, dot and dot_map, a product with an elementwise chain as its epilogue. lower.c calls this rule while a plugin
 * makes a program, in any thread.
 *
 * The CPU shape packs both operands into panels first (gemm.kc), in slabs of bounded size. Then the kernel with the epilogue runs over
 * them. The GPU shape takes the operands as they are. Kernels with epilogues are part of the program's generated source, so that one
 * compilation makes them all. A product by a vendor's library (kit_target.product) needs no kernel.
 */
#include "plugins/kit/kit_coop.h"
#include "plugins/kit/kit_source.h"
#include "plugins/kit/lower/lower_internal.h"

#include <stdio.h>

#define GEMM_MR 8
#define GEMM_NR 32
#define GEMM_MC 128
#define GEMM_NC 256
#define GEMM_GPU 64
#define LANES_ROWS 16      /* rows of a tile of kernels/gemm_lanes.kc, about: larger ones are hardly faster and take seconds to compile; */
#define LANES_COLS 2       /* columns of a work-item, */
#define LANES_TERMS 60000  /* and terms of a sum: llvmpipe ends loops after 65535 rounds */
#define BLOCK_A (96 * 1024)      /* most elements of A in a group's rows, which should stay in its cache */
#define EIGHT_MULTIPLE 16 /* divides all three sizes of a product in 8 bits */
#define BATCH_MOST 65535  /* matrices of a launch: groups in z that each device has */
#define BEHIND_ALIGN 16u  /* bytes: alignment of lines and places for a library that computes a product's epilogue */
#define ZEROS_TEAM 64     /* work-items of a group of zeros */
#define BIAS_TEAM 128     /* work-items of a group that rounds a bias, */
#define BIAS_BLOCK 512    /* and its elements */
#define PANELS_MOST (16 << 20)   /* elements of packed panels of one operand, unless one panel has more */

/* A matrix operand: length and stride of its batch, rows and columns. */
typedef struct dot_matrix {
    int64_t batch, rows, cols, batch_stride, row_stride, col_stride;
} dot_matrix;

static dot_matrix matrix_of(const yk_value *v)
{
    uint32_t d = v->dims;
    dot_matrix m = {1, v->dim[d - 2], v->dim[d - 1], 0, v->stride[d - 2], v->stride[d - 1]};
    if (d == 3) {
        m.batch = v->dim[0];
        m.batch_stride = v->dim[0] == 1 ? 0 : v->stride[0];
    }
    if (m.rows == 1)
        m.row_stride = m.cols; /* any: pick the plain layout */
    if (m.cols == 1)
        m.col_stride = 1;
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

/* The chain after the dot: its result is leaf 0, the node's further inputs are the other leaves. */
static bool epilogue_of(const yk_graph *graph, const yk_node *n, kit_chain *chain)
{
    const yk_node *body = &graph->node[n->body];
    int64_t s[3];
    char name[16];
    *chain = (kit_chain){.graph = graph, .node = body + 1, .n_node = n->n_body - 1, .n_leaf = n->n_in - 1u, .n_out = n->n_out};
    if (!n->n_body || body->op != YK_OP_DOT || n->n_out > 3 || chain->n_leaf > KIT_LEAVES || chain->n_node > KIT_LOCALS)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (graph->index[body->in + i] != graph->index[n->in + i])
            return false;
    chain->leaf[0] = graph->index[body->out];
    for (uint32_t i = 1; i < chain->n_leaf; i++) {
        chain->leaf[i] = graph->index[n->in + 1 + i];
        if (graph->value[chain->leaf[i]].dims < 2 || !epilogue_strides(&graph->value[chain->leaf[i]], s)) /* fewer: a dropout */
            return false;
    }
    for (uint32_t i = 0; i < chain->n_out; i++) {
        chain->out[i] = chain->value[i] = graph->index[n->out + i];
        if (!kit_local_name(chain, chain->out[i], name))
            return false;
    }
    return kit_chain_fits(chain) &&
           dot_fits(&graph->value[graph->index[n->in]], &graph->value[graph->index[n->in + 1]], &graph->value[chain->leaf[0]]);
}

static void epilogue_loads(kit_text *text, const kit_chain *chain)
{
    int64_t s[3];
    for (uint32_t i = 1; i < chain->n_leaf; i++) {
        uint32_t dtype = chain->graph->value[chain->leaf[i]].dtype;
        const char *name = kit_type(dtype), *v = kit_is_float(dtype) ? "V" : "VI";
        epilogue_strides(&chain->graph->value[chain->leaf[i]], s);
        if (s[2])
            kit_text_add(text, "%s x%u = LD_%s(i%u + (z)*sz%u + (m)*sm%u + (n), cnt); ", v, i, name, i, i, i);
        else if (kit_is_float(dtype))
            kit_text_add(text, "V x%u = V_SPLAT(GET_%s(i%u[(z)*sz%u + (m)*sm%u])); ", i, name, i, i, i);
        else
            kit_text_add(text, "VI x%u = VI_SPLAT(i%u[(z)*sz%u + (m)*sm%u]%s); ", i, i, i, i, dtype == YK_BOOL ? " ? -1 : 0" : "");
    }
}

/* The macros gemm_dot.kc asks for. */
static void epilogue_emit(kit_text *text, const kit_chain *chain)
{
    char name[16];
    kit_text_add(text, "#define EPI_ARGS ");
    for (uint32_t i = 1; i < chain->n_leaf; i++)
        kit_text_add(text, ", IN(t_%s, i%u), long sz%u, long sm%u", kit_type(chain->graph->value[chain->leaf[i]].dtype), i, i, i);
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, ", OUT(t_%s, y%u)", kit_type(chain->graph->value[chain->out[i]].dtype), i);
    kit_text_add(text, "\n#define EPI_BIND ");
    for (uint32_t i = 1; i < chain->n_leaf; i++)
        kit_text_add(text, "ATC(t_%s, i%u); ", kit_type(chain->graph->value[chain->leaf[i]].dtype), i);
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "AT(t_%s, y%u); ", kit_type(chain->graph->value[chain->out[i]].dtype), i);
    kit_text_add(text, "\n#define EPI(v, z, m, n, cnt) do { V x0 = v; ");
    epilogue_loads(text, chain);
    size_t from = text->length;
    kit_emit_nodes(text, chain);
    for (size_t i = from; text->data && i < text->length; i++)
        if (text->data[i] == '\n')
            text->data[i] = ' ';
    for (uint32_t i = 0; i < chain->n_out; i++) {
        kit_local_name(chain, chain->out[i], name);
        kit_text_add(text, "ST_%s(y%u + (z)*cbs + (m)*N + (n), %s, cnt); ", kit_type(chain->graph->value[chain->out[i]].dtype), i,
                     name);
    }
    kit_text_add(text, "} while (0)\n");
}

static void plain_emit(kit_text *text)
{
    kit_text_add(text, "#define EPI_ARGS\n#define EPI_BIND\n#define EPI(v, z, m, n, cnt) do { "
                 "GLOBAL K_CAT(t_, TC) *p_ = c + (z)*cbs + (m)*N + (n); if (accumulate) v += K_CAT(LD_, TC)(p_, cnt); "
                 "K_CAT(ST_, TC)(p_, v, cnt); } while (0)\n");
}

/* ---- Kernels ---- */

typedef struct dot_plan {
    const kit_target *target;
    const yk_value *a, *b, *c;
    kit_chain epilogue; /* n_node 0: the product itself is stored */
    uint32_t unit;      /* its kernel */
    uint32_t lane_rows, lane_cols; /* kernels/gemm_lanes.kc: GEMM_LR and GEMM_LC; 0: another kernel */
    bool mma;                      /* kernels/gemm_mma.kc, or gemm_coop.kc */
} dot_plan;

/* Tiles no larger than the product. */
static void dot_lanes(dot_plan *dot)
{
    const int64_t lanes = dot->target->lanes;
    const dot_matrix a = matrix_of(dot->a), c = matrix_of(dot->c);
    if (!lanes || a.cols > LANES_TERMS)
        return;
    const int64_t rows = kit_div_up(c.rows, lanes), cols = kit_div_up(c.cols, lanes), most = lanes < LANES_ROWS ? LANES_ROWS / lanes : 1;
    dot->lane_rows = (uint32_t)(rows < most ? rows : most);
    dot->lane_cols = (uint32_t)(cols < LANES_COLS ? cols : LANES_COLS);
}

static bool dot_of(const yk_graph *graph, const yk_node *n, dot_plan *dot)
{
    dot->a = &graph->value[graph->index[n->in]];
    dot->b = &graph->value[graph->index[n->in + 1]];
    dot->c = &graph->value[graph->index[n->out]];
    dot->epilogue = (kit_chain){.graph = graph};
    return n->op == YK_OP_DOT_MAP ? epilogue_of(graph, n, &dot->epilogue) && kit_is_float(dot->c->dtype)
                                  : dot_fits(dot->a, dot->b, dot->c);
}

/* The macros gemm_coop.kc asks for. */
static void coop_emit(kit_text *text, const dot_plan *dot, const kit_coop *size)
{
    kit_coop_share share;
    kit_coop_shared(size, dot->target->coop_lanes, &share);
    kit_text_add(text, "#undef GEMM_M\n#undef GEMM_N\n#undef GEMM_K\n#undef GEMM_R\n#undef GEMM_C\n"
                 "#undef GEMM_ACROSS\n#undef GEMM_STEPS\n");
    kit_text_add(text, "#define GEMM_M %u\n#define GEMM_N %u\n#define GEMM_K %u\n#define GEMM_R %u\n#define GEMM_C %u\n", size->rows,
                 size->cols, size->terms, share.rows, share.cols);
    kit_text_add(text, "#define GEMM_ACROSS %u\n#define GEMM_STEPS %u\n", share.across, KIT_COOP_TERMS / size->terms);
}

/* The CPU shape's kernel knows no type of its operands: they are packed. */
static void dot_emit(kit_text *text, const char *name, const void *what)
{
    const dot_plan *dot = what;
    const char *source = kit_dot_source(dot->target, dot->lane_rows, dot->mma);
    kit_text_add(text, "#undef EPI_ARGS\n#undef EPI_BIND\n#undef EPI\n#undef GEMM_NAME\n#undef TC\n#undef TA\n");
    kit_text_add(text, "#undef GEMM_TEAM\n#undef GEMM_EACH\n#undef GEMM_LANES\n#undef GEMM_LR\n#undef GEMM_LC\n");
    kit_text_add(text, "#define GEMM_NAME %s\n#define TC %s\n#define TA %s\n", name, kit_type(dot->c->dtype),
                 dot->target->cpu_shape ? "f32" : kit_type(dot->a->dtype));
    if (dot->lane_rows)
        kit_text_add(text, "#define GEMM_LANES %u\n#define GEMM_LR %u\n#define GEMM_LC %u\n", dot->target->lanes, dot->lane_rows,
                     dot->lane_cols);
    else if (dot->mma && !dot->target->mma)
        coop_emit(text, dot, kit_coop_of(dot->target, dot->a->dtype));
    else
        kit_text_add(text, "#define GEMM_TEAM %u\n#define GEMM_EACH %u\n", kit_gpu_team(dot->target),
                     GEMM_GPU * GEMM_GPU / 4 / kit_gpu_team(dot->target));
    if (dot->epilogue.n_node)
        epilogue_emit(text, &dot->epilogue);
    else
        plain_emit(text);
    kit_text_put(text, source, strlen(source));
}

static bool op_is_dot(uint32_t op)
{
    return op == YK_OP_DOT || op == YK_OP_DOT_MAP;
}

/* True if the result may have padded lines, which a library writes directly; if no library takes the product, kernels copy the result. */
static bool dot_takes_padding(const kit_target *target, const yk_graph *graph, const yk_node *n)
{
    const dot_plan dot = {.a = kit_node_in(graph, n, 0), .b = kit_node_in(graph, n, 1), .c = kit_node_out(graph, n, 0)};
    return target->product && !target->cpu_shape && !target->lanes && !n->flags && dot_fits(dot.a, dot.b, dot.c) && dot.a->dims == 2 &&
           dot.b->dims == 2;
}

static bool dot_has_terms(const yk_graph *graph, const yk_node *n)
{
    const yk_value *a = kit_node_in(graph, n, 0);
    return a->dims && kit_value_count(a) > 0;
}

/* A primitive is run whether it is claimed or not. */
static uint32_t claim_dot(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    dot_plan dot = {.target = target};
    const yk_node *n = &graph->node[node];
    if (!dot_has_terms(graph, n))
        return 0;
    if (n->op == YK_OP_DOT)
        return dot_takes_padding(target, graph, n) ? YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT : 0;
    if (!dot_of(graph, n, &dot) || (!target->cpu_shape && matrix_of(dot.c).batch > BATCH_MOST))
        return 0;
    return YK_CLAIM_RUN;
}

/* ---- Launches ---- */

/* A part of the product: rows, columns and matrices from.. to.. */
typedef struct dot_slab_part {
    int64_t m0, m1, n0, n1, z0, z1;
} dot_slab_part;

/* Blocks small enough that there is work for every unit. The order of sums does not depend on them. */
static void dot_blocks(const kit_target *target, const dot_slab_part *s, int64_t K, int64_t *mc, int64_t *nc)
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
static void dot_pack(kit_lowering *ctx, uint32_t value, const dot_matrix *x, int64_t K, int64_t from, int64_t to, int64_t z0,
                     int64_t z1, int64_t side, uint64_t at, uint64_t bytes)
{
    char defines[64];
    int64_t n = x->batch_stride ? z1 - z0 : 1;
    snprintf(defines, sizeof defines, "-DGEMM_PANELS -DTA=%s", kit_type(ctx->graph->value[value].dtype));
    kit_launch_add(ctx, "gemm", defines, "gemm_panels", kit_div_up(to - from, side), n, 1, 1);
    kit_arg_value_at(ctx, value, z0 * x->batch_stride);
    kit_arg_scratch(ctx, at, bytes, 4);
    const int64_t size[] = {from, to, K, x->row_stride, x->col_stride, x->batch_stride, kit_div_up(to - from, side) * side * K};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        kit_arg_i64(ctx, size[i]);
    kit_arg_i32(ctx, side);
}

static void dot_epilogue_args(kit_lowering *ctx, const kit_chain *chain)
{
    for (uint32_t i = 1; i < chain->n_leaf; i++) {
        int64_t s[3];
        epilogue_strides(&ctx->graph->value[chain->leaf[i]], s);
        kit_arg_value(ctx, chain->leaf[i]);
        kit_arg_i64(ctx, s[0]);
        kit_arg_i64(ctx, s[1]);
    }
    for (uint32_t i = 0; i < chain->n_out && chain->n_node; i++)
        kit_arg_value(ctx, chain->out[i]);
}

/* Matrices from z on, BATCH_MOST at most, as no device needs more groups in a dimension. A product with an epilogue is one part. */
static void dot_batch(kit_lowering *ctx, const yk_node *n, const dot_plan *dot, int64_t z, uint64_t scratch)
{
    dot_matrix a = matrix_of(dot->a), b = matrix_of(dot->b), c = matrix_of(dot->c);
    const uint32_t lanes = ctx->target->lanes;
    const int64_t count = c.batch - z < BATCH_MOST ? c.batch - z : BATCH_MOST, at = z * c.rows * c.cols;
    const int64_t mc = dot->lane_rows ? dot->lane_rows * lanes : GEMM_GPU, nc = dot->lane_cols ? dot->lane_cols * lanes : GEMM_GPU;
    kit_launch_add_generated(ctx, dot->unit, kit_div_up(c.cols, nc), kit_div_up(c.rows, mc), count,
                             dot->lane_rows ? lanes : dot->mma ? KIT_MMA_TEAM : kit_gpu_team(ctx->target));
    kit_arg_value_at(ctx, ctx->graph->index[n->in], z * a.batch_stride);
    kit_arg_value_at(ctx, ctx->graph->index[n->in + 1], z * b.batch_stride);
    if (scratch)
        kit_arg_scratch(ctx, (uint64_t)at * 2, (uint64_t)(count * c.rows * c.cols) * 2, 2);
    else
        kit_arg_value_at(ctx, ctx->graph->index[n->out], at);
    const int64_t size[] = {c.rows,         c.cols,       a.cols,       a.row_stride,   a.col_stride,
                            a.batch_stride, b.row_stride, b.col_stride, b.batch_stride, c.rows * c.cols};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        kit_arg_i64(ctx, size[i]);
    kit_arg_i32(ctx, mc);
    kit_arg_i32(ctx, nc);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
    dot_epilogue_args(ctx, &dot->epilogue);
}

static void dot_whole(kit_lowering *ctx, const yk_node *n, const dot_plan *dot)
{
    const bool padded = kit_value_is_padded(dot->c); /* the kernels write dense matrices */
    const uint64_t bytes = padded ? (uint64_t)kit_value_count(dot->c) * 2 : 0;
    for (int64_t z = 0; z < matrix_of(dot->c).batch; z += BATCH_MOST)
        dot_batch(ctx, n, dot, z, bytes);
    if (padded)
        kit_lines_spread(ctx, 0, bytes, ctx->graph->index[n->out]);
}

/* The slab's panels of A begin at 0, of B at `at`. */
static void dot_slab(kit_lowering *ctx, const yk_node *n, const dot_plan *dot, const dot_slab_part *s, uint64_t at, uint64_t bytes)
{
    dot_matrix a = matrix_of(dot->a), b = matrix_of(dot->b), c = matrix_of(dot->c);
    int64_t mc, nc, K = a.cols;
    dot_blocks(ctx->target, s, K, &mc, &nc);
    kit_launch_add_generated(ctx, dot->unit, kit_div_up(s->n1 - s->n0, nc), kit_div_up(s->m1 - s->m0, mc), s->z1 - s->z0, 1);
    kit_arg_scratch(ctx, 0, at, 4);
    kit_arg_scratch(ctx, at, bytes, 4);
    kit_arg_value(ctx, ctx->graph->index[n->out]);
    const int64_t size[] = {c.cols, K, s->m0, s->m1, s->n0, s->n1, s->z0,
                            a.batch_stride ? kit_round_up(s->m1 - s->m0, GEMM_MR) * K : 0,
                            b.batch_stride ? kit_round_up(s->n1 - s->n0, GEMM_NR) * K : 0, c.rows * c.cols};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        kit_arg_i64(ctx, size[i]);
    kit_arg_i32(ctx, mc);
    kit_arg_i32(ctx, nc);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
    dot_epilogue_args(ctx, &dot->epilogue);
}

/* Both operands' panels are one allocation; a tenth is left for rounding. */
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

static void dot_slabs(kit_lowering *ctx, const yk_node *n, const dot_plan *dot)
{
    dot_matrix a = matrix_of(dot->a), b = matrix_of(dot->b), c = matrix_of(dot->c), bt = b;
    const int64_t most = panels_most(ctx->target), K = a.cols;
    int64_t mp = dot_part(c.rows, K, GEMM_MR, most), np = dot_part(c.cols, K, GEMM_NR, most), zp = c.batch;
    int64_t each = kit_round_up(mp, GEMM_MR) > kit_round_up(np, GEMM_NR) ? kit_round_up(mp, GEMM_MR) : kit_round_up(np, GEMM_NR);
    if (zp * each * K > most)
        zp = dot_part(c.batch, each * K, 1, most);
    uint64_t at = (uint64_t)(kit_round_up(mp, GEMM_MR) * K * (a.batch_stride ? zp : 1)) * 4, end;
    at = (uint64_t)kit_round_up((int64_t)at, 64);
    end = (uint64_t)(kit_round_up(np, GEMM_NR) * K * (b.batch_stride ? zp : 1)) * 4;
    bt.row_stride = b.col_stride; /* columns of B are the rows of its panels */
    bt.col_stride = b.row_stride;
    for (int64_t z = 0; z < c.batch; z += zp)
        for (int64_t i = 0; i < c.cols; i += np) {
            dot_slab_part s = {.n0 = i, .n1 = i + np < c.cols ? i + np : c.cols, .z0 = z, .z1 = z + zp < c.batch ? z + zp : c.batch};
            dot_pack(ctx, ctx->graph->index[n->in + 1], &bt, K, s.n0, s.n1, s.z0, s.z1, GEMM_NR, at, end);
            for (s.m0 = 0; s.m0 < c.rows; s.m0 += mp) {
                s.m1 = s.m0 + mp < c.rows ? s.m0 + mp : c.rows;
                if (i == 0 || mp < c.rows)
                    dot_pack(ctx, ctx->graph->index[n->in], &a, K, s.m0, s.m1, s.z0, s.z1, GEMM_MR, 0, at);
                dot_slab(ctx, n, dot, &s, at, end);
            }
        }
}

/* ---- Products by a vendor's library; a separate kernel computes the rest ---- */

static kit_matrix product_operand(const yk_value *v, const dot_matrix *m, uint64_t offset)
{
    const uint64_t bits = offset | KIT_PRODUCT_ALIGN;
    return (kit_matrix){.row_stride = m->row_stride,
                        .col_stride = m->col_stride,
                        .batch_stride = m->batch_stride,
                        .dtype = v->dtype,
                        .align = (uint32_t)(bits & (~bits + 1))};
}

/* c: target of the product itself, from `offset` on. */
static kit_product product_of(const yk_node *n, const dot_plan *dot, const yk_value *c, uint64_t offset)
{
    const dot_matrix am = matrix_of(dot->a), bm = matrix_of(dot->b);
    dot_matrix cm = matrix_of(c);
    cm.row_stride = kit_value_is_padded(c) ? c->stride[0] : cm.cols;
    cm.col_stride = 1;
    cm.batch_stride = cm.rows * cm.cols;
    return (kit_product){.batch = cm.batch,
                         .rows = cm.rows,
                         .cols = cm.cols,
                         .terms = am.cols,
                         .a = product_operand(dot->a, &am, dot->a->offset),
                         .b = product_operand(dot->b, &bm, dot->b->offset),
                         .c = product_operand(c, &cm, offset),
                         .accumulate = n->flags & YK_NODE_ACCUMULATE ? 1 : 0};
}

/* The 8-bit format of operand i that the product is marked with; false if none. */
static bool eight_format(const yk_graph *graph, const yk_node *n, uint32_t i, uint32_t *format)
{
    const uint32_t flags = n->op == YK_OP_DOT_MAP ? graph->node[n->body].flags : n->flags;
    *format = flags & (i ? YK_NODE_B_E5M2 : YK_NODE_A_E5M2) ? YK_ROUND8_E5M2 : YK_ROUND8_E4M3;
    return flags & (i ? YK_NODE_B_E4M3 | YK_NODE_B_E5M2 : YK_NODE_A_E4M3 | YK_NODE_A_E5M2);
}

/* True if the operands may be converted to 8 bits for the product *p, which is then set; terms are contiguous in both. */
static bool eight_of(const kit_lowering *ctx, const yk_node *n, kit_product *p, kit_eight e[2])
{
    const int64_t terms = p->terms;
    if (!ctx->target->eight || p->batch != 1 || p->rows % EIGHT_MULTIPLE || p->cols % EIGHT_MULTIPLE || terms % EIGHT_MULTIPLE)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        e[i] = (kit_eight){.value = ctx->graph->index[n->in + i], .rows = i ? p->cols : p->rows, .terms = terms};
        const int64_t along = i ? p->b.row_stride : p->a.col_stride, across = i ? p->b.col_stride : p->a.row_stride;
        e[i].transposed = along != 1;
        if (!eight_format(ctx->graph, n, i, &e[i].format) || (e[i].transposed ? across != 1 || along != e[i].rows : across != terms))
            return false;
    }
    p->a = (kit_matrix){terms, 1, 0, YK_F8E4M3 + e[0].format, KIT_PRODUCT_ALIGN};
    p->b = (kit_matrix){1, terms, 0, YK_F8E4M3 + e[1].format, KIT_PRODUCT_ALIGN};
    return true;
}

/* e: the operands in 8 bits, or NULL. False: the library does not. */
static bool product_by_library(kit_lowering *ctx, const yk_node *n, const dot_plan *dot, const kit_product *product, kit_eight *e)
{
    const kit_chain *behind = &dot->epilogue;
    const yk_value *c = behind->n_node ? &ctx->graph->value[behind->leaf[0]] : dot->c;
    uint64_t scratch = 0;
    if (!ctx->target->product(ctx->target->dev, product, &scratch))
        return false;
    const uint32_t element = yk_dtype_bytes(c->dtype);
    const uint64_t at = kit_round_bytes(scratch, KIT_PRODUCT_ALIGN), bytes = (uint64_t)kit_value_count(c) * element;
    for (uint64_t i = 0, end = at + bytes; e && i < 2; i++) {
        end = kit_eight_place(&e[i], end);
        kit_eight_make(ctx, &e[i]);
    }
    kit_launch_add_product(ctx, product);
    for (uint32_t i = 0; i < 2; i++)
        if (e)
            kit_arg_scratch(ctx, e[i].at, (uint64_t)(e[i].rows * e[i].terms), 1);
        else
            kit_arg_value(ctx, ctx->graph->index[n->in + i]);
    if (behind->n_node)
        kit_arg_scratch(ctx, at, bytes, element);
    else
        kit_arg_value(ctx, ctx->graph->index[n->out]);
    kit_arg_scratch(ctx, 0, scratch, 1);
    for (uint32_t i = 0; e && i < 2; i++)
        kit_arg_scratch(ctx, e[i].scale_at + KIT_EIGHT_INVERSE, 4, 4);
    if (behind->n_node)
        kit_chain_launch(ctx, behind, at, bytes);
    return true;
}

/* As product_by_library, for 16 bits, with copies of matrices whose lines are not aligned. False if it does not pay. */
static bool lines_by_library(kit_lowering *ctx, const yk_node *n, const dot_plan *dot, const kit_product *product)
{
    const kit_chain *behind = &dot->epilogue;
    const uint32_t *in = &ctx->graph->index[n->in], value[] = {in[0], in[1], behind->n_node ? behind->leaf[0] : ctx->graph->index[n->out]};
    const yk_value *c = &ctx->graph->value[value[2]];
    uint64_t at;
    if (!kit_lines_product(ctx, product, value, behind->n_node, &at))
        return false;
    if (behind->n_node)
        kit_chain_launch(ctx, behind, at, (uint64_t)kit_value_count(c) * yk_dtype_bytes(c->dtype));
    return true;
}

/* A row of f32 as C has it, in scratch memory from `at` on, unless it is so. Returns where that ends. */
static uint64_t bias_narrow(kit_lowering *ctx, uint32_t value, uint32_t dtype, uint64_t at)
{
    char defines[32];
    const yk_value *bias = &ctx->graph->value[value];
    const int64_t cols = bias->dim[bias->dims - 1];
    if (bias->dtype == dtype)
        return at;
    snprintf(defines, sizeof defines, "-DUNIT_FLOAT -DT=%s", kit_type(dtype));
    kit_launch_add(ctx, "data", defines, "narrow_f32", kit_div_up(cols, BIAS_BLOCK), 1, 1, BIAS_TEAM);
    kit_arg_value(ctx, value);
    kit_arg_scratch(ctx, at, (uint64_t)cols * 2, 2);
    kit_arg_i64(ctx, cols);
    kit_arg_i64(ctx, BIAS_BLOCK);
    return at + (uint64_t)cols * 2;
}

/* Like the product's result, in memory. */
static bool behind_lies(const yk_graph *graph, uint32_t value, const yk_value *out)
{
    if (value == YK_NONE)
        return true;
    const yk_value *v = &graph->value[value];
    return v->dtype == out->dtype && kit_value_dense(v) && kit_value_count(v) == kit_value_count(out) && v->offset % BEHIND_ALIGN == 0;
}

/* True if the library also computes the chain after the product; *p then includes it. */
static bool behind_takes(const kit_lowering *ctx, const yk_node *n, const dot_plan *dot, kit_product *p, kit_behind *b)
{
    const yk_graph *graph = ctx->graph;
    if (!dot->epilogue.n_node || !kit_behind_of(&dot->epilogue, b))
        return false;
    const yk_value *out = &graph->value[b->out], *bias = b->bias == YK_NONE ? NULL : &graph->value[b->bias];
    *p = product_of(n, dot, out, out->offset);
    p->bias = bias != NULL;
    p->gelu = b->gelu;
    p->before = b->before != YK_NONE;
    p->addend = b->addend != YK_NONE;
    if (bias && (bias->offset % BEHIND_ALIGN || (bias->dtype != YK_F32 && bias->dtype != out->dtype)))
        return false;
    return p->batch == 1 && p->cols * yk_dtype_bytes(out->dtype) % BEHIND_ALIGN == 0 && behind_lies(graph, b->out, out) &&
           behind_lies(graph, b->before, out) && behind_lies(graph, b->addend, out) &&
           (out->dtype == dot->a->dtype || out->dtype == YK_F32) && (!b->gelu || out->dtype != YK_F32);
}

static bool behind_by_library(kit_lowering *ctx, const yk_node *n, const dot_plan *dot)
{
    kit_product p;
    kit_behind b;
    uint64_t scratch = 0;
    if (!behind_takes(ctx, n, dot, &p, &b) || !ctx->target->product(ctx->target->dev, &p, &scratch))
        return false;
    const uint64_t at = kit_round_bytes(scratch, KIT_PRODUCT_ALIGN), end = p.bias ? bias_narrow(ctx, b.bias, p.c.dtype, at) : at;
    kit_launch_add_product(ctx, &p);
    kit_arg_value(ctx, ctx->graph->index[n->in]);
    kit_arg_value(ctx, ctx->graph->index[n->in + 1]);
    kit_arg_value(ctx, b.out);
    kit_arg_scratch(ctx, 0, scratch, 1);
    if (end > at)
        kit_arg_scratch(ctx, at, end - at, 2);
    else if (p.bias)
        kit_arg_value(ctx, b.bias);
    if (p.before)
        kit_arg_value(ctx, b.before);
    if (p.addend)
        kit_arg_value(ctx, b.addend);
    if (b.again != YK_NONE)
        kit_behind_again(ctx, &dot->epilogue, &b);
    return true;
}

/* False: kernels of the kit have to. */
static bool dot_by_library(kit_lowering *ctx, const yk_node *n, const dot_plan *dot)
{
    const kit_chain *behind = &dot->epilogue;
    const yk_value *c = behind->n_node ? &ctx->graph->value[behind->leaf[0]] : dot->c;
    kit_eight e[2];
    if (!ctx->target->product || (behind->n_node && !kit_chain_has_kernel(behind)))
        return false;
    const kit_product product = product_of(n, dot, c, behind->n_node ? 0 : c->offset);
    kit_product in_eight = product;
    return (eight_of(ctx, n, &in_eight, e) && product_by_library(ctx, n, dot, &in_eight, e)) || behind_by_library(ctx, n, dot) ||
           lines_by_library(ctx, n, dot, &product) || product_by_library(ctx, n, dot, &product, NULL);
}

/* A sum of no products: zeros, in f32 first, as that kernel is there for each device. */
static void dot_zeros(kit_lowering *ctx, const yk_node *n, const yk_value *c)
{
    char defines[32];
    const bool wide = c->dtype == YK_F32;
    const int64_t total = kit_value_count(c), block = kit_move_block(ctx->target, total), groups = total ? kit_div_up(total, block) : 0;
    if (!groups || n->flags & YK_NODE_ACCUMULATE)
        return;
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "zeros_f32", groups, 1, 1, ZEROS_TEAM);
    if (wide)
        kit_arg_value(ctx, ctx->graph->index[n->out]);
    else
        kit_arg_scratch(ctx, 0, (uint64_t)total * 4, 4);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, block);
    if (wide)
        return;
    snprintf(defines, sizeof defines, "-DUNIT_FLOAT -DT=%s", kit_type(c->dtype));
    kit_launch_add(ctx, "data", defines, "narrow_f32", groups, 1, 1, ZEROS_TEAM);
    kit_arg_scratch(ctx, 0, (uint64_t)total * 4, 4);
    kit_arg_value(ctx, ctx->graph->index[n->out]);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, block);
}

static void lower_dot(kit_lowering *ctx, const yk_node *n)
{
    dot_plan dot = {.target = ctx->target};
    if (!dot_of(ctx->graph, n, &dot)) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return;
    }
    if (!dot_has_terms(ctx->graph, n)) {
        dot_zeros(ctx, n, dot.c);
        return;
    }
    if (dot_by_library(ctx, n, &dot))
        return;
    dot.mma = kit_mma_takes(ctx->target, dot.a->dtype) || kit_coop_of(ctx->target, dot.a->dtype);
    if (!dot.mma)
        dot_lanes(&dot);
    kit_mma_note(ctx, dot.a->dtype, dot.mma);
    dot.unit = kit_unit_generated(ctx, "gemm_", kit_generated_macros(ctx->target), dot_emit, &dot);
    if (ctx->target->cpu_shape)
        dot_slabs(ctx, n, &dot);
    else
        dot_whole(ctx, n, &dot);
}

const kit_rule kit_rule_dot = {op_is_dot, claim_dot, lower_dot};
