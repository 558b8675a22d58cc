/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program once: brings its inputs to the device and executes its list of instructions (list.h). Before each segment it binds the
 * buffers of parameters, gradients, inputs and results to the segment's slots.
 *
 * micro.c calls yk__prog_run for a step's micro batches; the update, casts and fills call it for their own programs. It runs in the step
 * thread. It returns when all commands are in the device's queue; the caller waits for queue->last_point.
 */
#include <string.h>

#include "core/run/exec.h"

/* ---- Binding ---- */

/* A parameter that lies in slices is in the lane of its bucket's pull. */
static yk__bound bind_pulled(const yk__exec *exec, const yk__prog *p, const yk__param *q, uint32_t segment)
{
    const uint32_t lane = yk__plan_pull_lane(p->plan, segment, q->bucket);
    return lane == YK_NONE ? (yk__bound){0} : (yk__bound){exec->instance.pulls.lane[lane].buffer, q->at * sizeof(float)};
}

static void bind_param(const yk__exec *exec, yk__prog *p, uint32_t segment, uint32_t i)
{
    const yk__params *v = exec->params;
    const uint32_t key = p->plan->graph.slot[i].key;
    yk__bound bound = {0};
    if (key & YK__KEY_BUCKET) {
        bound = yk__params_bind(&v->bucket[key & ~YK__KEY_BUCKET], YK__RANGE_ALL, v->queue->last_point);
    } else if (key & YK__KEY_COMPUTE) {
        bound.buffer = v->param[key & ~YK__KEY_COMPUTE].compute;
    } else {
        const yk__param *q = &v->param[key];
        bound = v->bucket[q->bucket].home->pulled
                    ? bind_pulled(exec, p, q, segment)
                    : yk__params_bind(&v->bucket[q->bucket], (yk__range){q->at, q->at + q->n}, v->queue->last_point);
    }
    p->slot[i] = bound.buffer;
    p->slot_offset[i] = bound.offset;
    p->slot_version[i] = v->version;
}

static void bind_state(const yk__params *v, yk__prog *p, uint32_t i, uint32_t key)
{
    yk__bound bound = {0};
    if (key & YK__KEY_BUCKET)
        bound = v->state_home->bind(v, &v->bucket[key & 0xffffffu], (key & ~YK__KEY_BUCKET) >> 24);
    else
        bound.buffer = v->state[key].buffer;
    p->slot[i] = bound.buffer;
    p->slot_offset[i] = bound.offset;
}

/* A lane of the run, sums of this rank's slice, or the bucket's own memory. */
static void bind_grad(const yk__exec *exec, yk__prog *p, uint32_t i, uint32_t key)
{
    if (!(key & YK__KEY_BUCKET) && p->plan->grad_lanes.n)
        p->slot[i] = exec->instance.grads.lane[p->plan->lane[key]].buffer;
    else
        p->slot[i] = exec->params->bucket[key & ~YK__KEY_BUCKET].grad;
}

static void bind_slot(const yk__exec *exec, yk__prog *p, uint32_t segment, uint32_t i, yk_buffer *input)
{
    const yk_slot *s = &p->plan->graph.slot[i];
    p->slot_version[i] = exec->runs;
    if (s->kind == YK_SLOT_ARENA) {
        p->slot[i] = exec->instance.arena.lane[s->key].buffer;
    } else if (s->kind == YK_SLOT_INPUT) {
        p->slot[i] = input;
        p->slot_offset[i] = p->input_offset[s->key];
    } else if (s->kind == YK_SLOT_PARAM) {
        bind_param(exec, p, segment, i);
    } else if (s->kind == YK_SLOT_STATE) {
        bind_state(exec->params, p, i, s->key);
    } else if (s->kind == YK_SLOT_GRAD) {
        bind_grad(exec, p, i, s->key);
    } else {
        p->slot[i] = exec->instance.result;
    }
}

/* Binds a program of the host device, which updates: values and sums lie in the blocks for exchanges. */
static void bind_on_host(const yk__exec *exec, yk__prog *p, const yk__segment *s)
{
    for (uint32_t k = 0; k < s->n_use; k++) {
        const uint32_t i = p->plan->use[s->first_use + k];
        const yk_slot *slot = &p->plan->graph.slot[i];
        const yk__bucket *b = &exec->params->bucket[slot->key & ~YK__KEY_BUCKET];
        if (slot->kind == YK_SLOT_PARAM)
            p->slot[i] = b->host_values, p->slot_offset[i] = 0;
        else if (slot->kind == YK_SLOT_GRAD)
            p->slot[i] = yk__bucket_sums(b);
    }
}

/* Looks the buffers of a segment up right before it runs, as they may have come only now. The segment sees no other buffer. */
static void bind_segment(const yk__exec *exec, yk__prog *p, uint32_t segment, yk_buffer *input)
{
    const yk__segment *s = &p->plan->segment[segment];
    memset(p->slot, 0, p->n_slot * sizeof(*p->slot));
    for (uint32_t i = 0; i < s->n_use; i++)
        bind_slot(exec, p, segment, p->plan->use[s->first_use + i], input);
    if (exec->queue != exec->params->queue)
        bind_on_host(exec, p, s);
}

static yk_status submit_segment(yk__exec *exec, yk__prog *p, uint32_t i, yk_error *err)
{
    const yk_submit s = {
        .size = sizeof s,
        .n_slot = p->n_slot,
        .program = p->program[i],
        .slot = p->slot,
        .slot_offset = p->slot_offset,
        .slot_version = p->slot_version,
    };
    const int64_t begun = yk__clock_ns();
    yk_status st;
    yk__plugin_message();
    st = exec->queue->dev->table->queue_run(exec->queue->dev->queue, &s, &exec->queue->last_point);
    if (st)
        return yk__plugin_fail(err, exec->queue->dev->plugin, st, "starting a program");
    yk__tracer_submitted(exec->queue->tracer, YK__LANE_COMPUTE, p->is_update ? "update" : "segment", i, begun,
                        exec->queue->last_point);
    return YK_OK;
}

/* ---- The loop ---- */

/* input: the buffer that holds the program's inputs. */
static yk_status inst_execute(yk__exec *exec, yk__prog *p, const yk__inst *inst, yk_buffer *input, yk_error *err)
{
    switch (inst->kind) {
    case YK__INST_BIND:
        bind_segment(exec, p, inst->at, input);
        return YK_OK;
    case YK__INST_RUN:
        return submit_segment(exec, p, inst->at, err);
    case YK__INST_START:
        return inst->row->start(exec, p, &p->plan->action[inst->at], err);
    case YK__INST_WAIT:
        return inst->row->wait(exec, p, &p->plan->action[inst->at], err);
    }
    return YK_OK;
}

yk_status yk__prog_run(yk__exec *exec, yk__prog *p, yk__inputs inputs, yk_error *err)
{
    yk__instance *instance = &exec->instance;
    yk__staging *staging;
    if ((p->settles && yk__params_settle(exec->params, err)) || yk__instance_reserve(instance, exec->queue, p, err) ||
        yk__instance_upload(instance, exec->queue, p, inputs, &staging, err))
        return err->status;
    exec->runs++;
    for (size_t i = 0; i < p->list.n; i++)
        if (inst_execute(exec, p, &p->list.inst[i], staging ? staging->buffer : instance->input, err))
            return err->status;
    if (staging)
        staging->point = exec->queue->last_point;
    return YK_OK;
}
