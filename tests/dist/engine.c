/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training over ranks equals training in one process: the same rows shared out unevenly (one rank may have none), with a
 * sum over ranks inside the network, accumulation, clipping, two optimizers; all ranks hold the same bits.
 */
#include "config.h"

#include "tests/support/ranks.h"

#include <check.h>
#include <math.h>
#include <unistd.h>

#include "tests/dist/net.h"
#include "tests/dist/own_way.h"
#include "tests/support/own_roles.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

enum { STEPS = 3, SLOW_MS = 200 };

static yk__engine_config plain = {.precision = YK_F32, .bucket_bytes = 4096};
static int micros = 2; /* micro batches of a window */

static yk_status rig_train(rig *r, yk__opt_kind kind, double *norm, yk_error *err)
{
    float h[2][YK_HYPER_COUNT];
    yk__updated u;
    for (int step = 1; step <= STEPS; step++) {
        for (int m = 0; m < micros; m++)
            if (net_micro(r, (uint32_t)(step * 2 + m), m == 0, err))
                return err->status;
        net_hyper(kind, step, h);
        if (yk__engine_update(r->e,
                              &(yk__update){.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = 2.0 * ROWS,
                                            .clip_norm = 0.3},
                              &u, err))
            return err->status;
        norm[step - 1] = u.grad_norm;
    }
    return YK_OK;
}

typedef yk_status reader(yk__engine *e, uint32_t number, float *data, yk_error *err);

static yk_status read_moment(yk__engine *e, uint32_t number, float *data, yk_error *err)
{
    return yk__engine_moment_read(e, 0, number, 0, UINT64_MAX, false, data, err);
}

/* The worst difference between the two engines' vectors. */
static yk_status rigs_compare(const rig *a, const rig *b, reader *read, double *worst, yk_error *err)
{
    for (int i = 0; i < N_PARAM; i++) {
        static float x[IN * MID], y[IN * MID];
        if (read(a->e, a->number[i], x, err) || read(b->e, b->number[i], y, err))
            return err->status;
        for (uint64_t k = 0; k < size[i]; k++)
            *worst = fmax(*worst, fabs((double)x[k] - (double)y[k]));
    }
    return YK_OK;
}

static yk_status rigs_check(const rig *solo, const rig *many, double tol, yk_error *err)
{
    reader *const read[3] = {yk__engine_param_read, yk__engine_grad_read, read_moment};
    const char *const name[3] = {"parameters", "gradients", "moments"};
    const uint32_t ranks = yk__group_size(many->group);
    float a[MID], b[MID];
    uint64_t hash, all[16];
    for (int i = 0; i < 3; i++) {
        double worst = 0.0;
        if (rigs_compare(solo, many, read[i], &worst, err))
            return err->status;
        if (!(worst <= tol))
            return yk__fail(err, YK_E_INTERNAL, "%s differ by %g", name[i], worst);
    }
    if (yk__engine_state_read(solo->e, solo->state, a, err) || yk__engine_state_read(many->e, many->state, b, err))
        return err->status;
    for (int i = 0; i < MID; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-6f))
            return yk__fail(err, YK_E_INTERNAL, "the state differs: %g, expected %g", (double)b[i], (double)a[i]);
    if (yk__engine_hash(many->e, &hash, err) || yk__group_all_gather(many->group, &hash, sizeof hash, all, err))
        return err->status;
    for (uint32_t i = 1; i < ranks; i++)
        if (all[i] != all[0])
            return yk__fail(err, YK_E_INTERNAL, "rank %u holds other parameters than rank 0", i);
    return YK_OK;
}

/* First row of a rank: 0, 1, 4; or all rows are the last rank's. */
static int64_t first_row(uint32_t rank, uint32_t ranks, bool empty)
{
    return rank == ranks ? ROWS : empty ? 0 : (int64_t)(rank * rank);
}

static yk_status run_case(yk__group *group, bool empty, yk__opt_kind kind, yk_error *err)
{
    const uint32_t me = yk__group_rank(group), ranks = yk__group_size(group);
    rig solo = {.begin = 0, .end = ROWS}, many = {0};
    double want[STEPS], got[STEPS];
    yk__group *one = NULL;
    yk__device *dev = NULL;
    many.begin = first_row(me, ranks, empty);
    many.end = first_row(me + 1, ranks, empty);
    if (!ref_open(&dev, err) && !yk__group_solo(&one, err) && !net_setup(&solo, dev, one, &plain, kind, err) &&
        !net_setup(&many, dev, group, &plain, kind, err) && !rig_train(&solo, kind, want, err) && !rig_train(&many, kind, got, err) &&
        !rigs_check(&solo, &many, 2e-6, err))
        for (int i = 0; i < STEPS; i++)
            if (!(fabs(want[i] - got[i]) <= 1e-5 * want[i]))
                yk__fail(err, YK_E_INTERNAL, "norm %g, expected %g", got[i], want[i]);
    yk__engine_free(many.e);
    yk__engine_free(solo.e);
    if (one)
        yk__group_leave(one);
    yk__device_close(dev);
    return err->status;
}

