/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primitives that make or move numbers: fill, iota, rng, copy, gather, scatter_add. cpu_ops.c calls cpu_plan_data for a node while a
 * program is compiled. As everywhere in this plugin, plan_x fills the arguments once and emits x_step, which all workers run, each on its
 * own pieces.
 *
 * A scatter_add gives the same bits for any number of workers: one worker makes each sum, in the order of the indices.
 */
#include <string.h>

#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/nn/nn.h"
#include "plugins/kit/value.h"

#define BLOCK 1024
#define FLUSH 32    /* terms of a sum that are added up in f32 */
#define PIECE 16384 /* elements of one piece of a long copy */

static int64_t item_of(const yk_value *v)
{
    return yk_dtype_bytes(v->dtype);
}

/* ---- fill, iota ---- */

typedef struct fill_args {
    cpu_ref y;
    int64_t count, item, len, inner; /* len, inner: length and distance of iota's axis */
    bool iota, floats;
    uint32_t bits;
} fill_args;

static void fill_step(const void *args, const cpu_ctx *ctx)
{
    const fill_args *fill = args;
    char *y = cpu_at(ctx, fill->y);
    int64_t lo, hi;
    cpu_part(fill->count, ctx->piece, ctx->pieces, &lo, &hi);
    if (fill->iota) {
        for (int64_t i = lo; i < hi; i++) {
            int32_t at = (int32_t)(i / fill->inner % fill->len);
            float f = (float)at;
            memcpy(y + i * 4, fill->floats ? (const void *)&f : (const void *)&at, 4);
        }
    } else if (fill->item == 4) {
        ctx->isa->vec->fill32(y + lo * 4, fill->bits, (size_t)(hi - lo));
    } else if (fill->item == 1) {
        memset(y + lo, *(const uint8_t *)&fill->bits, (size_t)(hi - lo));
    } else {
        for (int64_t i = lo; i < hi; i++)
            memcpy(y + i * 2, &fill->bits, 2); /* the two bytes that from_f32 wrote first */
    }
}

static void plan_fill(cpu_build *build, const yk_node *node)
{
    const yk_value *y = cpu_out(build, node, 0);
    fill_args *fill = cpu_args(build, sizeof *fill);
    if (!fill)
        return;
    *fill = (fill_args){.y = cpu_ref_of(y), .count = kit_value_count(y), .item = item_of(y), .inner = 1, .len = 1};
    fill->floats = y->dtype == YK_F32;
    if (node->op == YK_OP_IOTA) {
        int axis = (int)cpu_attr(build, node, 0);
        fill->iota = true;
        fill->len = y->dims ? y->dim[axis] : 1;
        for (int i = axis + 1; i < y->dims; i++)
            fill->inner *= y->dim[i];
    } else {
        double x = yk_attr_f64(cpu_attr(build, node, 0));
        float f = (float)x;
        if (cpu_is_float(y->dtype))
            build->isa->vec->from_f32(&fill->bits, &f, y->dtype, 1);
        else if (y->dtype == YK_BOOL)
            memset(&fill->bits, x != 0.0, 1);
        else
            fill->bits = (uint32_t)(int32_t)x;
    }
    cpu_emit(build, fill_step, fill, (double)fill->count * (fill->iota ? 2.0 : 0.1));
}

/* ---- rng: random numbers by global row ---- */

typedef struct rng_args {
    cpu_ref y, key, rows;
    int64_t count, row_length; /* elements; elements of a row */
    uint32_t stream;
} rng_args;

static void uniform_range(const rng_args *rng, const cpu_ctx *ctx, int64_t e, size_t n, float *u)
{
    const int32_t *rows = cpu_at(ctx, rng->rows);
    uint32_t key[3];
    memcpy(key, cpu_at(ctx, rng->key), sizeof key);
    while (n) {
        int64_t r = e / rng->row_length, at = e % rng->row_length;
        size_t m = (size_t)(rng->row_length - at) < n ? (size_t)(rng->row_length - at) : n;
        ctx->isa->random->uniform(u, key, rng->stream, (uint64_t)rows[r] * (uint64_t)rng->row_length + (uint64_t)at, m);
        e += (int64_t)m, u += m, n -= m;
    }
}

static void rng_step(const void *args, const cpu_ctx *ctx)
{
    const rng_args *rng = args;
    float *y = cpu_at(ctx, rng->y);
    int64_t lo, hi;
    cpu_part((rng->count + BLOCK - 1) / BLOCK, ctx->piece, ctx->pieces, &lo, &hi);
    hi = hi * BLOCK < rng->count ? hi * BLOCK : rng->count;
    if (lo * BLOCK < hi)
        uniform_range(rng, ctx, lo * BLOCK, (size_t)(hi - lo * BLOCK), y + lo * BLOCK);
}

