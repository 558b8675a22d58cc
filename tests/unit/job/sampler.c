/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers, registered state and held-back steps on one rank, and their refusals; tests/dist/job_loop.c has several ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yoke/yoke.h>

#include "tests/support/run.h"

static yk_job *job;

static void job_open(void)
{
    job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true, .seed = 3});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
}

static void job_close(void)
{
    yk_close(job);
}

static void failed_saying(yk_status status, const char *text)
{
    ck_assert_int_eq(yk_error_status(job), status);
    ck_assert_msg(strstr(yk_error_text(job), text) != NULL, "%s", yk_error_text(job));
}

START_TEST(a_stream_cannot_be_shuffled)
{
    yk_sampler *s = yk_sampler_new(job, &(yk_sampler_config){.batch = 2, .shuffle = true});
    ck_assert_ptr_null(s);
    failed_saying(YK_E_ARG, "cannot be shuffled");
}
END_TEST

START_TEST(speed_and_dispatch_exclude_each_other)
{
    ck_assert_ptr_null(yk_sampler_new(job, &(yk_sampler_config){.rows = 5, .dispatch = true, .by_speed = true}));
    failed_saying(YK_E_ARG, "choose one");
}
END_TEST

START_TEST(a_stream_does_not_end_before_its_rows)
{
    yk_sample b;
    yk_sampler *s = yk_sampler_new(job, &(yk_sampler_config){.batch = 4});
    ck_assert_uint_eq(yk_sampler_batches(s), 0);
    ck_assert(yk_sampler_next(s, &b) && b.rows == 4 && !b.last);
    yk_sampler_end(s, 3);
    failed_saying(YK_E_ARG, "of which 4 were handed out");
}
END_TEST

/* Ends epoch 0 after `rows` rows, all of which are handed out. */
static yk_sampler *ended_stream(uint64_t rows)
{
    yk_sample b;
    yk_sampler *s = yk_sampler_new(job, &(yk_sampler_config){.batch = 4});
    yk_sampler_end(s, rows);
    ck_assert_uint_eq(yk_sampler_batches(s), (rows + 3) / 4);
    for (uint64_t at = 0; at < rows; at += 4)
        ck_assert(yk_sampler_next(s, &b) && b.epoch == 0);
    return s;
}

/* The stream hands out batches of this epoch beyond the end of epoch 0. */
static void goes_on(yk_sampler *s, uint64_t epoch)
{
    yk_sample b;
    for (int i = 0; i < 5; i++)
        ck_assert_msg(yk_sampler_next(s, &b) && b.rows == 4 && !b.last && b.epoch == epoch, "batch %d", i);
    ck_assert_uint_eq(yk_sampler_batches(s), 0);
}

START_TEST(the_end_of_a_stream_is_that_of_its_epoch)
{
    yk_sample b;
    yk_sampler *s = ended_stream(8);
    yk_sampler_seek(s, 1, 0);
    goes_on(s, 1);
    yk_sampler_end(s, 22);
    ck_assert(yk_sampler_next(s, &b) && b.rows == 2 && b.last);
    ck_assert(!yk_sampler_next(s, &b) && yk_ok(job));
    goes_on(s, 2);
}
END_TEST

START_TEST(a_sought_epoch_keeps_its_end)
{
    yk_sample b;
    yk_sampler *s = ended_stream(8);
    yk_sampler_seek(s, 0, 1);
    ck_assert(yk_sampler_next(s, &b) && b.last && b.row[0] == 4);
    ck_assert(!yk_sampler_next(s, &b) && yk_ok(job));
}
END_TEST

START_TEST(a_restored_epoch_has_not_ended)
{
    char folder[] = "/tmp/yoke-sampler-XXXXXX", path[64], command[80];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    yk_param(job, "w", 0, NULL, (yk_init){0});
    yk_sampler *s = ended_stream(8);
    yk_sampler_seek(s, 1, 0);
    yk_save(job, path);
    yk_sampler_seek(s, 0, 2);
    yk_sampler_end(s, 8);
    yk_load(job, path);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    goes_on(s, 1);
}
END_TEST

START_TEST(a_split_has_a_limit)
{
    uint64_t first = 1, count = 1;
    yk_split(job, 3000000000u, &first, &count);
    ck_assert(first == 0 && count == 0);
    failed_saying(YK_E_ARG, "yk_split of 3000000000 rows: expected a global micro batch of at most 2^31 - 1");
}
END_TEST

START_TEST(a_data_set_has_its_end)
{
    yk_sampler_end(yk_sampler_new(job, &(yk_sampler_config){.rows = 9}), 9);
    failed_saying(YK_E_ARG, "no stream");
}
END_TEST

