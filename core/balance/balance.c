/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long each rank takes for its rows, a line t = a + b n fitted online, and the split that makes the slowest rank as fast
 * as can be. Pure code: equal records give equal shares on all ranks.
 */
#include "core/balance/balance.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

#define KEEP 0.8         /* weight of a record after the next one */
#define KEEP_EARLY 0.5   /* of a rank's first records: caches and drivers were cold */
#define EARLY 4
#define OFF 1.2          /* a factor from what was foreseen that is believed only when the next record has it too */
#define SPREAD 0.05      /* spread of n (relative) that tells something about a */
#define SLOPE_ERROR 0.25 /* standard error of b n (relative to t) above which a is not believed */
#define SEASONED 2       /* records before a rank is foreseen */

typedef struct fit {
    uint32_t records;
    double w, n, nn, t, tt, nt; /* weighted sums of 1, n, n^2, t, t^2, n t */
    double a, b;
    int off;
} fit;

struct yk__balance {
    uint32_t ranks;
    fit *fit;
};

yk_status yk__balance_new(uint32_t ranks, yk__balance **out, yk_error *err)
{
    yk__balance *b;
    if (!ranks)
        return yk__fail(err, YK_E_ARG, "shares for no ranks");
    b = yk__calloc(1, sizeof *b);
    if (b)
        b->fit = yk__calloc(ranks, sizeof *b->fit);
    if (!b || !b->fit) {
        yk__balance_free(b);
        return yk__fail_mem(err, ranks * sizeof(fit), "batch shares");
    }
    b->ranks = ranks;
    *out = b;
    return YK_OK;
}

void yk__balance_free(yk__balance *b)
{
    if (!b)
        return;
    yk__free(b->fit);
    yk__free(b);
}

/* ---- The fit ----------------------------------------------------------------------------------------------------- */

static void line_scale(fit *f, double factor)
{
    f->a *= factor, f->b *= factor;
}

/* Weighted least squares: b = cov(n, t) / var(n), a = mean(t) - b mean(n). Where the records say too little about the
 * slope (all n alike, or noise larger than the effect) the line keeps its form and is scaled to go through the mean point. */
static void line_solve(fit *f)
{
    const double mn = f->n / f->w, mt = f->t / f->w;
    const double vn = f->nn / f->w - mn * mn, vt = f->tt / f->w - mt * mt, c = f->nt / f->w - mn * mt;
    const double seen = f->a + f->b * mn;
    if (vn > SPREAD * SPREAD * mn * mn && c > 0) {
        const double b = c / vn, rest = vt - b * c;
        const double se = sqrt((rest > 0 ? rest : 0) / (vn * (f->w > 1 ? f->w : 1)));
        if (se * mn < SLOPE_ERROR * mt) {
            f->a = mt - b * mn;
            f->a = f->a < 0 ? 0 : f->a > 0.95 * mt ? 0.95 * mt : f->a;
            f->b = (mt - f->a) / mn;
            return;
        }
    }
    if (seen > 0)
        line_scale(f, mt / seen);
    else
        f->b = mt / mn;
}

static void fit_add(fit *f, double n, double t)
{
    const double keep = f->records <= EARLY ? KEEP_EARLY : KEEP;
    f->records++;
    f->w = f->w * keep + 1;
    f->n = f->n * keep + n;
    f->nn = f->nn * keep + n * n;
    f->t = f->t * keep + t;
    f->tt = f->tt * keep + t * t;
    f->nt = f->nt * keep + n * t;
}

static void fit_renew(fit *f, double n, double t)
{
    const double seen = f->a + f->b * n;
    if (seen > 0)
        line_scale(f, t / seen);
    f->w = f->n = f->nn = f->t = f->tt = f->nt = 0;
    f->off = 0;
    f->records = SEASONED;
    fit_add(f, n, t);
    line_solve(f);
}

static bool record_holds(const yk__balance *b, uint32_t r, uint64_t rows, double seconds)
{
    return r < b->ranks && rows && seconds > 1e-9 && isfinite(seconds);
}

