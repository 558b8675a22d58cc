/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage by drivers to a process, as tests/unit/opencl/traps.c: signal handlers from before a driver was loaded are still there after it
 * has compiled and run. Each case is a separate process.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/opencl_kit.h"
#include "tests/support/run.h"

static volatile sig_atomic_t seen;

static void on_signal(int s)
{
    (void)s;
    seen++;
}

/* y = x + x on the first device */
static void device_runs(void)
{
    kit *k = kit_new();
    const uint32_t x = KIT(k, YK_F32, 100), y = KIT(k, YK_F32, 100);
    kit_random(k, x, -1, 1);
    kit_node(k, YK_OP_ADD, KIT_IDS(x, x), KIT_IDS(y), NULL, 0);
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int i = 0; i < 100; i++)
        ck_assert(kit_get(k, y, i) == 2 * kit_get(k, x, i));
    kit_free(k);
}

START_TEST(handlers_of_signals_stay)
{
    static const int list[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGFPE, SIGSEGV, SIGABRT, SIGILL, SIGBUS};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        signal(list[i], on_signal);
    ok_name = "vulkan";
    ck_assert_int_ge(ok_start(0), 1);
    device_runs();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct sigaction a;
        sigaction(list[i], NULL, &a);
        ck_assert_msg(a.sa_handler == on_signal, "the handler of signal %d is another", list[i]);
        signal(list[i], SIG_DFL);
    }
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    ck_assert_int_eq(seen, 1);
    ok_stop();
}
END_TEST

int main(void)
{
    const char *driver = getenv("VK_DRIVER_FILES");
    if (driver && access(driver, R_OK)) {
        printf("1..0 # SKIP there is no %s\n", driver);
        return 0;
    }
    TCase *t = tcase_create("traps");
    tcase_add_test(t, handlers_of_signals_stay);
    return suite_run("vulkan_traps", t);
}
