/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for inference: it computes the bits of a job that can train, holds nothing of a training, and its plans stay few while a server
 * sees many lengths. Calls of a training are errors that say so.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/run.h"
#include <yoke/yoke.h>

#define VOCAB 512
#define WIDE "vocab_size=512,n_positions=256,n_embd=256,n_layer=4,n_head=4" /* 3.4 million parameters */
#define SMALL "vocab_size=512,n_positions=256,n_embd=32,n_layer=1,n_head=2"

static yk_job *job_open(const char *devices, bool inference, uint32_t plans)
{
    yk_job *job = yk_open(&(yk_config){.devices = devices, .quiet = true, .inference = inference, .plans_most = plans});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert(yk_training(job) == !inference);
    return job;
}

/* The logits of `length` tokens. */
static void tokens_forward(yk_job *job, yk_model *model, int64_t length, float *logits)
{
    const int64_t dim[2] = {1, length};
    int32_t id[256];
    for (int64_t i = 0; i < length; i++)
        id[i] = (int32_t)(i * 31 % VOCAB);
    yk_train(job, false);
    yk_batch batch = {.input_ids = yk_input(job, YK_I32, 2, dim, id), .rows = 1, .global_rows = 1, .width = length};
    yk_read(yk_forward(model, &batch), logits, (size_t)length * VOCAB * sizeof *logits);
    yk_end(job);
    ck_assert_msg(yk_ok(job), "length %lld: %s", (long long)length, yk_error_text(job));
}

static void step_once(yk_job *job, yk_model *model)
{
    static const int32_t id[64];
    const int64_t dim[2] = {1, 64};
    yk_opt *opt = yk_adamw(job, NULL);
    yk_train(job, true);
    yk_batch batch = {.input_ids = yk_input(job, YK_I32, 2, dim, id), .labels = yk_input(job, YK_I32, 2, dim, id), .rows = 1,
                      .global_rows = 1, .width = 64};
    yk_backward(yk_model_loss(model, &batch, yk_forward(model, &batch)));
    yk_step(opt);
    yk_sync(job);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
}

START_TEST(nothing_of_a_training_is_held)
{
    static float want[64 * VOCAB], got[64 * VOCAB];
    yk_memory plain, trained, lean;
    yk_job *job = job_open("cpu:0", false, 0);
    yk_model *model = yk_model_new(job, "gpt2", WIDE, NULL);
    const uint64_t weights = yk_model_num_parameters(model) * sizeof(float);
    tokens_forward(job, model, 64, want);
    yk_memory_get(job, &plain);
    step_once(job, model);
    yk_memory_get(job, &trained);
    ck_assert_int_eq(yk_close(job), 0);

    job = job_open("cpu:0", true, 0);
    model = yk_model_new(job, "gpt2", WIDE, NULL);
    tokens_forward(job, model, 64, got);
    yk_memory_get(job, &lean);
    ck_assert_int_eq(yk_close(job), 0);

    printf("# weights of %.1f MB: peak %.1f MB trained, %.1f MB only evaluated, %.1f MB for inference\n", (double)weights / 1e6,
           (double)trained.peak / 1e6, (double)plain.peak / 1e6, (double)lean.peak / 1e6);
    ck_assert_int_eq(memcmp(want, got, sizeof want), 0);
    ck_assert_uint_ge(plain.grads, weights);
    ck_assert_uint_eq(lean.grads, 0);
    ck_assert_uint_eq(lean.state, 0);
    ck_assert_uint_eq(lean.shared, 0);
    ck_assert_uint_le(lean.peak + weights, plain.peak);
    ck_assert_uint_le(lean.peak + 3 * weights, trained.peak);
}
END_TEST

/* Ranks of one host in shared memory, and by messages: no block for the exchange of gradients. */
static int rank_evaluates(void *argument)
{
    static float logits[64 * VOCAB];
    yk_memory held;
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0 cpu:0", .quiet = true, .inference = true});
    yk_model *model = yk_model_new(job, "gpt2", SMALL, NULL);
    tokens_forward(job, model, 64, logits);
    yk_memory_get(job, &held);
    const uint64_t hash = yk_param_hash(job);
    FILE *note = fopen(argument, "a");
    fprintf(note, "rank holds %d %d %d, hash %d\n", (int)held.grads, (int)held.state, (int)held.shared, hash != 0);
    fclose(note);
    return yk_close(job);
}

static void ranks_hold_nothing(const char *transport)
{
    char path[] = "/tmp/yoke-inference-XXXXXX", text[2048] = "";
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    if (transport)
        setenv("YOKE_TRANSPORT", transport, 1);
    ck_assert_int_eq(yk_launch_ranks(2, "cpu:0 cpu:0", rank_evaluates, path), 0);
    ck_assert_int_gt(read(fd, text, sizeof text - 1), 0);
    close(fd);
    unlink(path);
    ck_assert_str_eq(text, "rank holds 0 0 0, hash 1\nrank holds 0 0 0, hash 1\n");
}

START_TEST(ranks_exchange_no_gradients)
{
    ranks_hold_nothing(NULL);
    ranks_hold_nothing("local");
}
END_TEST

/* The rank that empties the pipe is for inference. */
static int rank_differs(void *argument)
{
    char byte;
    int *pipes = argument;
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0 cpu:0", .quiet = true, .inference = read(pipes[0], &byte, 1) == 1});
    const char *text = yk_error_text(job);
    const bool named = strstr(text, "yk_config.inference is ") && strstr(text, "set on rank 0") && strstr(text, "set on rank 1");
    if (write(pipes[3], named ? "y" : "n", 1) != 1)
        return 9;
    return yk_close(job);
}

