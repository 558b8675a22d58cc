/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes each primitive of plugin.h, which defines them, as lines of StableHLO. function.c calls hlo_node_lower for each node, in order,
 * in the thread that makes the program. The PJRT plugin claims no composite, so composites arrive as their bodies.
 */
#include <math.h>

#include "plugins/kit/hlo/function.h"
#include "plugins/kit/value.h"

static bool type_is_float(uint32_t type)
{
    return type == YK_F32 || type == YK_F16 || type == YK_BF16;
}

/* An operand for arithmetic: floats of 16 bits are computed in f32. */
static hlo_tensor operand_wide(hlo_lowering *ctx, const yk_node *n, uint32_t i)
{
    const hlo_tensor t = hlo_read(ctx, hlo_in(ctx, n, i));
    return type_is_float(t.type) ? hlo_convert(&ctx->body, t, YK_F32) : t;
}

static hlo_tensor scalar_add_zero(hlo_lowering *ctx, uint32_t type)
{
    return hlo_number(&ctx->body, hlo_scalar(type), 0);
}

static int64_t attr_of(const hlo_lowering *ctx, const yk_node *n, uint32_t i)
{
    return ctx->graph->attr[n->attr + i];
}

/* ---- Elementwise ---------------------------------------------------------------------------------------------------- */

static void lower_unary(hlo_lowering *ctx, const yk_node *n)
{
    static const char *const names[] = {[YK_OP_NEG] = "negate",   [YK_OP_ABS] = "abs",     [YK_OP_EXP] = "exponential",
                                        [YK_OP_LOG] = "log",      [YK_OP_SQRT] = "sqrt",   [YK_OP_RSQRT] = "rsqrt",
                                        [YK_OP_TANH] = "tanh",    [YK_OP_ERF] = "chlo.erf"};
    const hlo_tensor x = operand_wide(ctx, n, 0);
    if (n->op == YK_OP_RECIP)
        hlo_write(ctx, hlo_out(ctx, n, 0), hlo_binary(&ctx->body, "divide", hlo_number(&ctx->body, x, 1), x));
    else
        hlo_write(ctx, hlo_out(ctx, n, 0), hlo_unary(&ctx->body, names[n->op], x));
}

/* `other` where neither operand is NaN, else NaN: XLA's maximum and minimum of vectors on a processor lose a NaN. */
static hlo_tensor tensor_or_nan(hlo_lowering *ctx, hlo_tensor a, hlo_tensor b, hlo_tensor other)
{
    hlo_text *p = &ctx->body;
    if (!type_is_float(a.type))
        return other;
    other = hlo_select(p, hlo_compare(p, "NE", b, b), b, other);
    return hlo_select(p, hlo_compare(p, "NE", a, a), a, other);
}

static void lower_binary(hlo_lowering *ctx, const yk_node *n)
{
    static const char *const names[] = {[YK_OP_ADD] = "add",    [YK_OP_SUB] = "subtract", [YK_OP_MUL] = "multiply",
                                        [YK_OP_DIV] = "divide", [YK_OP_MAX] = "maximum",  [YK_OP_MIN] = "minimum"};
    const hlo_tensor a = operand_wide(ctx, n, 0), b = operand_wide(ctx, n, 1);
    if (n->op == YK_OP_LT || n->op == YK_OP_EQ)
        hlo_write(ctx, hlo_out(ctx, n, 0), hlo_compare(&ctx->body, n->op == YK_OP_LT ? "LT" : "EQ", a, b));
    else if (n->op == YK_OP_MAX || n->op == YK_OP_MIN)
        hlo_write(ctx, hlo_out(ctx, n, 0), tensor_or_nan(ctx, a, b, hlo_binary(&ctx->body, names[n->op], a, b)));
    else
        hlo_write(ctx, hlo_out(ctx, n, 0), hlo_binary(&ctx->body, names[n->op], a, b));
}