static void plan_rng(cpu_build *build, const yk_node *node)
{
    const yk_value *y = cpu_out(build, node, 0), *rows = cpu_in(build, node, 1);
    rng_args *rng = cpu_args(build, sizeof *rng);
    if (!rng)
        return;
    *rng = (rng_args){cpu_ref_of(y), cpu_ref_of(cpu_in(build, node, 0)), cpu_ref_of(rows), kit_value_count(y),
                    kit_value_count(y) / kit_value_count(rows), (uint32_t)cpu_attr(build, node, 0)};
    cpu_emit(build, rng_step, rng, (double)rng->count * 1.0);
}

/* ---- copy: any strides to any strides ---- */

typedef struct copy_args {
    cpu_ref x_ref, y_ref;
    int64_t item;
    int dims; /* innermost first */
    int64_t len[YK_MAX_DIMS], x_stride[YK_MAX_DIMS], y_stride[YK_MAX_DIMS];
    int64_t outer, piece, pieces; /* piece: elements of a piece of the innermost axis */
} copy_args;

#define COPY_RUN(T, SY, SX)                                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                                    \
    memcpy(y + i * (SY) * (int64_t)sizeof(T), x + i * (SX) * (int64_t)sizeof(T), sizeof(T))

static void copy_run(char *y, const char *x, int64_t n, int64_t sy, int64_t sx, int64_t item)
{
    if (sx == 1 && sy == 1)
        memcpy(y, x, (size_t)(n * item));
    else if (item == 4 && sx == 2 && sy == 1) /* every second pixel */
        COPY_RUN(uint32_t, 1, 2);
    else if (item == 4 && sx == 1 && sy == 2)
        COPY_RUN(uint32_t, 2, 1);
    else if (item == 4)
        COPY_RUN(uint32_t, sy, sx);
    else if (item == 2)
        COPY_RUN(uint16_t, sy, sx);
    else
        COPY_RUN(uint8_t, sy, sx);
}

/* One run of a copy: its piece of the innermost axis, its indices on the other axes, its offsets in both operands. */
typedef struct copy_place {
    int64_t piece, at[YK_MAX_DIMS], x, y;
} copy_place;

static copy_place copy_first(const copy_args *copy, int64_t t)
{
    copy_place place = {.piece = t % copy->pieces};
    t /= copy->pieces;
    for (int i = 1; i < copy->dims; i++) {
        place.at[i] = t % copy->len[i];
        place.x += place.at[i] * copy->x_stride[i];
        place.y += place.at[i] * copy->y_stride[i];
        t /= copy->len[i];
    }
    return place;
}

static void copy_next(const copy_args *copy, copy_place *place)
{
    if (++place->piece < copy->pieces)
        return;
    place->piece = 0;
    for (int i = 1; i < copy->dims; i++) {
        place->x += copy->x_stride[i];
        place->y += copy->y_stride[i];
        if (++place->at[i] < copy->len[i])
            return;
        place->x -= copy->x_stride[i] * copy->len[i];
        place->y -= copy->y_stride[i] * copy->len[i];
        place->at[i] = 0;
    }
}

static void copy_step(const void *args, const cpu_ctx *ctx)
{
    const copy_args *copy = args;
    const char *x = cpu_at(ctx, copy->x_ref);
    char *y = cpu_at(ctx, copy->y_ref);
    int64_t lo, hi;
    cpu_part(copy->outer * copy->pieces, ctx->piece, ctx->pieces, &lo, &hi);
    copy_place place = copy_first(copy, lo);
    for (int64_t t = lo; t < hi; t++) {
        const int64_t at = place.piece * copy->piece, n = copy->len[0] - at < copy->piece ? copy->len[0] - at : copy->piece;
        copy_run(y + (place.y + at * copy->y_stride[0]) * copy->item, x + (place.x + at * copy->x_stride[0]) * copy->item, n,
                 copy->y_stride[0], copy->x_stride[0], copy->item);
        copy_next(copy, &place);
    }
}

