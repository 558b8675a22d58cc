/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients in slices (yk_config.shard "gradients") give the bits of whole gradients if a window has one micro batch: over shared memory
 * and messages, with equal and unequal parts, with a tied table of several pieces, a batch norm over all ranks, a frozen parameter and one
 * that no step uses; through skipped steps, from a checkpoint of the other stage, with uneven shares, and with ranks that have no rows.
 * Several micro batches differ by rounding. So do parameters in slices ("params"), on cards of the driver without a GPU (tests/fakes)
 * beside a processor; and an update by the host for devices with memory of their own, with parameters in slices, and frozen ones on the
 * host, too.
 *
 * Without a launcher this is the test; as a rank it trains: MODE FOLDER.
 */
#include <math.h>
#include <stdlib.h>
#include <yoke/yoke.h>

#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

enum { ROWS = 24, IN = 64, WORDS = 700, RANKS = 3, STEPS = 12, SAVED = 5, LOADED = 8, SAID = 4096 };

#define DEVICES "cpu:0! cpu:0! cpu:0!"
#define CARDS "cpu:0! cuda:0! cuda:1!"
#define OFFLOADING "slow:0! cpu:0! slow:1!" /* the first and the last have memory of their own */
#define FROZEN_BYTES 65536 /* IN * IN numbers, in a bucket of whole pages */
#define SKIPPING 0x1p24 /* a loss scale that is too large for the first steps in fp16 */

typedef struct numbers {
    double loss, norm, scale;
    uint32_t skipped;
    uint64_t hash;
    float grad; /* the last element of the table's gradient */
    double here; /* what rank 1 found by itself */
    uint64_t grads, shared, state, host; /* bytes */
} numbers;

typedef struct net {
    yk_t table, frozen, unused, in, gamma, beta;
    yk_batch_norm_state running;
} net;

static void make_net(yk_job *job, net *m)
{
    const int64_t table[2] = {WORDS, IN}, square[2] = {IN, IN}, width = IN;
    const yk_init normal = {YK_INIT_NORMAL, 0, 0.3f}, ones = {YK_INIT_ONES, 0, 0}, zeros = {0};
    m->table = yk_param(job, "table", 2, table, normal);
    m->frozen = yk_param(job, "frozen", 2, square, normal);
    m->unused = yk_param(job, "unused", 2, square, normal);
    m->in = yk_param(job, "in", 2, square, normal);
    m->gamma = yk_param(job, "gamma", 1, &width, ones);
    m->beta = yk_param(job, "beta", 1, &width, zeros);
    m->running = (yk_batch_norm_state){yk_state(job, "mean", YK_F32, 1, &width, 0),
                                       yk_state(job, "var", YK_F32, 1, &width, 1), YK_NO};
    yk_freeze(m->frozen, true);
}

/* This rank's rows of step s. */
static yk_t step_loss(yk_job *job, const net *m, const char *mode, int s)
{
    uint64_t first = 0, own = 0;
    if (strstr(mode, "empty")) /* all rows are one rank's */
        own = yk_rank(job) == (uint32_t)s % RANKS ? ROWS : 0;
    else
        yk_split(job, ROWS, &first, &own);
    const int64_t n = (int64_t)own;
    int32_t word[ROWS], next[ROWS];
    for (uint64_t i = 0; i < own; i++) {
        word[i] = (int32_t)((first + i) * 37 % WORDS);
        next[i] = (word[i] * 7 + 3) % WORDS;
    }
    const yk_t h = yk_linear(yk_embedding(yk_input(job, YK_I32, 1, &n, word), m->table, -1), m->frozen, YK_NO);
    const yk_t norm = yk_batch_norm(yk_linear(h, m->in, YK_NO), m->gamma, m->beta, m->running, 0.1f, 1e-5f);
    return yk_cross_entropy(yk_linear(yk_gelu(norm), m->table, YK_NO), yk_input(job, YK_I32, 1, &n, next));
}

/* Steps from..to-1. */
static void train_steps(yk_job *job, yk_opt *opt, const net *m, const char *mode, int from, int to, numbers *done)
{
    const int micros = strstr(mode, "several") ? 3 : 1;
    for (int s = from; s < to && yk_ok(job); s++) {
        yk_clip_norm(job, 0.5f);
        for (int k = 0; k < micros; k++) {
            yk_backward(step_loss(job, m, mode, s * micros + k));
            yk_step(opt);
        }
        done->skipped += !yk_stepped(opt);
        done->loss = yk_step_loss(opt);
        done->norm = yk_grad_norm(opt);
    }
}

