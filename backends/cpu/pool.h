/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads, one bound to each core. The thread that calls cpu_pool_run is worker 0; the others sleep between
 * runs. One run at a time: callers serialise. Waiting spins for a bounded time, then sleeps on a futex.
 * Numbers below the normal ones (1.2e-38) are zero, in what is read and in what is written (FTZ, DAZ): some processors
 * need a hundred times longer for them, and second moments of small gradients are full of them. So do vdpbf16ps and
 * tdpbf16ps by definition. Every thread that runs programs is in this mode, so that results are the same on all.
 */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cpu_pool cpu_pool;

/* A 32-bit word to wait on; grows at each event. */
typedef struct cpu_event {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} cpu_event;

/* Returns when the value is no longer `seen` (true) or at a time of cpu_event_deadline (false). */
bool cpu_event_wait_until(cpu_event *e, uint32_t seen, uint64_t end);
bool cpu_event_sleep_until(cpu_event *e, uint32_t seen, uint64_t end); /* without spinning first */
void cpu_event_wait(cpu_event *e, uint32_t seen);
uint64_t cpu_event_deadline(uint64_t timeout_ns); /* UINT64_MAX: never */
void cpu_event_post(cpu_event *e);

/* Threads for cores[1..n-1]; core -1: not bound. NULL when there is no memory or no thread. */
cpu_pool *cpu_pool_new(const int *cores, int n);
void cpu_pool_free(cpu_pool *p);
/* fn(arg, worker) on all n workers; returns when all are done. */
void cpu_pool_run(cpu_pool *p, void (*fn)(void *arg, int worker), void *arg);
/* All workers of the running fn meet here. */
void cpu_pool_barrier(cpu_pool *p);
/* Into that mode, for the calling thread; the mode before, for cpu_float_end. */
uint64_t cpu_float_begin(void);
void cpu_float_end(uint64_t before);
/* Binds the calling thread to a core; -1: leaves it. */
void cpu_pool_bind(int core);

#endif
