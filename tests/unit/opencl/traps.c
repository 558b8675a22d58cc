/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage by drivers to a process, and the plugin's protection. Each case is a fresh process with its own environment (a driver is never
 * used across a fork).
 */
#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/opencl_kit.h"

static const char *self;
static volatile sig_atomic_t seen;

static void on_signal(int s)
{
    (void)s;
    seen++;
}

/* y = x + x on the first device */
static int device_runs(void)
{
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, 100), y = KIT(k, YK_F32, 100);
    kit_random(k, x, -1, 1);
    kit_node(k, YK_OP_ADD, KIT_IDS(x, x), KIT_IDS(y), NULL, 0);
    int bad = ok_run(k) != YK_OK;
    for (int i = 0; i < 100; i++)
        bad |= kit_get(k, y, i) != 2 * kit_get(k, x, i);
    kit_free(k);
    return bad;
}

/* ---- In the child: exit status = number of devices, 100 + something on failure ---- */

static int child_count(void)
{
    plugin_host_cache = getenv("TRAP_CACHE");
    int n = ok_start(0);
    return n < 0 ? 100 : n > 0 && device_runs() ? 101 : n;
}

static int child_signals(void)
{
    static const int list[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGFPE, SIGSEGV, SIGABRT};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        signal(list[i], on_signal);
    int n = child_count();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct sigaction a;
        sigaction(list[i], NULL, &a);
        if (a.sa_handler != on_signal)
            return 102;
    }
    raise(SIGUSR1);
    raise(SIGTERM);
    return seen == 2 ? n : 103;
}

static int child_damaged(void)
{
    char path[700];
    plugin_host_cache = getenv("TRAP_CACHE");
    plugin_host_option("BINARIES", "1");
    if (ok_start(0) < 1 || device_runs())
        return 100;
    ok_stop();
    snprintf(path, sizeof path, "for f in %s/ocl-*.bin; do printf x | dd of=$f bs=1 seek=100 conv=notrunc 2>/dev/null; done",
             plugin_host_cache);
    plugin_host_text[0] = 0;
    if (system(path) || ok_start(0) < 1 || device_runs())
        return 104;
    return strstr(plugin_host_text, "damaged") ? 1 : 105;
}

static int child_cores(void)
{
    plugin_host_option("CORES", "0");
    yk_device_caps caps = {.size = sizeof caps};
    if (ok_start(0) < 1 || device_runs() || ok_plugin->device_caps(0, &caps) != YK_OK)
        return 100;
    return caps.units == 1 ? 1 : 106;
}

static void no_kept_answers(void)
{
    char command[200];
    snprintf(command, sizeof command, "rm -f %s/ocl-tried-* %s/ocl-devices-*", plugin_host_cache, plugin_host_cache);
    (void)!system(command);
}

/* A driver that never answers costs its time once, and a line that says so. */
static int child_hang(void)
{
    plugin_host_cache = getenv("TRAP_CACHE");
    plugin_host_option("PROBE_MS", "700");
    for (int i = 0; i < 2; i++) {
        time_t begin = time(NULL);
        plugin_host_text[0] = 0;
        if (ok_start(0) != 0 || time(NULL) - begin > 20)
            return 100;
        if (!strstr(plugin_host_text, i ? "its driver gave no answer in time when tried; that was 0 minutes ago"
                                        : "no answer within 700 ms"))
            return 107;
        ok_stop();
        setenv("OCL_ICD_VENDORS", getenv("TRAP_VENDORS"), 1); /* the plugin has pointed it elsewhere */
    }
    return 0;
}

/* Ends like a killed launcher while the driver is tried; the started processes end too. */
static int child_orphan(void)
{
    plugin_host_cache = "/nonexistent";
    ok_start(0);
    return 100;
}

static bool driver_mapped(void)
{
    char line[600];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        found = found || strstr(line, "libpocl");
    if (f)
        fclose(f);
    return found;
}

/* Asks twice, in separate processes: what = 0 no answer is kept, 1 one is kept, 2 it is damaged, 3 out of date. */
static int child_kept(int what)
{
    yk_device_caps caps = {.size = sizeof caps};
    char command[300];
    plugin_host_cache = getenv("TRAP_CACHE");
    if (what == 0)
        no_kept_answers();
    snprintf(command, sizeof command,
             "for f in %s/ocl-devices-*.bin; do printf x | dd of=$f bs=1 seek=%d conv=notrunc 2>/dev/null; done", plugin_host_cache,
             700);
    if ((what == 2 && system(command)) || (what == 3 && system("touch \"$OCL_ICD_VENDORS/pocl.icd\"")))
        return 108;
    if (ok_start(100) != 1 || ok_plugin->device_caps(0, &caps) != YK_OK || !caps.name[0] || !(caps.flags & YK_CAP_CPU))
        return 100;
    if (driver_mapped() != (what != 1))
        return 109;
    if (ok_plugin->device_open(0, &ok_device) != YK_OK || device_runs())
        return 101;
    return driver_mapped() ? 1 : 110;
}