START_TEST(unequal_ranks_are_reported)
{
    int pipes[4];
    char said[2] = "";
    ck_assert(!pipe(pipes) && !pipe(pipes + 2) && write(pipes[1], "i", 1) == 1);
    close(pipes[1]); /* by the ranks' copies it ends too: the second one reads nothing */
    ck_assert_int_ne(yk_launch_ranks(2, "cpu:0 cpu:0", rank_differs, pipes), 0);
    ck_assert_int_eq(read(pipes[2], said, 2), 2);
    ck_assert_msg(said[0] == 'y' && said[1] == 'y', "%.2s", said);
}
END_TEST

/* Resident bytes of this process. */
static double resident_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert(f && fscanf(f, "%*d %ld", &pages) == 1);
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

START_TEST(plans_stay_few_over_many_lengths)
{
    static float logits[256 * VOCAB];
    yk_memory few, many;
    yk_job *job = job_open("cpu:0", true, 8);
    yk_model *model = yk_model_new(job, "gpt2", SMALL, NULL);
    tokens_forward(job, model, 256, logits); /* the longest: memory that depends on the length grows now */
    for (int64_t length = 1; length <= 40; length++)
        tokens_forward(job, model, length, logits);
    yk_memory_get(job, &few);
    const double before = resident_bytes();
    for (int64_t length = 41; length <= 240; length++)
        tokens_forward(job, model, length, logits);
    yk_memory_get(job, &many);
    const double grown = resident_bytes() - before;
    printf("# %llu plans of %.2f MB after 40 lengths, %llu of %.2f MB after 240; the process grew by %.2f MB\n",
           (unsigned long long)few.plans, (double)few.plan_bytes / 1e6, (unsigned long long)many.plans, (double)many.plan_bytes / 1e6,
           grown / 1e6);
    ck_assert_uint_eq(few.plans, 8);
    ck_assert_uint_eq(many.plans, 8);
    ck_assert_uint_eq(many.peak, few.peak);
    if (!strcmp(YK_SANITIZER, "none"))
        ck_assert_double_lt(grown, 4e6);
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

/* In a cycle that fits nothing is planned again: the plan used longest ago is dropped. */
START_TEST(the_plan_used_longest_ago_goes)
{
    static float logits[256 * VOCAB];
    static const int64_t lengths[] = {1, 2, 3, 4, 1, 5, 1, 6, 1, 7, 1};
    yk_memory held;
    yk_job *job = job_open("cpu:0", true, 4);
    yk_model *model = yk_model_new(job, "gpt2", SMALL, NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        tokens_forward(job, model, lengths[i], logits);
    yk_memory_get(job, &held);
    ck_assert_uint_eq(held.plans, 4);
    ck_assert_uint_eq(held.plans_made, 7); /* one for each length: 1 never went */
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

static void job_refused(yk_job *job, const char *words, int code)
{
    ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
    ck_assert_msg(strstr(yk_error_text(job), words) && strstr(yk_error_text(job), "inference.c:"), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), code);
}

START_TEST(calls_of_a_training_say_so)
{
    float v = 0;
    yk_job *job = job_open("cpu:0", true, 0);
    yk_t w = yk_param(job, "w", 1, (const int64_t[]){4}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_backward(yk_mean(yk_mul(w, w), 1, false));
    job_refused(job, "yk_backward: this job is for inference", 2);
    job = job_open("cpu:0", true, 0);
    ck_assert_ptr_null(yk_adamw(job, NULL));
    job_refused(job, "an optimizer: this job is for inference", 2);
    job = job_open("cpu:0", true, 0);
    yk_step(NULL);
    job_refused(job, "yk_step: this job is for inference", 2);
    job = job_open("cpu:0", true, 0);
    w = yk_param(job, "w", 1, (const int64_t[]){1}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_grad_read(w, &v, 1);
    job_refused(job, "yk_grad_read: this job is for inference", 2);
    job = job_open("cpu:0", true, 0);
    w = yk_param(job, "w", 1, (const int64_t[]){1}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_freeze(w, false);
    job_refused(job, "yk_freeze: this job is for inference", 2);
}
END_TEST

static void config_refused(const yk_config *config, const char *words)
{
    yk_job *job = yk_open(config);
    ck_assert_msg(strstr(yk_error_text(job), words), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}

START_TEST(settings_of_a_training_are_refused)
{
    config_refused(&(yk_config){.devices = "cpu:0", .quiet = true, .inference = true, .local_sgd_steps = 2}, "local_sgd_steps");
    config_refused(&(yk_config){.devices = "cpu:0", .quiet = true, .inference = true, .power_sgd_rank = 2}, "power_sgd_rank");
    config_refused(&(yk_config){.devices = "cpu:0", .quiet = true, .inference = true, .offload = "state=host"}, "offload \"state=host\"");
    config_refused(&(yk_config){.devices = "cpu:0", .quiet = true, .plans_most = 3}, "plans_most is 3: expected 4 or more");
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("inference");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, nothing_of_a_training_is_held);
    tcase_add_test(t, ranks_exchange_no_gradients);
    tcase_add_test(t, unequal_ranks_are_reported);
    tcase_add_test(t, plans_stay_few_over_many_lengths);
    tcase_add_test(t, the_plan_used_longest_ago_goes);
    tcase_add_test(t, calls_of_a_training_say_so);
    tcase_add_test(t, settings_of_a_training_are_refused);
    return suite_run("job_inference", t);
}
