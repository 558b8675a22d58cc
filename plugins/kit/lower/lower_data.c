/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of primitives that make or move data: copy, gather, scatter_add, unfold, fold, iota, rng, argmax; shapes and strides are
 * numbers of the launches.
 *
 * lower.c calls this rule for each such node while a plugin makes a program, in any thread. A scatter_add cuts its rows by the shape
 * alone, so that its sums have the same bits on each card.
 */
#include "plugins/kit/lower/lower_internal.h"

#include <stdio.h>

#define TEAM 64
#define BLOCK 8192
#define GROUPS 4096         /* groups on a GPU, about: some for each place that can run one */
#define NEAR (1ll << 30)    /* elements that 32 bits count on a GPU */
#define MOVE_TEAM 128       /* work-items of copy_near and gather_near */
#define MOVE_EACH 4         /* MOVE_EACH of kernels/data.kc */
#define MOVE_BYTES 8        /* bytes of their widest elements */
#define TILE 32             /* TILE of kernels/data.kc */
#define SORT_EACH 8         /* SORT_EACH of kernels/data.kc */
#define SORT_TEAM 128
#define SORT_MOST (1 << 22) /* rows: counting takes the square of them */
#define RUN_LEAST 32        /* rows that a group of scatter_runs adds up */
#define RUN_MOST 256        /* RUN_MOST of kernels/data.kc */
#define RUN_TEAM 128
#define WIDTH_MOST (65535 * RUN_TEAM) /* columns: groups in y that each device has */

/* Lanes of a processor's vector are no GPU's many work-items. */
static bool target_is_gpu(const kit_target *target)
{
    return !target->cpu_shape && !target->lanes;
}

int64_t kit_move_block(const kit_target *target, int64_t total)
{
    const int64_t each = kit_round_up(kit_div_up(total, GROUPS), 4 * TEAM);
    return target_is_gpu(target) && each < BLOCK ? each : BLOCK;
}

/* The type of an element by its size. */
static const char *move_defines(uint32_t bytes)
{
    switch (bytes) {
    case 1:
        return "-DUNIT_COPY -DE=uchar";
    case 2:
        return "-DUNIT_COPY -DE=ushort";
    case 4:
        return "-DUNIT_COPY -DE=uint";
    default:
        return "-DUNIT_COPY -DE=ulong";
    }
}

/* k_divided's numbers: mul / 2^(31 + shift) is 1 / d or a little more, so little that no quotient below 2^31 shows it. */
typedef struct divisor {
    int64_t mul, shift;
} divisor;

static divisor divisor_of(int64_t d)
{
    int64_t shift = 0;
    while (1ll << shift < d)
        shift++;
    return (divisor){kit_div_up(1ll << (31 + shift), d), shift};
}

/* True if elements can be `wide` bytes: the offsets of values in slots are known, and so is the slots' alignment (yk_device_caps.align). */
static bool place_is_multiple(const yk_value *v, uint32_t wide)
{
    return v->offset % wide == 0;
}

static bool float_defines(kit_lowering *ctx, uint32_t dtype, char *text, size_t n)
{
    if (!kit_is_float(dtype)) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return false;
    }
    snprintf(text, n, "-DUNIT_FLOAT -DT=%s", kit_type(dtype));
    return true;
}

/* ---- copy ---- */

typedef struct copy_space {
    uint32_t dims;
    int64_t dim[YK_MAX_DIMS], sx[YK_MAX_DIMS], sy[YK_MAX_DIMS];
} copy_space;

/* Merges dimensions that both sides walk through without a break. */
static void copy_merge(const yk_value *x, const yk_value *y, copy_space *s)
{
    s->dims = 0;
    for (uint32_t d = 0; d < y->dims; d++) {
        uint32_t k = s->dims - 1;
        if (y->dim[d] == 1)
            continue;
        if (s->dims && s->sx[k] == x->stride[d] * y->dim[d] && s->sy[k] == y->stride[d] * y->dim[d]) {
            s->dim[k] *= y->dim[d];
            s->sx[k] = x->stride[d];
            s->sy[k] = y->stride[d];
        } else {
            s->dim[s->dims] = y->dim[d];
            s->sx[s->dims] = x->stride[d];
            s->sy[s->dims++] = y->stride[d];
        }
    }
    if (!s->dims) {
        s->dims = 1;
        s->dim[0] = s->sx[0] = s->sy[0] = 1;
    }
}

