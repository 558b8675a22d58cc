/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training loop's parts over several ranks, besides the training: collectives on host memory, the first rank, triggers, a loader with
 * Accelerate's options, samplers whose place survives another number of ranks, registered state, the batch that fits. Without arguments
 * this is the test; as a rank, or as the one process, it runs the case of its arguments: CASE FOLDER.
 */
#include <math.h>
#include <yoke/yoke.h>

#include "tests/support/ranks.h"

#define ROWS 23       /* rows of the data */
#define LARGE 150000u /* bytes of a rank: more than two messages */

static const char *const devices_of[] = {"cpu:0!", "cpu:0! cpu:0!", "cpu:0! cpu:0! cpu:0!"};

static void check_that(yk_job *job, bool ok, const char *what)
{
    if (!ok)
        yk_fail(job, YK_E_INTERNAL, what);
}

#define CHECK(condition) check_that(job, condition, #condition)

/* ---- Collectives --------------------------------------------------------------------------------------------------- */

static unsigned char byte_of(uint32_t rank, size_t i)
{
    return (unsigned char)(rank * 31 + i * 7 + i / 251);
}

static bool bytes_are(const unsigned char *data, uint32_t rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] != byte_of(rank, i))
            return false;
    return true;
}

static void bytes_set(unsigned char *data, uint32_t rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        data[i] = byte_of(rank, i);
}

static void gathers_are_in_rank_order(yk_job *job)
{
    static unsigned char own[LARGE + 2], all[3 * LARGE];
    const uint32_t rank = yk_rank(job), world = yk_world_size(job);
    const size_t *size, bytes = rank == 1 ? 0 : LARGE - rank;
    bytes_set(own, rank, LARGE);
    yk_gather(job, own, LARGE, all);
    for (uint32_t r = 0; r < world; r++)
        CHECK(bytes_are(all + (size_t)r * LARGE, r, LARGE));
    const unsigned char *some = yk_gather_object(job, own, bytes, &size);
    for (uint32_t r = 0; some && r < world; some += size[r++]) {
        CHECK(size[r] == (r == 1 ? 0 : LARGE - r));
        CHECK(bytes_are(some, r, size[r]));
    }
}

static void broadcasts_come_from_the_root(yk_job *job)
{
    static unsigned char data[LARGE];
    const uint32_t root = yk_world_size(job) - 1;
    size_t bytes = yk_rank(job) == root ? LARGE : 3;
    bytes_set(data, yk_rank(job), LARGE);
    const unsigned char *object = yk_broadcast_object(job, data, &bytes, root);
    CHECK(object && bytes == LARGE && bytes_are(object, root, LARGE));
    yk_broadcast(job, data, LARGE, root);
    CHECK(bytes_are(data, root, LARGE));
}

static void reductions_are_over_ranks(yk_job *job)
{
    const double world = yk_world_size(job), rank = yk_rank(job);
    double sum[2] = {rank, 1}, mean[2] = {rank, -4}, most[3] = {rank, -rank, rank == 0.0 ? (double)NAN : 1};
    yk_all_reduce_sum(job, sum, 2);
    yk_all_reduce_mean(job, mean, 2);
    yk_all_reduce_max(job, most, 3);
    CHECK(sum[0] == world * (world - 1) / 2 && sum[1] == world);
    CHECK(mean[0] == (world - 1) / 2 && mean[1] == -4);
    CHECK(most[0] == world - 1 && most[1] == 0 && isnan(most[2]));
}

/* Rank r has r + 1 rows, then r + 1 columns. */
static void padding_reaches_the_longest(yk_job *job)
{
    const int64_t own = yk_rank(job) + 1, longest = yk_world_size(job);
    int64_t dim[2] = {own, 2}, column[2] = {2, own};
    float data[6] = {1, 2, 3, 4, 5, 6};
    const float *behind = yk_pad_across_ranks(job, YK_F32, 2, dim, data, NULL);
    CHECK(behind && dim[0] == longest && dim[1] == 2);
    for (int64_t i = 0; behind && i < 2 * longest; i++)
        CHECK(behind[i] == (i < 2 * own ? (float)(i + 1) : 0.0f));
    const float *first = yk_pad_across_ranks(job, YK_F32, 2, column, data, &(yk_pad_config){.axis = -1, .value = -1, .pad_first = true});
    CHECK(first && column[0] == 2 && column[1] == longest);
    for (int64_t i = 0; first && i < 2 * longest; i++) {
        const int64_t k = i % longest - (longest - own);
        CHECK(first[i] == (k < 0 ? -1.0f : data[i / longest * own + k]));
    }
}