/* To bool by a comparison with 0, which NaN is not equal to. */
static void lower_cast(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_tensor x = hlo_read(ctx, hlo_in(ctx, n, 0));
    if (out->dtype == YK_BOOL && x.type != YK_BOOL)
        x = hlo_compare(&ctx->body, "NE", x, hlo_number(&ctx->body, x, 0));
    hlo_write(ctx, out, hlo_convert(&ctx->body, x, out->dtype));
}

static void lower_select(hlo_lowering *ctx, const yk_node *n)
{
    const hlo_tensor c = hlo_read(ctx, hlo_in(ctx, n, 0)), a = hlo_read(ctx, hlo_in(ctx, n, 1)), b = hlo_read(ctx, hlo_in(ctx, n, 2));
    hlo_write(ctx, hlo_out(ctx, n, 0), hlo_select(&ctx->body, c, a, b));
}

static void lower_fill(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_write(ctx, out, hlo_number(&ctx->body, hlo_shape_of(out), yk_attr_f64(attr_of(ctx, n, 0))));
}

static void lower_iota(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_write(ctx, out, hlo_iota(&ctx->body, hlo_shape_of(out), (uint32_t)attr_of(ctx, n, 0)));
}

static void lower_copy(hlo_lowering *ctx, const yk_node *n)
{
    hlo_write(ctx, hlo_out(ctx, n, 0), hlo_read(ctx, hlo_in(ctx, n, 0)));
}

/* ---- Random numbers ------------------------------------------------------------------------------------------------- */

/* The high and low word of a product with a constant. */
static void philox_product(hlo_lowering *ctx, hlo_tensor x, uint32_t factor, hlo_tensor *high, hlo_tensor *low)
{
    const hlo_tensor wide = hlo_like(&x, HLO_U64);
    const hlo_tensor product =
        hlo_binary(&ctx->body, "multiply", hlo_convert(&ctx->body, x, HLO_U64), hlo_integer(&ctx->body, wide, factor));
    *high = hlo_convert(&ctx->body, hlo_binary(&ctx->body, "shift_right_logical", product, hlo_integer(&ctx->body, wide, 32)), HLO_U32);
    *low = hlo_convert(&ctx->body, product, HLO_U32);
}

/* Philox4x32-10 (Salmon et al., 2011) of counters w and a key, in place. */
static void philox_rounds(hlo_lowering *ctx, hlo_tensor w[4], hlo_tensor key[2])
{
    static const uint32_t step[2] = {0x9E3779B9u, 0xBB67AE85u};
    hlo_text *p = &ctx->body;
    for (int round = 0; round < 10; round++) {
        hlo_tensor high[2], low[2];
        philox_product(ctx, w[0], 0xD2511F53u, &high[0], &low[0]);
        philox_product(ctx, w[2], 0xCD9E8D57u, &high[1], &low[1]);
        w[0] = hlo_binary(p, "xor", hlo_binary(p, "xor", high[1], w[1]), key[0]);
        w[2] = hlo_binary(p, "xor", hlo_binary(p, "xor", high[0], w[3]), key[1]);
        w[1] = low[1];
        w[3] = low[0];
        for (int i = 0; i < 2; i++)
            key[i] = hlo_binary(p, "add", key[i], hlo_integer(p, key[i], step[i]));
    }
}

/* Element i of the key, as many times as `shape` has elements. */
static hlo_tensor key_word(hlo_lowering *ctx, hlo_tensor key, int64_t i, hlo_tensor shape)
{
    const int64_t end = i + 1;
    const hlo_tensor word = hlo_reshape(&ctx->body, hlo_slice(&ctx->body, key, &i, &end, NULL), 0, NULL);
    return hlo_broadcast(&ctx->body, word, NULL, shape.dims, shape.dim);
}