static int64_t space_total(const copy_space *s)
{
    int64_t total = 1;
    for (uint32_t d = 0; d < s->dims; d++)
        total *= s->dim[d];
    return total;
}

/* True if 32 bits count the elements, and both sides' distances. */
static bool space_is_near(const copy_space *s)
{
    int64_t x = 0, y = 0;
    for (uint32_t d = 0; d < s->dims; d++) {
        x += (s->dim[d] - 1) * s->sx[d];
        y += (s->dim[d] - 1) * s->sy[d];
    }
    return space_total(s) < NEAR && x < NEAR && y < NEAR;
}

/* Makes elements of several where they lie side by side and never apart; bytes of one then. */
static uint32_t space_widen(copy_space *s, const yk_value *x, const yk_value *y)
{
    const uint32_t bytes = yk_dtype_bytes(y->dtype), last = s->dims - 1;
    uint32_t n = MOVE_BYTES / bytes;
    for (; n > 1; n /= 2) {
        bool whole = s->sx[last] == 1 && s->sy[last] == 1 && s->dim[last] % n == 0 && place_is_multiple(x, n * bytes) &&
                     place_is_multiple(y, n * bytes);
        for (uint32_t d = 0; d < last; d++)
            whole = whole && s->sx[d] % n == 0 && s->sy[d] % n == 0;
        if (whole)
            break;
    }
    if (n > 1)
        s->dim[last] /= n;
    for (uint32_t d = 0; d < last; d++) {
        s->sx[d] /= n;
        s->sy[d] /= n;
    }
    return n * bytes;
}

static void copy_near(kit_lowering *ctx, const yk_node *n, copy_space *s)
{
    const uint32_t bytes = space_widen(s, kit_node_in(ctx->graph, n, 0), kit_node_out(ctx->graph, n, 0));
    int64_t meta[2 + 5 * YK_MAX_DIMS];
    uint32_t k = 2;
    meta[0] = space_total(s);
    meta[1] = s->dims;
    for (uint32_t d = s->dims; d-- > 0;) {
        const divisor by = divisor_of(s->dim[d]);
        meta[k++] = s->dim[d];
        meta[k++] = by.mul;
        meta[k++] = by.shift;
        meta[k++] = s->sx[d];
        meta[k++] = s->sy[d];
    }
    kit_launch_add(ctx, "data", move_defines(bytes), "copy_near", kit_div_up(meta[0], MOVE_TEAM * MOVE_EACH), 1, 1, MOVE_TEAM);
    kit_arg_wide(ctx, ctx->graph->index[n->in], bytes);
    kit_arg_wide(ctx, ctx->graph->index[n->out], bytes);
    kit_arg_meta(ctx, meta, k);
}

/* The dimension in which x is contiguous, if y is contiguous in another and both are long enough for tiles; else YK_NONE. */
static uint32_t space_transposed(const copy_space *s)
{
    const uint32_t last = s->dims - 1;
    for (uint32_t d = 0; d < last; d++)
        if (s->sx[d] == 1 && s->sx[last] != 1 && s->sy[last] == 1 && s->dim[d] >= TILE / 4 && s->dim[last] >= TILE / 4)
            return d;
    return YK_NONE;
}

