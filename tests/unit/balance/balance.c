/* SPDX-License-Identifier: Apache-2.0 */
/* Batch shares: the fit, the split against all splits, bounds, parts of the optimizer; and the group of one. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/philox.h"
#include "core/balance/cost_model.h"
#include "core/balance/fixed.h"
#include "core/control/start/origin.h"

static yk__fit *fit_make(uint32_t ranks, uint64_t n)
{
    yk_error err = YK_ERROR_INIT;
    yk__fit *b = NULL;
    ck_assert_int_eq(yk__fit_new(ranks, n, NULL, &b, &err), YK_OK);
    return b;
}

typedef struct device {
    double a, b;
} device;

static uint32_t drawn;

static double draw_uniform(void)
{
    uint32_t c[4] = {drawn++, 0, 0, 0}, k[2] = {3, 5}, out[4];
    yk__philox(c, k, out);
    return (out[0] >> 8) * (1.0 / 16777216);
}

/* The least longest time over all splits, by counting rows one at a time to whoever is done first: exact for lines. */
static double best_time(const device *d, uint32_t ranks, uint64_t n, const yk__bounds *bounds)
{
    uint64_t k[6] = {0};
    double worst = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t who = ranks;
        double t = INFINITY;
        for (uint32_t r = 0; r < ranks; r++)
            if (k[r] < bounds[r].most && d[r].a + d[r].b * (double)(k[r] + 1) < t) {
                t = d[r].a + d[r].b * (double)(k[r] + 1);
                who = r;
            }
        k[who]++;
        worst = t > worst ? t : worst;
    }
    return worst;
}

START_TEST(fit_is_exact)
{
    yk__fit *b = fit_make(2, 100);
    for (uint64_t n = 10; n <= 100; n += 10)
        yk__fit_record(b, 0, n, 0.02 + 0.003 * (double)n);
    ck_assert_double_eq_tol(yk__fit_run(b, 0, 500), 0.02 + 1.5, 1e-9);
    ck_assert_double_eq(yk__fit_run(b, 1, 500), 0);
    ck_assert_double_eq(yk__fit_run(b, 0, 0), 0);
    /* one n alone: through the origin */
    for (int i = 0; i < 5; i++)
        yk__fit_record(b, 1, 64, 0.32);
    ck_assert_double_eq_tol(yk__fit_run(b, 1, 128), 0.64, 1e-12);
    yk__fit_free(b);
}
END_TEST

START_TEST(bad_records_are_ignored)
{
    yk__fit *b = fit_make(1, 100);
    yk__fit_record(b, 0, 0, 1);
    yk__fit_record(b, 0, 5, -1);
    yk__fit_record(b, 0, 5, 0);
    yk__fit_record(b, 0, 5, NAN);
    yk__fit_record(b, 0, 5, INFINITY);
    yk__fit_record(b, 9, 5, 1);
    ck_assert_double_eq(yk__fit_run(b, 0, 5), 0);
    yk__fit_free(b);
}
END_TEST

/* At one number of rows a change is the whole line's: most of a run's time may be what it costs whatever its rows. */
START_TEST(at_one_n_the_line_keeps_its_form)
{
    yk__fit *b = fit_make(1, 100);
    for (uint64_t n = 1; n <= 128; n *= 2)
        yk__fit_record(b, 0, n, 0.039 + 0.001 * (double)n);
    for (int i = 0; i < 15; i++)
        yk__fit_record(b, 0, 1, 0.080);
    ck_assert_double_eq_tol(yk__fit_run(b, 0, 1), 0.080, 0.008);
    ck_assert_double_eq_tol(yk__fit_run(b, 0, 128), 0.334, 0.05); /* it was 1 to 2.6 s */
    yk__fit_free(b);
}
END_TEST

