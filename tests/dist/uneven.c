/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of N ranks equals the job of one: 50 steps of the same 28 rows, which 2, 3, 4 and 7 ranks share unevenly (one rank has none),
 * end in parameters within 1e-6 of one rank's; and the way of exchange changes no bit. (One rank adds its rows in another order than
 * several do, so no more can be required between them: decision 0006.) Without a launcher this is the test; as a rank it trains: NAME
 * FOLDER. NAME is the file that rank 0 leaves.
 */
#include <yoke/yoke.h>

#include <math.h>

#include "tests/support/ranks.h"

enum { STEPS = 50, ROWS = 28, IN = 6, HIDDEN = 16, OUT = 3, NUMBERS = HIDDEN * IN + HIDDEN + OUT * HIDDEN, RANKS_MOST = 7 };

/* Parts of the rows by rank; the first N of them count. */
static const int part[RANKS_MOST] = {3, 1, 0, 5, 2, 1, 4};

static int64_t first_row(uint32_t rank, uint32_t ranks)
{
    int before = 0, all = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        before += r < rank ? part[r] : 0;
        all += part[r];
    }
    return (int64_t)ROWS * before / all;
}

/* Rows first to end of a step's batch. */
static void batch_make(yk_job *job, int step, int64_t first, int64_t end, yk_t *x, yk_t *labels)
{
    const int64_t n = end - first;
    float point[ROWS * IN];
    int32_t label[ROWS], row[ROWS];
    for (int64_t i = 0; i < n; i++) {
        const uint64_t number = (uint64_t)(step * ROWS + first + i);
        row[i] = (int32_t)(first + i);
        label[i] = (int32_t)(number % OUT);
        for (uint64_t k = 0; k < IN; k++)
            point[i * IN + (int64_t)k] = (float)((number * 2654435761u + k * 40503u) % 1000) / 500 - 1;
    }
    yk_set_rows(job, n, row, ROWS);
    *x = yk_input(job, YK_F32, 2, (int64_t[]){n, IN}, point);
    *labels = yk_input(job, YK_I32, 1, &n, label);
}

static int rank_main(const char *name, const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.seed = 1, .quiet = true});
    const yk_init normal = {YK_INIT_NORMAL, 0, 0.3f};
    const yk_t in = yk_param(job, "in", 2, (int64_t[]){HIDDEN, IN}, normal), bias = yk_param(job, "bias", 1, (int64_t[]){HIDDEN}, normal),
               out = yk_param(job, "out", 2, (int64_t[]){OUT, HIDDEN}, normal);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.05, .momentum = 0.9});
    const uint32_t rank = yk_rank(job), ranks = yk_world_size(job);
    float numbers[NUMBERS];
    for (int s = 0; s < STEPS && yk_ok(job); s++) {
        yk_t x, labels;
        batch_make(job, s, first_row(rank, ranks), first_row(rank + 1, ranks), &x, &labels);
        yk_backward(yk_cross_entropy(yk_linear(yk_tanh(yk_linear(x, in, bias)), out, YK_NO), labels));
        yk_step(opt);
    }
    yk_read(in, numbers, HIDDEN * IN * sizeof *numbers);
    yk_read(bias, numbers + HIDDEN * IN, HIDDEN * sizeof *numbers);
    yk_read(out, numbers + HIDDEN * IN + HIDDEN, OUT * HIDDEN * sizeof *numbers);
    if (yk_ok(job) && !rank)
        ranks_write(folder, name, 0, numbers, sizeof numbers);
    return yk_close(job);
}

enum { CHANNELS = 6 };
static const double norm_mean[CHANNELS] = {0.5, -1e5, 1e6, 1e7, -3e8, 1e12}, norm_spread[CHANNELS] = {1, 1, 1, 1, 1e2, 1e5};

static float spread_point(int64_t row, int channel)
{
    return (float)(norm_mean[channel] + norm_spread[channel] * sin((double)(row * 7 + channel) * 1.3 + 0.2));
}

