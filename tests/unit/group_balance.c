/* SPDX-License-Identifier: Apache-2.0 */
/* Batch shares: the fit, the split against all splits, caps, dead band, leaving out, and the group of one. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/philox.h"
#include "core/group/group.h"

typedef struct device {
    double a, b, noise;
} device;

static uint32_t drawn;

static double uniform(void)
{
    uint32_t c[4] = {drawn++, 0, 0, 0}, k[2] = {3, 5}, out[4];
    yk__philox(c, k, out);
    return (out[0] >> 8) * (1.0 / 16777216);
}

static double device_time(const device *d, uint64_t n)
{
    return (d->a + d->b * (double)n) * (1 + d->noise * (2 * uniform() - 1));
}

static yk__balance *balance(uint32_t ranks, const uint64_t *cap, const bool *forced)
{
    yk_error err = YK_ERROR_INIT;
    yk__balance *b = NULL;
    ck_assert_int_eq(yk__balance_new(ranks, cap, forced, &b, &err), YK_OK);
    return b;
}

static void split(yk__balance *b, uint64_t n, uint64_t *share, bool *out, uint32_t ranks)
{
    yk_error err = YK_ERROR_INIT;
    uint64_t sum = 0;
    ck_assert_msg(!yk__balance_split(b, n, share, out, &err), "%s", err.text);
    for (uint32_t r = 0; r < ranks; r++)
        sum += share[r];
    ck_assert_uint_eq(sum, n);
}

/* Steps of a job over these devices; returns the longest true time of the last split. */
static double simulate(yk__balance *b, const device *d, uint32_t ranks, uint64_t n, int steps, uint64_t *share,
                       bool *out)
{
    double worst = 0;
    for (int i = 0; i < steps; i++) {
        split(b, n, share, out, ranks);
        worst = 0;
        for (uint32_t r = 0; r < ranks; r++)
            if (share[r]) {
                double t = d[r].a + d[r].b * (double)share[r];
                yk__balance_record(b, r, share[r], device_time(&d[r], share[r]));
                worst = t > worst ? t : worst;
            }
    }
    return worst;
}

/* The least longest time over all splits, by counting rows one at a time to whoever is done first: exact for lines. */
static double best_time(const device *d, uint32_t ranks, uint64_t n, const uint64_t *cap)
{
    uint64_t *k = calloc(ranks, sizeof *k);
    double worst = 0;
    ck_assert_ptr_nonnull(k);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t who = ranks;
        double t = INFINITY;
        for (uint32_t r = 0; r < ranks; r++)
            if (k[r] < cap[r] && d[r].a + d[r].b * (double)(k[r] + 1) < t) {
                t = d[r].a + d[r].b * (double)(k[r] + 1);
                who = r;
            }
        k[who]++;
        worst = t > worst ? t : worst;
    }
    free(k);
    return worst;
}

START_TEST(even_at_first)
{
    yk__balance *b = balance(3, NULL, NULL);
    uint64_t share[3];
    bool out[3];
    split(b, 10, share, out, 3);
    ck_assert_uint_eq(share[0] + share[1] + share[2], 10);
    for (int r = 0; r < 3; r++) {
        ck_assert(share[r] == 3 || share[r] == 4);
        ck_assert(!out[r]);
    }
    split(b, 2, share, out, 3);
    split(b, 0, share, out, 3);
    yk__balance_free(b);
}
END_TEST

START_TEST(fit_is_exact)
{
    yk__balance *b = balance(2, NULL, NULL);
    for (uint64_t n = 10; n <= 100; n += 10)
        yk__balance_record(b, 0, n, 0.02 + 0.003 * (double)n);
    ck_assert_double_eq_tol(yk__balance_predict(b, 0, 500), 0.02 + 1.5, 1e-9);
    ck_assert_double_eq(yk__balance_predict(b, 1, 500), 0);
    ck_assert_double_eq(yk__balance_predict(b, 0, 0), 0);
    /* one n alone: through the origin */
    for (int i = 0; i < 5; i++)
        yk__balance_record(b, 1, 64, 0.32);
    ck_assert_double_eq_tol(yk__balance_predict(b, 1, 128), 0.64, 1e-12);
    yk__balance_free(b);
}
END_TEST

