/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of plugin.h, whose comments say what each computes, as lines of StableHLO. Composites come as their bodies. */
#include <math.h>

#include "backends/pjrt/lower.h"
#include "plugins/kit/value.h"

static bool type_is_float(uint32_t type)
{
    return type == YK_F32 || type == YK_F16 || type == YK_BF16;
}

/* An operand for arithmetic: floats of 16 bits are computed in f32. */
static pj_tensor operand_wide(pj_lowering *ctx, const yk_node *n, uint32_t i)
{
    const pj_tensor t = pj_read(ctx, pj_in(ctx, n, i));
    return type_is_float(t.type) ? pj_convert(&ctx->body, t, YK_F32) : t;
}

static pj_tensor scalar_add_zero(pj_lowering *ctx, uint32_t type)
{
    return pj_number(&ctx->body, pj_scalar(type), 0);
}

static int64_t attr_of(const pj_lowering *ctx, const yk_node *n, uint32_t i)
{
    return ctx->graph->attr[n->attr + i];
}

/* ---- Elementwise ---------------------------------------------------------------------------------------------------- */

static void lower_unary(pj_lowering *ctx, const yk_node *n)
{
    static const char *const names[] = {[YK_OP_NEG] = "negate",   [YK_OP_ABS] = "abs",     [YK_OP_EXP] = "exponential",
                                        [YK_OP_LOG] = "log",      [YK_OP_SQRT] = "sqrt",   [YK_OP_RSQRT] = "rsqrt",
                                        [YK_OP_TANH] = "tanh",    [YK_OP_ERF] = "chlo.erf"};
    const pj_tensor x = operand_wide(ctx, n, 0);
    if (n->op == YK_OP_RECIP)
        pj_write(ctx, pj_out(ctx, n, 0), pj_binary(&ctx->body, "divide", pj_number(&ctx->body, x, 1), x));
    else
        pj_write(ctx, pj_out(ctx, n, 0), pj_unary(&ctx->body, names[n->op], x));
}

static void lower_binary(pj_lowering *ctx, const yk_node *n)
{
    static const char *const names[] = {[YK_OP_ADD] = "add",    [YK_OP_SUB] = "subtract", [YK_OP_MUL] = "multiply",
                                        [YK_OP_DIV] = "divide", [YK_OP_MAX] = "maximum",  [YK_OP_MIN] = "minimum"};
    const pj_tensor a = operand_wide(ctx, n, 0), b = operand_wide(ctx, n, 1);
    if (n->op == YK_OP_LT || n->op == YK_OP_EQ)
        pj_write(ctx, pj_out(ctx, n, 0), pj_compare(&ctx->body, n->op == YK_OP_LT ? "LT" : "EQ", a, b));
    else
        pj_write(ctx, pj_out(ctx, n, 0), pj_binary(&ctx->body, names[n->op], a, b));
}

/* To bool by a comparison with 0, which NaN is not equal to. */
static void lower_cast(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    pj_tensor x = pj_read(ctx, pj_in(ctx, n, 0));
    if (out->dtype == YK_BOOL && x.type != YK_BOOL)
        x = pj_compare(&ctx->body, "NE", x, pj_number(&ctx->body, x, 0));
    pj_write(ctx, out, pj_convert(&ctx->body, x, out->dtype));
}

static void lower_select(pj_lowering *ctx, const yk_node *n)
{
    const pj_tensor c = pj_read(ctx, pj_in(ctx, n, 0)), a = pj_read(ctx, pj_in(ctx, n, 1)), b = pj_read(ctx, pj_in(ctx, n, 2));
    pj_write(ctx, pj_out(ctx, n, 0), pj_select(&ctx->body, c, a, b));
}

static void lower_fill(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    pj_write(ctx, out, pj_number(&ctx->body, pj_shape_of(out), yk_attr_f64(attr_of(ctx, n, 0))));
}

static void lower_iota(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    pj_write(ctx, out, pj_iota(&ctx->body, pj_shape_of(out), (uint32_t)attr_of(ctx, n, 0)));
}

static void lower_copy(pj_lowering *ctx, const yk_node *n)
{
    pj_write(ctx, pj_out(ctx, n, 0), pj_read(ctx, pj_in(ctx, n, 0)));
}

/* ---- Random numbers ------------------------------------------------------------------------------------------------- */