/* ---- Control ------------------------------------------------------------------------------------------------------- */

static void a_trigger_is_seen_by_all_once(yk_job *job)
{
    CHECK(!yk_check_trigger(job));
    if (yk_is_last(job))
        yk_set_trigger(job);
    CHECK(yk_check_trigger(job));
    CHECK(!yk_check_trigger(job));
}

/* Rank 0's files exist when the other ranks come; their files do not exist yet when rank 0 looks. */
static void the_main_rank_comes_first(yk_job *job, const char *folder, bool local)
{
    char main_made[160], other_made[160];
    snprintf(main_made, sizeof main_made, "%s/main-%d-%u", folder, local, yk_world_size(job));
    snprintf(other_made, sizeof other_made, "%s/other-%d-%u", folder, local, yk_world_size(job));
    yk_main_first_begin(job, local);
    if (yk_is_main(job))
        CHECK(access(other_made, F_OK) != 0);
    else
        CHECK(access(main_made, F_OK) == 0);
    FILE *f = fopen(yk_is_main(job) ? main_made : other_made, "w");
    if (f)
        fclose(f);
    yk_main_first_end(job, local);
    CHECK(yk_local_rank(job) == yk_rank(job) && yk_local_world_size(job) == yk_world_size(job));
    CHECK(yk_is_local_main(job) == yk_is_main(job) && yk_is_last(job) == (yk_rank(job) + 1 == yk_world_size(job)));
}

static void lines_print(yk_job *job, const char *folder)
{
    char path[160];
    snprintf(path, sizeof path, "%s/printed.%u", folder, yk_rank(job));
    check_that(job, freopen(path, "w", stdout) != NULL, "a file for standard output");
    yk_print_in_order(job, "of %u%s", yk_world_size(job), yk_rank(job) == 1 ? "\n" : "");
}

static void lines_are_in_order(uint32_t world)
{
    char path[160], said[200] = "", want[200] = "";
    for (uint32_t r = 0; r < world; r++)
        snprintf(want + strlen(want), sizeof want - strlen(want), "[RANK %u] of %u\n", r, world);
    for (uint32_t r = 0; r < world; r++) {
        snprintf(path, sizeof path, "%s/printed.%u", ranks_folder, r);
        FILE *f = fopen(path, "r");
        ck_assert_ptr_nonnull(f);
        said[fread(said, 1, sizeof said - 1, f)] = 0;
        fclose(f);
        ck_assert_str_eq(said, r ? "" : want);
    }
}

/* ---- Loaders ------------------------------------------------------------------------------------------------------- */

/* An epoch of a file whose labels are its row numbers: a gather leaves every row once, in order. */
static void data_file_write(const char *path)
{
    FILE *f = fopen(path, "w");
    fprintf(f, "text,label\n");
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "row %.*s,%d\n", i % 5, "longer", i);
    fclose(f);
}

static void epoch_is_whole(yk_job *job, yk_data *data, bool equal, bool even, uint32_t rank_batch)
{
    int64_t seen = 0, rows = 0;
    const int64_t world = yk_world_size(job);
    yk_each(b, job, data) {
        float label[64] = {0};
        yk_read(b.labels, label, (size_t)b.rows * sizeof *label);
        const float *all = yk_gather_for_metrics(job, label, sizeof *label, &rows);
        CHECK(rows == b.unique_rows);
        for (int64_t i = 0; all && i < rows; i++)
            CHECK(all[i] == (float)(seen + i));
        for (int64_t i = 0; i < b.rows; i++) /* those that fill the batch up are the epoch's first */
            CHECK(label[i] == (float)((seen + b.first + i) % ROWS));
        if (!b.last || (even && world > 1))
            CHECK(!equal || (b.rows == rank_batch && b.first == (int64_t)(yk_rank(job) * rank_batch)));
        if (b.last && even && world > 1)
            CHECK(b.global_rows == world * rank_batch && b.unique_rows == ROWS % b.global_rows);
        else if (b.last)
            CHECK(b.global_rows == b.unique_rows);
        seen += rows;
    }
    CHECK(seen == ROWS);
}