static void plan_copy(cpu_build *build, const yk_node *node)
{
    const yk_value *x = cpu_in(build, node, 0), *y = cpu_out(build, node, 0);
    copy_args *copy = cpu_args(build, sizeof *copy);
    if (!copy)
        return;
    *copy = (copy_args){.x_ref = cpu_ref_of(x), .y_ref = cpu_ref_of(y), .item = item_of(y), .outer = 1};
    for (int i = y->dims - 1; i >= 0; i--) {
        int last = copy->dims - 1;
        int64_t sx = x->dim[i] > 1 ? x->stride[i] : 0;
        if (y->dim[i] == 1)
            continue;
        if (last >= 0 && sx == copy->x_stride[last] * copy->len[last] && y->stride[i] == copy->y_stride[last] * copy->len[last]) {
            copy->len[last] *= y->dim[i];
            continue;
        }
        copy->len[copy->dims] = y->dim[i];
        copy->x_stride[copy->dims] = sx;
        copy->y_stride[copy->dims++] = y->stride[i];
    }
    if (!copy->dims) {
        copy->dims = 1;
        copy->len[0] = copy->x_stride[0] = copy->y_stride[0] = 1;
    }
    for (int i = 1; i < copy->dims; i++)
        copy->outer *= copy->len[i];
    copy->piece = copy->len[0] < PIECE ? copy->len[0] : PIECE;
    copy->pieces = (copy->len[0] + copy->piece - 1) / copy->piece;
    bool dense = copy->x_stride[0] == 1 && copy->y_stride[0] == 1;
    cpu_emit(build, copy_step, copy, (double)kit_value_count(y) * (dense ? 0.1 : 0.6) + (double)copy->outer * 5.0);
}

/* ---- gather, scatter_add ---- */

typedef struct index_args {
    cpu_ref x_ref, index_ref, y_ref;
    int64_t n_index, table_rows, inner; /* indices, rows of the table (gather: x, scatter_add: y), elements of a row */
    uint8_t x_dtype, y_dtype;
    bool columns; /* scatter_add: workers share the columns of a row, else the rows of the table */
    bool add;     /* scatter_add: adds to the existing contents */
} index_args;

static void gather_step(const void *args, const cpu_ctx *ctx)
{
    const index_args *lookup = args;
    const int32_t *index = cpu_at(ctx, lookup->index_ref);
    size_t bytes = (size_t)lookup->inner * yk_dtype_bytes(lookup->x_dtype);
    const char *x = cpu_at(ctx, lookup->x_ref);
    char *y = cpu_at(ctx, lookup->y_ref);
    int64_t lo, hi;
    cpu_part(lookup->n_index, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        if (index[i] >= 0 && index[i] < lookup->table_rows)
            memcpy(y + (size_t)i * bytes, x + (size_t)index[i] * bytes, bytes);
        else
            memset(y + (size_t)i * bytes, 0, bytes);
    }
}

/*
 * Lists the indices by row, as a row of the table is made at once. It is summed in f32, after each FLUSH terms in double, and rounded once.
 * `from` gets the indices that name row r, in their order, at first[r] .. first[r + 1] - 1.
 */
static int32_t *index_lists(const index_args *lookup, const cpu_ctx *ctx, int32_t **from)
{
    int32_t *first = (int32_t *)(void *)ctx->shared_ws;
    *from = first + lookup->table_rows + 2;
    return first;
}

static void list_step(const void *args, const cpu_ctx *ctx)
{
    const index_args *lookup = args;
    const int32_t *index = cpu_at(ctx, lookup->index_ref);
    int32_t *from, *first = index_lists(lookup, ctx, &from);
    if (ctx->piece)
        return;
    memset(first, 0, (size_t)(lookup->table_rows + 2) * 4);
    for (int64_t i = 0; i < lookup->n_index; i++)
        if (index[i] >= 0 && index[i] < lookup->table_rows)
            first[index[i] + 2]++;
    for (int64_t r = 2; r <= lookup->table_rows; r++)
        first[r] += first[r - 1];
    for (int64_t i = 0; i < lookup->n_index; i++) /* first[r + 1] moves from the start of row r to its end */
        if (index[i] >= 0 && index[i] < lookup->table_rows)
            from[first[index[i] + 1]++] = (int32_t)i;
}

/* Sums numbers [j, j + n) of the rows of x named by count indices. */
static void sum_row(const index_args *lookup, const cpu_ctx *ctx, const int32_t *from, int32_t count, int64_t j, size_t n, char *out)
{
    const cpu_row_kernels *k = cpu_rows_of(ctx->isa, lookup->x_dtype);
    const int64_t item = yk_dtype_bytes(lookup->x_dtype);
    const char *x = (const char *)cpu_at(ctx, lookup->x_ref) + j * item;
    float sum[BLOCK], row[BLOCK];
    double total[BLOCK];
    if (lookup->add)
        ctx->isa->vec->to_f32(sum, out, lookup->y_dtype, n);
    else if (count)
        ctx->isa->vec->to_f32(sum, x + from[0] * lookup->inner * item, lookup->x_dtype, n);
    if (count > FLUSH)
        memset(total, 0, n * sizeof *total);
    for (int32_t i = lookup->add ? 0 : 1; i < count; i++) {
        const void *p = x + from[i] * lookup->inner * item;
        if (lookup->x_dtype == YK_F16)
            ctx->isa->vec->to_f32(row, p, YK_F16, n);
        k->add(sum, lookup->x_dtype == YK_F16 ? row : p, n);
        if (i % FLUSH == FLUSH - 1 && count > FLUSH)
            ctx->isa->vec->drain(total, sum, n);
    }
    for (size_t i = 0; i < n && count > FLUSH; i++)
        sum[i] = (float)(total[i] + (double)sum[i]);
    ctx->isa->vec->from_f32(out, sum, lookup->y_dtype, n);
}

