/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job is a guest in its process. Over many jobs on changing devices the caller's affinity, signals, floating-point mode, locale, umask,
 * environment and limits are the same after yk_open, after a step and after yk_close. Threads, descriptors and mappings that a driver
 * leaves behind are printed, and are no more after the last job than after the second one. Each backend runs in a process of its own.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/own_state.h"
#include "tests/support/run.h"
#include <yoke/yoke.h>

#define MEGABYTES 4.0 /* that 88 jobs may add: 45 KB each, of a driver's own */

/* ---- Leftovers ---- */

typedef struct leftovers {
    long threads, descriptors, mappings, shared;
    double megabytes; /* resident, of its own */
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
    long pages[3] = {0};
    FILE *memory = fopen("/proc/self/statm", "r");
    if (memory && fscanf(memory, "%ld %ld %ld", &pages[0], &pages[1], &pages[2]) == 3)
        left.megabytes = (double)(pages[1] - pages[2]) * (double)sysconf(_SC_PAGESIZE) / 1e6;
    if (memory)
        fclose(memory);
    return left;
}

/* ---- A job ---- */

/* At most n steps, until the job fails. */
static void job_steps(yk_job *job, uint64_t n)
{
    const int64_t dim[2] = {16, 8};
    float v[16 * 8];
    for (int i = 0; i < 16 * 8; i++)
        v[i] = (float)(i % 7) - 3.0f;
    yk_t w = yk_param(job, "w", 2, (const int64_t[]){8, 8}, (yk_init){YK_INIT_UNIFORM, -1, 1});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.01});
    for (uint64_t i = 0; i < n && yk_ok(job); i++) {
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
    job_steps(job, 2);
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
    const int jobs = getenv("YOKE_TEST_LONG") ? 100 : 6, settled = jobs > 12 ? 12 : jobs / 2;
    const char *turn[] = {devices, "cpu:0", devices, "cpu"};
    leftovers first, second = {0}, later = {0}, last;
    signal(SIGUSR2, SIG_IGN);
    setenv("POCL_MAX_PTHREAD_COUNT", "7", 1);
    state_take(&was);
    first = leftovers_take();
    for (int i = 0; i < jobs; i++) {
        if (!job_once(&was, turn[i % 4], i == 0 && strncmp(devices, "cpu", 3)))
            return;
        if (i == 1)
            second = leftovers_take();
        if (i == settled - 1)
            later = leftovers_take();
    }
    last = leftovers_take();
    printf("# %s leaves %ld threads, %ld descriptors, %ld mappings after job 2, and %ld, %ld, %ld after job %d\n", devices,
           second.threads - first.threads, second.descriptors - first.descriptors, second.mappings - first.mappings,
           last.threads - first.threads, last.descriptors - first.descriptors, last.mappings - first.mappings, jobs);
    printf("# %s holds %.1f MB after job 2, %.1f MB after job %d, %.1f MB after job %d\n", devices, second.megabytes - first.megabytes,
           later.megabytes - first.megabytes, settled, last.megabytes - first.megabytes, jobs);
    if (jobs > 12 && !strcmp(YK_SANITIZER, "none"))
        ck_assert_double_le(last.megabytes, later.megabytes + MEGABYTES);
    ck_assert_int_eq(last.shared, 0);
    ck_assert_int_le(last.threads, second.threads);
    ck_assert_int_le(last.descriptors, second.descriptors);
    if (!strcmp(YK_SANITIZER, "none")) /* a sanitizer's heap maps memory of its own */
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
    cuda_fakes_use();
    jobs_run("cuda:0");
}
END_TEST

START_TEST(pjrt_gives_all_back)
{
    jobs_run("pjrt:0");
}
END_TEST

/* ---- The end of a job by another thread ---- */

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

/* A time, the processor time of this process, and the time that its threads have waited for a processor. In seconds. */
typedef struct moment {
    double seconds, busy, queued;
} moment;

/* Sums the second number of each thread's schedstat, in ns. 0 where the system does not count. */
static double seconds_queued(void)
{
    unsigned long long sum = 0, waited;
    char path[300];
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%*u %llu", &waited) == 1)
            sum += waited;
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return (double)sum * 1e-9;
}

static moment moment_now(void)
{
    return (moment){seconds_now(), seconds_of(CLOCK_PROCESS_CPUTIME_ID), seconds_queued()};
}

