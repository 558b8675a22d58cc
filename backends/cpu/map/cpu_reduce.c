/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and maxima over any set of axes, of a tensor or of an elementwise program's results (map_sum); also argmax. cpu_ops.c calls
 * cpu_plan_reduce and cpu_plan_map_sum for a node while a program is compiled; the emitted steps run on the workers.
 *
 * The order in which an output's terms are added depends on the shape alone. The reduced range is cut into `cuts` parts, each summed into
 * its own partial result by whichever worker comes. A second step adds the partials in order.
 */
#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/map/map.h"
#include "plugins/kit/value.h"

#include <math.h>
#include <string.h>

#define COLUMNS 512  /* columns of partial results at a time */
#define TILE 4096    /* most columns of a tile when the innermost axis is kept: whole rows in memory order */
#define LEAST 32     /* rows of a cut of such tiles */
#define PIECE 65536  /* elements of the innermost axis at a time when it is reduced */
#define MOST_CUTS 64
#define GROUP 16384  /* elements of neighbouring planes that are summed by one worker */
#define MOST_ROWS 64 /* ... and as many planes at most */
#define FLUSH 32     /* rows added in f32 before the sum goes to double: equal terms lose at most 6e-7 of it */

typedef struct axis_group {
    int64_t len, stride; /* in elements of the input's linear order */
} axis_group;

typedef struct reduce_args {
    const cpu_map *map;
    cpu_ref bf16_in;       /* a dense bf16 operand that is reduced in place; else unused, and the map's results are reduced */
    bool max, inner;       /* inner: the innermost group is reduced */
    int n_kept, n_reduced; /* kept and reduced groups without the innermost, outermost first */
    axis_group kept[YK_MAX_DIMS], reduced[YK_MAX_DIMS];
    int64_t outputs, terms, len; /* products of the kept, of the reduced groups; length of the innermost */
    int64_t pieces;              /* pieces of the innermost group, if it is reduced */
    int64_t rows;                /* outputs with contiguous short rows that are evaluated together */
    bool planes;                 /* the map itself sums the planes of `rows` outputs */
    int64_t tile, tiles, cuts;
    uint32_t n_out;
    cpu_ref out[4];
    uint8_t dtype[4];
    int64_t count; /* elements of an output */
} reduce_args;

static int64_t groups_position(const axis_group *g, int n, int64_t index)
{
    int64_t pos = 0;
    for (int i = n - 1; i >= 0; i--) {
        pos += index % g[i].len * g[i].stride;
        index /= g[i].len;
    }
    return pos;
}

static void out_store(const cpu_ctx *ctx, const reduce_args *reduce, uint32_t k, int64_t at, const float *x, size_t n)
{
    char *p = cpu_at(ctx, reduce->out[k]);
    if (reduce->dtype[k] == YK_I32)
        memcpy(p + at * 4, x, n * 4);
    else
        ctx->isa->vec->from_f32(p + at * (reduce->dtype[k] == YK_F32 ? 4 : 2), x, reduce->dtype[k], n);
}

/* partial results: [cut][output][element] */
static float *partial_at(const cpu_ctx *ctx, const reduce_args *reduce, int64_t cut, uint32_t k)
{
    return (float *)(void *)ctx->shared_ws + (cut * reduce->n_out + k) * reduce->count;
}

static void partial_put(const cpu_ctx *ctx, const reduce_args *reduce, int64_t cut, uint32_t k, int64_t at, const float *x, size_t n)
{
    if (reduce->cuts == 1)
        out_store(ctx, reduce, k, at, x, n);
    else
        memcpy(partial_at(ctx, reduce, cut, k) + at, x, n * 4);
}

static const cpu_row_kernels *rows_of(const cpu_isa *isa, const reduce_args *reduce)
{
    return cpu_rows_of(isa, reduce->bf16_in.slot == YK_NONE ? YK_F32 : YK_BF16);
}

/* The terms [pos, pos + n) of the first output, as rows_of's kernels read them; the terms of other outputs are the map's. */
static const void *terms_of(cpu_map_run *run, const reduce_args *reduce, int64_t pos, size_t n)
{
    if (reduce->bf16_in.slot != YK_NONE)
        return (const char *)cpu_at(run->ctx, reduce->bf16_in) + pos * 2;
    cpu_map_eval(run, pos, n, NULL);
    return cpu_map_result(run, 0);
}