/* Trains in bf16; returns the parameters. */
static yk_status train_low(rig *r, yk__device *dev, yk__group *group, uint64_t limit, float p[N_PARAM][IN * MID], yk_error *err)
{
    const yk__engine_config c = {.precision = YK_BF16, .memory_limit = limit, .bucket_bytes = 4096};
    double norm[STEPS];
    if (!net_setup(r, dev, group, &c, YK_OPT_ADAM, err) && !rig_train(r, YK_OPT_ADAM, norm, err))
        for (int i = 0; i < N_PARAM && !err->status; i++)
            yk__engine_param_read(r->e, r->number[i], p[i], err);
    yk__engine_free(r->e);
    r->e = NULL;
    return err->status;
}

/* 16-bit copies that live between steps, and casts in every step (there is a memory limit), give the same bits. */
static yk_status run_low(yk__group *group, yk_error *err)
{
    static float held[N_PARAM][IN * MID], cast[N_PARAM][IN * MID];
    const uint32_t me = yk__group_rank(group), ranks = yk__group_size(group);
    rig r = {.begin = first_row(me, ranks, false), .end = first_row(me + 1, ranks, false)};
    yk__device *dev = NULL;
    if (!ref_open(&dev, err) && !train_low(&r, dev, group, 0, held, err) && !train_low(&r, dev, group, 1 << 20, cast, err))
        for (int i = 0; i < N_PARAM; i++)
            if (memcmp(held[i], cast[i], size[i] * sizeof(float)))
                yk__fail(err, YK_E_INTERNAL, "parameter %d is %g and %g", i, (double)held[i][0], (double)cast[i][0]);
    yk__device_close(dev);
    return err->status;
}

/* Rows of this folder before those of the tables; NULL for none. */
typedef struct own_rows {
    const yk__way *way;
    const yk__home *home;
    const yk__action_row *action;
    bool scatters, slices, stay;
    uint32_t ahead;
} own_rows;

static yk_status train_by(rig *r, yk__device *dev, yk__group *group, own_rows own, float p[N_PARAM][IN * MID], double *norm,
                          yk_error *err)
{
    const yk__engine_config c = {
        .precision = YK_F32, .bucket_bytes = 4096, .way = own.way, .home = own.home, .action = own.action,
        .scatters = own.scatters, .slices = own.slices, .slices_by_host = true, .pulls_stay = own.stay, .pulls_ahead = own.ahead};
    if (!net_setup(r, dev, group, &c, YK_OPT_ADAM, err) && !rig_train(r, YK_OPT_ADAM, norm, err))
        for (int i = 0; i < N_PARAM && !err->status; i++)
            yk__engine_param_read(r->e, r->number[i], p[i], err);
    yk__engine_free(r->e);
    r->e = NULL;
    return err->status;
}

static void compare_runs(float table[N_PARAM][IN * MID], float own[N_PARAM][IN * MID], double norm[2][STEPS], yk_error *err)
{
    if (!err->status && memcmp(norm[0], norm[1], sizeof norm[0]))
        yk__fail(err, YK_E_INTERNAL, "norms %.17g and %.17g", norm[0][0], norm[1][0]);
    for (int i = 0; i < N_PARAM && !err->status; i++)
        if (memcmp(table[i], own[i], size[i] * sizeof(float)))
            yk__fail(err, YK_E_INTERNAL, "parameter %d is %g and %g", i, (double)table[i][0], (double)own[i][0]);
}

/* A way that adds up in the order of ranks gives the bits of those that do; so do a home that lays values elsewhere, and a kind
 * of action that waits. */
static yk_status run_ways(yk__group *group, yk_error *err)
{
    static float table[N_PARAM][IN * MID], own[N_PARAM][IN * MID];
    const uint32_t me = yk__group_rank(group), ranks = yk__group_size(group);
    rig r = {.begin = first_row(me, ranks, false), .end = first_row(me + 1, ranks, false)};
    double norm[2][STEPS];
    yk__device *dev = NULL;
    if (!ref_open(&dev, err) && !train_by(&r, dev, group, (own_rows){0}, table, norm[0], err) &&
        !train_by(&r, dev, group, (own_rows){.way = &own_way}, own, norm[1], err)) {
        compare_runs(table, own, norm, err);
        if (!own_way_sums && !err->status)
            yk__fail(err, YK_E_INTERNAL, "no bucket went by the test's way");
        if (!err->status && !train_by(&r, dev, group, (own_rows){.home = &own_home}, own, norm[1], err))
            compare_runs(table, own, norm, err);
        if (!own_home_binds && !err->status)
            yk__fail(err, YK_E_INTERNAL, "no values lay in the test's home");
        if (!err->status && !train_by(&r, dev, group, (own_rows){.action = &own_action}, own, norm[1], err))
            compare_runs(table, own, norm, err);
        if (!err->status && (!own_action_starts || own_action_starts != own_action_waits))
            yk__fail(err, YK_E_INTERNAL, "%u actions started, %u waited for", own_action_starts, own_action_waits);
    }
    yk__device_close(dev);
    return err->status;
}