/* A line through one number of rows has no constant part; at half as many rows that shows at once, and is no change of speed. */
START_TEST(far_from_what_was_measured_a_slope_is_learnt)
{
    yk__fit *b = fit_make(1, 100);
    for (int i = 0; i < 5; i++)
        yk__fit_record(b, 0, 64, 0.025 + 0.001 * 64);
    ck_assert(!yk__fit_record(b, 0, 32, 0.025 + 0.001 * 32));
    ck_assert_int_eq(b->rank[0].line.outlier, 0);
    ck_assert_double_eq_tol(yk__fit_run(b, 0, 16), 0.041, 0.002);
    ck_assert(!yk__fit_record(b, 0, 32, 2 * 0.057)); /* but twice as long is one */
    ck_assert_int_eq(b->rank[0].line.outlier, 1);
    yk__fit_free(b);
}
END_TEST

/* Twice off by 20 % in one direction: from then on the line is the new one. Once, or to and fro, is nothing. */
START_TEST(a_change_is_believed_the_second_time)
{
    yk__fit *b = fit_make(1, 100);
    for (int i = 0; i < 10; i++)
        yk__fit_record(b, 0, 50 + (uint64_t)i % 3 * 20, 0.01 + 0.001 * (double)(50 + i % 3 * 20));
    ck_assert(!yk__fit_record(b, 0, 50, 60)); /* a hiccup of a minute */
    ck_assert_int_eq(b->rank[0].line.outlier, 1);
    ck_assert_double_eq_tol(yk__fit_run(b, 0, 100), 0.11, 1e-6);
    ck_assert(!yk__fit_record(b, 0, 50, 0.03)); /* the other direction */
    ck_assert_int_eq(b->rank[0].line.outlier, -1);
    ck_assert(!yk__fit_record(b, 0, 50, 0.06));
    ck_assert_int_eq(b->rank[0].line.outlier, 0);
    ck_assert(!yk__fit_record(b, 0, 50, 0.12));
    ck_assert(yk__fit_record(b, 0, 70, 0.16));
    ck_assert_double_eq_tol(yk__fit_run(b, 0, 100), 0.22, 1e-3);
    yk__fit_free(b);
}
END_TEST

START_TEST(split_is_the_best)
{
    for (int turn = 0; turn < 200; turn++) {
        const uint32_t ranks = 1 + (uint32_t)(draw_uniform() * 6);
        const uint64_t n = (uint64_t)(draw_uniform() * 400) + 1;
        yk__bounds bounds[6];
        uint64_t share[6], sum = 0;
        device d[6];
        yk__fit *b = fit_make(ranks, n);
        double best;
        for (uint32_t r = 0; r < ranks; r++) {
            d[r] = (device){draw_uniform() < 0.3 ? 0 : draw_uniform() * 0.1, 0.0001 + draw_uniform() * 0.01};
            bounds[r] = (yk__bounds){0, draw_uniform() < 0.5 ? 1000 : n / ranks + 1 + (uint64_t)(draw_uniform() * 50)};
            for (uint64_t k = 100; k <= 400; k += 100)
                yk__fit_record(b, r, k, d[r].a + d[r].b * (double)k);
        }
        ck_assert(yk__fit_split(b, bounds, share));
        for (uint32_t r = 0; r < ranks; r++) {
            ck_assert_uint_le(share[r], bounds[r].most);
            sum += share[r];
        }
        ck_assert_uint_eq(sum, n);
        best = best_time(d, ranks, n, bounds);
        ck_assert_msg(yk__fit_longest(b, share) <= best * (1 + 1e-9), "turn %d: %g, best %g", turn,
                      yk__fit_longest(b, share), best);
        yk__fit_free(b);
    }
}
END_TEST

START_TEST(bounds_hold)
{
    yk__fit *b = fit_make(3, 100);
    uint64_t share[3];
    for (uint32_t r = 0; r < 3; r++)
        yk__fit_record(b, r, 10, r == 0 ? 0.01 : 0.1);
    ck_assert(yk__fit_split(b, (yk__bounds[]){{0, 40}, {0, 100}, {0, 0}}, share));
    ck_assert(share[0] == 40 && share[1] == 60 && share[2] == 0);
    ck_assert(yk__fit_split(b, (yk__bounds[]){{0, 100}, {30, 100}, {1, 100}}, share));
    ck_assert(share[1] == 30 && share[2] >= 1);
    b->n = 91;
    ck_assert(!yk__fit_split(b, (yk__bounds[]){{0, 40}, {0, 50}, {0, 0}}, share));
    ck_assert(!yk__fit_split(b, (yk__bounds[]){{50, 91}, {50, 91}, {0, 0}}, share));
    yk__fit_free(b);
}
END_TEST

