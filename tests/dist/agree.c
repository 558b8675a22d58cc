/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one job that are about to act differently end within a step, with an error that names the rank and the difference. Permitted
 * differences (rows, operations outside the loss) do not end them. Without a launcher this is the test; as a rank it runs the mode of
 * its arguments: MODE FOLDER. Rank 2 differs.
 */
#include <sys/stat.h>

#include "tests/support/ranks.h"

#define DEVICES "cpu:0! cpu:0! cpu:0!"
#define OTHER_UPDATE "another update (learning rate, clipping, states assigned after yk_backward) than rank 0 (cpu:0!): "
#define OTHER_PARAMETERS "other parameters (name, shape, init or values given, group, frozen or not) than rank 0 (cpu:0!): "

static bool rank_differs(yk_job *job, const char *mode, const char *what)
{
    return yk_rank(job) == 2 && !strcmp(mode, what);
}

/* The ranks differ in one step, the last. */
static bool is_single(const char *mode)
{
    static const char *const single[] = {"clip at once", "clip", "clip value", "late rate", "late"};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (!strcmp(mode, single[i]))
            return true;
    return false;
}

static yk_opt *make_opt(yk_job *job, const char *mode)
{
    yk_opt *opt = rank_differs(job, mode, "kind")
                      ? yk_sgd(job, &(yk_sgd_config){.lr = 0.01})
                      : yk_adamw(job, &(yk_adam_config){.lr = rank_differs(job, mode, "rate") ? 0.02 : 0.01,
                                                        .beta1 = rank_differs(job, mode, "beta") ? 0.8 : 0.9,
                                                        .weight_decay = rank_differs(job, mode, "decay") ? 0.1 : 0});
    if (!strncmp(mode, "group", 5))
        yk_opt_group(opt, rank_differs(job, mode, "group rate") ? 2 : 1, rank_differs(job, mode, "group decay") ? 0.5 : 0);
    if (!strcmp(mode, "schedule"))
        yk_schedule(opt, &(yk_sched_config){.name = yk_rank(job) == 2 ? "cosine" : "linear", .total_steps = 100});
    return opt;
}

/* Rank 0 has two rows, the others one; the third of them none. */
static void ranks_step(yk_job *job, const char *mode, yk_opt *opt, const yk_t w[2])
{
    const float x[8] = {1, 2, 3, 4, 4, 3, 2, 1};
    const int32_t y[2] = {0, 1}, row[2] = {(int32_t)yk_rank(job), 3};
    const int64_t n = yk_rank(job) == 0 ? 2 : yk_rank(job) == 1 ? 0 : 1, xd[2] = {n, 4};
    if (!rank_differs(job, mode, "no rows set"))
        yk_set_rows(job, n, row, rank_differs(job, mode, "global rows") ? 4 : !strcmp(mode, "rows of one rank") ? 2 : 3);
    if (rank_differs(job, mode, "evaluates"))
        yk_train(job, false);
    yk_t h = yk_linear(yk_input(job, YK_F32, 2, xd, x), w[0], YK_NO);
    if (rank_differs(job, mode, "graph"))
        h = yk_tanh(h);
    else
        h = yk_relu(h);
    if (!strcmp(mode, "beside") && yk_rank(job) == 2)
        yk_keep(yk_neg(yk_sum(h, 3, false))); /* the loss does not depend on it */
    if (!strcmp(mode, "scale"))
        h = yk_scale(h, yk_rank(job) == 2 ? 3 : 2);
    if (!strcmp(mode, "swapped")) {
        const yk_t a = yk_relu(h), b = yk_tanh(h);
        h = yk_rank(job) == 2 ? yk_sub(a, b) : yk_sub(b, a);
    }
    const yk_t state = yk_param_find(job, "state");
    if (!strcmp(mode, "assigned"))
        yk_assign(state, yk_scale(state, yk_rank(job) == 2 ? 3 : 2));
    yk_t loss = yk_cross_entropy(yk_linear(h, w[1], YK_NO), yk_input(job, YK_I32, 1, &n, y));
    if (!strcmp(mode, "clip at once"))
        yk_clip_norm(job, yk_rank(job) == 2 ? 2 : 1);
    yk_backward(loss);
    if (!strcmp(mode, "late"))
        yk_assign(state, yk_scale(state, yk_rank(job) == 2 ? 3 : 2));
    if (!strcmp(mode, "clip"))
        yk_clip_norm(job, yk_rank(job) == 2 ? 2 : 1);
    if (rank_differs(job, mode, "clip value"))
        yk_clip_value(job, 0.5f);
    if (rank_differs(job, mode, "late rate"))
        yk_set_lr(opt, 0.5);
    yk_step(opt);
    if (!is_single(mode))
        return;
    float v[12]; /* after an update of unlike settings the ranks' slices would be of both */
    yk_param_read(w[0], v, 12);
    if (yk_ok(job))
        fprintf(stderr, "%s: the parameters were updated\n", mode);
}

