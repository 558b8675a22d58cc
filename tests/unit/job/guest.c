/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job is a guest in its process. Over many jobs on changing devices the caller's affinity, signals, floating-point mode, locale, umask,
 * environment and limits are the same after yk_open, after a step and after yk_close. Threads, descriptors and mappings that a driver
 * leaves behind are printed, and are no more after the last job than after the second one. Each backend runs in a process of its own.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/run.h"
#include <yoke/yoke.h>

extern char **environ;

#define TEXT 65536
#define RESTORER 0x04000000 /* the C library sets it in whatever passes by sigaction() */

/* What a program has set for itself. */
typedef struct own_state {
    cpu_set_t cores;
    sigset_t mask;
    struct sigaction action[65];
    struct rlimit descriptors;
    mode_t umask;
    unsigned mode;
    locale_t thread_locale;
    char locale[256], folder[1024], variables[TEXT];
} own_state;

static unsigned float_mode(void)
{
#if defined __x86_64__
    return __builtin_ia32_stmxcsr() & 0xffc0u; /* not the flags of what was computed */
#elif defined __aarch64__
    unsigned long mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (unsigned)mode;
#else
    return 0;
#endif
}

static void state_take(own_state *state)
{
    size_t at = 0;
    memset(state, 0, sizeof *state);
    sched_getaffinity(0, sizeof state->cores, &state->cores);
    pthread_sigmask(SIG_SETMASK, NULL, &state->mask);
    for (int i = 1; i < 65; i++)
        sigaction(i, NULL, &state->action[i]);
    getrlimit(RLIMIT_NOFILE, &state->descriptors);
    state->umask = umask(0);
    umask(state->umask);
    state->mode = float_mode();
    state->thread_locale = uselocale((locale_t)0);
    snprintf(state->locale, sizeof state->locale, "%s", setlocale(LC_ALL, NULL));
    ck_assert_ptr_nonnull(getcwd(state->folder, sizeof state->folder));
    for (char **variable = environ; *variable; variable++) {
        if (!strncmp(*variable, "CK_", 3))
            continue;
        at += (size_t)snprintf(state->variables + at, TEXT - at, "%s\n", *variable);
        ck_assert(at < TEXT);
    }
}

static void states_compare(const own_state *was, const own_state *is, const char *devices, const char *when)
{
    ck_assert_msg(CPU_EQUAL(&was->cores, &is->cores), "%s, %s: %d cores, %d before", devices, when, CPU_COUNT(&is->cores),
                  CPU_COUNT(&was->cores));
    for (int i = 1; i < 65; i++) {
        ck_assert_msg(sigismember(&was->mask, i) == sigismember(&is->mask, i), "%s, %s: mask of signal %d", devices, when, i);
        ck_assert_msg(was->action[i].sa_handler == is->action[i].sa_handler && (was->action[i].sa_flags | RESTORER) == (is->action[i].sa_flags | RESTORER),
                      "%s, %s: disposition of signal %d", devices, when, i);
    }
    ck_assert_msg(was->umask == is->umask && was->mode == is->mode && was->thread_locale == is->thread_locale, "%s, %s: umask, mode or locale",
                  devices, when);
    ck_assert_msg(!strcmp(was->locale, is->locale) && !strcmp(was->folder, is->folder), "%s, %s: locale or folder", devices, when);
    ck_assert_msg(!strcmp(was->variables, is->variables), "%s, %s: the environment was\n%s\nand is\n%s", devices, when, was->variables,
                  is->variables);
}

/* ---- Leftovers ---- */

typedef struct leftovers {
    long threads, descriptors, mappings, shared;
} leftovers;

static long entries_count(const char *folder)
{
    long n = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));)
        n += *entry->d_name != '.';
    if (open)
        closedir(open);
    return n;
}

static leftovers leftovers_take(void)
{
    leftovers left = {.threads = entries_count("/proc/self/task"), .descriptors = entries_count("/proc/self/fd")};
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        left.mappings++;
        left.shared += strstr(line, "yoke") && (strstr(line, "memfd:") || strstr(line, "/dev/shm"));
    }
    if (maps)
        fclose(maps);
    return left;
}

/* ---- A job ---- */