START_TEST(bad_records_are_ignored)
{
    yk__balance *b = balance(1, NULL, NULL);
    yk__balance_record(b, 0, 0, 1);
    yk__balance_record(b, 0, 5, -1);
    yk__balance_record(b, 0, 5, 0);
    yk__balance_record(b, 0, 5, NAN);
    yk__balance_record(b, 0, 5, INFINITY);
    yk__balance_record(b, 9, 5, 1);
    ck_assert_double_eq(yk__balance_predict(b, 0, 5), 0);
    yk__balance_free(b);
}
END_TEST

START_TEST(a_after_b_changes)
{
    yk__balance *b = balance(1, NULL, NULL);
    for (int i = 0; i < 40; i++)
        yk__balance_record(b, 0, 50 + i % 3 * 20, 0.01 + 0.001 * (double)(50 + i % 3 * 20));
    for (int i = 0; i < 40; i++) /* the machine became twice as slow */
        yk__balance_record(b, 0, 50 + i % 3 * 20, 0.02 + 0.002 * (double)(50 + i % 3 * 20));
    ck_assert_double_eq_tol(yk__balance_predict(b, 0, 100), 0.22, 0.22 * 0.01);
    yk__balance_record(b, 0, 50, 60); /* one hiccup of a minute does not last */
    for (int i = 0; i < 12; i++)
        yk__balance_record(b, 0, 50 + i % 3 * 20, 0.02 + 0.002 * (double)(50 + i % 3 * 20));
    ck_assert_double_eq_tol(yk__balance_predict(b, 0, 100), 0.22, 0.22 * 0.15);
    yk__balance_free(b);
}
END_TEST

START_TEST(split_is_the_best)
{
    for (int turn = 0; turn < 200; turn++) {
        uint32_t ranks = 1 + (uint32_t)(uniform() * 6);
        uint64_t n = (uint64_t)(uniform() * 400) + 1, cap[6], share[6];
        bool out[6];
        device d[6];
        yk__balance *b;
        double worst = 0, best;
        for (uint32_t r = 0; r < ranks; r++) {
            d[r] = (device){uniform() < 0.3 ? 0 : uniform() * 0.1, 0.0001 + uniform() * 0.01, 0};
            cap[r] = uniform() < 0.5 ? 1000 : n / ranks + 1 + (uint64_t)(uniform() * 50);
        }
        b = balance(ranks, cap, NULL);
        for (uint32_t r = 0; r < ranks; r++)
            for (uint64_t k = 100; k <= 400; k += 100)
                yk__balance_record(b, r, k, d[r].a + d[r].b * (double)k);
        split(b, n, share, out, ranks);
        for (uint32_t r = 0; r < ranks; r++) {
            double t = share[r] ? d[r].a + d[r].b * (double)share[r] : 0;
            ck_assert_uint_le(share[r], cap[r]);
            worst = t > worst ? t : worst;
        }
        best = best_time(d, ranks, n, cap);
        ck_assert_msg(worst <= best * (1 + 1e-9), "turn %d: %g, best %g", turn, worst, best);
        yk__balance_free(b);
    }
}
END_TEST

START_TEST(converges)
{
    static const device d[3] = {{0.010, 0.0010, 0}, {0.050, 0.0020, 0}, {0.002, 0.0080, 0}};
    static const uint64_t cap[3] = {100000, 100000, 100000};
    yk__balance *b = balance(3, NULL, NULL);
    uint64_t share[3];
    bool out[3];
    double worst = simulate(b, d, 3, 300, 6, share, out), best = best_time(d, 3, 300, cap);
    ck_assert_msg(worst < best * 1.08, "after 6 steps %g, best %g", worst, best);
    yk__balance_free(b);
}
END_TEST

