/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products by a library over operands of 16 bits whose lines in memory are not aligned: GPT-2 has 50257 words. Libraries have fast kernels
 * only if pointers, lines, and the product's sizes along a line are multiples of 16 bytes ("Tensor Core usage" in NVIDIA's documentation).
 * Otherwise the kernels are slower by a factor of 7. So, if that saves more than it costs, each unaligned matrix is copied to scratch
 * memory. The copy has zeros up to the next multiple in lines and in numbers of lines. A result is copied back from there. Added terms are
 * zeros in both operands, so they add nothing. For each product for a library lower_dot.c asks here, while a program is made, in any
 * thread.
 *
 * A matrix whose lines are further apart than their length, as core/plan/padding.c makes them, has this padding already and is not copied.
 * Zeros are written into its padding if the padding is summed over. Other padding only makes rows and columns of the result that no node
 * reads.
 *
 * Copies are limited. A product that would need more is computed in parts of some rows of the result each. The parts depend on the shape
 * and the device alone, so that a product has the same bits each time.
 */
#include "plugins/kit/lower/lower_internal.h"

#include <stdio.h>

#define UNIT 8            /* elements that sizes become multiples of: 16 bytes, in 16 bits */
#define UNIT_BYTES 16
#define ROWS 128          /* a part's rows are a multiple of it, so that parts begin at multiples of KIT_PRODUCT_ALIGN */
#define PARTS_MOST 64
#define SCRATCH_MOST (1ull << 30) /* bytes of copies at a time, */
#define SCRATCH_SHARE 32          /* and this fraction of the device's memory */
#define EACH 8            /* LINES_EACH of kernels/lines.kc */
#define GRID_MOST 65535   /* groups in y and z */

/* Operations and bytes per second, and seconds of a launch, on an H200. Slow: with lines aligned to 2 bytes; twice that for 4. */
#define FAST 750e12
#define SLOW 95e12
#define COPIES 4.2e12
#define LAUNCH 3e-6
#define GAIN 0.75 /* the copies must take at most this part of the time without them, as other devices have other figures */

enum { A, B, C, MATRICES };

/* A matrix as it lies in memory: `count` lines of `length` elements. */
typedef struct stored {
    int64_t count, length, line; /* line: elements from one to the next */
    bool transposed;                 /* lines are columns */
} stored;

/* A part of the product. */
typedef struct part {
    stored from[MATRICES], to[MATRICES]; /* the matrices as they are; their copies */
    bool copied[MATRICES], zeros[MATRICES]; /* zeros: write zeros into the padding of a matrix that is not copied */
    kit_product product; /* that the library is asked for */
} part;

typedef struct wide {
    kit_lowering *ctx;
    const kit_product *p;  /* the product without copies */
    const uint32_t *value; /* A, B, C */
    bool behind;           /* C goes to scratch memory, at c_at, for a later launch */
    uint64_t c_at, at[MATRICES], bytes[MATRICES]; /* places and bytes of the copies */
    uint64_t workspace;
} wide;

/* ---- Shapes ---- */

static const kit_matrix *matrix_at(const kit_product *p, int i)
{
    return i == A ? &p->a : i == B ? &p->b : &p->c;
}

static int64_t element_of(const kit_product *p, int i)
{
    return yk_dtype_bytes(matrix_at(p, i)->dtype);
}

/* False: libraries do not take it. */
static bool stored_of(const kit_matrix *m, int64_t rows, int64_t cols, stored *s)
{
    const bool plain = m->col_stride == 1 && m->row_stride >= cols;
    if (!plain && (m->row_stride != 1 || m->col_stride < rows))
        return false;
    *s = plain ? (stored){rows, cols, m->row_stride, false} : (stored){cols, rows, m->col_stride, true};
    return s->count <= INT32_MAX - KIT_GROUP_MOST && s->length <= INT32_MAX - KIT_GROUP_MOST;
}