static void loaders_have_accelerates_options(yk_job *job, const char *folder)
{
    char spec[200];
    snprintf(spec, sizeof spec, "csv:%s/rows.csv,text=text,label=label", folder);
    for (int i = 0; i < 4; i++) {
        const yk_data_config c = {.in_order = true, .keep_last = true, .numbers = true, .tokenizer = "bytes", .rank_batch = 3,
                                  .equal_shares = i % 2, .even_batches = i / 2};
        yk_data *data = yk_data_open(job, spec, &c);
        epoch_is_whole(job, data, i % 2, i / 2, 3);
        const yk_data_config eval = {.eval = true, .numbers = true, .tokenizer = "bytes", .rank_batch = 3,
                                     .equal_shares = i % 2, .even_batches = i / 2};
        data = yk_data_open(job, spec, &eval);
        epoch_is_whole(job, data, i % 2, i / 2, 3);
    }
}

/* Rows that no loader gives, a different number on each rank, and none on rank 1. */
static void metrics_are_of_own_rows(yk_job *job)
{
    const uint32_t rank = yk_rank(job), world = yk_world_size(job);
    const int64_t own = rank == 1 ? 0 : rank + 2;
    const float x[4] = {(float)rank, (float)rank, (float)rank, (float)rank};
    int64_t rows = 0, at = 0;
    yk_input(job, YK_F32, 1, &own, x);
    const float *all = yk_gather_for_metrics(job, x, sizeof *x, &rows);
    for (uint32_t r = 0; all && r < world; r++)
        for (int64_t i = 0; i < (r == 1 ? 0 : r + 2); i++)
            CHECK(at < rows && all[at++] == (float)r);
    CHECK(rows == at);
    yk_end(job);
}

/* ---- The tracker --------------------------------------------------------------------------------------------------- */

/* The rows 0 to ROWS - 1 as this rank's logits (0, row / 10), labels and inputs; each seventh label counts for nothing. */
static yk_t tracked_loss(yk_job *job, yk_t w, yk_t *x)
{
    uint64_t first, own;
    float v[ROWS];
    int32_t y[ROWS];
    yk_split_between_ranks(job, ROWS, &first, &own);
    for (uint64_t i = 0; i < own; i++) {
        v[i] = (float)(first + i) / 10;
        y[i] = (first + i) % 7 ? (int32_t)(first + i) % 2 : -100;
    }
    const int64_t dim[2] = {(int64_t)own, 1}, wide[2] = {2, 1};
    *x = yk_input(job, YK_F32, 2, dim, v);
    const yk_t h = yk_linear(*x, yk_reshape(yk_concat((yk_t[]){w, yk_scale(w, -2)}, 2, 0), 2, wide), YK_NO);
    return yk_cross_entropy(h, yk_input(job, YK_I32, 1, dim, y));
}

/* A step of training, then one of evaluation; the second reads a value before the counts are known. */
static int run_track(const char *folder)
{
    char path[160];
    const int64_t one = 1;
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 5});
    const yk_t w = yk_param(job, "w", 1, &one, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    snprintf(path, sizeof path, "%s/track-%u", folder, yk_world_size(job));
    yk_track_open(job, path);
    for (int i = 0; i < 3; i++) {
        yk_t x;
        yk_train(job, i < 2);
        const yk_t loss = tracked_loss(job, w, &x), mean = yk_mean(x, 3u, false);
        if (i == 1)
            yk_item(mean);
        yk_track(job, "total", yk_sum(yk_mul(x, x), 3u, false));
        yk_track(job, "mean", mean);
        yk_track(job, "shifted", yk_shift(yk_scale(mean, 2), 1));
        yk_track(job, "five", yk_constant(job, 5));
        yk_track(job, "loss", loss);
        yk_track(job, "twice", yk_scale(loss, 2));
        if (i < 2)
            yk_backward(loss);
        if (i < 2)
            yk_step(opt);
        yk_end(job);
    }
    return yk_close(job);
}

/* ---- Samplers and checkpoints -------------------------------------------------------------------------------------- */

typedef struct counter {
    int32_t runs, loads;
} counter;

static void counter_loaded(void *object, const char *dir)
{
    counter *c = object;
    c->loads += strstr(dir, "checkpoint") != NULL;
}

