/* SPDX-License-Identifier: Apache-2.0 */
/* Which set of simulated ranks the policy comes to: beside the best of all subsets, with what members cost each other. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "core/balance/policy_inner.h"
#include "tests/support/run.h"
#include "tests/unit/balance/world.h"

static void random_world(world *w, uint32_t turn)
{
    random_from(turn * 1000000u);
    *w = (world){.ranks = 2 + (uint32_t)(random_uniform() * 3), .n = 32 + (uint64_t)(random_uniform() * 400),
                 .compile = random_uniform() < 0.3 ? 0.2 : 0};
    w->left = w->compile > 0 ? 20000 : 0; /* enough for new programs to be earned */
    for (uint32_t r = 0; r < w->ranks; r++) {
        const double pace = exp(random_uniform() * 5);
        w->d[r] = (device){.a = 1e-4 * exp(random_uniform() * 4), .b = 2e-5 * pace, .update = 1e-4 * pace, .noise = 0.03};
        w->seat[r].pace = random_uniform() < 0.8 ? pace : 0;
    }
}

/* Until no trial is under way. */
static void world_settle(world *w, uint64_t n)
{
    world_windows(w, n);
    for (int i = 0; i < 300 && !yk__policy_decision(w->p)->settled; i++)
        world_window(w);
}

START_TEST(any_devices_come_to_the_best_subset)
{
    for (uint32_t turn = 75 * (uint32_t)_i; turn < 75 * (uint32_t)(_i + 1); turn++) {
        world w;
        random_world(&w, turn);
        world_begin(&w);
        world_settle(&w, 700);
        ck_assert_msg(world_rate(&w) >= 0.97, "set %u, %u ranks: %g of the best", turn, w.ranks, world_rate(&w));
        world_finish(&w);
    }
}
END_TEST

/* The weakest adds 0.9 %, as does the next, and the next: all together count. */
START_TEST(what_weak_ranks_add_together_counts)
{
    world w = {.ranks = 4, .n = 400, .d = {{.a = 1e-4, .b = 2e-5, .noise = 0.01},
                                           {.a = 1e-4, .b = 2e-3, .noise = 0.01},
                                           {.a = 1e-4, .b = 2e-3, .noise = 0.01},
                                           {.a = 1e-4, .b = 2e-3, .noise = 0.01}},
               .seat = {{.pace = 1}, {.pace = 100}, {.pace = 100}, {.pace = 100}}};
    world_begin(&w);
    world_settle(&w, 1500);
    ck_assert_msg(world_rate(&w) >= 0.98, "%g", world_rate(&w));
    world_finish(&w);
}
END_TEST

/* A wide rank beside one that holds up each of its steps on a core of both: the wide one looks the weaker, so that it is excluded
 * first, and is the better alone. */
START_TEST(of_two_that_disturb_each_other_the_better_stays)
{
    const bool first = _i;
    const device wide = {.a = 2e-3, .b = 2.5e-5, .noise = 0.03, .core = 1};
    const device narrow = {.a = 2e-4, .b = 4.4e-5, .noise = 0.03, .core = 1, .hurt = 3};
    world w = {.ranks = 2, .n = 128};
    w.d[!first] = wide;
    w.d[first] = narrow;
    world_begin(&w);
    world_settle(&w, 300);
    ck_assert_msg(world_share(&w, !first) == 128, "%d %d", (int)world_share(&w, 0), (int)world_share(&w, 1));
    ck_assert_msg(world_rate(&w) >= 0.97, "%g", world_rate(&w));
    world_finish(&w);
}
END_TEST

/* Small steps whose sums over ranks take longer than the rows that a rank saves: two of four are best. */
START_TEST(members_cost_what_they_exchange)
{
    world w = {.ranks = 4, .n = 64, .exchange = 2.5e-4};
    uint32_t members = 0;
    for (uint32_t r = 0; r < 4; r++)
        w.d[r] = (device){.a = 1e-4, .b = 2e-5, .noise = 0.03};
    world_begin(&w);
    world_settle(&w, 700);
    for (uint32_t r = 0; r < 4; r++)
        members += world_share(&w, r) > 0;
    ck_assert_uint_eq(members, 2);
    ck_assert_msg(world_rate(&w) >= 0.97, "%g", world_rate(&w));
    for (uint32_t m = 2; m <= 4; m++) { /* the time that the policy expects of a set, measured or not */
        const bool member[4] = {true, m > 1, m > 2, m > 3};
        uint64_t share[4];
        const double seen = yk__fit_set(w.p->fit, member, share), is = world_best_of(&w, (1u << m) - 1);
        ck_assert_msg(fabs(seen - is) < 0.1 * is, "%u members: %g seconds foreseen, %g are true", m, seen, is);
    }
    world_finish(&w);
}
END_TEST