START_TEST(places_behind_the_end_are_refused)
{
    uint64_t epoch, batch;
    yk_sampler *s = yk_sampler_new(job, &(yk_sampler_config){.rows = 9, .batch = 2});
    yk_sample b;
    yk_sampler_seek(s, 4, 4);
    ck_assert(yk_sampler_next(s, &b) && b.rows == 1 && b.last && b.epoch == 4 && b.index == 4 && b.row[0] == 8);
    yk_sampler_tell(s, &epoch, &batch);
    ck_assert(epoch == 4 && batch == 5);
    ck_assert(!yk_sampler_next(s, &b) && yk_ok(job));
    ck_assert(yk_sampler_next(s, &b) && b.epoch == 5 && b.index == 0);
    yk_sampler_seek(s, 0, 6);
    failed_saying(YK_E_ARG, "there is no batch 6: an epoch has 5");
}
END_TEST

START_TEST(epochs_have_orders_of_their_own)
{
    int64_t row[2][50];
    yk_sampler *s = yk_sampler_new(job, &(yk_sampler_config){.rows = 50, .batch = 50, .shuffle = true});
    for (int e = 0; e < 2; e++) {
        yk_sample b;
        ck_assert(yk_sampler_next(s, &b) && b.rows == 50);
        memcpy(row[e], b.row, sizeof row[e]);
        ck_assert(!yk_sampler_next(s, &b));
    }
    ck_assert_mem_ne(row[0], row[1], sizeof row[0]);
}
END_TEST

START_TEST(a_name_is_registered_once)
{
    int32_t a = 1, b = 2;
    yk_register_for_checkpointing(job, "state", &a, sizeof a);
    ck_assert(yk_ok(job));
    yk_register_for_checkpointing(job, "state", &b, sizeof b);
    failed_saying(YK_E_ARG, "\"state\" is registered already");
}
END_TEST

/* The file would be written, and no reader could take it. */
START_TEST(a_name_that_no_file_can_have_is_refused)
{
    static const char *const wrong[][2] = {{"__metadata__", "stands for something else"}, {"caf\xe9", "not UTF-8"}};
    for (size_t i = 0; i < 2; i++) {
        char file[] = "/tmp/yoke-names-XXXXXX";
        const int fd = mkstemp(file);
        ck_assert(fd >= 0 && !close(fd));
        int32_t state = 1;
        yk_register_for_checkpointing(job, wrong[i][0], &state, sizeof state);
        failed_saying(YK_E_ARG, wrong[i][1]);
        yk_close(job);
        job_open();
        const yk_t w = yk_param(job, "w", 0, NULL, (yk_init){0});
        yk_weights_save(job, file, 1, &wrong[i][0], &w);
        unlink(file);
        failed_saying(YK_E_ARG, wrong[i][1]);
        yk_close(job);
        job_open();
    }
}
END_TEST

/* A checkpoint with `saved` registered (NULL: nothing), loaded by a program that has `wanted`. */
static void load_other(const char *saved, size_t saved_bytes, const char *wanted, size_t wanted_bytes, const char *text)
{
    char folder[] = "/tmp/yoke-sampler-XXXXXX", path[64], command[80];
    int64_t state[2] = {1, 2};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    yk_param(job, "w", 0, NULL, (yk_init){0});
    if (saved)
        yk_register_for_checkpointing(job, saved, state, saved_bytes);
    yk_save(job, path);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk_close(job);
    job_open();
    yk_param(job, "w", 0, NULL, (yk_init){0});
    if (wanted)
        yk_register_for_checkpointing(job, wanted, state, wanted_bytes);
    yk_load(job, path);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    failed_saying(YK_E_FORMAT, text);
}

START_TEST(state_that_is_not_there_is_named)
{
    load_other("a", 8, "b", 8, "\"a\", which this program has not registered");
}
END_TEST

START_TEST(state_of_another_size_is_named)
{
    load_other("a", 8, "a", 16, "\"a\" has another size: 8 bytes, expected 16");
}
END_TEST

START_TEST(state_of_a_program_without_is_named)
{
    load_other(NULL, 0, "a", 8, "holds no registered state, this program has \"a\"");
}
END_TEST

START_TEST(an_accumulation_goes_on_where_it_is_held)
{
    const yk_t w = yk_param(job, "w", 0, NULL, (yk_init){0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1});
    const int64_t one = 1;
    float got;
    for (int i = 0; i < 3; i++) {
        const float x = (float)(i + 1);
        yk_backward(yk_mean(yk_mul(yk_input(job, YK_F32, 1, &one, &x), w), 1u, false));
        if (i < 2)
            yk_accumulate_on(job);
        ck_assert(yk_sync_gradients(job) == (i == 2));
        yk_step(opt);
        ck_assert(yk_stepped(opt) == (i == 2));
    }
    yk_param_read(w, &got, 1);
    ck_assert_float_eq(got, -2.0f); /* the mean of 1, 2 and 3: none was lost, none divided by the configured number */
}
END_TEST

