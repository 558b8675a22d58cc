/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits in shared memory until a counter has a value; the files of core/coll in common memory call it in the step thread. A wait spins,
 * then polls and yields the processor in between, then sleeps (futex). Ranks of one host may share cores, but a core that sleeps takes long
 * to wake. It ends with an error if the rank that it waits for is lost.
 */
#include "config.h"

#include "core/base/clock.h"
#include "core/coll/shm/shm_internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 40000             /* ns of spinning, then yield between polls: the cores may be shared */
#define YIELD_NS 3000000          /* ns of yielding, then sleep: a sleeping core takes long to wake, longest in a virtual machine */
#define SLICE_NS (20 * 1000000ll) /* ns between a sleeping wait's checks for the end of the job, */
#define SLEEP_NS 100000000ll      /* and of a sleep on a word */

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- Counters ---------------------------------------------------------------------------------------------------- */

/* A sleeper counts itself before it reads the counter; the setter stores the value before it reads the count. Both are sequentially
 * consistent, so either the sleeper sees the new value or the setter sees the sleeper. */
void yk__shm_set(yk__shm *shm, yk__counter *counter, uint32_t value)
{
    yk__control_count_call(shm->control);
    atomic_store(&counter->value, value);
    if (atomic_load(&counter->sleepers))
        syscall(SYS_futex, &counter->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_on(yk__counter *counter, uint32_t seen)
{
    const struct timespec slice = {SLICE_NS / 1000000000, SLICE_NS % 1000000000};
    atomic_fetch_add(&counter->sleepers, 1);
    if (atomic_load(&counter->value) == seen)
        syscall(SYS_futex, &counter->value, FUTEX_WAIT, seen, &slice, NULL, 0);
    atomic_fetch_sub(&counter->sleepers, 1);
}

static yk_status look_lost(yk__shm *shm, const yk__counter *counter, uint32_t value, uint32_t peer, const char *what, yk_error *err)
{
    if (__atomic_load_n(shm->cancelled, __ATOMIC_ACQUIRE) && yk__control_check(shm->control, err))
        return err->status;
    if (!yk__control_left(shm->control, peer) || yk__shm_reached(counter, value))
        return YK_OK;
    return yk__control_fail_left(shm->control, peer, what, err);
}

static yk_status wait_counter(yk__shm *shm, yk__counter *counter, uint32_t value, uint32_t peer, const char *what,
                              yk__control_wait *wait, yk_error *err)
{
    int64_t begin = 0, waited;
    for (uint32_t turn = 1; !yk__shm_reached(counter, value); turn++) {
        uint32_t seen;
        cpu_relax();
        if (turn % 64)
            continue;
        if (look_lost(shm, counter, value, peer, what, err))
            return err->status;
        begin = begin ? begin : yk__clock_ns();
        waited = yk__clock_ns() - begin;
        if (waited <= SPIN_NS)
            continue;
        turn |= 63; /* after a yield much time may have passed: check for the end of the job at each poll */
        if (waited <= YIELD_NS) {
            sched_yield();
            continue;
        }
        seen = atomic_load(&counter->value);
        if ((int32_t)(seen - value) >= 0)
            break;
        if (shm->watch && shm->watch(shm->watch_arg, peer, err))
            return err->status;
        if (yk__control_look(shm->control, wait, peer, what, err))
            return err->status;
        sleep_on(counter, seen);
    }
    return YK_OK;
}

yk_status yk__shm_wait(yk__shm *shm, yk__counter *counter, uint32_t value, uint32_t peer, const char *what, yk_error *err)
{
    yk__control_wait wait = {0};
    const yk_status s = wait_counter(shm, counter, value, peer, what, &wait, err);
    yk__control_waited(shm->control, &wait);
    return s;
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static yk_status look_around(yk__shm *shm, uint32_t peer, const char *what, yk_error *err)
{
    if (yk__control_left(shm->control, peer) && !yk__control_check(shm->control, err))
        return yk__control_describe_left(shm->control, peer, what, err);
    return yk__control_look(shm->control, &shm->sleep_wait, peer, what, err);
}

yk_status yk__shm_sleep(yk__shm *shm, uint32_t peer, const uint32_t *word, uint32_t seen, uint32_t ms, const char *what,
                        yk_error *err)
{
    const int64_t end = yk__clock_ns() + ms * 1000000ll;
    const struct timespec slice = {SLEEP_NS / 1000000000, SLEEP_NS % 1000000000};
    if (shm->sleep_seen != seen)
        shm->sleep_wait = (yk__control_wait){0};
    shm->sleep_seen = seen;
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen && yk__clock_ns() < end) {
        if (look_around(shm, peer, what, err))
            return err->status;
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &slice, NULL, 0);
    }
    yk__control_waited(shm->control, &shm->sleep_wait);
    return YK_OK;
}

void yk__shm_wake(const uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
