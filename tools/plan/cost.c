/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of `yoke plan`: sums of work and times, rows by speed, and the fit of times to probes. Times are seconds, work is
 * operations and bytes.
 *
 * describe.c fits a device's times; search.c predicts a step, and table.c prints its parts. Pure functions.
 */
#include "tools/plan/cost.h"

#include <math.h>

const char *const cost_names[COST_BOUNDS] = {"compute", "memory", "launch", "exchange", "update", "disk"};

/* Compute, memory and launch of a micro batch. */
static void add_micro(const times *t, const work *w, double rows, double times_of, double *part)
{
    part[COST_COMPUTE] += times_of * rows * (t->products * w->products + t->convolutions * w->convolutions + t->attention * w->attention);
    part[COST_MEMORY] += times_of * rows * (t->moved * w->moved + t->special * w->special);
    part[COST_LAUNCH] += times_of * t->nodes * w->nodes;
}

double cost_sum(const cost_rank *r)
{
    double sum = 0;
    for (int i = 0; i < COST_BOUNDS; i++)
        sum += r->part[i];
    return sum;
}

double cost_micro(const times *t, const work *w)
{
    cost_rank r = {{0}, 1};
    add_micro(t, w, 1, 1, r.part);
    return cost_sum(&r);
}

cost_bound cost_bound_of(const cost_rank *r)
{
    int best = 0;
    for (int i = 1; i < COST_BOUNDS; i++)
        if (r->part[i] > r->part[best])
            best = i;
    return (cost_bound)best;
}

double cost_wire(const work *w, uint32_t ranks, double micros, bool slices_gradients)
{
    const double gradients = w->trained * (slices_gradients ? micros : 1), values = w->pulled > 0 ? w->pulled * micros : w->trained;
    return 4 * (gradients + values) * (ranks - 1) / ranks;
}

/* Rows of a rank over an even share: in proportion to its speed, so that all ranks end together. */
static double rows_factor(const cost_case *c, uint32_t i)
{
    const devices *d = c->devices;
    double speeds = 0;
    if (!c->by_speed || d->ranks < 2)
        return 1;
    for (uint32_t k = 0; k < d->n; k++)
        speeds += d->row[k].count / cost_micro(&d->row[k].times, &c->work[k]);
    return d->ranks / cost_micro(&d->row[i].times, &c->work[i]) / speeds;
}

/* Seconds of an element's update. Host and device update at once. */
static double update_seconds(const cost_case *c, const device_row *row)
{
    if (!(c->on_host > 0 && row->offload > 0))
        return row->times.update;
    return fmax(c->on_host * row->offload, (1 - c->on_host) * row->times.update);
}

double cost_step(const cost_case *c, cost_rank *rank)
{
    const devices *d = c->devices;
    double slowest = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        const times *t = &d->row[i].times;
        cost_rank *r = &rank[i];
        *r = (cost_rank){.rows = rows_factor(c, i)};
        add_micro(t, &c->work[i], r->rows, c->micros * (d->ranks > 1 ? d->together : 1), r->part);
        r->part[COST_LAUNCH] += d->ranks > 1 ? d->step : t->step;
        r->part[COST_UPDATE] = update_seconds(c, &d->row[i]) * c->work[i].trained / d->ranks;
        r->part[COST_EXCHANGE] = d->line * cost_wire(&c->work[i], d->ranks, c->micros, c->slices_gradients);
        r->part[COST_DISK] = fmax(0, d->disk * c->disk - r->part[COST_UPDATE]); /* it moves blocks while other ones are updated */
        slowest = fmax(slowest, cost_sum(r));
    }
    return slowest;
}

/* ---- The fit ----------------------------------------------------------------------------------------------------- */

/* The best value of one time if the rest stay: a line through the relative errors that are left. */
static double best_value(const double (*a)[TIMES_FIELDS], const double *s, int n, const double *x, int k)
{
    double above = 0, below = 0;
    for (int i = 0; i < n; i++) {
        double left = s[i];
        for (int j = 0; j < TIMES_FIELDS; j++)
            left -= j == k ? 0 : a[i][j] * x[j];
        above += left / s[i] * (a[i][k] / s[i]);
        below += a[i][k] / s[i] * (a[i][k] / s[i]);
    }
    return below > 0 && above > 0 ? above / below : 0;
}

void cost_fit(const double (*a)[TIMES_FIELDS], const double *s, int n, times *t)
{
    enum { ROUNDS = 20000 };
    double *x = (double *)t;
    *t = (times){0};
    for (int round = 0; round < ROUNDS; round++) /* coordinate descent, which bounds at 0 keep convex */
        for (int k = 0; k < TIMES_FIELDS; k++)
            x[k] = best_value(a, s, n, x, k);
}
