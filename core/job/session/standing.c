/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of a process of one rank. A thread reads the process's act and its progress count (core/base/advance.h) every LOOK_MS. If the
 * act's patience passes without progress, it writes a line and calls _exit. In a program that is not ours it does so for a device alone. A
 * hung driver needs it, and no function of the user's runs there. A call may run one (yk_set_log, yk_find_batch_size), and a program may
 * know better how long its files take.
 *
 * A process that is stopped (a debugger, Ctrl-Z) gets little of that time counted, and none while a tracer is attached.
 *
 * Callers: yk_open and yk_close for each job of one rank, and a command for all that it does. The thread ends with the last of them, and
 * holds no descriptor and no signal: the library is a guest in its program. Environment variables are read when it starts, as the program
 * may change them later.
 */
#include "core/job/session/standing.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/base/log.h"

#define LOOK_MS 200 /* a later look was late, yk__standing_step */
#define SAY_MS 1000     /* for the program's own log, which the thread that hangs may hold */
#define EXIT_CODE 1     /* of a command whose job failed */

/* The remedy of an act that stands still. NULL: the watch leaves the act alone; waits for a device end in core/device/point.c. */
static const char *const remedy[YK__ACTS] = {
    [YK__ACT_SYNC] = "look at the disk or file system",
    [YK__ACT_FILE] = "look at the disk or file system",
    [YK__ACT_OPEN] = "look at the device's driver, or choose another device",
    [YK__ACT_COMPILE] = "look at the device's compiler, or choose another device",
    [YK__ACT_CALL] = "look at the device's driver, or the disk",
};

typedef struct watcher {
    uint32_t users;
    pid_t pid; /* of the process that has the thread */
    bool runs, ends;
    uint32_t least_ms, most_ms; /* of yk__standing_note */
    yk__standing still;         /* the thread's; kept between two threads for the longest acts */
    pthread_t thread;
    pthread_mutex_t lock; /* guards ends */
    pthread_cond_t end;
} watcher;

static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the whole, but what the thread has */
static watcher own;
static atomic_bool is_ours;

/* ---- The last line ---- */

typedef struct last_line {
    char text[200];
    atomic_int given; /* 1: to the program's log, -1: there is none */
} last_line;

static void *line_give(void *arg)
{
    last_line *line = arg;
    atomic_store(&line->given, yk__log_give(line->text) ? 1 : -1);
    return NULL;
}

/* The program's log gets the line, unless it takes longer than SAY_MS; standard error gets it then, without the lock of stdio. */
static void line_say(last_line *line)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, line_give, line))
        for (int ms = 0; !atomic_load(&line->given) && ms < SAY_MS; ms += 10)
            nanosleep(&(struct timespec){0, 10000000}, NULL);
    if (atomic_load(&line->given) > 0)
        return;
    char text[sizeof line->text + 1];
    const int n = snprintf(text, sizeof text, "%s\n", line->text);
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* nobody is left to tell */
}

/* ---- The thread ---- */

static void process_end(void)
{
    static last_line line;
    /* least_ms is 0 if the user has set YOKE_STUCK_MS */
    snprintf(line.text, sizeof line.text, "yoke: no progress in %s for %.1f s (YOKE_STUCK_MS%s): %s", yk__act_name(own.still.act),
             (double)own.still.ms / 1e3, own.least_ms ? " would set it" : "", remedy[own.still.act]);
    line_say(&line);
    _exit(EXIT_CODE); /* the thread that hangs cannot end */
}

/* In a program of a user's: a device's acts alone. */
static bool act_ends(yk__act act)
{
    return remedy[act] && (atomic_load(&is_ours) || act == YK__ACT_OPEN || act == YK__ACT_COMPILE);
}

/* True if a debugger or the like is attached. */
static bool process_is_traced(void)
{
    char text[512]; /* the line is among the first ten */
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *line = strstr(text, "\nTracerPid:\t");
    return line && line[12] != '0';
}

/* Notes a step of that many ms; true once the process has to end. In the patience's second half a step under a tracer does not count. */
static bool look_note(uint64_t ms)
{
    yk__standing *still = &own.still;
    const uint32_t count = __atomic_load_n(yk__advance_count(), __ATOMIC_RELAXED);
    const uint32_t patience = yk__standing_note(still, yk__act_now(), 0, count, ms, own.least_ms, own.most_ms);
    if (!patience || !act_ends(still->act) || still->ms <= patience / 2)
        return false;
    if (process_is_traced())
        still->ms -= ms;
    return still->ms >= patience;
}

/* Sleeps for LOOK_MS; true if the watch ends. */
static bool look_await(void)
{
    struct timespec at;
    int failed = 0;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += LOOK_MS * 1000000l;
    at.tv_sec += at.tv_nsec / 1000000000l;
    at.tv_nsec %= 1000000000l;
    pthread_mutex_lock(&own.lock);
    while (!own.ends && !failed)
        failed = pthread_cond_timedwait(&own.end, &own.lock, &at);
    const bool ends = own.ends;
    pthread_mutex_unlock(&own.lock);
    return ends;
}

static void *watch_main(void *arg)
{
    int64_t last = yk__clock_ns();
    (void)arg;
    while (!look_await()) {
        const int64_t now = yk__clock_ns();
        if (look_note(yk__standing_step((uint64_t)(now - last) / 1000000, LOOK_MS)))
            process_end();
        last = now;
    }
    return NULL;
}

/* A watch that cannot be started leaves the process as it was: the job needs none. */
static void watch_start(void)
{
    pthread_condattr_t monotonic;
    sigset_t all, kept;
    own.least_ms = yk__call_ms();
    own.most_ms = yk__stuck_ms();
    own.ends = false;
    own.still.ms = own.still.used_ms = 0;
    if (!own.most_ms)
        return;
    pthread_mutex_init(&own.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&own.end, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &kept); /* signals go to the program's threads, as without the watch */
    own.runs = !pthread_create(&own.thread, NULL, watch_main, NULL);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
}

static void watch_stop(void)
{
    if (!own.runs)
        return;
    pthread_mutex_lock(&own.lock);
    own.ends = true;
    pthread_cond_signal(&own.end);
    pthread_mutex_unlock(&own.lock);
    pthread_join(own.thread, NULL);
    pthread_cond_destroy(&own.end);
    pthread_mutex_destroy(&own.lock);
    own.runs = false;
}

void yk__standing_ours(void)
{
    atomic_store(&is_ours, true);
}

void yk__standing_begin(void)
{
    pthread_mutex_lock(&users_lock);
    if (own.pid != getpid()) {
        own = (watcher){.pid = getpid()};
        yk__acts_own();
    }
    if (!own.users++)
        watch_start();
    pthread_mutex_unlock(&users_lock);
}

void yk__standing_end(void)
{
    pthread_mutex_lock(&users_lock);
    if (own.pid == getpid() && own.users && !--own.users)
        watch_stop();
    pthread_mutex_unlock(&users_lock);
}