static bool part_stored(const kit_product *p, int64_t rows, stored s[MATRICES])
{
    return stored_of(&p->a, rows, p->terms, &s[A]) && stored_of(&p->b, p->terms, p->cols, &s[B]) && stored_of(&p->c, rows, p->cols, &s[C]);
}

/* Bytes that all lines of matrix i are aligned to, 16 at most. */
static uint64_t alignment_of(const kit_product *p, int i)
{
    stored s[MATRICES];
    const kit_matrix *m = matrix_at(p, i);
    part_stored(p, p->rows, s);
    const int64_t strides = s[i].line | (p->batch > 1 ? m->batch_stride : 0);
    const uint64_t bits = (uint64_t)(strides * element_of(p, i)) | m->align | UNIT_BYTES;
    return bits & (~bits + 1);
}

static int64_t count_of(const kit_product *p, int i)
{
    return p->batch > 1 && matrix_at(p, i)->batch_stride ? p->batch : 1;
}

static uint64_t bytes_of(const kit_product *p, int i, const stored *s)
{
    return (uint64_t)(count_of(p, i) * s->count * s->length * element_of(p, i));
}

static uint32_t aligned_at(uint32_t align, int64_t bytes)
{
    const uint64_t bits = align | (uint64_t)bytes;
    return (uint32_t)(bits & (~bits + 1));
}

/* Matrix i of the part: in place, from byte `from` on, or its copy. */
static kit_matrix part_matrix(const kit_product *p, int i, const part *x, int64_t from)
{
    const stored *s = &x->to[i];
    kit_matrix m = *matrix_at(p, i);
    m.align = x->copied[i] ? KIT_PRODUCT_ALIGN : aligned_at(m.align, from);
    if (x->copied[i]) {
        m.row_stride = s->transposed ? 1 : s->length;
        m.col_stride = s->transposed ? s->length : 1;
        m.batch_stride = m.batch_stride ? s->count * s->length : 0;
    }
    return m;
}

/* The bytes from the begin of A or C to its row m0. */
static int64_t part_offset(const kit_product *p, int i, int64_t m0)
{
    return i == B ? 0 : m0 * matrix_at(p, i)->row_stride * element_of(p, i);
}

/* Elements that a line of matrix i has room for, from where the part begins that has its rows from m0 on. */
static int64_t space_of(int i, const stored *s, int64_t m0)
{
    return s->line - (i == A && s->transposed ? m0 : 0);
}

/* Rows m0..m1 of the product. */
static void part_of(const kit_product *p, int64_t m0, int64_t m1, part *x)
{
    part_stored(p, m1 - m0, x->from);
    const int64_t rows = x->from[A].transposed ? kit_round_up(m1 - m0, UNIT) : m1 - m0;
    const int64_t cols = kit_round_up(p->cols, x->from[B].transposed ? UNIT_BYTES / element_of(p, C) : UNIT);
    const int64_t terms = x->from[A].transposed && !x->from[B].transposed ? p->terms : kit_round_up(p->terms, UNIT);
    const int64_t size[MATRICES][2] = {{rows, terms}, {terms, cols}, {rows, cols}};
    x->product = (kit_product){.batch = p->batch, .rows = rows, .cols = cols, .terms = terms, .accumulate = p->accumulate};
    for (int i = 0; i < MATRICES; i++) {
        const stored *from = &x->from[i];
        const bool transposed = from->transposed;
        x->to[i] = (stored){size[i][transposed], size[i][!transposed], size[i][!transposed], transposed};
        x->copied[i] = from->count != x->to[i].count || x->to[i].length > space_of(i, from, m0) || alignment_of(p, i) < UNIT_BYTES;
        x->zeros[i] = !x->copied[i] && x->to[i].length > from->length && ((i == A && !transposed) || (i == B && transposed));
    }
    x->product.a = part_matrix(p, A, x, part_offset(p, A, m0));
    x->product.b = part_matrix(p, B, x, 0);
    x->product.c = part_matrix(p, C, x, part_offset(p, C, m0));
}