/* The last rank is excluded in window 2 of 3, or is back. */
static yk_status last_takes_part(rig *r, bool part, yk_error *err)
{
    const uint32_t last = yk__group_size(r->group) - 1, me = yk__group_rank(r->group);
    own_roles roles = own_roles_of(r->e, last + 1);
    roles.member[last] = part;
    roles.owns[last] = part;
    r->begin = part ? first_row(me, last + 1, false) : me == last ? 0 : ROWS * (int64_t)me / (int64_t)last;
    r->end = part ? first_row(me + 1, last + 1, false) : me == last ? 0 : ROWS * (int64_t)(me + 1) / (int64_t)last;
    return own_roles_set(r->e, &roles, err);
}

/* A rank that is excluded for one window counts fewer pieces than the members do. Also reads gradients after they moved. */
static yk_status train_excluded(rig *r, yk__device *dev, yk__group *group, own_rows own, float p[N_PARAM][IN * MID], double *norm,
                                yk_error *err)
{
    const yk__engine_config c = {.precision = YK_F32, .bucket_bytes = 4096, .scatters = own.scatters, .slices = own.slices,
        .slices_by_host = true};
    float h[2][YK_HYPER_COUNT], grad[IN * MID];
    yk__updated u;
    net_setup(r, dev, group, &c, YK_OPT_ADAM, err);
    for (int step = 1; step <= STEPS && !err->status; step++) {
        net_hyper(YK_OPT_ADAM, step, h);
        const yk__update update = {.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = 2.0 * ROWS, .clip_norm = 0.3};
        if (last_takes_part(r, step != 2, err) || yk__engine_grad_read(r->e, r->number[0], grad, err) ||
            net_micro(r, (uint32_t)step, true, err) || yk__engine_update(r->e, &update, &u, err))
            break;
        norm[step - 1] = u.grad_norm + (double)grad[7] * 1e3;
    }
    for (int i = 0; i < N_PARAM && !err->status; i++)
        yk__engine_param_read(r->e, r->number[i], p[i], err);
    yk__engine_free(r->e);
    r->e = NULL;
    return err->status;
}

/* Gradients in slices give the bits of whole gradients, if a window has one micro batch. */
static yk_status run_slices(yk__group *group, yk_error *err)
{
    static float table[N_PARAM][IN * MID], own[N_PARAM][IN * MID];
    const uint32_t me = yk__group_rank(group), ranks = yk__group_size(group);
    rig r = {.begin = first_row(me, ranks, false), .end = first_row(me + 1, ranks, false)};
    double norm[2][STEPS];
    yk__device *dev = NULL;
    micros = 1;
    if (!ref_open(&dev, err) && !train_by(&r, dev, group, (own_rows){0}, table, norm[0], err) &&
        !train_by(&r, dev, group, (own_rows){.scatters = true}, own, norm[1], err))
        compare_runs(table, own, norm, err);
    for (uint32_t way = 0; way < 4 && !err->status; way++) {
        const own_rows sliced = {.action = &own_pull, .scatters = true, .slices = true, .stay = way & 1, .ahead = way / 2};
        if (!train_by(&r, dev, group, sliced, own, norm[1], err))
            compare_runs(table, own, norm, err);
    }
    if (!err->status && me % 2 && !own_pull_poisons)
        yk__fail(err, YK_E_INTERNAL, "no lane was free: nothing was pulled");
    if (!err->status && train_excluded(&r, dev, group, (own_rows){0}, table, norm[0], err))
        return err->status;
    if (!err->status && !train_excluded(&r, dev, group, (own_rows){.scatters = true}, own, norm[1], err))
        compare_runs(table, own, norm, err);
    if (!err->status && !train_excluded(&r, dev, group, (own_rows){.scatters = true, .slices = true}, own, norm[1], err))
        compare_runs(table, own, norm, err);
    yk__device_close(dev);
    return err->status;
}

