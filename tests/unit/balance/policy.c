/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of shares over simulated ranks: the members, the number of windows until shares are right, and the loss against the best
 * set. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/run.h"
#include "tests/unit/balance/recorded.h"
#include "tests/unit/balance/world.h"

/* ---- Shares ---- */

START_TEST(like_ranks_share_evenly)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.05}, {.a = 2e-4, .b = 4e-5, .noise = 0.05}}};
    world_begin(&w);
    ck_assert_uint_eq(world_share(&w, 0), 64);
    world_windows(&w, 400);
    ck_assert_int_eq(w.excluded, 0);
    ck_assert_msg(world_rate(&w) > 0.97, "%g", world_rate(&w));
    ck_assert_msg(w.elapsed < 400 * world_best(&w) * 1.12, "%g of %g", w.elapsed, 400 * world_best(&w)); /* a trial alone takes 16 */
    world_finish(&w);
}
END_TEST

/* Slower by 3, 10, 30, 100, 1000: never a loss, known to the start-up probe or not. */
START_TEST(a_slow_rank_is_never_a_loss)
{
    static const double factor[] = {3, 10, 30, 100, 1000};
    const double f = factor[_i % 5];
    const bool known = _i < 5;
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 5e-4, .noise = 0.05}}};
    double fast_only, lost;
    w.d[1] = (device){.a = 2e-4 * f, .b = 4e-5 * f, .update = 5e-4 * f, .noise = 0.05};
    w.seat[0].pace = known ? 1 : 0;
    w.seat[1].pace = known ? f : 0;
    world_begin(&w);
    fast_only = world_best_of(&w, 1);
    world_windows(&w, 1000);
    lost = (w.elapsed - 1000 * world_best(&w)) / fast_only;
    for (int i = 0; i < 100 && !yk__policy_decision(w.p)->settled; i++) /* it may be trying the rank again just now */
        world_window(&w);
    ck_assert_msg(world_rate(&w) > 0.97, "x%g: %g of the best", f, world_rate(&w));
    ck_assert_int_eq(w.excluded > 0, world_share(&w, 1) == 0);
    if (w.excluded)
        ck_assert(yk__policy_decision(w.p)->owns[1] == 0 && !yk__policy_decision(w.p)->member[1]);
    ck_assert_msg(!known || lost < (f > 100 ? 120 : 60), "x%g: %g steps lost", f, lost);
    world_finish(&w);
}
END_TEST

/* A hundred times slower, told by the probe: 20 steps at most. */
START_TEST(a_very_slow_rank_costs_few_steps)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 3e-4}, {.a = 2e-2, .b = 4e-3, .update = 3e-2}},
               .seat = {{.pace = 1}, {.pace = 100}}};
    world_begin(&w);
    world_windows(&w, 100);
    ck_assert_int_eq(w.excluded, 1);
    ck_assert_msg(w.verdict <= 40, "after %d windows", (int)w.verdict);
    ck_assert_msg(w.elapsed - 100 * world_best_of(&w, 1) < 50 * world_best_of(&w, 1), "%g steps lost",
                  w.elapsed / world_best_of(&w, 1) - 100);
    ck_assert_msg(w.with > w.without, "%g %g", w.with, w.without);
    world_finish(&w);
}
END_TEST

/* cpu:0-1 opencl:0@1: each line alone looks good; together they wait for each other. */
START_TEST(ranks_on_one_core_come_out_as_one)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 2.5e-5, .noise = 0.05, .core = 1},
                                           {.a = 2e-4, .b = 9e-5, .noise = 0.05, .core = 1}}};
    world_begin(&w);
    world_windows(&w, 200);
    ck_assert_int_eq(w.excluded, 1);
    ck_assert_uint_eq(world_share(&w, 0), 128);
    ck_assert_msg(w.verdict < 80, "after %d windows", (int)w.verdict);
    world_finish(&w);
}
END_TEST

