/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting in shared memory. A wait spins, then looks between others' turns of the processor, then sleeps (futex): ranks of one
 * host may share cores, and a core that rests takes long to come back.
 */
#include "config.h"

#include "core/coll/shm_internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"

#define SPIN_NS 40000             /* then look between others' turns: the cores may be shared */
#define YIELD_NS 3000000          /* then sleep: a core that rests takes long to come back, longest in a virtual machine */
#define SLICE_NS (20 * 1000000ll) /* a sleeping wait looks at the end of the job so often, */
#define SLEEP_NS 100000000ll      /* and one that sleeps on a word */

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- Counters ---------------------------------------------------------------------------------------------------- */

/* A sleeper counts itself before it looks at the counter; the value is stored before the count is read. Both are
 * sequentially consistent, so either the sleeper sees the new value or the setter sees the sleeper. */
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
        begin = begin ? begin : now_ns();
        waited = now_ns() - begin;
        if (waited <= SPIN_NS)
            continue;
        turn |= 63; /* after others' turns each look may be the last: test and go at once again */
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
        return yk__fail(err, YK_E_DEVICE_LOST, "%s left the group while %s waited for it in %s",
                        yk__control_name(shm->control, peer), yk__control_name(shm->control, shm->rank), what);
    return yk__control_look(shm->control, &shm->sleep_wait, peer, what, err);
}

yk_status yk__shm_sleep(yk__shm *shm, uint32_t peer, const uint32_t *word, uint32_t seen, uint32_t ms, const char *what,
                        yk_error *err)
{
    const int64_t end = now_ns() + ms * 1000000ll;
    const struct timespec slice = {SLEEP_NS / 1000000000, SLEEP_NS % 1000000000};
    if (shm->sleep_seen != seen)
        shm->sleep_wait = (yk__control_wait){0};
    shm->sleep_seen = seen;
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen && now_ns() < end) {
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

/* ---- Attaching --------------------------------------------------------------------------------------------------- */

bool yk__shm_one_host(const yk__control *c)
{
    for (uint32_t r = 1; r < yk__control_size(c); r++)
        if (yk__control_host(c, r) != yk__control_host(c, 0))
            return false;
    return true;
}

static void list_local(yk__shm *shm)
{
    for (uint32_t r = 0; r < shm->size; r++)
        if (yk__control_host(shm->control, r) == yk__control_host(shm->control, shm->rank))
            shm->local[shm->locals++] = r;
}

static yk_status shm_new(yk__control *c, yk__shm **out, yk_error *err)
{
    yk__shm *shm = yk__calloc(1, sizeof *shm);
    if (!shm)
        return yk__fail_mem(err, sizeof *shm, "the shared memory of a job");
    *out = shm;
    shm->control = c;
    shm->cancelled = yk__control_cancelled(c);
    shm->rank = yk__control_rank(c);
    shm->size = yk__control_size(c);
    shm->local = yk__calloc(shm->size, sizeof *shm->local);
    if (!shm->local)
        return yk__fail_mem(err, shm->size * sizeof *shm->local, "the shared memory of a job");
    list_local(shm);
    shm->fd = yk__control_memory(c);
    shm->place_bytes = (shm->size * sizeof *shm->place + YK__SHM_PAGE - 1) / YK__SHM_PAGE * YK__SHM_PAGE;
    shm->end = shm->place_bytes;
    return YK_OK;
}

static yk_status map_places(yk__shm *shm, yk_error *err)
{
    struct stat st;
    void *p;
    char none = 0, *all = yk__calloc(shm->size, 1);
    yk_status s;
    if (!all)
        return yk__fail_mem(err, shm->size, "the shared memory of a job");
    if (shm->rank == shm->local[0] && ftruncate(shm->fd, (off_t)shm->place_bytes))
        s = yk__fail(err, YK_E_MEM, "%llu bytes of shared memory: %s", (unsigned long long)shm->place_bytes, strerror(errno));
    else
        s = yk__control_exchange(shm->control, "making shared memory", &none, 1, all, err); /* all wait for it */
    yk__free(all);
    if (s)
        return s;
    if (fstat(shm->fd, &st) || (uint64_t)st.st_size < shm->place_bytes)
        return yk__fail(err, YK_E_INTERNAL, "the ranks' shared memory is too short");
    p = mmap(NULL, shm->place_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, 0);
    if (p == MAP_FAILED)
        return yk__fail(err, YK_E_MEM, "mapping the ranks' shared memory: %s", strerror(errno));
    shm->place = p;
    return YK_OK;
}

yk_status yk__shm_attach(yk__control *c, yk__shm **out, yk_error *err)
{
    yk__shm *shm = NULL;
    *out = NULL;
    if (shm_new(c, &shm, err) || map_places(shm, err)) {
        yk__shm_detach(shm);
        return err->status;
    }
    if (shm->locals > 1 || shm->size == 1)
        *out = shm;
    else
        yk__shm_detach(shm);
    return YK_OK;
}

uint32_t yk__shm_ranks(const yk__shm *shm)
{
    return shm->locals;
}

uint32_t yk__shm_index(const yk__shm *shm, uint32_t rank)
{
    for (uint32_t i = 0; i < shm->locals; i++)
        if (shm->local[i] == rank)
            return i;
    return UINT32_MAX;
}

void yk__shm_detach(yk__shm *shm)
{
    if (!shm)
        return;
    for (size_t i = 0; i < shm->n_block; i++)
        munmap(shm->block[i].mem, shm->block[i].bytes);
    if (shm->place)
        munmap(shm->place, shm->place_bytes);
    yk__free(shm->local);
    yk__free(shm->block);
    yk__free(shm->gap);
    yk__free(shm);
}

void yk__shm_watch(yk__shm *shm, yk_status (*watch)(void *arg, uint32_t peer, yk_error *err), void *arg)
{
    shm->watch = watch;
    shm->watch_arg = arg;
}