static void train_all(yk_job *job, yk_opt *opt, const net *m, const char *mode, const char *folder, numbers *done)
{
    char path[128];
    snprintf(path, sizeof path, "%s/saved", folder);
    if (strstr(mode, "resumed")) { /* from what another job saved */
        yk_load(job, path);
        train_steps(job, opt, m, mode, SAVED, STEPS, done);
        return;
    }
    train_steps(job, opt, m, mode, 0, SAVED, done);
    yk_save(job, path);
    train_steps(job, opt, m, mode, SAVED, STEPS, done);
}

/* The loss of all rows on this rank, while the others do nothing. */
static double loss_here(yk_job *job, const net *m)
{
    static float table[WORDS * IN];
    int32_t word[ROWS], next[ROWS];
    const int64_t n = ROWS;
    float loss = 0;
    yk_train(job, false);
    for (int i = 0; i < ROWS; i++)
        word[i] = i * 5, next[i] = i;
    const yk_t h = yk_linear(yk_embedding(yk_input(job, YK_I32, 1, &n, word), m->table, -1), m->frozen, YK_NO);
    const yk_t norm = yk_batch_norm(yk_linear(h, m->in, YK_NO), m->gamma, m->beta, m->running, 0.1f, 1e-5f);
    yk_read(yk_cross_entropy(yk_linear(yk_gelu(norm), m->table, YK_NO), yk_input(job, YK_I32, 1, &n, next)), &loss, sizeof loss);
    yk_param_read(m->table, table, WORDS * IN);
    yk_train(job, true);
    return (double)loss + (double)table[WORDS * IN - 1];
}

/* Unequal slices where rows are; others after a checkpoint where all devices have the bits of a processor. */
static const char *parts_of(const char *mode)
{
    const bool moved = strstr(mode, "resumed") && !strstr(mode, "fp32-uneven-empty-pulled");
    return !strstr(mode, "uneven") ? NULL : moved ? "1:1:4" : "2:1:3";
}

static int rank_main(const char *mode, const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true,
                                       .seed = 3,
                                       .hash_every = 1,
                                       .accumulate = strstr(mode, "several") ? 3 : 1,
                                       .shares = strstr(mode, "uneven") ? "5:1:2" : "equal",
                                       .shard_parts = parts_of(mode),
                                       .shard = strstr(mode, "whole")                              ? "state"
                                                : strstr(mode, "pulled") || strstr(mode, "far") ? "params"
                                                                                                : "gradients",
                                       .shard_within = strstr(mode, "pulled") ? "host" : NULL,
                                       .gathered_stay = strstr(mode, "pulled-stay"),
                                       .keep_whole = strstr(mode, "pulled") ? 1 : 0,
                                       .offload = !strstr(mode, "offload") || strstr(mode, "whole") ? NULL
                                                  : strstr(mode, "everything")                     ? "params=host"
                                                                                                   : "state=host",
                                       .precision = strstr(mode, "fp16") ? YK_F16 : strstr(mode, "bf16") ? YK_BF16 : YK_F32,
                                       .scale = {.init = SKIPPING, .interval = 8}});
    static float grad[WORDS * IN];
    net m;
    make_net(job, &m);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    numbers done = {.skipped = 0};
    yk_memory memory;
    train_all(job, opt, &m, mode, folder, &done);
    yk_grad_read(m.table, grad, WORDS * IN);
    done.grad = grad[WORDS * IN - 1];
    done.scale = yk_loss_scale(opt);
    done.hash = yk_param_hash(job);
    yk_memory_get(job, &memory);
    done.grads = memory.grads;
    done.shared = memory.shared;
    done.state = memory.state;
    done.host = memory.host;
    done.here = yk_rank(job) == 1 ? loss_here(job, &m) : 0;
    if (yk_ok(job))
        ranks_write(folder, mode, yk_rank(job), &done, sizeof done);
    return yk_close(job);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

/* The same on all ranks. */
static numbers train_on(const char *devices, const char *transport, const char *mode)
{
    char said[SAID];
    numbers first, other;
    setenv("YOKE_TRANSPORT", transport, 1);
    setenv("YOKE_BUCKET_BYTES", "65536", 1); /* the table has three pieces */
    ck_assert_msg(ranks_run(devices, mode, said, sizeof said) == 0, "%s, %s: %s", transport, mode, said);
    unsetenv("YOKE_TRANSPORT");
    unsetenv("YOKE_BUCKET_BYTES");
    ranks_read(mode, 0, &first, sizeof first);
    for (uint32_t r = 1; r < RANKS; r++) {
        ranks_read(mode, r, &other, sizeof other);
        ck_assert_msg(first.hash == other.hash && first.loss == other.loss && first.grad == other.grad, "%s: rank %u has other numbers",
                      mode, r);
        first.here = r == 1 ? other.here : first.here;
    }
    return first;
}