/* A machine that does much else: windows vary by half, some are twice as long. Two like ranks are still better than one. */
START_TEST(noise_does_not_exclude)
{
    int wrong = 0;
    for (int turn = 0; turn < 40; turn++) {
        world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.5, .absent = 0.15},
                                               {.a = 2e-4, .b = 5e-5, .noise = 0.5, .absent = 0.15}}};
        world_begin(&w);
        world_windows(&w, 300);
        wrong += w.excluded > w.back;
        world_finish(&w);
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
    world_begin(&w);
    world_windows(&w, 600);
    ck_assert_int_eq(w.excluded, 2);
    ck_assert(!world_share(&w, 1) && !world_share(&w, 3) && world_share(&w, 2) > 60);
    ck_assert_msg(world_rate(&w) > 0.97, "%g", world_rate(&w));
    world_finish(&w);
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
    world_begin(&w);
    world_windows(&w, 300);
    for (int i = 0; i < 20; i++) {
        world_window(&w);
        least = world_share(&w, 1) < least ? world_share(&w, 1) : least;
    }
    ck_assert_msg(world_rate(&w) > 0.9, "x%g: %g of the best after 20 windows, shares %d %d", f, world_rate(&w), (int)world_share(&w, 0),
                  (int)world_share(&w, 1));
    ck_assert_uint_ge((double)least, 0.8 * 128 / (1 + f));
    world_windows(&w, 279);
    ck_assert_msg(world_rate(&w) > 0.96, "x%g: %g", f, world_rate(&w));
    world_windows(&w, 21);
    ck_assert_msg(world_rate(&w) > 0.9, "back from x%g: %g of the best after 20 windows, shares %d %d", f, world_rate(&w),
                  (int)world_share(&w, 0), (int)world_share(&w, 1));
    world_windows(&w, 100);
    ck_assert_msg(world_rate(&w) > 0.96, "back from x%g: %g", f, world_rate(&w));
    ck_assert_int_eq(w.excluded, 0);
    world_finish(&w);
}
END_TEST

/* The windows after which shares are within 3 % of the best for good, of forced ranks without noise; the second one changes from `was` to
 * `now` times slower with the window `at`. */
static int windows_until_best(double was, double now, uint64_t at)
{
    world w = {.ranks = 2, .n = 64, .seat = {{.forced = true}, {.forced = true}},
               .d = {{.b = 1e-3}, {.b = was > now ? 1e-3 * now : 1e-3 * was, .from = was > now ? 0 : at, .to = was > now ? at : 10000,
                                   .factor = was > now ? was / now : now / was}}};
    int late = 0;
    world_begin(&w);
    world_windows(&w, at);
    for (int i = 0; i < 60; i++) {
        late = world_rate(&w) < 0.97 ? i + 1 : late;
        world_window(&w);
    }
    world_finish(&w);
    return late;
}

/* One window of ten is timed, so a change is tried at each of ten successive windows. Three windows are left of the 20 of bench/mixed
 * --known for a look that other work delays. */
START_TEST(shares_follow_at_each_window)
{
    const double change[4][2] = {{1, 2}, {1, 4}, {2, 1}, {4, 1}};
    for (uint64_t at = 100; at < 110; at++) {
        const int late = windows_until_best(change[_i][0], change[_i][1], at);
        ck_assert_msg(late <= 17, "x%g to x%g at window %d: %d windows", change[_i][0], change[_i][1], (int)at, late);
    }
}
END_TEST

/* A busy neighbour: off its core in two windows of five. The best shares take 0.70 of what the other rank takes alone. */
START_TEST(a_disturbed_rank_costs_less_than_leaving_it_out)
{
    enum { JOBS = 40 };
    double cost = 0, longest = 0;
    for (uint32_t seed = 0; seed < JOBS; seed++) {
        world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.02},
                                               {.a = 2e-4, .b = 4e-5, .noise = 0.02, .absent = 0.4}}};
        double part;
        random_from(seed * 100000u);
        world_begin(&w);
        world_windows(&w, 400);
        w.elapsed = 0;
        world_windows(&w, 400);
        part = w.elapsed / 400 / world_best_of(&w, 1);
        cost += part / JOBS;
        longest = fmax(longest, part);
        ck_assert_int_eq(w.excluded, 0);
        world_finish(&w);
    }
    ck_assert_msg(cost < 0.76 && longest < 0.85, "%g of the time without it, at most %g", cost, longest);
}
END_TEST

/* ---- A machine that does other things ---- */

/* As measured on a virtual machine whose host is busy: windows of some milliseconds, most within 10 %, some twice as long. */
static world noisy_world(uint32_t seed)
{
    const device like = {.a = 5e-4, .b = 2e-5, .update = 1e-4, .noise = 0.1, .absent = 0.06};
    world w = {.ranks = 2, .n = 128, .exchange = 2e-4, .d = {like, like}, .seat = {{.pace = 1}, {.pace = 1}}};
    random_from(seed * 100000u);
    return w;
}

/* Windows from now on until the job is within 7 % of the best for the rest of them. */
static int windows_to_follow(world *w, int n)
{
    int last = 0;
    for (int i = 0; i < n; i++) {
        world_window(w);
        last = world_rate(w) < 0.93 ? i + 1 : last;
    }
    return last;
}