static double longest_update(uint32_t ranks, const double *update, const double *copy, const double *s)
{
    double longest = 0;
    for (uint32_t r = 0; r < ranks; r++)
        longest = fmax(longest, update[r] * s[r] + copy[r] * (1 - s[r]));
    return longest;
}

/* Parts of the optimizer: against a fine search over the parts of two; excluded ones own nothing; caps. */
START_TEST(owner_parts_are_the_best)
{
    yk__owner_line work[3];
    static const bool both[2] = {true, true};
    double s[3];
    for (int turn = 0; turn < 200; turn++) {
        const double update[2] = {0.001 + draw_uniform(), 0.001 + draw_uniform() * draw_uniform()};
        const double copy[2] = {draw_uniform() < 0.5 ? 0 : draw_uniform(), draw_uniform() < 0.5 ? 0 : draw_uniform()};
        double best = INFINITY;
        for (int i = 0; i <= 1000; i++)
            best = fmin(best, longest_update(2, update, copy, (const double[]){i * 1e-3, 1 - i * 1e-3}));
        yk__owner_parts(2, both, update, copy, NULL, work, s);
        ck_assert_double_eq_tol(s[0] + s[1], 1, 1e-9);
        ck_assert(s[0] >= 0 && s[1] >= 0);
        ck_assert_msg(longest_update(2, update, copy, s) <= best * 1.01 + 1e-9, "turn %d: %g, best %g (%g %g)", turn,
                      longest_update(2, update, copy, s), best, s[0], s[1]);
    }
    yk__owner_parts(3, (const bool[]){true, false, true}, (const double[]){1, 1, 3}, (const double[]){0, 0, 0}, NULL, work, s);
    ck_assert_double_eq_tol(s[0], 0.75, 1e-6);
    ck_assert(s[1] == 0);
    yk__owner_parts(3, (const bool[]){true, true, true}, (const double[]){1, 0, 0}, (const double[]){0, 0, 0}, NULL, work, s);
    ck_assert_double_eq_tol(s[2], 1. / 3, 1e-6); /* unknown: as the others */
    yk__owner_parts(2, both, (const double[]){1, 1}, (const double[]){0, 0}, (const double[]){0.2, 1}, work, s);
    ck_assert_double_eq_tol(s[0], 0.2, 1e-6);
}
END_TEST

/* Ranks that share cores take turns, other ranks run at once; cores of another host are different, even with equal numbers. */
START_TEST(turns_of_ranks_on_the_same_cores)
{
    static const struct {
        const char *cores[4]; /* NULL: a device of its own */
        uint32_t host[4], turn[4], turns;
    } c[] = {{{"0-1", "", "2"}, {0, 0, 0}, {0, 1, 0}, 2},        {{"0", "1", "2"}, {0, 0, 0}, {0, 0, 0}, 1},
             {{NULL, NULL, "0-3"}, {0, 0, 0}, {0, 0, 0}, 1},     {{"0", "0", "0", "0"}, {0, 0, 0, 0}, {0, 1, 2, 3}, 4},
             {{"0", "0", "0", "0"}, {0, 0, 2, 2}, {0, 1, 0, 1}, 2}, {{"0", "1", "0-1", "1"}, {0, 0, 0, 0}, {0, 0, 1, 2}, 3}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const uint32_t ranks = i == 0 || i == 1 || i == 2 ? 3 : 4;
        yk__seat seat[4] = {{.pace = 0}};
        uint32_t turn[4];
        for (uint32_t r = 0; r < ranks; r++)
            if (c[i].cores[r])
                yk__seat_cores(&seat[r], c[i].cores[r]);
        ck_assert_uint_eq(yk__seats_turns(ranks, seat, c[i].host, turn), c[i].turns);
        ck_assert_msg(!memcmp(turn, c[i].turn, ranks * sizeof *turn), "case %zu", i);
    }
}
END_TEST