/* Each element computes the four words of its counter and takes its own. */
static void lower_rng(hlo_lowering *ctx, const yk_node *n)
{
    static const uint32_t first[1] = {0};
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_text *p = &ctx->body;
    const hlo_tensor key = hlo_convert(p, hlo_read(ctx, hlo_in(ctx, n, 0)), HLO_U32);
    hlo_tensor rows = hlo_convert(p, hlo_read(ctx, hlo_in(ctx, n, 1)), HLO_U64);
    const int64_t n_row = hlo_count(&rows), each = kit_value_count(out) / n_row, dim[2] = {n_row, each};
    rows = hlo_broadcast(p, hlo_reshape(p, rows, 1, &n_row), first, 2, dim);
    const hlo_tensor word = hlo_like(&rows, HLO_U32);
    const hlo_tensor count = hlo_binary(p, "add", hlo_binary(p, "multiply", rows, hlo_integer(p, rows, each)), hlo_iota(p, rows, 1));
    const hlo_tensor lane = hlo_convert(p, hlo_binary(p, "and", count, hlo_integer(p, rows, 3)), HLO_U32);
    const hlo_tensor at = hlo_binary(p, "shift_right_logical", count, hlo_integer(p, rows, 2));
    hlo_tensor w[4] = {hlo_convert(p, at, HLO_U32),
                      hlo_convert(p, hlo_binary(p, "shift_right_logical", at, hlo_integer(p, rows, 32)), HLO_U32),
                      hlo_integer(p, word, (uint32_t)attr_of(ctx, n, 0)), key_word(ctx, key, 2, word)};
    hlo_tensor keys[2] = {key_word(ctx, key, 0, word), key_word(ctx, key, 1, word)};
    philox_rounds(ctx, w, keys);
    for (int i = 2; i >= 0; i--)
        w[3] = hlo_select(p, hlo_compare(p, "EQ", lane, hlo_integer(p, word, i)), w[i], w[3]);
    const hlo_tensor u = hlo_convert(p, hlo_binary(p, "shift_right_logical", w[3], hlo_integer(p, word, 8)), YK_F32);
    hlo_write(ctx, out, hlo_reshape(p, hlo_binary(p, "multiply", u, hlo_number(p, u, 0x1p-24)), out->dims, out->dim));
}

/* ---- Reductions ------------------------------------------------------------------------------------------------------ */

static void lower_sum(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_tensor x = operand_wide(ctx, n, 0);
    x = hlo_reduce(&ctx->body, "add", x, scalar_add_zero(ctx, x.type), (uint64_t)attr_of(ctx, n, 0));
    hlo_write(ctx, out, hlo_reshape(&ctx->body, x, out->dims, out->dim));
}

static hlo_tensor tensor_max(hlo_lowering *ctx, hlo_tensor x, uint64_t mask)
{
    return hlo_reduce(&ctx->body, "maximum", x, hlo_number(&ctx->body, hlo_scalar(x.type), -HUGE_VAL), mask);
}

/* XLA's reductions on a processor lose a NaN next to an infinity, so this looks for NaN separately. */
static hlo_tensor tensor_max_or_nan(hlo_lowering *ctx, hlo_tensor x, uint64_t mask)
{
    hlo_text *p = &ctx->body;
    const hlo_tensor most = tensor_max(ctx, x, mask), none = hlo_integer(p, hlo_scalar(YK_BOOL), 0);
    const hlo_tensor any = hlo_reduce(p, "or", hlo_compare(p, "NE", x, x), none, mask);
    return hlo_select(p, any, hlo_number(p, most, NAN), most);
}

static void lower_rmax(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    const hlo_tensor x = tensor_max_or_nan(ctx, operand_wide(ctx, n, 0), (uint64_t)attr_of(ctx, n, 0));
    hlo_write(ctx, out, hlo_reshape(&ctx->body, x, out->dims, out->dim));
}

