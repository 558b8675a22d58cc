/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is not linked to the library opens libyoke.so, trains a job or only selects devices, and closes it, 100 times (a
 * program's plugin does so). The program's settings are its own after each, and threads, descriptors and mappings are no more after the
 * last time than after the second. Nothing allocated stays behind: ASan's report at exit finds a lost block, and without ASan the sum of
 * allocated bytes hardly grows.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/own_state.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"
#include <yoke/yoke.h>

/* GROWTH: bytes a time, in the second half, as malloc's caches fill in the first. A plugin's table left each time was 1,200 or more. */
enum { TIMES = 100, GROWTH = 700 };

typedef struct counts {
    int threads, descriptors, mappings;
} counts;

static int entries_of(const char *folder)
{
    int n = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));)
        n += *entry->d_name != '.';
    if (open)
        closedir(open);
    return n;
}

static counts counts_take(void)
{
    counts now = {.threads = entries_of("/proc/self/task"), .descriptors = entries_of("/proc/self/fd")};
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; maps && (c = getc(maps)) != EOF;)
        now.mappings += c == '\n';
    if (maps)
        fclose(maps);
    return now;
}

static void *library;

static void *symbol_of(const char *name)
{
    void *symbol = dlsym(library, name);
    ck_assert_msg(symbol, "%s: %s", name, dlerror());
    return symbol;
}

#define CALL(function, ...) ((__typeof__((function)) *)symbol_of(#function))(__VA_ARGS__)

/* Without the header's macros, which note the caller's line through a function of the library. */
static void job_train(void)
{
    const yk_config config = {.devices = "cpu", .quiet = true};
    const yk_sgd_config rate = {.lr = 0.1};
    yk_job *job = ((__typeof__((yk_open)) *)symbol_of("yk_open"))(&config, sizeof config);
    const yk_t w = CALL(yk_param, job, "w", 2, (const int64_t[]){8, 8}, (yk_init){YK_INIT_UNIFORM, -1, 1});
    yk_opt *opt = ((__typeof__((yk_sgd)) *)symbol_of("yk_sgd"))(job, &rate, sizeof rate);
    for (int i = 0; i < 2; i++) {
        CALL(yk_backward, CALL(yk_mean, CALL(yk_mul, w, w), 3, false));
        CALL(yk_step, opt);
    }
    ck_assert_msg(CALL(yk_ok, job), "%s", CALL(yk_error_text, job));
    ck_assert_int_eq(CALL(yk_close, job), 0);
}

static void line_drop(void *user, const char *line)
{
    (void)user;
    (void)line;
}

/* Selects devices and trains nothing: in the launcher, in a job that is refused, and in one that is closed. */
static void devices_list(void)
{
    CALL(yk_set_log, line_drop, NULL);
    char *const argv[] = {(char *)(uintptr_t)"/bin/true", NULL};
    const yk_config refused = {.devices = "cpu:4096", .quiet = true};
    ck_assert_int_eq(CALL(yk_launch, "cpu", argv), -1);
    yk_job *job = ((__typeof__((yk_open)) *)symbol_of("yk_open"))(&refused, sizeof refused);
    ck_assert(!CALL(yk_ok, job));
    ck_assert_int_eq(CALL(yk_close, job), 2);
    job = ((__typeof__((yk_open)) *)symbol_of("yk_open"))(&(yk_config){.devices = "cpu", .quiet = true}, sizeof refused);
    ck_assert_ptr_nonnull(CALL(yk_device_name, job, 0));
    ck_assert_int_eq(CALL(yk_close, job), 0);
}

static void (*const uses[])(void) = {job_train, devices_list};

START_TEST(library_opened_and_closed_many_times)
{
    static own_state was, is;
    char path[1024];
    counts second = {0}, last;
    size_t half = 0;
    const char *build = getenv("YOKE_BUILD");
    snprintf(path, sizeof path, "%s/.libs/libyoke.so", build ? build : ".");
    state_take(&was);
    const counts first = counts_take();
    for (int i = 1; i <= TIMES; i++) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        ck_assert_msg(library, "%s", dlerror());
        uses[_i]();
        ck_assert_int_eq(dlclose(library), 0);
        state_take(&is);
        states_compare(&was, &is, "cpu", "after dlclose");
        if (i == 2)
            second = counts_take();
        if (i == TIMES / 2)
            half = mallinfo2().uordblks;
    }
    const long long grown = (long long)mallinfo2().uordblks - (long long)half;
    printf("# allocated bytes grow by %lld a time\n", grown / (TIMES - TIMES / 2));
    last = counts_take();
    printf("# libyoke.so leaves %d threads, %d descriptors, %d mappings after time 2, and %d, %d, %d after time %d\n",
           second.threads - first.threads, second.descriptors - first.descriptors, second.mappings - first.mappings,
           last.threads - first.threads, last.descriptors - first.descriptors, last.mappings - first.mappings, TIMES);
    ck_assert_int_eq(last.threads, first.threads);
    ck_assert_int_eq(last.descriptors, first.descriptors);
    if (!TEST_UNDER_ASAN) /* its allocator keeps freed blocks, and maps more */
        ck_assert_int_le(last.mappings, second.mappings + 8); /* the heap's */
    ck_assert_int_le(grown, GROWTH * (TIMES - TIMES / 2));
}
END_TEST

int main(void)
{
    if (TEST_UNDER_TSAN) {
        printf("1..0 # SKIP TSan's runtime does not follow a library that is closed\n");
        return 0;
    }
    TCase *t = tcase_create("reopened");
    unsetenv("YOKE_DEVICES");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, library_opened_and_closed_many_times, 0, sizeof uses / sizeof uses[0]);
    return suite_run("job_reopened", t);
}
