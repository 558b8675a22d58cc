/* SPDX-License-Identifier: Apache-2.0 */
/* Sources and movement: fill, iota, rng, copy, gather, scatter_add. */
#include <string.h>

#include "backends/cpu/cpu.h"

#define BLOCK 1024
#define PIECE 16384 /* elements of a long copy at a time */

static int64_t item_of(const yk_value *v)
{
    return yk_dtype_bytes(v->dtype);
}

/* ---- fill, iota ---- */

typedef struct fill_args {
    cpu_ref y;
    int64_t n, item, len, inner; /* len, inner: of iota's axis */
    bool iota, floats;
    uint32_t bits;
} fill_args;

static void fill_step(const void *args, const cpu_ctx *c)
{
    const fill_args *a = args;
    char *y = cpu_at(c, a->y);
    int64_t lo, hi;
    cpu_part(a->n, c->tid, c->nt, &lo, &hi);
    if (a->iota) {
        for (int64_t i = lo; i < hi; i++) {
            int32_t at = (int32_t)(i / a->inner % a->len);
            float f = (float)at;
            memcpy(y + i * 4, a->floats ? (const void *)&f : (const void *)&at, 4);
        }
    } else if (a->item == 4) {
        c->isa->fill32(y + lo * 4, a->bits, (size_t)(hi - lo));
    } else if (a->item == 1) {
        memset(y + lo, (int)a->bits, (size_t)(hi - lo));
    } else {
        uint16_t h = (uint16_t)a->bits;
        for (int64_t i = lo; i < hi; i++)
            memcpy(y + i * 2, &h, 2);
    }
}

static void plan_fill(cpu_build *b, const yk_node *n)
{
    const yk_value *y = cpu_out(b, n, 0);
    fill_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    *a = (fill_args){.y = cpu_ref_of(y), .n = cpu_count(y), .item = item_of(y), .inner = 1, .len = 1};
    a->floats = y->dtype == YK_F32;
    if (n->op == YK_OP_IOTA) {
        int axis = (int)cpu_attr(b, n, 0);
        a->iota = true;
        a->len = y->dims ? y->dim[axis] : 1;
        for (int i = axis + 1; i < y->dims; i++)
            a->inner *= y->dim[i];
    } else {
        double x = yk_attr_f64(cpu_attr(b, n, 0));
        float f = (float)x;
        if (cpu_is_float(y->dtype))
            b->isa->from_f32(&a->bits, &f, y->dtype, 1);
        else
            a->bits = y->dtype == YK_BOOL ? x != 0.0 : (uint32_t)(int32_t)x;
    }
    cpu_emit(b, fill_step, a, (double)a->n * (a->iota ? 2.0 : 0.1));
}

/* ---- rng: random numbers by global row ---- */

typedef struct rng_args {
    cpu_ref y, key, rows;
    int64_t n, row; /* elements; elements of a row */
    uint32_t stream;
} rng_args;

static void uniform_range(const rng_args *a, const cpu_ctx *c, int64_t e, size_t n, float *u)
{
    const int32_t *rows = cpu_at(c, a->rows);
    uint32_t key[3];
    memcpy(key, cpu_at(c, a->key), sizeof key);
    while (n) {
        int64_t r = e / a->row, at = e % a->row;
        size_t m = (size_t)(a->row - at) < n ? (size_t)(a->row - at) : n;
        c->isa->uniform(u, key, a->stream, (uint64_t)rows[r] * (uint64_t)a->row + (uint64_t)at, m);
        e += (int64_t)m, u += m, n -= m;
    }
}

static void rng_step(const void *args, const cpu_ctx *c)
{
    const rng_args *a = args;
    float *y = cpu_at(c, a->y);
    int64_t lo, hi;
    cpu_part((a->n + BLOCK - 1) / BLOCK, c->tid, c->nt, &lo, &hi);
    hi = hi * BLOCK < a->n ? hi * BLOCK : a->n;
    if (lo * BLOCK < hi)
        uniform_range(a, c, lo * BLOCK, (size_t)(hi - lo * BLOCK), y + lo * BLOCK);
}

