/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Robust means of windows' times, and the rule that ends a comparison of two arms: sets of members that run in turn (compare.h).
 *
 * The policy's files of core/balance keep times with yk__times_*, and policy_trial.c drives a comparison, one window a call. A window is
 * one optimizer step; its times are seconds. Pure functions without a clock: equal times give equal verdicts on all ranks.
 */
#include "core/balance/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SECONDS 1.0 /* a block of fewer, long windows takes about so long: a machine stays alike for the seconds of two blocks */
#define MOST_BLOCKS 12u   /* 48 windows of an arm: noise of 5 % is 0.7 % of their mean, less than YK__WORTH */
#define UNCLEAN 60u       /* windows without information (compiles, other batches), after which a trial is given up */

static int double_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void yk__times_add(yk__times *w, double seconds)
{
    w->seconds[w->n++ % YK__TIMES] = seconds;
}

/* Sorts the windows' times, and returns their number. The longest quarter does not count. That drops a hiccup of the machine, but not a
 * rank that is off its core in two windows of five. */
static uint32_t times_order(const yk__times *w, double *seconds, uint32_t *counted)
{
    const uint32_t n = w->n < YK__TIMES ? w->n : YK__TIMES;
    memcpy(seconds, w->seconds, n * sizeof *seconds);
    qsort(seconds, n, sizeof *seconds, double_order);
    *counted = n - n / 4;
    return n;
}

double yk__times_mean(const yk__times *w)
{
    double v[YK__TIMES], sum = 0;
    uint32_t counted;
    times_order(w, v, &counted);
    for (uint32_t i = 0; i < counted; i++)
        sum += v[i];
    return counted ? sum / counted : 0;
}

double yk__times_error(const yk__times *w)
{
    double v[YK__TIMES], mean = 0, sum = 0;
    uint32_t counted, n = times_order(w, v, &counted);
    for (uint32_t i = 0; i < n; i++) {
        v[i] = fmin(v[i], v[counted - 1]);
        mean += v[i] / n;
    }
    for (uint32_t i = 0; i < n; i++)
        sum += (v[i] - mean) * (v[i] - mean);
    return n > 1 ? sum / (n - 1) * n / ((double)counted * counted) : INFINITY;
}

/* The time before which this part of the times lies; 0 without times. */
static double times_quantile(const yk__times *w, double part)
{
    double v[YK__TIMES];
    uint32_t counted, n = times_order(w, v, &counted), at = (uint32_t)(part * n);
    return n ? v[at < n ? at : n - 1] : 0;
}

double yk__times_median(const yk__times *w)
{
    return times_quantile(w, 0.5);
}

double yk__times_least(const yk__times *w)
{
    return times_quantile(w, 0);
}

/* ---- Two arms ---------------------------------------------------------------------------------------------------- */

void yk__compare_begin(yk__compare *c, double window)
{
    memset(c, 0, sizeof *c);
    c->length = window > 0 ? (uint32_t)fmin(YK__BLOCK, fmax(2, ceil(BLOCK_SECONDS / window))) : YK__BLOCK;
}

void yk__compare_seed(yk__compare *c, yk__arm arm, const yk__times *seen)
{
    c->times[arm] = *seen;
    c->blocks = 1;
}

void yk__compare_turn(yk__compare *c, yk__arm arm)
{
    c->arm = arm;
    c->in_block = 0;
}

/* True if every window of one arm is far longer than each of the other; twice as far if that arm has only one window. */
static bool arms_separate(const yk__compare *c)
{
    for (int k = 0; k < 2; k++) {
        const yk__times *longer = &c->times[k], *shorter = &c->times[!k];
        if (longer->n >= 1 && shorter->n >= 2 && yk__times_least(longer) > (longer->n >= 2 ? 2 : 4) * times_quantile(shorter, 1))
            return true;
    }
    return false;
}

static bool arms_decided(const yk__compare *c)
{
    const double with = yk__times_mean(&c->times[YK__WITH]), without = yk__times_mean(&c->times[YK__WITHOUT]);
    const double noise = sqrt(yk__times_error(&c->times[YK__WITH]) + yk__times_error(&c->times[YK__WITHOUT]));
    if (c->blocks >= 2 && (with > YK__CLEAR * without || without > YK__CLEAR * with) && fabs(with - without) > 3 * noise)
        return true;
    return c->blocks >= MOST_BLOCKS || (c->blocks >= 4 && fabs(with * YK__WORTH - without) > 2 * noise);
}

yk__verdict yk__compare_window(yk__compare *c, bool clean, double seconds)
{
    bool over;
    if (!clean)
        return ++c->unclean > UNCLEAN ? YK__GIVEN_UP : YK__RUNS_ON;
    yk__times_add(&c->times[c->arm], seconds);
    over = ++c->in_block >= c->length;
    c->blocks += over;
    if (over ? arms_decided(c) : arms_separate(c))
        return YK__DECIDED;
    return over ? YK__NEXT_ARM : YK__RUNS_ON;
}