/* ---- Does it pay ---- */

/* Bytes that the ends of padded lines are aligned to: 16 at most. */
static uint64_t ends_of(const kit_product *p, int i, const stored *from)
{
    const uint64_t bits = (uint64_t)(from->line > from->length ? from->length * element_of(p, i) : 0) | UNIT_BYTES;
    return bits & (~bits + 1);
}

static double time_max(double a, double b)
{
    return a > b ? a : b;
}

/* True for the whole product in one part. */
static bool copies_pay(const kit_product *p)
{
    part x;
    double bytes = 0, copies = 0;
    uint64_t least = UNIT_BYTES;
    part_of(p, 0, p->rows, &x);
    for (int i = 0; i < MATRICES; i++) {
        const uint64_t lines = alignment_of(p, i), ends = ends_of(p, i, &x.from[i]), alignment = ends < lines ? ends : lines;
        const double each = (double)bytes_of(p, i, &x.to[i]), times = i == C && p->accumulate ? 2 : 1;
        least = alignment < least ? alignment : least;
        bytes += each;
        copies += x.zeros[i] ? LAUNCH : 0;
        copies += x.copied[i] ? times * (2 * each / COPIES + LAUNCH) : 0;
    }
    const double moved = bytes / COPIES, operations = 2.0 * (double)p->batch * (double)p->rows * (double)p->cols * (double)p->terms;
    const double slow = time_max(operations / (SLOW * (double)least / 2), moved), fast = time_max(operations / FAST, moved);
    return least < UNIT_BYTES && fast + copies < GAIN * slow;
}

/* Bytes of all copies for parts of so many rows; the last part has fewer, and may need a copy that others do not. */
static uint64_t copies_bytes(const kit_product *p, int64_t rows, uint64_t bytes[MATRICES])
{
    part first, last;
    uint64_t sum = 0;
    part_of(p, 0, rows, &first);
    part_of(p, (p->rows - 1) / rows * rows, p->rows, &last);
    for (int i = 0; i < MATRICES; i++) {
        const uint64_t one = first.copied[i] ? bytes_of(p, i, &first.to[i]) : 0, other = last.copied[i] ? bytes_of(p, i, &last.to[i]) : 0;
        bytes[i] = kit_round_bytes(one > other ? one : other, KIT_PRODUCT_ALIGN);
        sum += bytes[i];
    }
    return sum;
}

/* All rows, without the last few if their lines have space for more: so the result is not copied for these. */
static int64_t most_rows(const kit_product *p)
{
    stored s[MATRICES];
    part_stored(p, p->rows, s);
    const bool cut = p->batch == 1 && s[A].transposed && s[A].line >= kit_round_up(p->rows, UNIT) && p->rows > UNIT;
    return cut ? p->rows / UNIT * UNIT : p->rows;
}

/* The rows of a part: as many as the limit leaves. 0: there is no such part. */
static int64_t part_rows(const kit_target *target, const kit_product *p, uint64_t bytes[MATRICES])
{
    const uint64_t share = target->memory / SCRATCH_SHARE, most = share && share < SCRATCH_MOST ? share : SCRATCH_MOST;
    const int64_t parts = p->batch > 1 ? 1 : PARTS_MOST;
    for (int64_t n = 1; n <= parts; n++) {
        const int64_t rows = n == 1 ? most_rows(p) : kit_min(p->rows, kit_round_up(kit_div_up(p->rows, n), ROWS));
        if (copies_bytes(p, rows, bytes) <= most)
            return rows;
    }
    return 0;
}

/* ---- Launches ---- */

/* Neighbouring work-items that take a row of so many elements. */
static int64_t across_of(int64_t team, int64_t length)
{
    int64_t across = UNIT;
    while (across < team && across * EACH < length)
        across *= 2;
    return across;
}

