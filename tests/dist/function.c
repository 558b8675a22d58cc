/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are forks of a program: their inputs and results, the rank whose error ends them, restarts, signals, and refused calls. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yoke/yoke.h>

#include "tests/support/run.h"

#define RANKS 3

typedef struct board { /* memory that the ranks have in common with the test */
    uint32_t world[RANKS];
    double sum[RANKS];
    uint64_t hash[2];
    uint32_t restarts;
    volatile uint64_t steps;
    char said[2048];
} board;

static board *shared;

static void board_make(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void board_free(void)
{
    munmap(shared, sizeof *shared);
}

/* Each gives its number and one; all see the sum. */
static int sum_ranks(void *argument)
{
    board *to = argument;
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    double value = yk_rank(job) + 1;
    yk_all_reduce_sum(job, &value, 1);
    if (yk_ok(job)) {
        to->world[yk_rank(job)] = yk_world_size(job);
        to->sum[yk_rank(job)] = value;
    }
    return yk_close(job);
}

START_TEST(ranks_are_of_one_job_and_share_what_was_there)
{
    ck_assert_int_eq(yk_launch_ranks(RANKS, "cpu:0", sum_ranks, shared), 0);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_uint_eq(shared->world[r], RANKS);
        ck_assert_double_eq(shared->sum[r], 6.0);
    }
}
END_TEST

/* Rank 1 ends badly while the others wait for it. */
static int fail_one(void *argument)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    (void)argument;
    if (yk_rank(job) == 1)
        yk_fail(job, YK_E_ARG, "no such thing");
    else
        yk_barrier(job);
    return yk_close(job);
}

/* Standard error of the call, in shared->said. */
static int call_and_listen(int (*function)(void *), void *argument)
{
    char path[] = "/tmp/yoke-function-XXXXXX";
    const int fd = mkstemp(path), before = dup(2);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    dup2(fd, 2);
    const int code = yk_launch_ranks(RANKS, "cpu:0", function, argument);
    dup2(before, 2);
    close(before);
    const ssize_t n = pread(fd, shared->said, sizeof shared->said - 1, 0);
    shared->said[n > 0 ? n : 0] = 0;
    close(fd);
    return code;
}

START_TEST(error_of_one_ends_all_and_is_named)
{
    const int code = call_and_listen(fail_one, NULL);
    ck_assert_msg(code == 2, "code %d: '%s'", code, shared->said);
    ck_assert_msg(strstr(shared->said, "rank 1") && strstr(shared->said, "no such thing"), "'%s'", shared->said);
}
END_TEST

static int die_by_signal(void *argument)
{
    (void)argument;
    if (atoi(getenv("YOKE_RANK")) == 2)
        raise(SIGKILL);
    pause();
    return 0;
}

START_TEST(death_of_one_ends_all)
{
    ck_assert_int_eq(call_and_listen(die_by_signal, NULL), 1);
    ck_assert_msg(strstr(shared->said, "rank 2 (cpu:0) was killed by signal 9"), "'%s'", shared->said);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}
END_TEST

/* ---- Restarts ---- */

enum { STEPS = 8, SAVED = 3, KILLED = 5 };

/* Rows are each rank's own, so that sums are the same in every run. */
static void train_one(yk_job *job, yk_opt *opt, yk_t weight, int step)
{
    float x[2 * 3];
    const int64_t dim[2] = {2, 3};
    int32_t row[2];
    for (int i = 0; i < 2; i++) {
        row[i] = 2 * (int32_t)yk_rank(job) + i;
        for (int k = 0; k < 3; k++)
            x[3 * i + k] = (float)((row[i] + 1) * (step + 2) * (k + 3) % 7) / 7.0f;
    }
    yk_set_rows(job, 2, row, 2 * RANKS);
    yk_t y = yk_linear(yk_input(job, YK_F32, 2, dim, x), weight, YK_NO);
    yk_backward(yk_mean(yk_mul(y, y), 3, false));
    yk_step(opt);
}

/* `argument` is a folder; "" trains undisturbed. In a restart it goes on from the checkpoint. */
static int train_restarted(void *argument)
{
    const char *folder = argument;
    const int64_t dim[2] = {4, 3};
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 3});
    yk_t weight = yk_param(job, "weight", 2, dim, (yk_init){YK_INIT_NORMAL, 0, 0.5f});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    if (yk_restart_count())
        yk_load(job, folder);
    for (int step = (int)yk_steps(opt) + 1; step <= STEPS && yk_ok(job); step++) {
        if (*folder && step == KILLED && !yk_restart_count() && yk_rank(job) == 1)
            raise(SIGKILL);
        train_one(job, opt, weight, step);
        if (*folder && step == SAVED)
            yk_save(job, folder);
    }
    const uint64_t hash = yk_param_hash(job);
    if (yk_ok(job) && yk_is_main(job)) {
        shared->hash[*folder != 0] = hash;
        shared->restarts = yk_restart_count();
    }
    return yk_close(job);
}

START_TEST(restarted_job_goes_on_from_its_checkpoint)
{
    char folder[] = "/tmp/yoke-restart-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    ck_assert_int_eq(yk_launch_ranks(RANKS, "cpu:0", train_restarted, ""), 0);
    setenv("YOKE_MAX_RESTARTS", "2", 1);
    const int code = call_and_listen(train_restarted, path);
    ck_assert_msg(!code && strstr(shared->said, "rank 1 (cpu:0) was killed by signal 9 (Killed)") &&
                      strstr(shared->said, ": restart 1 of 2"), "'%s'", shared->said);
    ck_assert_uint_eq(shared->restarts, 1);
    ck_assert_uint_ne(shared->hash[0], 0);
    ck_assert_uint_eq(shared->hash[0], shared->hash[1]);
    snprintf(path, sizeof path, "rm -r %s", folder);
    ck_assert_int_eq(system(path), 0);
}
END_TEST