/* By the definition: of all rows that are left over, each goes to the rank that is then due the most. */
static void check_fixed_rows(const yk__fixed *fixed, uint64_t n)
{
    uint64_t rows[8] = {0}, all = 0, sum = 0;
    yk__fixed_count(fixed, n, rows);
    for (uint32_t r = 0; r < fixed->ranks; r++)
        all += fixed->part[r];
    for (uint32_t r = 0; r < fixed->ranks; r++) {
        const uint64_t whole = n * fixed->part[r] / all, rest = n * fixed->part[r] % all;
        ck_assert(rows[r] == whole || (rows[r] == whole + 1 && rest));
        for (uint32_t q = 0; q < fixed->ranks && rows[r] == whole; q++) { /* a rank with one more row was due at least as much */
            const uint64_t other = n * fixed->part[q] % all;
            ck_assert(rows[q] == n * fixed->part[q] / all || other > rest || (other == rest && q < r));
        }
        uint64_t first, count;
        yk__fixed_part(fixed, n, r, &first, &count);
        ck_assert(first == sum && count == rows[r]);
        sum += rows[r];
    }
    ck_assert_uint_eq(sum, n);
}

/* Checks the cut of `rows` rows among three ranks that share 120 by `share`, with these quanta. */
static void cut_is(const uint64_t quantum[3], const uint64_t share[3], uint64_t usual, uint64_t rows, const uint64_t want[3])
{
    const yk__seat seat[3] = {{.quantum = quantum[0]}, {.quantum = quantum[1]}, {.quantum = quantum[2]}};
    yk__cut c = {.seat = seat, .share = share, .of = 120, .ranks = 3};
    yk__cut_begin(&c, usual, rows);
    for (uint32_t r = 0; r < 3; r++) {
        const uint64_t got = yk__cut_next(&c, r);
        ck_assert_msg(got == want[r], "%u of %u rows: rank %u has %u, expected %u", (unsigned)rows, (unsigned)usual, r, (unsigned)got,
                      (unsigned)want[r]);
    }
}

/* A rank with a quantum runs its usual rows of a short batch or none, as another number is a program more. */
START_TEST(short_batches_keep_usual_rows)
{
    const uint64_t none[3] = {0}, one[3] = {0, 8, 0}, two[3] = {8, 0, 8}, all[3] = {8, 8, 8};
    const uint64_t share[3] = {30, 40, 50}, small[3] = {10, 80, 30};
    cut_is(one, share, 120, 120, (uint64_t[]){30, 40, 50}); /* as ever */
    cut_is(none, share, 120, 60, (uint64_t[]){15, 20, 25});
    cut_is(one, share, 120, 60, (uint64_t[]){7, 40, 13});
    cut_is(one, share, 120, 39, (uint64_t[]){14, 0, 25}); /* no room for 40 */
    cut_is(one, small, 120, 60, (uint64_t[]){5, 40, 15}); /* the other two would have more than their usual 40 */
    cut_is(two, share, 120, 81, (uint64_t[]){30, 1, 50});
    cut_is(two, share, 120, 79, (uint64_t[]){19, 27, 33}); /* no room for 50, and 49 are more than the second has of a usual batch */
    cut_is(all, share, 120, 60, (uint64_t[]){15, 20, 25}); /* none could take the rest */
    cut_is(one, share, 60, 60, (uint64_t[]){15, 20, 25}); /* an evaluation with batches of its own, */
    cut_is(one, share, 60, 44, (uint64_t[]){9, 20, 15});  /* and its short one */
    cut_is(one, share, 240, 240, (uint64_t[]){60, 80, 100});
    for (uint64_t rows = 0; rows < 120; rows++) { /* each row once, and no rank without a quantum beyond its part by more than a row */
        const yk__seat seat[3] = {{.quantum = 0}, {.quantum = 8}, {.quantum = 16}};
        yk__cut c = {.seat = seat, .share = share, .of = 120, .ranks = 3};
        uint64_t sum = 0;
        yk__cut_begin(&c, 120, rows);
        for (uint32_t r = 0; r < 3; r++) {
            const uint64_t got = yk__cut_next(&c, r);
            ck_assert_msg(got <= share[r], "%u rows: rank %u has %u of %u", (unsigned)rows, r, (unsigned)got, (unsigned)share[r]);
            sum += got;
        }
        ck_assert_uint_eq(sum, rows);
    }
}
END_TEST

