/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where values lie changes no bit: three processors train with homes that they share (16-bit weights once per host), and with their own,
 * as ranks that exchange messages have. By PowerSGD, through skipped steps, and from a checkpoint that is loaded in mid-run.
 *
 * Without a launcher this is the test; as a rank it trains: FORMAT-WAY FOLDER.
 */
#include <math.h>
#include <yoke/yoke.h>

#include "tests/support/ranks.h"

enum { ROWS = 24, IN = 16, MID = 32, OUT = 8, RANKS = 3, STEPS = 24, SAVED = 10, LOADED = 15, SAID = 4096 };

#define DEVICES "cpu:0! cpu:0! cpu:0!"
#define SKIPPING 0x1p26 /* a loss scale that is too large for the first steps in fp16 */

typedef struct numbers {
    double loss, scale;
    uint32_t skipped;
    uint64_t hash;
    uint64_t own; /* bytes of parameters in the rank's device */
} numbers;

typedef struct net {
    yk_t base, in, gamma, beta, out;
} net;

static void make_net(yk_job *job, net *m)
{
    const int64_t base[2] = {IN, IN}, in[2] = {MID, IN}, width = MID, out[2] = {OUT, MID};
    const yk_init normal = {YK_INIT_NORMAL, 0, 0.3f}, ones = {YK_INIT_ONES, 0, 0}, zeros = {0};
    m->base = yk_param(job, "base", 2, base, normal);
    m->in = yk_param(job, "in", 2, in, normal);
    m->gamma = yk_param(job, "gamma", 1, &width, ones);
    m->beta = yk_param(job, "beta", 1, &width, zeros);
    m->out = yk_param(job, "out", 2, out, normal);
    yk_freeze(m->base, true);
}

/* This rank's rows of step s, as many for each. */
static yk_t step_loss(yk_job *job, const net *m, int s)
{
    enum { OWN = ROWS / RANKS };
    const int first = (int)yk_rank(job) * OWN;
    const int64_t shape[2] = {OWN, IN}, labels = OWN;
    float x[OWN * IN];
    int32_t y[OWN];
    for (int i = 0; i < OWN; i++) {
        y[i] = (first + i) % OUT;
        for (int k = 0; k < IN; k++)
            x[i * IN + k] = (float)sin((s * ROWS + first + i) * 1.3 + k * 2.1) + (k == y[i] ? 2 : 0);
    }
    const yk_t h = yk_linear(yk_linear(yk_input(job, YK_F32, 2, shape, x), m->base, YK_NO), m->in, YK_NO);
    return yk_cross_entropy(yk_linear(yk_gelu(yk_layer_norm(h, m->gamma, m->beta, 1e-5f)), m->out, YK_NO),
                            yk_input(job, YK_I32, 1, &labels, y));
}

/* Steps from..to-1. */
static void train_steps(yk_job *job, yk_opt *opt, const net *m, int from, int to, numbers *done)
{
    for (int s = from; s < to && yk_ok(job); s++) {
        yk_backward(step_loss(job, m, s));
        yk_step(opt);
        done->skipped += !yk_stepped(opt);
        done->loss = yk_step_loss(opt);
    }
}

/* One that resumes goes back to what it saved; to save leaves rounding errors behind, which are in no checkpoint. */
static void train_all(yk_job *job, yk_opt *opt, const net *m, bool resumes, const char *folder, numbers *done)
{
    char path[128];
    snprintf(path, sizeof path, "%s/saved", folder);
    train_steps(job, opt, m, 0, SAVED, done);
    yk_save(job, path);
    if (resumes) {
        numbers lost = {.skipped = 0};
        train_steps(job, opt, m, SAVED, LOADED, &lost);
        yk_load(job, path);
    }
    train_steps(job, opt, m, SAVED, STEPS, done);
}

static int rank_main(const char *mode, const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true,
                                       .seed = 3,
                                       .hash_every = 1,
                                       .shares = "equal",
                                       .precision = strstr(mode, "fp16") ? YK_F16 : strstr(mode, "bf16") ? YK_BF16 : YK_F32,
                                       .power_sgd_rank = strstr(mode, "power") ? 1 : 0,
                                       .local_sgd_steps = strstr(mode, "local") ? 3 : 0,
                                       .scale = {.init = SKIPPING, .interval = 8}});
    net m;
    make_net(job, &m);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    yk_clip_norm(job, 0.5f);
    numbers done = {.skipped = 0};
    yk_memory memory;
    train_all(job, opt, &m, strstr(mode, "resumed") != NULL, folder, &done);
    yk_average_params(job);
    done.scale = yk_loss_scale(opt);
    done.hash = yk_param_hash(job);
    yk_memory_get(job, &memory);
    done.own = memory.params;
    if (yk_ok(job))
        ranks_write(folder, mode, yk_rank(job), &done, sizeof done);
    return yk_close(job);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

/* The same on all ranks. */
static numbers train_ranks(const char *format, const char *way, const char *end)
{
    char said[SAID], mode[64];
    numbers first, other;
    snprintf(mode, sizeof mode, "%s-%s-%s", format, way, end);
    ck_assert_msg(ranks_run(DEVICES, mode, said, sizeof said) == 0, "%s: %s", mode, said);
    ranks_read(mode, 0, &first, sizeof first);
    for (uint32_t r = 1; r < RANKS; r++) {
        ranks_read(mode, r, &other, sizeof other);
        ck_assert_msg(!memcmp(&first, &other, sizeof first), "%s: rank %u has other numbers", mode, r);
    }
    return first;
}

static numbers train_by_messages(const char *format, const char *way, const char *end)
{
    setenv("YOKE_TRANSPORT", "local", 1);
    const numbers done = train_ranks(format, way, end);
    unsetenv("YOKE_TRANSPORT");
    return done;
}

static void expect_same(const numbers *a, const numbers *b, const char *what)
{
    ck_assert_msg(a->hash == b->hash && !memcmp(&a->loss, &b->loss, sizeof a->loss) && !memcmp(&a->scale, &b->scale, sizeof a->scale) &&
                      a->skipped == b->skipped,
                  "%s: losses %.17g and %.17g, scales %g and %g, %u and %u steps skipped", what, a->loss, b->loss, a->scale, b->scale,
                  a->skipped, b->skipped);
}

static const char *const formats[] = {"fp32", "bf16", "fp16"}, *const ways[] = {"plain", "power", "local"};

START_TEST(homes_change_no_bit)
{
    const char *format = formats[_i / 3], *way = ways[_i % 3];
    ranks_folder_make();
    const numbers once = train_ranks(format, way, "saved"), own = train_by_messages(format, way, "saved"),
                  resumed = train_ranks(format, way, "resumed");
    expect_same(&once, &own, "memory and messages");
    expect_same(&once, &resumed, "whole and resumed");
    ck_assert_double_lt(once.loss, 1.8);
    ck_assert_int_eq(once.skipped > 1 && once.skipped < STEPS / 2, !strcmp(format, "fp16"));
    ck_assert_int_eq(once.own < own.own, strcmp(format, "fp32") != 0 && strcmp(way, "local") != 0);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("homes");
    tcase_add_loop_test(t, homes_change_no_bit, 0, 9);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("homes", t);
}
