/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands of several hosts: CUDA ranks on the driver and the NCCL without cards (tests/fakes), and a CPU rank among them, train over
 * messages to the bits that they get without NCCL, whoever is excluded meanwhile, and send other hosts no more bytes. Where all
 * ranks are cards of one host, gradients and parameters stay on them, without host memory for exchanges; and a plan says so.
 *
 * The resting rank is the last with a card; it has no rows in windows 3 to 5.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "core/coll/coll_state.h"
#include "core/run/engine.h"
#include "tests/dist/net.h"
#include "tests/support/fakes.h"
#include "tests/support/hosts.h"
#include "tests/support/own_roles.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

enum { WINDOWS = 8, FIRST = 3, LAST = 5, WATCHDOG_S = 100, BUCKET_BYTES = 4096 };

/* A rank's place: a letter is a card (the hosts' numbers differ, as the fake's members are told apart by them), '-' is the CPU. */
typedef struct world {
    const char *hosts, *devices;
    uint32_t resting;
} world;

static const world cards[] = {{"aa", "01", 1}, {"aaa", "012", 2}};
static const world worlds[] = {{"aabb", "0123", 3}, {"aab", "01-", 1}, {"abaab", "02-13", 4}, {"aaa", "01-", 1}};

/* ---- A rank ------------------------------------------------------------------------------------------------------- */

typedef struct counted {
    int spread, summed, whole; /* windows after which the island would do so; whole: all members are its */
    double norm;
    uint64_t hash, sent;
} counted;

static yk_status open_device(uint32_t rank, yk__device **dev, yk_error *err)
{
    const char device = getenv("TEST_DEVICES")[rank];
    yk__placement place = {.plugin = "cuda", .device = (uint32_t)(device - '0')};
    if (device == '-')
        place = (yk__placement){.plugin = "cpu", .by_cores = true, .cores = "0"};
    return yk__device_open(&place, dev, err);
}

static bool window_rests(int window)
{
    return window >= FIRST && window <= LAST;
}

/* The resting rank is excluded, or a member that owns its part. */
static yk_status set_member(rig *r, uint32_t resting, bool is_member, yk_error *err)
{
    own_roles roles = own_roles_of(r->e, yk__group_size(r->group));
    roles.member[resting] = is_member;
    roles.owns[resting] = is_member;
    return own_roles_set(r->e, &roles, err);
}

static void share_rows(rig *r, uint32_t resting, bool rest)
{
    const uint32_t ranks = yk__group_size(r->group), me = yk__group_rank(r->group), with = ranks - rest;
    const uint32_t at = me - (rest && me > resting);
    r->begin = rest && me == resting ? 0 : ROWS * at / with;
    r->end = rest && me == resting ? 0 : ROWS * (at + 1) / with;
}

/* They stay on the cards where nobody takes them from the host: not over messages, where others' memory holds them. Until a rank is first
 * excluded there is no host memory for exchanges then. */
static yk_status check_parameters(const rig *r, int window, bool excludes, yk_error *err)
{
    const yk__exchange *exchange = &r->e->exchange;
    const bool whole = yk__island_holds_all(&r->e->params.island) && !getenv("YOKE_TRANSPORT"),
               single = yk__exchange_members(exchange) == 1 && exchange->part != YK__PART_EXCLUDED;
    const bool stay = r->e->params.values == YK__VALUES_UNPUBLISHED;
    if (stay != (whole || single))
        return yk__fail(err, YK_E_INTERNAL, "window %d: parameters %s", window, stay ? "stay" : "left");
    if ((exchange->shared_bytes == 0) != (whole && (window < FIRST || !excludes)))
        return yk__fail(err, YK_E_INTERNAL, "window %d: %llu bytes of the host for exchanges", window,
                        (unsigned long long)exchange->shared_bytes);
    return YK_OK;
}

static yk_status run_window(rig *r, int window, counted *c, yk_error *err)
{
    float h[2][YK_HYPER_COUNT];
    yk__updated u;
    for (uint32_t m = 0; m < 2; m++)
        if (net_micro(r, (uint32_t)window * 2 + m, m == 0, err))
            return err->status;
    net_hyper(YK_OPT_ADAM, window + 1, h);
    const yk__update update = {.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = 2.0 * ROWS,
                               .clip_norm = getenv("TEST_UNCLIPPED") ? 0.0 : 0.3};
    if (yk__engine_update(r->e, &update, &u, err))
        return err->status;
    c->norm = u.grad_norm;
    c->spread += yk__island_spreads(&r->e->params.island);
    c->summed += yk__island_sums(&r->e->params.island);
    c->whole += yk__island_holds_all(&r->e->params.island);
    return YK_OK;
}