/* A rank 2 or 4 times slower in mid-run: half of the jobs are right within 20 windows, four of five within 40. */
START_TEST(shares_follow_in_noise)
{
    enum { JOBS = 40 };
    int early = 0, late = 0;
    for (uint32_t seed = 0; seed < JOBS; seed++) {
        world w = noisy_world(seed);
        int windows;
        w.d[1].from = 300, w.d[1].to = 1000000, w.d[1].factor = _i ? 4 : 2;
        w.seat[0].forced = w.seat[1].forced = true;
        world_begin(&w);
        world_windows(&w, 300);
        windows = windows_to_follow(&w, 150);
        early += windows <= 20;
        late += windows <= 40;
        world_finish(&w);
    }
    ck_assert_msg(early >= JOBS / 2, "%d of %d jobs within 20 windows", early, JOBS);
    ck_assert_msg(late > JOBS * 4 / 5, "%d of %d jobs within 40 windows", late, JOBS);
}
END_TEST

/* Windows until the job is first within 3 % of the best. */
static int windows_to_best(world *w, int n)
{
    for (int i = 0; i < n; i++) {
        if (world_rate(w) >= 0.97)
            return i;
        world_window(w);
    }
    return n;
}

/* As seen on a machine: a row beyond a block of 16 costs as much as several rows, and noise comes in spells of many windows. */
START_TEST(shares_follow_on_a_recorded_machine)
{
    enum { JOBS = 48 };
    static double seconds[RECORDED_ROWS];
    int early = 0;
    for (int i = 0; i < RECORDED_ROWS; i++)
        seconds[i] = recorded_ms[i] / 1000;
    for (uint64_t job = 0; job < JOBS; job++) {
        world w = {.ranks = 2, .n = RECORDED_ROWS, .exchange = 3e-4, .seat = {{.pace = 1, .forced = true}, {.pace = 1, .forced = true}}};
        for (int r = 0; r < 2; r++)
            w.d[r] = (device){.table = seconds, .recorded = recorded_noise[r], .recorded_at = job * RECORDED_WINDOWS / JOBS};
        w.d[1].from = 300, w.d[1].to = 1000000, w.d[1].factor = _i ? 4 : 2;
        world_begin(&w);
        world_windows(&w, 300);
        early += windows_to_best(&w, 60) <= 20;
        world_finish(&w);
    }
    ck_assert_msg(early >= JOBS * (_i ? 4 : 9) / (_i ? 5 : 10), "%d of %d jobs within 20 windows", early, JOBS);
}
END_TEST

/* The mean rate of `windows` windows beside the best, after the first `from`, of `jobs` jobs that differ in their noise; *steady (may be
 * NULL): the part of them in which nothing is found out. */
static double mean_rate(const world *like, int jobs, uint64_t from, int windows, double *steady)
{
    double rate = 0, settled = 0;
    for (int job = 0; job < jobs; job++) {
        world w = *like;
        double sum = 0;
        random_from((uint32_t)job * 100000u);
        world_begin(&w);
        world_windows(&w, from);
        for (int i = 0; i < windows; i++) {
            world_window(&w);
            sum += 1 / world_rate(&w);
            settled += yk__policy_decision(w.p)->settled;
        }
        rate += windows / sum / jobs;
        world_finish(&w);
    }
    if (steady)
        *steady = settled / windows / jobs;
    return rate;
}

/* A busy host slows a core for some ten windows in a row, again and again: rows that went to and fro with that would be wrong most of the
 * time, as they come late. */
START_TEST(spells_are_not_followed)
{
    world w = noisy_world(0);
    double rate;
    w.d[0].spell = w.d[1].spell = 0.1;
    w.seat[0].forced = w.seat[1].forced = true;
    rate = mean_rate(&w, 40, 300, 200, NULL);
    ck_assert_msg(rate > 0.98, "%g of the best rate", rate);
}
END_TEST

/* A change that the lines explain needs no trials of all ranks, and those that there are end when the noise without single late windows
 * lets them. */
START_TEST(a_change_brings_few_trials)
{
    world w = noisy_world(0);
    double rate;
    w.d[1].from = 300, w.d[1].to = 1000000, w.d[1].factor = 2;
    rate = mean_rate(&w, 40, 300, 200, NULL);
    ck_assert_msg(rate > 0.94, "%g of the best rate", rate);
}
END_TEST

