/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job over three ranks: rows shared out unevenly, ranks without rows, batch norm over all ranks, dropout by global
 * row. The numbers must be those of one process; a checkpoint resumes bit for bit; a rank whose parameters differ is named.
 *
 * Without a launcher this is the test; as a rank it runs the mode that its arguments name: MODE FOLDER.
 */
#include "config.h"

#include <math.h>
#include <sys/resource.h>
#include <yoke/yoke.h> /* before core/job/job.h: calls record their line here */

#include "core/job/job.h"
#include "tests/support/own_roles.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

#define ROWS 12
#define IN 8
#define MID 6
#define OUT 4
#define NUMBERS (MID * IN + 4 * MID + OUT * MID + 24) /* w1 mean var gamma beta w2, norms and losses of windows, losses */

#define JOBS 60
#define RESTED 500 /* steps; over messages the excluded rank gets them together: */
#define RESTED_APART 200
#define SLOWER (TEST_UNDER_ASAN || TEST_UNDER_TSAN ? 10 : 1) /* than without checks */

#define DEVICES "cpu:0! cpu:0! cpu:0!"

typedef struct net {
    yk_t w1, gamma, beta, mean, var, count, w2;
} net;

static net make_net(yk_job *job)
{
    const int64_t a[2] = {MID, IN}, m = MID, b[2] = {OUT, MID};
    return (net){yk_param(job, "w1", 2, a, (yk_init){YK_INIT_NORMAL, 0, 0.4f}),
                 yk_param(job, "gamma", 1, &m, (yk_init){YK_INIT_ONES, 0, 0}),
                 yk_param(job, "beta", 1, &m, (yk_init){0}),
                 yk_state(job, "mean", YK_F32, 1, &m, 0),
                 yk_state(job, "var", YK_F32, 1, &m, 1),
                 yk_state(job, "count", YK_I32, 0, NULL, 0),
                 yk_param(job, "w2", 2, b, (yk_init){YK_INIT_NORMAL, 0, 0.4f})};
}

/* A rank without rows in windows 1 and 4; -1 for none. If it is then excluded, nothing else may change. */
static int resting = -1;
static bool excludes;

static bool micro_rests(int s)
{
    return resting >= 0 && s / 2 % 3 == 1;
}

static void share_among_others(yk_job *job, int *first, int *n)
{
    const int others = (int)yk_world_size(job) - 1, me = (int)yk_rank(job), at = me - (me > resting);
    *first = me == resting ? 0 : ROWS * at / others;
    *n = me == resting ? 0 : ROWS * (at + 1) / others - *first;
}

static void set_roles(yk_job *job, int s)
{
    yk_error err = YK_ERROR_INIT;
    own_roles roles = own_roles_of(job->engine, yk_world_size(job));
    if (resting < 0)
        return;
    roles.member[resting] = !micro_rests(s);
    roles.owns[resting] = micro_rests(s) ? 0.0 : 2.0;
    if (own_roles_set(job->engine, &roles, &err))
        yk_fail(job, err.status, err.text);
}

/* This rank's rows of micro batch s. */
static void rank_rows(yk_job *job, int s, int *first, int *n)
{
    static const int split[4][3] = {{5, 4, 3}, {12, 0, 0}, {0, 7, 5}, {1, 1, 10}};
    *first = 0;
    *n = ROWS;
    if (yk_world_size(job) == 1)
        return;
    if (micro_rests(s)) {
        share_among_others(job, first, n);
        return;
    }
    for (uint32_t r = 0; r < yk_rank(job); r++)
        *first += split[s % 4][r];
    *n = split[s % 4][yk_rank(job)];
}

static yk_t micro_loss(yk_job *job, net m, int s)
{
    float x[ROWS * IN] = {0};
    int32_t y[ROWS] = {0}, row[ROWS] = {0};
    int first, n;
    rank_rows(job, s, &first, &n);
    for (int i = 0; i < n; i++) {
        row[i] = first + i;
        y[i] = (first + i + s) % 5 == 0 ? -100 : (first + i) % OUT;
        for (int k = 0; k < IN; k++)
            x[i * IN + k] = (float)sin((s * ROWS + first + i) * 1.3 + k * 2.1) + (k == y[i] ? 2 : 0);
    }
    const int64_t xd[2] = {n, IN}, yd = n;
    yk_set_rows(job, n, row, ROWS);
    yk_t h = yk_linear(yk_input(job, YK_F32, 2, xd, x), m.w1, YK_NO);
    h = yk_batch_norm(h, m.gamma, m.beta, (yk_batch_norm_state){m.mean, m.var, m.count}, 0, 1e-5f);
    h = yk_dropout(yk_relu(h), 0.2f);
    return yk_cross_entropy(yk_linear(h, m.w2, YK_NO), yk_input(job, YK_I32, 1, &yd, y));
}