/* The high and low word of a product with a constant. */
static void philox_product(pj_lowering *ctx, pj_tensor x, uint32_t factor, pj_tensor *high, pj_tensor *low)
{
    const pj_tensor wide = pj_like(&x, PJ_U64);
    const pj_tensor product = pj_binary(&ctx->body, "multiply", pj_convert(&ctx->body, x, PJ_U64), pj_integer(&ctx->body, wide, factor));
    *high = pj_convert(&ctx->body, pj_binary(&ctx->body, "shift_right_logical", product, pj_integer(&ctx->body, wide, 32)), PJ_U32);
    *low = pj_convert(&ctx->body, product, PJ_U32);
}

/* Philox4x32-10 (Salmon et al., 2011) of counters w and a key, in place. */
static void philox_rounds(pj_lowering *ctx, pj_tensor w[4], pj_tensor key[2])
{
    static const uint32_t step[2] = {0x9E3779B9u, 0xBB67AE85u};
    pj_text *p = &ctx->body;
    for (int round = 0; round < 10; round++) {
        pj_tensor high[2], low[2];
        philox_product(ctx, w[0], 0xD2511F53u, &high[0], &low[0]);
        philox_product(ctx, w[2], 0xCD9E8D57u, &high[1], &low[1]);
        w[0] = pj_binary(p, "xor", pj_binary(p, "xor", high[1], w[1]), key[0]);
        w[2] = pj_binary(p, "xor", pj_binary(p, "xor", high[0], w[3]), key[1]);
        w[1] = low[1];
        w[3] = low[0];
        for (int i = 0; i < 2; i++)
            key[i] = pj_binary(p, "add", key[i], pj_integer(p, key[i], step[i]));
    }
}

/* Element i of the key, as many times as `shape` has elements. */
static pj_tensor key_word(pj_lowering *ctx, pj_tensor key, int64_t i, pj_tensor shape)
{
    const int64_t end = i + 1;
    const pj_tensor word = pj_reshape(&ctx->body, pj_slice(&ctx->body, key, &i, &end, NULL), 0, NULL);
    return pj_broadcast(&ctx->body, word, NULL, shape.dims, shape.dim);
}

/* Each element computes the four words of its counter and takes its own. */
static void lower_rng(pj_lowering *ctx, const yk_node *n)
{
    static const uint32_t first[1] = {0};
    const yk_value *out = pj_out(ctx, n, 0);
    pj_text *p = &ctx->body;
    const pj_tensor key = pj_convert(p, pj_read(ctx, pj_in(ctx, n, 0)), PJ_U32);
    pj_tensor rows = pj_convert(p, pj_read(ctx, pj_in(ctx, n, 1)), PJ_U64);
    const int64_t n_row = pj_count(&rows), each = kit_value_count(out) / n_row, dim[2] = {n_row, each};
    rows = pj_broadcast(p, pj_reshape(p, rows, 1, &n_row), first, 2, dim);
    const pj_tensor word = pj_like(&rows, PJ_U32);
    const pj_tensor count = pj_binary(p, "add", pj_binary(p, "multiply", rows, pj_integer(p, rows, each)), pj_iota(p, rows, 1));
    const pj_tensor lane = pj_convert(p, pj_binary(p, "and", count, pj_integer(p, rows, 3)), PJ_U32);
    const pj_tensor at = pj_binary(p, "shift_right_logical", count, pj_integer(p, rows, 2));
    pj_tensor w[4] = {pj_convert(p, at, PJ_U32),
                      pj_convert(p, pj_binary(p, "shift_right_logical", at, pj_integer(p, rows, 32)), PJ_U32),
                      pj_integer(p, word, (uint32_t)attr_of(ctx, n, 0)), key_word(ctx, key, 2, word)};
    pj_tensor keys[2] = {key_word(ctx, key, 0, word), key_word(ctx, key, 1, word)};
    philox_rounds(ctx, w, keys);
    for (int i = 2; i >= 0; i--)
        w[3] = pj_select(p, pj_compare(p, "EQ", lane, pj_integer(p, word, i)), w[i], w[3]);
    const pj_tensor u = pj_convert(p, pj_binary(p, "shift_right_logical", w[3], pj_integer(p, word, 8)), YK_F32);
    pj_write(ctx, out, pj_reshape(p, pj_binary(p, "multiply", u, pj_number(p, u, 0x1p-24)), out->dims, out->dim));
}

