/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a training of one rank that makes no progress. Several ranks report each other (core/control); one rank has no other rank for it.
 *
 * A thread reads the process's act and its progress count (core/base/advance.h) every LOOK_MS. If the act's patience passes without
 * progress, the thread writes a line and calls _exit, as nothing wakes a read of a dead file system.
 */
#include "tools/train/still.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "tools/cli.h"

#define LOOK_MS 200
#define STEP_MAX_MS 400 /* a longer step between two looks was a pause of the whole process: the rest of it does not count */

typedef struct standing {
    yk__act act;
    uint32_t advance;
    uint64_t ms, used_ms;          /* time since the last progress; CPU time of the process in it, at most as much */
    uint64_t longest_ms[YK__ACTS]; /* longest such time that progress ended: a slow disk raises its own patience by it */
} standing;

/* Adds a step of `ms` to the time without progress, or begins that time anew. used_ms: CPU time of all threads in the step. */
static void note_step(standing *still, uint64_t ms, uint64_t used_ms)
{
    const yk__act act = yk__act_now();
    const uint32_t advance = *yk__advance_count();
    if (act == still->act && advance == still->advance) {
        still->ms += ms;
        still->used_ms += used_ms < ms ? used_ms : ms;
        return;
    }
    if (still->ms > still->longest_ms[still->act])
        still->longest_ms[still->act] = still->ms;
    still->act = act;
    still->advance = advance;
    still->ms = still->used_ms = 0;
}

/* The patience is as in note_still of core/control/live.c, so one rank waits as long as several ranks would. The watch leaves waits for a
 * device to core/device/point.c. */
static bool stands_still(const standing *still)
{
    const bool watched = still->act == YK__ACT_SYNC || still->act == YK__ACT_FILE || still->act == YK__ACT_CALL;
    uint32_t patience = yk__act_patience_ms(still->act, yk__call_ms(), yk__stuck_ms(), still->longest_ms[still->act]);
    if (still->used_ms > still->ms / 20) /* the process computes, perhaps on a loaded machine */
        patience = yk__act_busy_ms(still->act, patience, yk__stuck_ms());
    return watched && still->ms >= patience;
}

static uint64_t process_ms(void)
{
    return (uint64_t)(yk__clock_of(CLOCK_PROCESS_CPUTIME_ID) / 1000000);
}

static void *watch_main(void *arg)
{
    const struct timespec look = {0, LOOK_MS * 1000000l};
    standing still = {.act = YK__ACT_OWN};
    char line[200];
    int64_t last = yk__clock_ns();
    uint64_t used = process_ms();
    (void)arg;
    while (!stands_still(&still)) {
        nanosleep(&look, NULL);
        const int64_t now = yk__clock_ns(), step = (now - last) / 1000000;
        const uint64_t now_used = process_ms();
        note_step(&still, (uint64_t)(step < STEP_MAX_MS ? step : STEP_MAX_MS), now_used - used);
        last = now;
        used = now_used;
    }
    /* yk__call_ms() is 0 if the user has set YOKE_STUCK_MS */
    snprintf(line, sizeof line, "yoke: no progress in %s for %.1f s (YOKE_STUCK_MS%s): look at the disk or file system\n",
             yk__act_name(still.act), (double)still.ms / 1e3, yk__call_ms() ? " would set it" : "");
    if (write(STDERR_FILENO, line, strlen(line)) < 0) /* not stderr, whose lock the thread that hangs may hold */
        _exit(YK_EXIT_FAILED);
    _exit(YK_EXIT_FAILED); /* that thread cannot end */
}

void still_watch(const yk_job *job)
{
    sigset_t all, kept;
    pthread_t thread;
    if (!yk_ok(job) || yk_world_size(job) > 1 || !yk__stuck_ms())
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &kept); /* signals go to the job's threads, as without the watch */
    if (!pthread_create(&thread, NULL, watch_main, NULL))
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
}