/* Reduces one output element in one cut: vectors sum the innermost axis, and a double sums their blocks. */
static void reduce_row(cpu_map_run *run, const reduce_args *reduce, int64_t o, int64_t cut)
{
    const cpu_ctx *ctx = run->ctx;
    const cpu_row_kernels *rows = rows_of(ctx->isa, reduce);
    int64_t base = groups_position(reduce->kept, reduce->n_kept, o), block = cpu_map_block(reduce->map), lo, hi;
    double sum[4] = {0};
    float max[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    cpu_part(reduce->terms * reduce->pieces, (int)cut, (int)reduce->cuts, &lo, &hi);
    for (int64_t u = lo; u < hi && !cpu_stops(run->ctx); u++) {
        int64_t from = u % reduce->pieces * PIECE, end = from + PIECE < reduce->len ? from + PIECE : reduce->len;
        int64_t row = base + groups_position(reduce->reduced, reduce->n_reduced, u / reduce->pieces);
        for (int64_t e = from; e < end; e += block) {
            size_t n = (size_t)(end - e < block ? end - e : block);
            const void *x = terms_of(run, reduce, row + e, n);
            for (uint32_t k = 0; k < reduce->n_out; k++) {
                x = k ? cpu_map_result(run, k) : x;
                float m = reduce->max ? rows->max(x, n) : 0.0f;
                if (reduce->max)
                    max[k] = m > max[k] || m != m || max[k] != max[k] ? (max[k] != max[k] ? max[k] : m) : max[k];
                else
                    sum[k] += (double)rows->sum(x, n);
            }
        }
    }
    for (uint32_t k = 0; k < reduce->n_out; k++) {
        float x = reduce->max ? max[k] : (float)sum[k];
        partial_put(ctx, reduce, cut, k, o, &x, 1);
    }
}

/* Sums each of `rows` rows of x, or takes their maxima. */
static void fold_rows(const cpu_row_kernels *k, const reduce_args *reduce, const void *x, size_t item, int64_t rows, double *sum)
{
    for (int64_t i = 0; i < rows; i++) {
        const void *row = (const char *)x + (size_t)(i * reduce->len) * item;
        if (reduce->max) {
            double m = (double)k->max(row, (size_t)reduce->len);
            sum[i] = m > sum[i] || m != m ? m : sum[i];
        } else {
            sum[i] += (double)k->sum(row, (size_t)reduce->len);
        }
    }
}

/* Reduces outputs [o, o + rows) of short rows in one cut: whole blocks are added to one another first. */
static void reduce_short_rows(cpu_map_run *run, const reduce_args *reduce, int64_t o, int64_t rows, int64_t cut)
{
    const cpu_isa *isa = run->ctx->isa;
    const cpu_row_kernels *kern = rows_of(isa, reduce);
    const bool bf16 = reduce->bf16_in.slot != YK_NONE;
    size_t n = (size_t)(rows * reduce->len);
    float *acc = (float *)(void *)(run->ctx->thread_ws + cpu_map_scratch(reduce->map)), out[CPU_MAP_MAX_BLOCK];
    double *sum = (double *)(void *)(acc + reduce->n_out * kit_round_bytes((size_t)(reduce->rows * reduce->len), 16));
    int64_t lo, hi;
    cpu_part(reduce->terms, (int)cut, (int)reduce->cuts, &lo, &hi);
    for (int64_t i = 0; i < reduce->n_out * reduce->rows; i++)
        sum[i] = reduce->max ? -INFINITY : 0.0;
    for (int64_t u = lo; u < hi; u++) {
        bool flush = u + 1 == hi || (u - lo) % FLUSH == FLUSH - 1, first = (u - lo) % FLUSH == 0;
        if (cpu_map_sums_rows(reduce->map)) {
            float *to[2] = {acc, acc + kit_round_bytes((size_t)(reduce->rows * reduce->len), 16)};
            for (int k = 0; k < 2 && first; k++)
                memset(to[k], 0, n * 4);
            cpu_map_sums(run, o * reduce->len + groups_position(reduce->reduced, reduce->n_reduced, u), n, to);
            for (int k = 0; k < 2 && flush; k++)
                fold_rows(isa->rows, reduce, to[k], 4, rows, sum + k * reduce->rows);
            continue;
        }
        const void *x = terms_of(run, reduce, o * reduce->len + groups_position(reduce->reduced, reduce->n_reduced, u), n);
        for (uint32_t k = 0; k < reduce->n_out; k++) {
            x = k ? cpu_map_result(run, k) : x;
            float *to = acc + k * kit_round_bytes((size_t)(reduce->rows * reduce->len), 16);
            if (first && flush)
                to = NULL;
            else if (first)
                isa->vec->to_f32(to, x, bf16 ? YK_BF16 : YK_F32, n);
            else
                (reduce->max ? kern->vmax : kern->add)(to, x, n);
            if (flush && to)
                fold_rows(isa->rows, reduce, to, 4, rows, sum + k * reduce->rows);
            else if (flush)
                fold_rows(kern, reduce, x, bf16 ? 2 : 4, rows, sum + k * reduce->rows);
        }
    }
    for (uint32_t k = 0; k < reduce->n_out; k++) {
        for (int64_t i = 0; i < rows; i++)
            out[i] = (float)sum[k * reduce->rows + i];
        partial_put(run->ctx, reduce, cut, k, o, out, (size_t)rows);
    }
}

/* Outputs [o, o + rows) with contiguous planes, one cut, in memory order. */
static void reduce_planes(cpu_map_run *run, const reduce_args *reduce, int64_t o, int64_t rows, int64_t cut)
{
    float part[2][MOST_ROWS], out[MOST_ROWS];
    double sum[2][MOST_ROWS] = {{0}};
    int64_t lo, hi;
    cpu_part(reduce->terms, (int)cut, (int)reduce->cuts, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        memset(part, 0, sizeof part);
        cpu_map_sums(run, o * reduce->len + groups_position(reduce->reduced, reduce->n_reduced, u), (size_t)(rows * reduce->len),
                     (float *[2]){part[0], part[1]});
        for (int k = 0; k < 2; k++)
            for (int64_t i = 0; i < rows; i++)
                sum[k][i] += (double)part[k][i];
    }
    for (uint32_t k = 0; k < 2; k++) {
        for (int64_t i = 0; i < rows; i++)
            out[i] = (float)sum[k][i];
        partial_put(run->ctx, reduce, cut, k, o, out, (size_t)rows);
    }
}

/* The sums of a tile: its outputs, reduce->tile apart, in f32; and after FLUSH rows in double, which maxima do not need. */
typedef struct tile_sums {
    float *acc;
    double *sum;
    int64_t pending; /* rows in acc */
} tile_sums;

static tile_sums tile_begin(const cpu_ctx *ctx, const reduce_args *reduce)
{
    const size_t n = (size_t)(reduce->n_out * reduce->tile);
    tile_sums tile = {.acc = (float *)(void *)(ctx->thread_ws + cpu_map_scratch(reduce->map))};
    tile.sum = (double *)(void *)(tile.acc + kit_round_bytes(n, 16));
    ctx->isa->vec->fill32(tile.acc, reduce->max ? 0xff800000u : 0, n);
    if (!reduce->max)
        memset(tile.sum, 0, n * sizeof *tile.sum);
    return tile;
}

/* n elements from column j on. */
static void tile_drain(const cpu_ctx *ctx, const reduce_args *reduce, const tile_sums *tile, int64_t j, size_t n)
{
    for (uint32_t k = 0; k < reduce->n_out && !reduce->max; k++)
        ctx->isa->vec->drain(tile->sum + k * reduce->tile + j, tile->acc + k * reduce->tile + j, n);
}

/* Adds `rows` rows of n elements, x for the first output, to the columns from j on. Several rows must be contiguous and whole; pending
 * rows are counted here. */
static void tile_fold(const cpu_map_run *run, const reduce_args *reduce, tile_sums *tile, int64_t j, const void *x, int64_t rows, size_t n)
{
    const cpu_row_kernels *kern = rows_of(run->ctx->isa, reduce);
    const size_t item = reduce->bf16_in.slot == YK_NONE ? 4 : 2;
    for (int64_t q = 0, some; q < rows; q += some) {
        some = rows - q < FLUSH - tile->pending ? rows - q : FLUSH - tile->pending;
        for (uint32_t k = 0; k < reduce->n_out; k++) {
            const void *from = k ? cpu_map_result(run, k) : x;
            for (int64_t i = q; i < q + some; i++)
                (reduce->max ? kern->vmax : kern->add)(tile->acc + k * reduce->tile + j, (const char *)from + (size_t)i * n * item, n);
        }
        if (rows > 1 && (tile->pending += some) == FLUSH) {
            tile_drain(run->ctx, reduce, tile, j, n);
            tile->pending = 0;
        }
    }
}

/* Reduces one tile of columns of one kept index in one cut, row after row. */
static void reduce_tile(cpu_map_run *run, const reduce_args *reduce, int64_t o, int64_t tile, int64_t cut)
{
    const cpu_ctx *ctx = run->ctx;
    int64_t j0 = tile * reduce->tile, n = reduce->len - j0 < reduce->tile ? reduce->len - j0 : reduce->tile, lo, hi;
    int64_t base = groups_position(reduce->kept, reduce->n_kept, o) + j0, block = cpu_map_block(reduce->map);
    /* short contiguous rows are evaluated together */
    bool follow = reduce->n_reduced == 1 && reduce->reduced[0].stride == reduce->len && n == reduce->len;
    int64_t group = follow && n < block ? block / n : 1, width = n < block ? n : block;
    tile_sums sums = tile_begin(ctx, reduce);
    cpu_part(reduce->terms, (int)cut, (int)reduce->cuts, &lo, &hi);
    for (int64_t u = lo; u < hi && !cpu_stops(ctx); u += group) {
        int64_t row = base + groups_position(reduce->reduced, reduce->n_reduced, u), rows = hi - u < group ? hi - u : group;
        for (int64_t j = 0; j < n; j += width) {
            size_t m = (size_t)(n - j < width ? n - j : width);
            tile_fold(run, reduce, &sums, j, terms_of(run, reduce, row + j, (size_t)rows * m), rows, m);
        }
        if (rows == 1 && ++sums.pending == FLUSH) {
            tile_drain(ctx, reduce, &sums, 0, (size_t)n);
            sums.pending = 0;
        }
    }
    tile_drain(ctx, reduce, &sums, 0, (size_t)n);
    for (uint32_t k = 0; k < reduce->n_out; k++) {
        for (int64_t j = 0; j < n && !reduce->max; j++)
            sums.acc[k * reduce->tile + j] = (float)sums.sum[k * reduce->tile + j];
        partial_put(ctx, reduce, cut, k, o * reduce->len + j0, sums.acc + k * reduce->tile, (size_t)n);
    }
}

static int64_t groups_of(const reduce_args *reduce)
{
    return (reduce->outputs + reduce->rows - 1) / reduce->rows;
}

static void reduce_step(const void *args, const cpu_ctx *ctx)
{
    const reduce_args *reduce = args;
    int64_t lo, hi;
    cpu_map_run run;
    cpu_map_begin(&run, reduce->map, ctx, ctx->thread_ws);
    cpu_part(groups_of(reduce) * reduce->tiles * reduce->cuts, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi && !cpu_stops(ctx); t++) {
        int64_t cut = t % reduce->cuts, tile = t / reduce->cuts % reduce->tiles, o = t / reduce->cuts / reduce->tiles;
        int64_t first = o * reduce->rows, rows = reduce->outputs - first < reduce->rows ? reduce->outputs - first : reduce->rows;
        if (reduce->planes)
            reduce_planes(&run, reduce, first, rows, cut);
        else if (reduce->rows > 1)
            reduce_short_rows(&run, reduce, first, rows, cut);
        else if (reduce->inner)
            reduce_row(&run, reduce, o, cut);
        else
            reduce_tile(&run, reduce, o, tile, cut);
    }
}

static void combine_step(const void *args, const cpu_ctx *ctx)
{
    const reduce_args *reduce = args;
    int64_t lo, hi;
    float acc[COLUMNS];
    double sum[COLUMNS];
    cpu_part(reduce->count, ctx->piece, ctx->pieces, &lo, &hi);
    for (uint32_t k = 0; k < reduce->n_out; k++)
        for (int64_t j = lo; j < hi; j += COLUMNS) {
            size_t n = (size_t)(hi - j < COLUMNS ? hi - j : COLUMNS);
            memset(sum, 0, n * sizeof *sum);
            memcpy(acc, partial_at(ctx, reduce, 0, k) + j, n * 4);
            for (int64_t cut = 0; cut < reduce->cuts; cut++)
                if (reduce->max)
                    ctx->isa->rows->vmax(acc, partial_at(ctx, reduce, cut, k) + j, n);
                else
                    ctx->isa->vec->drain(sum, partial_at(ctx, reduce, cut, k) + j, n);
            for (size_t i = 0; i < n && !reduce->max; i++)
                acc[i] = (float)sum[i];
            out_store(ctx, reduce, k, j, acc, n);
        }
}

/* ---- Planning ---- */

/* The axes of `shape`, neighbours of one sort joined; the innermost group becomes `len`. */
static void group_axes(reduce_args *reduce, const yk_value *shape, uint64_t mask)
{
    int64_t stride = 1;
    bool first = true;
    axis_group *last = NULL;
    int last_kind = -1;
    reduce->outputs = reduce->terms = reduce->len = 1;
    reduce->inner = true;
    for (int i = shape->dims - 1; i >= 0; stride *= shape->dim[i], i--) {
        int red = mask >> i & 1;
        if (shape->dim[i] == 1)
            continue;
        if (red == last_kind) {
            if (last)
                last->len *= shape->dim[i];
            else
                reduce->len *= shape->dim[i];
        } else if (first) {
            reduce->inner = red;
            reduce->len = shape->dim[i];
            first = false;
        } else {
            last = red ? &reduce->reduced[reduce->n_reduced++] : &reduce->kept[reduce->n_kept++];
            *last = (axis_group){shape->dim[i], stride};
        }
        last_kind = red;
    }
    for (int i = 0; i < reduce->n_kept; i++)
        reduce->outputs *= reduce->kept[i].len;
    for (int i = 0; i < reduce->n_reduced; i++)
        reduce->terms *= reduce->reduced[i].len;
}

/* Groups were found innermost first; groups_position wants the outermost first. */
static void groups_reverse(axis_group *g, int n)
{
    for (int i = 0; i < n / 2; i++) {
        axis_group t = g[i];
        g[i] = g[n - 1 - i];
        g[n - 1 - i] = t;
    }
}

static void choose_rows(reduce_args *reduce)
{
    int64_t block = cpu_map_block(reduce->map);
    reduce->rows = 1;
    if (!reduce->inner || reduce->n_kept != 1 || reduce->kept[0].stride != reduce->len)
        return;
    reduce->planes = !reduce->max && cpu_map_sums_planes(reduce->map, reduce->len) && reduce->len <= GROUP;
    if (reduce->planes)
        reduce->rows = GROUP / reduce->len < MOST_ROWS ? GROUP / reduce->len : MOST_ROWS;
    else if (reduce->len * 2 <= block)
        reduce->rows = block / reduce->len;
    reduce->rows = reduce->rows < reduce->outputs ? reduce->rows : reduce->outputs;
}

static void choose_cuts(reduce_args *reduce)
{
    reduce->pieces = reduce->inner ? (reduce->len + PIECE - 1) / PIECE : 1;
    reduce->tile = reduce->len < TILE ? reduce->len : TILE;
    reduce->tiles = reduce->inner ? 1 : (reduce->len + TILE - 1) / TILE;
    reduce->count = reduce->inner ? reduce->outputs : reduce->outputs * reduce->len;
    choose_rows(reduce);
    int64_t tasks = groups_of(reduce) * reduce->tiles, units = reduce->terms * reduce->pieces;
    int64_t unit = reduce->inner ? (reduce->len < PIECE ? reduce->len : PIECE) : reduce->tile;
    reduce->cuts = 1;
    if (tasks < MOST_CUTS && units * unit * reduce->rows >= 16384) {
        int64_t fit = units * unit * reduce->rows / 8192;
        reduce->cuts = MOST_CUTS / tasks < units ? MOST_CUTS / tasks : units;
        reduce->cuts = reduce->cuts < fit ? reduce->cuts : fit;
        if (!reduce->inner && reduce->cuts > units / LEAST)
            reduce->cuts = units < 2 * LEAST ? 1 : units / LEAST;
    }
}

static void emit_reduce(cpu_build *build, reduce_args *reduce, const yk_value *shape, uint64_t mask)
{
    group_axes(reduce, shape, mask);
    groups_reverse(reduce->kept, reduce->n_kept);
    groups_reverse(reduce->reduced, reduce->n_reduced);
    choose_cuts(reduce);
    size_t sums = reduce->n_out * (kit_round_bytes((size_t)(reduce->rows * reduce->len), 16) * 4 + (size_t)reduce->rows * 8);
    if (!reduce->inner)
        sums = kit_round_bytes(reduce->n_out * (size_t)reduce->tile, 16) * (sizeof(float) + sizeof(double));
    cpu_need_thread_ws(build, cpu_map_scratch(reduce->map) + (!reduce->inner || reduce->rows > 1 ? sums : 0));
    double work = (double)kit_value_count(shape) * (cpu_map_cost(reduce->map) + 0.1);
    cpu_emit(build, reduce_step, reduce, work);
    if (reduce->cuts > 1) {
        cpu_need_shared_ws(build, (size_t)(reduce->cuts * reduce->n_out * reduce->count) * 4);
        cpu_emit(build, combine_step, reduce, (double)(reduce->cuts * reduce->n_out * reduce->count) * 0.2);
    }
}

/* The operand of a body that only widens dense bf16 before the sum; its rows are then read in place. */
static cpu_ref cast_source(const cpu_build *build, const yk_node *node, uint32_t summed)
{
    const yk_node *body = &build->graph->node[node->body];
    for (const yk_node *s = body; node->n_body == 2 && s < body + 2; s++) {
        const yk_value *x = s->op == YK_OP_CAST && build->graph->index[s->out] == summed ? cpu_in(build, s, 0) : NULL;
        if (x && x->dtype == YK_BF16 && kit_value_dense(x))
            return cpu_ref_of(x);
    }
    return (cpu_ref){YK_NONE, 0};
}

void cpu_plan_map_sum(cpu_build *build, const yk_node *node)
{
    reduce_args *reduce = cpu_args(build, sizeof *reduce);
    uint32_t from[4], k = 0;
    uint64_t mask = 0;
    if (!reduce)
        return;
    const yk_node *body = &build->graph->node[node->body];
    for (k = 0; k < node->n_out && k < 4; k++) {
        uint32_t want = build->graph->index[node->out + k];
        for (const yk_node *s = body; s < body + node->n_body; s++)
            if (s->op == YK_OP_SUM && build->graph->index[s->out] == want) {
                from[k] = build->graph->index[s->in];
                mask = (uint64_t)cpu_attr(build, s, 0);
                reduce->n_out++;
            }
        reduce->out[k] = cpu_ref_of(cpu_out(build, node, k));
        reduce->dtype[k] = cpu_out(build, node, k)->dtype;
    }
    if (reduce->n_out != node->n_out || k != node->n_out) {
        cpu_refuse(build, node, "a result that is not one of the body's sums");
        return;
    }
    const yk_value *shape = &build->graph->value[from[0]];
    reduce->bf16_in = cast_source(build, node, from[0]);
    reduce->map = cpu_map_compile(build, node->body, node->n_body, shape, YK_NONE, from, node->n_out, false);
    if (reduce->map)
        emit_reduce(build, reduce, shape, mask);
}

/* ---- argmax: [outer, len, inner] ---- */

typedef struct argmax_args {
    cpu_ref x, y;
    uint8_t dtype;
    int64_t outer, len, inner;
} argmax_args;

static void argmax_step(const void *args, const cpu_ctx *ctx)
{
    const argmax_args *arg = args;
    int64_t lo, hi, item = yk_dtype_bytes(arg->dtype);
    int32_t *y = cpu_at(ctx, arg->y);
    cpu_part(arg->outer * arg->inner, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t o = lo; o < hi; o++) {
        const char *p = (const char *)cpu_at(ctx, arg->x) + (o / arg->inner * arg->len * arg->inner + o % arg->inner) * item;
        float best = 0.0f;
        int32_t besti = 0, at = 0;
        for (int64_t i = 0; i < arg->len; i++, p += arg->inner * item) {
            float f;
            int32_t q;
            bool more;
            if (arg->dtype == YK_I32) {
                memcpy(&q, p, 4);
                more = i == 0 || q > besti;
                besti = more ? q : besti;
            } else {
                ctx->isa->vec->to_f32(&f, p, arg->dtype, 1);
                more = i == 0 || f > best || (f != f && best == best);
                best = more ? f : best;
            }
            at = more ? (int32_t)i : at;
        }
        y[o] = at;
    }
}

static void plan_argmax(cpu_build *build, const yk_node *node)
{
    const yk_value *x = cpu_in(build, node, 0);
    int axis = (int)cpu_attr(build, node, 0);
    argmax_args *arg = cpu_args(build, sizeof *arg);
    if (!arg)
        return;
    if (!kit_value_dense(x)) {
        cpu_refuse(build, node, "a broadcast operand");
        return;
    }
    *arg = (argmax_args){cpu_ref_of(x), cpu_ref_of(cpu_out(build, node, 0)), x->dtype, 1, x->dim[axis], 1};
    for (int i = 0; i < x->dims; i++) {
        arg->outer *= i < axis ? x->dim[i] : 1;
        arg->inner *= i > axis ? x->dim[i] : 1;
    }
    cpu_emit(build, argmax_step, arg, (double)kit_value_count(x) * 2.0);
}

/* ---- i32: exact, small, and rare ---- */

typedef struct isum_args {
    cpu_ref x, y;
    bool max;
    int64_t stride[YK_MAX_DIMS], dim[YK_MAX_DIMS];
    int dims;
    uint64_t mask;
} isum_args;

static void isum_step(const void *args, const cpu_ctx *ctx)
{
    const isum_args *isum = args;
    const int32_t *x = cpu_at(ctx, isum->x);
    int32_t *y = cpu_at(ctx, isum->y);
    int64_t n = 1, outs = 1;
    for (int i = 0; i < isum->dims; i++) {
        n *= isum->dim[i];
        outs *= isum->mask >> i & 1 ? 1 : isum->dim[i];
    }
    for (int64_t o = 0; o < outs; o++)
        y[o] = isum->max ? INT32_MIN : 0;
    for (int64_t e = 0; e < n; e++) {
        int64_t rest = e, from = 0, to = 0, stride = 1;
        for (int i = isum->dims - 1; i >= 0; i--) {
            int64_t at = rest % isum->dim[i];
            rest /= isum->dim[i];
            from += at * isum->stride[i];
            if (!(isum->mask >> i & 1)) {
                to += at * stride;
                stride *= isum->dim[i];
            }
        }
        if (isum->max)
            y[to] = x[from] > y[to] ? x[from] : y[to];
        else
            y[to] = (int32_t)((uint32_t)y[to] + (uint32_t)x[from]);
    }
}

static void plan_int(cpu_build *build, const yk_node *node)
{
    const yk_value *x = cpu_in(build, node, 0);
    isum_args *isum = cpu_args(build, sizeof *isum);
    if (!isum)
        return;
    isum->x = cpu_ref_of(x);
    isum->y = cpu_ref_of(cpu_out(build, node, 0));
    isum->max = node->op == YK_OP_RMAX;
    isum->dims = x->dims;
    isum->mask = (uint64_t)cpu_attr(build, node, 0);
    memcpy(isum->dim, x->dim, sizeof isum->dim);
    memcpy(isum->stride, x->stride, sizeof isum->stride);
    cpu_emit(build, isum_step, isum, 0.0);
}

void cpu_plan_reduce(cpu_build *build, const yk_node *node)
{
    const yk_value *x = cpu_in(build, node, 0), *y = cpu_out(build, node, 0);
    if (node->op == YK_OP_ARGMAX) {
        plan_argmax(build, node);
        return;
    }
    if (x->dtype == YK_I32) {
        plan_int(build, node);
        return;
    }
    reduce_args *reduce = cpu_args(build, sizeof *reduce);
    if (!reduce)
        return;
    reduce->max = node->op == YK_OP_RMAX;
    reduce->n_out = 1;
    reduce->out[0] = cpu_ref_of(y);
    reduce->bf16_in = x->dtype == YK_BF16 && kit_value_dense(x) ? cpu_ref_of(x) : (cpu_ref){YK_NONE, 0};
    reduce->dtype[0] = y->dtype;
    reduce->map = cpu_map_compile(build, 0, 0, x, YK_NONE, &build->graph->index[node->in], 1, false);
    if (reduce->map)
        emit_reduce(build, reduce, x, (uint64_t)cpu_attr(build, node, 0));
}