static yk_status run_windows(rig *r, bool excludes, counted *c, yk_error *err)
{
    static float values[IN * MID];
    const uint32_t resting = (uint32_t)atoi(getenv("TEST_RESTING"));
    for (int w = 0; w < WINDOWS; w++) {
        if (excludes && (w == FIRST || w == LAST + 1) && set_member(r, resting, w != FIRST, err))
            return err->status;
        share_rows(r, resting, window_rests(w));
        if (run_window(r, w, c, err) || check_parameters(r, w, excludes, err) ||
            (w == 1 && yk__group_rank(r->group) == 0 && yk__engine_param_read(r->e, r->number[0], values, err))) /* the others do not */
            return err->status;
    }
    return yk__engine_hash(r->e, &c->hash, err);
}

/* A plan follows what calls took in its run (core/coll/tune.h), and two plans send different bytes: all go directly here. */
static void fix_plan(yk__coll *coll)
{
    coll->columns_from = UINT64_MAX;
    coll->rounds_below = 0;
}

static yk_status run_rank(yk__group *g, bool excludes, counted *c, yk_error *err)
{
    fix_plan(yk__group_coll(g));
    const yk__engine_config config = {.precision = YK_F32, .bucket_bytes = BUCKET_BYTES};
    const uint64_t before = yk__coll_sent(yk__group_coll(g));
    yk__device *dev = NULL;
    rig r = {0};
    if (!open_device(yk__group_rank(g), &dev, err) && !net_setup(&r, dev, g, &config, YK_OPT_ADAM, err))
        run_windows(&r, excludes, c, err);
    c->sent = yk__coll_sent(yk__group_coll(g)) - before;
    yk__engine_free(r.e);
    yk__device_close(dev);
    return err->status;
}

/* What a window takes, on the card or on one that plans only. */
static yk_status count_bytes(yk__group *g, bool plans, yk__engine_stats *stats, yk_error *err)
{
    const yk__engine_config config = {.precision = YK_F32, .bucket_bytes = BUCKET_BYTES};
    counted c;
    yk__device *dev = NULL;
    rig r = {0};
    if (!open_device(yk__group_rank(g), &dev, err) && !(plans && yk__device_plan_only(dev, err)) &&
        !net_setup(&r, dev, g, &config, YK_OPT_ADAM, err)) {
        share_rows(&r, 0, false);
        run_window(&r, 0, &c, err);
        yk__engine_stats_get(r.e, stats);
    }
    yk__engine_free(r.e);
    yk__device_close(dev);
    return err->status;
}

static yk_status compare_bytes(yk__group *g, yk_error *err)
{
    yk__engine_stats plan = {0}, run = {0};
    const bool whole = !strchr(getenv("TEST_DEVICES"), '-') && strcmp(getenv("YOKE_CUDA_NCCL"), "0") != 0;
    if (count_bytes(g, true, &plan, err) || count_bytes(g, false, &run, err))
        return err->status;
    if (plan.peak_bytes != run.peak_bytes || plan.shared_bytes != run.shared_bytes || (run.shared_bytes == 0) != whole)
        return yk__fail(err, YK_E_INTERNAL, "planned: %llu bytes and %llu shared; taken: %llu and %llu",
                        (unsigned long long)plan.peak_bytes, (unsigned long long)plan.shared_bytes, (unsigned long long)run.peak_bytes,
                        (unsigned long long)run.shared_bytes);
    return YK_OK;
}

/* One rank's NCCL may add in no fixed order, where those of the others do. */
static void rank_loosen(uint32_t rank)
{
    const char *loose = getenv("TEST_LOOSE");
    if (loose && (uint32_t)atoi(loose) == rank)
        setenv("NCCL_NVLS_ENABLE", "1", 1);
}

static int rank_main(const char *what)
{
    yk_error err = YK_ERROR_INIT;
    counted c = {0};
    yk__group *g;
    alarm(WATCHDOG_S);
    if (!yk__group_join("a rank", &g, &err)) {
        rank_loosen(yk__group_rank(g));
        if (!strcmp(what, "counts") ? compare_bytes(g, &err) : run_rank(g, !strcmp(what, "excludes"), &c, &err))
            yk__group_abort(g, &err);
        yk__group_leave(g);
    }
    if (err.status)
        printf("%s", err.text);
    else
        printf("%016llx %.9g %d %d %d %llu", (unsigned long long)c.hash, c.norm, c.spread, c.summed, c.whole, (unsigned long long)c.sent);
    return err.status != YK_OK;
}

/* ---- The test ----------------------------------------------------------------------------------------------------- */