/* transposed: space_transposed's */
static void copy_transposed(kit_lowering *ctx, const yk_node *n, const copy_space *s, uint32_t transposed)
{
    const uint32_t last = s->dims - 1, bytes = yk_dtype_bytes(kit_node_out(ctx->graph, n, 0)->dtype);
    int64_t meta[5 + 3 * YK_MAX_DIMS], tiles = kit_div_up(s->dim[last], TILE) * kit_div_up(s->dim[transposed], TILE);
    uint32_t k = 5;
    meta[0] = s->dim[last];
    meta[1] = s->sx[last];
    meta[2] = s->dim[transposed];
    meta[3] = s->sy[transposed];
    meta[4] = s->dims - 2;
    for (uint32_t d = last; d-- > 0;)
        if (d != transposed) {
            tiles *= s->dim[d];
            meta[k++] = s->dim[d];
            meta[k++] = s->sx[d];
            meta[k++] = s->sy[d];
        }
    kit_launch_add(ctx, "data", move_defines(bytes), "copy_transposed", tiles, 1, 1, MOVE_TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_meta(ctx, meta, k);
}

static void copy_far(kit_lowering *ctx, const yk_node *n, const copy_space *s)
{
    const uint32_t last = s->dims - 1, bytes = yk_dtype_bytes(kit_node_out(ctx->graph, n, 0)->dtype);
    int64_t meta[6 + 3 * YK_MAX_DIMS];
    uint32_t k = 6;
    meta[0] = space_total(s);
    meta[1] = s->dim[last];
    meta[2] = BLOCK;
    meta[3] = last;
    meta[4] = s->sx[last];
    meta[5] = s->sy[last];
    for (uint32_t d = last; d-- > 0;) {
        meta[k++] = s->dim[d];
        meta[k++] = s->sx[d];
        meta[k++] = s->sy[d];
    }
    kit_launch_add(ctx, "data", move_defines(bytes), "copy_any", kit_div_up(meta[0], BLOCK), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_meta(ctx, meta, k);
}

static void lower_copy(kit_lowering *ctx, const yk_node *n)
{
    copy_space s;
    copy_merge(kit_node_in(ctx->graph, n, 0), kit_node_out(ctx->graph, n, 0), &s);
    const bool near = target_is_gpu(ctx->target) && space_is_near(&s);
    const uint32_t transposed = space_transposed(&s);
    if (!near)
        copy_far(ctx, n, &s);
    else if (transposed != YK_NONE && yk_dtype_bytes(kit_node_out(ctx->graph, n, 0)->dtype) <= 4)
        copy_transposed(ctx, n, &s, transposed);
    else
        copy_near(ctx, n, &s);
}

/* ---- gather, scatter_add ---- */

static void gather_near(kit_lowering *ctx, const yk_node *n, int64_t width)
{
    const yk_value *table = kit_node_in(ctx->graph, n, 0), *y = kit_node_out(ctx->graph, n, 0);
    const uint32_t bytes = yk_dtype_bytes(y->dtype);
    uint32_t wide = MOVE_BYTES / bytes;
    while (wide > 1 && (width % wide || !place_is_multiple(table, wide * bytes) || !place_is_multiple(y, wide * bytes)))
        wide /= 2;
    const int64_t total = kit_value_count(y) / wide;
    const divisor by = divisor_of(width / wide);
    kit_launch_add(ctx, "data", move_defines(wide * bytes), "gather_near", kit_div_up(total, MOVE_TEAM * MOVE_EACH), 1, 1, MOVE_TEAM);
    kit_arg_wide(ctx, ctx->graph->index[n->in], wide * bytes);
    kit_arg_in(ctx, n, 1);
    kit_arg_wide(ctx, ctx->graph->index[n->out], wide * bytes);
    kit_arg_i64(ctx, table->dim[0]);
    kit_arg_i32(ctx, total);
    kit_arg_i32(ctx, width / wide);
    kit_arg_i32(ctx, by.mul);
    kit_arg_i32(ctx, by.shift);
}

static void lower_gather(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *table = kit_node_in(ctx->graph, n, 0), *y = kit_node_out(ctx->graph, n, 0);
    int64_t rows = kit_value_count(kit_node_in(ctx->graph, n, 1)), width = kit_value_count(y) / rows, block = kit_div_up(BLOCK, width);
    if (table->dim[0] * width != kit_value_count(table))
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
    if (target_is_gpu(ctx->target) && rows * width < NEAR) {
        gather_near(ctx, n, width);
        return;
    }
    kit_launch_add(ctx, "data", move_defines(yk_dtype_bytes(y->dtype)), "gather_rows", kit_div_up(rows, block), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, table->dim[0]);
    kit_arg_i64(ctx, rows);
    kit_arg_i64(ctx, width);
    kit_arg_i64(ctx, block);
}

static void scatter_sizes(kit_lowering *ctx, const yk_value *y, int64_t rows, int64_t width)
{
    kit_arg_i64(ctx, y->dim[0]);
    kit_arg_i64(ctx, rows);
    kit_arg_i64(ctx, width);
}

static void lower_scatter_int(kit_lowering *ctx, const yk_node *n, int64_t rows, int64_t width)
{
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "scatter_i32", kit_div_up(width, kit_team(ctx->target, TEAM)), 1, 1,
                   TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    scatter_sizes(ctx, kit_node_out(ctx->graph, n, 0), rows, width);
}

/* Columns of a group: on a processor as many as keep each core busy, whole lines if there is one. */
static int64_t scatter_columns(const kit_target *target, int64_t width)
{
    const int64_t each = kit_div_up(kit_div_up(width, target->units), 16) * 16;
    return target->cpu_shape && each > 64 ? each : 64;
}

/* The f32 sums: the result, or scratch memory from which it is rounded. */
static void scatter_sums(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    if (y->dtype == YK_F32)
        kit_arg_out(ctx, n, 0);
    else
        kit_arg_scratch(ctx, 0, (uint64_t)kit_value_count(y) * 4, 4);
}

/* `n` numbers after the sums of a 16-bit result, in scratch memory. */
static void scatter_behind_arg(kit_lowering *ctx, const yk_value *y, int64_t n)
{
    const uint64_t at = y->dtype == YK_F32 ? 0 : kit_round_bytes((size_t)kit_value_count(y) * 4, KIT_PRODUCT_ALIGN);
    kit_arg_scratch(ctx, at, (uint64_t)n * 4, 4);
}

/* Zeroes the table for scatter_rows, as a GPU's groups own few columns each; lost: zeroes its lost parts instead. */
static void scatter_zeros(kit_lowering *ctx, const yk_node *n, bool lost)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    const int64_t total = kit_value_count(y), block = kit_move_block(ctx->target, total);
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "zeros_f32", kit_div_up(total, block), 1, 1, TEAM);
    if (lost)
        scatter_behind_arg(ctx, y, total);
    else
        scatter_sums(ctx, n);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, block);
}

