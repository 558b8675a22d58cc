/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"

#define SPINS 4000 /* about 20-50 us: longer than most steps' imbalance, short beside a time slice */

typedef struct worker {
    cpu_pool *pool;
    pthread_t thread;
    int number, core;
} worker;

struct cpu_pool {
    int n;
    bool stop;
    void (*fn)(void *, int);
    void *arg;
    cpu_event start, phase;
    _Atomic int arrived;
    worker *w;
};

static void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool cpu_event_wait_until(cpu_event *e, uint32_t seen, uint64_t end)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&e->value, memory_order_acquire) != seen)
            return true;
        relax();
    }
    return cpu_event_sleep_until(e, seen, end);
}

bool cpu_event_sleep_until(cpu_event *e, uint32_t seen, uint64_t end)
{
    while (atomic_load(&e->value) == seen) {
        uint64_t left = 1000000000u, now = now_ns();
        if (end != UINT64_MAX && now >= end)
            return false;
        if (end - now < left)
            left = end - now;
        struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        atomic_fetch_add(&e->sleepers, 1);
        if (atomic_load(&e->value) == seen)
            syscall(SYS_futex, &e->value, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
        atomic_fetch_sub(&e->sleepers, 1);
    }
    return true;
}

void cpu_event_wait(cpu_event *e, uint32_t seen)
{
    cpu_event_wait_until(e, seen, UINT64_MAX);
}

uint64_t cpu_event_deadline(uint64_t timeout_ns)
{
    uint64_t now = now_ns();
    return timeout_ns >= UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

void cpu_event_post(cpu_event *e)
{
    atomic_fetch_add(&e->value, 1);
    if (atomic_load(&e->sleepers))
        syscall(SYS_futex, &e->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
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

void cpu_pool_barrier(cpu_pool *p)
{
    if (p->n == 1)
        return;
    uint32_t seen = atomic_load(&p->phase.value);
    if (atomic_fetch_add(&p->arrived, 1) + 1 == p->n) {
        atomic_store(&p->arrived, 0);
        cpu_event_post(&p->phase);
        return;
    }
    cpu_event_wait(&p->phase, seen);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    cpu_pool *p = w->pool;
    cpu_pool_bind(w->core);
    cpu_float_begin();
    for (uint32_t seen = 0;; seen++) {
        cpu_event_wait(&p->start, seen);
        if (p->stop)
            return NULL;
        p->fn(p->arg, w->number);
        cpu_pool_barrier(p);
    }
}

void cpu_pool_run(cpu_pool *p, void (*fn)(void *arg, int worker), void *arg)
{
    p->fn = fn;
    p->arg = arg;
    if (p->n > 1)
        cpu_event_post(&p->start);
    fn(arg, 0);
    cpu_pool_barrier(p);
}

static void stop_workers(cpu_pool *p, int n)
{
    p->stop = true;
    cpu_event_post(&p->start);
    for (int i = 1; i < n; i++)
        pthread_join(p->w[i].thread, NULL);
}

cpu_pool *cpu_pool_new(const int *cores, int n)
{
    cpu_pool *p = cpu_host->alloc(sizeof *p, 64);
    if (!p)
        return NULL;
    *p = (cpu_pool){.n = n, .w = cpu_host->alloc((size_t)n * sizeof(worker), 64)};
    if (!p->w)
        goto free_pool;
    for (int i = 1; i < n; i++) {
        p->w[i] = (worker){p, 0, i, cores[i]};
        if (pthread_create(&p->w[i].thread, NULL, worker_main, &p->w[i])) {
            stop_workers(p, i);
            goto free_workers;
        }
    }
    return p;
free_workers:
    cpu_host->free(p->w);
free_pool:
    cpu_host->free(p);
    return NULL;
}

void cpu_pool_free(cpu_pool *p)
{
    if (!p)
        return;
    stop_workers(p, p->n);
    cpu_host->free(p->w);
    cpu_host->free(p);
}
