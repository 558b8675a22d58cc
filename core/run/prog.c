/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A planned graph as programs of the device. One half plans, lays inputs out and compiles: it changes the program alone, in any thread. The
 * other half gives the program lanes and copies of parameters, and counts its memory, in the step thread.
 *
 * cache.c makes the programs of micro batches with it, update_programs.c and values/ the others, in the step thread. Each caller frees its
 * program by yk__prog_free. Sizes and offsets are bytes.
 */
#include "core/base/mem.h"
#include "core/device/compiling.h"
#include "core/run/exec.h"

#define ALIGN 256u

static uint32_t ask_device(void *arg, const yk_graph *g, uint32_t node)
{
    const yk__device *dev = arg;
    return yk__device_claims(dev, g, node);
}

void yk__prog_request(const yk__exec *exec, const yk__graph *trace, yk__plan_request *r)
{
    *r = (yk__plan_request){
        .trace = trace,
        .loss = YK_NONE,
        .seed = YK_NONE,
        .precision = YK_F32,
        .caps = &exec->queue->dev->caps,
        .claims = ask_device,
        .claims_arg = exec->queue->dev,
    };
    yk__prog_for_members(exec, yk__exchange_members(exec->exchange), r);
}

void yk__prog_for_members(const yk__exec *exec, uint32_t members, yk__plan_request *r)
{
    r->single_rank = members == 1;
    r->gathers = (members != 1 && exec->exchange->laid_for == YK__MESSAGES && !exec->params->far) || yk__params_defer(exec->params);
}

/* Inputs lie one behind the other in one buffer, filled by one transfer. */
static yk_status lay_inputs(const yk__device *dev, yk__prog *p, yk_error *err)
{
    const yk__graph *g = &p->plan->graph;
    const uint64_t align = dev->caps.align > ALIGN ? dev->caps.align : ALIGN;
    for (size_t i = 1; i < g->n_slot; i++)
        if (g->slot[i].kind == YK_SLOT_INPUT && g->slot[i].key >= p->n_input)
            p->n_input = g->slot[i].key + 1;
    p->input_offset = yk__calloc(p->n_input + 1ull, sizeof *p->input_offset);
    p->input_size = yk__calloc(p->n_input + 1ull, sizeof *p->input_size);
    if (!p->input_offset || !p->input_size)
        return yk__fail_mem(err, p->n_input * 16ull, "a program");
    for (size_t i = 1; i < g->n_slot; i++) {
        const yk_slot *s = &g->slot[i];
        if (s->kind != YK_SLOT_INPUT || p->input_size[s->key])
            continue;
        p->input_size[s->key] = s->bytes;
        p->input_offset[s->key] = p->input_bytes;
        p->input_bytes += (s->bytes + align - 1) / align * align;
    }
    return YK_OK;
}

/* Asks for the plugin's memory beside the slots, before the plugin takes it. */
static yk_status ask_scratch(yk__device *dev, yk__prog *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->plan->n_segment; i++) {
        uint64_t bytes = 0;
        yk_status st;
        if (!p->plan->segment[i].graph.n_node)
            continue;
        yk__plugin_message();
        st = dev->table->graph_scratch(dev->handle, &p->plan->segment[i].graph, &bytes);
        if (st)
            return yk__plugin_fail(err, dev->plugin, st, "the scratch memory of a program");
        p->scratch_bytes = bytes > p->scratch_bytes ? bytes : p->scratch_bytes;
    }
    return YK_OK;
}

/* The parameter whose copy is bound to the slot; NULL if none is. */
static yk__param *param_of_slot(const yk__params *p, const yk_slot *s)
{
    const uint32_t number = s->key & ~YK__KEY_COMPUTE;
    return s->kind == YK_SLOT_PARAM && !(s->key & YK__KEY_BUCKET) && (s->key & YK__KEY_COMPUTE) && number < p->n_param
               ? &p->param[number]
               : NULL;
}

