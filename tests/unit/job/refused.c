/* SPDX-License-Identifier: Apache-2.0 */
/* A forbidden request of a program is refused at the call, by name. */
#include <check.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/job/job.h"
#include "tests/support/run.h"

static void scale_is_refused(yk_scale_config scale, const char *words)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .precision = YK_F16, .scale = scale});
    ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
    ck_assert_msg(strstr(yk_error_text(job), words) != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}

START_TEST(scales_that_are_no_scales)
{
    scale_is_refused((yk_scale_config){.init = (double)NAN}, "scale.init is nan: expected a number, above 0");
    scale_is_refused((yk_scale_config){.init = -1}, "scale.init is -1");
    scale_is_refused((yk_scale_config){.fixed = -3}, "scale.fixed is -3");
    scale_is_refused((yk_scale_config){.fixed = (double)INFINITY}, "scale.fixed is inf");
    scale_is_refused((yk_scale_config){.growth = 0.5}, "scale.growth is 0.5: expected a number, 1 or more");
    scale_is_refused((yk_scale_config){.backoff = 2}, "scale.backoff is 2: expected a number, above 0 and 1 at most");
    scale_is_refused((yk_scale_config){.floor = -2}, "scale.floor is -2");
}
END_TEST

START_TEST(a_floor_of_zero_is_meant)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .precision = YK_F16,
                                       .scale = {.rule = YK_SCALE_DEEPSPEED, .floor = YK_ZERO}});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert(job->scaler.floor > 0 && job->scaler.floor < 1e-300);
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

START_TEST(stages_are_read_as_on_the_command_line)
{
    static const struct {
        const char *word, *text; /* NULL: taken */
    } rows[] = {{"state", NULL}, {"ZeRO1", NULL}, {"NO_SHARD", NULL},
                {"zero2", NULL}, {"Gradients", NULL},
                {"FULL_SHARD", NULL}, {"shard_grad_op", NULL},
                {"zero4", "yk_config.shard zero4: expected state, gradients or params: did you mean zero"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .shard = rows[i].word});
        ck_assert_msg(!rows[i].text ? yk_ok(job) : strstr(yk_error_text(job), rows[i].text) != NULL, "%s", yk_error_text(job));
        ck_assert_int_eq(yk_close(job), rows[i].text ? 2 : 0);
    }
}
END_TEST

/* ---- Structs of older and newer programs (decision 0079) ---- */

/* The struct's first `bytes` at the end of a page behind which nothing may be read. */
static void *struct_at_edge(const void *config, size_t bytes, char **two)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(*two != MAP_FAILED && !mprotect(*two + page, page, PROT_NONE));
    return memcpy(*two + page - bytes, config, bytes);
}

START_TEST(a_struct_without_later_members_is_read_to_its_end)
{
    const size_t bytes = offsetof(yk_config, shard);
    const yk_config config = {.devices = "cpu:0", .quiet = true, .accumulate = 3};
    char *two;
    yk_job *job = (yk_open)(struct_at_edge(&config, bytes, &two), bytes);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_uint_eq(job->config.accumulate, 3);
    ck_assert_ptr_null(job->config.shard);
    ck_assert_int_eq(yk_close(job), 0);
    munmap(two, 2 * (size_t)sysconf(_SC_PAGESIZE));
}
END_TEST