static int rank_train(const char *mode)
{
    yk_config c = {.quiet = true, .seed = 7};
    const char *rank = getenv("YOKE_RANK");
    const bool odd = rank && !strcmp(rank, "2");
    c.seed = odd && !strcmp(mode, "seed") ? 8 : 7;
    if (!strcmp(mode, "long seed"))
        c.seed = (1ull << 53) + odd;
    c.hash_every = odd && !strcmp(mode, "hash") ? 7 : 0;
    c.accumulate = odd && !strcmp(mode, "accumulate") ? 2 : 1;
    if (!strcmp(mode, "within")) {
        c.shard = "params";
        c.shard_within = odd ? "host" : NULL;
    }
    if (!strcmp(mode, "precision"))
        c.precision = odd ? YK_BF16 : YK_F8E4M3;
    yk_job *job = yk_open(&c);
    const int64_t a[2] = {3, 4}, b[2] = {2, 3};
    const yk_init ones = {YK_INIT_ONES, 0, 0}, zeros = {YK_INIT_ZEROS, 0, 0};
    const yk_t w[2] = {yk_param(job, "w1", 2, a, ones),
                       yk_param(job, rank_differs(job, mode, "name") ? "w3" : "w2", 2, b, rank_differs(job, mode, "init") ? zeros : ones)};
    yk_state(job, "state", YK_F32, 0, NULL, 1);
    if (!strcmp(mode, "written"))
        yk_param_write(w[0], (const float[12]){yk_rank(job) == 2 ? 2.0f : 1.0f}, 12);
    if (rank_differs(job, mode, "frozen"))
        yk_freeze(w[0], true);
    if (rank_differs(job, mode, "more"))
        yk_param(job, "unused", 1, b, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = make_opt(job, mode);
    for (int i = 0; i < (is_single(mode) ? 1 : 3) && yk_ok(job); i++)
        ranks_step(job, mode, opt, w);
    return yk_close(job);
}

/* A file of its own for rank 2, or one that nobody can read twice. */
static int read_data(const char *mode, const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    char spec[256];
    snprintf(spec, sizeof spec, "text:%s/%s", folder, !strcmp(mode, "pipe") ? "pipe" : rank_differs(job, mode, "data") ? "b.txt" : "a.txt");
    yk_data_open(job, spec, &(yk_data_config){.tokenizer = "bytes",
                                              .seq_len = 8,
                                              .global_batch = 3,
                                              .seed = (1ull << 53) + rank_differs(job, mode, "long order"),
                                              .in_order = rank_differs(job, mode, "order")});
    return yk_close(job);
}

static int rank_main(const char *mode, const char *folder)
{
    const bool reads = !strcmp(mode, "data") || strstr(mode, "order") || !strcmp(mode, "same data") || !strcmp(mode, "pipe");
    return reads ? read_data(mode, folder) : rank_train(mode);
}

static void write_text(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", ranks_folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 40; i++)
        fprintf(f, "%s %d\n", text, i);
    fclose(f);
}

static void set_up(void)
{
    char path[160];
    ranks_folder_make();
    write_text("a.txt", "the same");
    write_text("b.txt", "the sama"); /* as many rows, one letter */
    snprintf(path, sizeof path, "%s/pipe", ranks_folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static const struct {
    const char *mode, *words;
} odd_ranks[] = {
    {"graph", "another graph"},
    {"name", "another graph"},
    {"more", "other settings of the optimizer than rank 0 (cpu:0!): number of parameters 4, not 3"},
    {"kind", "other settings of the optimizer"},
    {"beta", "other settings of the optimizer than rank 0 (cpu:0!): beta1 0.8, not 0.9"},
    {"decay", "other settings of the optimizer than rank 0 (cpu:0!): weight decay 0.1, not 0"},
    {"hash", "other settings of the optimizer than rank 0 (cpu:0!): steps between hashes 7, not 100"},
    {"rate", "another learning rate or schedule than rank 0 (cpu:0!): rate 0.02, not 0.01"},
    {"schedule", "another learning rate or schedule"},
    {"clip", OTHER_UPDATE "largest norm 2, not 1"},
    {"clip value", OTHER_UPDATE "largest value 0.5, not 0"},
    {"late rate", OTHER_UPDATE "rate 0.5, not 0.01"},
    {"group rate", "other settings of the optimizer than rank 0 (cpu:0!): a group's factor on the rate 2, not 1"},
    {"group decay", "other settings of the optimizer than rank 0 (cpu:0!): a group's weight decay 0.5, not 0"},
    {"no rows set", "another place in the data than rank 0 (cpu:0!): calls of yk_set_rows 0, not 1"},
    {"precision", "another clipping, loss scale or precision than rank 0 (cpu:0!): precision 2, not 9"},
    {"clip at once", "another clipping, loss scale or precision than rank 0 (cpu:0!): largest norm 2, not 1"},
    {"accumulate", "micro batches in an accumulation window 2, not 1"},
    {"seed", "another seed than rank 0 (cpu:0!): seed 8, not 7"},
    {"long seed", "another seed than rank 0 (cpu:0!): seed 9007199254740993, not 9007199254740992"},
    {"data", "read other data from text:"},
    {"long order", ": seed of the order 9007199254740993, not 9007199254740992"},
    {"order", "read other data from text:"},
    {"init", OTHER_PARAMETERS "w2"},
    {"written", OTHER_PARAMETERS "w1"},
    {"frozen", OTHER_PARAMETERS "w1"},
    {"global rows", "another place in the data than rank 0 (cpu:0!): rows of the global micro batch 4, not 3"},
    {"late", "another update (learning rate, clipping, states assigned after yk_backward) than rank 0 (cpu:0!): every"},
    {"assigned", ": yk_scale with factor 3 at"},
    {"scale", ": yk_scale with factor 3 at"},
    {"evaluates", ": yk_linear with yk_train off 1 at"},
    {"swapped", ": yk_sub of yk_relu at"},
};

START_TEST(a_rank_that_does_other_things_is_named)
{
    char said[4096];
    const int code = ranks_run(DEVICES, odd_ranks[_i].mode, said, sizeof said);
    ck_assert_msg(code == 2, "%s: exit code %d: %s", odd_ranks[_i].mode, code, said);
    ck_assert_msg(strstr(said, "rank 2 (cpu:0!) has ") && strstr(said, odd_ranks[_i].words), "%s: %s", odd_ranks[_i].mode, said);
    ck_assert_msg(strstr(said, "every rank must run the same program"), "%s", said);
    ck_assert_msg(!strstr(said, "the parameters were updated"), "%s: %s", odd_ranks[_i].mode, said);
}
END_TEST

/* Both lines of ranks_step(), two apart. */
START_TEST(graphs_that_part_name_the_lines_of_both_ranks)
{
    char said[4096];
    int odd = 0, like = 0;
    ck_assert_int_eq(ranks_run(DEVICES, "graph", said, sizeof said), 2);
    const char *a = strstr(said, ": yk_tanh at "), *b = strstr(said, ", where that has yk_relu at ");
    ck_assert_msg(a && b && strstr(a, "agree.c:") && strstr(b, "agree.c:"), "%s", said);
    sscanf(strstr(a, "agree.c:"), "agree.c:%d", &odd);
    sscanf(strstr(b, "agree.c:"), "agree.c:%d", &like);
    ck_assert_msg(odd > 0 && like == odd + 2, "%s", said);
    ck_assert_int_eq(ranks_run(DEVICES, "name", said, sizeof said), 2); /* the second product, of another parameter */
    ck_assert_msg(strstr(said, ": yk_linear of w3 [2, 3] at ") && strstr(said, ", where that has it of w2 [2, 3] at "), "%s", said);
}
END_TEST

START_TEST(what_may_differ_does)
{
    static const char *const mode[] = {"plain", "beside", "same data"};
    char said[4096];
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++)
        ck_assert_msg(ranks_run(DEVICES, mode[i], said, sizeof said) == 0, "%s: %s", mode[i], said);
}
END_TEST

/* The global batch of a program that gives the rows of its own rank. */
START_TEST(rows_beyond_the_global_batch_are_refused)
{
    char said[4096];
    ck_assert_int_eq(ranks_run(DEVICES, "rows of one rank", said, sizeof said), 2);
    ck_assert_msg(strstr(said, "yk_set_rows: the ranks hold 3 rows of a global micro batch of 2: expected each row on one rank"), "%s",
                  said);
}
END_TEST

START_TEST(slices_within_hosts_are_for_every_rank)
{
    char said[4096];
    setenv("YOKE_TRANSPORT", "sock", 1); /* where such ranks would wait for each other */
    const int code = ranks_run(DEVICES, "within", said, sizeof said);
    unsetenv("YOKE_TRANSPORT");
    ck_assert_msg(code == 2 && strstr(said, "yk_config.shard_within (--shard-within) is world on rank 0 (cpu:0!) and host on rank 2 "
                                            "(cpu:0!): expected the same on all ranks"), "%d: %s", code, said);
}
END_TEST

START_TEST(a_pipe_is_for_one_rank)
{
    char said[4096];
    ck_assert_int_eq(ranks_run(DEVICES, "pipe", said, sizeof said), 2);
    ck_assert_msg(strstr(said, "/pipe is a pipe: each of the 3 ranks would read another part of it"), "%s", said);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("ranks");
    tcase_add_checked_fixture(t, set_up, ranks_folder_remove);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    tcase_add_loop_test(t, a_rank_that_does_other_things_is_named, 0, sizeof odd_ranks / sizeof *odd_ranks);
    tcase_add_test(t, graphs_that_part_name_the_lines_of_both_ranks);
    tcase_add_test(t, what_may_differ_does);
    tcase_add_test(t, rows_beyond_the_global_batch_are_refused);
    tcase_add_test(t, slices_within_hosts_are_for_every_rank);
    tcase_add_test(t, a_pipe_is_for_one_rank);
    return suite_run("agree", t);
}