static void scatter_columned(kit_lowering *ctx, const yk_node *n, const char *defines, int64_t rows, int64_t width)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    const int64_t cols = scatter_columns(ctx->target, width);
    const bool lists = ctx->target->cpu_shape; /* which rows are added to each row of the table */
    if (lists) {
        kit_launch_add(ctx, "data", defines, "scatter_lists", 1, 1, 1, TEAM);
        kit_arg_in(ctx, n, 1);
        scatter_behind_arg(ctx, y, y->dim[0] + rows);
        kit_arg_i64(ctx, y->dim[0]);
        kit_arg_i64(ctx, rows);
    } else {
        scatter_zeros(ctx, n, true);
    }
    kit_launch_add(ctx, "data", defines, "scatter_rows", kit_div_up(width, cols), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    if (lists)
        scatter_behind_arg(ctx, y, y->dim[0] + rows);
    else
        kit_arg_in(ctx, n, 1);
    scatter_sums(ctx, n);
    if (!lists)
        scatter_behind_arg(ctx, y, kit_value_count(y));
    scatter_sizes(ctx, y, rows, width);
    kit_arg_i64(ctx, cols);
}

/* Scratch memory of scatter_sorted: after the sums of a 16-bit result the order of the rows, then data between groups. */
typedef struct scatter_runs {
    int64_t vocab, rows, width, each, groups; /* each: rows of a group, from shapes alone, so that the sum is the same on each GPU */
    uint64_t order, rest;
} scatter_runs;

static scatter_runs scatter_runs_of(const yk_value *y, int64_t rows, int64_t width)
{
    scatter_runs r = {.vocab = y->dim[0], .rows = rows, .width = width};
    r.each = kit_max(RUN_LEAST, kit_min(RUN_MOST, kit_div_up(rows, 1024)));
    r.groups = kit_div_up(rows, r.each);
    r.order = y->dtype == YK_F32 ? 0 : kit_round_bytes((size_t)kit_value_count(y) * 4, KIT_PRODUCT_ALIGN);
    r.rest = kit_round_bytes(r.order + (uint64_t)rows * 4, KIT_PRODUCT_ALIGN);
    return r;
}

