/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A planned graph as programs of the device. The file fills the planner's request, lays inputs out in the input buffer, and compiles each
 * segment of the plan with the device's plugin.
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
    const bool single = yk__exchange_members(exec->exchange) == 1;
    *r = (yk__plan_request){
        .trace = trace,
        .loss = YK_NONE,
        .seed = YK_NONE,
        .single_rank = single,
        .gathers = (!single && exec->exchange->medium == YK__MESSAGES && !exec->params->far) || yk__params_defer(exec->params),
        .precision = YK_F32,
        .caps = &exec->queue->dev->caps,
        .claims = ask_device,
        .claims_arg = exec->queue->dev,
    };
}

/* Inputs lie one behind the other in one buffer, filled by one transfer. */
static yk_status lay_inputs(yk__exec *exec, yk__prog *p, yk_error *err)
{
    const yk__graph *g = &p->plan->graph;
    const uint64_t align = exec->queue->dev->caps.align > ALIGN ? exec->queue->dev->caps.align : ALIGN;
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

/* Counts the plugin's memory beside the slots before the plugin takes it. */
static yk_status count_scratch(yk__exec *exec, const yk__plan *plan, yk_error *err)
{
    for (uint32_t i = 0; i < plan->n_segment; i++) {
        uint64_t bytes = 0;
        yk_status st;
        if (!plan->segment[i].graph.n_node)
            continue;
        yk__plugin_message();
        st = exec->queue->dev->table->graph_scratch(exec->queue->dev->handle, &plan->segment[i].graph, &bytes);
        if (st)
            return yk__plugin_fail(err, exec->queue->dev->plugin, st, "the scratch memory of a program");
        if (bytes > exec->queue->bytes[YK__SCRATCH_BYTES])
            yk__queue_count(exec->queue, bytes - exec->queue->bytes[YK__SCRATCH_BYTES], YK__SCRATCH_BYTES);
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

/* Counts the program's memory by its compiler's account, if there is one. */
static yk_status count_account(yk__exec *exec, const yk_program *program, yk_error *err)
{
    yk_program_memory m;
    if (!yk__compiled_account(exec->queue->dev, program, &m, err))
        return err->status;
    exec->accounts++;
    if (account_bytes(&m) > account_bytes(&exec->largest))
        exec->largest = m;
    if (m.temporary > exec->queue->bytes[YK__SCRATCH_BYTES])
        yk__queue_count(exec->queue, m.temporary - exec->queue->bytes[YK__SCRATCH_BYTES], YK__SCRATCH_BYTES);
    return YK_OK;
}

static yk_status compile_segments(yk__exec *exec, yk__prog *p, yk_error *err)
{
    yk__device *dev = exec->queue->dev;
    const double began = yk__clock_seconds();
    yk__compiling c;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->plan->n_segment; i++)
        n += p->plan->segment[i].graph.n_node > 0;
    yk__compiling_begin(&c, dev, "segment", n);
    for (uint32_t i = 0; i < p->plan->n_segment && !err->status; i++) {
        const yk_graph *g = &p->plan->segment[i].graph;
        if (!g->n_node)
            continue;
        if (atomic_load(&dev->aborted) || __atomic_load_n(exec->queue->cancel, __ATOMIC_ACQUIRE))
            yk__fail(err, YK_E_CANCELLED, "compiling: the job was ended");
        else if (!yk__compiling_next(&c, g, &p->program[i], err))
            count_account(exec, p->program[i], err);
    }
    yk__compiling_end(&c);
    exec->compile_seconds += yk__clock_seconds() - began;
    return err->status;
}

/* Fills a program. After a failure the caller frees the finished part. */
static yk_status prog_fill(yk__exec *exec, const yk__plan_request *r, yk__prog *p, yk_error *err)
{
    size_t n;
    uint64_t least = 0;
    yk__plan_request asks = *r;
    asks.least = &least;
    if (yk__plan_new(&asks, &p->plan, err))
        return least ? yk__queue_advise(exec->queue, YK__ARENA_BYTES, least, r->arena_limit, err) : err->status;
    p->settles = !r->gathers;
    n = p->plan->graph.n_slot;
    p->n_slot = (uint32_t)n;
    p->program = yk__calloc(p->plan->n_segment + 1ull, sizeof *p->program);
    p->slot = yk__calloc(n, sizeof *p->slot);
    p->slot_offset = yk__calloc(n, sizeof *p->slot_offset);
    p->slot_version = yk__calloc(n, sizeof *p->slot_version);
    if (!p->program || !p->slot || !p->slot_offset || !p->slot_version)
        return yk__fail_mem(err, n * 24, "a program");
    if (lay_inputs(exec, p, err) || yk__instance_lanes(&exec->instance, exec->queue, p->plan, err) || make_copies(exec, p, err) ||
        count_scratch(exec, p->plan, err))
        return err->status;
    if (compile_segments(exec, p, err) || yk__list_make(p->plan, exec->first_action, &p->list, err))
        return err->status;
    if (yk__plan_dumps())
        yk__plan_dump_list(p->plan, yk__list_text(p->plan, &p->list));
    return YK_OK;
}

yk_status yk__prog_new(yk__exec *exec, const yk__plan_request *r, yk__prog **out, yk_error *err)
{
    yk__prog *p = yk__calloc(1, sizeof *p);
    if (!p)
        return yk__fail_mem(err, sizeof *p, "a program");
    if (prog_fill(exec, r, p, err))
        yk__prog_free(exec, p);
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

void yk__prog_free(const yk__exec *exec, yk__prog *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->program && i < p->plan->n_segment; i++)
        if (p->program[i])
            exec->queue->dev->table->program_free(p->program[i]);
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