/* Adds matrix i in place; `from`: bytes to the begin of the part. */
static void whole_arg(const wide *w, int i, int64_t from)
{
    const int64_t element = element_of(w->p, i);
    if (i == C && w->behind)
        kit_arg_scratch(w->ctx, w->c_at + (uint64_t)from, (uint64_t)(w->p->batch * w->p->rows * w->p->cols * element - from),
                        (uint32_t)element);
    else
        kit_arg_value_at(w->ctx, w->value[i], from / element);
}

static void copy_arg(const wide *w, int i)
{
    kit_arg_scratch(w->ctx, w->at[i], w->bytes[i], (uint32_t)element_of(w->p, i));
}

/* Matrix i of a part to its copy, or back. */
static void copy_launch(const wide *w, int i, const part *x, int64_t from, bool back)
{
    const stored *of = back ? &x->to[i] : &x->from[i], *to = back ? &x->from[i] : &x->to[i];
    const int64_t own = matrix_at(w->p, i)->batch_stride, spaced = x->to[i].count * x->to[i].length;
    const int64_t team = kit_gpu_team(w->ctx->target);
    const int64_t across = across_of(team, to->length);
    kit_launch_add(w->ctx, "lines", element_of(w->p, i) == 2 ? "-DE=ushort" : "-DE=uint", "lines_copy",
                   kit_div_up(to->count, team / across), kit_div_up(to->length, across * EACH), count_of(w->p, i), (uint32_t)team);
    if (back)
        copy_arg(w, i);
    whole_arg(w, i, from);
    if (!back)
        copy_arg(w, i);
    kit_arg_i64(w->ctx, back ? spaced : own);
    kit_arg_i64(w->ctx, back ? own : spaced);
    kit_arg_i64(w->ctx, of->line);
    kit_arg_i64(w->ctx, to->line);
    kit_arg_i32(w->ctx, of->count);
    kit_arg_i32(w->ctx, of->length);
    kit_arg_i32(w->ctx, to->count);
    kit_arg_i32(w->ctx, to->length);
    kit_arg_i32(w->ctx, across);
}

/* Writes zeros into the padding of matrix i, up to the length that the product sees. */
static void zeros_launch(const wide *w, int i, const part *x, int64_t from)
{
    const int64_t length = x->from[i].length, more = x->to[i].length - length, team = kit_gpu_team(w->ctx->target);
    kit_launch_add(w->ctx, "lines", element_of(w->p, i) == 2 ? "-DE=ushort" : "-DE=uint", "lines_copy",
                   kit_div_up(x->from[i].count, team / UNIT), 1, count_of(w->p, i), (uint32_t)team);
    whole_arg(w, i, from);
    whole_arg(w, i, from + length * element_of(w->p, i));
    kit_arg_i64(w->ctx, 0);
    kit_arg_i64(w->ctx, matrix_at(w->p, i)->batch_stride);
    kit_arg_i64(w->ctx, 0);
    kit_arg_i64(w->ctx, x->from[i].line);
    kit_arg_i32(w->ctx, 0); /* no rows to copy */
    kit_arg_i32(w->ctx, 0);
    kit_arg_i32(w->ctx, x->from[i].count);
    kit_arg_i32(w->ctx, more);
    kit_arg_i32(w->ctx, UNIT);
}

static void part_launch(const wide *w, int64_t m0, const part *x)
{
    for (int i = 0; i < MATRICES; i++)
        if (x->copied[i] && (i == A || (i == B && m0 == 0) || (i == C && w->p->accumulate)))
            copy_launch(w, i, x, part_offset(w->p, i, m0), false);
    for (int i = 0; i < C; i++)
        if (x->zeros[i] && (i == A || m0 == 0))
            zeros_launch(w, i, x, part_offset(w->p, i, m0));
    kit_launch_add_product(w->ctx, &x->product);
    for (int i = 0; i < MATRICES; i++)
        if (x->copied[i])
            copy_arg(w, i);
        else
            whole_arg(w, i, part_offset(w->p, i, m0));
    kit_arg_scratch(w->ctx, 0, w->workspace, 1);
    if (x->copied[C])
        copy_launch(w, C, x, part_offset(w->p, C, m0), true);
}