START_TEST(fixed_rows_go_to_the_largest_remainders)
{
    static const char *const texts[] = {"equal", "3:1:2", "1:1:1", "1000000:1:1", "7:5:3", "1:2:1000000"};
    yk_error err = YK_ERROR_INIT;
    yk__fixed fixed;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_int_eq(yk__fixed_read(texts[i], "a setting", "rows", 3, &fixed, &err), YK_OK);
        ck_assert(fixed.is_given && fixed.is_fixed && fixed.is_even == (i == 0 || i == 2));
        for (uint64_t n = 0; n < 200; n++)
            check_fixed_rows(&fixed, n);
        check_fixed_rows(&fixed, INT32_MAX);
        yk__fixed_free(&fixed);
    }
}
END_TEST

static void expect_rows(const char *text, uint64_t n, const uint64_t want[3])
{
    yk_error err = YK_ERROR_INIT;
    yk__fixed fixed;
    uint64_t rows[3] = {0};
    ck_assert_int_eq(yk__fixed_read(text, "a setting", "rows", 3, &fixed, &err), YK_OK);
    yk__fixed_count(&fixed, n, rows);
    ck_assert(!memcmp(rows, want, sizeof rows));
    yk__fixed_free(&fixed);
}

START_TEST(fixed_rows_of_some_parts)
{
    expect_rows("3:1:2", 32, (uint64_t[]){16, 5, 11}); /* due 16, 5 1/3, 10 2/3 */
    expect_rows("equal", 11, (uint64_t[]){4, 4, 3});
    expect_rows("equal", 2, (uint64_t[]){1, 1, 0});
}
END_TEST

/* No table has a size of its own: more ranks than any job of this machine. */
START_TEST(many_ranks)
{
    enum { RANKS = 5000 };
    yk_error err = YK_ERROR_INIT;
    yk__seat *seat = yk__calloc(RANKS, sizeof *seat);
    uint64_t *rows = yk__calloc(RANKS, sizeof *rows), sum = 0;
    yk__policy *p;
    yk__fixed fixed;
    ck_assert_int_eq(yk__fixed_read("equal", "a setting", "rows", RANKS, &fixed, &err), YK_OK);
    yk__fixed_count(&fixed, 3 * RANKS + 1, rows);
    ck_assert(rows[0] == 4 && rows[1] == 3 && rows[RANKS - 1] == 3);
    yk__fixed_free(&fixed);
    for (uint32_t r = 0; r < RANKS; r++)
        seat[r].pace = r % 2 ? 1e-3 : 1e-2;
    ck_assert_int_eq(yk__policy_new(RANKS, seat, 16 * RANKS, &p, &err), YK_OK);
    for (uint32_t r = 0; r < RANKS; r++)
        sum += yk__policy_decision(p)->share[r];
    ck_assert_uint_eq(sum, 16 * RANKS);
    ck_assert(yk__policy_decision(p)->share[1] > yk__policy_decision(p)->share[0]);
    yk__policy_free(p);
    yk__free(rows);
    yk__free(seat);
}
END_TEST