static void read_all(net m, float *v)
{
    yk_param_read(m.w1, v, MID * IN);
    yk_param_read(m.mean, v += MID * IN, MID);
    yk_param_read(m.var, v += MID, MID);
    yk_param_read(m.gamma, v += MID, MID);
    yk_param_read(m.beta, v += MID, MID);
    yk_param_read(m.w2, v += MID, OUT * MID);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Rank 1 is excluded while the others train; on it the same program runs. Says what part of a core that took. */
static yk_job *train_excluded(void)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9});
    net m = make_net(job);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.02});
    const char *transport = getenv("YOKE_TRANSPORT");
    const int rested = transport ? RESTED_APART : RESTED;
    const double most = transport && !strcmp(transport, "ofi") ? 0.02 : 0.01; /* ofi has to look for messages */
    double cpu = 0, wall = 0;
    resting = 1;
    for (int s = 0; s < 2 + rested && yk_ok(job); s++) {
        if (s == 2) { /* a step of rest: its programs are made, its shares are known */
            set_roles(job, s);
            cpu = cpu_seconds();
            wall = ranks_now();
        }
        yk_t loss = micro_loss(job, m, s < 2 ? 0 : 2);
        yk_backward(loss);
        yk_step(opt);
        if (s % 10 == 0)
            yk_item(loss);
        if (yk_rank(job) != 1)
            usleep(6000);
    }
    cpu = cpu_seconds() - cpu;
    wall = ranks_now() - wall;
    if (yk_ok(job) && yk_rank(job) == 1) {
        char text[128];
        snprintf(text, sizeof text, "excluded for %.2f s it took %.4f s of a core", wall, cpu);
        fprintf(stderr, "%s\n", text);
        if (cpu > SLOWER * most * wall || wall < rested * 0.006)
            yk_fail(job, YK_E_INTERNAL, text);
    }
    return job;
}

/* A line of /proc/self/status in KiB; of /proc/self/maps how many. */
static long self_number(const char *file, const char *line)
{
    char text[512];
    long n = 0, value;
    FILE *f = fopen(file, "r");
    while (f && fgets(text, sizeof text, f)) {
        if (line && !strncmp(text, line, strlen(line)) && sscanf(text + strlen(line), " %ld", &value) == 1)
            n = value;
        n += !line;
    }
    if (f)
        fclose(f);
    return n;
}

/* Jobs of one process one after the other give back what they shared. Each in turn excludes a rank, and ends so. */
static int many_jobs(void)
{
    long maps = 0, shared = 0;
    int code = 0;
    resting = 1;
    for (int i = 0; i < JOBS && !code; i++) {
        yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9});
        net m = make_net(job);
        yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.02});
        for (int s = 0; s < 2 && yk_ok(job); s++) {
            if (s && i % 2)
                set_roles(job, 2);
            yk_backward(micro_loss(job, m, s && i % 2 ? 2 : 0));
            yk_step(opt);
        }
        if (i == 20) {
            maps = self_number("/proc/self/maps", NULL);
            shared = self_number("/proc/self/status", "RssShmem:");
        }
        if (i + 1 == JOBS && (self_number("/proc/self/maps", NULL) > maps + 20 ||
                              self_number("/proc/self/status", "RssShmem:") > shared + 512)) {
            char text[160];
            snprintf(text, sizeof text, "after %d jobs %ld mappings, %ld KiB shared; after 20 %ld and %ld", JOBS,
                     self_number("/proc/self/maps", NULL), self_number("/proc/self/status", "RssShmem:"), maps, shared);
            yk_fail(job, YK_E_INTERNAL, text);
        }
        code = yk_close(job);
    }
    return code;
}