START_TEST(converges_with_noise)
{
    static const device d[4] = {{0.010, 0.0010, 0.15}, {0.050, 0.0020, 0.15}, {0.002, 0.0060, 0.15}, {0, 0.003, 0.15}};
    static const uint64_t cap[4] = {100000, 100000, 100000, 100000};
    double best = best_time(d, 4, 512, cap), sum = 0;
    for (uint32_t trial = 0; trial < 50; trial++) {
        yk__balance *b = balance(4, NULL, NULL);
        uint64_t share[4];
        bool out[4];
        double worst = simulate(b, d, 4, 512, 20, share, out);
        ck_assert_msg(worst < best * 1.5, "trial %u: %g, best %g", trial, worst, best);
        sum += worst / best;
        yk__balance_free(b);
    }
    ck_assert_msg(sum / 50 < 1.15, "mean over trials: %g of the best", sum / 50);
}
END_TEST

START_TEST(shares_are_calm)
{
    static const device d[2] = {{0.010, 0.0010, 0.03}, {0.010, 0.0020, 0.03}};
    yk__balance *b = balance(2, NULL, NULL);
    uint64_t share[2], before;
    bool out[2];
    int changes = 0;
    simulate(b, d, 2, 300, 10, share, out);
    before = share[0];
    for (int i = 0; i < 100; i++) {
        simulate(b, d, 2, 300, 1, share, out);
        changes += share[0] != before;
        before = share[0];
    }
    ck_assert_msg(changes <= 3, "%d changes in 100 steps", changes);
    /* a shorter last batch in between does not disturb */
    split(b, 37, share, out, 2);
    split(b, 300, share, out, 2);
    ck_assert_uint_eq(share[0], before);
    yk__balance_free(b);
}
END_TEST

START_TEST(forgotten_shares_are_found_anew)
{
    yk__balance *b = balance(2, NULL, NULL);
    uint64_t share[2];
    bool out[2];
    yk__balance_record(b, 0, 200, 0.200);
    yk__balance_record(b, 1, 200, 0.200);
    split(b, 400, share, out, 2);
    ck_assert_uint_eq(share[0], 200);
    for (int i = 0; i < 40; i++) /* 1 is faster by 1.5 %: moving two rows gains half a percent, too little for new shares */
        yk__balance_record(b, 1, 200, 0.197);
    split(b, 400, share, out, 2);
    ck_assert_uint_eq(share[0], 200);
    yk__balance_forget(b);
    split(b, 400, share, out, 2);
    ck_assert_uint_eq(share[0], 198);
    yk__balance_free(b);
}
END_TEST

/* Rank 0's first four looks are 30 % slower than all that follow. */
START_TEST(a_cold_start_is_soon_forgotten)
{
    yk__balance *b = balance(2, NULL, NULL);
    uint64_t share[2] = {64, 64};
    bool out[2];
    for (int i = 0; i < 9; i++) {
        yk__balance_record(b, 0, share[0], 0.0018 * (double)share[0] * (i < 4 ? 1.3 : 1.0));
        yk__balance_record(b, 1, share[1], 0.0022 * (double)share[1]);
        if (i < 4)
            yk__balance_forget(b);
        split(b, 128, share, out, 2);
    }
    ck_assert_uint_ge(share[0], 68); /* it was 62; 70.4 are right */
    yk__balance_free(b);
}
END_TEST

START_TEST(a_slow_moment_is_not_followed)
{
    yk__balance *b = balance(2, NULL, NULL);
    uint64_t share[2];
    bool out[2];
    for (int i = 0; i < 10; i++)
        for (uint32_t r = 0; r < 2; r++)
            yk__balance_record(b, r, 200, 0.2);
    split(b, 400, share, out, 2);
    yk__balance_record(b, 1, 200, 0.3);
    split(b, 400, share, out, 2);
    ck_assert_uint_eq(share[0], 200);
    yk__balance_record(b, 1, 200, 0.2);
    yk__balance_record(b, 1, 200, 0.15); /* nor a fast one after a slow one */
    split(b, 400, share, out, 2);
    ck_assert_uint_eq(share[0], 200);
    for (int i = 0; i < 2; i++) /* what lasts is */
        yk__balance_record(b, 1, 200, 0.3);
    split(b, 400, share, out, 2);
    ck_assert_uint_ge(share[0], 204);
    yk__balance_free(b);
}
END_TEST

