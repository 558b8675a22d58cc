/* SPDX-License-Identifier: Apache-2.0 */
/* A planned graph as programs of the device: what is asked of the planner, where inputs lie, compiling the segments. */
#include "core/base/advance.h"
#include "core/base/mem.h"
#include "core/run/exec.h"

#define ALIGN 256u

static uint32_t ask_device(void *arg, const yk_graph *g, uint32_t node)
{
    const yk__device *dev = arg;
    return dev->table->claims(dev->handle, g, node);
}

void yk__prog_request(const yk__exec *x, const yk__graph *trace, yk__plan_request *r)
{
    *r = (yk__plan_request){
        .trace = trace,
        .loss = YK_NONE,
        .seed = YK_NONE,
        .single_rank = x->exchange->world == 1,
        .precision = YK_F32,
        .caps = &x->queue->dev->caps,
        .claims = ask_device,
        .claims_arg = x->queue->dev,
    };
}

/* Inputs lie one behind the other in one buffer, filled by one transfer. */
static yk_status lay_inputs(yk__exec *x, yk__prog *p, yk_error *err)
{
    const yk__graph *g = &p->plan->graph;
    const uint64_t align = x->queue->dev->caps.align > ALIGN ? x->queue->dev->caps.align : ALIGN;
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

/* What the plugin will take beside the slots is counted before it does. */
static yk_status count_scratch(yk__exec *x, const yk__plan *plan, yk_error *err)
{
    for (uint32_t i = 0; i < plan->n_segment; i++) {
        uint64_t bytes = 0;
        yk_status st;
        if (!plan->segment[i].graph.n_node)
            continue;
        yk__plugin_words();
        st = x->queue->dev->table->graph_scratch(x->queue->dev->handle, &plan->segment[i].graph, &bytes);
        if (st)
            return yk__plugin_fail(err, x->queue->dev->plugin, st, "the scratch memory of a program");
        if (bytes > x->queue->bytes[YK__SCRATCH_BYTES])
            yk__queue_count(x->queue, bytes - x->queue->bytes[YK__SCRATCH_BYTES], YK__SCRATCH_BYTES);
    }
    return YK_OK;
}

static yk_status compile_segments(yk__exec *x, yk__prog *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->plan->n_segment; i++) {
        const yk__segment *s = &p->plan->segment[i];
        yk_status st;
        if (!s->graph.n_node)
            continue;
        yk__plugin_words();
        st = x->queue->dev->table->program_new(x->queue->dev->handle, &s->graph, &p->program[i]);
        yk__advance();
        if (st)
            return yk__plugin_fail(err, x->queue->dev->plugin, st, "compiling a program");
    }
    return YK_OK;
}

yk_status yk__prog_new(yk__exec *x, const yk__plan_request *r, yk__prog **out, yk_error *err)
{
    yk__prog *p = yk__calloc(1, sizeof *p);
    size_t n;
    if (!p)
        return yk__fail_mem(err, sizeof *p, "a program");
    if (yk__plan_new(r, &p->plan, err))
        goto free_prog;
    n = p->plan->graph.n_slot;
    p->n_slot = (uint32_t)n;
    p->program = yk__calloc(p->plan->n_segment + 1ull, sizeof *p->program);
    p->slot = yk__calloc(n, sizeof *p->slot);
    p->slot_offset = yk__calloc(n, sizeof *p->slot_offset);
    p->slot_version = yk__calloc(n, sizeof *p->slot_version);
    if (!p->program || !p->slot || !p->slot_offset || !p->slot_version) {
        yk__fail_mem(err, n * 24, "a program");
        goto free_prog;
    }
    if (lay_inputs(x, p, err) || yk__compute_make(x, p, err) || count_scratch(x, p->plan, err) || compile_segments(x, p, err))
        goto free_prog;
    *out = p;
    return YK_OK;
free_prog:
    yk__prog_free(x, p);
    return err->status;
}

void yk__prog_free(const yk__exec *x, yk__prog *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->program && i < p->plan->n_segment; i++)
        if (p->program[i])
            x->queue->dev->table->program_free(p->program[i]);
    yk__plan_free(p->plan);
    yk__free(p->program);
    yk__free(p->slot);
    yk__free(p->slot_offset);
    yk__free(p->slot_version);
    yk__free(p->input_offset);
    yk__free(p->input_size);
    yk__free(p);
}
