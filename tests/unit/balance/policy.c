/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy of shares over simulated ranks: no clock, no threads. A rank takes a + b rows seconds, with noise, slowed by
 * others on its core, slower or faster from a window on; making a program for another number of rows takes its time. What is
 * asserted is who takes part, after how many windows shares are right, and what was lost beside the best there is.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/balance/balance.h"

enum { MOST = 4, PROGRAMS = 2048 };

typedef struct device {
    double a, b, update, noise;
    int core;             /* ranks of one core (above 0) slow each other down; each takes the sum of their times */
    uint64_t from, to;    /* windows in which it is .. */
    double factor;        /* .. slower by this factor */
    double absent;        /* part of the windows in which it is off its core: twice as long */
} device;

typedef struct world {
    device d[MOST];
    yk__seat seat[MOST];
    uint32_t ranks;
    uint64_t n, window;
    double compile;       /* seconds */
    yk__policy *p;
    bool made[MOST][PROGRAMS];
    yk__told told[MOST];
    double elapsed, compiled, last; /* seconds; in compiles; the last window's, without them */
    uint32_t changes;
    int excluded, back, costs;
    uint64_t verdict;     /* the window of the last exclusion */
    double with, without;
} world;

static uint32_t drawn;

static double uniform(void)
{
    uint32_t c[4] = {drawn++, 0, 0, 0}, k[2] = {3, 5}, out[4];
    yk__philox(c, k, out);
    return (out[0] >> 8) * (1.0 / 16777216);
}

static void begin(world *w)
{
    yk_error err = YK_ERROR_INIT;
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
    return rows ? (d->a + d->b * (double)rows) * factor_at(d, w->window) : 0;
}

/* What rank r takes with these shares: those on its core take their turns. */
static double rank_seconds(const world *w, uint32_t r, const uint64_t *share)
{
    double t = run_seconds(w, r, share[r]);
    for (uint32_t i = 0; i < w->ranks && share[r]; i++)
        if (i != r && w->d[i].core && w->d[i].core == w->d[r].core)
            t += run_seconds(w, i, share[i]);
    return t;
}

static double update_seconds(const world *w, uint32_t r, const double *owns)
{
    double all = 0;
    for (uint32_t i = 0; i < w->ranks; i++)
        all += owns[i];
    return w->d[r].update * owns[r] / all;
}

static double window_seconds(const world *w, const uint64_t *share, const double *owns)
{
    double longest = 0, update = 0;
    for (uint32_t r = 0; r < w->ranks; r++) {
        longest = fmax(longest, rank_seconds(w, r, share));
        update = fmax(update, update_seconds(w, r, owns));
    }
    return longest + update;
}

