/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a device that never finishes, one that computes for long, and one that finishes something now and then. */
#define _GNU_SOURCE /* renameat2 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <yoke/yoke.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

static uint32_t has_advanced(void)
{
    return __atomic_load_n(yk__advance_count(), __ATOMIC_RELAXED);
}

typedef struct wait_case {
    const char *limit;
    int hangs;
    yk_status status;
    double least, most; /* seconds */
    bool advances;
} wait_case;

static const wait_case cases[] = {
    {"300", 0, YK_OK, 0, 5, false},
    {"300", 1, YK_E_DEVICE_LOST, 0.3, 5, false},
    {"100", 2, YK_E_DEVICE_LOST, 0.9, 20, true},
    {"250", 13, YK_OK, 0.4, 20, true},
};

START_TEST(a_wait_ends_at_the_limit)
{
    const wait_case *c = &cases[_i];
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    double took;
    uint32_t before;
    yk_status s;
    setenv("YOKE_STUCK_MS", c->limit, 1);
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    before = has_advanced();
    ref.hangs = c->hangs;
    took = yk__clock_seconds();
    s = yk__device_wait(dev, 1, NULL, &err);
    took = yk__clock_seconds() - took;
    ck_assert_msg(s == c->status, "case %d: %d '%s'", _i, (int)s, err.text);
    ck_assert_msg(took >= c->least && took < c->most, "case %d: %g s", _i, took);
    ck_assert_msg((has_advanced() != before) == c->advances, "case %d", _i);
    ck_assert_uint_eq(ref.aborts, s == YK_E_DEVICE_LOST); /* other waiting threads are told */
    if (s)
        ck_assert_msg(strstr(err.text, "has finished nothing for 0.") && strstr(err.text, "ref:0"), "%s", err.text);
    yk__device_close(dev);
}
END_TEST

/* No limit: only another rank's error ends the wait. */
START_TEST(without_a_limit)
{
    const volatile int cancel = 1;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    setenv("YOKE_LIVENESS_MS", "0", 1);
    ck_assert_uint_eq(yk__stuck_ms(), 0);
    setenv("YOKE_STUCK_MS", "50", 1);
    ck_assert_uint_eq(yk__stuck_ms(), 50);
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    ref.hangs = 1;
    ck_assert_int_eq(yk__device_wait(dev, 1, &cancel, &err), YK_E_CANCELLED);
    ref.hangs = 0;
    yk__device_close(dev);
}
END_TEST

/* A driver that takes signals over when its device is opened: the program has them back. */
START_TEST(signals_stay_with_the_program)
{
    struct sigaction before, now;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    sigset_t mask;
    ref.takes_signals = true;
    sigaction(SIGTERM, NULL, &before);
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    ref.takes_signals = false;
    ck_assert(!sigaction(SIGTERM, NULL, &now) && now.sa_handler == before.sa_handler);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ck_assert(!sigismember(&mask, SIGUSR1));
    yk__device_close(dev);
}
END_TEST

/* 20 times the longest of its kind, 30 s at least, YOKE_STUCK_MS at most; a disk that was never waited for has the latter. */
START_TEST(patience_follows_what_was_seen)
{
    ck_assert_uint_eq(yk__act_patience_ms(YK__ACT_DEVICE, 30000, 600000, 0), 30000);
    ck_assert_uint_eq(yk__act_patience_ms(YK__ACT_COMPILE, 30000, 600000, 4000), 80000);
    ck_assert_uint_eq(yk__act_patience_ms(YK__ACT_COMPILE, 30000, 600000, 40000), 600000);
    ck_assert_uint_eq(yk__act_patience_ms(YK__ACT_SYNC, 30000, 600000, 0), 600000);
    ck_assert_uint_eq(yk__act_patience_ms(YK__ACT_SYNC, 30000, 600000, 2000), 40000);
    ck_assert_uint_eq(yk__act_patience_ms(YK__ACT_DEVICE, 0, 5000, 9000), 5000); /* it is set */
    ck_assert_uint_eq(yk__act_patience_ms(YK__ACT_DEVICE, 30000, 0, 9000), 0);   /* never */
    ck_assert_uint_eq(yk__act_busy_ms(YK__ACT_COMPILE, 30000, 600000), 300000);
    ck_assert_uint_eq(yk__act_busy_ms(YK__ACT_CALL, 80000, 600000), 600000);
    ck_assert_uint_eq(yk__act_busy_ms(YK__ACT_FILE, 30000, 600000), 30000); /* another thread computes */
    ck_assert_uint_eq(yk__act_busy_ms(YK__ACT_OPEN, 5000, 5000), 5000); /* it is set */
    ck_assert_uint_eq(yk__standing_step(200, 200), 200);
    ck_assert_uint_eq(yk__standing_step(500, 200), 80); /* stopped for 450 of 510 ms, a process counts little more than it ran */
    ck_assert_uint_eq(yk__standing_step(60000, 200), 0);
    ck_assert_uint_eq(yk__standing_step(3600000000000, 150000000), 6250);
    unsetenv("YOKE_STUCK_MS");
    ck_assert_uint_eq(yk__call_ms(), 30000);
    setenv("YOKE_STUCK_MS", "600000", 1);
    ck_assert_uint_eq(yk__call_ms(), 0);
}
END_TEST