static numbers train_ranks(const char *transport, const char *mode)
{
    return train_on(DEVICES, transport, mode);
}

static void expect_same(const numbers *a, const numbers *b, const char *what)
{
    ck_assert_msg(a->hash == b->hash && a->loss == b->loss && a->norm == b->norm && a->scale == b->scale && a->skipped == b->skipped &&
                      a->grad == b->grad,
                  "%s: losses %.17g and %.17g, norms %.17g and %.17g, gradients %g and %g", what, a->loss, b->loss, a->norm, b->norm,
                  (double)a->grad, (double)b->grad);
}

/* Devices of the plugin "slow", which copy what goes in and out. */
static void own_memory(void)
{
    const char *build = getenv("YOKE_BUILD");
    char plugins[512];
    snprintf(plugins, sizeof plugins, "cpu,%s/tests/dist/.libs/yoke_slow.so", build ? build : ".");
    setenv("YOKE_PLUGINS", plugins, 1);
    setenv("YOKE_SLOW_FACTORS", "1;1", 1);
    setenv("YOKE_SLOW_OWN", "1", 1);
}

static const char *const transports[] = {"shm", "local"};
static const char *const cases[] = {"fp32", "bf16", "fp16", "fp32-uneven", "fp32-empty"};
static const char *const offloading[] = {"fp16-uneven-offload", "bf16-offload", "fp16-empty-offload", "bf16-uneven-empty-offload"};

/* What sanitizers see of a case is not in its bits; each transport and each case runs there. */
static bool case_is_plain(int at)
{
    return TEST_UNDER_ASAN && at % 2 != at / 2 % 2;
}

START_TEST(slices_change_no_bit)
{
    if (case_is_plain(_i))
        return;
    const char *transport = transports[_i % 2], *name = cases[_i / 2];
    char whole[64], sliced[64], resumed[64];
    snprintf(whole, sizeof whole, "%s-whole", name);
    snprintf(sliced, sizeof sliced, "%s-sliced", name);
    snprintf(resumed, sizeof resumed, "%s-sliced-resumed", name);
    ranks_folder_make();
    const numbers a = train_ranks(transport, whole), c = train_ranks(transport, resumed), b = train_ranks(transport, sliced);
    expect_same(&a, &b, name);
    ck_assert_uint_eq(a.hash, c.hash); /* it began with what the other stage saved */
    ck_assert_msg((a.skipped > 1 && a.skipped < STEPS / 2) == !strcmp(name, "fp16"), "%s: %u steps were skipped", name, a.skipped);
    ck_assert_uint_eq(a.grads, 0); /* processors compute in the block for exchanges */
    ck_assert_uint_gt(b.grads, 0);
    ck_assert_uint_lt(b.shared, a.shared);
    ranks_folder_remove();
}
END_TEST

#ifdef __x86_64__
/* Sets the library of the fake driver that serves one purpose. */
static void use_fake(const char *variable, const char *library)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/fakes/.libs/%s", getenv("YOKE_BUILD"), library);
    setenv(variable, path, 1);
}

START_TEST(parameters_in_slices_change_no_bit)
{
    static const char *const names[] = {"fp16", "fp32-uneven-empty", "fp32-empty", "bf16", "fp32"}; /* the last two in ./check --long: */
    const char *name = names[_i], *transport = transports[_i % 2];
    char whole[64], pulled[64], resumed[64];
    if (_i >= (TEST_UNDER_ASAN ? 2 : 3) && !getenv("YOKE_TEST_LONG")) /* fp16 has the copies of bf16, the next the numbers of fp32 */
        return;
    use_fake("YOKE_CUDA_DRIVER", "fake_cuda.so");
    use_fake("YOKE_CUDA_NVRTC", "fake_nvrtc.so");
    use_fake("YOKE_CUDA_NCCL", "fake_nccl.so");
    setenv("ASAN_OPTIONS", "allocator_may_return_null=1:intercept_tls_get_addr=0:detect_leaks=0", 1); /* drivers leak */
    snprintf(whole, sizeof whole, "%s-whole", name);
    snprintf(pulled, sizeof pulled, _i % 2 ? "%s-pulled-stay" : "%s-pulled", name);
    snprintf(resumed, sizeof resumed, "%s-pulled-resumed", name);
    ranks_folder_make();
    const numbers a = train_on(CARDS, transport, whole), c = train_on(CARDS, transport, resumed), b = train_on(CARDS, transport, pulled);
    expect_same(&a, &b, name);
    ck_assert_uint_eq(a.hash, c.hash);
    ranks_folder_remove();
}
END_TEST
#endif