/* Single windows that are late move nobody's rows and bring no trials: of ranks on one core, of which one is left, and of two that
 * help each other. */
START_TEST(noise_is_not_followed)
{
    world w = noisy_world(0);
    double steady, rate;
    w.d[0].core = w.d[1].core = _i;
    w.d[1].b *= 1.25;
    rate = mean_rate(&w, 20, 400, 1200, &steady);
    ck_assert_msg(rate > (_i ? 0.99 : 0.975), "%g of the best rate", rate);
    ck_assert_msg(steady > 0.78, "settled for %g of the time", steady);
}
END_TEST

/* A rank that came down to one row and is fast again: two rows gain less than is worth new shares, the whole way gains much. */
START_TEST(one_row_is_no_trap)
{
    world w = {.ranks = 2, .n = 128, .exchange = 2e-4,
               .d = {{.a = 5e-4, .b = 2e-5}, {.a = 5e-4, .b = 2e-5, .from = 300, .to = 600, .factor = 30}},
               .seat = {{.pace = 1, .forced = true}, {.pace = 1, .forced = true}}};
    world_begin(&w);
    world_windows(&w, 590);
    ck_assert_uint_le(world_share(&w, 1), 1);
    world_windows(&w, 110);
    ck_assert_msg(world_rate(&w) > 0.95, "%g of the best, %d rows", world_rate(&w), (int)world_share(&w, 1));
    world_finish(&w);
}
END_TEST

/* Programs that take 4 s to make, windows of 5 ms: shares change no more often than that earns. */
START_TEST(changes_earn_their_compiles)
{
    world w = {.ranks = 2, .n = 128, .compile = 4, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.1}, {.a = 2e-4, .b = 5e-5, .noise = 0.1}}};
    world_begin(&w);
    world_windows(&w, 2000);
    ck_assert_msg(w.compiled < 17, "%g s in compiles, %d changes", w.compiled, (int)w.changes);
    world_finish(&w);
}
END_TEST

START_TEST(steady_shares_are_calm)
{
    world w = {.ranks = 3, .n = 300, .d = {{.a = 1e-3, .b = 1e-4, .noise = 0.08},
                                           {.a = 1e-3, .b = 2e-4, .noise = 0.08},
                                           {.a = 5e-4, .b = 1.5e-4, .noise = 0.08}}};
    world_begin(&w);
    world_windows(&w, 200);
    ck_assert_msg(world_rate(&w) > 0.95, "%g", world_rate(&w));
    w.changes = 0;
    world_windows(&w, 1000);
    ck_assert_msg(w.changes <= 12, "%d changes in 1000 windows", (int)w.changes);
    ck_assert_msg(world_rate(&w) > 0.95, "%g", world_rate(&w));
    world_finish(&w);
}
END_TEST

/* The optimizer's parts follow measured update times, which the start-up probe did not tell. */
START_TEST(parts_of_the_optimizer_follow)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 4e-3}, {.a = 2e-4, .b = 1.2e-4, .update = 3.6e-2}},
               .seat = {{.pace = 1}, {.pace = 3}}};
    const double *owns;
    world_begin(&w);
    world_windows(&w, 200);
    owns = yk__policy_decision(w.p)->owns;
    ck_assert_msg(owns[1] > 0 && fabs(owns[1] / (owns[0] + owns[1]) - 0.1) < 0.02, "%g %g", owns[0], owns[1]);
    ck_assert_uint_le(yk__policy_decision(w.p)->generation, 16);
    world_finish(&w);
}
END_TEST

/* Moments are memory: of a limited rank, which updates faster, up to what it tells fits, beyond an even part; even where it does
 * not tell. */
START_TEST(parts_of_the_optimizer_fit_memory)
{
    const double fits = _i == 0 ? 0.7 : _i == 1 ? 0.2 : 0, due = fits > 0 ? fits : 0.5;
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 9e-3}, {.a = 2e-4, .b = 4e-5, .update = 1e-3, .part = fits}},
               .seat = {{.limited = false}, {.limited = true}}};
    const double *owns;
    world_begin(&w);
    world_windows(&w, 200);
    owns = yk__policy_decision(w.p)->owns;
    ck_assert_msg(fabs(owns[1] / (owns[0] + owns[1]) - due) < 0.01, "%g of %g", owns[1] / (owns[0] + owns[1]), due);
    world_finish(&w);
}
END_TEST

static void expect_parts(const world *w, double first, double second)
{
    const double *owns = yk__policy_decision(w->p)->owns;
    ck_assert_msg(owns[0] == first && owns[1] == second, "%g:%g, fixed at 1:3", owns[0], owns[1]);
}

