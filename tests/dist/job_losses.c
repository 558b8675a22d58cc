/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same six rows on one, two and three ranks, shared out unevenly: every loss has the value and the gradients that it has
 * in one process, whatever it is made of. For some the gradients are those of finite differences in double as well.
 *
 * Without a launcher this is the test; as a rank it runs the mode that its arguments name: MODE FOLDER.
 */
#include <math.h>

#include "losses.h"
#include "tests/support/ranks.h"

#define CASES 64              /* at most */
#define NUMBERS (WEIGHTS + 1) /* the gradients, the loss */

#define SPLITS 4

static const int splits[4][SPLITS][3] = {
    [1] = {{6}, {6}, {6}, {6}},
    [2] = {{4, 2}, {1, 5}, {6, 0}, {0, 6}},
    [3] = {{3, 2, 1}, {2, 0, 4}, {1, 1, 4}, {0, 0, 6}},
};

/* ---- One rank ---- */

typedef struct net {
    yk_t w, b, q;
} net;

static net make_net(yk_job *job)
{
    float v[WEIGHTS];
    const int64_t w[2] = {MID, IN}, b = MID, q[2] = {MID, MID};
    net m = {yk_param(job, "w", 2, w, (yk_init){0}), yk_param(job, "b", 1, &b, (yk_init){0}), yk_param(job, "q", 2, q, (yk_init){0})};
    for (int i = 0; i < WEIGHTS; i++)
        v[i] = start_of(i);
    yk_param_write(m.w, v, MID * IN);
    yk_param_write(m.b, v + MID * IN, MID);
    yk_param_write(m.q, v + MID * IN + MID, MID * MID);
    return m;
}

static step step_begin(yk_job *job, const net *m, const int *split, bool tell_rows)
{
    float x[ROWS * IN] = {0}, weight[ROWS] = {0};
    int32_t y[ROWS] = {0}, row[ROWS] = {0};
    int first = 0, n = split[yk_rank(job)];
    for (uint32_t r = 0; r < yk_rank(job); r++)
        first += split[r];
    for (int i = 0; i < n; i++) {
        row[i] = first + i;
        y[i] = label_of(row[i]);
        weight[i] = weight_of(row[i]);
        for (int k = 0; k < IN; k++)
            x[i * IN + k] = x_of(row[i], k);
    }
    if (tell_rows)
        yk_set_rows(job, n, row, ROWS);
    step s = {.job = job, .n = n, .first = first, .w = m->w, .b = m->b, .q = m->q};
    s.x = yk_input(job, YK_F32, 2, (const int64_t[]){n, IN}, x);
    s.y = yk_input(job, YK_I32, 1, (const int64_t[]){n}, y);
    s.weight = yk_input(job, YK_F32, 1, (const int64_t[]){n}, weight);
    s.h = yk_tanh(yk_linear(s.x, s.w, s.b));
    return s;
}

/* How a mode trains: windows of two micro batches, whose rows are shared out differently, or a lower precision. */
typedef struct mode {
    const char *name;
    yk_config config;
    bool counted; /* only losses with one term that counts items */
    double near;
} mode;

static const mode modes[] = {
    {"plain", {.quiet = true, .seed = 9}, false, 3e-6},
    {"micro", {.quiet = true, .seed = 9, .accumulate = 2}, false, 3e-6},
    {"rows", {.quiet = true, .seed = 9, .accumulate = 2, .average = YK_AVERAGE_ROWS}, false, 3e-6},
    {"items", {.quiet = true, .seed = 9, .accumulate = 2, .average = YK_AVERAGE_ITEMS}, true, 3e-6},
    {"bf16", {.quiet = true, .seed = 9, .precision = YK_BF16}, false, 2e-2},
    {"f16", {.quiet = true, .seed = 9, .precision = YK_F16, .scale = {.fixed = 1024}}, false, 4e-3},
};

static bool is_run(const mode *how, size_t c)
{
    return !how->counted || cases[c].counted;
}

/* The loss and the gradients of every case with every split, in out[split][case]. */
static int run_all(yk_job *job, const mode *how, float (*out)[CASES][NUMBERS])
{
    const net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1e-30});
    for (int k = 0; k < SPLITS; k++)
        for (size_t c = 0; c < n_cases && yk_ok(job); c++) {
            float *v = out[k][c];
            memset(v, 0, NUMBERS * sizeof *v);
            for (uint32_t i = 0; is_run(how, c) && i < (how->config.accumulate ? how->config.accumulate : 1); i++) {
                const step s = step_begin(job, &m, splits[yk_world_size(job)][(k + i) % SPLITS], true);
                yk_t loss = cases[c].loss(&s);
                yk_backward(loss);
                yk_step(opt);
                v[WEIGHTS] += (float)yk_item(loss);
            }
            if (!is_run(how, c))
                continue;
            yk_grad_read(m.w, v, MID * IN);
            yk_grad_read(m.b, v + MID * IN, MID);
            yk_grad_read(m.q, v + MID * IN + MID, MID * MID);
            if (!yk_ok(job))
                fprintf(stderr, "%s, split %d: %s\n", cases[c].name, k, yk_error_text(job));
        }
    return yk_close(job);
}