/*
 * Images in turn of two kinds, convolved by two threads: all results of a kind are alike. A kernel function that is not
 * inlined into its kernel has the kernel's local arrays at fixed addresses, which PoCL's threads then share.
 */
static int child_threads(void)
{
    enum { N = 96, C = 16, S = 16, PLANE = S * S * C };
    static double image[N * PLANE];
    plugin_host_cache = getenv("TRAP_CACHE");
    if (ok_start(0) < 1)
        return 100;
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, N, C, S, S), w = KIT(k, YK_F32, C, C, 3, 3), y = KIT(k, YK_F32, N, C, S, S);
    for (int i = 0; i < N * PLANE; i++)
        image[i] = i < 2 * PLANE ? kit_random_unit() : image[i - 2 * PLANE];
    kit_set(k, x, image);
    kit_random(k, w, -1, 1);
    kit_node(k, YK_OP_CONV2D, KIT_IDS(x, w), KIT_IDS(y), KIT_ATTR(1, 1, 1, 1, 1, 1, 1));
    int bad = !ok_claims(k, 0);
    for (int run = 0; run < 10 && !bad; run++) {
        bad = ok_run(k) != YK_OK;
        for (int i = 2 * PLANE; i < N * PLANE && !bad; i++)
            bad = kit_get(k, y, i) != kit_get(k, y, i - 2 * PLANE) ? 2 : 0;
    }
    kit_free(k);
    return bad ? 106 + bad : 1;
}

/* ---- In the parent ---- */

static int run_child(const char *mode, char *const *settings)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (; *settings; settings++)
            putenv(*settings);
        execl(self, self, mode, (char *)NULL);
        _exit(127); /* child that could not start */
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

/* Processes whose environment names a folder of this test. */
static bool process_with(const char *setting)
{
    char text[300];
    snprintf(text, sizeof text, "grep -qs -- '%s' /proc/[0-9]*/environ", setting);
    return system(text) == 0;
}

static bool process_comes(const char *setting, bool there, double seconds)
{
    for (int i = 0; i < seconds * 50; i++, nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL))
        if (process_with(setting) == there)
            return true;
    return false;
}

#define RUN(mode, ...) run_child(mode, (char *[]){__VA_ARGS__, NULL})

static char folder[] = "/tmp/yoke-traps-XXXXXX", cache[64], bad_setting[128], cache_setting[96];
static char hang_setting[128], hang_again[128], one_setting[128];

static void folder_make(void)
{
    char text[1200];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(cache, sizeof cache, "%s/cache", folder);
    mkdir(cache, 0700);
    snprintf(cache_setting, sizeof cache_setting, "TRAP_CACHE=%s", cache);
    snprintf(hang_setting, sizeof hang_setting, "OCL_ICD_VENDORS=%s/hang", folder);
    snprintf(hang_again, sizeof hang_again, "TRAP_VENDORS=%s/hang", folder);
    snprintf(one_setting, sizeof one_setting, "OCL_ICD_VENDORS=%s/one", folder);
    snprintf(bad_setting, sizeof bad_setting, "OCL_ICD_VENDORS=%s/vendors", folder);
    const char *build = getenv("YOKE_BUILD");
    snprintf(text, sizeof text,
             "cd %s && mkdir vendors hang one && cp /etc/OpenCL/vendors/pocl.icd vendors/ && cp vendors/pocl.icd one/ && "
             "echo '%s/tests/unit/opencl/.libs/bad_icd.so' > vendors/bad.icd && "
             "echo '%s/tests/unit/opencl/.libs/hang_icd.so' > hang/hang.icd",
             folder, build ? build : ".", build ? build : ".");
    ck_assert_int_eq(system(text), 0);
}

static void folder_remove(void)
{
    char text[100];
    snprintf(text, sizeof text, "rm -rf %s", folder);
    ck_assert_int_eq(system(text), 0);
}

START_TEST(test_no_loader_entry)
{
    ck_assert_int_eq(RUN("count", "OCL_ICD_VENDORS=/nonexistent"), 0);
}
END_TEST

