/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the optimizer that minimise the longest time of a rank for updating its own part and copying the rest. Bisection over that time
 * finds them, as a rank's parts within a time are an interval.
 */
#include <math.h>

#include "core/balance/cost_model.h"

typedef struct owner_line {
    double update, copy, most;
} owner_line;

/* The parts that keep the rank within t, u s + c (1 - s) <= t: from *least to *most; false if none does. */
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

/* Writes parts within t with sum 1 to s, unless s is NULL. */
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
