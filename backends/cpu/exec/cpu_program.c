/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a compiled program (cpu_build.c made it): each step is a function over pieces. A step worth sharing is a phase of the pool; the
 * worker that ended the last phase runs the serial steps after it.
 *
 * cpu_queue.c calls cpu_prog_run in the queue's thread, or in the submitting thread for a short serial program (run_inline). Runs come one
 * at a time, with memory for the workers. A run returns when all steps are done. Sizes are bytes.
 */
#include <math.h>

#include "backends/cpu/exec/cpu_program.h"
#include "backends/cpu/exec/exec_internal.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/kit_clock.h"
#include "plugins/kit/value.h"

void cpu_prog_free(cpu_prog *prog)
{
    if (!prog)
        return;
    for (arg_chunk *chunk = prog->chunks; chunk;) {
        arg_chunk *next = chunk->next;
        cpu_host->free(chunk);
        chunk = next;
    }
    cpu_host->free(prog->steps);
    cpu_host->free(prog->uses);
    cpu_host->free(prog);
}

size_t cpu_prog_thread_ws(const cpu_prog *prog)
{
    return kit_round_bytes(prog->thread_ws, 4096) + 64;
}

size_t cpu_prog_shared_ws(const cpu_prog *prog)
{
    return kit_round_bytes(prog->shared_ws, 4096);
}

size_t cpu_prog_scratch(const cpu_prog *prog, int nt)
{
    return cpu_prog_shared_ws(prog) + (prog->serial ? 1 : (size_t)nt) * cpu_prog_thread_ws(prog);
}

bool cpu_prog_is_serial(const cpu_prog *prog)
{
    return prog->serial;
}

double cpu_prog_work(const cpu_prog *prog)
{
    return prog->work;
}

bool cpu_prog_uses(const cpu_prog *prog, uint32_t slot)
{
    return slot < prog->n_slot && prog->uses[slot];
}

uint32_t cpu_prog_slots(const cpu_prog *prog)
{
    return prog->n_slot;
}

uint64_t cpu_prog_slot_bytes(const cpu_prog *prog, uint32_t slot)
{
    return prog->slot[slot].bytes;
}

/* ---- A run ---- */

typedef struct prog_run {
    const cpu_prog *prog;
    const cpu_bound *bound;
    const atomic_int *stop;
    uint32_t steps; /* that are begun */
    uint64_t begun; /* when the last of them was */
    double share;   /* a step of less work is done by one worker */
} prog_run;

static void run_piece(void *arg, int worker, int piece, int pieces)
{
    const prog_run *run = arg;
    const cpu_prog *prog = run->prog;
    const prog_step *step = &prog->steps[run->steps - 1];
    char *shared_ws = run->bound->scratch, *thread_ws = shared_ws + cpu_prog_shared_ws(prog) + (size_t)worker * cpu_prog_thread_ws(prog);
    const cpu_ctx ctx = {run->bound->slot, run->bound->isa, shared_ws, thread_ws, piece, pieces, run->stop};
    if (!cpu_stops(&ctx))
        step->fn(step->args, &ctx);
}

/* Runs serial steps up to the next shared one. */
static cpu_phase run_next(void *arg, int worker)
{
    prog_run *run = arg;
    const cpu_prog *prog = run->prog;
    if (run->steps)
        run->begun = cpu_profile_add(prog->steps[run->steps - 1].entry, run->begun);
    while (run->steps < prog->n_step && !atomic_load_explicit(run->stop, memory_order_relaxed)) {
        const prog_step *step = &prog->steps[run->steps++];
        if (step->pieces > 1 && step->work >= run->share)
            return (cpu_phase){step->pieces, step->work};
        for (int i = 0; i < step->pieces; i++)
            run_piece(run, worker, i, step->pieces);
        run->begun = cpu_profile_add(step->entry, run->begun);
    }
    return (cpu_phase){0, 0.0};
}

void cpu_prog_run(cpu_prog *prog, const cpu_bound *bound, cpu_pool *pool, const atomic_int *stop)
{
    const int n = cpu_pool_size(pool), workers = prog->serial ? 1 : cpu_pace_workers(&prog->pace, n);
    const cpu_costs costs = cpu_pool_costs(pool);
    prog_run run = {prog, bound, stop, 0, cpu_profile_now(), workers == 1 ? INFINITY : costs.share_ns / costs.slowness};
    const uint64_t begun = kit_now_ns();
    if (workers == 1)
        run_next(&run, 0);
    else
        cpu_pool_run(pool, &(cpu_work){run_piece, run_next, &run}, workers);
    if (!prog->serial)
        cpu_pace_record(&prog->pace, n, (double)(kit_now_ns() - begun));
}

#define TOGETHER 8

void cpu_cuts_sum(const cpu_ctx *ctx, float *e, size_t stride, int64_t cuts, size_t n)
{
    for (int64_t first = 0; first < cuts; first += TOGETHER) {
        float *sum = e + (size_t)first * stride;
        for (int64_t cut = first + 1; cut < cuts && cut < first + TOGETHER; cut++)
            ctx->isa->vec->add(sum, e + (size_t)cut * stride, n);
        if (first)
            ctx->isa->vec->add(e, sum, n);
    }
}