static moment moment_between(moment begin, moment end)
{
    return (moment){end.seconds - begin.seconds, end.busy - begin.busy, end.queued - begin.queued};
}

/* Other programs may have the cores: time in which a thread waits for one is not the cancel's. */
static void lateness_assert(moment late, double most)
{
    ck_assert_msg(late.busy < most && late.seconds - late.queued < most, "%g s, of a processor %g s, waiting for one %g s",
                  late.seconds, late.busy, late.queued);
}

typedef struct canceller {
    yk_job *job;
    double delay; /* seconds; 0: 0.3 */
    moment at;    /* of the call of yk_cancel */
} canceller;

static void *cancel_late(void *argument)
{
    canceller *given = argument;
    const double delay = given->delay > 0 ? given->delay : 0.3;
    nanosleep(&(struct timespec){(time_t)delay, (long)((delay - (double)(time_t)delay) * 1e9)}, NULL);
    given->at = moment_now();
    yk_cancel(given->job);
    return NULL;
}

/* A chain of products that takes seconds. Its time since the cancel. */
static moment long_step_cancelled(yk_job *job)
{
    enum { SIDE = 768, PRODUCTS = 400 };
    static float v[SIDE * SIDE];
    const int64_t dim[2] = {SIDE, SIDE};
    canceller given = {.job = job};
    pthread_t thread;
    yk_t w = yk_param(job, "w", 2, dim, (yk_init){YK_INIT_UNIFORM, -0.01f, 0.01f});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.01});
    yk_t y = yk_input(job, YK_F32, 2, dim, v);
    for (int i = 0; i < PRODUCTS; i++)
        y = yk_matmul(y, w);
    yk_backward(yk_mean(yk_mul(y, y), 3, false));
    pthread_create(&thread, NULL, cancel_late, &given);
    yk_step(opt);
    yk_sync(job);
    const moment ended = moment_now();
    pthread_join(thread, NULL);
    return moment_between(given.at, ended);
}

/* A step of one long command of the device: a product, or a convolution, of fewer images where each takes ten times as long. */
static void long_command_run(yk_job *job, yk_t w, bool convolves)
{
    static float v[16 * 256 * 64 * 64];
    const int64_t images = strcmp(YK_SANITIZER, "none") ? 3 : 16;
    const yk_t x = convolves ? yk_input(job, YK_F32, 4, (const int64_t[]){images, 256, 64, 64}, v)
                             : yk_input(job, YK_F32, 2, (const int64_t[]){3072, 3072}, v);
    yk_item(yk_mean(convolves ? yk_conv2d(x, w, YK_NO, NULL) : yk_matmul(x, w), convolves ? 15 : 3, false));
    yk_end(job);
}

static moment long_command_cancelled(yk_job *job, bool convolves)
{
    const int64_t dim[4] = {convolves ? 512 : 3072, convolves ? 256 : 3072, 5, 5};
    canceller given = {.job = job};
    pthread_t thread;
    const yk_t w = yk_param(job, "w", convolves ? 4 : 2, dim, (yk_init){YK_INIT_ONES, 0, 0});
    long_command_run(job, w, convolves); /* compiled, and the weights are there */
    pthread_create(&thread, NULL, cancel_late, &given);
    while (yk_ok(job))
        long_command_run(job, w, convolves);
    const moment ended = moment_now();
    pthread_join(thread, NULL);
    ck_assert_int_eq(yk_error_status(job), YK_E_CANCELLED);
    ck_assert_int_eq(yk_close(job), 1);
    const moment step = moment_between(given.at, ended);
    moment late = moment_between(given.at, moment_now());
    late.queued = step.queued; /* the step threads are gone, and their waits are no longer counted */
    printf("# a %s: %.0f ms from yk_cancel to the step's end, %.0f ms to the job's\n", convolves ? "convolution" : "product",
           step.seconds * 1e3, late.seconds * 1e3);
    return late;
}

