/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated ranks under the policy of shares (world.h). */
#include "tests/unit/balance/world.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "core/base/philox.h"

static uint32_t drawn;

double random_uniform(void)
{
    uint32_t c[4] = {drawn++, 0, 0, 0}, k[2] = {3, 5}, out[4];
    yk__philox(c, k, out);
    return (out[0] >> 8) * (1.0 / 16777216);
}

void random_from(uint32_t at)
{
    drawn = at;
}

void world_begin(world *w)
{
    yk_error err = YK_ERROR_INIT;
    for (uint32_t r = 0; r < w->ranks; r++)
        if (w->d[r].core)
            w->seat[r].cores[0] = UINT64_C(1) << w->d[r].core;
    ck_assert_msg(!yk__policy_new(w->ranks, w->seat, w->n, &w->p, &err), "%s", err.text);
}

static double factor_at(const device *d, uint64_t window)
{
    return d->factor > 0 && window >= d->from && window < d->to ? d->factor : 1;
}

/* Seconds of the runs themselves, without noise. */
static double run_seconds(const world *w, uint32_t r, uint64_t rows)
{
    const device *d = &w->d[r];
    const double usual = d->table && rows ? d->table[rows - 1] : d->a + d->b * (double)rows;
    return rows ? usual * factor_at(d, w->window) : 0;
}

/* Seconds of rank r with these shares: ranks on one core take turns. */
static double rank_seconds(const world *w, uint32_t r, const uint64_t *share)
{
    double t = run_seconds(w, r, share[r]), factor = 1;
    for (uint32_t i = 0; i < w->ranks && share[r]; i++)
        if (i != r && w->d[i].core && w->d[i].core == w->d[r].core) {
            t += w->d[i].hurt > 0 || w->d[r].hurt > 0 ? 0 : run_seconds(w, i, share[i]);
            factor *= share[i] && w->d[i].hurt > 0 ? w->d[i].hurt : 1;
        }
    return t * factor;
}

static double update_seconds(const world *w, uint32_t r, const double *owns)
{
    double all = 0;
    for (uint32_t i = 0; i < w->ranks; i++)
        all += owns[i];
    return w->d[r].update * owns[r] / all;
}

static double exchange_seconds(const world *w, const uint64_t *share)
{
    uint32_t members = 0;
    for (uint32_t r = 0; r < w->ranks; r++)
        members += share[r] > 0;
    return w->exchange * (members - 1);
}

static double window_seconds(const world *w, const uint64_t *share, const double *owns)
{
    double longest = 0, update = 0;
    for (uint32_t r = 0; r < w->ranks; r++) {
        longest = fmax(longest, rank_seconds(w, r, share));
        update = fmax(update, update_seconds(w, r, owns));
    }
    return longest + update + exchange_seconds(w, share);
}

/* The best over all shares of these ranks: a row each, the others to whoever is done first. */
double world_best_of(const world *w, uint32_t subset)
{
    uint64_t share[MOST] = {0};
    bool owner[MOST];
    double owns[MOST], update[MOST], copy[MOST] = {0};
    yk__owner_line work[MOST];
    uint64_t given = 0;
    for (uint32_t r = 0; r < w->ranks && w->n >= w->ranks; r++)
        given += share[r] = subset >> r & 1;
    for (uint64_t i = given; i < w->n; i++) {
        uint32_t who = 0;
        double least = INFINITY;
        for (uint32_t r = 0; r < w->ranks; r++) {
            double longest = 0;
            if (!(subset >> r & 1))
                continue;
            share[r]++;
            for (uint32_t k = 0; k < w->ranks; k++)
                longest = fmax(longest, rank_seconds(w, k, share));
            share[r]--;
            if (longest < least) {
                least = longest;
                who = r;
            }
        }
        share[who]++;
    }
    for (uint32_t r = 0; r < w->ranks; r++) {
        owner[r] = subset >> r & 1;
        update[r] = w->d[r].update;
    }
    yk__owner_parts(w->ranks, owner, update, copy, NULL, work, owns);
    return window_seconds(w, share, owns);
}

double world_best(const world *w)
{
    double least = INFINITY;
    for (uint32_t subset = 1; subset < 1u << w->ranks; subset++)
        least = fmin(least, world_best_of(w, subset));
    return least;
}

enum { SPELL = 10 }; /* mean length in windows */

static double recorded_factor(const device *d, uint64_t window)
{
    const char c = d->recorded[(d->recorded_at + window) % strlen(d->recorded)];
    return 0.92 * pow(1.04, c - '@' - (c > '\\'));
}