START_TEST(a_shorter_struct_is_filled_to_its_end)
{
    yk_memory memory;
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    memset(&memory, 0xff, sizeof memory);
    (yk_memory_get)(job, &memory, offsetof(yk_memory, plans));
    ck_assert_uint_eq(memory.params, 0);
    ck_assert_uint_eq(memory.plans, UINT64_MAX);
    (yk_memory_get)(job, &memory, sizeof memory + 8);
    ck_assert_uint_eq(memory.plans, 0);
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

/* Images, a matrix and labels, for operations; poisoned without a job. */
static yk_t images_input(yk_job *job)
{
    static const float x[32];
    return yk_input(job, YK_F32, 4, (int64_t[]){2, 1, 4, 4}, x);
}

static yk_t matrix_input(yk_job *job)
{
    static const float x[6];
    return yk_input(job, YK_F32, 2, (int64_t[]){2, 3}, x);
}

static void call_pad(yk_job *job, const void *c, size_t size)
{
    const float x[2] = {1, 2};
    int64_t dim[1] = {2};
    (yk_pad_across_ranks)(job, YK_F32, 1, dim, x, c, size);
}

static void call_conv2d(yk_job *job, const void *c, size_t size)
{
    const yk_t weight = yk_param(job, "weight", 4, (int64_t[]){1, 1, 2, 2}, (yk_init){YK_INIT_ONES, 0, 0});
    (yk_conv2d)(images_input(job), weight, YK_NO, c, size);
}

static void call_max_pool2d(yk_job *job, const void *c, size_t size)
{
    (yk_max_pool2d)(images_input(job), c, size);
}

static void call_avg_pool2d(yk_job *job, const void *c, size_t size)
{
    (yk_avg_pool2d)(images_input(job), c, size);
}

static void call_attention(yk_job *job, const void *c, size_t size)
{
    const yk_t x = images_input(job);
    (yk_attention)(x, x, x, c, size);
}

static void call_cross_entropy(yk_job *job, const void *c, size_t size)
{
    const int32_t label[2] = {0, 2};
    (yk_cross_entropy_with)(matrix_input(job), yk_input(job, YK_I32, 1, (int64_t[]){2}, label), c, size);
}

static void call_bce(yk_job *job, const void *c, size_t size)
{
    (yk_bce_with_logits)(matrix_input(job), matrix_input(job), c, size);
}

static void call_mse(yk_job *job, const void *c, size_t size)
{
    (yk_mse_loss)(matrix_input(job), matrix_input(job), c, size);
}

static void call_sgd(yk_job *job, const void *c, size_t size)
{
    (yk_sgd)(job, c, size);
}

static void call_adam(yk_job *job, const void *c, size_t size)
{
    (yk_adam)(job, c, size);
}

static void call_adamw(yk_job *job, const void *c, size_t size)
{
    (yk_adamw)(job, c, size);
}

static void call_schedule(yk_job *job, const void *c, size_t size)
{
    (yk_schedule)(yk_sgd(job, NULL), c, size);
}

static void call_data_open(yk_job *job, const void *c, size_t size)
{
    (yk_data_open)(job, "lines:/dev/null", c, size);
}

static void call_sampler(yk_job *job, const void *c, size_t size)
{
    (yk_sampler_new)(job, c, size);
}

static const yk_pool2d_config window = {.kernel = {2, 2}};
static const yk_data_config no_rows = {.unlabelled = true, .tokenizer = "bytes"};
static const struct {
    const char *name;
    void (*call)(yk_job *job, const void *config, size_t size);
    size_t bytes;
    const void *config; /* NULL: zeros */
} calls[] = {{"yk_pad_across_ranks", call_pad, sizeof(yk_pad_config), NULL},
             {"yk_conv2d", call_conv2d, sizeof(yk_conv2d_config), NULL},
             {"yk_max_pool2d", call_max_pool2d, sizeof(yk_pool2d_config), &window},
             {"yk_avg_pool2d", call_avg_pool2d, sizeof(yk_pool2d_config), &window},
             {"yk_attention", call_attention, sizeof(yk_attention_config), NULL},
             {"yk_cross_entropy", call_cross_entropy, sizeof(yk_cross_entropy_config), NULL},
             {"yk_bce_with_logits", call_bce, sizeof(yk_loss_config), NULL},
             {"yk_mse_loss", call_mse, sizeof(yk_loss_config), NULL},
             {"yk_sgd", call_sgd, sizeof(yk_sgd_config), NULL},
             {"yk_adam", call_adam, sizeof(yk_adam_config), NULL},
             {"yk_adamw", call_adamw, sizeof(yk_adam_config), NULL},
             {"yk_schedule", call_schedule, sizeof(yk_sched_config), NULL},
             {"yk_data_open", call_data_open, sizeof(yk_data_config), &no_rows},
             {"yk_sampler_new", call_sampler, sizeof(yk_sampler_config), NULL}};
#define CALLS (int)(sizeof calls / sizeof calls[0])

/* Makes call i with the first `size` bytes of its struct, of which byte `set` is 1 (-1: none); words NULL: it succeeds. */
static void sized_says(int i, size_t size, int set, const char *words)
{
    char text[80], *two, whole[512] = {0};
    const size_t bytes = size > calls[i].bytes ? size : calls[i].bytes;
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    if (calls[i].config)
        memcpy(whole, calls[i].config, calls[i].bytes);
    if (set >= 0)
        whole[set] = 1;
    calls[i].call(job, struct_at_edge(whole, bytes, &two), size);
    calls[i].call(NULL, whole, size); /* no job: no crash */
    snprintf(text, sizeof text, "%s: expected %s", calls[i].name, words ? words : "");
    ck_assert_msg(words ? strstr(yk_error_text(job), text) != NULL : yk_ok(job), "%s of %zu: %s", calls[i].name, size, yk_error_text(job));
    ck_assert_int_eq(yk_close(job), words ? 2 : 0);
    munmap(two, 2 * (size_t)sysconf(_SC_PAGESIZE));
}

START_TEST(a_size_that_is_none)
{
    sized_says(_i, 0, -1, "the size of its struct");
    sized_says(_i, sizeof(void *), -1, "the size of its struct");
}
END_TEST

START_TEST(a_longer_struct_with_zeros_behind)
{
    sized_says(_i, calls[_i].bytes + 24, -1, NULL);
}
END_TEST

START_TEST(a_longer_struct_with_a_member_set)
{
    sized_says(_i, calls[_i].bytes + 24, (int)calls[_i].bytes + 23, "zeros behind the");
}
END_TEST

START_TEST(a_job_of_a_newer_struct)
{
    struct {
        yk_config config;
        uint64_t more[2];
    } c = {.config = {.devices = "cpu", .quiet = true, .accumulate = 5}};
    yk_job *job = (yk_open)(&c.config, sizeof c);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_uint_eq(job->config.accumulate, 5);
    ck_assert_int_eq(yk_close(job), 0);
    c.more[1] = 1;
    job = (yk_open)(&c.config, sizeof c);
    ck_assert_msg(strstr(yk_error_text(job), "yk_open: expected zeros behind the") != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
    job = (yk_open)(&c.config, (size_t)-1);
    ck_assert_msg(strstr(yk_error_text(job), "yk_open: expected the size of its struct") != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}
END_TEST

static void line_keep(void *user, const char *line)
{
    snprintf(user, 512, "%s", line);
}

static void never_called(yk_job *job, uint32_t batch, void *user)
{
    (void)batch;
    (void)user;
    yk_fail(job, YK_E_INTERNAL, "the step was called");
}

START_TEST(a_search_for_batches_without_a_size)
{
    char line[512] = "";
    const yk_config c = {.devices = "cpu", .quiet = true};
    yk_set_log(line_keep, line);
    ck_assert_uint_eq((yk_find_batch_size)(&c, 8, never_called, NULL, 0), 0);
    yk_set_log(NULL, NULL);
    ck_assert_msg(strstr(line, "yk_find_batch_size: expected the size of its struct") != NULL, "%s", line);
}
END_TEST

static void param_is_refused(const char *name, yk_init init, const char *words)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    yk_param(job, name, 1, (int64_t[]){3}, init);
    ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
    ck_assert_msg(strstr(yk_error_text(job), words) != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}

/* A checkpoint with such a name could not be opened again. */
START_TEST(names_that_no_file_can_have)
{
    param_is_refused("gewicht\xfc", (yk_init){0}, "its name is not UTF-8");
    param_is_refused("__metadata__", (yk_init){0}, "stands for something else");
    param_is_refused("", (yk_init){0}, "it needs a name");
}
END_TEST

START_TEST(first_values_that_are_none)
{
    param_is_refused("w", (yk_init){(yk_init_kind)9, 5, 2}, "parameter w: its init is kind 9 of 5 and 2");
    param_is_refused("w", (yk_init){YK_INIT_NORMAL, NAN, 1}, "its init is kind 2 of nan and 1");
    param_is_refused("w", (yk_init){YK_INIT_UNIFORM, 0, INFINITY}, "its init is kind 3 of 0 and inf");
}
END_TEST

/* Rows of 2 ids for a table of 4 rows. */
static void ids_give(const int32_t id[4], const char *words)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    const int64_t dim[2] = {4, 3}, ids[2] = {2, 2};
    float out[12];
    const yk_t table = yk_param(job, "table", 2, dim, (yk_init){YK_INIT_ONES, 0, 0});
    yk_read(yk_embedding(yk_input(job, YK_I32, 2, ids, id), table, -1), out, sizeof out);
    ck_assert_int_eq(yk_error_status(job), words ? YK_E_ARG : YK_OK);
    ck_assert_msg(!words || strstr(yk_error_text(job), words), "%s", yk_error_text(job));
    for (int i = 0; i < 12 && !words; i++)
        ck_assert_float_eq(out[i], id[i / 3] < 0 ? 0.0f : 1.0f);
    yk_close(job);
}

START_TEST(ids_behind_the_table)
{
    ids_give((int32_t[]){0, 3, 2, 1}, NULL);
    ids_give((int32_t[]){0, 3, -1, 1}, NULL);
    ids_give((int32_t[]){0, 3, 4, 1}, "yk_embedding: id 4 of row 1 is none of the table's 4 rows, 0 to 3");
    ids_give((int32_t[]){0, -2, 1, 1}, "yk_embedding: id -2 of row 0 is none of the table's 4 rows");
}
END_TEST

static void null_is_named(yk_job *job, const char *words)
{
    ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
    ck_assert_msg(strstr(yk_error_text(job), words) != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}

#define NULL_IS_NAMED(call, words) \
    do { \
        yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true}); \
        (void)(call); \
        null_is_named(job, words); \
    } while (0)

/* NULLs of getenv or argv. */
START_TEST(texts_that_are_null)
{
    NULL_IS_NAMED(yk_data_open(job, NULL, NULL), "yk_data_open: spec is NULL");
    NULL_IS_NAMED(yk_model_new(job, NULL, NULL, NULL), "there is no model \"(NULL)\"; there are mlp");
    NULL_IS_NAMED(yk_model_from_pretrained(job, NULL, NULL, NULL), "yk_model_from_pretrained: dir is NULL");
    NULL_IS_NAMED(yk_weights_open(job, NULL), "yk_weights_open: path is NULL");
    NULL_IS_NAMED(yk_stage_begin(job, NULL), "yk_stage_begin: dir is NULL");
    NULL_IS_NAMED((yk_make_dir(job, NULL), 0), "yk_make_dir: dir is NULL");
    NULL_IS_NAMED((yk_save(job, NULL), 0), "yk_save: dir is NULL");
    NULL_IS_NAMED((yk_load(job, NULL), 0), "yk_load: dir is NULL");
    NULL_IS_NAMED((yk_track_open(job, NULL), 0), "yk_track_open: path is NULL");
    NULL_IS_NAMED((yk_register_for_checkpointing(job, NULL, NULL, 0), 0), "yk_register_for_checkpointing: name is NULL");
    NULL_IS_NAMED(yk_input(job, YK_F32, 1, (int64_t[]){2}, NULL), "yk_input: data is NULL");
    yk_settings_save(NULL, "unused"); /* settings of a job that has failed */
}
END_TEST

/* All zero, as every configuration: one row a batch, without end. */
START_TEST(sampler_of_defaults)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    ck_assert_ptr_nonnull(yk_sampler_new(job, NULL));
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

/* The gradient's step on x of that shape, by a batch norm in training or not; "" or why it is refused. */
static void batch_norm_says(uint32_t dims, const int64_t *dim, bool training, const char *words)
{
    const float x[6] = {1, 2, 3, 5, 8, 13};
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    const yk_t mean = yk_state(job, "mean", YK_F32, 1, (int64_t[]){3}, 0), var = yk_state(job, "var", YK_F32, 1, (int64_t[]){3}, 1);
    const yk_batch_norm_state running = {mean, var, YK_NO};
    const yk_t gamma = yk_param(job, "gamma", 1, (int64_t[]){3}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, NULL);
    yk_train(job, training);
    const yk_t y = yk_batch_norm(yk_input(job, YK_F32, dims, dim, x), gamma, YK_NO, running, 0, 1e-5f);
    if (training) {
        yk_backward(yk_mean(yk_mul(y, y), (1u << dims) - 1, false));
        yk_step(opt);
    }
    ck_assert_msg(strstr(yk_error_text(job), words) != NULL && yk_ok(job) == !*words, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), *words ? 2 : 0);
}