static const mode *mode_of(const char *name)
{
    const mode *m = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(modes[i].name, name))
            m = &modes[i];
    return m;
}

static int refusal_run(const char *name)
{
    const refusal *refused = refusals;
    while (strcmp(refused->name, name))
        refused++;
    yk_job *job = yk_open(&(yk_config){.quiet = true, .devices = "cpu:0"});
    const net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1e-30});
    if (!yk_ok(job))
        return yk_close(job);
    const step s = step_begin(job, &m, splits[yk_world_size(job)][refused->split], true);
    yk_backward(refused->loss(&s));
    yk_step(opt);
    return yk_close(job);
}

/* ---- One rank's part of the test ---- */

/* ---- Values that are read ---- */

#define READ 4

/* A value read before yk_backward, one that rank 0 alone keeps, a rank's terms of a mean, and a loss where nobody says which
 * rows the ranks have; one has none. */
static int read_values(const char *devices, uint32_t *rank, double *v)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true, .devices = devices});
    *rank = yk_rank(job);
    const net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1e-30});
    memset(v, 0, READ * sizeof *v);
    step s = step_begin(job, &m, splits[yk_world_size(job)][1], true);
    v[0] = yk_item(yk_sqrt(yk_mean(yk_mul(s.h, s.h), 3, false)));
    yk_t loss = yk_cross_entropy(s.h, s.y), kept = yk_exp(loss), mean = yk_mean(s.h, 3, false);
    yk_backward(loss);
    if (yk_is_main(job))
        yk_keep(kept);
    yk_keep(mean);
    yk_step(opt);
    if (yk_is_main(job))
        v[1] = yk_item(kept);
    v[2] = yk_item(mean);
    yk_all_reduce_sum(job, v + 1, 2);
    s = step_begin(job, &m, splits[yk_world_size(job)][1], false);
    loss = yk_sqrt(yk_mean(yk_mul(s.h, s.h), 3, false));
    yk_backward(loss);
    yk_step(opt);
    v[3] = yk_item(loss);
    return yk_close(job);
}

static int read_mode(const char *folder)
{
    double v[READ];
    uint32_t rank;
    const int rc = read_values(NULL, &rank, v);
    ranks_write(folder, "read", rank, v, sizeof v);
    return rc;
}

static int rank_main(const char *name, const char *folder)
{
    static float out[SPLITS][CASES][NUMBERS];
    const mode *how = mode_of(name);
    if (!strcmp(name, "read"))
        return read_mode(folder);
    if (!how)
        return refusal_run(name);
    yk_job *job = yk_open(&how->config);
    const uint32_t rank = yk_rank(job);
    const int rc = run_all(job, how, out);
    ranks_write(folder, name, rank, out, sizeof out);
    return rc;
}

/* ---- The test ---- */

/* The largest difference over the largest number. */
static double relative_difference(const float *a, const float *b)
{
    double most = 0, size = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    const double loss = fabs((double)a[WEIGHTS] - (double)b[WEIGHTS]) / fmax(fabs((double)b[WEIGHTS]), 1e-3);
    return fmax(most / fmax(size, 1e-3), loss);
}

static void ranks_compare(uint32_t world, uint32_t rank, const mode *how, float (*one)[CASES][NUMBERS])
{
    static float got[SPLITS][CASES][NUMBERS];
    int wrong = 0;
    ranks_read(how->name, rank, got, sizeof got);
    for (int k = 0; k < SPLITS; k++)
        for (size_t c = 0; c < n_cases; c++) {
            const double d = relative_difference(got[k][c], one[k][c]);
            if (d < how->near)
                continue;
            wrong++;
            fprintf(stderr, "# %s, %s, rank %u of %u, split %d: %.2g apart; loss %.7g, in one process %.7g\n", how->name,
                    cases[c].name, rank, world, k, d, (double)got[k][c][WEIGHTS], (double)one[k][c][WEIGHTS]);
        }
    ck_assert_msg(wrong == 0, "%d losses differ from those of one process", wrong);
}

static void run_single(const mode *how, float (*one)[CASES][NUMBERS])
{
    yk_config config = how->config;
    config.devices = "cpu:0";
    ck_assert_int_eq(run_all(yk_open(&config), how, one), 0);
}

