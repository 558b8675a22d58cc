/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a job forks: the child calls nothing, exits with its exit handlers, or starts another program. Children end at once, with
 * their own code, and the parent's job trains to the same bits, also when another thread forks in the middle of its steps.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/own_state.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"
#include <yoke/yoke.h>

enum { STEPS = 60, CODE = 7 };

typedef enum child_kind { CHILD_RESTS, CHILD_LEAVES, CHILD_EXITS, CHILD_STARTS, CHILD_KINDS } child_kind;

static void child_run(child_kind kind)
{
    if (kind == CHILD_RESTS)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    if (kind == CHILD_STARTS)
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    if (kind == CHILD_EXITS)
        exit(CODE); /* handlers of the library, of drivers and of the C library */
    _exit(kind == CHILD_STARTS ? 127 : CODE);
}

/* Waits at most 20 s for the child. */
static void child_end(pid_t child, child_kind kind)
{
    int status = 0;
    for (int i = 0; i < 2000; i++) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        ck_assert_int_ge(ended, 0);
        if (ended == child) {
            ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == CODE, "child of kind %d: status %x", (int)kind, (unsigned)status);
            return;
        }
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    ck_abort_msg("a child of kind %d does not end", (int)kind);
}

static void child_make(int turn)
{
    const child_kind kind = (child_kind)(turn % CHILD_KINDS);
    fflush(NULL);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child)
        child_run(kind);
    child_end(child, kind);
}

static atomic_bool forks_on;

static void *forks_make(void *argument)
{
    for (int turn = 0; atomic_load(&forks_on); turn++) {
        child_make(turn);
        atomic_fetch_add((atomic_int *)argument, 1);
    }
    return NULL;
}

typedef struct trained {
    uint64_t hash;
    atomic_int children;
} trained;

/* The thread that forks has the time for a child of each kind by the last step, on a busy machine too. */
static void children_await(trained *done, int step)
{
    do
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    while (atomic_load(&done->children) < CHILD_KINDS * (step + 1) / STEPS);
}

/* by_thread: another thread forks all the time; else this one after each step, if forks. */
static void job_train(trained *done, const char *devices, bool forks, bool by_thread)
{
    const int64_t dim[2] = {16, 8};
    float v[16 * 8];
    pthread_t thread;
    yk_job *job = yk_open(&(yk_config){.devices = devices, .quiet = true, .seed = 9});
    if (!yk_ok(job) && strcmp(devices, "cpu")) {
        printf("# skipped: %s: %s\n", devices, yk_error_text(job));
        yk_close(job);
        return;
    }
    yk_t w = yk_param(job, "w", 2, (const int64_t[]){8, 8}, (yk_init){YK_INIT_UNIFORM, -1, 1});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    atomic_store(&forks_on, true);
    if (by_thread)
        ck_assert_int_eq(pthread_create(&thread, NULL, forks_make, &done->children), 0);
    for (int step = 0; step < STEPS && yk_ok(job); step++) {
        for (int i = 0; i < 16 * 8; i++)
            v[i] = (float)((i + step) % 7) - 3.0f;
        yk_t y = yk_matmul(yk_input(job, YK_F32, 2, dim, v), w);
        yk_backward(yk_mean(yk_mul(y, y), 3, false));
        yk_step(opt);
        if (forks && !by_thread && step % 4 == 0)
            child_make(atomic_fetch_add(&done->children, 1));
        if (by_thread)
            children_await(done, step);
    }
    atomic_store(&forks_on, false);
    if (by_thread)
        pthread_join(thread, NULL);
    done->hash = yk_param_hash(job);
    ck_assert_msg(yk_ok(job), "%s: %s", devices, yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
}

static const char *const backends[] = {"cpu", "opencl:0@0", "vulkan:0@0", "cuda:0"};

START_TEST(children_do_not_disturb_the_job)
{
    cuda_fakes_use();
    trained undisturbed = {0}, after_steps = {0}, within = {0};
    job_train(&undisturbed, backends[_i], false, false);
    if (!undisturbed.hash)
        return;
    job_train(&after_steps, backends[_i], true, false);
    job_train(&within, backends[_i], true, true);
    printf("# %s: %d children after steps, %d within\n", backends[_i], atomic_load(&after_steps.children),
           atomic_load(&within.children));
    ck_assert_uint_eq(after_steps.hash, undisturbed.hash);
    ck_assert_uint_eq(within.hash, undisturbed.hash);
    ck_assert_int_ge(atomic_load(&within.children), CHILD_KINDS);
}
END_TEST

int main(void)
{
    if (TEST_UNDER_ASAN || TEST_UNDER_TSAN) { /* a child has the runtime's locks of threads that are not there, and reports their memory */
        printf("1..0 # SKIP a sanitizer's runtime is not made for forks of a program with threads\n");
        return 0;
    }
    TCase *t = tcase_create("forks");
    unsetenv("YOKE_DEVICES");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, children_do_not_disturb_the_job, 0, (int)(sizeof backends / sizeof *backends));
    return suite_run("job_forks", t);
}