/* One value has no variance: y would be beta whatever x is, and the running variance would fall. */
START_TEST(a_batch_norm_of_one_value)
{
    batch_norm_says(2, (int64_t[]){1, 3}, true, "node 2 (batch_norm): ");
    batch_norm_says(2, (int64_t[]){1, 3}, true, "expected more than one value for each channel in training");
    batch_norm_says(4, (int64_t[]){1, 3, 1, 1}, true, "expected more than one value for each channel in training");
    batch_norm_says(4, (int64_t[]){1, 3, 1, 2}, true, "");
    batch_norm_says(2, (int64_t[]){2, 3}, true, "");
    batch_norm_says(2, (int64_t[]){1, 3}, false, "");
}
END_TEST

START_TEST(a_second_loss_before_a_step)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    yk_t w = yk_param(job, "w", 1, (int64_t[]){2}, (yk_init){YK_INIT_ZEROS, 0, 0});
    yk_sgd(job, NULL);
    yk_backward(yk_sum(yk_mul(w, w), 1, false));
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk_backward(yk_sum(w, 1, false));
    ck_assert_msg(strstr(yk_error_text(job), "before yk_step: call yk_step(optimizer) after each") != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}
END_TEST

/* Else a loop until a number of steps would not end. */
START_TEST(an_epoch_without_a_batch_is_an_error)
{
    char spec[] = "text:/tmp/yoke-few-XXXXXX";
    const int fd = mkstemp(spec + 5);
    ck_assert_int_eq(write(fd, "abcdef", 6), 6);
    close(fd);
    yk_job *job = yk_open(&(yk_config){.quiet = true, .devices = "cpu:0"});
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.tokenizer = "bytes", .seq_len = 1, .global_batch = 64, .whole = true});
    yk_batch b;
    ck_assert_uint_eq(yk_data_batches(data), 0);
    ck_assert(!yk_data_next(data, &b));
    ck_assert_msg(!yk_ok(job) && strstr(yk_error_text(job), "fewer rows than one batch"), "%s", yk_error_text(job));
    yk_close(job);
    unlink(spec + 5);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("refused");
    tcase_add_test(t, a_second_loss_before_a_step);
    tcase_add_test(t, an_epoch_without_a_batch_is_an_error);
    tcase_add_test(t, stages_are_read_as_on_the_command_line);
    tcase_add_test(t, a_struct_without_later_members_is_read_to_its_end);
    tcase_add_test(t, a_shorter_struct_is_filled_to_its_end);
    tcase_add_loop_test(t, a_size_that_is_none, 0, CALLS);
    tcase_add_loop_test(t, a_longer_struct_with_zeros_behind, 0, CALLS);
    tcase_add_loop_test(t, a_longer_struct_with_a_member_set, 0, CALLS);
    tcase_add_test(t, a_job_of_a_newer_struct);
    tcase_add_test(t, a_search_for_batches_without_a_size);
    tcase_add_test(t, scales_that_are_no_scales);
    tcase_add_test(t, a_floor_of_zero_is_meant);
    tcase_add_test(t, names_that_no_file_can_have);
    tcase_add_test(t, first_values_that_are_none);
    tcase_add_test(t, ids_behind_the_table);
    tcase_add_test(t, texts_that_are_null);
    tcase_add_test(t, sampler_of_defaults);
    tcase_add_test(t, a_batch_norm_of_one_value);
    return suite_run("refused", t);
}
