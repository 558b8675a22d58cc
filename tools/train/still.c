/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a process of one rank that makes no progress. Several ranks report each other (core/control); one rank has no other rank for it.
 *
 * A thread reads the process's act and its progress count (core/base/advance.h) every LOOK_MS. If the act's patience passes without
 * progress, the thread writes a line and calls _exit, as nothing wakes a read of a dead file system or a driver's call.
 */
#include "tools/train/still.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/control/start/origin.h"
#include "tools/cli.h"

#define LOOK_MS 200
#define STEP_MAX_MS 400 /* a longer step between two looks was a pause of the whole process: the rest of it does not count */

/* The remedy of an act that stands still. NULL: the watch leaves the act alone; waits for a device end in core/device/point.c. */
static const char *const remedy[YK__ACTS] = {
    [YK__ACT_SYNC] = "look at the disk or file system",
    [YK__ACT_FILE] = "look at the disk or file system",
    [YK__ACT_OPEN] = "look at the device's driver, or choose another device",
    [YK__ACT_COMPILE] = "look at the device's compiler, or choose another device",
    [YK__ACT_CALL] = "look at the device's driver, or the disk",
};

static _Atomic bool watched;

static void *watch_main(void *arg)
{
    const struct timespec look = {0, LOOK_MS * 1000000l};
    yk__standing still = {.act = YK__ACT_OWN};
    char line[200];
    int64_t last = yk__clock_ns();
    uint32_t patience;
    (void)arg;
    do {
        nanosleep(&look, NULL);
        const int64_t now = yk__clock_ns(), step = (now - last) / 1000000;
        patience = yk__standing_note(&still, yk__act_now(), 0, *yk__advance_count(), (uint64_t)(step < STEP_MAX_MS ? step : STEP_MAX_MS),
                                     yk__call_ms(), yk__stuck_ms());
        last = now;
    } while (!remedy[still.act] || !patience || still.ms < patience);
    /* yk__call_ms() is 0 if the user has set YOKE_STUCK_MS */
    snprintf(line, sizeof line, "yoke: no progress in %s for %.1f s (YOKE_STUCK_MS%s): %s\n", yk__act_name(still.act),
             (double)still.ms / 1e3, yk__call_ms() ? " would set it" : "", remedy[still.act]);
    if (write(STDERR_FILENO, line, strlen(line)) < 0) /* not stderr, whose lock the thread that hangs may hold */
        _exit(YK_EXIT_FAILED);
    _exit(YK_EXIT_FAILED); /* that thread cannot end */
}

static void watch_start(void)
{
    sigset_t all, kept;
    pthread_t thread;
    if (!yk__stuck_ms() || atomic_exchange(&watched, true))
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &kept); /* signals go to the job's threads, as without the watch */
    if (!pthread_create(&thread, NULL, watch_main, NULL))
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
}

void still_watch(void)
{
    if (!yk__launched())
        watch_start();
}

void still_watch_job(const yk_job *job)
{
    if (yk_ok(job) && yk_world_size(job) == 1)
        watch_start();
}
