/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of each rank by the fitted lines: the split that minimises the slowest rank's time, and its rounding to blocks of rows.
 *
 * cost_model.c and the policy's phases call yk__fit_shares, which keeps to members, limits of memory and blocks. Bisection over the time
 * finds the split. It runs in the step thread, and is pure: equal lines give equal rows on all ranks.
 */
#include <math.h>
#include <string.h>

#include "core/balance/cost_model.h"

#define ROWS_MOST 16u    /* rows of a block, tried first: measured, the CPU's kernels step after every 16, a GPU's at multiples of them, */
#define ROWS_LEAST 4u    /* and rows of the last block tried: those of the smallest kernels' blocks */
#define ROWS_WORTH 1.025 /* limit of a whole block's cost by the lines: a row beyond a block was measured to cost 3 to 7 % of a window */

/* ---- The split --------------------------------------------------------------------------------------------------- */

static double line_seconds(const yk__rank_line *l, uint64_t n)
{
    return n ? l->a + l->b * (double)n : 0;
}

/* Rows that the rank can do within t. */
static uint64_t rows_within(const yk__rank_line *l, double t)
{
    double n = t < l->a + l->b ? 0 : floor((t - l->a) / l->b);
    uint64_t k = n >= (double)l->most ? l->most : (uint64_t)n;
    while (k && line_seconds(l, k) > t) /* the division may have rounded up */
        k--;
    while (k < l->most && line_seconds(l, k + 1) <= t) /* or down */
        k++;
    return k < l->least ? l->least : k;
}

static bool rows_enough(const yk__rank_line *l, uint32_t ranks, double t, uint64_t n)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t k = rows_within(&l[r], t);
        if (k >= n - sum)
            return true;
        sum += k;
    }
    return n == 0;
}

/* The least time within which n rows can be done, to the last bit: bisection until two neighbours are left. */
static double time_least(const yk__rank_line *l, uint32_t ranks, uint64_t n)
{
    double low = 0, high = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        double t = line_seconds(&l[r], l[r].most < n ? l[r].most : n);
        high = t > high ? t : high;
    }
    if (rows_enough(l, ranks, low, n))
        return low;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            return high;
        if (rows_enough(l, ranks, middle, n))
            high = middle;
        else
            low = middle;
    }
}

/* Takes back the rows beyond n, one at a time, from the rank that takes longest (the last of equals). */
static void shares_take_back(const yk__rank_line *l, uint32_t ranks, uint64_t surplus, uint64_t *share)
{
    while (surplus) {
        uint32_t which = ranks;
        for (uint32_t r = 0; r < ranks; r++)
            if (share[r] > l[r].least &&
                (which == ranks || line_seconds(&l[r], share[r]) >= line_seconds(&l[which], share[which])))
                which = r;
        if (which == ranks)
            return;
        share[which]--;
        surplus--;
    }
}

static void shares_minimax(const yk__rank_line *l, uint32_t ranks, uint64_t n, uint64_t *share)
{
    double t = time_least(l, ranks, n);
    uint64_t sum = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        share[r] = rows_within(&l[r], t);
        sum += share[r];
    }
    shares_take_back(l, ranks, sum - n, share);
}

/* An unknown rank counts as being as fast as the mean of the known ranks. */
static void lines_bounded(const yk__fit *f, const yk__bounds *bounds, yk__rank_line *l)
{
    double a = 0, slope = 0;
    uint32_t known = 0;
    for (uint32_t r = 0; r < f->ranks; r++)
        if (f->rank[r].line.records) {
            known++;
            a += f->rank[r].line.a;
            slope += f->rank[r].line.b;
        }
    for (uint32_t r = 0; r < f->ranks; r++) {
        const yk__line *line = &f->rank[r].line;
        l[r].a = line->records ? line->a : known ? a / known : 0;
        l[r].b = line->records ? line->b : known ? slope / known : 1;
        l[r].b = l[r].b > 0 ? l[r].b : 1e-12;
        l[r].most = bounds[r].most < f->n ? bounds[r].most : f->n;
        l[r].least = bounds[r].least < l[r].most ? bounds[r].least : l[r].most;
    }
}

bool yk__fit_split(const yk__fit *f, const yk__bounds *bounds, uint64_t *share)
{
    yk__rank_line *l = f->work.line;
    uint64_t least = 0, most = 0;
    lines_bounded(f, bounds, l);
    for (uint32_t r = 0; r < f->ranks; r++) {
        least += l[r].least;
        most += l[r].most < f->n - most ? l[r].most : f->n - most;
    }
    if (least > f->n || most < f->n)
        return false;
    shares_minimax(l, f->ranks, f->n, share);
    return true;
}

/* ---- Rounding ---------------------------------------------------------------------------------------------------- */

uint64_t yk__fit_cap(const yk__fit *f, uint32_t r)
{
    return f->rank[r].cap && f->rank[r].cap < f->n ? f->rank[r].cap : f->n;
}

/* Bounds of each member: at least a row if there are rows for every rank, at most its memory. It gets no more than `trust` times more or
 * less than it has (0 for any change). */
