/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads, one bound to each core, that runs phases of pieces. The thread that calls cpu_pool_run is worker 0; the
 * others sleep between runs. One run at a time: callers serialise.
 *
 * A phase ends when its pieces are done, not when all workers have come: one whose core is taken away, or which is still
 * being woken, is not waited for, and the last to finish a piece begins the next phase, whoever it is. Waiting spins for
 * as long as waking a thread takes on this machine, then sleeps on a futex.
 *
 * Numbers below the normal ones (1.2e-38) are zero, in what is read and in what is written (FTZ, DAZ): some processors
 * need a hundred times longer for them, and second moments of small gradients are full of them. So do vdpbf16ps and
 * tdpbf16ps by definition. Every thread that runs programs is in this mode, so that results are the same on all.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_POOL_H
#define YOKE_BACKENDS_CPU_EXEC_POOL_H

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
    double work; /* a guess, ns on one core: who sleeps is woken only for what takes longer than waking */
} cpu_phase;

/* What a run does. All pieces of a phase are done before `next` is called, by one of the workers; it is called once more at
 * the start of the run. */
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

/* What workers cost each other, in ns. Who does what goes by it, results do not. */
typedef struct cpu_costs {
    uint64_t wake_ns; /* from waking one to its first instruction: so long a wait spins before it sleeps */
    uint64_t turn_ns; /* until all come that spin; 0: not measured */
    double share_ns;  /* a step of less is done by one */
    double slowness;  /* of a core: ns that a guessed one takes */
} cpu_costs;

/* Measures them here and now, in 15 ms at most. Before the first run. */
void cpu_pool_measure(cpu_pool *pool, double slowness);
cpu_costs cpu_pool_costs(const cpu_pool *pool);
/* Runs it on the first so many workers; returns when the run is over. */
void cpu_pool_run(cpu_pool *pool, const cpu_work *work, int workers);

/* Into that mode, for the calling thread; the mode before, for cpu_float_end. */
uint64_t cpu_float_begin(void);
void cpu_float_end(uint64_t before);
/* Binds the calling thread to a core; -1: leaves it. */
void cpu_pool_bind(int core);

#endif