START_TEST(test_no_devices)
{
    ck_assert_int_eq(RUN("count", "POCL_DEVICES="), 0);
}
END_TEST

START_TEST(test_signals)
{
    ck_assert_int_eq(RUN("signals", cache_setting), 1);
}
END_TEST

START_TEST(test_no_user_folder)
{
    unsetenv("POCL_CACHE_DIR");
    ck_assert_int_eq(RUN("count", "HOME=/nonexistent", cache_setting), 1);
    ck_assert_int_eq(RUN("count", "HOME=/nonexistent"), 1);
}
END_TEST

START_TEST(test_aborting_driver)
{
    ck_assert_int_eq(RUN("count", bad_setting, cache_setting), 1);
}
END_TEST

/* The same driver without the trial: the test above is about something. */
START_TEST(test_aborting_driver_untried)
{
    ck_assert_int_eq(RUN("untried", bad_setting, cache_setting), 200 + SIGABRT);
}
END_TEST

START_TEST(test_hanging_driver)
{
    ck_assert_int_eq(RUN("hang", hang_setting, hang_again, cache_setting), 0);
}
END_TEST

START_TEST(test_helper_ends_with_its_parent)
{
    char probed[160];
    snprintf(probed, sizeof probed, "%s/hang.icd", hang_setting);
    ck_assert(!process_with(probed));
    pid_t pid = fork();
    if (pid == 0) {
        putenv(hang_setting);
        execl(self, self, "orphan", (char *)NULL);
        _exit(127); /* child that could not start */
    }
    ck_assert_msg(process_comes(probed, true, 20), "the driver is not tried");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert_msg(process_comes(probed, false, 2), "the helper outlives its parent");
}
END_TEST

START_TEST(test_kept_answers)
{
    ck_assert_int_eq(RUN("kept0", one_setting, cache_setting), 1);
    ck_assert_int_eq(RUN("kept1", one_setting, cache_setting), 1);
    ck_assert_int_eq(RUN("kept2", one_setting, cache_setting), 1);
    ck_assert_int_eq(RUN("kept1", one_setting, cache_setting), 1);
    ck_assert_int_eq(RUN("kept3", one_setting, cache_setting), 1);
    ck_assert_int_eq(RUN("kept1", one_setting, cache_setting), 1);
}
END_TEST

START_TEST(test_damaged_cache)
{
    ck_assert_int_eq(RUN("damaged", cache_setting), 1);
}
END_TEST

START_TEST(test_threads)
{
    ck_assert_int_eq(RUN("threads", cache_setting, "POCL_MAX_PTHREAD_COUNT=2"), 1);
}
END_TEST

START_TEST(test_cores)
{
    ck_assert_int_eq(RUN("cores", cache_setting), 1);
}
END_TEST

static int child_main(const char *mode)
{
    if (!strcmp(mode, "count"))
        return child_count();
    if (!strcmp(mode, "signals"))
        return child_signals();
    if (!strcmp(mode, "damaged"))
        return child_damaged();
    if (!strcmp(mode, "threads"))
        return child_threads();
    if (!strcmp(mode, "cores"))
        return child_cores();
    if (!strcmp(mode, "hang"))
        return child_hang();
    if (!strcmp(mode, "orphan"))
        return child_orphan();
    if (!strncmp(mode, "kept", 4))
        return child_kept(atoi(mode + 4));
    plugin_host_option("PROBE", "none");
    return child_count();
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1)
        return child_main(argv[1]);
    if (access("/etc/OpenCL/vendors/pocl.icd", R_OK)) {
        printf("1..0 # SKIP PoCL is not installed\n");
        return 0;
    }
    Suite *s = suite_create("opencl_traps");
    TCase *t = tcase_create("traps");
    tcase_add_unchecked_fixture(t, folder_make, folder_remove);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_no_loader_entry);
    tcase_add_test(t, test_no_devices);
    tcase_add_test(t, test_signals);
    tcase_add_test(t, test_no_user_folder);
    tcase_add_test(t, test_aborting_driver);
    tcase_add_test(t, test_aborting_driver_untried);
    tcase_add_test(t, test_hanging_driver);
    tcase_add_test(t, test_helper_ends_with_its_parent);
    tcase_add_test(t, test_kept_answers);
    tcase_add_test(t, test_damaged_cache);
    tcase_add_test(t, test_cores);
    tcase_add_test(t, test_threads);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_set_tap(r, "-");
    srunner_run_all(r, CK_SILENT);
    srunner_free(r);
    return 0;
}
