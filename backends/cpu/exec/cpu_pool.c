/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of worker threads, one for each core of the device. This file has their events, the phases of a run, and the measured cost of
 * waking.
 *
 * cpu_program.c runs programs of several workers with cpu_pool_run, in the queue's thread, which is worker 0. One run at a time. A call
 * returns when all pieces are done; it does not wait for a worker that never came (cpu_pool.h).
 */
#define _GNU_SOURCE
#include "backends/cpu/exec/cpu_pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/exec/migrate.h"
#include "backends/cpu/exec/steal.h"
#include "plugins/kit/kit_clock.h"

#define SPIN_NS 50000 /* without a measurement: the time of waking a thread on a virtual machine */
#define SPIN_LEAST_NS 20000
#define SPIN_MOST_NS 200000
#define SPINS 16 /* between two looks at the clock */
#define TIMESLICE_NS 1000000 /* less than schedulers give a thread at a time */
#define WAKE_TRIES 5
#define TURN_TRIES 16
#define SHARE_NS 6000.0 /* without a measurement */
#define SHARE_MOST_NS 20000.0
#define SHARE_PAYS 8.0 /* a step is shared if it saves so many times the cost of meeting, as its data changes caches too */

typedef struct pool_worker {
    cpu_pool *pool;
    pthread_t thread;
    int number, core;
    uint64_t on_core; /* when it last got its core, or was not refused it */
    _Alignas(64) cpu_seat seat;
} pool_worker;

struct cpu_pool {
    int workers;
    _Atomic bool stop;
    _Atomic uint64_t wake_ns; /* as in cpu_costs */
    uint64_t turn_ns;
    double share_ns, slowness;
    pool_worker *worker;
    cpu_range *range; /* [n], one for each worker */
    /* the current phase; written by the worker that begins it, before its ranges */
    const cpu_work *work;
    uint64_t phases;
    int pieces;
    _Atomic int active;            /* workers that take part in the run */
    _Alignas(64) _Atomic int left; /* pieces that are not finished */
    _Alignas(64) cpu_event begun;  /* phases: the workers wait for it */
    cpu_event called;              /* incremented with `active`: inactive workers wait for it */
    _Alignas(64) cpu_event caller; /* phases and the end of the run: worker 0 waits for it */
    _Atomic bool over;
    _Alignas(64) _Atomic int arrived; /* workers that came out of a wait, for the measurements */
};