/* True if the library takes all parts; *w gets the largest workspace. */
static bool parts_taken(wide *w, int64_t each)
{
    const kit_target *target = w->ctx->target;
    for (int64_t m0 = 0; m0 < w->p->rows; m0 += each) {
        part x;
        uint64_t workspace = 0;
        part_of(w->p, m0, kit_min(m0 + each, w->p->rows), &x);
        if (!target->product(target->dev, &x.product, &workspace))
            return false;
        w->workspace = workspace > w->workspace ? workspace : w->workspace;
    }
    return true;
}

static void places_find(wide *w)
{
    const kit_product *p = w->p;
    w->c_at = kit_round_bytes(w->workspace, KIT_PRODUCT_ALIGN);
    uint64_t end = w->c_at + (w->behind ? (uint64_t)(p->batch * p->rows * p->cols * element_of(p, C)) : 0);
    for (int i = 0; i < MATRICES; i++) {
        w->at[i] = kit_round_bytes(end, KIT_PRODUCT_ALIGN);
        end = w->at[i] + w->bytes[i];
    }
}

static bool product_fits(const kit_target *target, const kit_product *p)
{
    stored s[MATRICES];
    if (target->cpu_shape || target->lanes)
        return false;
    if ((p->a.dtype != YK_BF16 && p->a.dtype != YK_F16) || p->batch > GRID_MOST || !part_stored(p, p->rows, s))
        return false;
    for (int i = 0; i < MATRICES; i++)
        if (s[i].length > (int64_t)GRID_MOST * KIT_GROUP_LEAST * EACH)
            return false;
    return true;
}

bool kit_lines_product(kit_lowering *ctx, const kit_product *product, const uint32_t value[3], bool behind, uint64_t *at)
{
    wide w = {.ctx = ctx, .p = product, .value = value, .behind = behind};
    if (!product_fits(ctx->target, product) || !copies_pay(product))
        return false;
    const int64_t each = part_rows(ctx->target, product, w.bytes);
    if (!each || !parts_taken(&w, each))
        return false;
    places_find(&w);
    for (int64_t m0 = 0; m0 < product->rows; m0 += each) {
        part x;
        part_of(product, m0, kit_min(m0 + each, product->rows), &x);
        part_launch(&w, m0, &x);
    }
    ctx->target->host->log(3, ctx->target->plugin, "node %u: a product's lines are not aligned: copies of %llu bytes, parts: %lld",
                           ctx->node, (unsigned long long)(w.bytes[A] + w.bytes[B] + w.bytes[C]),
                           (long long)kit_div_up(product->rows, each));
    *at = w.c_at;
    return true;
}

void kit_lines_spread(kit_lowering *ctx, uint64_t at, uint64_t bytes, uint32_t value)
{
    const yk_value *v = &ctx->graph->value[value];
    const int64_t team = kit_gpu_team(ctx->target), across = across_of(team, v->dim[1]);
    kit_launch_add(ctx, "lines", "-DE=ushort", "lines_copy", kit_div_up(v->dim[0], team / across), kit_div_up(v->dim[1], across * EACH), 1,
                   (uint32_t)team);
    kit_arg_scratch(ctx, at, bytes, 2);
    kit_arg_value(ctx, value);
    kit_arg_i64(ctx, 0);
    kit_arg_i64(ctx, 0);
    kit_arg_i64(ctx, v->dim[1]);
    kit_arg_i64(ctx, v->stride[0]);
    for (int i = 0; i < 2; i++) { /* rows and columns there, and here */
        kit_arg_i32(ctx, v->dim[0]);
        kit_arg_i32(ctx, v->dim[1]);
    }
    kit_arg_i32(ctx, across);
}