/* The best over all shares of these ranks, by counting rows to whoever is done first. */
static double best_of(const world *w, uint32_t subset)
{
    uint64_t share[MOST] = {0};
    bool owner[MOST];
    double owns[MOST], update[MOST], copy[MOST] = {0};
    for (uint64_t i = 0; i < w->n; i++) {
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
    yk__owner_parts(w->ranks, owner, update, copy, NULL, owns);
    return window_seconds(w, share, owns);
}

static double best(const world *w)
{
    double least = INFINITY;
    for (uint32_t subset = 1; subset < 1u << w->ranks; subset++)
        least = fmin(least, best_of(w, subset));
    return least;
}

static double noisy(const device *d, double t)
{
    t *= 1 + d->noise * (2 * uniform() - 1);
    return uniform() < d->absent ? 2 * t : t;
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

/* One window of the job. */
static void window(world *w)
{
    yk_error err = YK_ERROR_INIT;
    const uint64_t *share = yk__policy_shares(w->p);
    uint64_t before[MOST];
    double longest = 0, update = 0, compiling[MOST] = {0}, making = 0, busy[MOST] = {0};
    const bool timed = yk__policy_timed(w->p);
    for (uint32_t r = 0; r < w->ranks; r++) {
        bool *made = &w->made[r][share[r] % PROGRAMS];
        if (share[r] && !*made)
            compiling[r] = w->compile + 1e-6;
        *made = true;
        making = fmax(making, compiling[r]);
        busy[r] = noisy(&w->d[r], rank_seconds(w, r, share));
        longest = fmax(longest, busy[r]);
        update = fmax(update, update_seconds(w, r, yk__policy_owns(w->p)));
    }
    w->last = longest + update;
    w->elapsed += w->last + making;
    w->compiled += making;
    for (uint32_t r = 0; r < w->ranks; r++) {
        yk__told *t = &w->told[r];
        if (!yk__policy_members(w->p)[r])
            continue;
        t->rows = (double)share[r];
        t->busy = timed && !compiling[r] && share[r] ? busy[r] : 0;
        t->wall += making ? 0 : w->last;
        t->windows += !making;
        t->compiling += compiling[r];
        t->update = yk__policy_owns(w->p)[r] > 0 ? w->d[r].update : 0; /* who owns nothing measures nothing */
    }
    w->window++;
    memcpy(before, share, sizeof before);
    if (!yk__policy_pass(w->p))
        return;
    ck_assert_msg(!yk__policy_look(w->p, w->told, &err), "%s", err.text);
    memset(w->told, 0, sizeof w->told);
    take_events(w);
    w->changes += memcmp(before, yk__policy_shares(w->p), w->ranks * sizeof *before) != 0;
}

static void windows(world *w, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (uint32_t r = 0; r < w->ranks; r++)
            sum += yk__policy_shares(w->p)[r];
        ck_assert_uint_eq(sum, w->n);
        window(w);
    }
}

static uint64_t share_of(const world *w, uint32_t r)
{
    return yk__policy_shares(w->p)[r];
}

/* The window that shares and roles give now, beside the best there is. */
static double rate_now(const world *w)
{
    return best(w) / window_seconds(w, yk__policy_shares(w->p), yk__policy_owns(w->p));
}

static void finish(world *w)
{
    yk__policy_free(w->p);
    w->p = NULL;
}

/* ---- Shares ---- */

START_TEST(like_ranks_share_evenly)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.05}, {.a = 2e-4, .b = 4e-5, .noise = 0.05}}};
    begin(&w);
    ck_assert_uint_eq(share_of(&w, 0), 64);
    windows(&w, 400);
    ck_assert_int_eq(w.excluded, 0);
    ck_assert_msg(rate_now(&w) > 0.97, "%g", rate_now(&w));
    ck_assert_msg(w.elapsed < 400 * best(&w) * 1.12, "%g of %g", w.elapsed, 400 * best(&w)); /* a trial alone takes 16 */
    finish(&w);
}
END_TEST

/* Slower by 3, 10, 30, 100, 1000: never a loss, whether the start-up probe knew it or not. */
START_TEST(a_slow_rank_is_never_a_loss)
{
    static const double factor[] = {3, 10, 30, 100, 1000};
    const double f = factor[_i % 5];
    const bool known = _i < 5;
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 5e-4, .noise = 0.05}}};
    double alone, lost;
    w.d[1] = (device){.a = 2e-4 * f, .b = 4e-5 * f, .update = 5e-4 * f, .noise = 0.05};
    w.seat[0].pace = known ? 1 : 0;
    w.seat[1].pace = known ? f : 0;
    begin(&w);
    alone = best_of(&w, 1);
    windows(&w, 1000);
    lost = (w.elapsed - 1000 * best(&w)) / alone;
    ck_assert_msg(rate_now(&w) > 0.97, "x%g: %g of the best", f, rate_now(&w));
    ck_assert_int_eq(w.excluded > 0, share_of(&w, 1) == 0);
    if (w.excluded)
        ck_assert(yk__policy_owns(w.p)[1] == 0 && !yk__policy_members(w.p)[1]);
    ck_assert_msg(!known || lost < (f > 100 ? 120 : 60), "x%g: %g steps lost", f, lost);
    finish(&w);
}
END_TEST

/* A hundred times slower, told by the probe: 20 steps at most. */
START_TEST(a_very_slow_rank_costs_few_steps)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 3e-4}, {.a = 2e-2, .b = 4e-3, .update = 3e-2}},
               .seat = {{.pace = 1}, {.pace = 100}}};
    begin(&w);
    windows(&w, 100);
    ck_assert_int_eq(w.excluded, 1);
    ck_assert_msg(w.verdict <= 40, "after %d windows", (int)w.verdict);
    ck_assert_msg(w.elapsed - 100 * best_of(&w, 1) < 50 * best_of(&w, 1), "%g steps lost", w.elapsed / best_of(&w, 1) - 100);
    ck_assert_msg(w.with > w.without, "%g %g", w.with, w.without);
    finish(&w);
}
END_TEST

/* cpu:0-1 opencl:0@1: each line alone looks good; together they wait for each other. */
START_TEST(ranks_on_one_core_come_out_as_one)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 2.5e-5, .noise = 0.05, .core = 1},
                                           {.a = 2e-4, .b = 9e-5, .noise = 0.05, .core = 1}}};
    begin(&w);
    windows(&w, 200);
    ck_assert_int_eq(w.excluded, 1);
    ck_assert_uint_eq(share_of(&w, 0), 128);
    ck_assert_msg(w.verdict < 80, "after %d windows", (int)w.verdict);
    finish(&w);
}
END_TEST