/* The loader waits for nobody: the next batch is the end of the loop. */
START_TEST(a_cancelled_loop_ends)
{
    char path[] = "/tmp/yoke-guest-XXXXXX";
    const int fd = mkstemp(path);
    for (int i = 0; i < 2000; i++)
        dprintf(fd, "a line of text\n");
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    char spec[64];
    snprintf(spec, sizeof spec, "text:%s", path);
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.tokenizer = "bytes", .global_batch = 1, .seq_len = 8});
    canceller given = {.job = job};
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_late, &given);
    uint64_t batches = 0;
    while (yk_ok(job))
        yk_each (batch, job, data)
            batches++;
    const double ended = seconds_now();
    pthread_join(thread, NULL);
    printf("# %.1f ms from yk_cancel to the loop's end\n", (ended - given.at.seconds) * 1e3);
    ck_assert_uint_gt(batches, 0);
    ck_assert_int_eq(yk_error_status(job), YK_E_CANCELLED);
    ck_assert_int_eq(yk_close(job), 1);
    yk_cancel(job);  /* closed: nothing */
    yk_cancel(NULL);
    close(fd);
    unlink(path);
}
END_TEST

static void job_end(void *object, const char *dir)
{
    (void)dir;
    yk_cancel(object);
}

static void cancel_is_error(yk_job *job)
{
    ck_assert_int_eq(yk_error_status(job), YK_E_CANCELLED);
    ck_assert_msg(strstr(yk_error_text(job), "cancelled by yk_cancel"), "the error is '%s'", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 1);
}

START_TEST(a_cancel_in_a_save_is_its_error)
{
    char folder[] = "/tmp/yoke-guest-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    yk_param(job, "w", 1, (const int64_t[]){4}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_on_save(job, job, job_end);
    yk_save(job, path);
    cancel_is_error(job);
    ck_assert_msg(rmdir(folder) == 0, "the save left files in %s", folder);
}
END_TEST

START_TEST(another_thread_ends_a_command)
{
    for (int convolves = 0; convolves < 2; convolves++) {
        yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
        lateness_assert(long_command_cancelled(job, convolves), strcmp(YK_SANITIZER, "none") ? 10.0 : 1.0); /* sanitized blocks are slow */
    }
}
END_TEST

/* Memory and programs go only once nothing runs, as the first step makes some that it soon gives back. */
START_TEST(a_job_ends_at_any_instant)
{
    enum { SIDE = 2048, INSTANTS = 8 };
    const int64_t dim[2] = {SIDE, SIDE};
    float *v = calloc((size_t)SIDE * SIDE, sizeof *v);
    double first = 0;
    int early = 0; /* cancels before the end; a later one has no work to stop */
    for (int i = 0; i <= INSTANTS; i++) { /* the first one is not cancelled: it tells the others the time */
        yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
        canceller given = {.job = job, .delay = i ? first * i / INSTANTS : 0};
        pthread_t thread;
        const double begun = seconds_now();
        if (i)
            pthread_create(&thread, NULL, cancel_late, &given);
        const yk_t w = yk_param(job, "w", 2, dim, (yk_init){YK_INIT_ONES, 0, 0});
        yk_item(yk_mean(yk_add(yk_input(job, YK_F32, 2, dim, v), w), 3, false));
        yk_end(job);
        const double ended = seconds_now();
        first = i ? first : ended - begun;
        if (i)
            pthread_join(thread, NULL);
        early += i && given.at.seconds < ended;
        ck_assert_int_eq(yk_error_status(job), i ? YK_E_CANCELLED : YK_OK);
        yk_close(job);
    }
    ck_assert_int_gt(early, 0);
    printf("# %d of %d cancels came before yk_end had returned\n", early, INSTANTS);
    free(v);
}
END_TEST

/* Jobs of several threads raise one limit; it is as it was when the last one is closed. */
static void *jobs_open(void *argument)
{
    for (int i = 0; i < 4; i++) {
        yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
        job_steps(job, 2);
        *(int *)argument += yk_close(job);
    }
    return NULL;
}

START_TEST(threads_that_open_at_once)
{
    enum { THREADS = 4 };
    struct rlimit was, is;
    pthread_t thread[THREADS];
    int failed[THREADS] = {0};
    ck_assert(!getrlimit(RLIMIT_NOFILE, &was));
    was.rlim_cur = 256;
    ck_assert(!setrlimit(RLIMIT_NOFILE, &was));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, jobs_open, &failed[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_int_eq(failed[i], 0);
    }
    ck_assert(!getrlimit(RLIMIT_NOFILE, &is));
    ck_assert_uint_eq(is.rlim_cur, 256);
}
END_TEST

