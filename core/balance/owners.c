/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' parts of the optimizer, with sum 1. They minimise the longest time in which a rank updates its own part of the parameters and
 * copies the rest. The parts that a rank can do within a given time are an interval, so bisection over that time finds the minimum.
 *
 * cost_model.c calls it in the step thread, when members change or new times are known. Pure: no clock, no messages.
 */
#include <math.h>

#include "core/balance/cost_model.h"

/* Finds the parts that keep the rank within t, u s + c (1 - s) <= t; false if none does. */
static bool parts_within(yk__owner_line *o, double t)
{
    const double rise = o->update - o->copy;
    o->least = o->most = 0;
    if (o->cap <= 0)
        return true;
    if (rise > 0)
        o->most = fmin(o->cap, (t - o->copy) / rise);
    else { /* copying costs more than updating: the more it owns the better */
        o->most = o->cap;
        o->least = o->copy <= t ? 0 : rise < 0 ? (o->copy - t) / -rise : INFINITY;
    }
    return o->most >= 0 && o->least <= o->most;
}

/* Writes parts within t with sum 1 to s, unless s is NULL. */
static bool all_within(yk__owner_line *o, uint32_t ranks, double t, double *s)
{
    double low = 0, high = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        if (!parts_within(&o[r], t))
            return false;
        low += o[r].least;
        high += o[r].most;
    }
    for (uint32_t r = 0; r < ranks && s; r++)
        s[r] = high > low ? o[r].least + (1 - low) * (o[r].most - o[r].least) / (high - low) : o[r].least;
    return low <= 1 && high >= 1;
}

static void owner_lines(uint32_t ranks, const bool *owner, const double *update, const double *copy, const double *most,
                        yk__owner_line *o)
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
        o[r] = (yk__owner_line){.update = update[r] > 0 ? update[r] : mean,
                                .copy = copy[r] > 0 ? copy[r] : 0,
                                .cap = !owner[r] ? 0 : most && most[r] < 1 ? most[r] : 1};
}

void yk__owner_parts(uint32_t ranks, const bool *owner, const double *update, const double *copy, const double *most,
                     yk__owner_line *work, double *s)
{
    yk__owner_line *const o = work;
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