START_TEST(fixed_shares_are_read_and_refused)
{
    static const struct {
        const char *text, *words;
    } bad[] = {{"", "expected equal"}, {"x", "expected equal"}, {"3:1:2:", "expected equal"}, {"3::2", "expected equal"},
               {"-1:1:1", "expected equal"}, {"1.5:1:1", "expected equal"}, {"1000001:1:1", "expected equal"},
               {"99999999999999999999:1:1", "expected equal"}, {"equal ", "expected equal"}, {"3:1", "2 parts, for 3 ranks"},
               {"3", "1 part, for 3 ranks"}, {"3:1:2:4", "4 parts, for 3 ranks"}, {"3:0:2", "rank 1 would have no rows"}};
    yk__fixed fixed;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        yk_error err = YK_ERROR_INIT;
        ck_assert_int_eq(yk__fixed_read(bad[i].text, "YOKE_SHARES", "rows", 3, &fixed, &err), YK_E_ARG);
        ck_assert_msg(strstr(err.text, bad[i].words) && strstr(err.text, "YOKE_SHARES"), "%s", err.text);
    }
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(yk__fixed_read(NULL, "YOKE_SHARES", "rows", 3, &fixed, &err), YK_OK);
    ck_assert(!fixed.is_given && !fixed.is_fixed && !strcmp(fixed.text, "speed"));
    yk__fixed_free(&fixed);
    ck_assert_int_eq(yk__fixed_read("speed", "YOKE_SHARES", "rows", 3, &fixed, &err), YK_OK);
    ck_assert(fixed.is_given && !fixed.is_fixed);
    yk__fixed_free(&fixed);
    ck_assert_int_eq(yk__fixed_read("3:1:2", "YOKE_SHARES", "rows", 3, &fixed, &err), YK_OK);
    ck_assert_str_eq(fixed.text, "3:1:2");
    yk__fixed_free(&fixed);
    ck_assert_int_eq(yk__fixed_read("2:2:2", "YOKE_SHARES", "rows", 3, &fixed, &err), YK_OK);
    ck_assert_str_eq(fixed.text, "equal");
    yk__fixed_free(&fixed);
    ck_assert_int_eq(yk__fixed_read("1", "YOKE_SHARES", "rows", 1, &fixed, &err), YK_OK);
    yk__fixed_free(&fixed);
}
END_TEST

START_TEST(no_memory)
{
    yk_error err = YK_ERROR_INIT;
    yk__fit *b = NULL;
    yk__policy *p = NULL;
    const yk__seat seat[2] = {{.pace = 0}};
    yk__mem_fail_after(0);
    ck_assert_int_eq(yk__fit_new(2, 10, seat, &b, &err), YK_E_MEM);
    ck_assert_ptr_null(b);
    for (long n = 0; n < 7; n++) {
        yk__mem_fail_after(n);
        ck_assert_int_eq(yk__policy_new(2, seat, 10, &p, &err), YK_E_MEM);
        ck_assert_ptr_null(p);
    }
    yk__mem_fail_after(-1);
    ck_assert_int_eq(yk__fit_new(0, 10, seat, &b, &err), YK_E_ARG);
}
END_TEST

/* The invariants of slices of n elements. */
static void check_slices(const yk__slices *s, uint64_t n, uint32_t ranks)
{
    ck_assert_uint_eq(s->ranks, ranks);
    ck_assert_uint_eq(s->begin[0], 0);
    ck_assert_uint_eq(s->begin[ranks], n);
    for (uint32_t r = 0; r < ranks; r++) {
        ck_assert_uint_le(s->begin[r], s->begin[r + 1]);
        ck_assert(s->begin[r] % 64 == 0 || s->begin[r] == n);
    }
}

START_TEST(even_slices)
{
    static const uint64_t sizes[] = {0, 1, 63, 64, 65, 1000, 123456789, UINT64_MAX / 8};
    static const uint32_t ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 39, 256, 257, 1000, 10007};
    yk_error err = YK_ERROR_INIT;
    yk__slices s = {0};
    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            ck_assert_int_eq(yk__slices_even(&s, sizes[i], ranks[k], &err), YK_OK);
            check_slices(&s, sizes[i], ranks[k]);
            for (uint32_t r = 0; r < ranks[k]; r++)
                ck_assert_uint_le(s.begin[r + 1] - s.begin[r], sizes[i] / ranks[k] + 128);
        }
    yk__slices_free(&s);
}
END_TEST

