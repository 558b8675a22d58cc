/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line t = a + b n through measured times, in seconds, by weighted least squares. Old records fade. One outlier is ignored; two in one
 * direction are a change of speed, and scale the line.
 *
 * cost_model.c keeps two kinds of lines: a rank's seconds over its rows, and the seconds of joint work over members. policy.c stores them
 * in checkpoints. It runs in the step thread, and is pure: equal records give equal lines on all ranks.
 */
#include "core/balance/line.h"

#include <math.h>
#include <string.h>

#define KEEP 0.8         /* weight of a record after the next one: some five records count */
#define KEEP_EARLY 0.5   /* for the first EARLY records: caches and drivers were cold */
#define EARLY 4
#define OUTLIER 1.2      /* factor off the prediction; such a record counts only when the next one confirms it */
#define FAR_OFF 1.25     /* factor between n and the mean of the measured n, beyond which OUTLIER_FAR counts: */
#define OUTLIER_FAR 1.35 /* a line without a constant part, when rows are halved and that is a third to two thirds of the time */
#define NOISE 0.03       /* least error of a record (relative to t), however well a few records fit a line */
#define SLOPE_ERROR 0.25 /* standard error of b n (relative to t) above which a is ignored */
#define SEASONED 2       /* records before an outlier can be told from the line */

static void line_scale(yk__line *l, double factor)
{
    l->a *= factor, l->b *= factor;
}

/* Weighted least squares: b = cov(n, t) / var(n), a = mean(t) - b mean(n). If the records say too little about the slope, the line keeps
 * its form and is scaled to go through the mean point. That is so if n is the same in all, or noise exceeds the effect. */
static void line_solve(yk__line *l)
{
    const double mn = l->n / l->w, mt = l->t / l->w;
    const double vn = l->nn / l->w - mn * mn, vt = l->tt / l->w - mt * mt, c = l->nt / l->w - mn * mt;
    const double seen = l->a + l->b * mn;
    if (vn > 0 && c > 0) {
        const double b = c / vn, rest = fmax(vt - b * c, NOISE * NOISE * mt * mt);
        const double se = sqrt(rest / (vn * (l->w > 1 ? l->w : 1)));
        if (se * mn < SLOPE_ERROR * mt) {
            l->a = mt - b * mn;
            l->a = l->a < 0 ? 0 : l->a > 0.95 * mt ? 0.95 * mt : l->a;
            l->b = (mt - l->a) / mn;
            return;
        }
    }
    if (seen > 0)
        line_scale(l, mt / seen);
    else
        l->b = mt / mn;
}

static void line_add(yk__line *l, double n, double t)
{
    const double keep = l->records <= EARLY ? KEEP_EARLY : KEEP;
    l->records++;
    l->w = l->w * keep + 1;
    l->n = l->n * keep + n;
    l->nn = l->nn * keep + n * n;
    l->t = l->t * keep + t;
    l->tt = l->tt * keep + t * t;
    l->nt = l->nt * keep + n * t;
}

void yk__line_renew(yk__line *l, double n, double t)
{
    const double seen = l->a + l->b * n;
    if (seen > 0)
        line_scale(l, t / seen);
    l->w = l->n = l->nn = l->t = l->tt = l->nt = 0;
    l->outlier = 0;
    l->records = SEASONED;
    line_add(l, n, t);
    line_solve(l);
}

/* Far from the measured n the line is a guess: a deviation there shows its slope, not a change of speed. */
static bool line_guesses(const yk__line *l, double n)
{
    const double mean = l->w > 0 ? l->n / l->w : n;
    return n > FAR_OFF * mean || n * FAR_OFF < mean;
}

bool yk__line_record(yk__line *l, double n, double t)
{
    const double seen = l->a + l->b * n, factor = line_guesses(l, n) ? OUTLIER_FAR : OUTLIER;
    const int before = l->outlier;
    l->outlier = l->records < SEASONED ? 0 : t > seen * factor ? 1 : t < seen / factor ? -1 : 0;
    if (l->outlier && l->records == SEASONED + 1 && line_guesses(l, n))
        l->outlier = 0;
    if (l->outlier && l->outlier == before) {
        yk__line_renew(l, n, t);
        return true;
    }
    if (l->outlier)
        return false;
    line_add(l, n, t);
    line_solve(l);
    return false;
}

double yk__line_predict(const yk__line *l, double n)
{
    return l->records && n > 0 ? l->a + l->b * n : 0;
}

/* ---- Numbers for checkpoints ------------------------------------------------------------------------------------- */

void yk__line_get(const yk__line *l, double *v)
{
    const double all[YK__LINE_NUMBERS] = {l->records, l->w, l->n, l->nn, l->t, l->tt, l->nt, l->a, l->b, l->outlier + 1};
    memcpy(v, all, sizeof all);
}

void yk__line_set(yk__line *l, const double *v)
{
    *l = (yk__line){(uint32_t)v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9] > 1 ? 1 : v[9] < 1 ? -1 : 0};
}