/* The variances of channels with a large mean, over all ranks' rows: rank 0 leaves the running ones, of which the batch is the whole. */
static int rank_spread(const char *name, const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.seed = 1, .quiet = true});
    const uint32_t rank = yk_rank(job), ranks = yk_world_size(job);
    const int64_t first = first_row(rank, ranks), n = first_row(rank + 1, ranks) - first, dim[] = {n, CHANNELS};
    const yk_batch_norm_state running = {yk_state(job, "mean", YK_F32, 1, dim + 1, 0), yk_state(job, "var", YK_F32, 1, dim + 1, 0), YK_NO};
    const yk_t gamma = yk_param(job, "gamma", 1, dim + 1, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    float point[ROWS * CHANNELS], var[CHANNELS] = {0};
    int32_t row[ROWS];
    for (int64_t i = 0; i < n; i++) {
        row[i] = (int32_t)(first + i);
        for (int k = 0; k < CHANNELS; k++)
            point[i * CHANNELS + k] = spread_point(first + i, k);
    }
    yk_set_rows(job, n, row, ROWS);
    const yk_t y = yk_batch_norm(yk_input(job, YK_F32, 2, dim, point), gamma, YK_NO, running, 1, 1e-5f);
    yk_backward(yk_mean(yk_mul(y, y), 3, false));
    yk_step(opt);
    yk_read(running.var, var, sizeof var);
    if (yk_ok(job) && !rank)
        ranks_write(folder, name, 0, var, sizeof var);
    return yk_close(job);
}

/* A batch norm of rank 0's one row, and of as many rows of rank 1 as the name ends in; "norma": of a row that is alike on both. Each rank
 * leaves its error's text. */
static int rank_norm(const char *name, const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.seed = 1, .quiet = true});
    const float point[2][3] = {{1, 2, 3}, {3, 5, 8}};
    const uint32_t rank = yk_rank(job);
    const bool is_alike = !strcmp(name, "norma");
    const int64_t dim[] = {is_alike || !rank ? 1 : name[strlen(name) - 1] - '0', 3};
    const yk_t mean = yk_state(job, "mean", YK_F32, 1, dim + 1, 0), var = yk_state(job, "var", YK_F32, 1, dim + 1, 1);
    const yk_t gamma = yk_param(job, "gamma", 1, dim + 1, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    char text[1024] = "";
    yk_set_rows(job, dim[0], (int32_t[]){(int32_t)rank}, 2);
    const yk_batch_norm_state running = {mean, var, YK_NO};
    yk_t x = yk_input(job, YK_F32, 2, dim, point[is_alike ? 0 : rank]);
    x = is_alike ? yk_replicated(x) : x;
    const yk_t y = yk_batch_norm(x, gamma, YK_NO, running, 0, 1e-5f);
    yk_backward(yk_mean(yk_mul(y, y), 3, false));
    yk_step(opt);
    yk_sync(job);
    snprintf(text, sizeof text, "%s", yk_error_text(job));
    ranks_write(folder, name, rank, text, sizeof text);
    return yk_close(job);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static void numbers_of(uint32_t ranks, const char *transport, float *numbers)
{
    static const char *const devices[RANKS_MOST + 1] = {
        "", "cpu:0!", "cpu:0! cpu:0!", "cpu:0! cpu:0! cpu:0!", "cpu:0! cpu:0! cpu:0! cpu:0!", "", "",
        "cpu:0! cpu:0! cpu:0! cpu:0! cpu:0! cpu:0! cpu:0!"};
    char said[4096];
    setenv("YOKE_TRANSPORT", transport, 1);
    ck_assert_msg(ranks_run(devices[ranks], transport, said, sizeof said) == 0, "%u ranks, %s: %s", ranks, transport, said);
    ranks_read(transport, 0, numbers, NUMBERS * sizeof *numbers);
}

/* The length of the difference of two vectors by that of the second. */
static double difference_measure(const float *a, const float *b)
{
    double between = 0, whole = 0;
    for (int i = 0; i < NUMBERS; i++) {
        between += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        whole += (double)b[i] * b[i];
    }
    return sqrt(between / whole);
}

static bool is_installed(const char *transport)
{
    char path[4096];
    const char *folder = getenv("YOKE_PLUGIN_DIR");
    snprintf(path, sizeof path, "%s/transport_%s.so", folder ? folder : ".", transport);
    return access(path, R_OK) == 0;
}

static const uint32_t counts[] = {2, 3, 4, 7};

START_TEST(uneven_ranks_end_where_one_does)
{
    /* libfabric takes a third of a second to be loaded, in each process */
    const char *const transports[] = {"local", "sock", counts[_i] < 4 || getenv("YOKE_TEST_ALL") ? "ofi" : NULL};
    float one[NUMBERS], all[NUMBERS], other[NUMBERS];
    ranks_folder_make();
    numbers_of(1, "auto", one);
    numbers_of(counts[_i], "shm", all);
    const double difference = difference_measure(all, one);
    ck_assert_msg(difference < 1e-6, "%u ranks: the parameters are %g from one rank's", counts[_i], difference);
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        if (!transports[i] || (strcmp(transports[i], "local") && !is_installed(transports[i])))
            continue;
        numbers_of(counts[_i], transports[i], other);
        ck_assert_msg(!memcmp(all, other, sizeof all), "%u ranks: over %s the parameters have other bits than over shm", counts[_i],
                      transports[i]);
    }
    ranks_folder_remove();
}
END_TEST