/* A machine that does much else: windows vary by half, some are twice as long. Two like ranks are still better than one. */
START_TEST(noise_does_not_exclude)
{
    int wrong = 0;
    for (int turn = 0; turn < 40; turn++) {
        world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.5, .absent = 0.15},
                                               {.a = 2e-4, .b = 5e-5, .noise = 0.5, .absent = 0.15}}};
        begin(&w);
        windows(&w, 300);
        wrong += w.excluded > w.back;
        finish(&w);
    }
    ck_assert_msg(wrong <= 2, "excluded in %d of 40 jobs", wrong);
}
END_TEST

START_TEST(several_weak_ranks_go_one_by_one)
{
    world w = {.ranks = 4, .n = 256, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.03},
                                           {.a = 4e-2, .b = 4e-3, .noise = 0.03},
                                           {.a = 2e-4, .b = 8e-5, .noise = 0.03},
                                           {.a = 2e-1, .b = 4e-3, .noise = 0.03}}};
    begin(&w);
    windows(&w, 600);
    ck_assert_int_eq(w.excluded, 2);
    ck_assert(!share_of(&w, 1) && !share_of(&w, 3) && share_of(&w, 2) > 60);
    ck_assert_msg(rate_now(&w) > 0.97, "%g", rate_now(&w));
    finish(&w);
}
END_TEST

/* ---- Changes ---- */

/* A rank slowed in mid-run, and back: right within 20 windows, without overshoot. */
START_TEST(shares_follow_within_20_windows)
{
    const double f = _i ? 4 : 2;
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.03},
                                           {.a = 2e-4, .b = 4e-5, .noise = 0.03, .from = 300, .to = 600, .factor = f}}};
    uint64_t least = 128;
    begin(&w);
    windows(&w, 300);
    for (int i = 0; i < 20; i++) {
        window(&w);
        least = share_of(&w, 1) < least ? share_of(&w, 1) : least;
    }
    ck_assert_msg(rate_now(&w) > 0.9, "x%g: %g of the best after 20 windows, shares %d %d", f, rate_now(&w), (int)share_of(&w, 0),
                  (int)share_of(&w, 1));
    ck_assert_uint_ge((double)least, 0.8 * 128 / (1 + f));
    windows(&w, 279);
    ck_assert_msg(rate_now(&w) > 0.96, "x%g: %g", f, rate_now(&w));
    windows(&w, 21);
    ck_assert_msg(rate_now(&w) > 0.9, "back from x%g: %g of the best after 20 windows, shares %d %d", f, rate_now(&w),
                  (int)share_of(&w, 0), (int)share_of(&w, 1));
    windows(&w, 100);
    ck_assert_msg(rate_now(&w) > 0.96, "back from x%g: %g", f, rate_now(&w));
    ck_assert_int_eq(w.excluded, 0);
    finish(&w);
}
END_TEST

/* A busy neighbour: off its core in two windows of five. */
START_TEST(a_disturbed_rank_has_fewer_rows)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.02},
                                           {.a = 2e-4, .b = 4e-5, .noise = 0.02, .absent = 0.4}}};
    double sum = 0;
    begin(&w);
    windows(&w, 400);
    w.elapsed = 0;
    windows(&w, 400);
    sum = w.elapsed / 400;
    ck_assert_msg(sum < 1.1 * best_of(&w, 1), "%g, alone %g", sum, best_of(&w, 1));
    ck_assert_msg(share_of(&w, 1) < 60, "%d rows", (int)share_of(&w, 1));
    finish(&w);
}
END_TEST

/* Programs that take 4 s to make, windows of 5 ms: shares change no more often than that earns. */
START_TEST(changes_earn_their_compiles)
{
    world w = {.ranks = 2, .n = 128, .compile = 4, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.1}, {.a = 2e-4, .b = 5e-5, .noise = 0.1}}};
    begin(&w);
    windows(&w, 2000);
    ck_assert_msg(w.compiled < 17, "%g s in compiles, %d changes", w.compiled, (int)w.changes);
    finish(&w);
}
END_TEST

START_TEST(steady_shares_are_calm)
{
    world w = {.ranks = 3, .n = 300, .d = {{.a = 1e-3, .b = 1e-4, .noise = 0.08},
                                           {.a = 1e-3, .b = 2e-4, .noise = 0.08},
                                           {.a = 5e-4, .b = 1.5e-4, .noise = 0.08}}};
    begin(&w);
    windows(&w, 200);
    ck_assert_msg(rate_now(&w) > 0.95, "%g", rate_now(&w));
    w.changes = 0;
    windows(&w, 1000);
    ck_assert_msg(w.changes <= 12, "%d changes in 1000 windows", (int)w.changes);
    ck_assert_msg(rate_now(&w) > 0.95, "%g", rate_now(&w));
    finish(&w);
}
END_TEST