typedef struct order {
    int64_t n, row[2 * ROWS];
} order;

/* At most `batches` batches, each a training step; the numbers of all ranks' rows are appended in their order. */
static void sampler_train(yk_job *job, yk_sampler *s, yk_opt *opt, yk_t w, int batches, order *o)
{
    yk_sample b;
    while (batches-- > 0 && yk_sampler_next(s, &b)) {
        float x[ROWS] = {0};
        int64_t rows = 0;
        for (int64_t i = 0; i < b.rows; i++)
            x[i] = (float)b.row[i];
        yk_backward(yk_mean(yk_mul(yk_input(job, YK_F32, 1, &b.rows, x), w), 1u, false));
        yk_step(opt);
        const int64_t *all = yk_gather_for_metrics(job, b.row, sizeof *all, &rows);
        for (int64_t i = 0; i < rows && o->n < 2 * ROWS; i++)
            o->row[o->n++] = all[i];
    }
}

/* resume: goes on from the folder's checkpoint, with batches of 3 a rank; else the first `batches` of 2 a rank, and saves. */
static int run_sampler(const char *folder, const char *what, bool resume, bool by_speed, int batches)
{
    char path[160];
    counter count = {7, 0};
    order o = {0};
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 5});
    const yk_t w = yk_param(job, "w", 0, NULL, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.001});
    const yk_sampler_config c = {.rows = ROWS, .batch = resume ? 3 : 2, .shuffle = true, .by_speed = by_speed, .uneven_batches = by_speed};
    yk_sampler *s = yk_sampler_new(job, &c);
    yk_register_for_checkpointing(job, "counter", &count.runs, sizeof count.runs);
    yk_on_load(job, &count, counter_loaded);
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    if (resume) {
        count.runs = 0;
        yk_load(job, path);
        CHECK(count.runs == 8 && count.loads == 1);
    }
    sampler_train(job, s, opt, w, batches, &o);
    count.runs = (int32_t)(8 + yk_rank(job)); /* rank 0's is saved */
    if (!resume && batches < ROWS)
        yk_save(job, path);
    ranks_write(folder, what, yk_rank(job), &o, sizeof o);
    return yk_close(job);
}

/* Rank 1 draws from another order. */
static int run_other_seed(void)
{
    order o = {0};
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 5});
    const yk_t w = yk_param(job, "w", 0, NULL, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.001});
    const yk_sampler_config c = {.rows = ROWS, .batch = 2, .shuffle = true, .seed = yk_rank(job) == 1 ? 8 : 7};
    sampler_train(job, yk_sampler_new(job, &c), opt, w, 1, &o);
    return yk_close(job);
}

/* Fixed parts, and what gives each rank equally many rows: "loader" or "sampler". The parts are yk_config.shares, or
 * YOKE_SHARES with "variable". */
static int run_parts(const char *folder, const char *what)
{
    char spec[200];
    const bool variable = strstr(what, "variable") != NULL;
    if (variable)
        setenv("YOKE_SHARES", "3:1", 1);
    yk_job *job = yk_open(&(yk_config){.quiet = true, .shares = variable ? NULL : "3:1"});
    snprintf(spec, sizeof spec, "csv:%s/rows.csv,text=text,label=label", folder);
    if (strstr(what, "sampler"))
        yk_sampler_new(job, &(yk_sampler_config){.rows = ROWS, .batch = 2});
    else
        yk_data_open(job, spec, &(yk_data_config){.numbers = true, .tokenizer = "bytes", .rank_batch = 2, .equal_shares = true});
    return yk_close(job);
}

/* ---- The batch that fits ------------------------------------------------------------------------------------------- */

static void wide_step(yk_job *job, uint32_t batch, void *user)
{
    static float x[256 * 4096];
    const int64_t dim[2] = {batch, 4096}, wide[2] = {16, 4096};
    const yk_t w = yk_param(job, "w", 2, wide, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.001});
    int *calls = user;
    (*calls)++;
    yk_backward(yk_mean(yk_tanh(yk_linear(yk_tanh(yk_input(job, YK_F32, 2, dim, x)), w, YK_NO)), 3u, false));
    yk_step(opt);
}

