/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads, one bound to each core, that runs phases of pieces. The thread that calls cpu_pool_run is worker 0; the other
 * workers sleep between runs. One run at a time: callers serialise.
 *
 * A phase ends once its pieces are done, even if some workers never came. So it does not wait for a worker that lost its core or is still
 * waking. The worker that finishes the last piece begins the next phase. A wait spins for as long as waking a thread takes on this machine,
 * then sleeps on a futex.
 *
 * Subnormal numbers (below 1.2e-38) are zero in inputs and outputs (FTZ, DAZ): some processors need a hundred times longer for them. Second
 * moments of small gradients are full of them. The instructions vdpbf16ps and tdpbf16ps do so by definition. Every thread that runs
 * programs is in this mode, so that all give the same results.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_CPU_POOL_H
#define YOKE_BACKENDS_CPU_EXEC_CPU_POOL_H

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
bool cpu_event_wait_until(cpu_event *event, uint32_t seen, uint64_t end);
bool cpu_event_sleep_until(cpu_event *event, uint32_t seen, uint64_t end); /* without spinning first */
void cpu_event_wait(cpu_event *event, uint32_t seen);
uint64_t cpu_event_deadline(uint64_t timeout_ns); /* UINT64_MAX: never */
void cpu_event_post(cpu_event *event);

typedef struct cpu_phase {
    int pieces;  /* 0: the run is over; at most CPU_PIECES_MOST */
    double work; /* a guess, ns on one core: a sleeping worker is woken only for work longer than a wake */
} cpu_phase;

/* The work of a run. A worker calls `next` at the start of the run, and again each time all pieces of a phase are done. */
typedef struct cpu_work {
    void (*piece)(void *arg, int worker, int piece, int pieces);
    cpu_phase (*next)(void *arg, int worker);
    void *arg;
} cpu_work;

/* Threads for cores[1..n-1]; core -1: not bound. NULL when there is no memory or no thread. */
cpu_pool *cpu_pool_new(const int *cores, int n);
void cpu_pool_free(cpu_pool *pool);
int cpu_pool_size(const cpu_pool *pool);

#define CPU_SHARE_LEAST_NS 2000.0 /* no step of less is shared, on any machine */

/* Costs of workers, in ns. They decide the workers of a step; results do not depend on them. */
typedef struct cpu_costs {
    uint64_t wake_ns; /* from a wake to the first instruction; a wait spins for so long before it sleeps */
    uint64_t turn_ns; /* until all spinning workers come; 0 if not measured */
    double share_ns;  /* a shorter step runs on one worker */
    double slowness;  /* real ns per guessed ns on a core */
} cpu_costs;

/* Measures them here and now, in 15 ms at most. Before the first run. */
void cpu_pool_measure(cpu_pool *pool, double slowness);
cpu_costs cpu_pool_costs(const cpu_pool *pool);
/* Runs the work on the first so many workers; returns once the run is over. */
void cpu_pool_run(cpu_pool *pool, const cpu_work *work, int workers);

/* Into that mode, for the calling thread; the mode before, for cpu_float_end. */
uint64_t cpu_float_begin(void);
void cpu_float_end(uint64_t before);
/* Binds the calling thread to a core; -1: leaves it. */
void cpu_pool_bind(int core);

#endif