/* A careless program: one rank makes a call that every rank must make. */
static yk_job *rank_diverge(bool item)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9});
    net m = make_net(job);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.02});
    double v = 0;
    for (int s = 0; s < 4 && yk_ok(job); s++) {
        yk_t loss = micro_loss(job, m, 0);
        yk_backward(loss);
        if (!item && s == 2 && !yk_is_main(job))
            yk_all_reduce_sum(job, &v, 1);
        yk_step(opt);
        if (item && yk_is_main(job))
            yk_item(loss);
    }
    return job;
}

/* Sizes that differ by whole messages of 64 KiB: the messages of the calls alone would fit each other. Rank 0 makes two calls of one
 * message each, or one less, where the other ranks make a call of several. */
static yk_job *rank_sizes(bool sum)
{
    enum { PART = 65536, MOST = 3 * PART };
    static double v[MOST / sizeof(double)];
    static unsigned char in[MOST], all[4 * MOST];
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9});
    const size_t parts = yk_is_main(job) ? 1 : 3;
    for (size_t i = 0; i < 3 / parts; i++)
        if (sum)
            yk_all_reduce_sum(job, v, (uint32_t)(parts * PART / sizeof *v));
        else
            yk_gather(job, in, parts * PART, all);
    return job;
}

/* A row for each rank; that of rank 1 has no logarithm, or is no number. */
static yk_job *rank_spoilt(bool input)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9});
    const int64_t wd[2] = {2, 2}, xd[2] = {1, 2}, yd = 1;
    const int32_t row = (int32_t)yk_rank(job), y = 0;
    const float x[2] = {1, row != 1 ? 1.0f : input ? NAN : -3.0f};
    const yk_t w = yk_param(job, "w", 2, wd, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_set_rows(job, 1, &row, 3);
    const yk_t h = yk_log(yk_linear(yk_input(job, YK_F32, 2, xd, x), w, YK_NO));
    yk_backward(yk_cross_entropy(h, yk_input(job, YK_I32, 1, &yd, &y)));
    yk_step(opt);
    yk_barrier(job);
    return job;
}

/* 6 windows of two micro batches; saves after `save`, or begins with what was saved. */
static yk_job *rank_train(const char *devices, const char *folder, int save, bool load, yk_dtype precision, float *out)
{
    char path[128];
    yk_job *job = yk_open(&(yk_config){
        .devices = devices, .quiet = true, .seed = 9, .accumulate = 2, .hash_every = 1, .precision = precision});
    net m = make_net(job);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.02, .weight_decay = 0.1});
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    if (load)
        yk_load(job, path);
    memset(out, 0, NUMBERS * sizeof *out);
    float *losses = out + NUMBERS - 12;
    for (int s = load ? 6 : 0; s < 12 && yk_ok(job); s++) {
        if (excludes && s % 2 == 0)
            set_roles(job, s);
        yk_t loss = micro_loss(job, m, s);
        yk_backward(loss);
        yk_clip_norm(job, 1);
        yk_step(opt);
        losses[s] = (float)yk_item(loss);
        if (s % 2 && resting >= 0) {
            losses[s / 2 - 12] = (float)yk_grad_norm(opt);
            losses[s / 2 - 6] = (float)yk_step_loss(opt);
        }
        if (s + 1 == save)
            yk_save(job, path);
    }
    read_all(m, out);
    return job;
}

static int rank_main(const char *mode, const char *folder)
{
    float v[NUMBERS];
    if (!strcmp(mode, "written") || !strcmp(mode, "held")) { /* found while they are written, or by the hash */
        const int64_t n = 3;
        yk_job *job = yk_open(&(yk_config){.quiet = true});
        const float w[3] = {1, 2, yk_rank(job) == 1 ? 3.5f : 3};
        const yk_t param = yk_param(job, "w", 1, &n, (yk_init){0});
        yk_freeze(param, !strcmp(mode, "held"));
        yk_param_write(param, w, 3);
        yk_param_hash(job);
        return yk_close(job);
    }
    if (!strcmp(mode, "forks")) { /* a child that ends as programs do */
        yk_job *job = yk_open(&(yk_config){.quiet = true});
        const pid_t child = yk_rank(job) == 1 ? fork() : -1;
        if (child == 0)
            exit(0);
        if (child > 0)
            waitpid(child, NULL, 0);
        for (int i = 0; i < 20; i++)
            yk_barrier(job);
        return yk_close(job);
    }
    if (!strcmp(mode, "beside"))
        return yk_close(train_excluded());
    if (!strcmp(mode, "jobs"))
        return many_jobs();
    if (!strncmp(mode, "spoilt", 6))
        return yk_close(rank_spoilt(strstr(mode, "input") != NULL));
    if (!strncmp(mode, "sizes", 5))
        return yk_close(rank_sizes(strstr(mode, "sum") != NULL));
    if (!strncmp(mode, "diverge", 7))
        return yk_close(rank_diverge(strstr(mode, "item") != NULL));
    const char *at = strpbrk(mode, "012");
    excludes = strstr(mode, "excluded") != NULL;
    resting = at ? *at - '0' : -1;
    const yk_dtype precision = strstr(mode, "-bf") ? YK_BF16 : strstr(mode, "-half") ? YK_F16 : YK_F32;
    yk_job *job = rank_train(NULL, folder, !strcmp(mode, "whole") ? 6 : excludes ? 4 : 0, !strcmp(mode, "resumed"), precision, v);
    ranks_write(folder, mode, yk_rank(job), v, sizeof v);
    return yk_close(job);
}