START_TEST(weighted_slices)
{
    const double part[4][4] = {{1, 1, 1, 1}, {0, 3, 0, 1}, {1, 0, 0, 0}, {0, 0, 0, 0.001}};
    yk_error err = YK_ERROR_INIT;
    yk__slices s = {0}, even = {0};
    ck_assert_int_eq(yk__slices_even(&even, 100000, 4, &err), YK_OK);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(yk__slices_by(&s, 100000, 4, part[i], &err), YK_OK);
        check_slices(&s, 100000, 4);
        ck_assert(yk__slices_same(&s, &even) == (i == 0));
        for (int r = 0; r < 4; r++) {
            const uint64_t n = s.begin[r + 1] - s.begin[r];
            ck_assert(part[i][r] > 0.0 || n == 0);
            ck_assert(i != 1 || fabs((double)n - part[i][r] * 25000.0) <= 64.0);
        }
    }
    yk__slices_free(&even);
    yk__slices_free(&s);
}
END_TEST

/* Every third rank owns nothing, the others as much as their number. */
START_TEST(slices_of_a_thousand_ranks)
{
    enum { RANKS = 1000 };
    const uint64_t n = 64ull * 1000000;
    yk_error err = YK_ERROR_INIT;
    yk__slices s = {0}, copy = {0};
    double part[RANKS], sum = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        sum += part[r] = r % 3 ? r : 0;
    ck_assert_int_eq(yk__slices_by(&s, n, RANKS, part, &err), YK_OK);
    check_slices(&s, n, RANKS);
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_double_le(fabs((double)(s.begin[r + 1] - s.begin[r]) - (double)n * part[r] / sum), r % 3 ? 64.0 : 0.0);
    ck_assert_int_eq(yk__slices_copy(&copy, &s, &err), YK_OK);
    ck_assert(yk__slices_same(&copy, &s));
    copy.begin[RANKS - 1] -= 64;
    ck_assert(!yk__slices_same(&copy, &s));
    ck_assert_int_eq(yk__slices_even(&copy, n, 3, &err), YK_OK); /* the same memory serves other ranks */
    check_slices(&copy, n, 3);
    yk__slices_free(&copy);
    yk__slices_free(&s);
}
END_TEST

/* Without memory slices stay as they were. */
START_TEST(slices_without_memory)
{
    yk_error err = YK_ERROR_INIT;
    yk__slices s = {0};
    ck_assert_int_eq(yk__slices_even(&s, 1000, 2, &err), YK_OK);
    yk__mem_fail_after(0);
    ck_assert_int_eq(yk__slices_even(&s, 1000, 3, &err), YK_E_MEM);
    yk__mem_fail_after(-1);
    check_slices(&s, 1000, 2);
    yk__slices_free(&s);
}
END_TEST