/* In the place of the C library's: calls that may hang in a file system, while no act says what this process is in. */
static uint32_t own_files;

int rename(const char *from, const char *to)
{
    own_files += yk__act_now() == YK__ACT_OWN;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    own_files += yk__act_now() == YK__ACT_OWN;
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int fsync(int fd)
{
    own_files += yk__act_now() != YK__ACT_SYNC; /* it has a longer limit than the call around it */
    return (int)syscall(SYS_fsync, fd);
}

int mkdir(const char *path, mode_t mode)
{
    own_files += yk__act_now() == YK__ACT_OWN;
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* What hangs in a call of ours is not taken for the program's own code. */
START_TEST(no_call_is_the_programs_own)
{
    const int64_t n = 3;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    char dir[] = "/tmp/yoke-wait-XXXXXX", path[64];
    float value[3] = {0};
    yk_job *job;
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    yk__device_close(dev);
    ck_assert(mkdtemp(dir) != NULL);
    job = yk_open(&(yk_config){.devices = "ref:0", .quiet = true});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ref.own = own_files = 0;
    const yk_t w = yk_param(job, "w", 1, &n, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    for (int i = 0; i < 2; i++) {
        yk_t loss = yk_sum(yk_mul(w, w), 1, false);
        yk_backward(loss);
        yk_step(opt);
        ck_assert(yk_item(loss) > 0);
    }
    yk_param_read(w, value, 3);
    yk_param_write(w, value, 3);
    snprintf(path, sizeof path, "%s/c", dir);
    for (int i = 0; i < 2; i++) /* one that is there is exchanged */
        yk_save(job, path);
    yk_load(job, path);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
    ck_assert_uint_eq(ref.own, 0);
    ck_assert_uint_eq(own_files, 0);
    snprintf(path, sizeof path, "rm -r %s", dir);
    ck_assert_int_eq(system(path), 0);
}
END_TEST

/* A whole job: the error names the device, and closing waits for it no more. */
START_TEST(a_job_ends)
{
    const int64_t n = 3;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    yk_job *job;
    double began;
    setenv("YOKE_STUCK_MS", "300", 1);
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK); /* registers the plugin */
    job = yk_open(&(yk_config){.devices = "ref:0", .quiet = true});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    const yk_t w = yk_param(job, "w", 1, &n, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_t loss = yk_sum(yk_mul(w, w), 1, false);
    yk_backward(loss);
    yk_step(opt);
    ck_assert_msg(yk_item(loss) > 2.9, "%s", yk_error_text(job));
    ref.hangs = 1;
    loss = yk_sum(yk_mul(w, w), 1, false);
    yk_backward(loss);
    yk_step(opt);
    began = yk__clock_seconds();
    yk_item(loss);
    ck_assert_msg(strstr(yk_error_text(job), "ref:0 (reference) has finished nothing") != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 1);
    ck_assert(yk__clock_seconds() - began < 10);
    ref.hangs = 0;
    yk__device_close(dev);
}
END_TEST

/* A plugin leaves work behind after 2 s, and its memory stays from then on; one that ends earlier leaves none. */
START_TEST(a_device_that_runs_on_is_lost)
{
    static const uint32_t leave_ms[] = {0, 500, 2000};
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    ref.leave_ms = leave_ms[_i];
    yk__device_settle(dev);
    ck_assert_int_eq(dev->lost, leave_ms[_i] == 2000);
    ref.leave_ms = 0;
    yk__device_close(dev);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("wait");
    tcase_add_loop_test(t, a_wait_ends_at_the_limit, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, without_a_limit);
    tcase_add_test(t, signals_stay_with_the_program);
    tcase_add_test(t, patience_follows_what_was_seen);
    tcase_add_test(t, no_call_is_the_programs_own);
    tcase_add_test(t, a_job_ends);
    tcase_add_loop_test(t, a_device_that_runs_on_is_lost, 0, 3);
    tcase_set_timeout(t, 60);
    return suite_run("device_wait", t);
}