START_TEST(another_thread_ends_a_step)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    const moment late = long_step_cancelled(job);
    ck_assert_msg(late.seconds > 0, "the step was over before it was cancelled");
    ck_assert_int_eq(yk_error_status(job), YK_E_CANCELLED);
    ck_assert_msg(strstr(yk_error_text(job), "cancelled by yk_cancel"), "%s", yk_error_text(job));
    printf("# %.0f ms from yk_cancel to the step's end\n", late.seconds * 1e3);
    lateness_assert(late, 1.0); /* 0.1 s are promised */
    ck_assert_int_eq(yk_close(job), 1);
}
END_TEST

/* Nothing stops a command that a driver has begun, nor its compiler: yk_step returns, and yk_close waits for the device for 2 s without
 * progress at most. A command that still runs keeps its memory. */
START_TEST(other_devices_end_a_step)
{
    static const char *const devices[] = {"opencl:0@0", "vulkan:0@0", "cuda:0"};
    cuda_fakes_use();
    for (int i = 0; i < 3; i++) {
        yk_job *job = yk_open(&(yk_config){.devices = devices[i], .quiet = true});
        if (!yk_ok(job)) {
            printf("# skipped: %s: %s\n", devices[i], yk_error_text(job));
            yk_close(job);
            continue;
        }
        const moment late = long_step_cancelled(job);
        const double ended = seconds_now();
        ck_assert_int_eq(yk_error_status(job), YK_E_CANCELLED);
        ck_assert_int_eq(yk_close(job), 1);
        printf("# %s: %.0f ms from yk_cancel to the step's end, %.0f ms more to the job's\n", devices[i], late.seconds * 1e3,
               (seconds_now() - ended) * 1e3);
    }
}
END_TEST

/* ---- Two ranks ---- */

typedef struct rank_case {
    bool hosts, steps; /* each rank is a host of its own: their messages go over sockets; both are within a step, not at a barrier */
    char *note;        /* a file's name */
} rank_case;

/* Rank 1 is cancelled in its own code, while rank 0 waits for it in a barrier; or both compute, in steps that end with an exchange. */
static int rank_cancelled(void *argument)
{
    const rank_case *given = argument;
    canceller late = {.delay = 0.5};
    pthread_t thread;
    if (given->hosts)
        setenv("YOKE_HOST_ID", getenv("YOKE_RANK"), 1);
    yk_job *job = late.job = yk_open(&(yk_config){.devices = "cpu:0 cpu:0", .quiet = true, .shares = "equal"});
    const bool cancels = yk_rank(job) == 1 && !pthread_create(&thread, NULL, cancel_late, &late);
    if (given->steps)
        job_steps(job, UINT64_MAX);
    if (!given->steps && yk_rank(job) == 0)
        yk_barrier(job);
    double ended = seconds_now();
    if (cancels)
        pthread_join(thread, NULL);
    if (cancels && !given->steps)
        ended = seconds_now();
    yk_constant(job, 1); /* learns of it */
    const bool is_named = yk_error_status(job) == YK_E_CANCELLED && (cancels || strstr(yk_error_text(job), "rank 1")) &&
                          strstr(yk_error_text(job), "cancelled by yk_cancel");
    FILE *note = fopen(given->note, "a");
    fprintf(note, "%u %d %.6f %.6f %s\n", yk_rank(job), is_named, late.at.seconds, ended, yk_error_text(job));
    fclose(note);
    return yk_close(job);
}

static void ranks_cancelled(rank_case given)
{
    char path[] = "/tmp/yoke-guest-XXXXXX", text[1024];
    double at = 0, ended = 0, cancelled, end;
    unsigned rank, known = 0;
    int is_named;
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    given.note = path;
    ck_assert_int_eq(yk_launch_ranks(2, "cpu:0 cpu:0", rank_cancelled, &given), 1);
    FILE *note = fdopen(fd, "r");
    while (fscanf(note, "%u %d %lf %lf %1023[^\n]", &rank, &is_named, &cancelled, &end, text) == 5) {
        ck_assert_msg(is_named, "rank %u: %s", rank, text);
        known |= 1u << rank;
        at = rank == 1 ? cancelled : at;
        ended = end > ended ? end : ended;
    }
    fclose(note);
    unlink(path);
    ck_assert_uint_eq(known, 3);
    printf("# %s, %s: %.0f ms from yk_cancel to the last rank's end\n", given.hosts ? "sockets" : "shared memory",
           given.steps ? "steps" : "a barrier", (ended - at) * 1e3);
    ck_assert_msg(ended - at < 10.0, "%g s", ended - at); /* the ranks share a core here, with other tests on it */
}

