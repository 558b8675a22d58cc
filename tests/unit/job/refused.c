/* SPDX-License-Identifier: Apache-2.0 */
/* A forbidden request of a program is refused at the call, by name. */
#include <check.h>
#include <math.h>
#include <string.h>
#include <stddef.h>
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
                {"zero2", "yk_config.shard zero2: not built yet: gradients are whole on each rank"},
                {"FULL_SHARD", "yk_config.shard FULL_SHARD: not built yet: parameters and gradients are whole"},
                {"zero4", "yk_config.shard zero4: expected state, gradients or params: did you mean zero"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .shard = rows[i].word});
        ck_assert_msg(!rows[i].text ? yk_ok(job) : strstr(yk_error_text(job), rows[i].text) != NULL, "%s", yk_error_text(job));
        ck_assert_int_eq(yk_close(job), rows[i].text ? 2 : 0);
    }
}
END_TEST

yk_job *open_of_old_programs(const void *config) __asm__("yk_open"); /* what a program calls that was built before yk_config.shard */

START_TEST(a_struct_without_later_members_is_read_to_its_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = offsetof(yk_config, shard);
    char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const yk_config config = {.devices = "cpu:0", .quiet = true, .accumulate = 3};
    ck_assert(two != MAP_FAILED && !mprotect(two + page, page, PROT_NONE));
    memcpy(two + page - bytes, &config, bytes);
    yk_job *job = open_of_old_programs(two + page - bytes);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_uint_eq(job->config.accumulate, 3);
    ck_assert_int_eq(yk_close(job), 0);
    munmap(two, 2 * page);
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

int main(void)
{
    TCase *t = tcase_create("refused");
    tcase_add_test(t, stages_are_read_as_on_the_command_line);
    tcase_add_test(t, a_struct_without_later_members_is_read_to_its_end);
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
