/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one wait for a point of a queue: as long as something moves, whatever that takes. A limit of its own would be wrong for some
 * device and some program; who finished nothing for 20 times as long as ever before, and 30 s, hangs (yk__act_patience_ms).
 */
#include <stdatomic.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/device/internal.h"

#define SLICE_NS 50000000ull /* how long a wait goes without a look at `cancel` */

/* What a wait sees of a queue that is not done: finished points, for how long nothing has moved, processor time. */
typedef struct idle_queue {
    uint64_t done, ns, last, cpu; /* last, cpu: of the last look */
} idle_queue;

/* How far both are, together; what was known before where one does not say. */
static uint64_t points_done(const yk_plugin *table, yk_queue *queue, yk_queue *producer, uint64_t before)
{
    uint64_t done = 0, other = 0;
    if (table->queue_poll(queue, &done) || (producer && table->queue_poll(producer, &other)))
        return before;
    return done + other;
}

static _Atomic uint64_t longest_ms; /* without a move, in waits that ended; of all devices of this process */

static void longest_note(uint64_t ns)
{
    uint64_t before = atomic_load(&longest_ms);
    while (ns / 1000000 > before && !atomic_compare_exchange_weak(&longest_ms, &before, ns / 1000000))
        ;
}

/* After each slice. A point that moves is progress; so is this process's computing, but that could be a driver's busy wait. */
static void idle_count(const yk_plugin *table, yk_queue *queue, yk_queue *producer, idle_queue *idle)
{
    const uint64_t now = (uint64_t)yk__clock_ns(), cpu = (uint64_t)yk__clock_of(CLOCK_PROCESS_CPUTIME_ID);
    const uint64_t step = now - idle->last < 3 * SLICE_NS ? now - idle->last : 3 * SLICE_NS; /* more was this process's pause */
    const bool computes = cpu - idle->cpu > step / 4;
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

/* True: nothing has moved for too long. Most waits end within their first slice and look at nothing. */
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