START_TEST(all_ranks_name_the_canceller)
{
    ranks_cancelled((rank_case){.hosts = _i & 1, .steps = _i & 2});
}
END_TEST

/* ---- Lines for the program's own log ---- */

static void line_take(void *user, const char *line)
{
    char *all = user;
    strncat(all, line, 4000 - strlen(all));
    strncat(all, "\n", 4000 - strlen(all));
}

START_TEST(lines_go_to_the_program)
{
    static char all[8192];
    int end[2];
    char byte;
    ck_assert_int_eq(pipe(end), 0);
    const int own = dup(STDERR_FILENO);
    dup2(end[1], STDERR_FILENO);
    close(end[1]);
    yk_set_log(line_take, all);
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0"});
    yk_fail(job, YK_E_ARG, "in the program's words");
    yk_close(job);
    yk_set_log(NULL, NULL);
    dup2(own, STDERR_FILENO);
    ck_assert_int_eq(read(end[0], &byte, 1), 0);
    ck_assert_msg(strstr(all, "device spec") && strstr(all, "cpu:0") && strstr(all, "in the program's words"), "%s", all);
}
END_TEST

static int rank_lost(void *unused)
{
    (void)unused;
    _exit(yk_rank(yk_open(&(yk_config){.devices = "cpu:0 cpu:0", .quiet = true})) ? 3 : 0);
}

START_TEST(lines_of_a_launch_go_to_the_program)
{
    static char all[8192];
    yk_set_log(line_take, all);
    ck_assert_int_ne(yk_launch_ranks(2, "cpu:0 cpu:0", rank_lost, NULL), 0);
    yk_set_log(NULL, NULL);
    ck_assert_msg(strstr(all, "yoke launch: rank "), "%s", all);
}
END_TEST

