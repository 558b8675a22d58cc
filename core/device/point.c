/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for a queue point, the number of a command, as long as the queue makes progress. transfer.c waits for the engine (core/run) with
 * it, in the step thread; the layer validate does, too.
 *
 * A fixed limit would be wrong for some device or program. No progress for 20 times the longest pause so far, and 30 s at least, means hung
 * (yk__act_patience_ms).
 */
#include <stdatomic.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/device/device_internal.h"

#define SLICE_NS 50000000ull /* time between two looks at `cancel` */
#define COMPUTES 20          /* a process computes if it uses more than this part of a processor: ten neighbours leave it little more */

/* A wait's view of an unfinished queue: finished points, time without progress, processor time. */
typedef struct idle_queue {
    uint64_t done, ns, last, cpu; /* last, cpu: clock values at the last look */
} idle_queue;

/* Finished points of both queues together; `before` if a queue does not answer. */
static uint64_t points_done(const yk_plugin *table, yk_queue *queue, yk_queue *producer, uint64_t before)
{
    uint64_t done = 0, other = 0;
    if (table->queue_poll(queue, &done) || (producer && table->queue_poll(producer, &other)))
        return before;
    return done + other;
}

static _Atomic uint64_t longest_ms; /* longest time without progress in a finished wait, over all devices of this process */

static void longest_note(uint64_t ns)
{
    uint64_t before = atomic_load(&longest_ms);
    while (ns / 1000000 > before && !atomic_compare_exchange_weak(&longest_ms, &before, ns / 1000000))
        ;
}

/* Called after each slice. A new point is progress. This process's computing counts only partly, as it may be a driver's busy wait. */
static void idle_count(const yk_plugin *table, yk_queue *queue, yk_queue *producer, idle_queue *idle)
{
    const uint64_t now = (uint64_t)yk__clock_ns(), cpu = (uint64_t)yk__clock_of(CLOCK_PROCESS_CPUTIME_ID);
    const uint64_t step = yk__standing_step(now - idle->last, 3 * SLICE_NS); /* a longer one had a pause of this process */
    const bool computes = cpu - idle->cpu > step / COMPUTES;
    const uint64_t done = points_done(table, queue, producer, idle->done);
    idle->last = now;
    idle->cpu = cpu;
    if (done != idle->done) {
        longest_note(idle->ns);
        idle->done = done;
        idle->ns = 0;
        yk__advance();
        return;
    }
    idle->ns += computes ? step / 10 : step;
    if (computes)
        yk__advance();
}

/* True once the queue made no progress for too long. Most waits end within their first slice, before the first look. */
static bool queue_is_stuck(const yk_plugin *table, yk_queue *queue, yk_queue *producer, idle_queue *idle)
{
    const uint64_t limit =
        yk__act_patience_ms(YK__ACT_DEVICE, yk__call_ms(), yk__stuck_ms(), atomic_load(&longest_ms)) * 1000000ull;
    if (idle->last)
        idle_count(table, queue, producer, idle);
    else
        *idle = (idle_queue){.last = (uint64_t)yk__clock_ns(), .cpu = (uint64_t)yk__clock_of(CLOCK_PROCESS_CPUTIME_ID)};
    return limit && idle->ns >= limit;
}

yk_status yk__point_wait(const yk_plugin *table, yk_queue *queue, yk_queue *producer, uint64_t point, const volatile int *cancel,
                         uint64_t *idle_ns)
{
    idle_queue idle = {0};
    bool stuck = false;
    yk_status s;
    yk__act_begin(YK__ACT_DEVICE);
    do {
        s = cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE) ? YK_E_CANCELLED : table->queue_wait(queue, point, SLICE_NS);
        stuck = s == YK_E_TIMEOUT && queue_is_stuck(table, queue, producer, &idle);
    } while (s == YK_E_TIMEOUT && !stuck);
    yk__act_end(YK__ACT_DEVICE);
    if (stuck)
        *idle_ns = idle.ns;
    else
        longest_note(idle.ns);
    return s;
}
