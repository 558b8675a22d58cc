/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of the policy by themselves: the comparison of two arms, and the schedule with its budgets. */
#include <check.h>
#include <math.h>

#include "core/balance/compare.h"
#include "core/balance/trial_schedule.h"
#include "tests/support/run.h"

/* ---- Compare ---- */

/* Runs an arm of these seconds against another one until the verdict; *windows: their number. */
static yk__verdict verdict_of(yk__compare *c, double with, double without, int *windows)
{
    for (*windows = 1;; ++*windows) {
        const double noise = 1 + 0.02 * (*windows % 3 - 1);
        const yk__verdict verdict = yk__compare_window(c, true, noise * (c->arm == YK__WITH ? with : without));
        if (verdict == YK__NEXT_ARM)
            yk__compare_turn(c, c->arm == YK__WITH ? YK__WITHOUT : YK__WITH);
        else if (verdict != YK__RUNS_ON)
            return verdict;
    }
}

/* The clearer the difference, the fewer windows: two beside a block, a block of each arm, two of each, and twelve blocks for none. */
START_TEST(clear_differences_end_a_trial_early)
{
    static const struct {
        double with;
        int windows;
    } c[] = {{0.10, 10}, {0.020, 16}, {0.0110, 32}, {0.0099, 96}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        yk__compare compare;
        int windows;
        yk__compare_begin(&compare, 0.01);
        ck_assert_int_eq(compare.length, YK__BLOCK);
        ck_assert_int_eq(verdict_of(&compare, c[i].with, 0.01, &windows), YK__DECIDED);
        ck_assert_msg(windows <= c[i].windows && windows > c[i].windows - (int)YK__BLOCK, "%g s: %d windows", c[i].with, windows);
    }
}
END_TEST

START_TEST(long_windows_have_short_blocks)
{
    static const double window[] = {0, 0.1, 0.3, 5};
    static const uint32_t length[] = {8, 8, 4, 2};
    for (int i = 0; i < 4; i++) {
        yk__compare c;
        yk__compare_begin(&c, window[i]);
        ck_assert_uint_eq(c.length, length[i]);
    }
}
END_TEST

START_TEST(windows_without_information_give_up)
{
    yk__compare c;
    int n = 0;
    yk__compare_begin(&c, 0.01);
    while (yk__compare_window(&c, false, 100) == YK__RUNS_ON)
        n++;
    ck_assert_int_eq(n, 60);
    ck_assert_uint_eq(c.times[YK__WITH].n, 0);
}
END_TEST

/* Earlier windows are a whole block of their arm. */
START_TEST(a_seeded_arm_saves_its_block)
{
    yk__compare c;
    yk__times seen = {.n = 0};
    int windows;
    for (int i = 0; i < 3; i++)
        yk__times_add(&seen, 0.01 + 0.0001 * i);
    yk__compare_begin(&c, 0.01);
    yk__compare_seed(&c, YK__WITHOUT, &seen);
    ck_assert_int_eq(verdict_of(&c, 0.0150, 0.01, &windows), YK__DECIDED);
    ck_assert_int_eq(windows, YK__BLOCK);
}
END_TEST

/* Of 1, 2, 3, 4, 5, 6, 7, 100 the two longest do not count, as windows are late at times. */
START_TEST(means_leave_late_windows_out)
{
    yk__times w = {.n = 0};
    ck_assert(yk__times_mean(&w) == 0 && yk__times_median(&w) == 0 && yk__times_least(&w) == 0 && isinf(yk__times_error(&w)));
    for (int i = 1; i <= 7; i++)
        yk__times_add(&w, i);
    yk__times_add(&w, 100);
    ck_assert_double_eq(yk__times_mean(&w), 3.5);
    ck_assert_double_eq(yk__times_median(&w), 5);
    ck_assert_double_eq(yk__times_least(&w), 1);
    /* winsorised: 1, 2, 3, 4, 5, 6, 6, 6; squares about 4.125 sum to 26.875; / 7 * 8 / 6^2 */
    ck_assert_double_eq_tol(yk__times_error(&w), 26.875 / 7 * 8 / 36, 1e-12);
}
END_TEST

/* ---- Schedule ---- */

enum { RANKS = 2, ROWS = 100 };

typedef struct job {
    yk__seat seat[RANKS];
    uint64_t share[RANKS];
    bool member[RANKS], excluded[RANKS];
    double owns[RANKS];
    yk__decision now;
    yk__fit *fit;
    yk__schedule *schedule;
} job;

/* Rank 1 takes `slower` times as long for a row; a window of rank 0 alone takes 0.1 s. */
static void job_begin(job *j, double slower, bool excluded)
{
    yk_error err = YK_ERROR_INIT;
    *j = (job){.share = {excluded ? ROWS : ROWS / 2, excluded ? 0 : ROWS / 2}, .member = {true, !excluded}, .excluded = {false, excluded},
               .owns = {1, !excluded}};
    j->now = (yk__decision){.share = j->share, .member = j->member, .excluded = j->excluded, .owns = j->owns};
    ck_assert(!yk__fit_new(RANKS, ROWS, j->seat, &j->fit, &err) && !yk__schedule_new(j->fit, j->seat, &j->schedule, &err));
    for (uint64_t n = 10; n <= ROWS; n += 10)
        for (uint32_t r = 0; r < RANKS; r++)
            yk__fit_record(j->fit, r, n, 1e-3 * (double)n * (r ? slower : 1));
}