static counted read_rank(const hosts_job *j, uint32_t rank)
{
    counted c = {0};
    unsigned long long hash, sent;
    ck_assert_msg(sscanf(j->said[rank], "%llx %lf %d %d %d %llu", &hash, &c.norm, &c.spread, &c.summed, &c.whole, &sent) == 6,
                  "rank %u: '%s'", rank, j->said[rank]);
    c.hash = hash;
    c.sent = sent;
    return c;
}

/* Rank 0's counts; sent: by all ranks. All ranks have the same parameters, and only ranks with a card use an island. */
static counted run_world(const world *w, const char *what, const char *nccl, int worked)
{
    char resting[8];
    hosts_job j;
    snprintf(resting, sizeof resting, "%u", w->resting);
    setenv("TEST_DEVICES", w->devices, 1);
    setenv("TEST_RESTING", resting, 1);
    setenv("YOKE_CUDA_NCCL", nccl, 1);
    hosts_new(&j, w->hosts);
    hosts_start(&j, what);
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    counted all = read_rank(&j, 0);
    for (uint32_t r = 1; r < j.ranks; r++) {
        const counted one = read_rank(&j, r);
        ck_assert_msg(one.hash == all.hash, "rank %u of %s has %016llx, rank 0 %016llx", r, w->hosts, (unsigned long long)one.hash,
                      (unsigned long long)all.hash);
        all.sent += one.sent;
    }
    for (uint32_t r = 0; r < j.ranks; r++) {
        /* the other hosts' islands go on without the one that is excluded */
        const bool with = w->hosts[r] == w->hosts[w->resting];
        const int expected = w->devices[r] == '-' ? 0 : worked && !strcmp(what, "excludes") && with ? worked - (LAST - FIRST + 1) : worked;
        ck_assert_msg(read_rank(&j, r).spread == expected, "%s, %s: the island of rank %u was at work in %d windows, expected %d", w->hosts,
                      what, r, read_rank(&j, r).spread, expected);
    }
    hosts_free(&j);
    return all;
}

static void set_ways(const char *sums, const char *transport)
{
    setenv("YOKE_REPRODUCIBILITY", sums, 1);
    if (*transport)
        setenv("YOKE_TRANSPORT", transport, 1);
    else
        unsetenv("YOKE_TRANSPORT");
    setenv("YOKE_LIVENESS_MS", "20000", 1); /* nobody dies here, but a busy machine is slow */
}

/* The ways of requests are fixed (fix_plan), so the bytes of two runs compare. */
static void assert_no_more(uint64_t with, uint64_t without, const char *hosts)
{
    printf("# %s: %llu bytes to other hosts, %llu without NCCL\n", hosts, (unsigned long long)with, (unsigned long long)without);
    ck_assert_msg(with <= without, "%s: %llu bytes with NCCL, %llu without", hosts, (unsigned long long)with,
                  (unsigned long long)without);
}

/* Bits of all worlds are the plain build's: under a sanitizer each is tried in one order. */
static bool world_is_plain(int at, bool run)
{
    return (TEST_UNDER_ASAN || TEST_UNDER_TSAN) && run != (at % 3 == 0);
}

START_TEST(sums_in_the_order_of_ranks_keep_their_bits)
{
    if (world_is_plain(_i, false))
        return;
    const world *w = &worlds[_i];
    const char *nccl = fake_path("fake_nccl");
    set_ways("rank", strchr(w->hosts, 'b') ? "auto" : "sock");
    const counted without = run_world(w, "rests", "0", 0), with = run_world(w, "rests", nccl, WINDOWS);
    const counted excludes = run_world(w, "excludes", nccl, WINDOWS);
    ck_assert(with.hash == without.hash && with.norm == without.norm);
    ck_assert(excludes.hash == without.hash && excludes.norm == without.norm);
    ck_assert_int_eq(with.summed, 0);
    assert_no_more(with.sent, without.sent, w->hosts);
}
END_TEST

START_TEST(islands_add_first_where_they_may)
{
    if (world_is_plain(_i, true))
        return;
    const world *w = &worlds[_i];
    const char *nccl = fake_path("fake_nccl");
    set_ways("run", strchr(w->hosts, 'b') ? "auto" : "sock");
    const counted without = run_world(w, "rests", "0", 0), with = run_world(w, "rests", nccl, WINDOWS);
    const counted again = run_world(w, "rests", nccl, WINDOWS), excludes = run_world(w, "excludes", nccl, WINDOWS);
    ck_assert_int_eq(with.summed, WINDOWS);
    ck_assert(with.hash == again.hash);
    ck_assert_double_eq_tol(with.norm, without.norm, 1e-4 * without.norm);
    ck_assert_double_eq_tol(excludes.norm, without.norm, 1e-4 * without.norm);
    assert_no_more(with.sent, without.sent, w->hosts);
}
END_TEST

