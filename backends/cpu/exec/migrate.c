/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves a worker whose core another program has taken to the core of a worker that waits for it (migrate.h). cpu_pool.c calls it on the
 * workers; each worker has a seat, which says its thread and if it holds a piece.
 *
 * sched_setaffinity moves threads. A thread that does not run is seen by its processor clock, which stands still (clock_getcpuclockid(3),
 * by thread).
 */
#define _GNU_SOURCE
#include "backends/cpu/exec/migrate.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "plugins/kit/kit_clock.h"

#define STALL_NS 5000 /* a clock that stands still so long belongs to a thread that is not running: it counts single ns */

enum { IN_PLACE, MOVING, AWAY };

void cpu_seat_take(cpu_seat *seat)
{
    static _Thread_local int self;
    if (!self)
        self = (int)syscall(SYS_gettid);
    atomic_store_explicit(&seat->thread, self, memory_order_relaxed);
}

/* The thread's processor time, in ns; 0 if it has ended. */
static uint64_t thread_run_ns(int thread)
{
    struct timespec t;
    const clockid_t clock = (clockid_t)((~(unsigned)thread << 3) | 6); /* as pthread_getcpuclockid makes it: a thread's, in ns */
    return clock_gettime(clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool cpu_seat_stalled(const cpu_seat *seat)
{
    const int thread = atomic_load_explicit(&seat->thread, memory_order_relaxed);
    if (!thread || !atomic_load(&seat->holds_piece))
        return false;
    const uint64_t before = thread_run_ns(thread), end = kit_now_ns() + STALL_NS;
    while (kit_now_ns() < end)
        if (!atomic_load_explicit(&seat->holds_piece, memory_order_relaxed))
            return false;
    return thread_run_ns(thread) == before;
}

bool cpu_seat_fetch(cpu_seat *seat)
{
    const int thread = atomic_load_explicit(&seat->thread, memory_order_relaxed), core = sched_getcpu();
    int at = IN_PLACE;
    cpu_set_t here;
    if (core < 0 || core >= CPU_SETSIZE || !atomic_compare_exchange_strong(&seat->state, &at, MOVING))
        return false;
    CPU_ZERO(&here);
    CPU_SET(core, &here);
    /* a worker releases its piece before it reads the state: so it is seen here, or waits there */
    const bool moved = atomic_load(&seat->holds_piece) && !sched_getaffinity(thread, sizeof seat->own, &seat->own) &&
                       !sched_setaffinity(thread, sizeof here, &here);
    atomic_store(&seat->state, moved ? AWAY : IN_PLACE);
    return moved;
}

void cpu_seat_return(cpu_seat *seat)
{
    int at;
    while ((at = atomic_load(&seat->state)) == MOVING)
        sched_yield();
    if (at == IN_PLACE)
        return;
    sched_setaffinity(0, sizeof seat->own, &seat->own);
    atomic_store(&seat->state, IN_PLACE);
}