bool yk__balance_record(yk__balance *b, uint32_t r, uint64_t rows, double seconds)
{
    fit *f;
    int before;
    double n = (double)rows, seen;
    if (!record_holds(b, r, rows, seconds))
        return false;
    f = &b->fit[r];
    before = f->off;
    seen = f->a + f->b * n;
    f->off = f->records < SEASONED ? 0 : seconds > seen * OFF ? 1 : seconds < seen / OFF ? -1 : 0;
    if (f->off && f->off == before) {
        fit_renew(f, n, seconds);
        return true;
    }
    if (f->off)
        return false;
    fit_add(f, n, seconds);
    line_solve(f);
    return false;
}

void yk__balance_renew(yk__balance *b, uint32_t r, uint64_t rows, double seconds)
{
    if (record_holds(b, r, rows, seconds))
        fit_renew(&b->fit[r], (double)rows, seconds);
}

int yk__balance_off(const yk__balance *b, uint32_t r)
{
    return r < b->ranks ? b->fit[r].off : 0;
}

double yk__balance_predict(const yk__balance *b, uint32_t r, uint64_t rows)
{
    if (r >= b->ranks || !b->fit[r].records || !rows)
        return 0;
    return b->fit[r].a + b->fit[r].b * (double)rows;
}

/* ---- The split --------------------------------------------------------------------------------------------------- */

typedef struct line {
    double a, b;
    uint64_t least, most;
} line;

static double time_of(const line *l, uint64_t n)
{
    return n ? l->a + l->b * (double)n : 0;
}

/* Rows that the rank can do within t. */
static uint64_t rows_within(const line *l, double t)
{
    double n = t < l->a + l->b ? 0 : floor((t - l->a) / l->b);
    uint64_t k = n >= (double)l->most ? l->most : (uint64_t)n;
    while (k && time_of(l, k) > t) /* the division may have rounded up */
        k--;
    while (k < l->most && time_of(l, k + 1) <= t) /* or down */
        k++;
    return k < l->least ? l->least : k;
}

static bool enough_within(const line *l, uint32_t ranks, double t, uint64_t n)
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
static double least_time(const line *l, uint32_t ranks, uint64_t n)
{
    double low = 0, high = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        double t = time_of(&l[r], l[r].most < n ? l[r].most : n);
        high = t > high ? t : high;
    }
    if (enough_within(l, ranks, low, n))
        return low;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            return high;
        if (enough_within(l, ranks, middle, n))
            high = middle;
        else
            low = middle;
    }
}

/* Rows beyond n are taken back, one at a time, from the rank that takes longest (the last of equals). */
static void take_back(const line *l, uint32_t ranks, uint64_t surplus, uint64_t *share)
{
    while (surplus) {
        uint32_t which = ranks;
        for (uint32_t r = 0; r < ranks; r++)
            if (share[r] > l[r].least &&
                (which == ranks || time_of(&l[r], share[r]) >= time_of(&l[which], share[which])))
                which = r;
        if (which == ranks)
            return;
        share[which]--;
        surplus--;
    }
}

static void minimax(const line *l, uint32_t ranks, uint64_t n, uint64_t *share)
{
    double t = least_time(l, ranks, n);
    uint64_t sum = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        share[r] = rows_within(&l[r], t);
        sum += share[r];
    }
    take_back(l, ranks, sum - n, share);
}

/* Ranks of which nothing is known are taken to be as fast as the mean of the others. */
static void lines_of(const yk__balance *b, uint64_t n, const yk__bounds *bounds, line *l)
{
    double a = 0, slope = 0;
    uint32_t known = 0;
    for (uint32_t r = 0; r < b->ranks; r++)
        if (b->fit[r].records) {
            known++;
            a += b->fit[r].a;
            slope += b->fit[r].b;
        }
    for (uint32_t r = 0; r < b->ranks; r++) {
        const fit *f = &b->fit[r];
        l[r].a = f->records ? f->a : known ? a / known : 0;
        l[r].b = f->records ? f->b : known ? slope / known : 1;
        l[r].b = l[r].b > 0 ? l[r].b : 1e-12;
        l[r].most = bounds[r].most < n ? bounds[r].most : n;
        l[r].least = bounds[r].least < l[r].most ? bounds[r].least : l[r].most;
    }
}

