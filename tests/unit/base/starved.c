/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose threads get no processor is not taken for one that hangs: its act has ten times the patience. A thread of the lowest
 * class shares a core with a process that computes, so that it is ready, and hardly runs. Neither is a process whose driver has started a
 * compiler that computes, as a child of a child; a call's patience does not depend on children, which may be the program's own.
 */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/base/process/thread_id.h"
#include "tests/support/run.h"

static cpu_set_t core;
static atomic_bool ended;

/* The last core that this process may use. */
static void core_choose(void)
{
    cpu_set_t all;
    ck_assert(!sched_getaffinity(0, sizeof all, &all));
    CPU_ZERO(&core);
    for (int i = CPU_SETSIZE; i--;)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &core);
            return;
        }
}

/* Starts a process that computes, as a child of a child, which waits for it (is_compiler) or has ended. Returns its number. */
static pid_t process_start(bool is_compiler)
{
    int ends[2];
    pid_t number = 0;
    ck_assert(!pipe(ends));
    const pid_t child = fork();
    if (!child) {
        const pid_t parent = getpid();
        number = fork();
        if (number) {
            if (is_compiler)
                waitpid(number, NULL, 0);
            _exit(0);
        }
        alarm(120);
        if (is_compiler)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        number = getpid();
        if ((is_compiler && getppid() != parent) || sched_setaffinity(0, sizeof core, &core) || write(ends[1], &number, sizeof number) < 0)
            _exit(1);
        for (volatile unsigned n = 0;; n++)
            ;
    }
    if (!is_compiler)
        waitpid(child, NULL, 0);
    ck_assert_int_eq(read(ends[0], &number, sizeof number), (int)sizeof number);
    close(ends[0]);
    close(ends[1]);
    return number;
}

static void *thread_compute(void *starts)
{
    sched_setaffinity(0, sizeof core, &core);
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    atomic_store((atomic_bool *)starts, true);
    while (!atomic_load(&ended))
        ;
    return NULL;
}

/* Forty seconds without progress, a second a look. Returns the last patience, in ms. */
static uint32_t patience_get(yk__act act)
{
    yk__standing still = {0};
    uint32_t patience = yk__standing_note(&still, act, 0, 1, 0, YK__CALL_MS, 600000);
    for (int i = 0; i < 40; i++)
        patience = yk__standing_note(&still, act, 0, 1, 1000, YK__CALL_MS, 600000);
    ck_assert_uint_eq(still.ms, 40000);
    return patience;
}

START_TEST(a_process_that_sleeps_hangs)
{
    ck_assert(!yk__process_ready(true));
    ck_assert_uint_eq(patience_get(YK__ACT_OPEN), YK__CALL_MS);
}
END_TEST

START_TEST(a_process_that_waits_for_a_processor_does_not)
{
    atomic_bool starts = false;
    pthread_t thread;
    core_choose();
    const pid_t rival = process_start(false);
    ck_assert(!pthread_create(&thread, NULL, thread_compute, &starts));
    while (!atomic_load(&starts))
        usleep(1000);
    ck_assert(yk__process_ready(false));
    const uint32_t patience = patience_get(YK__ACT_OPEN);
    atomic_store(&ended, true);
    kill(rival, SIGKILL);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(patience, 10 * YK__CALL_MS);
}
END_TEST

START_TEST(a_process_whose_compiler_computes_does_not)
{
    core_choose();
    const pid_t compiler = process_start(true);
    ck_assert(!yk__process_ready(false));
    const uint32_t compiling = patience_get(YK__ACT_COMPILE), calling = patience_get(YK__ACT_CALL);
    kill(compiler, SIGKILL);
    wait(NULL);
    ck_assert_uint_eq(compiling, 10 * YK__CALL_MS);
    ck_assert_uint_eq(calling, YK__CALL_MS);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("starved");
    tcase_add_test(t, a_process_that_sleeps_hangs);
    tcase_add_test(t, a_process_that_waits_for_a_processor_does_not);
    tcase_add_test(t, a_process_whose_compiler_computes_does_not);
    return suite_run("starved", t);
}
