/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and maxima over any set of axes, of a tensor or of an elementwise program's results (map_sum). The order in
 * which an output's terms are added depends on the shape alone: the reduced range is cut into `cuts` parts, each
 * summed into its own partial result by whichever worker, and the partials are added in order by a second step.
 */
#include "backends/cpu/map/map.h"

#include <math.h>
#include <string.h>

#define COLUMNS 512  /* of partial results at a time */
#define TILE 4096    /* most columns of a tile when the innermost axis is kept: whole rows are read as they lie in memory */
#define LEAST 32     /* rows of a cut of such tiles */
#define PIECE 65536  /* elements of the innermost axis at a time when it is reduced */
#define MOST_CUTS 64
#define GROUP 16384  /* elements of neighbouring planes that are summed by one worker */
#define MOST_ROWS 64 /* ... and as many planes at most */
#define FLUSH 64     /* rows that are added up in f32 before the sum is taken in double */

typedef struct axis_group {
    int64_t len, stride; /* in elements of the input's linear order */
} axis_group;

typedef struct reduce_args {
    const cpu_map *map;
    cpu_ref bf16_in; /* a dense operand of bf16 that is reduced where it lies; or nothing, and the map's results are */
    bool max, inner; /* inner: the innermost group is reduced */
    int nk, nr;      /* kept and reduced groups without the innermost, outermost first */
    axis_group kept[YK_MAX_DIMS], red[YK_MAX_DIMS];
    int64_t outs, terms, len; /* products of the kept, of the reduced groups; length of the innermost */
    int64_t pieces;           /* of the innermost when it is reduced */
    int64_t rows;             /* outputs whose short rows lie behind one another and are evaluated together */
    bool planes;              /* the map adds up the planes of `rows` outputs by itself */
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

static void out_store(const cpu_ctx *c, const reduce_args *a, uint32_t k, int64_t at, const float *x, size_t n)
{
    char *p = cpu_at(c, a->out[k]);
    if (a->dtype[k] == YK_I32)
        memcpy(p + at * 4, x, n * 4);
    else
        c->isa->from_f32(p + at * (a->dtype[k] == YK_F32 ? 4 : 2), x, a->dtype[k], n);
}

/* partial results: [cut][output][element] */
static float *partial_at(const cpu_ctx *c, const reduce_args *a, int64_t cut, uint32_t k)
{
    return (float *)(void *)c->shared_ws + (cut * a->n_out + k) * a->count;
}

static void partial_put(const cpu_ctx *c, const reduce_args *a, int64_t cut, uint32_t k, int64_t at, const float *x, size_t n)
{
    if (a->cuts == 1)
        out_store(c, a, k, at, x, n);
    else
        memcpy(partial_at(c, a, cut, k) + at, x, n * 4);
}

static const cpu_rows *rows_of(const cpu_isa *isa, const reduce_args *a)
{
    return cpu_rows_of(isa, a->bf16_in.slot == YK_NONE ? YK_F32 : YK_BF16);
}

/* The terms [pos, pos + n) of the first output, as rows_of's kernels read them; those of the others are the map's. */
static const void *terms_of(cpu_map_run *r, const reduce_args *a, int64_t pos, size_t n)
{
    if (a->bf16_in.slot != YK_NONE)
        return (const char *)cpu_at(r->ctx, a->bf16_in) + pos * 2;
    cpu_map_eval(r, pos, n, NULL);
    return cpu_map_result(r, 0);
}

/* One output element, one cut: the innermost axis is summed by vectors, block sums in double. */
static void reduce_row(cpu_map_run *r, const reduce_args *a, int64_t o, int64_t cut)
{
    const cpu_ctx *c = r->ctx;
    const cpu_rows *rows = rows_of(c->isa, a);
    int64_t base = groups_position(a->kept, a->nk, o), block = cpu_map_block(a->map), lo, hi;
    double sum[4] = {0};
    float max[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    cpu_part(a->terms * a->pieces, (int)cut, (int)a->cuts, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        int64_t from = u % a->pieces * PIECE, end = from + PIECE < a->len ? from + PIECE : a->len;
        int64_t row = base + groups_position(a->red, a->nr, u / a->pieces);
        for (int64_t e = from; e < end; e += block) {
            size_t n = (size_t)(end - e < block ? end - e : block);
            const void *x = terms_of(r, a, row + e, n);
            for (uint32_t k = 0; k < a->n_out; k++) {
                x = k ? cpu_map_result(r, k) : x;
                float m = a->max ? rows->max(x, n) : 0.0f;
                if (a->max)
                    max[k] = m > max[k] || m != m || max[k] != max[k] ? (max[k] != max[k] ? max[k] : m) : max[k];
                else
                    sum[k] += (double)rows->sum(x, n);
            }
        }
    }
    for (uint32_t k = 0; k < a->n_out; k++) {
        float x = a->max ? max[k] : (float)sum[k];
        partial_put(c, a, cut, k, o, &x, 1);
    }
}

/* Adds up each of `rows` rows of x, or takes their maxima. */
static void fold_rows(const cpu_rows *k, const reduce_args *a, const void *x, size_t item, int64_t rows, double *sum)
{
    for (int64_t i = 0; i < rows; i++) {
        const void *row = (const char *)x + (size_t)(i * a->len) * item;
        if (a->max) {
            double m = (double)k->max(row, (size_t)a->len);
            sum[i] = m > sum[i] || m != m ? m : sum[i];
        } else {
            sum[i] += (double)k->sum(row, (size_t)a->len);
        }
    }
}

/* Outputs [o, o + rows) of short rows, one cut: whole blocks are added to one another first. */
static void reduce_short_rows(cpu_map_run *r, const reduce_args *a, int64_t o, int64_t rows, int64_t cut)
{
    const cpu_isa *isa = r->ctx->isa;
    const cpu_rows *kern = rows_of(isa, a);
    const bool bf16 = a->bf16_in.slot != YK_NONE;
    size_t n = (size_t)(rows * a->len);
    float *acc = (float *)(void *)(r->ctx->thread_ws + cpu_map_scratch(a->map)), out[CPU_MAP_MAX_BLOCK];
    double *sum = (double *)(void *)(acc + a->n_out * cpu_round((size_t)(a->rows * a->len), 16));
    int64_t lo, hi;
    cpu_part(a->terms, (int)cut, (int)a->cuts, &lo, &hi);
    for (int64_t i = 0; i < a->n_out * a->rows; i++)
        sum[i] = a->max ? -INFINITY : 0.0;
    for (int64_t u = lo; u < hi; u++) {
        bool flush = u + 1 == hi || (u - lo) % FLUSH == FLUSH - 1, first = (u - lo) % FLUSH == 0;
        if (cpu_map_has_sums(a->map, true)) {
            float *to[2] = {acc, acc + cpu_round((size_t)(a->rows * a->len), 16)};
            for (int k = 0; k < 2 && first; k++)
                memset(to[k], 0, n * 4);
            cpu_map_sums(r, o * a->len + groups_position(a->red, a->nr, u), n, to);
            for (int k = 0; k < 2 && flush; k++)
                fold_rows(isa->rows, a, to[k], 4, rows, sum + k * a->rows);
            continue;
        }
        const void *x = terms_of(r, a, o * a->len + groups_position(a->red, a->nr, u), n);
        for (uint32_t k = 0; k < a->n_out; k++) {
            x = k ? cpu_map_result(r, k) : x;
            float *to = acc + k * cpu_round((size_t)(a->rows * a->len), 16);
            if (first && flush)
                to = NULL;
            else if (first)
                isa->to_f32(to, x, bf16 ? YK_BF16 : YK_F32, n);
            else
                (a->max ? kern->vmax : kern->add)(to, x, n);
            if (flush && to)
                fold_rows(isa->rows, a, to, 4, rows, sum + k * a->rows);
            else if (flush)
                fold_rows(kern, a, x, bf16 ? 2 : 4, rows, sum + k * a->rows);
        }
    }
    for (uint32_t k = 0; k < a->n_out; k++) {
        for (int64_t i = 0; i < rows; i++)
            out[i] = (float)sum[k * a->rows + i];
        partial_put(r->ctx, a, cut, k, o, out, (size_t)rows);
    }
}

/* Outputs [o, o + rows) of planes that lie behind one another, one cut: in the order of memory. */
static void reduce_planes(cpu_map_run *r, const reduce_args *a, int64_t o, int64_t rows, int64_t cut)
{
    float part[2][MOST_ROWS], out[MOST_ROWS];
    double sum[2][MOST_ROWS] = {{0}};
    int64_t lo, hi;
    cpu_part(a->terms, (int)cut, (int)a->cuts, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        memset(part, 0, sizeof part);
        cpu_map_sums(r, o * a->len + groups_position(a->red, a->nr, u), (size_t)(rows * a->len), (float *[2]){part[0], part[1]});
        for (int k = 0; k < 2; k++)
            for (int64_t i = 0; i < rows; i++)
                sum[k][i] += (double)part[k][i];
    }
    for (uint32_t k = 0; k < 2; k++) {
        for (int64_t i = 0; i < rows; i++)
            out[i] = (float)sum[k][i];
        partial_put(r->ctx, a, cut, k, o, out, (size_t)rows);
    }
}

/* Adds `rows` rows of n elements, x for the first output, to those of the tile, which are a->tile apart. */
static void fold_tile(const cpu_map_run *r, const reduce_args *a, float *acc, const void *x, int64_t rows, size_t n)
{
    const cpu_rows *kern = rows_of(r->ctx->isa, a);
    const size_t item = a->bf16_in.slot == YK_NONE ? 4 : 2;
    for (uint32_t k = 0; k < a->n_out; k++) {
        x = k ? cpu_map_result(r, k) : x;
        for (int64_t q = 0; q < rows; q++)
            (a->max ? kern->vmax : kern->add)(acc + k * a->tile, (const char *)x + (size_t)q * n * item, n);
    }
}

/* A tile of columns of one kept index, one cut: row after row. */
static void reduce_tile(cpu_map_run *r, const reduce_args *a, int64_t o, int64_t tile, int64_t cut)
{
    const cpu_ctx *c = r->ctx;
    int64_t j0 = tile * a->tile, n = a->len - j0 < a->tile ? a->len - j0 : a->tile, lo, hi;
    int64_t base = groups_position(a->kept, a->nk, o) + j0, block = cpu_map_block(a->map);
    /* rows that follow each other in memory and are short are evaluated together */
    bool follow = a->nr == 1 && a->red[0].stride == a->len && n == a->len;
    int64_t group = follow && n < block ? block / n : 1, width = n < block ? n : block;
    float *acc = (float *)(void *)(c->thread_ws + cpu_map_scratch(a->map));
    cpu_part(a->terms, (int)cut, (int)a->cuts, &lo, &hi);
    c->isa->fill32(acc, a->max ? 0xff800000u : 0, (size_t)(a->n_out * a->tile));
    for (int64_t u = lo; u < hi; u += group) {
        int64_t row = base + groups_position(a->red, a->nr, u), rows = hi - u < group ? hi - u : group;
        for (int64_t j = 0; j < n; j += width) {
            size_t m = (size_t)(n - j < width ? n - j : width);
            fold_tile(r, a, acc + j, terms_of(r, a, row + j, (size_t)rows * m), rows, m);
        }
    }
    for (uint32_t k = 0; k < a->n_out; k++)
        partial_put(c, a, cut, k, o * a->len + j0, acc + k * a->tile, (size_t)n);
}

static int64_t groups_of(const reduce_args *a)
{
    return (a->outs + a->rows - 1) / a->rows;
}

static void reduce_step(const void *args, const cpu_ctx *c)
{
    const reduce_args *a = args;
    int64_t lo, hi;
    cpu_map_run r;
    cpu_map_begin(&r, a->map, c, c->thread_ws);
    cpu_part(groups_of(a) * a->tiles * a->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t cut = t % a->cuts, tile = t / a->cuts % a->tiles, o = t / a->cuts / a->tiles;
        int64_t first = o * a->rows, rows = a->outs - first < a->rows ? a->outs - first : a->rows;
        if (a->planes)
            reduce_planes(&r, a, first, rows, cut);
        else if (a->rows > 1)
            reduce_short_rows(&r, a, first, rows, cut);
        else if (a->inner)
            reduce_row(&r, a, o, cut);
        else
            reduce_tile(&r, a, o, tile, cut);
    }
}

static void combine_step(const void *args, const cpu_ctx *c)
{
    const reduce_args *a = args;
    int64_t lo, hi;
    float acc[COLUMNS];
    cpu_part(a->count, c->tid, c->nt, &lo, &hi);
    for (uint32_t k = 0; k < a->n_out; k++)
        for (int64_t j = lo; j < hi; j += COLUMNS) {
            size_t n = (size_t)(hi - j < COLUMNS ? hi - j : COLUMNS);
            memcpy(acc, partial_at(c, a, 0, k) + j, n * 4);
            for (int64_t cut = 1; cut < a->cuts; cut++)
                (a->max ? c->isa->rows->vmax : c->isa->rows->add)(acc, partial_at(c, a, cut, k) + j, n);
            out_store(c, a, k, j, acc, n);
        }
}

/* ---- Planning ---- */

/* The axes of `shape`, neighbours of one sort joined; the innermost group becomes `len`. */
static void group_axes(reduce_args *a, const yk_value *shape, uint64_t mask)
{
    int64_t stride = 1;
    bool first = true;
    axis_group *last = NULL;
    int last_kind = -1;
    a->outs = a->terms = a->len = 1;
    a->inner = true;
    for (int i = shape->dims - 1; i >= 0; stride *= shape->dim[i], i--) {
        int red = mask >> i & 1;
        if (shape->dim[i] == 1)
            continue;
        if (red == last_kind) {
            if (last)
                last->len *= shape->dim[i];
            else
                a->len *= shape->dim[i];
        } else if (first) {
            a->inner = red;
            a->len = shape->dim[i];
            first = false;
        } else {
            last = red ? &a->red[a->nr++] : &a->kept[a->nk++];
            *last = (axis_group){shape->dim[i], stride};
        }
        last_kind = red;
    }
    for (int i = 0; i < a->nk; i++)
        a->outs *= a->kept[i].len;
    for (int i = 0; i < a->nr; i++)
        a->terms *= a->red[i].len;
}

/* found innermost first; position() wants the outermost first */
static void groups_reverse(axis_group *g, int n)
{
    for (int i = 0; i < n / 2; i++) {
        axis_group t = g[i];
        g[i] = g[n - 1 - i];
        g[n - 1 - i] = t;
    }
}

static void choose_rows(reduce_args *a)
{
    int64_t block = cpu_map_block(a->map);
    a->rows = 1;
    if (!a->inner || a->nk != 1 || a->kept[0].stride != a->len)
        return;
    a->planes = !a->max && cpu_map_has_sums(a->map, false) && a->len <= GROUP;
    if (a->planes)
        a->rows = GROUP / a->len < MOST_ROWS ? GROUP / a->len : MOST_ROWS;
    else if (a->len * 2 <= block)
        a->rows = block / a->len;
    a->rows = a->rows < a->outs ? a->rows : a->outs;
}

static void choose_cuts(reduce_args *a)
{
    a->pieces = a->inner ? (a->len + PIECE - 1) / PIECE : 1;
    a->tile = a->len < TILE ? a->len : TILE;
    a->tiles = a->inner ? 1 : (a->len + TILE - 1) / TILE;
    a->count = a->inner ? a->outs : a->outs * a->len;
    choose_rows(a);
    int64_t tasks = groups_of(a) * a->tiles, units = a->terms * a->pieces;
    int64_t unit = a->inner ? (a->len < PIECE ? a->len : PIECE) : a->tile;
    a->cuts = 1;
    if (tasks < MOST_CUTS && units * unit * a->rows >= 16384) {
        int64_t fit = units * unit * a->rows / 8192;
        a->cuts = MOST_CUTS / tasks < units ? MOST_CUTS / tasks : units;
        a->cuts = a->cuts < fit ? a->cuts : fit;
        if (!a->inner && a->cuts > units / LEAST)
            a->cuts = units < 2 * LEAST ? 1 : units / LEAST;
    }
}

static void emit_reduce(cpu_build *b, reduce_args *a, const yk_value *shape, uint64_t mask)
{
    group_axes(a, shape, mask);
    groups_reverse(a->kept, a->nk);
    groups_reverse(a->red, a->nr);
    choose_cuts(a);
    size_t sums = a->n_out * (cpu_round((size_t)(a->rows * a->len), 16) * 4 + (size_t)a->rows * 8);
    cpu_need_thread_ws(b, cpu_map_scratch(a->map) + (!a->inner ? a->n_out * (size_t)a->tile * 4 : a->rows > 1 ? sums : 0));
    double work = (double)cpu_count(shape) * (cpu_map_cost(a->map) + 0.1);
    cpu_emit(b, reduce_step, a, work);
    if (a->cuts > 1) {
        cpu_need_shared_ws(b, (size_t)(a->cuts * a->n_out * a->count) * 4);
        cpu_emit(b, combine_step, a, (double)(a->cuts * a->n_out * a->count) * 0.2);
    }
}

/* What a body sums if it only widens a dense operand of bf16 first; its rows are then read where they lie. */
static cpu_ref cast_source(const cpu_build *b, const yk_node *n, uint32_t summed)
{
    const yk_node *body = &b->g->node[n->body];
    for (const yk_node *s = body; n->n_body == 2 && s < body + 2; s++) {
        const yk_value *x = s->op == YK_OP_CAST && b->g->index[s->out] == summed ? cpu_in(b, s, 0) : NULL;
        if (x && x->dtype == YK_BF16 && cpu_is_dense(x))
            return cpu_ref_of(x);
    }
    return (cpu_ref){YK_NONE, 0};
}

void cpu_plan_map_sum(cpu_build *b, const yk_node *n)
{
    reduce_args *a = cpu_args(b, sizeof *a);
    uint32_t from[4], k = 0;
    uint64_t mask = 0;
    if (!a)
        return;
    const yk_node *body = &b->g->node[n->body];
    for (k = 0; k < n->n_out && k < 4; k++) {
        uint32_t want = b->g->index[n->out + k];
        for (const yk_node *s = body; s < body + n->n_body; s++)
            if (s->op == YK_OP_SUM && b->g->index[s->out] == want) {
                from[k] = b->g->index[s->in];
                mask = (uint64_t)cpu_attr(b, s, 0);
                a->n_out++;
            }
        a->out[k] = cpu_ref_of(cpu_out(b, n, k));
        a->dtype[k] = cpu_out(b, n, k)->dtype;
    }
    if (a->n_out != n->n_out || k != n->n_out) {
        cpu_refuse(b, n, "a result that is not one of the body's sums");
        return;
    }
    const yk_value *shape = &b->g->value[from[0]];
    a->bf16_in = cast_source(b, n, from[0]);
    a->map = cpu_map_compile(b, n->body, n->n_body, shape, YK_NONE, from, n->n_out, false);
    if (a->map)
        emit_reduce(b, a, shape, mask);
}

/* ---- argmax: [outer, len, inner] ---- */

typedef struct argmax_args {
    cpu_ref x, y;
    uint8_t dtype;
    int64_t outer, len, inner;
} argmax_args;

static void argmax_step(const void *args, const cpu_ctx *c)
{
    const argmax_args *a = args;
    int64_t lo, hi, item = yk_dtype_bytes(a->dtype);
    int32_t *y = cpu_at(c, a->y);
    cpu_part(a->outer * a->inner, c->tid, c->nt, &lo, &hi);
    for (int64_t o = lo; o < hi; o++) {
        const char *p = (const char *)cpu_at(c, a->x) + (o / a->inner * a->len * a->inner + o % a->inner) * item;
        float best = 0.0f;
        int32_t besti = 0, at = 0;
        for (int64_t i = 0; i < a->len; i++, p += a->inner * item) {
            float f;
            int32_t q;
            bool more;
            if (a->dtype == YK_I32) {
                memcpy(&q, p, 4);
                more = i == 0 || q > besti;
                besti = more ? q : besti;
            } else {
                c->isa->to_f32(&f, p, a->dtype, 1);
                more = i == 0 || f > best || (f != f && best == best);
                best = more ? f : best;
            }
            at = more ? (int32_t)i : at;
        }
        y[o] = at;
    }
}

static void plan_argmax(cpu_build *b, const yk_node *n)
{
    const yk_value *x = cpu_in(b, n, 0);
    int axis = (int)cpu_attr(b, n, 0);
    argmax_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    if (!cpu_is_dense(x)) {
        cpu_refuse(b, n, "a broadcast operand");
        return;
    }
    *a = (argmax_args){cpu_ref_of(x), cpu_ref_of(cpu_out(b, n, 0)), x->dtype, 1, x->dim[axis], 1};
    for (int i = 0; i < x->dims; i++) {
        a->outer *= i < axis ? x->dim[i] : 1;
        a->inner *= i > axis ? x->dim[i] : 1;
    }
    cpu_emit(b, argmax_step, a, (double)cpu_count(x) * 2.0);
}

/* ---- i32: exact, small, and rare ---- */

typedef struct isum_args {
    cpu_ref x, y;
    bool max;
    int64_t stride[YK_MAX_DIMS], dim[YK_MAX_DIMS];
    int dims;
    uint64_t mask;
} isum_args;

static void isum_step(const void *args, const cpu_ctx *c)
{
    const isum_args *a = args;
    const int32_t *x = cpu_at(c, a->x);
    int32_t *y = cpu_at(c, a->y);
    int64_t n = 1, outs = 1;
    for (int i = 0; i < a->dims; i++) {
        n *= a->dim[i];
        outs *= a->mask >> i & 1 ? 1 : a->dim[i];
    }
    for (int64_t o = 0; o < outs; o++)
        y[o] = a->max ? INT32_MIN : 0;
    for (int64_t e = 0; e < n; e++) {
        int64_t rest = e, from = 0, to = 0, stride = 1;
        for (int i = a->dims - 1; i >= 0; i--) {
            int64_t at = rest % a->dim[i];
            rest /= a->dim[i];
            from += at * a->stride[i];
            if (!(a->mask >> i & 1)) {
                to += at * stride;
                stride *= a->dim[i];
            }
        }
        if (a->max)
            y[to] = x[from] > y[to] ? x[from] : y[to];
        else
            y[to] = (int32_t)((uint32_t)y[to] + (uint32_t)x[from]);
    }
}

static void plan_int(cpu_build *b, const yk_node *n)
{
    const yk_value *x = cpu_in(b, n, 0);
    isum_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    a->x = cpu_ref_of(x);
    a->y = cpu_ref_of(cpu_out(b, n, 0));
    a->max = n->op == YK_OP_RMAX;
    a->dims = x->dims;
    a->mask = (uint64_t)cpu_attr(b, n, 0);
    memcpy(a->dim, x->dim, sizeof a->dim);
    memcpy(a->stride, x->stride, sizeof a->stride);
    cpu_emit(b, isum_step, a, 0.0);
}

void cpu_plan_reduce(cpu_build *b, const yk_node *n)
{
    const yk_value *x = cpu_in(b, n, 0), *y = cpu_out(b, n, 0);
    if (n->op == YK_OP_ARGMAX) {
        plan_argmax(b, n);
        return;
    }
    if (x->dtype == YK_I32) {
        plan_int(b, n);
        return;
    }
    reduce_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    a->max = n->op == YK_OP_RMAX;
    a->n_out = 1;
    a->out[0] = cpu_ref_of(y);
    a->bf16_in = x->dtype == YK_BF16 && cpu_is_dense(x) ? cpu_ref_of(x) : (cpu_ref){YK_NONE, 0};
    a->dtype[0] = y->dtype;
    a->map = cpu_map_compile(b, 0, 0, x, YK_NONE, &b->g->index[n->in], 1, false);
    if (a->map)
        emit_reduce(b, a, x, (uint64_t)cpu_attr(b, n, 0));
}