/* Makes the copies of parameters that the program reads and that do not exist yet. */
static yk_status make_copies(yk__exec *exec, yk__prog *p, yk_error *err)
{
    for (size_t i = 1; i < p->plan->graph.n_slot; i++) {
        yk__param *q = param_of_slot(exec->params, &p->plan->graph.slot[i]);
        p->reads_compute |= q != NULL;
        if (q && !q->compute && yk__copies_make(exec->params, q, err))
            return err->status;
    }
    return YK_OK;
}

static uint64_t account_bytes(const yk_program_memory *m)
{
    return m->argument + m->result - m->alias + m->temporary + m->code;
}

static void keep_larger(yk_program_memory *largest, const yk_program_memory *m)
{
    if (account_bytes(m) > account_bytes(largest))
        *largest = *m;
}

/* Notes a compiled segment's memory by its compiler's account, if there is one. */
static yk_status note_account(yk__device *dev, yk__prog *p, const yk_program *program, yk_error *err)
{
    yk_program_memory m;
    if (!yk__compiled_account(dev, program, &m, err))
        return err->status;
    p->accounts++;
    keep_larger(&p->largest, &m);
    p->scratch_bytes = m.temporary > p->scratch_bytes ? m.temporary : p->scratch_bytes;
    return YK_OK;
}

static bool is_ended(const yk__prog_maker *maker)
{
    return atomic_load(&maker->dev->aborted) || __atomic_load_n(maker->cancel, __ATOMIC_ACQUIRE) ||
           (maker->stop && __atomic_load_n(maker->stop, __ATOMIC_ACQUIRE));
}

static yk_status compile_segments(const yk__prog_maker *maker, yk__prog *p, yk_error *err)
{
    yk__device *dev = maker->dev;
    const double began = yk__clock_seconds();
    yk__compiling c;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->plan->n_segment; i++)
        n += p->plan->segment[i].graph.n_node > 0;
    yk__compiling_begin(&c, dev, "segment", n);
    c.overlapped = maker->stop != NULL;
    for (uint32_t i = 0; i < p->plan->n_segment && !err->status; i++) {
        const yk_graph *g = &p->plan->segment[i].graph;
        if (!g->n_node)
            continue;
        if (is_ended(maker))
            yk__fail(err, YK_E_CANCELLED, "compiling: the job was ended");
        else if (!yk__compiling_next(&c, g, &p->program[i], err))
            note_account(dev, p, p->program[i], err);
    }
    yk__compiling_end(&c);
    p->compile_seconds = yk__clock_seconds() - began;
    return err->status;
}

/* Fills all of a program but the compiled segments. After a failure the caller frees the finished part. */
static yk_status prog_plan(const yk__prog_maker *maker, const yk__plan_request *r, yk__prog *p, yk_error *err)
{
    size_t n;
    yk__plan_request asks = *r;
    asks.least = &p->least_bytes;
    if (yk__plan_new(&asks, &p->plan, err))
        return err->status;
    p->settles = !r->gathers;
    n = p->plan->graph.n_slot;
    p->n_slot = (uint32_t)n;
    p->program = yk__calloc(p->plan->n_segment + 1ull, sizeof *p->program);
    p->slot = yk__calloc(n, sizeof *p->slot);
    p->slot_offset = yk__calloc(n, sizeof *p->slot_offset);
    p->slot_version = yk__calloc(n, sizeof *p->slot_version);
    if (!p->program || !p->slot || !p->slot_offset || !p->slot_version)
        return yk__fail_mem(err, n * 24, "a program");
    if (lay_inputs(maker->dev, p, err) || ask_scratch(maker->dev, p, err) || yk__list_make(p->plan, maker->first_action, &p->list, err))
        return err->status;
    if (yk__plan_dumps())
        yk__plan_dump_list(p->plan, yk__list_text(p->plan, &p->list));
    return YK_OK;
}

/* Counts what the program takes beside the slots; a compiler's account may have raised it. */
static void count_scratch(yk__exec *exec, const yk__prog *p)
{
    const uint64_t counted = exec->queue->bytes[YK__SCRATCH_BYTES];
    if (p->scratch_bytes > counted)
        yk__queue_count(exec->queue, p->scratch_bytes - counted, YK__SCRATCH_BYTES);
}