/* ---- Reductions ------------------------------------------------------------------------------------------------------ */

static void lower_sum(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    pj_tensor x = operand_wide(ctx, n, 0);
    x = pj_reduce(&ctx->body, "add", x, scalar_add_zero(ctx, x.type), (uint64_t)attr_of(ctx, n, 0));
    pj_write(ctx, out, pj_reshape(&ctx->body, x, out->dims, out->dim));
}

static pj_tensor tensor_max(pj_lowering *ctx, pj_tensor x, uint64_t mask)
{
    return pj_reduce(&ctx->body, "maximum", x, pj_number(&ctx->body, pj_scalar(x.type), -HUGE_VAL), mask);
}

/* XLA's reductions on a processor lose a NaN beside an infinity, so NaN is looked for apart. */
static pj_tensor tensor_max_or_nan(pj_lowering *ctx, pj_tensor x, uint64_t mask)
{
    pj_text *p = &ctx->body;
    const pj_tensor most = tensor_max(ctx, x, mask), none = pj_integer(p, pj_scalar(YK_BOOL), 0);
    const pj_tensor any = pj_reduce(p, "or", pj_compare(p, "NE", x, x), none, mask);
    return pj_select(p, any, pj_number(p, most, NAN), most);
}

static void lower_rmax(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    const pj_tensor x = tensor_max_or_nan(ctx, operand_wide(ctx, n, 0), (uint64_t)attr_of(ctx, n, 0));
    pj_write(ctx, out, pj_reshape(&ctx->body, x, out->dims, out->dim));
}

/* The least index of an element that equals the maximum; the last index where none does, as with NaN. */
static void lower_argmax(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    pj_text *p = &ctx->body;
    const pj_tensor x = operand_wide(ctx, n, 0);
    const uint32_t axis = (uint32_t)attr_of(ctx, n, 0);
    uint32_t kept[YK_MAX_DIMS], k = 0;
    for (uint32_t d = 0; d < x.dims; d++)
        if (d != axis)
            kept[k++] = d;
    const pj_tensor most = pj_broadcast(p, tensor_max(ctx, x, 1ull << axis), kept, x.dims, x.dim);
    const pj_tensor number = pj_like(&x, YK_I32), last = pj_integer(p, number, x.dim[axis] - 1);
    const pj_tensor index = pj_select(p, pj_compare(p, "EQ", x, most), pj_iota(p, number, axis), last);
    const pj_tensor r = pj_reduce(p, "minimum", index, pj_integer(p, pj_scalar(YK_I32), x.dim[axis] - 1), 1ull << axis);
    pj_write(ctx, out, pj_reshape(p, r, out->dims, out->dim));
}

/* ---- Look-ups -------------------------------------------------------------------------------------------------------- */

/* The types of three operands, and the result's. */
static void put_signature(pj_text *p, uint32_t n, const pj_tensor *in, const pj_tensor *out)
{
    kit_text_add(&p->text, " : (");
    for (uint32_t i = 0; i < n; i++) {
        kit_text_add(&p->text, "%s", i ? ", " : "");
        pj_put_type(p, &in[i]);
    }
    kit_text_add(&p->text, ") -> ");
    pj_put_type(p, out);
    kit_text_add(&p->text, "\n");
}

/* A row of the table as one dimension, or none: the numbers of its elements. */
static pj_tensor table_flat(pj_lowering *ctx, pj_tensor t)
{
    const int64_t rows = t.dim[0], dim[2] = {rows, pj_count(&t) / rows};
    return pj_reshape(&ctx->body, t, 2, dim);
}