/* The last rank may use half as much as the others: all take the batch that fits it. */
static int run_batch_size(void)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    const bool least = yk_is_last(job);
    double found[2], most[2];
    int calls[2] = {0, 0};
    if (yk_close(job))
        return 1;
    const yk_config whole = {.quiet = true, .memory_limit = 4u << 20}, half = {.quiet = true, .memory_limit = least ? 2u << 20 : 4u << 20};
    found[0] = yk_find_batch_size(&whole, 128, wide_step, &calls[0]);
    found[1] = yk_find_batch_size(&half, 128, wide_step, &calls[1]);
    job = yk_open(&(yk_config){.quiet = true});
    for (int i = 0; i < 2; i++)
        most[i] = found[i];
    yk_all_reduce_max(job, most, 2);
    CHECK(most[0] == found[0] && most[1] == found[1]);
    CHECK(found[1] > 0 && found[1] < found[0] && found[0] < 128);
    static const int sequence[] = {128, 115, 103, 92, 82, 73, 65, 58, 52, 46, 41, 36, 32, 28, 25, 22, 19, 17, 15, 13, 11, 9, 8};
    for (int i = 0; i < 2; i++)
        CHECK(calls[i] <= 23 && sequence[calls[i] - 1] == (int)found[i]);
    return yk_close(job);
}

/* ---- Ranks and tests ----------------------------------------------------------------------------------------------- */

static int rank_main(const char *what, const char *folder)
{
    int batches = 0;
    if (sscanf(what, "save-%d", &batches) == 1)
        return run_sampler(folder, "saved", false, strstr(what, "speed") != NULL, batches);
    if (!strncmp(what, "resume", 6))
        return run_sampler(folder, "resumed", true, strstr(what, "speed") != NULL, ROWS);
    if (!strcmp(what, "seeds"))
        return run_other_seed();
    if (!strncmp(what, "parts", 5))
        return run_parts(folder, what);
    if (!strcmp(what, "batch"))
        return run_batch_size();
    if (!strcmp(what, "track"))
        return run_track(folder);
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 5});
    gathers_are_in_rank_order(job);
    broadcasts_come_from_the_root(job);
    reductions_are_over_ranks(job);
    padding_reaches_the_longest(job);
    a_trigger_is_seen_by_all_once(job);
    the_main_rank_comes_first(job, folder, false);
    the_main_rank_comes_first(job, folder, true);
    loaders_have_accelerates_options(job, folder);
    metrics_are_of_own_rows(job);
    lines_print(job, folder);
    return yk_close(job);
}

START_TEST(loop_operations_are_over_all_ranks)
{
    char said[4096], path[64];
    ranks_folder_make();
    snprintf(path, sizeof path, "%s/rows.csv", ranks_folder);
    data_file_write(path);
    ck_assert_msg(ranks_run(devices_of[_i], "all", said, sizeof said) == 0, "%s", said);
    lines_are_in_order((uint32_t)_i + 1);
    ranks_folder_remove();
}
END_TEST

/* The numbers of the tracker's lines, in their order. */
static int tracked_read(int ranks, double *value, int most)
{
    char path[64], line[512];
    int n = 0;
    snprintf(path, sizeof path, "%s/track-%d", ranks_folder, ranks);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f))
        for (char *at = line; n < most && (at = strstr(at, "\": ")) != NULL;)
            value[n++] = strtod(at += 3, NULL);
    fclose(f);
    return n;
}

START_TEST(tracked_values_are_of_all_ranks)
{
    double one[32], some[32], total = 0;
    char said[4096];
    ranks_folder_make();
    ck_assert_msg(ranks_run(devices_of[0], "track", said, sizeof said) == 0, "%s", said);
    ck_assert_msg(ranks_run(devices_of[_i], "track", said, sizeof said) == 0, "%s", said);
    ck_assert_int_eq(tracked_read(1, one, 32), 21);
    ck_assert_int_eq(tracked_read(_i + 1, some, 32), 21);
    for (int i = 0; i < ROWS; i++)
        total += i * i / 100.0;
    for (int i = 0; i < 21; i++)
        ck_assert_msg(fabs(some[i] - one[i]) < 1e-5 * (1 + fabs(one[i])), "number %d: %g, of one rank %g", i, some[i], one[i]);
    for (int i = 0; i < 3; i++) { /* step, total, mean, shifted, five */
        const double want[4] = {total, 1.1, 3.2, 5};
        for (int k = 0; k < 4; k++)
            ck_assert_double_eq_tol(some[7 * i + 1 + k], want[k], 1e-4);
    }
    ranks_folder_remove();
}
END_TEST