/* Fixed parts stay as they are beside a rank that updates faster. An excluded rank's part goes to the other, and comes back with it. A
 * checkpoint of a job with other parts leaves them alone. */
START_TEST(parts_of_the_optimizer_stay_fixed)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.03, .update = 1e-4},
                                           {.a = 2e-4, .b = 4e-5, .noise = 0.03, .update = 1e-3, .from = 300, .to = 1000, .factor = 200}},
               .seat = {{.part = 1}, {.part = 3}}};
    yk_error err = YK_ERROR_INIT;
    yk__policy *other;
    double *v;
    world_begin(&w);
    expect_parts(&w, 1, 3);
    world_windows(&w, 300);
    expect_parts(&w, 1, 3);
    world_windows(&w, 600);
    ck_assert_int_eq(w.excluded, 1);
    expect_parts(&w, 1, 0);
    world_windows(&w, 12000);
    ck_assert_int_eq(w.back, 1);
    expect_parts(&w, 1, 3);
    v = calloc(yk__policy_count(w.p), sizeof *v);
    yk__policy_get(w.p, v);
    w.seat[0].part = 7;
    ck_assert_int_eq(yk__policy_new(2, w.seat, 128, &other, &err), YK_OK);
    ck_assert(yk__policy_set(other, v));
    ck_assert(yk__policy_decision(other)->owns[0] == 7 && yk__policy_decision(other)->owns[1] == 3);
    free(v);
    yk__policy_free(other);
    world_finish(&w);
}
END_TEST

static uint64_t timed_of(world *w, uint64_t n)
{
    uint64_t timed = 0;
    for (uint64_t i = 0; i < n; i++) {
        timed += yk__policy_timed(w->p);
        world_window(w);
    }
    return timed;
}

START_TEST(steady_windows_are_seldom_timed)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.02}, {.a = 2e-4, .b = 6e-5, .noise = 0.02}}};
    world_begin(&w);
    world_windows(&w, 200);
    ck_assert(yk__policy_decision(w.p)->settled);
    ck_assert_uint_le(timed_of(&w, 500), 60);
    world_finish(&w);
}
END_TEST

/* ---- Excluded and tried again ---- */

START_TEST(tries_cost_little)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5}, {.a = 1e-1, .b = 4e-3}}, .seat = {{.pace = 1}, {.pace = 100}}};
    double fast_only;
    world_begin(&w);
    world_windows(&w, 200);
    ck_assert_int_eq(w.excluded, 1);
    fast_only = world_best_of(&w, 1);
    w.elapsed = 0;
    world_windows(&w, 40000);
    ck_assert_msg(w.elapsed < 40000 * fast_only * 1.008, "%g of %g", w.elapsed, 40000 * fast_only);
    ck_assert_msg(w.elapsed > 40000 * fast_only * 1.0005, "never tried again");
    ck_assert_int_eq(w.excluded, 1);
    world_finish(&w);
}
END_TEST

/* Loss in the last windows of a job against the best set, as a mean over some jobs. */
static double lost_late(const world *like, int jobs, uint64_t from, uint64_t windows)
{
    double lost = 0;
    for (int i = 0; i < jobs; i++) {
        world w = *like;
        random_from((uint32_t)i);
        world_begin(&w);
        world_windows(&w, from);
        w.elapsed = 0;
        world_windows(&w, windows);
        lost += w.elapsed / ((double)windows * world_best(&w)) - 1;
        world_finish(&w);
    }
    return lost / jobs;
}

/* Two ranks on one core, whose lines promise a gain again and again: 0.9 % are late windows, which any set has. */
START_TEST(all_that_tries_take_is_counted)
{
    const world w = {.ranks = 2, .n = 128, .d = {{.a = 1e-4, .b = 13e-6, .noise = 0.1, .absent = 0.01, .core = 1},
                                                 {.a = 3e-4, .b = 15e-6, .noise = 0.1, .absent = 0.01, .core = 1}}};
    const double lost = lost_late(&w, 100, 900, 450);
    ck_assert_msg(lost < 0.016, "%.4f of the best set's rate is lost", lost);
}
END_TEST