/* The least index of an element that equals the maximum; the last index if none does, as with NaN. */
static void lower_argmax(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_text *p = &ctx->body;
    const hlo_tensor x = operand_wide(ctx, n, 0);
    const uint32_t axis = (uint32_t)attr_of(ctx, n, 0);
    uint32_t kept[YK_MAX_DIMS], k = 0;
    for (uint32_t d = 0; d < x.dims; d++)
        if (d != axis)
            kept[k++] = d;
    const hlo_tensor most = hlo_broadcast(p, tensor_max(ctx, x, 1ull << axis), kept, x.dims, x.dim);
    const hlo_tensor number = hlo_like(&x, YK_I32), last = hlo_integer(p, number, x.dim[axis] - 1);
    const hlo_tensor index = hlo_select(p, hlo_compare(p, "EQ", x, most), hlo_iota(p, number, axis), last);
    const hlo_tensor r = hlo_reduce(p, "minimum", index, hlo_integer(p, hlo_scalar(YK_I32), x.dim[axis] - 1), 1ull << axis);
    hlo_write(ctx, out, hlo_reshape(p, r, out->dims, out->dim));
}

/* ---- Look-ups -------------------------------------------------------------------------------------------------------- */

/* The types of three operands, and the result's. */
static void put_signature(hlo_text *p, uint32_t n, const hlo_tensor *in, const hlo_tensor *out)
{
    kit_text_add(&p->text, " : (");
    for (uint32_t i = 0; i < n; i++) {
        kit_text_add(&p->text, "%s", i ? ", " : "");
        hlo_put_type(p, &in[i]);
    }
    kit_text_add(&p->text, ") -> ");
    hlo_put_type(p, out);
    kit_text_add(&p->text, "\n");
}

/* A row of the table as one dimension; no dimension for rows of one element. */
static hlo_tensor table_flat(hlo_lowering *ctx, hlo_tensor t)
{
    const int64_t rows = t.dim[0], dim[2] = {rows, hlo_count(&t) / rows};
    return hlo_reshape(&ctx->body, t, 2, dim);
}

/* Which of the indices [n] name one of `rows` rows. */
static hlo_tensor index_inside(hlo_text *p, hlo_tensor index, int64_t rows)
{
    return hlo_binary(p, "and", hlo_compare(p, "GE", index, hlo_integer(p, index, 0)),
                      hlo_compare(p, "LT", index, hlo_integer(p, index, rows)));
}

/* Rows [n, width] with zeros in those that are not inside [n]. */
static hlo_tensor rows_inside(hlo_text *p, hlo_tensor inside, hlo_tensor rows)
{
    static const uint32_t first[1] = {0};
    return hlo_select(p, hlo_broadcast(p, inside, first, 2, rows.dim), rows, hlo_number(p, rows, 0));
}

/* The look-up clamps an index outside the table; such rows become zero. */
static void lower_gather(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_text *p = &ctx->body;
    const hlo_tensor in[2] = {table_flat(ctx, hlo_read(ctx, hlo_in(ctx, n, 0))), hlo_read(ctx, hlo_in(ctx, n, 1))};
    const int64_t dim[2] = {in[1].dim[0], in[0].dim[1]};
    hlo_tensor r = {.type = in[0].type, .dims = 2, .dim = {dim[0], dim[1]}};
    r = hlo_begin(p, "\"stablehlo.gather\"", r);
    kit_text_add(&p->text,
                 "(%%%u, %%%u) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
                 "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, %lld>, indices_are_sorted = false}",
                 in[0].id, in[1].id, (long long)dim[1]);
    put_signature(p, 2, in, &r);
    r = rows_inside(p, index_inside(p, in[1], in[0].dim[0]), r);
    hlo_write(ctx, out, hlo_reshape(p, r, out->dims, out->dim));
}