/* In memory in common and over messages, in the order of ranks where there are two, and with one that is excluded for a while. The number
 * of cards, the order and the transport are met in pairs; ./check --long has all of their combinations. */
START_TEST(cards_of_one_host_keep_all_to_themselves)
{
    if ((_i ^ _i >> 1 ^ _i >> 2) % 2 && !getenv("YOKE_TEST_LONG"))
        return;
    const world *w = &cards[_i % 2];
    const char *nccl = fake_path("fake_nccl"), *sums = _i % 4 < 2 ? "run" : "rank";
    const int whole = _i % 4 == 3 ? 0 : WINDOWS;
    set_ways(sums, _i < 4 ? "" : "sock");
    setenv("TEST_UNCLIPPED", "1", 1);
    const counted without = run_world(w, "rests", "0", 0), with = run_world(w, "rests", nccl, WINDOWS);
    const counted excludes = run_world(w, "excludes", nccl, WINDOWS);
    ck_assert_int_eq(with.whole, whole);
    ck_assert_int_eq(excludes.whole, whole ? WINDOWS - (LAST - FIRST + 1) : 0);
    if (w == &cards[0] || !whole)
        ck_assert(with.hash == without.hash && excludes.hash == without.hash);
    unsetenv("TEST_UNCLIPPED");
    const counted clipped = run_world(w, "rests", nccl, WINDOWS), again = run_world(w, "excludes", nccl, WINDOWS);
    ck_assert(clipped.hash != with.hash);
    ck_assert_double_eq_tol(with.norm, without.norm, 1e-4 * without.norm);
    ck_assert_double_eq_tol(again.norm, clipped.norm, 1e-4 * clipped.norm);
}
END_TEST

/* Memory is planned to the byte: of an island that holds all, of one beside a processor, and of cards that are not joined. */
START_TEST(what_is_planned_is_what_is_taken)
{
    const world counting[] = {cards[0], cards[1], worlds[3], cards[0]};
    hosts_job j;
    set_ways("run", "");
    setenv("TEST_DEVICES", counting[_i].devices, 1);
    setenv("YOKE_CUDA_NCCL", _i < 3 ? fake_path("fake_nccl") : "0", 1);
    hosts_new(&j, counting[_i].hosts);
    hosts_start(&j, "counts");
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    hosts_free(&j);
}
END_TEST

/* An island adds up if all its members can say in which order, and all know that. */
START_TEST(an_order_that_one_rank_does_not_know_is_nobodys)
{
    const world *w = _i % 2 ? &worlds[3] : &cards[0];
    set_ways("run", _i < 2 ? "" : "sock");
    const counted without = run_world(w, "rests", "0", 0);
    setenv("TEST_LOOSE", "1", 1);
    const counted with = run_world(w, "rests", fake_path("fake_nccl"), WINDOWS);
    unsetenv("TEST_LOOSE");
    ck_assert_int_eq(with.summed + with.whole, 0);
    ck_assert(with.hash == without.hash && with.norm == without.norm);
}
END_TEST

/* A rank that waits for its card would move no messages meanwhile. */
START_TEST(without_a_progress_thread_there_is_no_island)
{
    set_ways("run", "auto");
    setenv("YOKE_PROGRESS", "off", 1);
    run_world(&worlds[0], "rests", fake_path("fake_nccl"), 0);
}
END_TEST

static int run_suite(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("island");
    setenv("YOKE_CUDA_DRIVER", fake_path("fake_cuda"), 1);
    setenv("YOKE_CUDA_NVRTC", fake_path("fake_nvrtc"), 1);
    setenv("YOKE_CUDA_CUBLASLT", fake_path("fake_cublaslt"), 1);
    setenv("YOKE_CUDA_CUDNN", fake_path("fake_cudnn"), 1);
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    tcase_set_timeout(t, 240);
#ifdef HAVE_SODIUM
    tcase_add_loop_test(t, sums_in_the_order_of_ranks_keep_their_bits, 0, (int)(sizeof worlds / sizeof *worlds));
    tcase_add_loop_test(t, islands_add_first_where_they_may, 0, (int)(sizeof worlds / sizeof *worlds));
    tcase_add_loop_test(t, cards_of_one_host_keep_all_to_themselves, 0, 8);
    tcase_add_loop_test(t, what_is_planned_is_what_is_taken, 0, 4);
    tcase_add_loop_test(t, an_order_that_one_rank_does_not_know_is_nobodys, 0, 4);
    tcase_add_test(t, without_a_progress_thread_there_is_no_island);
#endif
    return suite_run("island", t);
}

int main(int argc, char **argv)
{
    return argc > 1 ? rank_main(argv[1]) : run_suite();
}
