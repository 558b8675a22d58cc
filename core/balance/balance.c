/* SPDX-License-Identifier: Apache-2.0 */
/* The time that each rank takes for its rows, as a line for each, and the split that minimises the slowest rank's time. */
#include "core/balance/balance.h"

#include <math.h>

#include "core/balance/line.h"
#include "core/base/mem.h"

struct yk__balance {
    uint32_t ranks;
    yk__line *line;
};

yk_status yk__balance_new(uint32_t ranks, yk__balance **out, yk_error *err)
{
    yk__balance *b;
    if (!ranks)
        return yk__fail(err, YK_E_ARG, "shares for no ranks");
    b = yk__calloc(1, sizeof *b);
    if (b)
        b->line = yk__calloc(ranks, sizeof *b->line);
    if (!b || !b->line) {
        yk__balance_free(b);
        return yk__fail_mem(err, ranks * sizeof(yk__line), "batch shares");
    }
    b->ranks = ranks;
    *out = b;
    return YK_OK;
}

void yk__balance_free(yk__balance *b)
{
    if (!b)
        return;
    yk__free(b->line);
    yk__free(b);
}

/* ---- Records --------------------------------------------------------------------------------------------------------- */

static bool record_holds(const yk__balance *b, uint32_t r, uint64_t rows, double seconds)
{
    return r < b->ranks && rows && seconds > 1e-9 && isfinite(seconds);
}

bool yk__balance_record(yk__balance *b, uint32_t r, uint64_t rows, double seconds)
{
    return record_holds(b, r, rows, seconds) && yk__line_record(&b->line[r], (double)rows, seconds);
}

void yk__balance_renew(yk__balance *b, uint32_t r, uint64_t rows, double seconds)
{
    if (record_holds(b, r, rows, seconds))
        yk__line_renew(&b->line[r], (double)rows, seconds);
}

yk__line *yk__balance_line(yk__balance *b, uint32_t r)
{
    return &b->line[r];
}

int yk__balance_off(const yk__balance *b, uint32_t r)
{
    return r < b->ranks ? b->line[r].outlier : 0;
}

double yk__balance_predict(const yk__balance *b, uint32_t r, uint64_t rows)
{
    return r < b->ranks ? yk__line_predict(&b->line[r], (double)rows) : 0;
}

/* ---- The split --------------------------------------------------------------------------------------------------- */

typedef struct rank_line {
    double a, b;
    uint64_t least, most; /* rows */
} rank_line;

static double line_seconds(const rank_line *l, uint64_t n)
{
    return n ? l->a + l->b * (double)n : 0;
}

/* Rows that the rank can do within t. */
static uint64_t rows_within(const rank_line *l, double t)
{
    double n = t < l->a + l->b ? 0 : floor((t - l->a) / l->b);
    uint64_t k = n >= (double)l->most ? l->most : (uint64_t)n;
    while (k && line_seconds(l, k) > t) /* the division may have rounded up */
        k--;
    while (k < l->most && line_seconds(l, k + 1) <= t) /* or down */
        k++;
    return k < l->least ? l->least : k;
}

static bool rows_enough(const rank_line *l, uint32_t ranks, double t, uint64_t n)
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
static double time_least(const rank_line *l, uint32_t ranks, uint64_t n)
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
static void shares_take_back(const rank_line *l, uint32_t ranks, uint64_t surplus, uint64_t *share)
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

static void shares_minimax(const rank_line *l, uint32_t ranks, uint64_t n, uint64_t *share)
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
static void lines_bounded(const yk__balance *b, uint64_t n, const yk__bounds *bounds, rank_line *l)
{
    double a = 0, slope = 0;
    uint32_t known = 0;
    for (uint32_t r = 0; r < b->ranks; r++)
        if (b->line[r].records) {
            known++;
            a += b->line[r].a;
            slope += b->line[r].b;
        }
    for (uint32_t r = 0; r < b->ranks; r++) {
        const yk__line *f = &b->line[r];
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
    rank_line l[YK__RANKS];
    uint64_t least = 0, most = 0;
    lines_bounded(b, n, bounds, l);
    for (uint32_t r = 0; r < b->ranks; r++) {
        least += l[r].least;
        most += l[r].most < n - most ? l[r].most : n - most;
    }
    if (least > n || most < n)
        return false;
    shares_minimax(l, b->ranks, n, share);
    return true;
}

/* ---- Numbers for checkpoints ------------------------------------------------------------------------------------- */

uint32_t yk__balance_count(const yk__balance *b)
{
    return b->ranks * YK__LINE_NUMBERS;
}

void yk__balance_get(const yk__balance *b, double *v)
{
    for (uint32_t r = 0; r < b->ranks; r++)
        yk__line_get(&b->line[r], v + (size_t)r * YK__LINE_NUMBERS);
}

void yk__balance_set(yk__balance *b, const double *v)
{
    for (uint32_t r = 0; r < b->ranks; r++)
        yk__line_set(&b->line[r], v + (size_t)r * YK__LINE_NUMBERS);
}