/* The look-up clamps an index outside the table; such rows become zero. */
static void lower_gather(pj_lowering *ctx, const yk_node *n)
{
    static const uint32_t first[1] = {0};
    const yk_value *out = pj_out(ctx, n, 0);
    pj_text *p = &ctx->body;
    const pj_tensor in[2] = {table_flat(ctx, pj_read(ctx, pj_in(ctx, n, 0))), pj_read(ctx, pj_in(ctx, n, 1))};
    const int64_t dim[2] = {in[1].dim[0], in[0].dim[1]};
    pj_tensor r = {.type = in[0].type, .dims = 2, .dim = {dim[0], dim[1]}};
    r = pj_begin(p, "\"stablehlo.gather\"", r);
    kit_text_add(&p->text,
                 "(%%%u, %%%u) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
                 "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, %lld>, indices_are_sorted = false}",
                 in[0].id, in[1].id, (long long)dim[1]);
    put_signature(p, 2, in, &r);
    const pj_tensor inside = pj_binary(p, "and", pj_compare(p, "GE", in[1], pj_integer(p, in[1], 0)),
                                       pj_compare(p, "LT", in[1], pj_integer(p, in[1], in[0].dim[0])));
    r = pj_select(p, pj_broadcast(p, inside, first, 2, dim), r, pj_number(p, r, 0));
    pj_write(ctx, out, pj_reshape(p, r, out->dims, out->dim));
}

/* StableHLO skips what an index outside the result would add. */
static void lower_scatter_add(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    pj_text *p = &ctx->body;
    const int64_t dim[2] = {out->dim[0], kit_value_count(out) / out->dim[0]};
    const pj_tensor sums = {.type = YK_F32, .dims = 2, .dim = {dim[0], dim[1]}};
    const pj_tensor in[3] = {pj_number(p, sums, 0), pj_read(ctx, pj_in(ctx, n, 1)), table_flat(ctx, operand_wide(ctx, n, 0))};
    pj_tensor r = pj_begin(p, "\"stablehlo.scatter\"", sums);
    kit_text_add(&p->text,
                 "(%%%u, %%%u, %%%u) ({ ^bb0(%%a: tensor<f32>, %%b: tensor<f32>): %%s = stablehlo.add %%a, %%b : tensor<f32> "
                 "stablehlo.return %%s : tensor<f32> }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
                 "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, "
                 "unique_indices = false}",
                 in[0].id, in[1].id, in[2].id);
    put_signature(p, 3, in, &r);
    pj_write(ctx, out, pj_reshape(p, r, out->dims, out->dim));
}

/* ---- Windows --------------------------------------------------------------------------------------------------------- */

typedef struct window {
    int64_t kh, kw, sh, sw, ph, pw, dh, dw;
    int64_t n, c, h, w, oh, ow;
} window;

/* image: [N,C,H,W]. */
static window window_of(const pj_lowering *ctx, const yk_node *n, const yk_value *image)
{
    const int64_t *a = &ctx->graph->attr[n->attr];
    window w = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], image->dim[0], image->dim[1], image->dim[2], image->dim[3], 0, 0};
    w.oh = (w.h + 2 * w.ph - w.dh * (w.kh - 1) - 1) / w.sh + 1;
    w.ow = (w.w + 2 * w.pw - w.dw * (w.kw - 1) - 1) / w.sw + 1;
    return w;
}

/* The pixels that tap i, j of each window sees: a slice of the padded image. */
static pj_tensor tap_slice(pj_lowering *ctx, const window *w, pj_tensor padded, int64_t i, int64_t j)
{
    const int64_t begin[4] = {0, 0, i * w->dh, j * w->dw}, step[4] = {1, 1, w->sh, w->sw};
    const int64_t end[4] = {w->n, w->c, begin[2] + (w->oh - 1) * w->sh + 1, begin[3] + (w->ow - 1) * w->sw + 1};
    const int64_t dim[4] = {w->n, w->c, 1, w->oh * w->ow};
    return pj_reshape(&ctx->body, pj_slice(&ctx->body, padded, begin, end, step), 4, dim);
}

#define TAPS 1024

static bool lower_unfold(pj_lowering *ctx, const yk_node *n)
{
    pj_tensor tap[TAPS];
    const pj_tensor x = pj_read(ctx, pj_in(ctx, n, 0));
    const window w = window_of(ctx, n, pj_in(ctx, n, 0));
    const int64_t low[4] = {0, 0, w.ph, w.pw};
    const pj_tensor around = pj_number(&ctx->body, pj_scalar(x.type), yk_attr_f64(attr_of(ctx, n, 8)));
    if (w.kh * w.kw > TAPS)
        return false;
    const pj_tensor padded = pj_pad(&ctx->body, x, around, low, low, NULL);
    for (int64_t k = 0; k < w.kh * w.kw; k++)
        tap[k] = tap_slice(ctx, &w, padded, k / w.kw, k % w.kw);
    const pj_tensor all = pj_concat(&ctx->body, (uint32_t)(w.kh * w.kw), tap, 2);
    const yk_value *out = pj_out(ctx, n, 0);
    pj_write(ctx, out, pj_reshape(&ctx->body, all, out->dims, out->dim));
    return true;
}