static yk_status prog_reserve(yk__exec *exec, yk__prog *p, yk_error *err)
{
    if (yk__instance_lanes(&exec->instance, exec->queue, p->plan, err) || make_copies(exec, p, err))
        return err->status;
    count_scratch(exec, p);
    return YK_OK;
}

static void count_compiled(yk__exec *exec, const yk__prog *p)
{
    count_scratch(exec, p);
    keep_larger(&exec->largest, &p->largest);
    exec->accounts += p->accounts;
    exec->compile_seconds += p->compile_seconds;
}

yk__prog_maker yk__prog_maker_of(const yk__exec *exec)
{
    return (yk__prog_maker){.dev = exec->queue->dev, .first_action = exec->first_action, .cancel = exec->queue->cancel};
}

yk_status yk__prog_fits(const yk__prog *p, uint64_t arena_most, yk_error *err)
{
    if (!arena_most || p->plan->arena_bytes <= arena_most)
        return YK_OK;
    return yk__fail(err, YK_E_MEM, "it takes %llu bytes for activations: expected %llu at most", (unsigned long long)p->plan->arena_bytes,
                    (unsigned long long)arena_most);
}

yk_status yk__prog_make(const yk__prog_maker *maker, const yk__plan_request *r, yk__prog **out, yk_error *err)
{
    yk__prog *p = yk__calloc(1, sizeof *p);
    if (!p)
        return yk__fail_mem(err, sizeof *p, "a program");
    if (prog_plan(maker, r, p, err) || yk__prog_fits(p, maker->arena_most, err) || compile_segments(maker, p, err))
        yk__prog_free(maker->dev, p);
    else
        *out = p;
    return err->status;
}

yk_status yk__prog_adopt(yk__exec *exec, yk__prog *p, yk_error *err)
{
    if (!prog_reserve(exec, p, err))
        count_compiled(exec, p);
    return err->status;
}

/* The memory is reserved before the device compiles, which may take minutes: a lack of it shows first. */
yk_status yk__prog_new(yk__exec *exec, const yk__plan_request *r, yk__prog **out, yk_error *err)
{
    const yk__prog_maker maker = yk__prog_maker_of(exec);
    yk__prog *p = yk__calloc(1, sizeof *p);
    if (!p)
        return yk__fail_mem(err, sizeof *p, "a program");
    if (prog_plan(&maker, r, p, err) && p->least_bytes)
        yk__queue_advise(exec->queue, YK__ARENA_BYTES, p->least_bytes, r->arena_limit, err);
    if (!err->status && !prog_reserve(exec, p, err)) {
        compile_segments(&maker, p, err);
        count_compiled(exec, p);
    }
    if (err->status)
        yk__prog_free(maker.dev, p);
    else
        *out = p;
    return err->status;
}

yk_status yk__prog_of_graph(yk__exec *exec, yk__graph *g, yk__prog_ends ends, yk__prog **p, yk_error *err)
{
    yk__plan_request r;
    yk__prog_request(exec, g, &r);
    r.single_rank = true;
    r.gathers = false;
    r.n_updated = ends.n_updated;
    r.n_result = ends.n_result, r.result = ends.result;
    if (g->error.status)
        *err = g->error;
    else if (!err->status)
        yk__prog_new(exec, &r, p, err);
    yk__graph_free(g);
    return err->status;
}

void yk__prog_free(const yk__device *dev, yk__prog *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->program && i < p->plan->n_segment; i++)
        if (p->program[i])
            dev->table->program_free(p->program[i]);
    yk__plan_free(p->plan);
    yk__list_free(&p->list);
    yk__free(p->program);
    yk__free(p->slot);
    yk__free(p->slot_offset);
    yk__free(p->slot_version);
    yk__free(p->input_offset);
    yk__free(p->input_size);
    yk__free(p);
}