static void job_step(yk_job *job)
{
    const int64_t dim[2] = {16, 8};
    float v[16 * 8];
    for (int i = 0; i < 16 * 8; i++)
        v[i] = (float)(i % 7) - 3.0f;
    yk_t w = yk_param(job, "w", 2, (const int64_t[]){8, 8}, (yk_init){YK_INIT_UNIFORM, -1, 1});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.01});
    for (int i = 0; i < 2; i++) {
        yk_t y = yk_matmul(yk_input(job, YK_F32, 2, dim, v), w);
        yk_backward(yk_mean(yk_mul(y, y), 3, false));
        yk_step(opt);
    }
}

/* False: the backend is not there. */
static bool job_once(const own_state *was, const char *devices, bool may_miss)
{
    own_state is;
    yk_job *job = yk_open(&(yk_config){.devices = devices, .quiet = true});
    if (may_miss && !yk_ok(job)) {
        printf("# skipped: %s: %s\n", devices, yk_error_text(job));
        yk_close(job);
        return false;
    }
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    state_take(&is);
    states_compare(was, &is, devices, "after yk_open");
    job_step(job);
    ck_assert_msg(yk_ok(job), "%s: %s", devices, yk_error_text(job));
    state_take(&is);
    states_compare(was, &is, devices, "after a step");
    ck_assert_int_eq(yk_close(job), 0);
    state_take(&is);
    states_compare(was, &is, devices, "after yk_close");
    ck_assert_msg(was->descriptors.rlim_cur == is.descriptors.rlim_cur, "%s: the limit of descriptors stays changed", devices);
    return true;
}

/* Every other job is on the processor, with one core and with another. */
static void jobs_run(const char *devices)
{
    static own_state was;
    const int jobs = getenv("YOKE_TEST_LONG") ? 100 : 12;
    const char *turn[] = {devices, "cpu:0", devices, "cpu"};
    leftovers first, second = {0}, last;
    signal(SIGUSR2, SIG_IGN);
    setenv("POCL_MAX_PTHREAD_COUNT", "7", 1);
    state_take(&was);
    first = leftovers_take();
    for (int i = 0; i < jobs; i++) {
        if (!job_once(&was, turn[i % 4], i == 0))
            return;
        if (i == 1)
            second = leftovers_take();
    }
    last = leftovers_take();
    printf("# %s leaves %ld threads, %ld descriptors, %ld mappings after job 2, and %ld, %ld, %ld after job %d\n", devices,
           second.threads - first.threads, second.descriptors - first.descriptors, second.mappings - first.mappings,
           last.threads - first.threads, last.descriptors - first.descriptors, last.mappings - first.mappings, jobs);
    ck_assert_int_eq(last.shared, 0);
    ck_assert_int_le(last.threads, second.threads);
    ck_assert_int_le(last.descriptors, second.descriptors);
    ck_assert_int_le(last.mappings, second.mappings + 8); /* the heap's and a pool's own */
    if (!strncmp(devices, "cpu", 3)) {
        ck_assert_int_eq(last.threads, first.threads);
        ck_assert_int_eq(last.descriptors, first.descriptors);
    }
}

START_TEST(cpu_gives_all_back)
{
    jobs_run("cpu:0");
}
END_TEST

START_TEST(opencl_gives_all_back)
{
    jobs_run("opencl:0@0");
}
END_TEST

START_TEST(vulkan_gives_all_back)
{
    jobs_run("vulkan:0@0");
}
END_TEST

START_TEST(cuda_gives_all_back)
{
    static const char *const names[][2] = {{"DRIVER", "cuda"}, {"NVRTC", "nvrtc"}, {"NCCL", "nccl"}, {"CUBLASLT", "cublaslt"}, {"CUDNN", "cudnn"}};
    const char *build = getenv("YOKE_BUILD");
    unsetenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < 5; i++) {
        char name[40], path[1024];
        snprintf(name, sizeof name, "YOKE_CUDA_%s", names[i][0]);
        snprintf(path, sizeof path, "%s/tests/fakes/.libs/fake_%s.so", build ? build : ".", names[i][1]);
        setenv(name, path, 1);
    }
    jobs_run("cuda:0");
}
END_TEST

START_TEST(pjrt_gives_all_back)
{
    jobs_run("pjrt:0");
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("guest");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, cpu_gives_all_back);
    tcase_add_test(t, opencl_gives_all_back);
    tcase_add_test(t, vulkan_gives_all_back);
    tcase_add_test(t, cuda_gives_all_back);
    tcase_add_test(t, pjrt_gives_all_back);
    return suite_run("job_guest", t);
}