/* Five rows in batches of two, two batches a step: the gradients are 2.5 (of 1 to 4) and 5, as the last window has one batch. */
START_TEST(the_last_window_is_divided_by_its_own_batches)
{
    yk_close(job);
    job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true, .accumulate = 2});
    const yk_t w = yk_param(job, "w", 0, NULL, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_sampler *sampler = yk_sampler_new(job, &(yk_sampler_config){.rows = 5, .batch = 2, .uneven_batches = true});
    yk_sample b;
    float got;
    while (yk_sampler_next(sampler, &b)) {
        const float x[2] = {(float)b.row[0] + 1, b.rows > 1 ? (float)b.row[1] + 1 : 0};
        yk_backward(yk_mean(yk_mul(yk_input(job, YK_F32, 1, &b.rows, x), w), 1u, false));
        yk_step(opt);
    }
    yk_param_read(w, &got, 1);
    ck_assert_double_eq_tol((double)got, 1 - 0.1 * 2.5 - 0.1 * 5, 1e-6);
}
END_TEST

/* The first batch of each window uses one parameter, the second another, and none the third. PyTorch 2.15, AdamW over the same three
 * windows: 0.6732890, 0.6732890, and 1, as a parameter without a gradient rests, weight decay and all. */
START_TEST(parameters_of_some_batches_get_their_part)
{
    yk_close(job);
    job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true, .accumulate = 2});
    yk_t w[3];
    const int64_t one = 1, four = 4;
    for (int i = 0; i < 3; i++)
        w[i] = yk_param(job, i == 0 ? "a" : i == 1 ? "b" : "c", 1, &one, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.1, .weight_decay = 0.1});
    for (int batch = 0; batch < 6; batch++) {
        float x[4];
        for (int i = 0; i < 4; i++)
            x[i] = (float)((i + 1) * (batch % 2 ? 1 : 2));
        yk_backward(yk_mean(yk_mul(yk_input(job, YK_F32, 1, &four, x), w[batch % 2]), 1u, false));
        yk_step(opt);
    }
    for (int i = 0; i < 3; i++) {
        float got;
        yk_param_read(w[i], &got, 1);
        ck_assert_double_eq_tol((double)got, i < 2 ? 0.6732890 : 1, 1e-6);
    }
}
END_TEST

START_TEST(a_batch_is_given_once)
{
    yk_data_open(job, "text:/dev/null", &(yk_data_config){.global_batch = 4, .rank_batch = 2});
    failed_saying(YK_E_ARG, "give one of them");
}
END_TEST

START_TEST(metrics_need_a_size)
{
    int64_t rows;
    ck_assert_ptr_null(yk_gather_for_metrics(job, &rows, 0, &rows));
    failed_saying(YK_E_ARG, "rows of 0 bytes");
}
END_TEST

START_TEST(metrics_need_a_batch)
{
    int64_t rows;
    ck_assert_ptr_null(yk_gather_for_metrics(job, &rows, 1, &rows));
    failed_saying(YK_E_ARG, "no micro batch was begun");
}
END_TEST

/* After a batch of more rows, so that those of another step would be read behind the end of these. */
START_TEST(metrics_have_the_rows_of_the_first_input)
{
    const int64_t two = 2;
    const float x[2] = {5, 7};
    int64_t rows;
    yk_sample b;
    ck_assert(yk_sampler_next(yk_sampler_new(job, &(yk_sampler_config){.rows = 64, .batch = 32}), &b));
    yk_end(job);
    yk_input(job, YK_F32, 1, &two, x);
    const float *all = yk_gather_for_metrics(job, x, sizeof *x, &rows);
    ck_assert_int_eq(rows, 2);
    ck_assert_mem_eq(all, x, sizeof x);
}
END_TEST

START_TEST(a_root_is_a_rank)
{
    char byte = 0;
    yk_broadcast(job, &byte, 1, 1);
    failed_saying(YK_E_ARG, "a broadcast from rank 1: there are 1 ranks");
}
END_TEST

START_TEST(an_axis_is_one_of_the_shape)
{
    int64_t dim = 1;
    float x = 0;
    ck_assert_ptr_null(yk_pad_across_ranks(job, YK_F32, 1, &dim, &x, &(yk_pad_config){.axis = 1}));
    failed_saying(YK_E_ARG, "axis 1 of f32 with 1 dimensions");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_stream_cannot_be_shuffled, speed_and_dispatch_exclude_each_other, a_stream_does_not_end_before_its_rows,
        the_end_of_a_stream_is_that_of_its_epoch, a_sought_epoch_keeps_its_end, a_restored_epoch_has_not_ended, a_data_set_has_its_end,
        a_split_has_a_limit, places_behind_the_end_are_refused, epochs_have_orders_of_their_own, a_name_is_registered_once,
        a_name_that_no_file_can_have_is_refused, state_that_is_not_there_is_named,
        state_of_another_size_is_named, state_of_a_program_without_is_named, an_accumulation_goes_on_where_it_is_held,
        the_last_window_is_divided_by_its_own_batches, parameters_of_some_batches_get_their_part, a_batch_is_given_once,
        metrics_need_a_size, metrics_need_a_batch,
        metrics_have_the_rows_of_the_first_input, a_root_is_a_rank, an_axis_is_one_of_the_shape};
    return suite_run_all("sampler", tests, sizeof tests / sizeof tests[0], job_open, job_close);
}