START_TEST(the_batch_that_fits_is_one_for_all)
{
    char said[4096];
    ranks_folder_make();
    ck_assert_msg(ranks_run(devices_of[_i], "batch", said, sizeof said) == 0, "%s", said);
    ranks_folder_remove();
}
END_TEST

/* Rows of a whole epoch by one process; then by 2 ranks, saved after 3 batches, and the rest by 3, 1 or 2 in batches of another size. */
START_TEST(a_sampler_goes_on_at_its_row_with_other_ranks)
{
    static const int ranks[3] = {3, 1, 2};
    const bool speed = _i == 2;
    order whole, saved, rest;
    char said[4096];
    ranks_folder_make();
    ck_assert_msg(ranks_run(devices_of[0], "save-100", said, sizeof said) == 0, "%s", said);
    ranks_read("saved", 0, &whole, sizeof whole);
    ck_assert_int_eq(whole.n, ROWS);
    ck_assert_msg(ranks_run(devices_of[1], speed ? "save-3-speed" : "save-3", said, sizeof said) == 0, "%s", said);
    ranks_read("saved", 1, &saved, sizeof saved);
    ck_assert_int_eq(saved.n, 12);
    ck_assert_msg(ranks_run(devices_of[ranks[_i] - 1], speed ? "resume-speed" : "resume", said, sizeof said) == 0, "%s", said);
    ranks_read("resumed", 0, &rest, sizeof rest);
    ck_assert_int_eq(rest.n, ROWS - 12);
    ck_assert_mem_eq(whole.row, saved.row, 12 * sizeof *whole.row);
    ck_assert_mem_eq(whole.row + 12, rest.row, (ROWS - 12) * sizeof *whole.row);
    uint32_t seen = 0;
    for (int i = 0; i < ROWS; i++)
        seen |= 1u << whole.row[i];
    ck_assert_uint_eq(seen, (1u << ROWS) - 1);
    ck_assert_int_ne(whole.row[0] + whole.row[1] * ROWS, ROWS); /* shuffled: not 0, 1 */
    ranks_folder_remove();
}
END_TEST

START_TEST(samplers_that_differ_are_an_error)
{
    char said[4096];
    ranks_folder_make();
    ck_assert_int_ne(ranks_run(devices_of[2], "seeds", said, sizeof said), 0);
    ck_assert_msg(strstr(said, "another place in the data") && strstr(said, "the sampler's seed 8, not 7"), "%s", said);
    ranks_folder_remove();
}
END_TEST

/* Two settings that say unlike things of a rank's rows are an error that names both. */
START_TEST(equal_rows_against_other_shares_are_an_error)
{
    static const char *const what[] = {"parts-loader", "parts-loader-variable", "parts-sampler", "parts-sampler-variable"};
    char said[4096], path[64];
    ranks_folder_make();
    snprintf(path, sizeof path, "%s/rows.csv", ranks_folder);
    data_file_write(path);
    ck_assert_int_eq(ranks_run(devices_of[1], what[_i], said, sizeof said), 2);
    ck_assert_msg(strstr(said, _i < 2 ? "yk_data_config.equal_shares" : "yk_sampler_config without by_speed") != NULL, "%s", said);
    ck_assert_msg(strstr(said, _i % 2 ? "YOKE_SHARES is \"3:1\": choose one" : "yk_config.shares (--shares) is \"3:1\": choose one"),
                  "%s", said);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("loop");
    tcase_set_timeout(t, RANKS_TIMEOUT);
    tcase_add_loop_test(t, loop_operations_are_over_all_ranks, 0, 3);
    tcase_add_loop_test(t, tracked_values_are_of_all_ranks, 1, 3);
    tcase_add_loop_test(t, the_batch_that_fits_is_one_for_all, 0, 3);
    tcase_add_loop_test(t, a_sampler_goes_on_at_its_row_with_other_ranks, 0, 3);
    tcase_add_test(t, samplers_that_differ_are_an_error);
    tcase_add_loop_test(t, equal_rows_against_other_shares_are_an_error, 0, 4);
    return suite_run("job_loop", t);
}