double yk__balance_longest(const yk__balance *b, const uint64_t *share)
{
    double longest = 0;
    for (uint32_t r = 0; r < b->ranks; r++)
        longest = fmax(longest, yk__balance_predict(b, r, share[r]));
    return longest;
}

bool yk__balance_split(const yk__balance *b, uint64_t n, const yk__bounds *bounds, uint64_t *share)
{
    line l[YK__RANKS];
    uint64_t least = 0, room = 0;
    lines_of(b, n, bounds, l);
    for (uint32_t r = 0; r < b->ranks; r++) {
        least += l[r].least;
        room += l[r].most < n - room ? l[r].most : n - room;
    }
    if (least > n || room < n)
        return false;
    minimax(l, b->ranks, n, share);
    return true;
}

/* ---- As numbers, for checkpoints --------------------------------------------------------------------------------- */

enum { OF_RANK = 10 };

uint32_t yk__balance_count(const yk__balance *b)
{
    return b->ranks * OF_RANK;
}

void yk__balance_get(const yk__balance *b, double *v)
{
    for (uint32_t r = 0; r < b->ranks; r++, v += OF_RANK) {
        const fit *f = &b->fit[r];
        const double all[OF_RANK] = {f->records, f->w, f->n, f->nn, f->t, f->tt, f->nt, f->a, f->b, f->off + 1};
        memcpy(v, all, sizeof all);
    }
}

void yk__balance_set(yk__balance *b, const double *v)
{
    for (uint32_t r = 0; r < b->ranks; r++, v += OF_RANK)
        b->fit[r] = (fit){(uint32_t)v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9] > 1 ? 1 : v[9] < 1 ? -1 : 0};
}

/* ---- Parts of the optimizer -------------------------------------------------------------------------------------- */

typedef struct owner_line {
    double update, copy, most;
} owner_line;

/* The parts that keep the rank within t, u s + c (1 - s) <= t: from *least to *most; false: none does. */
static bool parts_within(const owner_line *o, double t, double *least, double *most)
{
    const double rise = o->update - o->copy;
    *least = *most = 0;
    if (o->most <= 0)
        return true;
    if (rise > 0)
        *most = fmin(o->most, (t - o->copy) / rise);
    else { /* copying costs more than updating: the more it owns the better */
        *most = o->most;
        *least = o->copy <= t ? 0 : rise < 0 ? (o->copy - t) / -rise : INFINITY;
    }
    return *most >= 0 && *least <= *most;
}

/* s, where it is not NULL: parts within t with sum 1. */
static bool all_within(const owner_line *o, uint32_t ranks, double t, double *s)
{
    double least[YK__RANKS], most[YK__RANKS], low = 0, high = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        if (!parts_within(&o[r], t, &least[r], &most[r]))
            return false;
        low += least[r];
        high += most[r];
    }
    for (uint32_t r = 0; r < ranks && s; r++)
        s[r] = high > low ? least[r] + (1 - low) * (most[r] - least[r]) / (high - low) : least[r];
    return low <= 1 && high >= 1;
}

static void owner_lines(uint32_t ranks, const bool *owner, const double *update, const double *copy, const double *most,
                        owner_line *o)
{
    double mean = 0;
    uint32_t known = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (owner[r] && update[r] > 0) {
            mean += update[r];
            known++;
        }
    mean = known ? mean / known : 1;
    for (uint32_t r = 0; r < ranks; r++)
        o[r] = (owner_line){update[r] > 0 ? update[r] : mean, copy[r] > 0 ? copy[r] : 0,
                            !owner[r] ? 0 : most && most[r] < 1 ? most[r] : 1};
}

void yk__owner_parts(uint32_t ranks, const bool *owner, const double *update, const double *copy, const double *most, double *s)
{
    owner_line o[YK__RANKS];
    double low = 0, high = 0;
    owner_lines(ranks, owner, update, copy, most, o);
    for (uint32_t r = 0; r < ranks; r++)
        high = fmax(high, fmax(o[r].update, o[r].copy));
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (all_within(o, ranks, middle, NULL))
            high = middle;
        else
            low = middle;
    }
    all_within(o, ranks, high, s);
    for (uint32_t r = 0; r < ranks; r++)
        s[r] = s[r] > 1e-4 ? s[r] : 0;
}