START_TEST(a_rank_that_recovers_comes_back)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.03},
                                           {.a = 2e-4, .b = 4e-5, .noise = 0.03, .to = 1000, .factor = 200}}};
    world_begin(&w);
    world_windows(&w, 900);
    ck_assert_int_eq(w.excluded, 1);
    ck_assert_uint_eq(world_share(&w, 1), 0);
    world_windows(&w, 12000);
    ck_assert_int_eq(w.back, 1);
    ck_assert_msg(world_share(&w, 1) > 55, "%d rows", (int)world_share(&w, 1));
    ck_assert(yk__policy_decision(w.p)->member[1] && yk__policy_decision(w.p)->owns[1] > 0.3);
    world_finish(&w);
}
END_TEST

/* 40 jobs with a rank that is slower by the factor, for some windows, and useless meanwhile: counts jobs as fast as their best set
 * within 40 windows of the change, and again within `most` of the recovery. noisy: other work delays a third of the rank's looks at its
 * device. */
static void jobs_with_spell(uint64_t from, uint64_t windows, double factor, bool noisy, int most, int *slow, int *back)
{
    const device like = {.a = 6.6e-3, .b = 5e-5, .update = 1e-4, .noise = noisy ? 0.1 : 0.03, .absent = noisy ? 0.06 : 0,
                         .looks = true, .late = noisy ? 0.33 : 0.05};
    *slow = *back = 0;
    for (uint32_t seed = 0; seed < 40; seed++) {
        world w = {.ranks = 2, .n = 128, .exchange = 2e-4, .d = {like, like}, .seat = {{.pace = 1}, {.pace = 1}}};
        random_from(seed * 100000u);
        w.d[1].from = from ? from + seed % 10 : 0, w.d[1].to = w.d[1].from + windows + seed % 5, w.d[1].factor = factor;
        world_begin(&w);
        world_windows(&w, w.d[1].from);
        *slow += windows_to_best(&w, 41) <= 40;
        world_windows(&w, w.d[1].to - w.window);
        *back += windows_to_best(&w, most + 1) <= most;
        world_finish(&w);
    }
}

START_TEST(a_spell_is_left_and_ended_in_time)
{
    int slow, back;
    jobs_with_spell(300, _i / 2 % 2 ? 100 : 400, 2 + _i / 4, _i % 2, 20, &slow, &back);
    ck_assert_msg(slow >= 36 && back >= 36, "%d of 40 jobs within 40 windows, %d back within 20", slow, back);
}
END_TEST

/* A rank that is slow from the start on has never had a share. */
START_TEST(a_spell_at_the_start_ends_too)
{
    int slow, back;
    jobs_with_spell(0, 150, 2 + _i, false, 40, &slow, &back);
    ck_assert_msg(slow >= 36 && back >= 36, "%d of 40 jobs within 40 windows, %d back within 40", slow, back);
}
END_TEST

/* Its device says that it is faster, but it is useless: resulting trials count as any other. */
START_TEST(a_false_sign_costs_little)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5}, {.a = 2e-4, .b = 4e-5, .from = 300, .to = 1000000, .factor = 40}}};
    double fast_only;
    world_begin(&w);
    world_windows(&w, 600);
    ck_assert(!yk__policy_decision(w.p)->member[1]);
    fast_only = world_best_of(&w, 1);
    w.elapsed = 0;
    w.d[1].faster = 2;
    world_windows(&w, 40000);
    ck_assert_msg(w.elapsed < 40000 * fast_only * 1.008, "%g of %g", w.elapsed, 40000 * fast_only);
    world_finish(&w);
}
END_TEST

START_TEST(a_forced_rank_stays_and_is_reported)
{
    world w = {.ranks = 2, .n = 8192, .d = {{.a = 2e-4, .b = 1e-6}, {.a = 5e-2, .b = 1e-4}},
               .seat = {{.pace = 1}, {.pace = 50, .forced = true}}};
    world_begin(&w);
    world_windows(&w, 400);
    ck_assert_int_eq(w.excluded, 0);
    ck_assert_int_eq(w.costs, 1);
    ck_assert_uint_eq(world_share(&w, 1), 1); /* not a 128th of the batch */
    ck_assert_msg(w.with > 1.2 * w.without, "%g %g", w.with, w.without);
    world_finish(&w);
}
END_TEST

/* Other ranks read from it: no window is without it, however slow it is. */
START_TEST(no_trial_leaves_out_a_rank_that_stays)
{
    for (int forced = 0; forced < 2; forced++) {
        world w = {.ranks = 2, .n = 8192, .d = {{.a = 2e-4, .b = 1e-6}, {.a = 5e-2, .b = 1e-4}},
                   .seat = {{.pace = 1}, {.pace = 50, .forced = true, .stays = !forced}}};
        bool left = false;
        world_begin(&w);
        for (int i = 0; i < 400; i++) {
            world_window(&w);
            left = left || !yk__policy_decision(w.p)->member[1];
        }
        ck_assert_int_eq(left, forced);
        world_finish(&w);
    }
}
END_TEST