START_TEST(three_ranks_are_one_process)
{
    float whole[3][NUMBERS], part_of[NUMBERS], one[NUMBERS];
    char said[4096];
    ranks_folder_make();
    ck_assert_msg(ranks_run(DEVICES, "whole", said, sizeof said) == 0, "%s", said);
    ck_assert_msg(ranks_run(DEVICES, "resumed", said, sizeof said) == 0, "%s", said);
    for (int r = 0; r < 3; r++)
        ranks_read("whole", (uint32_t)r, whole[r], sizeof whole[r]);
    ck_assert_mem_eq(whole[0], whole[1], sizeof whole[0]); /* running statistics and losses too */
    ck_assert_mem_eq(whole[0], whole[2], sizeof whole[0]);
    for (int r = 0; r < 3; r++) {
        ranks_read("resumed", (uint32_t)r, part_of, sizeof part_of);
        ck_assert_mem_eq(part_of, whole[0], (NUMBERS - 12) * sizeof(float));
        ck_assert_mem_eq(part_of + NUMBERS - 6, whole[0] + NUMBERS - 6, 6 * sizeof(float));
    }
    yk_job *job = rank_train("cpu:0", ranks_folder, 0, false, YK_F32, one);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk_close(job);
    for (int i = 0; i < NUMBERS; i++)
        ck_assert_msg(fabsf(one[i] - whole[0][i]) < 2e-5f, "number %d: %g, in one process %g", i, (double)whole[0][i],
                      (double)one[i]);
    ck_assert(one[NUMBERS - 1] < 0.9f * one[NUMBERS - 12]);
    ranks_folder_remove();
}
END_TEST

/* A rank without rows is a member, or excluded: the same numbers, on itself too. */
START_TEST(an_excluded_rank_changes_nothing)
{
    static const char *const mode[3][2] = {{"rests-0", "excluded-0"}, {"rests-2-bf", "excluded-2-bf"}, {"rests-1-half", "excluded-1-half"}};
    float member[NUMBERS], excluded[NUMBERS];
    char said[4096];
    ranks_folder_make();
    for (int i = 0; i < 2; i++)
        ck_assert_msg(ranks_run(DEVICES, mode[_i][i], said, sizeof said) == 0, "%s: %s", mode[_i][i], said);
    for (int r = 0; r < 3; r++) {
        ranks_read(mode[_i][0], (uint32_t)r, member, sizeof member);
        ranks_read(mode[_i][1], (uint32_t)r, excluded, sizeof excluded);
        for (int k = 0; k < NUMBERS; k++)
            ck_assert_msg(member[k] == excluded[k], "%s, rank %d, number %d: %g as a member, %g excluded", mode[_i][1], r, k,
                          (double)member[k], (double)excluded[k]);
    }
    ck_assert(member[NUMBERS - 13] > 0.0f && member[NUMBERS - 19] > 0.0f);
    ranks_folder_remove();
}
END_TEST

START_TEST(jobs_give_back_what_they_share)
{
    char said[4096];
    ranks_folder_make();
    ck_assert_msg(ranks_run(DEVICES, "jobs", said, sizeof said) == 0, "%s", said);
    ranks_folder_remove();
}
END_TEST