static void spin_pause(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* Spins for some time; true when the value is another. */
static bool event_spin(const cpu_event *event, uint32_t seen, uint64_t ns)
{
    uint64_t end = 0;
    for (;;) {
        for (int i = 0; i < SPINS; i++) {
            if (atomic_load_explicit(&event->value, memory_order_acquire) != seen)
                return true;
            spin_pause();
        }
        const uint64_t now = kit_now_ns();
        end = end ? end : now + ns;
        if (now >= end)
            return false;
    }
}

bool cpu_event_wait_until(cpu_event *event, uint32_t seen, uint64_t end)
{
    return event_spin(event, seen, SPIN_NS) || cpu_event_sleep_until(event, seen, end);
}

bool cpu_event_sleep_until(cpu_event *event, uint32_t seen, uint64_t end)
{
    while (atomic_load(&event->value) == seen) {
        uint64_t left = 1000000000u, now = kit_now_ns();
        if (end != UINT64_MAX && now >= end)
            return false;
        if (end - now < left)
            left = end - now;
        struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        atomic_fetch_add(&event->sleepers, 1);
        if (atomic_load(&event->value) == seen)
            syscall(SYS_futex, &event->value, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
        atomic_fetch_sub(&event->sleepers, 1);
    }
    return true;
}

void cpu_event_wait(cpu_event *event, uint32_t seen)
{
    cpu_event_wait_until(event, seen, UINT64_MAX);
}

uint64_t cpu_event_deadline(uint64_t timeout_ns)
{
    uint64_t now = kit_now_ns();
    return timeout_ns >= UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

void cpu_event_post(cpu_event *event)
{
    atomic_fetch_add(&event->value, 1);
    if (atomic_load(&event->sleepers))
        syscall(SYS_futex, &event->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void cpu_pool_bind(int core)
{
    cpu_set_t set;
    if (core < 0 || core >= CPU_SETSIZE)
        return;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

uint64_t cpu_float_begin(void)
{
#if defined __x86_64__
    uint32_t before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040u); /* FTZ is bit 15, DAZ bit 6 */
    return before;
#elif defined __aarch64__
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | 1u << 24)); /* FZ */
    return before;
#else
    return 0;
#endif
}

void cpu_float_end(uint64_t before)
{
#if defined __x86_64__
    __builtin_ia32_ldmxcsr((uint32_t)before);
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
#else
    (void)before;
#endif
}

/* ---- Phases ---- */

/* True if a worker lost its core within a piece and now runs on this one. */
static bool pool_fetch_stalled(cpu_pool *pool, int waiter)
{
    const int active = atomic_load(&pool->active);
    for (int i = 1; i < active; i++) {
        cpu_seat *seat = &pool->worker[(waiter + i) % active].seat;
        if (cpu_seat_stalled(seat) && cpu_seat_fetch(seat))
            return true;
    }
    return false;
}

/* Spins for as long as a wake takes, then sleeps; while other workers hold pieces, checks on them now and then. */
static void pool_wait(cpu_pool *pool, int waiter, cpu_event *event, uint32_t seen)
{
    uint64_t pause = atomic_load_explicit(&pool->wake_ns, memory_order_relaxed);
    if (event_spin(event, seen, pause))
        return;
    for (; pool->worker[waiter].core >= 0 && atomic_load(&pool->left) > 0 && !pool_fetch_stalled(pool, waiter); pause *= 2)
        if (cpu_event_sleep_until(event, seen, kit_now_ns() + pause))
            return;
    cpu_event_sleep_until(event, seen, UINT64_MAX);
}

static void pool_begin(cpu_pool *pool, cpu_phase phase)
{
    pool->pieces = phase.pieces;
    atomic_store_explicit(&pool->left, phase.pieces, memory_order_relaxed);
    cpu_steal_begin(pool->range, atomic_load(&pool->active), ++pool->phases, phase.pieces);
    if (phase.work * pool->slowness > (double)atomic_load_explicit(&pool->wake_ns, memory_order_relaxed))
        cpu_event_post(&pool->begun);
    else
        atomic_fetch_add(&pool->begun.value, 1); /* for spinning workers */
}

/* Called after the last piece of a phase, by the worker that finished it. */
static void pool_advance(cpu_pool *pool, int worker)
{
    const cpu_phase phase = pool->work->next(pool->work->arg, worker);
    if (phase.pieces)
        pool_begin(pool, phase);
    else
        atomic_store(&pool->over, true);
    if (worker)
        cpu_event_post(&pool->caller);
}

/* Yields the core while the worker holds no piece. Another program would else take it within a piece, and every worker would wait for
 * some milliseconds. Without one it costs half a microsecond. */
static void worker_yield(pool_worker *worker)
{
    const uint64_t now = kit_now_ns();
    if (now - worker->on_core < TIMESLICE_NS)
        return;
    sched_yield();
    worker->on_core = kit_now_ns();
}

/* Until all pieces are taken. */
static void pool_take_part(cpu_pool *pool, int worker)
{
    const int active = atomic_load(&pool->active); /* perhaps of a run that is over; ranges are valid always */
    cpu_seat *seat = &pool->worker[worker].seat;
    int piece;
    while (worker_yield(&pool->worker[worker]), cpu_steal_next(pool->range, active, worker % active, &piece)) {
        atomic_store_explicit(&seat->holds_piece, true, memory_order_relaxed);
        pool->work->piece(pool->work->arg, worker, piece, pool->pieces);
        atomic_store(&seat->holds_piece, false);
        if (atomic_fetch_sub(&pool->left, 1) == 1)
            pool_advance(pool, worker);
        cpu_seat_return(seat);
    }
}

static void *worker_main(void *arg)
{
    pool_worker *worker = arg;
    cpu_pool *pool = worker->pool;
    cpu_pool_bind(worker->core);
    cpu_seat_take(&worker->seat);
    cpu_float_begin();
    for (;;) {
        const uint32_t seen = atomic_load(&pool->begun.value), called = atomic_load(&pool->called.value);
        if (atomic_load(&pool->stop))
            return NULL;
        if (worker->number >= atomic_load(&pool->active)) {
            cpu_event_sleep_until(&pool->called, called, UINT64_MAX);
            continue;
        }
        pool_take_part(pool, worker->number);
        pool_wait(pool, worker->number, &pool->begun, seen);
        atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_relaxed);
    }
}

void cpu_pool_run(cpu_pool *pool, const cpu_work *work, int workers)
{
    const cpu_phase phase = work->next(work->arg, 0);
    if (!phase.pieces)
        return;
    pool->work = work;
    cpu_seat_take(&pool->worker[0].seat);
    if (atomic_exchange(&pool->active, workers) < workers)
        cpu_event_post(&pool->called);
    atomic_store(&pool->over, false);
    pool_begin(pool, phase);
    for (;;) {
        const uint32_t seen = atomic_load(&pool->caller.value);
        pool_take_part(pool, 0);
        if (atomic_load(&pool->over))
            return;
        pool_wait(pool, 0, &pool->caller, seen);
    }
}

int cpu_pool_size(const cpu_pool *pool)
{
    return pool->workers;
}

/* ---- Measurement ---- */

/* pool_call returns the time until the called workers come; SPIN_MOST_NS or more means that too few came. */
static uint64_t pool_call(cpu_pool *pool, int wanted)
{
    atomic_store(&pool->arrived, 0);
    const uint64_t from = kit_now_ns();
    cpu_event_post(&pool->begun);
    while (atomic_load(&pool->arrived) < wanted && kit_now_ns() - from < SPIN_MOST_NS)
        spin_pause();
    return kit_now_ns() - from;
}

/* One is let fall asleep, and called. */
static uint64_t wake_time(cpu_pool *pool)
{
    const uint64_t end = kit_now_ns() + 10 * SPIN_MOST_NS;
    while (!atomic_load(&pool->begun.sleepers) && kit_now_ns() < end)
        spin_pause();
    return pool_call(pool, 1);
}

/* All are called while they spin: a little after they came for the call before, long before they fall asleep. */
static uint64_t turn_time(cpu_pool *pool)
{
    uint64_t least = SPIN_MOST_NS;
    for (int i = 0; i < TURN_TRIES; i++) {
        for (const uint64_t begin = kit_now_ns(); kit_now_ns() - begin < SPIN_LEAST_NS / 4;)
            spin_pause();
        const uint64_t ns = pool_call(pool, pool->workers - 1);
        least = ns < least ? ns : least;
    }
    return least;
}

static uint64_t middle_of(uint64_t *ns, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k && ns[k - 1] > ns[k]; k--) {
            const uint64_t later = ns[k];
            ns[k] = ns[k - 1];
            ns[k - 1] = later;
        }
    return ns[n / 2];
}

/* Sharing saves (n - 1) / n of the step, and costs two meetings, at the beginning and the end. */
static double share_time(uint64_t turn_ns, int n)
{
    if (turn_ns >= SPIN_MOST_NS)
        return SHARE_NS; /* another program uses a core */
    const double ns = SHARE_PAYS * 2.0 * (double)turn_ns * n / (n - 1);
    return ns < CPU_SHARE_LEAST_NS ? CPU_SHARE_LEAST_NS : ns > SHARE_MOST_NS ? SHARE_MOST_NS : ns;
}

void cpu_pool_measure(cpu_pool *pool, double slowness)
{
    uint64_t ns[WAKE_TRIES];
    cpu_set_t own;
    pool->slowness = slowness;
    if (pool->workers == 1 || pthread_getaffinity_np(pthread_self(), sizeof own, &own))
        return;
    cpu_pool_bind(pool->worker[0].core); /* not on a worker's core, as that worker would have to wait for this thread */
    for (int i = 0; i < WAKE_TRIES; i++)
        ns[i] = wake_time(pool);
    const uint64_t wake = middle_of(ns, WAKE_TRIES);
    atomic_store(&pool->wake_ns, wake < SPIN_LEAST_NS ? SPIN_LEAST_NS : wake > SPIN_MOST_NS ? SPIN_MOST_NS : wake);
    pool->turn_ns = turn_time(pool);
    pool->share_ns = share_time(pool->turn_ns, pool->workers);
    pthread_setaffinity_np(pthread_self(), sizeof own, &own);
}

cpu_costs cpu_pool_costs(const cpu_pool *pool)
{
    return (cpu_costs){.wake_ns = atomic_load(&pool->wake_ns), .turn_ns = pool->turn_ns, .share_ns = pool->share_ns,
                       .slowness = pool->slowness};
}

static void stop_workers(cpu_pool *pool, int n)
{
    atomic_store(&pool->stop, true);
    cpu_event_post(&pool->begun);
    cpu_event_post(&pool->called);
    for (int i = 1; i < n; i++)
        pthread_join(pool->worker[i].thread, NULL);
}

/* False: the memory or a thread is not to be had, and no thread runs. */
static bool start_workers(cpu_pool *pool, const int *cores, int n)
{
    if (!pool->worker || !pool->range)
        return false;
    cpu_steal_begin(pool->range, n, 0, 0);
    for (int i = 0; i < n; i++)
        pool->worker[i] = (pool_worker){.pool = pool, .number = i, .core = cores[i]};
    for (int i = 1; i < n; i++)
        if (pthread_create(&pool->worker[i].thread, NULL, worker_main, &pool->worker[i])) {
            stop_workers(pool, i);
            return false;
        }
    return true;
}

cpu_pool *cpu_pool_new(const int *cores, int n)
{
    cpu_pool *pool = cpu_host->alloc(sizeof *pool, 64);
    if (!pool)
        return NULL;
    *pool = (cpu_pool){.workers = n, .active = n, .wake_ns = SPIN_NS, .share_ns = SHARE_NS, .slowness = 1.0,
                    .worker = cpu_host->alloc((size_t)n * sizeof(pool_worker), 64),
                    .range = cpu_host->alloc((size_t)n * sizeof(cpu_range), 64)};
    if (start_workers(pool, cores, n))
        return pool;
    cpu_host->free(pool->range);
    cpu_host->free(pool->worker);
    cpu_host->free(pool);
    return NULL;
}

void cpu_pool_free(cpu_pool *pool)
{
    if (!pool)
        return;
    stop_workers(pool, pool->workers);
    cpu_host->free(pool->range);
    cpu_host->free(pool->worker);
    cpu_host->free(pool);
}