/* Fails by what is no wrong input, in every attempt. */
static int fail_always(void *argument)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    (void)argument;
    if (yk_is_main(job))
        shared->restarts = yk_restart_count();
    if (yk_rank(job) == 1)
        yk_fail(job, YK_E_IO, "the disk is full");
    else
        yk_barrier(job);
    return yk_close(job);
}

START_TEST(restarts_have_an_end)
{
    setenv("YOKE_MAX_RESTARTS", "1", 1);
    ck_assert_int_eq(call_and_listen(fail_always, NULL), 1);
    ck_assert_uint_eq(shared->restarts, 1);
    ck_assert_msg(strstr(shared->said, "the disk is full: restart 1 of 1\n") && strstr(shared->said, "the disk is full, after 1 restart\n"),
                  "'%s'", shared->said);
    shared->restarts = 0;
    ck_assert_int_eq(call_and_listen(fail_one, NULL), 2); /* wrong input */
    ck_assert_msg(!strstr(shared->said, "restart"), "'%s'", shared->said);
}
END_TEST

/* ---- A signal to the program ---- */

static volatile sig_atomic_t asked_to_leave;

static void leave_note(int sig)
{
    (void)sig;
    asked_to_leave = 1;
}

/* Trains until a rank gets the signal, saves that step, and asks to be started again. */
static int train_until_asked(void *argument)
{
    enum { AGAIN = 75 };
    const int64_t dim[2] = {4, 3};
    bool leaves = false;
    signal(SIGTERM, leave_note);
    signal(SIGUSR1, leave_note);
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 3, .shares = "equal"});
    yk_t weight = yk_param(job, "weight", 2, dim, (yk_init){YK_INIT_NORMAL, 0, 0.5f});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    for (int step = 1; yk_ok(job) && !leaves; step++) {
        train_one(job, opt, weight, step);
        if (asked_to_leave)
            yk_set_trigger(job);
        leaves = yk_check_trigger(job);
        shared->steps = yk_steps(opt);
    }
    yk_save(job, argument);
    const uint64_t hash = yk_param_hash(job);
    if (yk_ok(job) && yk_is_main(job))
        shared->hash[0] = hash;
    const int code = yk_close(job);
    return code ? code : AGAIN;
}

/* A process that sends the signal to the program once steps are done. */
static pid_t signal_later(int sig)
{
    const pid_t program = getpid(), sender = fork();
    ck_assert_int_ge(sender, 0);
    if (sender)
        return sender;
    while (shared->steps < STEPS)
        usleep(10000);
    kill(program, sig);
    _exit(0);
}

START_TEST(a_signal_to_the_program_saves)
{
    char folder[] = "/tmp/yoke-ended-XXXXXX", path[64];
    struct stat whole;
    sigset_t before, after;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    const pid_t sender = signal_later(_i ? SIGUSR1 : SIGTERM);
    const int code = call_and_listen(train_until_asked, path);
    ck_assert_msg(code == 75 && strstr(shared->said, "the ranks have left with exit code 75"), "code %d: '%s'", code, shared->said);
    ck_assert_int_eq(waitpid(sender, NULL, 0), sender);
    ck_assert_uint_ne(shared->hash[0], 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 65; i++) /* the signal ends the ranks, not the program, whose mask is its own again */
        ck_assert_int_eq(sigismember(&before, i), sigismember(&after, i));
    snprintf(path, sizeof path, "%s/checkpoint/trainer_state.json", folder);
    ck_assert_int_eq(stat(path, &whole), 0);
    snprintf(path, sizeof path, "rm -r %s", folder);
    ck_assert_int_eq(system(path), 0);
}
END_TEST

/* A signal that the program blocks is pending in a rank, which takes it. */
static int wait_for_signal(void *argument)
{
    sigset_t *set = argument;
    int got = 0;
    shared->steps = STEPS; /* the sender's sign */
    sigwait(set, &got);
    return got == SIGUSR1 ? 0 : 1;
}

START_TEST(ranks_block_what_the_program_blocks)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    const pid_t sender = signal_later(SIGUSR1);
    const int code = call_and_listen(wait_for_signal, &set);
    ck_assert_msg(code == 0, "code %d: '%s'", code, shared->said);
    ck_assert_int_eq(waitpid(sender, NULL, 0), sender);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
END_TEST

START_TEST(call_after_a_job_is_refused)
{
    yk_close(yk_open(&(yk_config){.devices = "cpu:0", .quiet = true}));
    ck_assert_int_eq(call_and_listen(sum_ranks, shared), 2);
    ck_assert_msg(strstr(shared->said, "after yk_open"), "'%s'", shared->said);
    ck_assert_uint_eq(shared->world[0], 0);
}
END_TEST

static int run_suite_function(void)
{
    TCase *t = tcase_create("function");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, board_make, board_free);
    tcase_add_test(t, ranks_are_of_one_job_and_share_what_was_there);
    tcase_add_test(t, error_of_one_ends_all_and_is_named);
    tcase_add_test(t, death_of_one_ends_all);
    tcase_add_test(t, restarted_job_goes_on_from_its_checkpoint);
    tcase_add_test(t, restarts_have_an_end);
    tcase_add_loop_test(t, a_signal_to_the_program_saves, 0, 2);
    tcase_add_test(t, ranks_block_what_the_program_blocks);
    tcase_add_test(t, call_after_a_job_is_refused);
    return suite_run("function", t);
}

int main(void)
{
    unsetenv("YOKE_DEVICES");
    return run_suite_function();
}