/* StableHLO ignores an index outside the result, but IREE 3.13 writes outside its memory then: such rows become zeros for row 0. */
static void lower_scatter_add(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_text *p = &ctx->body;
    const int64_t dim[2] = {out->dim[0], kit_value_count(out) / out->dim[0]};
    const hlo_tensor sums = {.type = YK_F32, .dims = 2, .dim = {dim[0], dim[1]}};
    const hlo_tensor index = hlo_read(ctx, hlo_in(ctx, n, 1)), inside = index_inside(p, index, dim[0]);
    const hlo_tensor in[3] = {hlo_number(p, sums, 0), hlo_select(p, inside, index, hlo_integer(p, index, 0)),
                              rows_inside(p, inside, table_flat(ctx, operand_wide(ctx, n, 0)))};
    hlo_tensor r = hlo_begin(p, "\"stablehlo.scatter\"", sums);
    kit_text_add(&p->text,
                 "(%%%u, %%%u, %%%u) ({ ^bb0(%%a: tensor<f32>, %%b: tensor<f32>): %%s = stablehlo.add %%a, %%b : tensor<f32> "
                 "stablehlo.return %%s : tensor<f32> }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
                 "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, "
                 "unique_indices = false}",
                 in[0].id, in[1].id, in[2].id);
    put_signature(p, 3, in, &r);
    hlo_write(ctx, out, hlo_reshape(p, r, out->dims, out->dim));
}

/* ---- Windows --------------------------------------------------------------------------------------------------------- */

typedef struct window {
    int64_t kh, kw, sh, sw, ph, pw, dh, dw;
    int64_t n, c, h, w, oh, ow;
} window;

/* image: [N,C,H,W]. */
static window window_of(const hlo_lowering *ctx, const yk_node *n, const yk_value *image)
{
    const int64_t *a = &ctx->graph->attr[n->attr];
    window w = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], image->dim[0], image->dim[1], image->dim[2], image->dim[3], 0, 0};
    w.oh = (w.h + 2 * w.ph - w.dh * (w.kh - 1) - 1) / w.sh + 1;
    w.ow = (w.w + 2 * w.pw - w.dw * (w.kw - 1) - 1) / w.sw + 1;
    return w;
}

/* The pixels that tap i, j of each window sees: a slice of the padded image. */
static hlo_tensor tap_slice(hlo_lowering *ctx, const window *w, hlo_tensor padded, int64_t i, int64_t j)
{
    const int64_t begin[4] = {0, 0, i * w->dh, j * w->dw}, step[4] = {1, 1, w->sh, w->sw};
    const int64_t end[4] = {w->n, w->c, begin[2] + (w->oh - 1) * w->sh + 1, begin[3] + (w->ow - 1) * w->sw + 1};
    const int64_t dim[4] = {w->n, w->c, 1, w->oh * w->ow};
    return hlo_reshape(&ctx->body, hlo_slice(&ctx->body, padded, begin, end, step), 4, dim);
}

#define TAPS 64 /* windows of more taps are looked up by index, so that the text stays short */

/* The place of each tap of each window in a padded image: i32 [taps * windows]. */
static hlo_tensor tap_places(hlo_lowering *ctx, const window *w)
{
    hlo_text *p = &ctx->body;
    const hlo_tensor at = {.type = YK_I32, .dims = 4, .dim = {w->kh, w->kw, w->oh, w->ow}};
    const int64_t row = w->w + 2 * w->pw, factor[4] = {w->dh * row, w->dw, w->sh * row, w->sw}, n = w->kh * w->kw * w->oh * w->ow;
    hlo_tensor sum = hlo_binary(p, "multiply", hlo_iota(p, at, 0), hlo_integer(p, at, factor[0]));
    for (uint32_t d = 1; d < 4; d++)
        sum = hlo_binary(p, "add", sum, hlo_binary(p, "multiply", hlo_iota(p, at, d), hlo_integer(p, at, factor[d])));
    return hlo_reshape(p, sum, 1, &n);
}