/* Tap i, j of each window at its pixels of the padded image, zeros elsewhere; then without the padding. */
static pj_tensor tap_spread(pj_lowering *ctx, const window *w, pj_tensor columns, int64_t i, int64_t j)
{
    const int64_t k = i * w->kw + j, begin[4] = {0, 0, k, 0}, end[4] = {w->n, w->c, k + 1, w->oh * w->ow};
    const int64_t dim[4] = {w->n, w->c, w->oh, w->ow}, inner[4] = {0, 0, w->sh - 1, w->sw - 1};
    const int64_t low[4] = {0, 0, i * w->dh - w->ph, j * w->dw - w->pw};
    const int64_t high[4] = {0, 0, w->h - low[2] - ((w->oh - 1) * w->sh + 1), w->w - low[3] - ((w->ow - 1) * w->sw + 1)};
    const pj_tensor one = pj_reshape(&ctx->body, pj_slice(&ctx->body, columns, begin, end, NULL), 4, dim);
    return pj_pad(&ctx->body, one, scalar_add_zero(ctx, one.type), low, high, inner);
}

static void lower_fold(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    const window w = window_of(ctx, n, out);
    const int64_t dim[4] = {w.n, w.c, w.kh * w.kw, w.oh * w.ow};
    const pj_tensor columns = pj_reshape(&ctx->body, operand_wide(ctx, n, 0), 4, dim);
    pj_tensor sum = tap_spread(ctx, &w, columns, 0, 0);
    for (int64_t k = 1; k < w.kh * w.kw; k++)
        sum = pj_binary(&ctx->body, "add", sum, tap_spread(ctx, &w, columns, k / w.kw, k % w.kw));
    pj_write(ctx, out, sum);
}

/* ---- Products -------------------------------------------------------------------------------------------------------- */

static void lower_dot(pj_lowering *ctx, const yk_node *n)
{
    const yk_value *out = pj_out(ctx, n, 0);
    const pj_tensor a = ctx->wide ? operand_wide(ctx, n, 0) : pj_read(ctx, pj_in(ctx, n, 0));
    const pj_tensor b = ctx->wide ? operand_wide(ctx, n, 1) : pj_read(ctx, pj_in(ctx, n, 1));
    const uint32_t batch = a.dims - 2;
    pj_tensor y = pj_dot(&ctx->body, a, b, batch, a.dims - 1, b.dims - 2, YK_F32);
    if (n->flags & YK_NODE_ACCUMULATE)
        y = pj_binary(&ctx->body, "add", pj_read(ctx, out), y);
    pj_write(ctx, out, y);
}

typedef void rule(pj_lowering *ctx, const yk_node *n);

static rule *rule_of(uint32_t op)
{
    static rule *const rules[YK_OP_COUNT] = {
        [YK_OP_CAST] = lower_cast,     [YK_OP_SELECT] = lower_select, [YK_OP_FILL] = lower_fill,
        [YK_OP_IOTA] = lower_iota,     [YK_OP_RNG] = lower_rng,       [YK_OP_SUM] = lower_sum,
        [YK_OP_RMAX] = lower_rmax,     [YK_OP_ARGMAX] = lower_argmax, [YK_OP_COPY] = lower_copy,
        [YK_OP_GATHER] = lower_gather, [YK_OP_SCATTER_ADD] = lower_scatter_add, [YK_OP_FOLD] = lower_fold,
        [YK_OP_DOT] = lower_dot};
    const int kind = yk_op_kind(op);
    if (op < YK_OP_COUNT && rules[op])
        return rules[op];
    return kind == YK_OP_KIND_UN ? lower_unary : kind == YK_OP_KIND_BIN ? lower_binary : NULL;
}

bool pj_node_lower(pj_lowering *ctx, const yk_node *n)
{
    if (n->op == YK_OP_UNFOLD)
        return lower_unfold(ctx, n);
    rule *lower = rule_of(n->op);
    if (lower)
        lower(ctx, n);
    return lower != NULL;
}