/* The optimizer's parts follow measured update times, which the start-up probe did not tell. */
START_TEST(parts_of_the_optimizer_follow)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 4e-3}, {.a = 2e-4, .b = 1.2e-4, .update = 3.6e-2}},
               .seat = {{.pace = 1}, {.pace = 3}}};
    const double *owns;
    begin(&w);
    windows(&w, 200);
    owns = yk__policy_owns(w.p);
    ck_assert_msg(owns[1] > 0 && fabs(owns[1] / (owns[0] + owns[1]) - 0.1) < 0.02, "%g %g", owns[0], owns[1]);
    ck_assert_uint_le(yk__policy_generation(w.p), 16);
    finish(&w);
}
END_TEST

static uint64_t timed_of(world *w, uint64_t n)
{
    uint64_t timed = 0;
    for (uint64_t i = 0; i < n; i++) {
        timed += yk__policy_timed(w->p);
        window(w);
    }
    return timed;
}

START_TEST(steady_windows_are_seldom_timed)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.02}, {.a = 2e-4, .b = 6e-5, .noise = 0.02}}};
    begin(&w);
    windows(&w, 200);
    ck_assert(yk__policy_settled(w.p));
    ck_assert_uint_le(timed_of(&w, 500), 60);
    finish(&w);
}
END_TEST

/* ---- Excluded and tried again ---- */

START_TEST(tries_cost_little)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5}, {.a = 1e-1, .b = 4e-3}}, .seat = {{.pace = 1}, {.pace = 100}}};
    double alone;
    begin(&w);
    windows(&w, 200);
    ck_assert_int_eq(w.excluded, 1);
    alone = best_of(&w, 1);
    w.elapsed = 0;
    windows(&w, 40000);
    ck_assert_msg(w.elapsed < 40000 * alone * 1.008, "%g of %g", w.elapsed, 40000 * alone);
    ck_assert_msg(w.elapsed > 40000 * alone * 1.0005, "never tried again");
    ck_assert_int_eq(w.excluded, 1);
    finish(&w);
}
END_TEST

START_TEST(a_rank_that_recovers_comes_back)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.03},
                                           {.a = 2e-4, .b = 4e-5, .noise = 0.03, .to = 1000, .factor = 200}}};
    begin(&w);
    windows(&w, 900);
    ck_assert_int_eq(w.excluded, 1);
    ck_assert_uint_eq(share_of(&w, 1), 0);
    windows(&w, 12000);
    ck_assert_int_eq(w.back, 1);
    ck_assert_msg(share_of(&w, 1) > 55, "%d rows", (int)share_of(&w, 1));
    ck_assert(yk__policy_members(w.p)[1] && yk__policy_owns(w.p)[1] > 0.3);
    finish(&w);
}
END_TEST

START_TEST(a_forced_rank_stays_and_is_told_of)
{
    world w = {.ranks = 2, .n = 8192, .d = {{.a = 2e-4, .b = 1e-6}, {.a = 5e-2, .b = 1e-4}},
               .seat = {{.pace = 1}, {.pace = 50, .forced = true}}};
    begin(&w);
    windows(&w, 400);
    ck_assert_int_eq(w.excluded, 0);
    ck_assert_int_eq(w.costs, 1);
    ck_assert_uint_eq(share_of(&w, 1), 1); /* not a 128th of the batch */
    ck_assert_msg(w.with > 1.2 * w.without, "%g %g", w.with, w.without);
    finish(&w);
}
END_TEST

/* ---- Limits, checkpoints ---- */

START_TEST(memory_caps_hold)
{
    world w = {.ranks = 2, .n = 256, .d = {{.a = 1e-3, .b = 1e-4}, {.a = 1e-3, .b = 1e-4}},
               .seat = {{.limited = false}, {.limited = true}}};
    yk_error err = YK_ERROR_INIT;
    w.seat[0].pace = 3, w.seat[1].pace = 1; /* however slow: the others of unlimited memory take the rest */
    begin(&w);
    ck_assert_uint_eq(share_of(&w, 1), 32);
    w.told[1].cap = 60;
    window(&w);
    for (int i = 0; i < 100; i++) {
        w.told[1].cap = 60;
        window(&w);
        ck_assert_uint_le(share_of(&w, 1), 60);
    }
    ck_assert_uint_ge(share_of(&w, 1), 50);
    yk__policy_pass(w.p);
    w.told[0].cap = w.told[1].cap = 100;
    ck_assert_int_eq(yk__policy_look(w.p, w.told, &err), YK_E_MEM);
    ck_assert_msg(strstr(err.text, "256") && strstr(err.text, "200"), "%s", err.text);
    finish(&w);
}
END_TEST