static void scatter_order_arg(kit_lowering *ctx, const scatter_runs *r)
{
    kit_arg_scratch(ctx, r->order, (uint64_t)r->rows * 4, 4);
}

static void scatter_rest_arg(kit_lowering *ctx, const scatter_runs *r)
{
    kit_arg_scratch(ctx, r->rest, (uint64_t)(r->groups * r->width) * 4, 4);
}

static void scatter_runs_sizes(kit_lowering *ctx, const scatter_runs *r)
{
    kit_arg_i64(ctx, r->vocab);
    kit_arg_i32(ctx, r->rows);
    kit_arg_i64(ctx, r->width);
    kit_arg_i32(ctx, r->each);
}

static void scatter_sorted(kit_lowering *ctx, const yk_node *n, const char *defines, const scatter_runs *r)
{
    const int64_t columns = kit_div_up(r->width, RUN_TEAM);
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "rows_sort", kit_div_up(r->rows, SORT_EACH), 1, 1, SORT_TEAM);
    kit_arg_in(ctx, n, 1);
    scatter_order_arg(ctx, r);
    kit_arg_i32(ctx, kit_min(r->vocab, INT32_MAX));
    kit_arg_i32(ctx, r->rows);
    kit_launch_add(ctx, "data", defines, "scatter_runs", r->groups, columns, 1, RUN_TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    scatter_order_arg(ctx, r);
    scatter_sums(ctx, n);
    scatter_rest_arg(ctx, r);
    scatter_runs_sizes(ctx, r);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
    if (r->groups == 1)
        return;
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "scatter_rest", r->groups - 1, columns, 1, RUN_TEAM);
    kit_arg_in(ctx, n, 1);
    scatter_order_arg(ctx, r);
    scatter_rest_arg(ctx, r);
    scatter_sums(ctx, n);
    scatter_runs_sizes(ctx, r);
}

/* True if rows are added to the contents of y; otherwise a separate launch zeroes y first. */
static bool scatter_adds(const kit_target *target, const yk_graph *graph, const yk_node *n)
{
    const yk_value *y = kit_node_out(graph, n, 0);
    return !target->cpu_shape && y->dtype == YK_F32 && kit_is_float(kit_node_in(graph, n, 0)->dtype) && kit_value_dense(y);
}

/* Sums in f32; a 16-bit result is rounded from scratch memory at the end. */
static void lower_scatter(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0), *y = kit_node_out(ctx->graph, n, 0);
    int64_t rows = kit_value_count(kit_node_in(ctx->graph, n, 1)), width = kit_value_count(x) / rows, total = kit_value_count(y);
    const int64_t block = kit_move_block(ctx->target, total);
    char defines[64];
    if (y->dtype == YK_I32 && x->dtype == YK_I32) {
        lower_scatter_int(ctx, n, rows, width);
        return;
    }
    if (!float_defines(ctx, x->dtype, defines, sizeof defines))
        return;
    if (!ctx->target->cpu_shape && !(n->flags & YK_NODE_ACCUMULATE))
        scatter_zeros(ctx, n, false);
    const scatter_runs runs = scatter_runs_of(y, rows, width);
    if (target_is_gpu(ctx->target) && rows <= SORT_MOST && width <= WIDTH_MOST)
        scatter_sorted(ctx, n, defines, &runs);
    else
        scatter_columned(ctx, n, defines, rows, width);
    if (y->dtype == YK_F32 || !float_defines(ctx, y->dtype, defines, sizeof defines))
        return;
    kit_launch_add(ctx, "data", defines, "narrow_f32", kit_div_up(total, block), 1, 1, TEAM);
    kit_arg_scratch(ctx, 0, (uint64_t)total * 4, 4);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, block);
}

/* ---- unfold, fold ---- */