/* Over messages: rank 1's parameters come late, as its update is slow. Rank 0's wait for them does not count as its own run's time. */
static yk_status run_slow(yk__group *group, yk_error *err)
{
    const uint32_t me = yk__group_rank(group);
    rig r = {.begin = first_row(me, 2, false), .end = first_row(me + 1, 2, false)};
    double norm[STEPS], least = HUGE_VAL; /* least over some runs: a busy machine makes one long, not all */
    yk__engine_stats stats;
    yk__device *dev = NULL;
    ref.wrap = 1;
    ref.claim = REF_CLAIM_ALL;
    ref.update_ms = me ? SLOW_MS : 0;
    if (!ref_open(&dev, err) && !net_setup(&r, dev, group, &plain, YK_OPT_ADAM, err))
        yk__engine_measure(r.e, true);
    for (int round = 0; round < 4 && !err->status; round++) {
        if (rig_train(&r, YK_OPT_ADAM, norm, err) || net_micro(&r, 1, true, err))
            break;
        yk__engine_stats_get(r.e, &stats);
        least = fmin(least, stats.busy_seconds);
    }
    if (!err->status && least > 0.3e-3 * SLOW_MS)
        yk__fail(err, YK_E_INTERNAL, "a run took %g s of its own, and rank 1's update %d ms", least, SLOW_MS);
    yk__engine_free(r.e);
    yk__device_close(dev);
    return err->status;
}

static int as_rank(const char *what)
{
    yk_error err = YK_ERROR_INIT;
    yk__group *g;
    if (!yk__group_join("a rank", &g, &err)) {
        ref.wrap = yk__group_rank(g) % 2 == 0;
        ref.claim = yk__group_rank(g) % 2 ? REF_CLAIM_NONE : REF_CLAIM_ADD;
        if (strstr(what, "unlike")) /* the parameters lie alike on all ranks nevertheless */
            ref.align = yk__group_rank(g) ? 1024 : 64;
        plain.scatters = strstr(what, "sliced") != NULL;
        if (strstr(what, "slow"))
            run_slow(g, &err);
        else if (strstr(what, "slices"))
            run_slices(g, &err);
        else if (strstr(what, "way"))
            run_ways(g, &err);
        else if (strstr(what, "bf16"))
            run_low(g, &err);
        else
            run_case(g, strstr(what, "empty") != NULL, strstr(what, "sgd") ? YK_OPT_SGD : YK_OPT_ADAM, &err);
        if (err.status)
            yk__group_abort(g, &err);
        yk__group_leave(g);
    }
    if (err.status)
        yk__group_report(&err);
    return err.status != YK_OK;
}

static void ranks_launch(uint32_t ranks, const char *what)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    ranks_start(ranks, what, NULL, &code, &err);
    ck_assert_msg(!err.status && code == 0, "%s: %s", what, err.text);
}

START_TEST(two_ranks_adam)
{
    ranks_launch(2, "adam");
}
END_TEST

START_TEST(devices_of_unlike_alignment)
{
    ranks_launch(2, "adam-unlike");
    ranks_launch(3, "sgd-unlike");
}
END_TEST

START_TEST(three_ranks_sgd)
{
    ranks_launch(3, "sgd");
}
END_TEST

START_TEST(two_ranks_bf16)
{
    ranks_launch(2, "bf16");
}
END_TEST

START_TEST(a_way_from_outside_gives_the_same_bits)
{
    ranks_launch(3, "way");
    setenv("YOKE_TRANSPORT", "local", 1);
    ranks_launch(2, "way");
    unsetenv("YOKE_TRANSPORT");
}
END_TEST

START_TEST(a_rank_without_rows)
{
    ranks_launch(2, "adam-empty");
}
END_TEST

START_TEST(gradients_in_slices)
{
    static const char *const transports[] = {"", "local"};
    for (int i = 0; i < 2; i++) {
        setenv("YOKE_TRANSPORT", transports[i], 1);
        ranks_launch(3, "slices");
        ranks_launch(2, "adam-sliced");
        ranks_launch(3, "sgd-unlike-sliced");
        ranks_launch(2, "adam-empty-sliced");
        unsetenv("YOKE_TRANSPORT");
    }
}
END_TEST

START_TEST(late_parameters_are_no_time_of_a_run)
{
    setenv("YOKE_TRANSPORT", "local", 1);
    ranks_launch(2, "slow");
    unsetenv("YOKE_TRANSPORT");
}
END_TEST

int main(int argc, char **argv)
{
    TCase *c;
    if (argc > 1 && yk__launched())
        return as_rank(argv[1]);
    c = tcase_create("train");
    tcase_add_test(c, two_ranks_adam);
    tcase_add_test(c, devices_of_unlike_alignment);
    tcase_add_test(c, three_ranks_sgd);
    tcase_add_test(c, two_ranks_bf16);
    tcase_add_test(c, a_way_from_outside_gives_the_same_bits);
    tcase_add_test(c, a_rank_without_rows);
    tcase_add_test(c, gradients_in_slices);
    tcase_add_test(c, late_parameters_are_no_time_of_a_run);
    return suite_run("engine over ranks", c);
}