START_TEST(caps_hold)
{
    static const device d[2] = {{0, 0.001, 0}, {0, 0.010, 0}};
    const uint64_t cap[2] = {40, 0};
    yk__balance *b = balance(2, cap, NULL);
    uint64_t share[2];
    bool out[2];
    yk_error err = YK_ERROR_INIT;
    simulate(b, d, 2, 100, 5, share, out);
    ck_assert_uint_eq(share[0], 40);
    ck_assert_uint_eq(share[1], 60);
    yk__balance_free(b);
    b = balance(2, (const uint64_t[2]){40, 50}, NULL);
    share[0] = 7;
    ck_assert_int_eq(yk__balance_split(b, 91, share, out, &err), YK_E_MEM);
    ck_assert_msg(strstr(err.text, "91") && strstr(err.text, "90"), "%s", err.text);
    ck_assert_uint_eq(share[0], 7);
    yk__balance_free(b);
}
END_TEST

START_TEST(slow_rank_is_left_out)
{
    static const device d[2] = {{0.01, 0.001, 0}, {5, 0.001, 0}};
    bool forced[2] = {false, _i == 1};
    yk__balance *b = balance(2, NULL, forced);
    uint64_t share[2];
    bool out[2];
    simulate(b, d, 2, 64, 8, share, out);
    ck_assert_uint_eq(share[1], (uint64_t)_i);
    ck_assert(out[1] == (_i == 0));
    ck_assert(!out[0]);
    yk__balance_free(b);
}
END_TEST

/* Windows of a job over two devices, looked at every 10: how often the second had rows. */
static int windows(yk__balance *b, const device *d, int n, uint64_t *share, bool *out)
{
    int with = 0;
    for (int w = 0; w < n; w += 10) {
        yk__balance_pass(b, 10);
        split(b, 64, share, out, 2);
        with += share[1] > 0;
        for (uint32_t r = 0; r < 2; r++)
            if (share[r])
                yk__balance_record(b, r, share[r], device_time(&d[r], share[r]));
    }
    return with;
}

START_TEST(a_rank_left_out_is_tried_again)
{
    device d[2] = {{0.01, 0.001, 0}, {5, 0.001, 0}};
    yk__balance *b = balance(2, NULL, NULL);
    uint64_t share[2];
    bool out[2];
    simulate(b, d, 2, 64, 8, share, out);
    ck_assert(out[1] && !share[1]);
    ck_assert_int_eq(windows(b, d, 190, share, out), 0);
    ck_assert_int_eq(windows(b, d, 20, share, out), 1); /* after 200, with one row */
    ck_assert_int_eq(windows(b, d, 380, share, out), 0);
    ck_assert_int_eq(windows(b, d, 30, share, out), 1); /* after 400 more */
    d[1] = (device){0.01, 0.001, 0}; /* what slowed it is gone */
    ck_assert_int_eq(windows(b, d, 760, share, out), 0);
    windows(b, d, 200, share, out);
    ck_assert_uint_ge(share[1], 24);
    ck_assert(!out[1]);
    yk__balance_free(b);
}
END_TEST

START_TEST(goes_on_from_its_numbers)
{
    static const device d[2] = {{0.010, 0.0010, 0.2}, {0.050, 0.0020, 0.2}};
    yk__balance *a = balance(2, NULL, NULL), *b = balance(2, NULL, NULL);
    uint64_t share[2][2];
    bool out[2][2];
    double *v = calloc(yk__balance_count(a), sizeof *v);
    simulate(a, d, 2, 90, 7, share[0], out[0]);
    yk__balance_get(a, v);
    yk__balance_set(b, v);
    for (int i = 0; i < 30; i++) {
        split(a, 90, share[0], out[0], 2);
        split(b, 90, share[1], out[1], 2);
        ck_assert_mem_eq(share[0], share[1], sizeof share[0]);
        for (uint32_t r = 0; r < 2; r++) {
            const double t = device_time(&d[r], share[0][r]);
            yk__balance_record(a, r, share[0][r], t);
            yk__balance_record(b, r, share[1][r], t);
        }
    }
    free(v);
    yk__balance_free(a);
    yk__balance_free(b);
}
END_TEST