START_TEST(fewer_rows_than_ranks)
{
    world w = {.ranks = 4, .n = 3};
    for (int r = 0; r < 4; r++)
        w.d[r] = (device){.a = 1e-3, .b = 1e-3};
    begin(&w);
    windows(&w, 300);
    finish(&w);
}
END_TEST

START_TEST(goes_on_from_its_numbers)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5}, {.a = 1e-1, .b = 4e-3}}};
    yk_error err = YK_ERROR_INIT;
    yk__policy *other = NULL;
    double *v;
    begin(&w);
    windows(&w, 200);
    v = calloc(yk__policy_count(w.p), sizeof *v);
    yk__policy_get(w.p, v);
    ck_assert_int_eq(yk__policy_new(2, w.seat, 128, &other, &err), YK_OK);
    ck_assert(yk__policy_set(other, v));
    ck_assert_mem_eq(yk__policy_shares(other), yk__policy_shares(w.p), 2 * sizeof(uint64_t));
    ck_assert(!yk__policy_members(other)[1] && yk__policy_owns(other)[1] == 0);
    for (uint32_t i = 0; i < yk__policy_count(w.p); i++) { /* whatever a file holds */
        const double was = v[i];
        v[i] = NAN;
        ck_assert(!yk__policy_set(other, v));
        v[i] = -1;
        ck_assert(!yk__policy_set(other, v));
        v[i] = was;
    }
    v[8] = 100; /* shares that do not add up */
    ck_assert(!yk__policy_set(other, v));
    free(v);
    yk__policy_free(other);
    finish(&w);
}
END_TEST

/* Deterministic: equal numbers, equal decisions, for any devices; the best subset within 5 %. */
START_TEST(any_devices)
{
    double least = 1;
    for (int turn = 0; turn < 60; turn++) {
        world w = {.ranks = 2 + (uint32_t)(uniform() * 3), .n = 32 + (uint64_t)(uniform() * 400), .compile = uniform() < 0.3 ? 0.2 : 0};
        for (uint32_t r = 0; r < w.ranks; r++) {
            const double pace = exp(uniform() * 5);
            w.d[r] = (device){.a = 1e-4 * exp(uniform() * 4), .b = 2e-5 * pace, .update = 1e-4 * pace, .noise = 0.03};
            w.seat[r].pace = uniform() < 0.8 ? pace : 0;
        }
        begin(&w);
        windows(&w, 700);
        least = fmin(least, rate_now(&w));
        ck_assert_msg(rate_now(&w) > 0.93, "turn %d, %d ranks: %g of the best", turn, (int)w.ranks, rate_now(&w));
        finish(&w);
    }
    ck_assert_msg(least > 0.93, "%g", least);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("policy");
    TCase *t = tcase_create("policy");
    SRunner *sr = srunner_create(s);
    tcase_add_test(t, like_ranks_share_evenly);
    tcase_add_loop_test(t, a_slow_rank_is_never_a_loss, 0, 10);
    tcase_add_test(t, a_very_slow_rank_costs_few_steps);
    tcase_add_test(t, ranks_on_one_core_come_out_as_one);
    tcase_add_test(t, noise_does_not_exclude);
    tcase_add_test(t, several_weak_ranks_go_one_by_one);
    tcase_add_loop_test(t, shares_follow_within_20_windows, 0, 2);
    tcase_add_test(t, a_disturbed_rank_has_fewer_rows);
    tcase_add_test(t, changes_earn_their_compiles);
    tcase_add_test(t, steady_shares_are_calm);
    tcase_add_test(t, parts_of_the_optimizer_follow);
    tcase_add_test(t, steady_windows_are_seldom_timed);
    tcase_add_test(t, tries_cost_little);
    tcase_add_test(t, a_rank_that_recovers_comes_back);
    tcase_add_test(t, a_forced_rank_stays_and_is_told_of);
    tcase_add_test(t, memory_caps_hold);
    tcase_add_test(t, fewer_rows_than_ranks);
    tcase_add_test(t, goes_on_from_its_numbers);
    tcase_add_test(t, any_devices);
    suite_add_tcase(s, t);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    srunner_free(sr);
    return 0;
}