START_TEST(programs_that_differ_end)
{
    static const char *const mode[2] = {"diverge-item", "diverge-sum"};
    char said[4096];
    const double begin = ranks_now();
    ranks_folder_make();
    ck_assert_int_eq(ranks_run(DEVICES, mode[_i], said, sizeof said), 1);
    ck_assert_msg(strstr(said, "diverged: rank ") && !strstr(said, "(rank"), "%s", said); /* a rank's name says its number */
    const char *here = strstr(said, "called at"), *there = here ? strstr(here + 1, "called at") : NULL;
    ck_assert_msg(there && strstr(here, "job_ranks.c:") && strstr(there, "job_ranks.c:"), "%s", said);
    ck_assert_msg(ranks_now() - begin < RANKS_SOON, "%.1f s", ranks_now() - begin);
    ranks_folder_remove();
}
END_TEST

START_TEST(calls_of_unlike_sizes_end)
{
    static const char *const mode[2] = {"sizes-gather", "sizes-sum"};
    char said[4096];
    ranks_folder_make();
    ck_assert_int_eq(ranks_run(DEVICES, mode[_i], said, sizeof said), 2);
    ck_assert_msg(strstr(said, "on each") && strstr(said, "job_ranks.c:"), "%s", said);
    ranks_folder_remove();
}
END_TEST

/* Whichever rank is the first to end the job. */
START_TEST(what_is_not_finite_on_one_rank_is_reported_by_all)
{
    static const char *const mode[2] = {"spoilt", "spoilt-input"};
    static const char *const words[2] = {"; on rank 1 (cpu:0!) the first value that is not finite is that of log, called at ",
                                         "; on rank 1 (cpu:0!) input 0 of the step holds nan in row 0"};
    char said[4096];
    ranks_folder_make();
    for (int turn = 0; turn < 3; turn++) {
        ck_assert_int_eq(ranks_run(DEVICES, mode[_i], said, sizeof said), 1);
        ck_assert_msg(strstr(said, "the gradient of \"w\" is not finite") && strstr(said, words[_i]), "%s", said);
        ck_assert_msg(_i || strstr(said, "(f32[1, 2] -> f32[1, 2]) on cpu:0 ("), "%s", said);
    }
    ranks_folder_remove();
}
END_TEST

static const char *const transports[] = {
    "sock",
#ifdef HAVE_OFI
    "ofi",
#endif
};

/* In common memory, and over each transport: there a message wakes who waits for it. */
START_TEST(an_excluded_rank_sleeps)
{
    char said[4096];
    if (_i >= 0)
        setenv("YOKE_TRANSPORT", transports[_i], 1);
    ranks_folder_make();
    ck_assert_msg(ranks_run(DEVICES, "beside", said, sizeof said) == 0, "%s", said);
    printf("# %s\n", said);
    ranks_folder_remove();
}
END_TEST

START_TEST(a_rank_that_differs_is_named)
{
    static const char *const mode[2] = {"written", "held"};
    char said[4096];
    ranks_folder_make();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ranks_run(DEVICES, mode[i], said, sizeof said), 1);
        ck_assert_msg(strstr(said, "the parameters of rank 1") != NULL, "%s", said);
        ck_assert_msg((strstr(said, "all ranks must write the same") != NULL) == (i == 0), "%s", said);
    }
    ranks_folder_remove();
}
END_TEST

START_TEST(a_rank_may_fork)
{
    char said[4096];
    ranks_folder_make();
    ck_assert_msg(ranks_run(DEVICES, "forks", said, sizeof said) == 0, "%s", said);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("ranks");
    tcase_add_test(t, three_ranks_are_one_process);
    tcase_add_loop_test(t, an_excluded_rank_changes_nothing, 0, 3);
    tcase_add_loop_test(t, programs_that_differ_end, 0, 2);
    tcase_add_loop_test(t, calls_of_unlike_sizes_end, 0, 2);
    tcase_add_loop_test(t, what_is_not_finite_on_one_rank_is_reported_by_all, 0, 2);
    tcase_add_loop_test(t, an_excluded_rank_sleeps, -1, (int)(sizeof transports / sizeof transports[0]));
    tcase_add_test(t, jobs_give_back_what_they_share);
    tcase_add_test(t, a_rank_that_differs_is_named);
    tcase_add_test(t, a_rank_may_fork);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("job_ranks", t);
}