/* A model of three classes, with a key that no model knows. */
static void folder_fill(const char *folder)
{
    char command[120];
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    yk_model_save(yk_model_new(job, "mlp", "hidden=8,num_labels=3", NULL), folder);
    ck_assert_int_eq(yk_close(job), 0);
    snprintf(command, sizeof command, "sed -i '1s/{/{\"colour\": 1,/' %s/config.json", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Warnings of the job, of a model, and of the plugin's profile. */
static void warnings_provoke(const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0"});
    yk_model_from_pretrained(job, folder, "num_labels=4,new_head=yes", NULL);
    yk_warn(job, "%s of the program's own", "a line");
    yk_t w = yk_param(job, "w", 1, (const int64_t[]){6}, (yk_init){YK_INIT_ONES, 0, 0});
    const double sum = yk_item(yk_sum(w, 1, false));
    ck_assert_msg(yk_ok(job) && sum == 6, "%g: %s", sum, yk_error_text(job));
    yk_fail(job, YK_E_ARG, "an end");
    yk_close(job);
}

START_TEST(no_line_goes_past_the_program)
{
    static const char *const words[] = {"device spec", "YOKE_NO_SUCH_OPTION", "which change nothing: colour", "it starts new, of 4",
                                        "yoke: a line of the program's own", "profile: ", "us (least", "an end"};
    static char all[8192];
    char folder[] = "/tmp/yoke-guest-XXXXXX", left[400] = "";
    FILE *file = tmpfile();
    ck_assert(file && mkdtemp(folder));
    setenv("YOKE_CPU_PROFILE", "1", 1);
    setenv("YOKE_NO_SUCH_OPTION", "1", 1);
    const int own = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    yk_set_log(line_take, all);
    folder_fill(folder);
    warnings_provoke(folder);
    yk_set_log(NULL, NULL);
    dup2(own, STDERR_FILENO);
    rewind(file);
    ck_assert_msg(fread(left, 1, sizeof left - 1, file) == 0, "on standard error: %s", left);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(strstr(all, words[i]) != NULL, "no '%s' in: %s", words[i], all);
}
END_TEST

/* ---- Calls that would train nothing ---- */

static void job_refused(yk_job *job, const char *words)
{
    ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
    ck_assert_msg(strstr(yk_error_text(job), words) && strstr(yk_error_text(job), "guest.c:"), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}

/* With several jobs it ends the job in which this thread has called yk_backward; the other job continues. */
static void step_of_no_optimizer(const yk_config *config)
{
    yk_job *first = yk_open(config), *second = yk_open(config);
    yk_t w = yk_param(first, "w", 1, (const int64_t[]){6}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_backward(yk_mean(yk_mul(w, w), 1, false));
    yk_step(NULL);
    job_refused(first, "yk_step: the optimizer is NULL");
    ck_assert_msg(yk_ok(second), "%s", yk_error_text(second));
    yk_step(NULL); /* of a closed job: no effect */
    ck_assert(yk_ok(second));
    ck_assert_int_eq(yk_close(second), 0);
}

START_TEST(calls_that_train_nothing_say_so)
{
    static char all[8192];
    const yk_config config = {.devices = "cpu:0", .quiet = true};
    char place[120];
    int line = 0;
    const float v[6] = {1, 0, 1, 0, 1, 2};
    yk_job *job = yk_open(&config);
    yk_step(NULL);
    job_refused(job, "yk_step: the optimizer is NULL");
    job = yk_open(&config);
    yk_backward(yk_mean(yk_constant(job, 3), 0, false));
    job_refused(job, "depends on no parameter");
    job = yk_open(&config);
    yk_cross_entropy(yk_input(job, YK_F32, 2, (const int64_t[]){2, 3}, v), yk_input(job, YK_F32, 1, (const int64_t[]){2}, v));
    job_refused(job, "expected numbers of classes, i32; yk_cast(labels, YK_I32)");
    job = yk_open(&config);
    yk_cross_entropy(yk_input(job, YK_F32, 2, (const int64_t[]){2, 3}, v), yk_input(job, YK_F32, 2, (const int64_t[]){2, 3}, v));
    job_refused(job, "expected numbers of classes, i32; probabilities are not taken: yk_argmax(labels, -1)");
    job = yk_open(&config);
    yk_cross_entropy(yk_input(job, YK_F32, 2, (const int64_t[]){2, 3}, v), yk_input(job, YK_F32, 2, (const int64_t[]){2, 1}, v));
    job_refused(job, "expected numbers of classes, i32, one for each row of logits");
    step_of_no_optimizer(&config);
    job = yk_open(&config);
    yk_set_log(line_take, all);
    yk_t w = yk_param(job, "w", 1, (const int64_t[]){6}, (yk_init){YK_INIT_ONES, 0, 0});
    for (int i = 0; i < 3; i++) {
        line = __LINE__ + 1;
        yk_backward(yk_mean(yk_mul(w, w), 1, false));
        yk_end(job);
    }
    ck_assert_int_eq(yk_close(job), 2);
    yk_set_log(NULL, NULL);
    snprintf(place, sizeof place, "guest.c:%d: yk_backward was called 3 times and yk_step never", line);
    ck_assert_msg(strstr(all, place), "%s: %s", place, all);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("guest");
    tcase_add_test(t, no_line_goes_past_the_program);
    tcase_add_test(t, another_thread_ends_a_step);
    tcase_add_test(t, another_thread_ends_a_command);
    tcase_add_test(t, other_devices_end_a_step);
    tcase_add_test(t, a_job_ends_at_any_instant);
    tcase_add_test(t, a_cancelled_loop_ends);
    tcase_add_test(t, a_cancel_in_a_save_is_its_error);
    tcase_add_test(t, threads_that_open_at_once);
    tcase_add_loop_test(t, all_ranks_name_the_canceller, 0, 4);
    tcase_add_test(t, lines_go_to_the_program);
    tcase_add_test(t, lines_of_a_launch_go_to_the_program);
    tcase_add_test(t, calls_that_train_nothing_say_so);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, cpu_gives_all_back);
    tcase_add_test(t, opencl_gives_all_back);
    tcase_add_test(t, vulkan_gives_all_back);
    tcase_add_test(t, cuda_gives_all_back);
    tcase_add_test(t, pjrt_gives_all_back);
    return suite_run("job_guest", t);
}
