/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shuffled order of an epoch's rows, a function of seed, epoch and place (order.h), so that all ranks agree without messages. The
 * loader, the kinds of rows and samplers ask for ranges of it, in any thread.
 *
 * Eight places are computed at a time. Lanes with a number that is not a row go round again, and new places take the free lanes.
 */
#include "core/data/order.h"

#include <stdbool.h>
#include <stdlib.h>

#include "core/base/philox.h"

#define ROUNDS 10 /* with 6 the permutations of five and six items are visibly not equally likely */

#define HALF 0x8000000000000000u
#define GOLDEN 0x9e3779b97f4a7c15u /* 2^64 / the golden ratio */

#define LANES YK__PHILOX_LANES /* numbers in progress at once */

typedef struct network {
    uint32_t key[2], epoch[2], mask;
    int half_bits; /* bits of each side */
} network;

static network network_of(uint64_t seed, uint64_t epoch, int64_t n)
{
    /* the key differs from other uses of the seed */
    network w = {{(uint32_t)seed, (uint32_t)(seed >> 32) ^ 0x6f726465u}, {(uint32_t)epoch, (uint32_t)(epoch >> 32)}, 0, 1};
    while (w.half_bits < 32 && (uint64_t)n > (uint64_t)1 << (2 * w.half_bits))
        w.half_bits++;
    w.mask = w.half_bits == 32 ? UINT32_MAX : ((uint32_t)1 << w.half_bits) - 1;
    return w;
}

static void lanes_shuffle(const network *w, uint64_t x[LANES])
{
    uint32_t l[LANES], r[LANES], c[4][LANES];
    for (int i = 0; i < LANES; i++) {
        l[i] = (uint32_t)(x[i] >> w->half_bits) & w->mask;
        r[i] = (uint32_t)x[i] & w->mask;
    }
    for (uint32_t k = 0; k < ROUNDS; k++) {
        for (int i = 0; i < LANES; i++)
            c[0][i] = r[i], c[1][i] = k, c[2][i] = w->epoch[0], c[3][i] = w->epoch[1];
        yk__philox_lanes(c, w->key);
        for (int i = 0; i < LANES; i++) {
            uint32_t t = l[i] ^ (c[0][i] & w->mask);
            l[i] = r[i];
            r[i] = t;
        }
    }
    for (int i = 0; i < LANES; i++)
        x[i] = (uint64_t)l[i] << w->half_bits | r[i];
}

void yk__order_rows(uint64_t seed, uint64_t epoch, int64_t first, int64_t count, int64_t n, int64_t *row)
{
    const network w = network_of(seed, epoch, n);
    uint64_t x[LANES] = {0};
    int64_t at[LANES], next = 0;
    int live = 0;
    while (live || next < count) {
        int kept = 0;
        for (; live < LANES && next < count; live++, next++) {
            x[live] = (uint64_t)(first + next);
            at[live] = next;
        }
        lanes_shuffle(&w, x);
        for (int i = 0; i < live; i++) {
            if (x[i] < (uint64_t)n) {
                row[at[i]] = (int64_t)x[i];
            } else {
                x[kept] = x[i];
                at[kept++] = at[i];
            }
        }
        live = kept;
    }
}

static int by_length(const void *a, const void *b)
{
    const yk__row_length *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int by_length_down(const void *a, const void *b)
{
    const yk__row_length *x = a, *y = b;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

void yk__order_by_length(yk__row_length *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_length_down);
}

static int by_turn(const void *a, const void *b)
{
    const yk__row_length *x = a, *y = b;
    return (x->turn > y->turn) - (x->turn < y->turn);
}

void yk__order_even_out(yk__row_length *v, int64_t n, int64_t *row)
{
    bool differ = false;
    for (int64_t i = 0; i < n; i++) {
        row[i] = v[i].row;
        differ |= v[i].length != v[0].length;
    }
    if (!differ)
        return;
    qsort(v, (size_t)n, sizeof *v, by_length);
    for (int64_t i = 0; i < n; i++)
        row[i] = v[i].row;
    for (int64_t i = 0; i < n; i++) {
        v[i].turn = HALF + (uint64_t)i * GOLDEN;
        v[i].row = i;
    }
    qsort(v, (size_t)n, sizeof *v, by_turn);
    for (int64_t k = 0; k < n; k++) /* v[k].row is a place now; the k-th row goes there */
        v[k].length = row[k];
    for (int64_t k = 0; k < n; k++)
        row[v[k].row] = v[k].length;
}
