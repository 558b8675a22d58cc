/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of a process of one rank (core/job/session/standing.c) in a program of a user's. It ends a process whose compiler hangs, and no
 * process that is stopped, traced, in a file or in its own code. Each case is a child, and all run at once.
 */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/log.h"
#include "tests/support/run.h"
#include <yoke/yoke.h>

#define STUCK_MS "1500"
enum { LIVES_MS = 2600, STOPS = 7, STOP_MS = 400, RUN_MS = 20, CODE = 7 };

static void ms_sleep(int ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000l};
    while (nanosleep(&left, &left))
        ;
}

static void line_hold(void *user, const char *line)
{
    (void)user;
    (void)line;
    ms_sleep(LIVES_MS + 1000); /* the watch waits so long for the log */
}

static void log_held(void)
{
    yk_set_log(line_hold, NULL);
    yk__act_begin(YK__ACT_COMPILE);
    yk__log_line("a line");
}

static void act_hold(yk__act act, int ms)
{
    yk__act_begin(act);
    ms_sleep(ms);
}

static void compiler_hung(void)
{
    act_hold(YK__ACT_COMPILE, 60000);
}

static void compiler_traced(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(3);
    act_hold(YK__ACT_COMPILE, LIVES_MS);
}

static void file_read(void)
{
    act_hold(YK__ACT_FILE, LIVES_MS);
}

static void disk_awaited(void)
{
    act_hold(YK__ACT_SYNC, LIVES_MS);
}

static void call_long(void)
{
    act_hold(YK__ACT_CALL, LIVES_MS);
}

static void own_code(void)
{
    ms_sleep(LIVES_MS);
}

static const struct {
    const char *name;
    void (*run)(void);
    int code;
    bool forked_in_act, stops;
} children[] = {
    {"a compiler hangs", compiler_hung, 1, false, false},
    {"a compiler hangs under a debugger", compiler_traced, CODE, false, false},
    {"the process is stopped in a compilation", compiler_hung, -SIGKILL, false, true},
    {"own code of a child of a process that opened a device", own_code, CODE, true, false},
    {"a log function that takes long, in a compilation", log_held, CODE, false, false},
    {"a read of a file", file_read, CODE, false, false},
    {"a wait for a disk", disk_awaited, CODE, false, false},
    {"a call", call_long, CODE, false, false},
};
enum { CHILDREN = sizeof children / sizeof *children };

/* ready: gets a byte once the job is open. */
static void child_run(int i, int ready)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    if (!yk_ok(job) || write(ready, "", 1) != 1)
        _exit(2);
    children[i].run();
    _exit(CODE);
}

static pid_t child_start(int i, int ready[2])
{
    ck_assert_int_eq(pipe(ready), 0);
    if (children[i].forked_in_act) /* as of a thread that is not in the child */
        yk__act_begin(YK__ACT_OPEN);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child)
        child_run(i, ready[1]);
    if (children[i].forked_in_act)
        yk__act_end(YK__ACT_OPEN);
    close(ready[1]);
    return child;
}

/* As a debugger's `next`: the child runs a twentieth of the time. It is killed at the end. */
static void child_stops(pid_t child)
{
    for (int n = 0; n < STOPS; n++) {
        kill(child, SIGSTOP);
        ms_sleep(STOP_MS);
        kill(child, SIGCONT);
        ms_sleep(RUN_MS);
    }
    kill(child, SIGKILL);
}

START_TEST(only_a_device_that_hangs_ends_the_process)
{
    int ready[CHILDREN][2], status, failed = 0;
    pid_t child[CHILDREN];
    char byte;
    setenv("YOKE_STUCK_MS", STUCK_MS, 1);
    setenv("YOKE_PROBE", "off", 1);
    for (int i = 0; i < CHILDREN; i++)
        child[i] = child_start(i, ready[i]);
    for (int i = 0; i < CHILDREN; i++) {
        const bool is_open = read(ready[i][0], &byte, 1) == 1;
        if (is_open && children[i].stops)
            child_stops(child[i]);
        close(ready[i][0]);
    }
    for (int i = 0; i < CHILDREN; i++) {
        ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : WIFSIGNALED(status) ? -WTERMSIG(status) : -1000;
        if (code != children[i].code)
            fprintf(stderr, "# %s: expected the code %d, got %d\n", children[i].name, children[i].code, code);
        failed += code != children[i].code;
    }
    ck_assert_int_eq(failed, 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("guest_watch");
    unsetenv("YOKE_DEVICES");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, only_a_device_that_hangs_ends_the_process);
    return suite_run("guest_watch", t);
}