/* ---- Limits, checkpoints ---- */

START_TEST(memory_caps_hold)
{
    world w = {.ranks = 2, .n = 256, .d = {{.a = 1e-3, .b = 1e-4}, {.a = 1e-3, .b = 1e-4}},
               .seat = {{.limited = false}, {.limited = true}}};
    yk_error err = YK_ERROR_INIT;
    w.seat[0].pace = 3, w.seat[1].pace = 1; /* however slow: the others of unlimited memory take the rest */
    world_begin(&w);
    ck_assert_uint_eq(world_share(&w, 1), 32);
    w.report[1].cap = 60;
    world_window(&w);
    for (int i = 0; i < 100; i++) {
        w.report[1].cap = 60;
        world_window(&w);
        ck_assert_uint_le(world_share(&w, 1), 60);
    }
    ck_assert_uint_ge(world_share(&w, 1), 50);
    yk__policy_pass(w.p);
    w.report[0].cap = w.report[1].cap = 100;
    ck_assert_int_eq(yk__policy_look(w.p, w.report, &err), YK_E_MEM);
    ck_assert_msg(strstr(err.text, "256") && strstr(err.text, "200"), "%s", err.text);
    world_finish(&w);
}
END_TEST

/* A device that compiles long sees multiples of its quantum alone, and few of them: one of three ranks, one that begins with few rows, two
 * with unlike quanta, all. */
START_TEST(quanta_are_kept)
{
    static const uint64_t quantum[][3] = {{0, 24, 0}, {0, 24, 0}, {0, 24, 16}, {16, 16, 16}};
    world w = {.ranks = 3, .n = 256, .d = {{.a = 2e-4, .b = 4e-5, .noise = 0.05},
                                           {.a = 2e-4, .b = 6e-5, .noise = 0.05, .from = 300, .to = 600, .factor = 2},
                                           {.a = 2e-4, .b = 5e-5, .noise = 0.05}}};
    uint32_t programs = 0;
    for (uint32_t r = 0; r < 3; r++)
        w.seat[r] = (yk__seat){.quantum = quantum[_i][r], .pace = _i == 1 && r == 1 ? 3 : 1};
    world_begin(&w);
    for (int i = 0; i < 900; i++) {
        world_windows(&w, 1);
        for (uint32_t r = 0; r < 3; r++)
            ck_assert_msg(!quantum[_i][r] || world_share(&w, r) % quantum[_i][r] == 0, "window %d: rank %u has %d rows", i, r,
                          (int)world_share(&w, r));
    }
    for (uint32_t rows = 1; rows <= 256; rows++)
        programs += w.made[1][rows];
    ck_assert_msg(programs >= 2 && programs <= 6, "%u programs", programs);
    ck_assert_msg(world_rate(&w) > 0.9, "%g", world_rate(&w));
    world_finish(&w);
}
END_TEST

/* Quanta that the rows or the memory do not allow are left. */
START_TEST(quanta_that_do_not_fit_are_left)
{
    yk_error err = YK_ERROR_INIT;
    const yk__seat seat[2] = {{.quantum = 32}, {.quantum = 0}};
    uint64_t few[2] = {12, 8}, none[2] = {20, 0}, tight[2] = {14, 6}, fits[2] = {29, 11};
    yk__fit *f;
    ck_assert_msg(!yk__fit_new(2, 20, seat, &f, &err), "%s", err.text);
    yk__fit_whole(f, few);
    ck_assert(few[0] == 12 && few[1] == 8);
    yk__fit_whole(f, none);
    ck_assert(none[0] == 20 && none[1] == 0);
    f->rank[0].quantum = 8;
    f->rank[1].cap = 5; /* 16 rows would leave 4 of 20, 8 would leave 12 */
    yk__fit_whole(f, tight);
    ck_assert(tight[0] == 16 && tight[1] == 4);
    f->rank[0].cap = 15;
    tight[0] = 15, tight[1] = 5;
    yk__fit_whole(f, tight);
    ck_assert(tight[0] == 15 && tight[1] == 5);
    yk__fit_free(f);
    ck_assert_msg(!yk__fit_new(2, 40, seat, &f, &err), "%s", err.text);
    yk__fit_whole(f, fits);
    ck_assert(fits[0] == 32 && fits[1] == 8);
    yk__fit_free(f);
}
END_TEST