/* One value has no variance, whichever rank has it, or if all have the same; two values on two ranks have one. */
START_TEST(a_batch_norm_counts_the_values_of_all_ranks)
{
    static const char word[] = "expected more than one value for each channel in training, got one from all ranks together";
    static const char *const name[] = {"norm0", "norma", "norm1"};
    char said[4096], text[1024];
    ranks_folder_make();
    for (int i = 0; i < 3; i++) {
        const bool passes = i == 2;
        ck_assert_msg(ranks_run("cpu:0! cpu:0!", name[i], said, sizeof said) == (passes ? 0 : 2), "%s: %s", name[i], said);
        for (uint32_t rank = 0; rank < 2; rank++) {
            ranks_read(name[i], rank, text, sizeof text);
            ck_assert_msg(passes ? !*text : strstr(text, word) != NULL, "%s, rank %u: %s", name[i], rank, text);
        }
    }
    ranks_folder_remove();
}
END_TEST

static double spread_variance(int channel)
{
    double mean = 0, sum = 0;
    for (int64_t r = 0; r < ROWS; r++)
        mean += (double)spread_point(r, channel) / ROWS;
    for (int64_t r = 0; r < ROWS; r++)
        sum += ((double)spread_point(r, channel) - mean) * ((double)spread_point(r, channel) - mean);
    return sum / (ROWS - 1);
}

/* Several ranks exchange means in f32, each half a unit of its last place off at most. */
START_TEST(a_batch_norm_keeps_the_spread_about_a_large_mean)
{
    static const char *const devices[] = {"cpu:0!", "cpu:0! cpu:0! cpu:0!"};
    char said[4096];
    float var[CHANNELS];
    ranks_folder_make();
    for (int several = 0; several < 2; several++) {
        ck_assert_msg(ranks_run(devices[several], "spread", said, sizeof said) == 0, "%s", said);
        ranks_read("spread", 0, var, sizeof var);
        for (int k = 0; k < CHANNELS; k++) {
            const double exact = spread_variance(k), place = several ? fabs(norm_mean[k]) * 0x1p-23 : 0;
            ck_assert_msg(fabs((double)var[k] - exact) <= 1e-6 * exact + place * (place + sqrt(exact)),
                          "%d ranks, mean %g: a variance of %.9g, in double %.9g", several ? 3 : 1, norm_mean[k], (double)var[k], exact);
        }
    }
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "spread"))
        return rank_spread(argv[1], argv[2]);
    if (argc == 3)
        return strncmp(argv[1], "norm", 4) ? rank_main(argv[1], argv[2]) : rank_norm(argv[1], argv[2]);
    TCase *t = tcase_create("uneven");
    tcase_add_loop_test(t, uneven_ranks_end_where_one_does, 0, sizeof counts / sizeof *counts);
    tcase_add_test(t, a_batch_norm_counts_the_values_of_all_ranks);
    tcase_add_test(t, a_batch_norm_keeps_the_spread_about_a_large_mean);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("uneven", t);
}