static void job_end(job *j)
{
    yk__schedule_free(j->schedule);
    yk__fit_free(j->fit);
}

/* The member with the fewest rows is tried at once; with all tried nothing is due. */
START_TEST(the_weakest_member_is_tried_first)
{
    job j;
    job_begin(&j, 3, false);
    j.share[0] = 75, j.share[1] = 25;
    ck_assert_uint_eq(yk__schedule_candidate(j.schedule, &j.now), 1);
    yk__try next = yk__schedule_next(j.schedule, &j.now);
    ck_assert(next.rank == 1 && next.instead == RANKS);
    j.schedule->rank[0].tried = j.schedule->rank[1].tried = true;
    ck_assert_uint_eq(yk__schedule_candidate(j.schedule, &j.now), RANKS);
    ck_assert_uint_eq(yk__schedule_next(j.schedule, &j.now).rank, RANKS);
    yk__schedule_round(j.schedule);
    ck_assert_uint_eq(yk__schedule_candidate(j.schedule, &j.now), 1);
    j.seat[1].forced = true;
    ck_assert_uint_eq(yk__schedule_candidate(j.schedule, &j.now), 0);
    job_end(&j);
}
END_TEST

/* A useless rank of 1000 s a row gets a single row when that is 0.5 % of the time, and then as seldom as it cost. */
START_TEST(a_useless_rank_is_tried_for_half_a_percent)
{
    job j;
    job_begin(&j, 1e6, true);
    const double price = 3 * yk__fit_run(j.fit, 1, 1);
    yk__schedule_elapse(j.schedule, 0.99 * price / 0.005, 0);
    ck_assert_uint_eq(yk__schedule_retry(j.schedule, &j.now, 0.1, YK__BLOCK).rank, RANKS);
    yk__schedule_elapse(j.schedule, 0.02 * price / 0.005, 0);
    yk__try next = yk__schedule_retry(j.schedule, &j.now, 0.1, YK__BLOCK);
    ck_assert(next.rank == 1 && next.one_row);
    yk__excursion_begin(j.schedule, 1, YK__OF_EXCLUDED, 0.1);
    yk__excursion_charge(j.schedule, price, 1, 0.5);
    yk__excursion_end(j.schedule);
    ck_assert_double_eq_tol(j.schedule->lost[YK__OF_EXCLUDED], price - 0.1 + 0.5, 1e-9 * price);
    ck_assert_double_eq(j.schedule->rank[1].price, j.schedule->lost[YK__OF_EXCLUDED]);
    ck_assert(j.schedule->lost[YK__OF_MEMBERS] == 0);
    ck_assert_uint_eq(yk__schedule_retry(j.schedule, &j.now, 0.1, YK__BLOCK).rank, RANKS);
    job_end(&j);
}
END_TEST

/* An excluded rank that the model speaks for gets a trial with its best shares, not a single row. */
START_TEST(a_promising_rank_gets_a_trial)
{
    job j;
    job_begin(&j, 1, true);
    j.schedule->rank[1].harm = 0.02;
    yk__schedule_elapse(j.schedule, 8 * 0.02 / 0.005 - 1, 0);
    ck_assert_uint_eq(yk__schedule_retry(j.schedule, &j.now, 0.1, YK__BLOCK).rank, RANKS);
    yk__schedule_elapse(j.schedule, 2, 0);
    yk__try next = yk__schedule_retry(j.schedule, &j.now, 0.1, YK__BLOCK);
    ck_assert(next.rank == 1 && !next.one_row);
    job_end(&j);
}
END_TEST

/* A device that is faster has a trial at once, and a second one only if it is faster again or the budget has it. */
START_TEST(a_faster_device_is_news_once)
{
    job j;
    job_begin(&j, 1e6, true);
    ck_assert(!yk__schedule_return(j.schedule, &j.now, 1, 1.2));
    ck_assert(yk__schedule_return(j.schedule, &j.now, 1, 2));
    j.schedule->rank[1].followed = 2, j.schedule->rank[1].price = 1;
    ck_assert(!yk__schedule_return(j.schedule, &j.now, 1, 2));
    ck_assert(yk__schedule_return(j.schedule, &j.now, 1, 2.7));
    yk__schedule_elapse(j.schedule, 1 / 0.005 + 1, 0);
    ck_assert(yk__schedule_return(j.schedule, &j.now, 1, 2));
    ck_assert(!yk__schedule_return(j.schedule, &j.now, 0, 2)); /* a member */
    job_end(&j);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("machines");
    tcase_add_test(t, clear_differences_end_a_trial_early);
    tcase_add_test(t, long_windows_have_short_blocks);
    tcase_add_test(t, windows_without_information_give_up);
    tcase_add_test(t, a_seeded_arm_saves_its_block);
    tcase_add_test(t, means_leave_late_windows_out);
    tcase_add_test(t, the_weakest_member_is_tried_first);
    tcase_add_test(t, a_useless_rank_is_tried_for_half_a_percent);
    tcase_add_test(t, a_promising_rank_gets_a_trial);
    tcase_add_test(t, a_faster_device_is_news_once);
    return suite_run("machines", t);
}
