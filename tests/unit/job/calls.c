/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each public call is a guest. The caller's affinity, signals, floating-point mode, locale, umask, folder and environment are the same
 * before and after it, on each backend, where it succeeds and where it fails. Each backend runs in a process of its own.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/own_state.h"
#include "tests/support/run.h"
#include <yoke/yoke.h>

enum { FAILURES = 7 };

static own_state was, is;
static const char *backend;
static unsigned calls;

/* The call, between two looks at the program's settings. */
#define LOOK(...)                                                                                                      \
    do {                                                                                                               \
        state_take(&was);                                                                                              \
        __VA_ARGS__;                                                                                                   \
        state_take(&is);                                                                                               \
        states_compare(&was, &is, backend, #__VA_ARGS__);                                                              \
        calls++;                                                                                                       \
    } while (0)

static void signal_note(int sig)
{
    (void)sig;
}

/* Settings that no library would choose by itself. */
static void settings_choose(void)
{
    static const int own[] = {SIGSEGV, SIGFPE, SIGCHLD, SIGPIPE, SIGUSR1, SIGXFSZ};
    sigset_t blocked;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        signal(own[i], signal_note);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    umask(027);
    setlocale(LC_ALL, "C.utf8");
    setenv("POCL_MAX_PTHREAD_COUNT", "7", 1);
    setenv("LP_NUM_THREADS", "3", 1);
}

/* ---- Calls that succeed ---- */

typedef struct work {
    yk_job *job;
    yk_data *data, *test;
    yk_model *net;
    yk_opt *opt;
    yk_sched *sched;
    char folder[64], path[96];
} work;

static const char *path_of(work *w, const char *name)
{
    snprintf(w->path, sizeof w->path, "%s/%s", w->folder, name);
    return w->path;
}

static void folder_make(work *w)
{
    snprintf(w->folder, sizeof w->folder, "/tmp/yoke-calls-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(w->folder));
    FILE *rows = fopen(path_of(w, "rows.txt"), "w");
    for (int i = 0; i < 40; i++)
        fprintf(rows, "the quick brown fox %d jumps over the lazy dog\n", i);
    fclose(rows);
}

static void folder_remove(work *w)
{
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", w->folder);
    ck_assert_int_eq(system(command), 0);
}

/* False: the backend is not there. */
static bool work_open(work *w)
{
    char spec[112];
    snprintf(spec, sizeof spec, "text:%s", path_of(w, "rows.txt"));
    LOOK(w->job = yk_open(&(yk_config){.devices = backend, .quiet = true, .seed = 5}));
    if (!yk_ok(w->job) && strcmp(backend, "cpu")) {
        printf("# skipped: %s: %s\n", backend, yk_error_text(w->job));
        yk_close(w->job);
        return false;
    }
    LOOK(w->data = yk_data_open(w->job, spec, &(yk_data_config){.tokenizer = "char", .global_batch = 4, .seq_len = 8, .eval_split = 0.2}));
    LOOK(w->test = yk_data_open(w->job, spec, &(yk_data_config){.tokenizer = "char", .global_batch = 4, .seq_len = 8, .eval = true,
                                                                .eval_split = 0.2}));
    LOOK(w->net = yk_model_new(w->job, "gpt2", "n_layer=1,n_head=1,n_embd=8,n_positions=8", w->data));
    LOOK(w->opt = yk_adamw(w->job, &(yk_adam_config){.lr = 1e-3}));
    LOOK(w->sched = yk_schedule(w->opt, &(yk_sched_config){.name = "cosine", .total_steps = 9}));
    LOOK(yk_track_open(w->job, path_of(w, "log.jsonl")));
    return true;
}

static void work_step(work *w)
{
    yk_batch batch = YK_EMPTY;
    yk_t logits, loss;
    LOOK(yk_data_next(w->data, &batch));
    LOOK(logits = yk_forward(w->net, &batch));
    LOOK(loss = yk_model_loss(w->net, &batch, logits));
    LOOK(yk_backward(loss));
    LOOK(yk_clip_norm(w->job, 1));
    LOOK(yk_track(w->job, "loss", loss));
    LOOK(yk_step(w->opt));
    LOOK(yk_sched_step(w->sched));
    LOOK(yk_step_loss(w->opt));
    LOOK(yk_grad_norm(w->opt));
    ck_assert_msg(yk_ok(w->job), "%s: %s", backend, yk_error_text(w->job));
}

static void work_evaluate(work *w)
{
    yk_batch batch = YK_EMPTY;
    yk_t loss;
    float value[8];
    LOOK(yk_train(w->job, false));
    LOOK(yk_data_next(w->test, &batch));
    LOOK(loss = yk_model_loss(w->net, &batch, yk_forward(w->net, &batch)));
    LOOK(yk_item(loss));
    LOOK(yk_end(w->job));
    LOOK(yk_train(w->job, true));
    LOOK(yk_param_read(yk_param_find(w->job, "h.0.ln_1.weight"), value, 8));
    LOOK(yk_param_write(yk_param_find(w->job, "h.0.ln_1.weight"), value, 8));
    LOOK(yk_grad_read(yk_param_find(w->job, "h.0.ln_1.weight"), value, 8));
    ck_assert_msg(yk_ok(w->job), "%s: %s", backend, yk_error_text(w->job));
}

static void work_exchange(work *w)
{
    double sum = 1;
    const size_t *sizes;
    yk_memory memory;
    LOOK(yk_barrier(w->job));
    LOOK(yk_all_reduce_sum(w->job, &sum, 1));
    LOOK(yk_gather_object(w->job, "abc", 3, &sizes));
    LOOK(yk_set_trigger(w->job));
    LOOK(yk_check_trigger(w->job));
    LOOK(yk_main_first_begin(w->job, false));
    LOOK(yk_main_first_end(w->job, false));
    LOOK(yk_param_hash(w->job));
    LOOK(yk_memory_get(w->job, &memory));
    LOOK(yk_sync(w->job));
    LOOK(yk_print(w->job, "# %s\n", backend));
    ck_assert_msg(yk_ok(w->job), "%s: %s", backend, yk_error_text(w->job));
}

static void work_save(work *w)
{
    LOOK(yk_save(w->job, path_of(w, "checkpoint")));
    LOOK(yk_load(w->job, path_of(w, "checkpoint")));
    LOOK(yk_model_save(w->net, path_of(w, "model")));
    LOOK(yk_model_load(w->net, path_of(w, "model")));
    LOOK(yk_data_save_tokenizer(w->data, path_of(w, "model")));
    LOOK(yk_trace_begin(w->job));
    work_step(w);
    LOOK(yk_trace_end(w->job, path_of(w, "trace.json")));
    ck_assert_msg(yk_ok(w->job), "%s: %s", backend, yk_error_text(w->job));
}

static void all_succeed(work *w)
{
    if (!work_open(w))
        return;
    work_step(w);
    work_evaluate(w);
    work_exchange(w);
    work_save(w);
    work_step(w);
    int code;
    LOOK(code = yk_close(w->job));
    ck_assert_int_eq(code, 0);
}

/* ---- Calls that fail ---- */

static void fail_once(work *w, int which)
{
    yk_batch batch = YK_EMPTY;
    if (which == 0)
        LOOK(yk_step(NULL));
    else if (which == 1)
        LOOK(yk_load(w->job, path_of(w, "nothing")));
    else if (which == 2)
        LOOK(yk_save(w->job, "/proc/nothing/checkpoint"));
    else if (which == 3)
        LOOK(yk_data_open(w->job, "text:/nothing", &(yk_data_config){.tokenizer = "char"}));
    else if (which == 4)
        LOOK(yk_model_save(w->net, "/proc/nothing"));
    else if (which == 5)
        LOOK(yk_cancel(w->job));
    else
        LOOK(yk_backward(yk_constant(w->job, 1)));
    LOOK(yk_data_next(w->data, &batch)); /* the calls of a failed job return at once */
    LOOK(yk_step(w->opt));
    LOOK(yk_sync(w->job));
    ck_assert_msg(!yk_ok(w->job), "%s: failure %d is none", backend, which);
}

/* The device refuses memory in the middle of a step. */
static void fail_for_memory(void)
{
    yk_job *job;
    LOOK(job = yk_open(&(yk_config){.devices = backend, .quiet = true, .memory_limit = 100000}));
    const yk_t w = yk_param(job, "w", 2, (const int64_t[]){512, 512}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    LOOK(yk_backward(yk_mean(yk_mul(w, w), 3, false)));
    LOOK(yk_step(opt));
    LOOK(yk_sync(job));
    ck_assert(!yk_ok(job));
    LOOK(yk_close(job));
}

static void all_fail(work *w)
{
    static const char *const bad[] = {"cpu:4095", "nothing:0", "opencl:99", "vulkan:99", "cuda:99", "pjrt:99"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        LOOK(w->job = yk_open(&(yk_config){.devices = bad[i], .quiet = true}));
        ck_assert_msg(!yk_ok(w->job), "%s", bad[i]);
        LOOK(yk_close(w->job));
    }
    for (int i = 0; i < FAILURES && work_open(w); i++) {
        work_step(w);
        fail_once(w, i);
        LOOK(yk_close(w->job));
    }
    fail_for_memory();
}

static void line_drop(void *user, const char *line)
{
    (void)user;
    (void)line;
}

static void calls_look(const char *devices)
{
    work w = {0};
    backend = devices;
    settings_choose();
    yk_set_log(line_drop, NULL); /* the messages of calls that are to fail */
    folder_make(&w);
    all_succeed(&w);
    all_fail(&w);
    folder_remove(&w);
    printf("# %s: %u calls\n", backend, calls);
}

START_TEST(cpu_calls_are_guests)
{
    calls_look("cpu");
}
END_TEST

START_TEST(opencl_calls_are_guests)
{
    calls_look("opencl:0@0");
}
END_TEST

START_TEST(vulkan_calls_are_guests)
{
    calls_look("vulkan:0@0");
}
END_TEST

START_TEST(cuda_calls_are_guests)
{
    cuda_fakes_use();
    calls_look("cuda:0");
}
END_TEST

START_TEST(pjrt_calls_are_guests)
{
    calls_look("pjrt:0");
}
END_TEST

/* ---- Calls that start processes ---- */

static int rank_run(void *argument)
{
    (void)argument;
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    return yk_close(job);
}

static void batch_plan(yk_job *job, uint32_t batch, void *user)
{
    (void)user;
    yk_data *none = NULL;
    yk_model *net = yk_model_new(job, "mlp", "input_size=4,hidden=4,num_labels=2", none);
    float x[64 * 4] = {0};
    yk_batch given = {.rows = batch, .global_rows = batch};
    given.x = yk_input(job, YK_F32, 2, (const int64_t[]){batch, 4}, x);
    yk_item(yk_mean(yk_forward(net, &given), 3, false));
    yk_end(job);
}

START_TEST(launches_are_guests)
{
    int code;
    backend = "cpu:0";
    settings_choose();
    LOOK(code = yk_launch_ranks(2, "cpu:0", rank_run, NULL));
    ck_assert_int_eq(code, 0);
    LOOK(code = yk_launch_ranks(2, "nothing:0", rank_run, NULL));
    ck_assert_int_eq(code, 2);
    uint32_t batch;
    LOOK(batch = yk_find_batch_size(&(yk_config){.devices = "cpu:0", .quiet = true}, 64, batch_plan, NULL));
    ck_assert_uint_eq(batch, 64);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("calls");
    unsetenv("YOKE_DEVICES");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, cpu_calls_are_guests);
    tcase_add_test(t, opencl_calls_are_guests);
    tcase_add_test(t, vulkan_calls_are_guests);
    tcase_add_test(t, cuda_calls_are_guests);
    tcase_add_test(t, pjrt_calls_are_guests);
    tcase_add_test(t, launches_are_guests);
    return suite_run("job_calls", t);
}