static void lower_unfold(kit_lowering *ctx, const yk_node *n)
{
    bool fold = n->op == YK_OP_FOLD;
    const yk_value *col = fold ? kit_node_in(ctx->graph, n, 0) : kit_node_out(ctx->graph, n, 0);
    const yk_value *image = fold ? kit_node_out(ctx->graph, n, 0) : kit_node_in(ctx->graph, n, 0);
    char defines[64];
    int64_t a[8];
    for (uint32_t i = 0; i < 8; i++)
        a[i] = kit_node_attr(ctx->graph, n, i);
    int64_t H = image->dim[2], W = image->dim[3], kh = a[0], kw = a[1];
    int64_t OH = (H + 2 * a[4] - a[6] * (kh - 1) - 1) / a[2] + 1, OW = (W + 2 * a[5] - a[7] * (kw - 1) - 1) / a[3] + 1;
    if (!float_defines(ctx, image->dtype, defines, sizeof defines) || col->dtype != image->dtype) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return;
    }
    kit_launch_add(ctx, "data", defines, fold ? "fold_image" : "unfold_image",
                   image->dim[0] * image->dim[1] * (fold ? 1 : kh * kw), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, H);
    kit_arg_i64(ctx, W);
    kit_arg_i64(ctx, OH);
    kit_arg_i64(ctx, OW);
    for (uint32_t i = 0; i < 8; i++)
        kit_arg_i32(ctx, a[i]);
    if (!fold)
        kit_arg_f32(ctx, yk_attr_f64(kit_node_attr(ctx->graph, n, 8)));
}

/* ---- iota, rng, argmax ---- */

static void lower_iota(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    int64_t axis = kit_node_attr(ctx->graph, n, 0), stride = 1, total = kit_value_count(y);
    const int64_t block = kit_move_block(ctx->target, total);
    if (y->dtype != YK_I32 && y->dtype != YK_F32)
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
    for (uint32_t d = (uint32_t)axis + 1; d < y->dims; d++)
        stride *= y->dim[d];
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", y->dtype == YK_I32 ? "iota_i32" : "iota_f32", kit_div_up(total, block), 1, 1, TEAM);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, stride);
    kit_arg_i64(ctx, y->dims ? y->dim[axis] : 1);
    kit_arg_i64(ctx, block);
}

static void lower_rng(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    int64_t total = kit_value_count(y), rows = kit_value_count(kit_node_in(ctx->graph, n, 1));
    const int64_t block = kit_move_block(ctx->target, total);
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "rng_rows", kit_div_up(total, block), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, total / rows);
    kit_arg_i64(ctx, kit_node_attr(ctx->graph, n, 0));
    kit_arg_i64(ctx, block);
}

static void lower_argmax(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0);
    int64_t axis = kit_node_attr(ctx->graph, n, 0), stride = 1, length = x->dims ? x->dim[axis] : 1,
            lines = kit_value_count(x) / length;
    int64_t block = kit_div_up(BLOCK, length);
    char defines[64] = "-DUNIT_ARGMAX_I";
    for (uint32_t d = (uint32_t)axis + 1; d < x->dims; d++)
        stride *= x->dim[d];
    bool whole = x->dtype == YK_I32;
    if (!whole && !float_defines(ctx, x->dtype, defines, sizeof defines))
        return;
    kit_launch_add(ctx, "data", defines, whole ? "argmax_i32" : "argmax_line", kit_div_up(lines, block), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, lines);
    kit_arg_i64(ctx, length);
    kit_arg_i64(ctx, stride);
    kit_arg_i64(ctx, block);
}

static void lower_data(kit_lowering *ctx, const yk_node *n)
{
    switch (n->op) {
    case YK_OP_COPY:
        lower_copy(ctx, n);
        break;
    case YK_OP_GATHER:
        lower_gather(ctx, n);
        break;
    case YK_OP_SCATTER_ADD:
        lower_scatter(ctx, n);
        break;
    case YK_OP_UNFOLD:
    case YK_OP_FOLD:
        lower_unfold(ctx, n);
        break;
    case YK_OP_IOTA:
        lower_iota(ctx, n);
        break;
    case YK_OP_RNG:
        lower_rng(ctx, n);
        break;
    case YK_OP_ARGMAX:
        lower_argmax(ctx, n);
        break;
    default:
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        break;
    }
}

static bool op_is_primitive(uint32_t op)
{
    return yk_op_is_primitive(op);
}

/* A primitive is run whether it is claimed or not. */
static uint32_t claim_data(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    const yk_node *n = &graph->node[node];
    return n->op == YK_OP_SCATTER_ADD && scatter_adds(target, graph, n) ? YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE : 0;
}

const kit_rule kit_rule_data = {op_is_primitive, claim_data, lower_data};