static void check_ranks(const char *devices, uint32_t world, const char *name)
{
    static float one[SPLITS][CASES][NUMBERS];
    const mode *how = mode_of(name);
    char said[4096];
    ranks_folder_make();
    const int rc = ranks_run(devices, name, said, sizeof said);
    ck_assert_msg(rc == 0, "%s", said);
    run_single(how, one);
    for (uint32_t r = 0; r < world; r++)
        ranks_compare(world, r, how, one);
    ranks_folder_remove();
}

START_TEST(two_ranks_have_the_losses_of_one)
{
    check_ranks("cpu:0 cpu:0", 2, "plain");
}
END_TEST

START_TEST(three_ranks_have_the_losses_of_one)
{
    check_ranks("cpu:0 cpu:0 cpu:0", 3, "plain");
}
END_TEST

START_TEST(windows_have_the_losses_of_one)
{
    check_ranks("cpu:0 cpu:0", 2, "micro");
    check_ranks("cpu:0 cpu:0 cpu:0", 3, "rows");
    check_ranks("cpu:0 cpu:0 cpu:0", 3, "items");
}
END_TEST

START_TEST(narrow_formats_have_the_losses_of_one)
{
    check_ranks("cpu:0 cpu:0", 2, "bf16");
    check_ranks("cpu:0 cpu:0", 2, "f16");
}
END_TEST

START_TEST(what_cannot_be_split_is_named)
{
    for (size_t i = 0; i < n_refusals; i++) {
        char said[4096];
        ranks_folder_make();
        const int two = ranks_run("cpu:0 cpu:0", refusals[i].name, said, sizeof said);
        ck_assert_msg(two == 2, "%s: %d: %s", refusals[i].name, two, said);
        for (int k = 0; k < 2; k++)
            ck_assert_msg(strstr(said, refusals[i].said[k]) != NULL, "%s: %s", refusals[i].name, said);
        const char *at = strstr(said, " at ");
        ck_assert_msg(!refusals[i].placed || (at && strstr(at, "losses.c:")), "%s: %s", refusals[i].name, said);
        const int one = ranks_run("cpu:0", refusals[i].name, said, sizeof said);
        ck_assert_msg(one == 0, "%s in one process: %d: %s", refusals[i].name, one, said);
        ranks_folder_remove();
    }
}
END_TEST

START_TEST(values_read_are_those_of_one)
{
    double one[READ], got[READ];
    char said[4096];
    uint32_t rank;
    ranks_folder_make();
    ck_assert_int_eq(read_values("cpu:0", &rank, one), 0);
    const int rc = ranks_run("cpu:0 cpu:0 cpu:0", "read", said, sizeof said);
    ck_assert_msg(rc == 0, "%s", said);
    for (rank = 0; rank < 3; rank++) {
        ranks_read("read", rank, got, sizeof got);
        for (int i = 0; i < READ; i++)
            ck_assert_msg(fabs(got[i] - one[i]) < 3e-6 * fabs(one[i]), "rank %u, value %d: %.8g, in one process %.8g", rank, i,
                          got[i], one[i]);
    }
    ranks_folder_remove();
}
END_TEST

START_TEST(gradients_are_those_of_finite_differences)
{
    static float one[SPLITS][CASES][NUMBERS];
    run_single(mode_of("plain"), one);
    for (size_t c = 0; c < n_cases; c++) {
        double v[WEIGHTS];
        for (int i = 0; i < WEIGHTS; i++)
            v[i] = (double)start_of(i);
        for (int i = 0; cases[c].exact && i < WEIGHTS; i++) {
            const double at = v[i], d = 1e-6, got = (double)one[0][c][i];
            v[i] = at + d;
            const double up = cases[c].exact(v);
            v[i] = at - d;
            const double slope = (up - cases[c].exact(v)) / (2 * d);
            v[i] = at;
            ck_assert_msg(fabs(got - slope) < 2e-6 + 2e-5 * fabs(slope), "%s, weight %d: %.8g, by differences %.8g", cases[c].name,
                          i, got, slope);
        }
        if (cases[c].exact)
            ck_assert_double_eq_tol((double)one[0][c][WEIGHTS], cases[c].exact(v), 1e-5);
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("losses");
    tcase_set_timeout(t, RANKS_TIMEOUT);
    tcase_add_test(t, gradients_are_those_of_finite_differences);
    tcase_add_test(t, two_ranks_have_the_losses_of_one);
    tcase_add_test(t, three_ranks_have_the_losses_of_one);
    tcase_add_test(t, windows_have_the_losses_of_one);
    tcase_add_test(t, narrow_formats_have_the_losses_of_one);
    tcase_add_test(t, values_read_are_those_of_one);
    tcase_add_test(t, what_cannot_be_split_is_named);
    return suite_run("job_losses", t);
}