START_TEST(fewer_rows_than_ranks)
{
    world w = {.ranks = 4, .n = 3};
    for (int r = 0; r < 4; r++)
        w.d[r] = (device){.a = 1e-3, .b = 1e-3};
    world_begin(&w);
    world_windows(&w, 300);
    world_finish(&w);
}
END_TEST

START_TEST(goes_on_from_its_numbers)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5}, {.a = 1e-1, .b = 4e-3}}};
    yk_error err = YK_ERROR_INIT;
    yk__policy *other = NULL;
    double *v;
    world_begin(&w);
    world_windows(&w, 200);
    v = calloc(yk__policy_count(w.p), sizeof *v);
    yk__policy_get(w.p, v);
    ck_assert_int_eq(yk__policy_new(2, w.seat, 128, &other, &err), YK_OK);
    ck_assert(yk__policy_set(other, v));
    ck_assert_mem_eq(yk__policy_decision(other)->share, yk__policy_decision(w.p)->share, 2 * sizeof(uint64_t));
    ck_assert(!yk__policy_decision(other)->member[1] && yk__policy_decision(other)->owns[1] == 0);
    for (uint32_t i = 0; i < yk__policy_count(w.p); i++) { /* whatever a file holds */
        const double was = v[i];
        v[i] = NAN;
        ck_assert(!yk__policy_set(other, v));
        v[i] = -1;
        ck_assert(!yk__policy_set(other, v));
        v[i] = was;
    }
    v[7] = 100; /* shares that do not add up */
    ck_assert(!yk__policy_set(other, v));
    v[7] = 128;
    ck_assert(yk__policy_set(other, v));
    yk__policy_free(other);
    w.seat[1].stays = true; /* the other ranks of this job read from it, and the numbers leave it out */
    ck_assert_int_eq(yk__policy_new(2, w.seat, 128, &other, &err), YK_OK);
    ck_assert(!yk__policy_set(other, v));
    free(v);
    yk__policy_free(other);
    world_finish(&w);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("policy");
    tcase_add_test(t, like_ranks_share_evenly);
    tcase_add_loop_test(t, a_slow_rank_is_never_a_loss, 0, 10);
    tcase_add_test(t, a_very_slow_rank_costs_few_steps);
    tcase_add_test(t, ranks_on_one_core_come_out_as_one);
    tcase_add_test(t, noise_does_not_exclude);
    tcase_add_test(t, several_weak_ranks_go_one_by_one);
    tcase_add_loop_test(t, shares_follow_within_20_windows, 0, 2);
    tcase_add_loop_test(t, shares_follow_at_each_window, 0, 4);
    tcase_add_test(t, a_disturbed_rank_costs_less_than_leaving_it_out);
    tcase_add_loop_test(t, shares_follow_in_noise, 0, 2);
    tcase_add_loop_test(t, shares_follow_on_a_recorded_machine, 0, 2);
    tcase_add_loop_test(t, noise_is_not_followed, 0, 2);
    tcase_add_test(t, spells_are_not_followed);
    tcase_add_test(t, a_change_brings_few_trials);
    tcase_add_test(t, one_row_is_no_trap);
    tcase_add_test(t, changes_earn_their_compiles);
    tcase_add_test(t, steady_shares_are_calm);
    tcase_add_test(t, parts_of_the_optimizer_follow);
    tcase_add_test(t, parts_of_the_optimizer_stay_fixed);
    tcase_add_loop_test(t, parts_of_the_optimizer_fit_memory, 0, 3);
    tcase_add_test(t, steady_windows_are_seldom_timed);
    tcase_add_test(t, tries_cost_little);
    tcase_add_test(t, all_that_tries_take_is_counted);
    tcase_add_test(t, a_rank_that_recovers_comes_back);
    tcase_add_loop_test(t, a_spell_is_left_and_ended_in_time, 0, 12);
    tcase_add_loop_test(t, a_spell_at_the_start_ends_too, 0, 3);
    tcase_add_test(t, a_false_sign_costs_little);
    tcase_add_test(t, a_forced_rank_stays_and_is_reported);
    tcase_add_test(t, no_trial_leaves_out_a_rank_that_stays);
    tcase_add_test(t, memory_caps_hold);
    tcase_add_loop_test(t, quanta_are_kept, 0, 4);
    tcase_add_test(t, quanta_that_do_not_fit_are_left);
    tcase_add_test(t, fewer_rows_than_ranks);
    tcase_add_test(t, goes_on_from_its_numbers);
    return suite_run("policy", t);
}