/* By messages, where no host has all parameters; the first and the last device have memory of their own. */
START_TEST(slices_are_pulled_from_owners)
{
    static const char *const names[] = {"fp32-uneven", "fp16-empty"};
    char whole[64], far[64], resumed[64];
    snprintf(whole, sizeof whole, "%s-whole", names[_i]);
    snprintf(far, sizeof far, "%s-far", names[_i]);
    snprintf(resumed, sizeof resumed, "%s-far-resumed", names[_i]);
    own_memory();
    ranks_folder_make();
    const numbers a = train_on(OFFLOADING, transports[1], whole), c = train_on(OFFLOADING, transports[1], resumed);
    const numbers b = train_on(OFFLOADING, transports[1], far);
    expect_same(&a, &b, names[_i]);
    ck_assert_uint_eq(a.hash, c.hash);
    ck_assert_msg(a.here == b.here && a.here == c.here, "%s: by one rank %.17g and %.17g", names[_i], a.here, b.here);
    ck_assert_msg(b.host > 0 && b.shared + 4 * WORDS * IN < a.shared, "%s: %llu bytes shared, %llu before", names[_i],
                  (unsigned long long)b.shared, (unsigned long long)a.shared);
    ranks_folder_remove();
}
END_TEST

START_TEST(the_host_updates_with_the_same_bits)
{
    if (TEST_UNDER_ASAN && _i % 3) /* slices and pulled ones, on each transport */
        return;
    char whole[64], sliced[64], resumed[64];
    snprintf(whole, sizeof whole, "%s-whole", offloading[_i]);
    snprintf(sliced, sizeof sliced, "%s-%s", offloading[_i], _i < 2 ? "sliced" : "pulled");
    snprintf(resumed, sizeof resumed, "%s-%s-resumed", offloading[_i], _i < 2 ? "sliced" : "pulled");
    own_memory();
    ranks_folder_make();
    const numbers a = train_on(OFFLOADING, transports[_i % 2], whole);
    const numbers c = train_on(OFFLOADING, transports[_i % 2], resumed);
    const numbers b = train_on(OFFLOADING, transports[_i % 2], sliced);
    expect_same(&a, &b, offloading[_i]);
    ck_assert_uint_eq(a.hash, c.hash);
    ck_assert_uint_gt(a.state, b.state + 4 * WORDS * IN / RANKS);
    ck_assert(a.host == 0 && b.host > 0);
    if (_i == 3) { /* frozen parameters on the host, too: one bucket */
        const numbers d = train_on(OFFLOADING, transports[_i % 2], "bf16-uneven-empty-offload-pulled-everything");
        expect_same(&a, &d, "all parameters on the host");
        ck_assert_uint_eq(d.host, b.host + FROZEN_BYTES);
    }
    ranks_folder_remove();
}
END_TEST

START_TEST(several_micro_batches_differ_by_rounding)
{
    if (TEST_UNDER_ASAN && _i) /* the other transport has other bits alone */
        return;
    ranks_folder_make();
    const numbers a = train_ranks(transports[_i], "fp32-several-whole"), b = train_ranks(transports[_i], "fp32-several-sliced");
    ck_assert_double_eq_tol(a.loss, b.loss, 1e-5);
    ck_assert_double_eq_tol(a.norm, b.norm, 1e-5);
    ck_assert_float_eq_tol(a.grad, b.grad, 1e-6f);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("sliced");
    tcase_add_loop_test(t, slices_change_no_bit, 0, 10);
    tcase_add_loop_test(t, the_host_updates_with_the_same_bits, 0, 4);
    tcase_add_loop_test(t, several_micro_batches_differ_by_rounding, 0, 2);
    tcase_add_loop_test(t, slices_are_pulled_from_owners, 0, 2);
#ifdef __x86_64__
    tcase_add_loop_test(t, parameters_in_slices_change_no_bit, 0, 5);
#endif
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("sliced", t);
}