START_TEST(group_of_one)
{
    yk_error err = YK_ERROR_INIT, why = YK_ERROR_INIT;
    yk__group *g = NULL;
    float v[3] = {1, 2, 3}, out[3] = {0}, *mem = NULL;
    yk__coll_buffer block;
    yk__coll *coll;
    yk__slices s = {0};
    ck_assert_int_eq(yk__group_solo(&g, &err), YK_OK);
    coll = yk__group_coll(g);
    ck_assert_uint_eq(yk__group_size(g), 1);
    ck_assert_uint_eq(yk__group_rank(g), 0);
    ck_assert_str_eq(yk__group_name(g, 0), "rank 0");
    ck_assert_int_eq(yk__group_barrier(g, &err), YK_OK);
    const yk__coll_desc sum = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v, .count = 3};
    ck_assert_int_eq(yk__coll_run(yk__coll_members(coll), &sum, &err), YK_OK);
    ck_assert_int_eq(yk__group_all_gather(g, v, sizeof v, out, &err), YK_OK);
    ck_assert_mem_eq(v, out, sizeof v);
    ck_assert_int_eq(yk__group_broadcast_members(g, 0, v, sizeof v, &err), YK_OK);
    ck_assert_int_eq(yk__group_broadcast_members(g, 1, v, sizeof v, &err), YK_E_ARG);
    ck_assert_int_eq(yk__coll_alloc(coll, "gradients", sizeof v, YK__COLL_PRIVATE, &block, &err), YK_OK);
    mem = block.mem;
    ck_assert_uint_eq((uintptr_t)mem % 4096, 0);
    ck_assert(mem[0] == 0 && mem[2] == 0);
    memcpy(mem, v, sizeof v);
    ck_assert_int_eq(yk__slices_even(&s, 3, 1, &err), YK_OK);
    memset(out, 0, sizeof out);
    const yk__coll_desc scatter = {
        .kind = YK__COLL_REDUCE_SCATTER, .dtype = YK_F32, .out = out, .count = 3, .buffer = &block, .parts = &s};
    ck_assert_int_eq(yk__coll_run(yk__coll_members(coll), &scatter, &err), YK_OK);
    ck_assert_mem_eq(v, out, sizeof v);
    const yk__coll_desc gather = {.kind = YK__COLL_ALL_GATHERV, .dtype = YK_F32, .count = 3, .buffer = &block, .parts = &s};
    ck_assert_int_eq(yk__coll_run(yk__coll_members(coll), &gather, &err), YK_OK);
    yk__coll_release(coll, &block);
    ck_assert_int_eq(*yk__group_cancel(g), 0);
    yk__fail(&why, YK_E_IO, "the disk is full");
    yk__group_abort(g, &why);
    ck_assert_int_ne(*yk__group_cancel(g), 0);
    ck_assert_int_eq(yk__group_barrier(g, &err), YK_E_IO);
    ck_assert_str_eq(err.text, "the disk is full");
    yk__group_leave(g);
    yk__group_leave(NULL);
    yk__slices_free(&s);
}
END_TEST

START_TEST(nothing_to_join)
{
    yk_error err = YK_ERROR_INIT;
    yk__group *g = NULL;
    static const char *const bad[] = {NULL, "", "x", "-1", "99999", "4294967296"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bad[i])
            setenv("YOKE_JOB_FD", bad[i], 1);
        else
            unsetenv("YOKE_JOB_FD");
        ck_assert(!yk__launched());
        ck_assert(!yk__group_report(&err));
        ck_assert_int_eq(yk__group_join("me", &g, &err), YK_E_ARG);
        ck_assert_ptr_null(g);
        ck_assert_msg(strstr(err.text, bad[i] && *bad[i] ? "YOKE_JOB_FD" : "start it by 'yoke launch'") != NULL, "%s", err.text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("group");
    TCase *t = tcase_create("balance"), *one = tcase_create("one");
    SRunner *sr = srunner_create(s);
    setenv("YOKE_LOG", "error", 1);
    tcase_add_test(t, fit_is_exact);
    tcase_add_test(t, bad_records_are_ignored);
    tcase_add_test(t, at_one_n_the_line_keeps_its_form);
    tcase_add_test(t, far_from_what_was_measured_a_slope_is_learnt);
    tcase_add_test(t, a_change_is_believed_the_second_time);
    tcase_add_test(t, split_is_the_best);
    tcase_add_test(t, bounds_hold);
    tcase_add_test(t, owner_parts_are_the_best);
    tcase_add_test(t, turns_of_ranks_on_the_same_cores);
    tcase_add_test(t, short_batches_keep_usual_rows);
    tcase_add_test(t, fixed_rows_go_to_the_largest_remainders);
    tcase_add_test(t, fixed_rows_of_some_parts);
    tcase_add_test(t, many_ranks);
    tcase_add_test(t, fixed_shares_are_read_and_refused);
    tcase_add_test(t, no_memory);
    tcase_add_test(one, even_slices);
    tcase_add_test(one, weighted_slices);
    tcase_add_test(one, slices_of_a_thousand_ranks);
    tcase_add_test(one, slices_without_memory);
    tcase_add_test(one, group_of_one);
    tcase_add_test(one, nothing_to_join);
    suite_add_tcase(s, t);
    suite_add_tcase(s, one);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    srunner_free(sr);
    return 0;
}