START_TEST(a_cap_that_comes_later)
{
    static const device d[2] = {{0, 0.001, 0}, {0, 0.001, 0}};
    yk__balance *b = balance(2, NULL, NULL);
    uint64_t share[2];
    bool out[2];
    simulate(b, d, 2, 64, 5, share, out);
    ck_assert_uint_eq(share[1], 32);
    yk__balance_cap(b, 1, 16);
    simulate(b, d, 2, 64, 5, share, out);
    ck_assert_uint_eq(share[0], 48);
    ck_assert_uint_eq(share[1], 16);
    yk__balance_free(b);
}
END_TEST

START_TEST(equal_records_equal_shares)
{
    static const device d[3] = {{0.010, 0.0010, 0.2}, {0.050, 0.0020, 0.2}, {0.002, 0.0060, 0.2}};
    yk__balance *b[2] = {balance(3, NULL, NULL), balance(3, NULL, NULL)};
    uint64_t share[2][3];
    bool out[2][3];
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 2; k++)
            split(b[k], 100 + (uint64_t)i % 7, share[k], out[k], 3);
        ck_assert_mem_eq(share[0], share[1], sizeof share[0]);
        ck_assert_mem_eq(out[0], out[1], sizeof out[0]);
        for (uint32_t r = 0; r < 3; r++) {
            double t = device_time(&d[r], share[0][r] ? share[0][r] : 1);
            for (int k = 0; k < 2; k++)
                yk__balance_record(b[k], r, share[0][r], t);
        }
    }
    yk__balance_free(b[0]);
    yk__balance_free(b[1]);
}
END_TEST

START_TEST(no_memory)
{
    yk_error err = YK_ERROR_INIT;
    yk__balance *b = NULL;
    for (long n = 0; n < 8; n++) {
        yk__mem_fail_after(n);
        ck_assert_int_eq(yk__balance_new(2, NULL, NULL, &b, &err), YK_E_MEM);
        ck_assert_ptr_null(b);
    }
    yk__mem_fail_after(-1);
    ck_assert_int_eq(yk__balance_new(0, NULL, NULL, &b, &err), YK_E_ARG);
}
END_TEST

START_TEST(even_slices)
{
    static const uint64_t sizes[] = {0, 1, 63, 64, 65, 1000, 123456789, UINT64_MAX / 8};
    for (uint32_t ranks = 1; ranks <= 256; ranks += ranks < 8 ? 1 : 31)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            yk__slices s;
            yk__slices_even(&s, sizes[i], ranks);
            ck_assert_uint_eq(s.begin[0], 0);
            ck_assert_uint_eq(s.begin[ranks], sizes[i]);
            for (uint32_t r = 0; r < ranks; r++) {
                uint64_t n = s.begin[r + 1] - s.begin[r];
                ck_assert_uint_le(s.begin[r], s.begin[r + 1]);
                ck_assert(s.begin[r] % 64 == 0 || s.begin[r] == sizes[i]);
                ck_assert_uint_le(n, sizes[i] / ranks + 128);
            }
        }
}
END_TEST

START_TEST(weighted_slices)
{
    const double part[4][4] = {{1, 1, 1, 1}, {0, 3, 0, 1}, {1, 0, 0, 0}, {0, 0, 0, 0.001}};
    for (int i = 0; i < 4; i++) {
        yk__slices s, even;
        yk__slices_by(&s, 100000, 4, part[i]);
        yk__slices_even(&even, 100000, 4);
        ck_assert_uint_eq(s.begin[0], 0);
        ck_assert_uint_eq(s.begin[4], 100000);
        for (int r = 0; r < 4; r++) {
            const uint64_t n = s.begin[r + 1] - s.begin[r];
            ck_assert_uint_le(s.begin[r], s.begin[r + 1]);
            ck_assert(part[i][r] > 0.0 || n == 0);
            ck_assert(s.begin[r] % 64 == 0 || s.begin[r] == 100000);
            ck_assert(i || s.begin[r] == even.begin[r]);
            ck_assert(i != 1 || fabs((double)n - part[i][r] * 25000.0) <= 64.0);
        }
    }
}
END_TEST