/* A neighbour on the second rank's core for the first 400 windows, trial and all: back soon after it has gone. */
START_TEST(a_disturbance_of_the_trial_is_not_for_good)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 4e-4, .noise = 0.05},
                                           {.a = 2e-4, .b = 4e-5, .update = 4e-4, .noise = 0.05, .to = 400, .factor = 8}}};
    world_begin(&w);
    world_windows(&w, 6000);
    ck_assert_msg(world_rate(&w) >= 0.97, "%g, excluded %d, back %d", world_rate(&w), w.excluded, w.back);
    world_finish(&w);
}
END_TEST

/* A checkpoint that was written while an excluded rank had its single row: the resumed job weighs the rank, and leaves it out again. */
START_TEST(a_saved_retry_is_no_membership)
{
    world w = {.ranks = 2, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 5e-4, .noise = 0.05},
                                           {.a = 6e-3, .b = 12e-4, .update = 15e-3, .noise = 0.05}},
               .seat = {{.pace = 1}, {.pace = 30}}};
    yk_error err = YK_ERROR_INIT;
    yk__policy *resumed = NULL;
    double *v;
    world_begin(&w);
    for (int i = 0; i < 200000 && !(w.p->phase == RETRY && w.p->in_phase); i++)
        world_window(&w);
    ck_assert_int_eq(w.p->phase, RETRY);
    v = calloc(yk__policy_count(w.p), sizeof *v);
    yk__policy_get(w.p, v);
    ck_assert_int_eq(yk__policy_new(2, w.seat, 128, &resumed, &err), YK_OK);
    ck_assert(yk__policy_set(resumed, v));
    free(v);
    world_finish(&w);
    w.p = resumed;
    world_windows(&w, 400);
    ck_assert_msg(!yk__policy_decision(w.p)->member[1] && world_rate(&w) >= 0.97, "%g", world_rate(&w));
    world_finish(&w);
}
END_TEST

/* Two excluded ranks, 30 and 3000 times slower: each is retried at its own price, in its part of the budget. */
START_TEST(a_dear_retry_starves_no_cheap_one)
{
    world w = {.ranks = 3, .n = 128, .d = {{.a = 2e-4, .b = 4e-5, .update = 5e-4, .noise = 0.05},
                                           {.a = 6e-3, .b = 12e-4, .update = 15e-3, .noise = 0.05},
                                           {.a = 0.6, .b = 0.12, .update = 1.5, .noise = 0.05}},
               .seat = {{.pace = 1}, {.pace = 30}, {.pace = 3000}}};
    uint32_t tries[3] = {0};
    bool was[3] = {0};
    world_begin(&w);
    world_windows(&w, 1000);
    for (int i = 0; i < 250000; i++) {
        world_window(&w);
        for (uint32_t r = 1; r < 3; r++) {
            const bool member = yk__policy_decision(w.p)->member[r];
            tries[r] += member && !was[r];
            was[r] = member;
        }
        const double lost = w.p->schedule->lost[YK__OF_EXCLUDED], elapsed = w.p->schedule->elapsed;
        ck_assert_msg(lost <= 0.006 * elapsed, "%g s of %g s at window %d", lost, elapsed, i);
    }
    ck_assert_msg(tries[1] >= 100 && tries[2] >= 1, "%u and %u", tries[1], tries[2]);
    world_finish(&w);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("sets");
    tcase_add_loop_test(t, any_devices_come_to_the_best_subset, 0, 4);
    tcase_add_test(t, what_weak_ranks_add_together_counts);
    tcase_add_loop_test(t, of_two_that_disturb_each_other_the_better_stays, 0, 2);
    tcase_add_test(t, members_cost_what_they_exchange);
    tcase_add_test(t, a_disturbance_of_the_trial_is_not_for_good);
    tcase_add_test(t, a_saved_retry_is_no_membership);
    tcase_add_test(t, a_dear_retry_starves_no_cheap_one);
    return suite_run("sets", t);
}