/* The columns of a padded image, by places. */
static hlo_tensor tap_gather(hlo_lowering *ctx, const window *w, hlo_tensor padded)
{
    hlo_text *p = &ctx->body;
    const int64_t dim[2] = {w->n * w->c, hlo_count(&padded) / (w->n * w->c)};
    const hlo_tensor in[2] = {hlo_reshape(p, padded, 2, dim), tap_places(ctx, w)};
    hlo_tensor r = {.type = padded.type, .dims = 2, .dim = {dim[0], in[1].dim[0]}};
    r = hlo_begin(p, "\"stablehlo.gather\"", r);
    kit_text_add(&p->text,
                 "(%%%u, %%%u) {dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], "
                 "start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: %lld, 1>, indices_are_sorted = false}",
                 in[0].id, in[1].id, (long long)dim[0]);
    put_signature(p, 2, in, &r);
    return r;
}

/* The sums of columns at their places of a padded image. */
static hlo_tensor tap_scatter(hlo_lowering *ctx, const window *w, hlo_tensor columns)
{
    hlo_text *p = &ctx->body;
    const int64_t image[4] = {w->n, w->c, w->h + 2 * w->ph, w->w + 2 * w->pw}, dim[2] = {w->n * w->c, w->kh * w->kw * w->oh * w->ow};
    const hlo_tensor sums = {.type = YK_F32, .dims = 2, .dim = {dim[0], image[2] * image[3]}};
    const hlo_tensor in[3] = {hlo_number(p, sums, 0), tap_places(ctx, w), hlo_reshape(p, columns, 2, dim)};
    hlo_tensor r = hlo_begin(p, "\"stablehlo.scatter\"", sums);
    kit_text_add(&p->text,
                 "(%%%u, %%%u, %%%u) ({ ^bb0(%%a: tensor<f32>, %%b: tensor<f32>): %%s = stablehlo.add %%a, %%b : tensor<f32> "
                 "stablehlo.return %%s : tensor<f32> }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], "
                 "inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, indices_are_sorted = false, "
                 "unique_indices = false}",
                 in[0].id, in[1].id, in[2].id);
    put_signature(p, 3, in, &r);
    return hlo_reshape(p, r, 4, image);
}

static void lower_unfold(hlo_lowering *ctx, const yk_node *n)
{
    hlo_tensor tap[TAPS], all;
    const hlo_tensor x = hlo_read(ctx, hlo_in(ctx, n, 0));
    const window w = window_of(ctx, n, hlo_in(ctx, n, 0));
    const int64_t low[4] = {0, 0, w.ph, w.pw};
    const hlo_tensor around = hlo_number(&ctx->body, hlo_scalar(x.type), yk_attr_f64(attr_of(ctx, n, 8)));
    const hlo_tensor padded = hlo_pad(&ctx->body, x, around, low, low, NULL);
    for (int64_t k = 0; k < w.kh * w.kw && w.kh * w.kw <= TAPS; k++)
        tap[k] = tap_slice(ctx, &w, padded, k / w.kw, k % w.kw);
    all = w.kh * w.kw > TAPS ? tap_gather(ctx, &w, padded) : hlo_concat(&ctx->body, (uint32_t)(w.kh * w.kw), tap, 2);
    const yk_value *out = hlo_out(ctx, n, 0);
    hlo_write(ctx, out, hlo_reshape(&ctx->body, all, out->dims, out->dim));
}