static void bounds_of(const yk__fit *f, const bool *member, const uint64_t *now, double trust, yk__bounds *bounds)
{
    const bool enough = f->n >= f->ranks;
    for (uint32_t r = 0; r < f->ranks; r++) {
        bounds[r] = (yk__bounds){0, 0};
        if (!member[r])
            continue;
        bounds[r] = (yk__bounds){enough, yk__fit_cap(f, r)};
        if (trust > 0 && now[r]) {
            const double has = (double)now[r];
            bounds[r].least = (uint64_t)fmax((double)bounds[r].least, ceil(has / trust));
            bounds[r].most = (uint64_t)fmin((double)bounds[r].most, has * trust);
            bounds[r].least = bounds[r].least < bounds[r].most ? bounds[r].least : bounds[r].most;
        }
    }
}

/* The largest power of two up to 1/64 of the share: rounding to it is at most 0.8 % of its rows, about the dead band. */
static uint64_t share_step(uint64_t share)
{
    uint64_t step = 1;
    while (128 * step <= share)
        step *= 2;
    return step;
}

/* A share in whole blocks (the nearest, or down); in steps if it is less than one or block is 0. */
static uint64_t share_near(uint64_t share, uint64_t block, bool down)
{
    const uint64_t step = share_step(share);
    return block > step && share >= block ? (share + (down ? 0 : block / 2)) / block * block : (share + step / 2) / step * step;
}

/* The largest share takes the rest. False if the shares exceed a rank's memory, or with a block the bounds. */
static bool shares_near(const yk__fit *f, const yk__bounds *bounds, const uint64_t *share, uint64_t block, bool down, uint64_t *near)
{
    uint64_t sum = 0;
    uint32_t largest = 0;
    for (uint32_t r = 1; r < f->ranks; r++)
        largest = share[r] > share[largest] ? r : largest;
    for (uint32_t r = 0; r < f->ranks; r++) {
        near[r] = r == largest ? 0 : share_near(share[r], block, down);
        near[r] = near[r] > yk__fit_cap(f, r) ? share[r] : near[r];
        sum += near[r];
    }
    if (sum >= f->n || f->n - sum > yk__fit_cap(f, largest))
        return false;
    near[largest] = f->n - sum;
    for (uint32_t r = 0; r < f->ranks && block; r++)
        if (near[r] < bounds[r].least || near[r] > bounds[r].most)
            return false;
    return true;
}

/* Rounds to whole blocks if the lines predict a small cost. A kernel computes rows by blocks, so one row more may cost as much as several
 * do. Lines through whole blocks describe the useful numbers of rows. Else rounds in steps, as each number of rows is a program of its
 * own. */
static void shares_round(const yk__fit *f, const yk__bounds *bounds, uint64_t *share)
{
    const double most = ROWS_WORTH * yk__fit_longest(f, share);
    uint64_t *near = f->work.near;
    for (uint64_t block = ROWS_MOST; block >= ROWS_LEAST; block /= 2)
        for (int down = 0; down < 2; down++)
            if (shares_near(f, bounds, share, block, down, near) && yk__fit_longest(f, near) <= most) {
                memcpy(share, near, f->ranks * sizeof *share);
                return;
            }
    if (shares_near(f, bounds, share, 0, false, near))
        memcpy(share, near, f->ranks * sizeof *share);
}

/* ---- Quanta ------------------------------------------------------------------------------------------------------ */

static bool has_quantum(const yk__fit *f, uint32_t r)
{
    return f->rank[r].quantum > 1;
}

static uint64_t share_whole(const yk__fit *f, uint32_t r, uint64_t share, bool down)
{
    const uint64_t quantum = f->rank[r].quantum, most = yk__fit_cap(f, r) / (quantum ? quantum : 1);
    const bool unsure = f->rank[r].limited && !f->rank[r].cap; /* more rows may not fit */
    uint64_t times;
    if (!share || !has_quantum(f, r) || !most || (unsure && share < quantum))
        return share;
    times = (share + (down || unsure ? 0 : quantum / 2)) / quantum;
    times = times < most ? times : most;
    return (times ? times : 1) * quantum;
}

/* The rank that takes the rest: the largest share among ranks without a quantum, or among all if each has one. */
static uint32_t rest_taker(const yk__fit *f, const uint64_t *share)
{
    uint32_t which = f->ranks;
    for (uint32_t r = 0; r < f->ranks; r++)
        if (share[r] && (which == f->ranks || (has_quantum(f, which) && !has_quantum(f, r)) ||
                         (has_quantum(f, which) == has_quantum(f, r) && share[r] > share[which])))
            which = r;
    return which;
}

void yk__fit_whole(const yk__fit *f, uint64_t *share)
{
    const uint32_t rest = rest_taker(f, share);
    uint64_t *whole = f->work.whole;
    bool any = false;
    for (uint32_t r = 0; r < f->ranks; r++)
        any |= has_quantum(f, r);
    for (int down = 0; any && down < 2; down++) {
        uint64_t sum = 0;
        for (uint32_t r = 0; r < f->ranks; r++)
            sum += whole[r] = r == rest ? 0 : share_whole(f, r, share[r], down);
        if (sum >= f->n || f->n - sum > yk__fit_cap(f, rest))
            continue;
        whole[rest] = f->n - sum;
        memcpy(share, whole, f->ranks * sizeof *share);
        return;
    }
}

bool yk__fit_shares(const yk__fit *f, const bool *member, const uint64_t *now, double trust, uint64_t *share)
{
    yk__bounds *bounds = f->work.bounds;
    bounds_of(f, member, now, trust, bounds);
    if (!yk__fit_split(f, bounds, share)) {
        bounds_of(f, member, now, 0, bounds);
        if (!yk__fit_split(f, bounds, share))
            return false;
    }
    shares_round(f, bounds, share);
    yk__fit_whole(f, share);
    return true;
}
