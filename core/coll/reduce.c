/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of collectives: sums and maxima over the members' data, in the order of rank numbers.
 *
 * Every algorithm ends here, in common memory (shm/), over messages (messages/) and in a job of one rank (solo.c). So all algorithms give
 * the same bits. The step thread or the progress thread calls it. Pure.
 */
#include "core/coll/reduce.h"

#include <math.h>
#include <string.h>

static void sum_f64(double *v, const void *const *part, uint32_t parts, uint64_t n)
{
    for (uint32_t r = 0; r < parts; r++) {
        const double *x = part[r];
        for (uint64_t i = 0; i < n; i++)
            v[i] = r ? v[i] + x[i] : x[i];
    }
}

static void max_f32(float *v, const void *const *part, uint32_t parts, uint64_t from, uint64_t n)
{
    for (uint32_t r = 0; r < parts; r++) {
        const float *x = (const float *)part[r] + from;
        for (uint64_t i = 0; i < n; i++)
            if (!r || x[i] > v[i] || isnan(x[i]))
                v[i] = x[i];
    }
}

static void join_moments(const yk__coll_desc *d, const void *const *part, uint32_t parts, uint64_t i)
{
    float *v = d->out;
    double mean = 0.0, square = 0.0, count = 0.0;
    for (uint32_t r = 0; r < parts; r++) {
        const float *x = (const float *)part[r] + i;
        const double n = (double)x[2 * d->count], delta = (double)x[0] - mean;
        if (n == 0.0)
            continue;
        square += (double)x[d->count] + delta * delta * (count * n / (count + n));
        mean += delta * (n / (count + n));
        count += n;
    }
    v[i] = (float)mean;
    v[d->pitch + i] = (float)square;
    v[2 * d->pitch + i] = (float)count;
}

void yk__reduce_small(const yk__coll_desc *d, const void *const *part, uint32_t parts)
{
    if (d->op == YK__COLL_MOMENTS) {
        for (uint64_t i = 0; i < d->count; i++)
            join_moments(d, part, parts, i);
        return;
    }
    if (d->dtype == YK_F64) {
        sum_f64(d->out, part, parts, d->count);
        return;
    }
    for (uint32_t row = 0; row < d->rows; row++)
        if (d->op == YK__COLL_MAX)
            max_f32((float *)d->out + row * d->pitch, part, parts, row * d->count, d->count);
        else
            yk__reduce_slice(part, parts, row * d->count, d->count, (float *)d->out + row * d->pitch, NULL);
}

enum {
    SUM_BLOCK = 1024,
    SUM_RANKS = 32 /* members whose sum is kept apart: with equal members each addition loses up to 2e-8 of the running sum */
};

/* The constant count lets the compiler use vectors at -O2 too. */
static void add_block(float *restrict acc, const float *restrict x)
{
    for (int i = 0; i < SUM_BLOCK; i++)
        acc[i] += x[i];
}

static void add_some(float *restrict acc, const float *restrict x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        acc[i] += x[i];
}

/* acc = the sum of members from..upto-1, in their order, over k numbers from `at` on. */
static void add_members(float *acc, const void *const *part, uint32_t from, uint32_t upto, uint64_t at, uint64_t k)
{
    memcpy(acc, (const float *)part[from] + at, k * sizeof(float));
    for (uint32_t r = from + 1; r < upto; r++) {
        const float *x = (const float *)part[r] + at;
        if (k == SUM_BLOCK)
            add_block(acc, x);
        else
            add_some(acc, x, k);
    }
}

/* The running sum of a block stays in the first cache. `out` may be one of the parts, as a block is written after every part of it was
 * read. */
void yk__reduce_slice(const void *const *part, uint32_t parts, uint64_t begin, uint64_t n, float *out, yk__exact *squares)
{
    float acc[SUM_BLOCK], more[SUM_BLOCK];
    if (parts == 1 && (const float *)part[0] + begin == out) { /* out holds the sum already */
        if (squares)
            yk__exact_squares(squares, out, n);
        return;
    }
    for (uint64_t at = 0; at < n; at += SUM_BLOCK) {
        const uint64_t k = n - at < SUM_BLOCK ? n - at : SUM_BLOCK;
        add_members(acc, part, 0, parts < SUM_RANKS ? parts : SUM_RANKS, begin + at, k);
        for (uint32_t r = SUM_RANKS; r < parts; r += SUM_RANKS) {
            add_members(more, part, r, parts - r < SUM_RANKS ? parts : r + SUM_RANKS, begin + at, k);
            add_some(acc, more, k);
        }
        memcpy(out + at, acc, k * sizeof(float));
        if (squares)
            yk__exact_squares(squares, acc, k);
    }
}