static void plan_rng(cpu_build *b, const yk_node *n)
{
    const yk_value *y = cpu_out(b, n, 0), *rows = cpu_in(b, n, 1);
    rng_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    *a = (rng_args){cpu_ref_of(y), cpu_ref_of(cpu_in(b, n, 0)), cpu_ref_of(rows), cpu_count(y),
                    cpu_count(y) / cpu_count(rows), (uint32_t)cpu_attr(b, n, 0)};
    cpu_emit(b, rng_step, a, (double)a->n * 1.0);
}

/* ---- copy: any strides to any strides ---- */

typedef struct copy_args {
    cpu_ref x, y;
    int64_t item;
    int dims; /* innermost first */
    int64_t len[YK_MAX_DIMS], sx[YK_MAX_DIMS], sy[YK_MAX_DIMS];
    int64_t outer, piece, pieces; /* the innermost axis is cut into pieces */
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

/* A run of a copy: its piece of the innermost axis, its places on the others, and where it lies in both operands. */
typedef struct copy_place {
    int64_t piece, at[YK_MAX_DIMS], x, y;
} copy_place;

static copy_place copy_first(const copy_args *a, int64_t t)
{
    copy_place p = {.piece = t % a->pieces};
    t /= a->pieces;
    for (int i = 1; i < a->dims; i++) {
        p.at[i] = t % a->len[i];
        p.x += p.at[i] * a->sx[i];
        p.y += p.at[i] * a->sy[i];
        t /= a->len[i];
    }
    return p;
}

static void copy_next(const copy_args *a, copy_place *p)
{
    if (++p->piece < a->pieces)
        return;
    p->piece = 0;
    for (int i = 1; i < a->dims; i++) {
        p->x += a->sx[i];
        p->y += a->sy[i];
        if (++p->at[i] < a->len[i])
            return;
        p->x -= a->sx[i] * a->len[i];
        p->y -= a->sy[i] * a->len[i];
        p->at[i] = 0;
    }
}

static void copy_step(const void *args, const cpu_ctx *c)
{
    const copy_args *a = args;
    const char *x = cpu_at(c, a->x);
    char *y = cpu_at(c, a->y);
    int64_t lo, hi;
    cpu_part(a->outer * a->pieces, c->tid, c->nt, &lo, &hi);
    copy_place p = copy_first(a, lo);
    for (int64_t t = lo; t < hi; t++) {
        const int64_t at = p.piece * a->piece, n = a->len[0] - at < a->piece ? a->len[0] - at : a->piece;
        copy_run(y + (p.y + at * a->sy[0]) * a->item, x + (p.x + at * a->sx[0]) * a->item, n, a->sy[0], a->sx[0], a->item);
        copy_next(a, &p);
    }
}

static void plan_copy(cpu_build *b, const yk_node *n)
{
    const yk_value *x = cpu_in(b, n, 0), *y = cpu_out(b, n, 0);
    copy_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    *a = (copy_args){.x = cpu_ref_of(x), .y = cpu_ref_of(y), .item = item_of(y), .outer = 1};
    for (int i = y->dims - 1; i >= 0; i--) {
        int last = a->dims - 1;
        int64_t sx = x->dim[i] > 1 ? x->stride[i] : 0;
        if (y->dim[i] == 1)
            continue;
        if (last >= 0 && sx == a->sx[last] * a->len[last] && y->stride[i] == a->sy[last] * a->len[last]) {
            a->len[last] *= y->dim[i];
            continue;
        }
        a->len[a->dims] = y->dim[i];
        a->sx[a->dims] = sx;
        a->sy[a->dims++] = y->stride[i];
    }
    if (!a->dims) {
        a->dims = 1;
        a->len[0] = a->sx[0] = a->sy[0] = 1;
    }
    for (int i = 1; i < a->dims; i++)
        a->outer *= a->len[i];
    a->piece = a->len[0] < PIECE ? a->len[0] : PIECE;
    a->pieces = (a->len[0] + a->piece - 1) / a->piece;
    bool dense = a->sx[0] == 1 && a->sy[0] == 1;
    cpu_emit(b, copy_step, a, (double)cpu_count(y) * (dense ? 0.1 : 0.6) + (double)a->outer * 5.0);
}

/* ---- gather, scatter_add ---- */

typedef struct index_args {
    cpu_ref x, index, y;
    int64_t n, v, inner; /* indices, rows of the table, elements of a row */
    uint8_t dx, dy;
    bool columns; /* scatter_add: workers share the columns of a row, else the rows of the table */
    bool add;     /* scatter_add: to what is there */
} index_args;

static void gather_step(const void *args, const cpu_ctx *c)
{
    const index_args *a = args;
    const int32_t *index = cpu_at(c, a->index);
    size_t bytes = (size_t)a->inner * yk_dtype_bytes(a->dx);
    const char *x = cpu_at(c, a->x);
    char *y = cpu_at(c, a->y);
    int64_t lo, hi;
    cpu_part(a->n, c->tid, c->nt, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        if (index[i] >= 0 && index[i] < a->v)
            memcpy(y + (size_t)i * bytes, x + (size_t)index[i] * bytes, bytes);
        else
            memset(y + (size_t)i * bytes, 0, bytes);
    }
}

/* out += rows of src in the order of the indices, for the part [r0, r1) x [j0, j1) of the table */
static void scatter_part(const index_args *a, const cpu_ctx *c, float *out, int64_t r0, int64_t r1, int64_t j0,
                         int64_t j1)
{
    const int32_t *index = cpu_at(c, a->index);
    const char *x = cpu_at(c, a->x);
    int64_t item = yk_dtype_bytes(a->dx);
    const cpu_rows *k = cpu_rows_of(c->isa, a->dx);
    float row[BLOCK];
    for (int64_t v = r0; v < r1 && !a->add; v++)
        memset(out + v * a->inner + j0, 0, (size_t)(j1 - j0) * 4);
    for (int64_t i = 0; i < a->n; i++) {
        if (index[i] < r0 || index[i] >= r1)
            continue;
        for (int64_t j = j0; j < j1; j += BLOCK) {
            size_t n = (size_t)(j1 - j < BLOCK ? j1 - j : BLOCK);
            const char *from = x + (i * a->inner + j) * item;
            float *to = out + index[i] * a->inner + j;
            if (a->dx == YK_F16)
                c->isa->to_f32(row, from, YK_F16, n);
            k->add(to, a->dx == YK_F16 ? (const void *)row : from, n);
        }
    }
}

static void scatter_step(const void *args, const cpu_ctx *c)
{
    const index_args *a = args;
    float *out = cpu_at(c, a->y);
    int64_t lo, hi;
    cpu_part(a->columns ? a->inner : a->v, c->tid, c->nt, &lo, &hi);
    if (a->columns)
        scatter_part(a, c, out, 0, a->v, lo, hi);
    else
        scatter_part(a, c, out, lo, hi, 0, a->inner);
}

/*
 * A table of 16 bits: a row is summed in f32 and rounded once, so it is made as a whole. `from` has the indices that name row
 * r, in their order, at first[r] .. first[r + 1] - 1.
 */
static int32_t *index_lists(const index_args *a, const cpu_ctx *c, int32_t **from)
{
    int32_t *first = (int32_t *)(void *)c->shared_ws;
    *from = first + a->v + 2;
    return first;
}

static void list_step(const void *args, const cpu_ctx *c)
{
    const index_args *a = args;
    const int32_t *index = cpu_at(c, a->index);
    int32_t *from, *first = index_lists(a, c, &from);
    if (c->tid)
        return;
    memset(first, 0, (size_t)(a->v + 2) * 4);
    for (int64_t i = 0; i < a->n; i++)
        if (index[i] >= 0 && index[i] < a->v)
            first[index[i] + 2]++;
    for (int64_t r = 2; r <= a->v; r++)
        first[r] += first[r - 1];
    for (int64_t i = 0; i < a->n; i++) /* first[r + 1] moves from the start of row r to its end */
        if (index[i] >= 0 && index[i] < a->v)
            from[first[index[i] + 1]++] = (int32_t)i;
}

/* Numbers [j, j + n) of one row: of those of x named by count indices. */
static void sum_row(const index_args *a, const cpu_ctx *c, const int32_t *from, int32_t count, int64_t j, size_t n, char *out)
{
    const cpu_rows *k = cpu_rows_of(c->isa, a->dx);
    const int64_t item = yk_dtype_bytes(a->dx);
    const char *x = (const char *)cpu_at(c, a->x) + j * item;
    float sum[BLOCK], row[BLOCK];
    if (a->add)
        c->isa->to_f32(sum, out, a->dy, n);
    else if (count)
        c->isa->to_f32(sum, x + from[0] * a->inner * item, a->dx, n);
    for (int32_t i = a->add ? 0 : 1; i < count; i++) {
        const void *p = x + from[i] * a->inner * item;
        if (a->dx == YK_F16)
            c->isa->to_f32(row, p, YK_F16, n);
        k->add(sum, a->dx == YK_F16 ? row : p, n);
    }
    c->isa->from_f32(out, sum, a->dy, n);
}

static void sum_rows_step(const void *args, const cpu_ctx *c)
{
    const index_args *a = args;
    int32_t *from, *first = index_lists(a, c, &from);
    int64_t lo, hi, item = yk_dtype_bytes(a->dy);
    cpu_part(a->v, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        char *y = (char *)cpu_at(c, a->y) + r * a->inner * item;
        const int32_t *at = from + first[r], count = first[r + 1] - first[r];
        if (!count && !a->add)
            memset(y, 0, (size_t)(a->inner * item));
        else if (count == 1 && !a->add && a->dx == a->dy)
            memcpy(y, (const char *)cpu_at(c, a->x) + at[0] * a->inner * item, (size_t)(a->inner * item));
        else
            for (int64_t j = 0; j < a->inner; j += BLOCK)
                sum_row(a, c, at, count, j, (size_t)(a->inner - j < BLOCK ? a->inner - j : BLOCK), y + j * item);
    }
}

static void plan_index(cpu_build *b, const yk_node *n)
{
    const yk_value *x = cpu_in(b, n, 0), *index = cpu_in(b, n, 1), *y = cpu_out(b, n, 0);
    const yk_value *table = n->op == YK_OP_GATHER ? x : y;
    index_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    if (!cpu_is_dense(x) || !cpu_is_dense(index)) {
        cpu_refuse(b, n, "a broadcast operand");
        return;
    }
    *a = (index_args){cpu_ref_of(x), cpu_ref_of(index), cpu_ref_of(y), cpu_count(index), table->dim[0], 1, x->dtype,
                      y->dtype, false, n->flags & YK_NODE_ACCUMULATE};
    a->inner = cpu_count(table) / a->v;
    double work = (double)(a->n * a->inner) * 0.3;
    if (n->op == YK_OP_GATHER) {
        cpu_emit(b, gather_step, a, work);
        return;
    }
    if (!cpu_is_float(y->dtype) || a->n > INT32_MAX) {
        cpu_refuse(b, n, "a sum that is not of floats, or of more than 2^31 rows");
        return;
    }
    if (a->dy != YK_F32) {
        cpu_need_shared_ws(b, (size_t)(a->v + 2 + a->n) * 4);
        cpu_emit(b, list_step, a, 0.0);
        cpu_emit(b, sum_rows_step, a, work + (double)(a->v * a->inner) * 0.1);
        return;
    }
    /* Columns share sums evenly whatever the indices; a large table that is zero but for a few rows is written in order. */
    a->columns = a->inner >= 64 * b->nt && (a->add || 4 * a->n >= a->v);
    cpu_emit(b, scatter_step, a, work + (a->add ? 0.0 : (double)(a->v * a->inner) * 0.1));
}

void cpu_plan_data(cpu_build *b, const yk_node *n)
{
    switch (n->op) {
    case YK_OP_FILL:
    case YK_OP_IOTA:
        plan_fill(b, n);
        break;
    case YK_OP_RNG:
        plan_rng(b, n);
        break;
    case YK_OP_COPY:
        plan_copy(b, n);
        break;
    default:
        plan_index(b, n);
    }
}