/* Makes columns [j0, j1) of row r of the table, from the rows of x that `at` names. */
static void row_make(const index_args *lookup, const cpu_ctx *ctx, int64_t r, const int32_t *at, int32_t count, int64_t j0, int64_t j1)
{
    const int64_t item = yk_dtype_bytes(lookup->y_dtype);
    char *y = (char *)cpu_at(ctx, lookup->y_ref) + r * lookup->inner * item;
    if (!count && !lookup->add)
        memset(y + j0 * item, 0, (size_t)((j1 - j0) * item));
    else if (count == 1 && !lookup->add && lookup->x_dtype == lookup->y_dtype)
        memcpy(y + j0 * item, (const char *)cpu_at(ctx, lookup->x_ref) + (at[0] * lookup->inner + j0) * item,
               (size_t)((j1 - j0) * item));
    else
        for (int64_t j = j0; j < j1 && count; j += BLOCK)
            sum_row(lookup, ctx, at, count, j, (size_t)(j1 - j < BLOCK ? j1 - j : BLOCK), y + j * item);
}

static void sum_rows_step(const void *args, const cpu_ctx *ctx)
{
    const index_args *lookup = args;
    int32_t *from, *first = index_lists(lookup, ctx, &from);
    int64_t lo, hi;
    cpu_part(lookup->columns ? lookup->inner : lookup->table_rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lookup->columns ? 0 : lo; r < (lookup->columns ? lookup->table_rows : hi); r++)
        row_make(lookup, ctx, r, from + first[r], first[r + 1] - first[r], lookup->columns ? lo : 0,
                 lookup->columns ? hi : lookup->inner);
}

static void plan_index(cpu_build *build, const yk_node *node)
{
    const yk_value *x = cpu_in(build, node, 0), *index = cpu_in(build, node, 1), *y = cpu_out(build, node, 0);
    const yk_value *table = node->op == YK_OP_GATHER ? x : y;
    index_args *lookup = cpu_args(build, sizeof *lookup);
    if (!lookup)
        return;
    if (!kit_value_dense(x) || !kit_value_dense(index)) {
        cpu_refuse(build, node, "a broadcast operand");
        return;
    }
    *lookup = (index_args){cpu_ref_of(x), cpu_ref_of(index), cpu_ref_of(y), kit_value_count(index), table->dim[0], 1, x->dtype,
                           y->dtype, false, node->flags & YK_NODE_ACCUMULATE};
    lookup->inner = kit_value_count(table) / lookup->table_rows;
    double work = (double)(lookup->n_index * lookup->inner) * 0.3;
    if (node->op == YK_OP_GATHER) {
        cpu_emit(build, gather_step, lookup, work);
        return;
    }
    if (!cpu_is_float(y->dtype) || lookup->n_index > INT32_MAX) {
        cpu_refuse(build, node, "a sum that is not of floats, or of more than 2^31 rows");
        return;
    }
    cpu_need_shared_ws(build, (size_t)(lookup->table_rows + 2 + lookup->n_index) * 4);
    cpu_emit(build, list_step, lookup, 0.0);
    /* Columns share sums evenly for any indices; a large table with few nonzero rows is written in order. */
    lookup->columns = lookup->y_dtype == YK_F32 && lookup->inner >= 64 * build->workers &&
                      (lookup->add || 4 * lookup->n_index >= lookup->table_rows);
    cpu_emit(build, sum_rows_step, lookup, work + (lookup->add ? 0.0 : (double)(lookup->table_rows * lookup->inner) * 0.1));
}

void cpu_plan_data(cpu_build *build, const yk_node *node)
{
    switch (node->op) {
    case YK_OP_FILL:
    case YK_OP_IOTA:
        plan_fill(build, node);
        break;
    case YK_OP_RNG:
        plan_rng(build, node);
        break;
    case YK_OP_COPY:
        plan_copy(build, node);
        break;
    case YK_OP_GATHER:
    case YK_OP_SCATTER_ADD:
        plan_index(build, node);
        break;
    default:
        cpu_refuse(build, node, "it is no movement of data");
    }
}