static double time_noisy(device *d, uint64_t window, double t)
{
    if (d->recorded)
        return t * recorded_factor(d, window);
    t *= 1 + d->noise * (2 * random_uniform() - 1);
    if (d->spell > 0)
        d->in_spell = random_uniform() < (d->in_spell ? 1 - 1.0 / SPELL : d->spell / (1 - d->spell) / SPELL);
    t *= d->in_spell ? 1.4 : 1;
    return random_uniform() < d->absent ? 2 * t : t;
}

static void take_events(world *w)
{
    yk__policy_event e;
    while (yk__policy_event_next(w->p, &e)) {
        w->excluded += e.kind == YK_POLICY_EXCLUDED;
        w->back += e.kind == YK_POLICY_BACK;
        w->costs += e.kind == YK_POLICY_COSTS;
        w->verdict = e.kind == YK_POLICY_EXCLUDED ? w->window : w->verdict;
        w->with = e.with;
        w->without = e.without;
    }
}

/* An excluded rank's own look at its device (core/job/team/rank_pace.c). */
static void device_look(world *w, uint32_t r)
{
    device *d = &w->d[r];
    double seconds = factor_at(d, w->window);
    if (!yk__policy_decision(w->p)->excluded[r]) {
        d->seen = (yk__recovery){0};
        d->faster = 0;
    } else if (d->looks && !yk__policy_decision(w->p)->member[r] && w->window % LOOK_EVERY == 0) {
        seconds *= 1 + d->noise * (2 * random_uniform() - 1);
        seconds *= random_uniform() < d->late ? 1 + (LATE - 1) * random_uniform() : 1;
        d->faster = yk__recovery_look(&d->seen, seconds);
    }
}

/* One window of the job. */
void world_window(world *w)
{
    yk_error err = YK_ERROR_INIT;
    const uint64_t *share = yk__policy_decision(w->p)->share;
    uint64_t before[MOST];
    double longest = 0, update = 0, compiling[MOST] = {0}, making = 0, busy[MOST] = {0};
    const bool timed = yk__policy_timed(w->p);
    for (uint32_t r = 0; r < w->ranks; r++) {
        bool *made = &w->made[r][share[r] % PROGRAMS];
        if (share[r] && !*made)
            compiling[r] = w->compile + 1e-6;
        *made = true;
        making = fmax(making, compiling[r]);
        busy[r] = time_noisy(&w->d[r], w->window, rank_seconds(w, r, share));
        longest = fmax(longest, busy[r]);
        update = fmax(update, update_seconds(w, r, yk__policy_decision(w->p)->owns));
    }
    w->last = longest + update + exchange_seconds(w, share);
    w->elapsed += w->last + making;
    w->compiled += making;
    for (uint32_t r = 0; r < w->ranks; r++) {
        yk__report *t = &w->report[r];
        if (!yk__policy_decision(w->p)->member[r])
            continue;
        t->rows = (double)share[r];
        t->busy = timed && !compiling[r] && share[r] ? busy[r] : 0;
        t->wall += making ? 0 : w->last;
        t->windows += !making;
        t->compiling += compiling[r];
        t->left = w->left;
        t->part = w->d[r].part;
        t->update = yk__policy_decision(w->p)->owns[r] > 0 ? w->d[r].update : 0; /* a rank without a part measures nothing */
    }
    for (uint32_t r = 0; r < w->ranks; r++)
        device_look(w, r);
    w->window++;
    memcpy(before, share, sizeof before);
    if (!yk__policy_pass(w->p))
        return;
    for (uint32_t r = 0; r < w->ranks; r++)
        w->report[r].faster = yk__policy_decision(w->p)->member[r] ? 0 : w->d[r].faster;
    ck_assert_msg(!yk__policy_look(w->p, w->report, &err), "%s", err.text);
    memset(w->report, 0, sizeof w->report);
    take_events(w);
    w->changes += memcmp(before, yk__policy_decision(w->p)->share, w->ranks * sizeof *before) != 0;
}

void world_windows(world *w, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (uint32_t r = 0; r < w->ranks; r++)
            sum += yk__policy_decision(w->p)->share[r];
        ck_assert_uint_eq(sum, w->n);
        world_window(w);
    }
}

uint64_t world_share(const world *w, uint32_t r)
{
    return yk__policy_decision(w->p)->share[r];
}

/* The window that shares and roles give now, beside the best there is. */
double world_rate(const world *w)
{
    return world_best(w) / window_seconds(w, yk__policy_decision(w->p)->share, yk__policy_decision(w->p)->owns);
}

void world_finish(world *w)
{
    yk__policy_free(w->p);
    w->p = NULL;
}