/* Tap i, j of each window at its pixels of the padded image, zeros elsewhere; then without the padding. */
static hlo_tensor tap_spread(hlo_lowering *ctx, const window *w, hlo_tensor columns, int64_t i, int64_t j)
{
    const int64_t k = i * w->kw + j, begin[4] = {0, 0, k, 0}, end[4] = {w->n, w->c, k + 1, w->oh * w->ow};
    const int64_t dim[4] = {w->n, w->c, w->oh, w->ow}, inner[4] = {0, 0, w->sh - 1, w->sw - 1};
    const int64_t low[4] = {0, 0, i * w->dh - w->ph, j * w->dw - w->pw};
    const int64_t high[4] = {0, 0, w->h - low[2] - ((w->oh - 1) * w->sh + 1), w->w - low[3] - ((w->ow - 1) * w->sw + 1)};
    const hlo_tensor one = hlo_reshape(&ctx->body, hlo_slice(&ctx->body, columns, begin, end, NULL), 4, dim);
    return hlo_pad(&ctx->body, one, scalar_add_zero(ctx, one.type), low, high, inner);
}

static void lower_fold(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    const window w = window_of(ctx, n, out);
    const int64_t dim[4] = {w.n, w.c, w.kh * w.kw, w.oh * w.ow};
    const hlo_tensor columns = hlo_reshape(&ctx->body, operand_wide(ctx, n, 0), 4, dim);
    if (w.kh * w.kw > TAPS) {
        const int64_t begin[4] = {0, 0, w.ph, w.pw}, end[4] = {w.n, w.c, w.ph + w.h, w.pw + w.w};
        hlo_write(ctx, out, hlo_slice(&ctx->body, tap_scatter(ctx, &w, columns), begin, end, NULL));
        return;
    }
    hlo_tensor sum = tap_spread(ctx, &w, columns, 0, 0);
    for (int64_t k = 1; k < w.kh * w.kw; k++)
        sum = hlo_binary(&ctx->body, "add", sum, tap_spread(ctx, &w, columns, k / w.kw, k % w.kw));
    hlo_write(ctx, out, sum);
}

/* ---- Products -------------------------------------------------------------------------------------------------------- */

static void lower_dot(hlo_lowering *ctx, const yk_node *n)
{
    const yk_value *out = hlo_out(ctx, n, 0);
    const hlo_tensor a = ctx->wide ? operand_wide(ctx, n, 0) : hlo_read(ctx, hlo_in(ctx, n, 0));
    const hlo_tensor b = ctx->wide ? operand_wide(ctx, n, 1) : hlo_read(ctx, hlo_in(ctx, n, 1));
    const uint32_t batch = a.dims - 2;
    hlo_tensor y = hlo_dot(&ctx->body, a, b, batch, a.dims - 1, b.dims - 2, YK_F32);
    if (n->flags & YK_NODE_ACCUMULATE)
        y = hlo_binary(&ctx->body, "add", hlo_read(ctx, out), y);
    hlo_write(ctx, out, y);
}

typedef void rule(hlo_lowering *ctx, const yk_node *n);

static rule *rule_of(uint32_t op)
{
    static rule *const rules[YK_OP_COUNT] = {
        [YK_OP_CAST] = lower_cast,     [YK_OP_SELECT] = lower_select, [YK_OP_FILL] = lower_fill,
        [YK_OP_IOTA] = lower_iota,     [YK_OP_RNG] = lower_rng,       [YK_OP_SUM] = lower_sum,
        [YK_OP_RMAX] = lower_rmax,     [YK_OP_ARGMAX] = lower_argmax, [YK_OP_COPY] = lower_copy,
        [YK_OP_GATHER] = lower_gather, [YK_OP_SCATTER_ADD] = lower_scatter_add, [YK_OP_FOLD] = lower_fold,
        [YK_OP_UNFOLD] = lower_unfold, [YK_OP_DOT] = lower_dot};
    const int kind = yk_op_kind(op);
    if (op < YK_OP_COUNT && rules[op])
        return rules[op];
    return kind == YK_OP_KIND_UN ? lower_unary : kind == YK_OP_KIND_BIN ? lower_binary : NULL;
}

bool hlo_node_lower(hlo_lowering *ctx, const yk_node *n)
{
    rule *lower = rule_of(n->op);
    if (lower)
        lower(ctx, n);
    return lower != NULL;
}