START_TEST(group_of_one)
{
    yk_error err = YK_ERROR_INIT, why = YK_ERROR_INIT;
    yk__group *g = NULL;
    float v[3] = {1, 2, 3}, out[3] = {0}, *mem = NULL;
    yk__slices s;
    void *p;
    ck_assert_int_eq(yk__group_solo(&g, &err), YK_OK);
    ck_assert_uint_eq(yk__group_size(g), 1);
    ck_assert_uint_eq(yk__group_rank(g), 0);
    ck_assert_str_eq(yk__group_name(g, 0), "rank 0");
    ck_assert_int_eq(yk__group_barrier(g, &err), YK_OK);
    ck_assert_int_eq(yk__group_reduce_begin(g, &(yk__columns){v, 1, 3, 3}, &err), YK_OK);
    ck_assert_int_eq(yk__group_reduce_end(g, &(yk__columns){v, 1, 3, 3}, &err), YK_OK);
    ck_assert_int_eq(yk__group_all_gather(g, v, sizeof v, out, &err), YK_OK);
    ck_assert_mem_eq(v, out, sizeof v);
    ck_assert_int_eq(yk__group_broadcast(g, 0, v, sizeof v, &err), YK_OK);
    ck_assert_int_eq(yk__group_broadcast(g, 1, v, sizeof v, &err), YK_E_ARG);
    ck_assert_int_eq(yk__group_shared(g, "gradients", sizeof v, &p, &err), YK_OK);
    mem = p;
    ck_assert_uint_eq((uintptr_t)p % 4096, 0);
    ck_assert(mem[0] == 0 && mem[2] == 0);
    memcpy(mem, v, sizeof v);
    yk__slices_even(&s, 3, 1);
    memset(out, 0, sizeof out);
    ck_assert_int_eq(yk__group_reduce_slice(g, mem, 4096, &s, out, NULL, &err), YK_OK);
    ck_assert_mem_eq(v, out, sizeof v);
    ck_assert_int_eq(yk__group_slices_ready(g, &err), YK_OK);
    ck_assert_int_eq(*yk__group_cancel(g), 0);
    yk__fail(&why, YK_E_IO, "the disk is full");
    yk__group_abort(g, &why);
    ck_assert_int_ne(*yk__group_cancel(g), 0);
    ck_assert_int_eq(yk__group_barrier(g, &err), YK_E_IO);
    ck_assert_str_eq(err.text, "the disk is full");
    yk__group_leave(g);
    yk__group_leave(NULL);
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
        ck_assert(!yk__launch_report(&err));
        ck_assert_int_eq(yk__group_join("me", &g, &err), YK_E_ARG);
        ck_assert_ptr_null(g);
        ck_assert_msg(strstr(err.text, "YOKE_JOB_FD") != NULL, "%s", err.text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("group");
    TCase *t = tcase_create("balance"), *one = tcase_create("one");
    SRunner *sr = srunner_create(s);
    setenv("YOKE_LOG", "error", 1);
    tcase_add_test(t, even_at_first);
    tcase_add_test(t, fit_is_exact);
    tcase_add_test(t, bad_records_are_ignored);
    tcase_add_test(t, a_after_b_changes);
    tcase_add_test(t, split_is_the_best);
    tcase_add_test(t, converges);
    tcase_add_test(t, converges_with_noise);
    tcase_add_test(t, shares_are_calm);
    tcase_add_test(t, forgotten_shares_are_found_anew);
    tcase_add_test(t, a_cold_start_is_soon_forgotten);
    tcase_add_test(t, a_slow_moment_is_not_followed);
    tcase_add_test(t, caps_hold);
    tcase_add_loop_test(t, slow_rank_is_left_out, 0, 2);
    tcase_add_test(t, equal_records_equal_shares);
    tcase_add_test(t, a_rank_left_out_is_tried_again);
    tcase_add_test(t, goes_on_from_its_numbers);
    tcase_add_test(t, a_cap_that_comes_later);
    tcase_add_test(t, no_memory);
    tcase_add_test(one, even_slices);
    tcase_add_test(one, weighted_slices);
    tcase_add_test(one, group_of_one);
    tcase_add_test(one, nothing_to_join);
    suite_add_tcase(s, t);
    suite_add_tcase(s, one);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    srunner_free(sr);
    return 0;
}
