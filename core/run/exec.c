/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program: copies inputs to the device, binds each segment to the buffers it touches, and does the ranks' actions between segments.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/run/exec.h"

/* ---- Binding ---- */

static void bind_param(const yk__params *v, yk__prog *p, uint32_t i, uint32_t key)
{
    yk__bound bound = {0};
    if (key & YK__KEY_BUCKET) {
        bound = yk__params_bind(&v->bucket[key & ~YK__KEY_BUCKET], YK__RANGE_ALL, v->queue->last_point);
    } else if (key & YK__KEY_COMPUTE) {
        bound.buffer = v->param[key & ~YK__KEY_COMPUTE].compute;
    } else {
        const yk__param *q = &v->param[key];
        bound = yk__params_bind(&v->bucket[q->bucket], (yk__range){q->at, q->at + q->n}, v->queue->last_point);
    }
    p->slot[i] = bound.buffer;
    p->slot_offset[i] = bound.offset;
    p->slot_version[i] = v->version;
}

static void bind_state(const yk__params *v, yk__prog *p, uint32_t i, uint32_t key)
{
    if (key & YK__KEY_BUCKET)
        p->slot[i] = v->bucket[key & 0xffffffu].moment[(key & ~YK__KEY_BUCKET) >> 24];
    else
        p->slot[i] = v->state[key].buffer;
}

static void bind_slot(const yk__exec *exec, yk__prog *p, uint32_t i, yk_buffer *input)
{
    const yk_slot *s = &p->plan->graph.slot[i];
    p->slot_version[i] = exec->runs;
    if (s->kind == YK_SLOT_ARENA) {
        p->slot[i] = exec->arena.part[s->key].buffer;
    } else if (s->kind == YK_SLOT_INPUT) {
        p->slot[i] = input;
        p->slot_offset[i] = p->input_offset[s->key];
    } else if (s->kind == YK_SLOT_PARAM) {
        bind_param(exec->params, p, i, s->key);
    } else if (s->kind == YK_SLOT_STATE) {
        bind_state(exec->params, p, i, s->key);
    } else if (s->kind == YK_SLOT_GRAD) {
        p->slot[i] = exec->params->bucket[s->key].grad;
    } else {
        p->slot[i] = exec->result;
    }
}

/* Looks the buffers of a segment up right before it runs, as they may have come only now. The segment sees no other buffer. */
static void bind_segment(const yk__exec *exec, yk__prog *p, const yk__segment *s, yk_buffer *input)
{
    memset(p->slot, 0, p->n_slot * sizeof(*p->slot));
    for (uint32_t i = 0; i < s->n_use; i++)
        bind_slot(exec, p, p->plan->use[s->first_use + i], input);
}

/* ---- Inputs ---- */

static void free_stage(yk__exec *exec, yk__stage *s)
{
    if (s->buffer)
        yk__queue_unbuffer(exec->queue, &s->buffer, s->bytes, YK__INPUT_BYTES);
    yk__queue_unpin(exec->queue, &s->pin);
    yk__free(s->host);
    *s = (yk__stage){0};
}

static yk_status stage_new(yk__exec *exec, yk__stage *s, uint64_t bytes, yk_error *err)
{
    yk_status st = YK_OK;
    if (s->bytes >= bytes)
        return YK_OK;
    free_stage(exec, s);
    s->host = yk__malloc_aligned(bytes, 4096);
    if (!s->host)
        return yk__fail_mem(err, bytes, "the inputs of a step");
    s->bytes = bytes;
    if (yk__queue_wraps(exec->queue))
        st = yk__queue_wrap(exec->queue, s->host, bytes, &s->buffer, YK__INPUT_BYTES, err);
    else
        yk__queue_pin(exec->queue, s->host, bytes, &s->pin);
    if (st)
        free_stage(exec, s);
    return st;
}

/* Chooses among the stages that nothing reads any more: the smallest that is large enough, else the smallest. If all are in use, the stage
 * in use longest. So no more stages grow than are in use at once. */
static yk__stage *choose_stage(yk__exec *exec, uint64_t bytes)
{
    yk__stage *best = &exec->stage[0];
    for (yk__stage *s = best + 1; s < exec->stage + YK__STAGES; s++) {
        const bool idle = s->point <= exec->queue->waited, best_idle = best->point <= exec->queue->waited;
        const bool fits = s->bytes >= bytes, best_fits = best->bytes >= bytes;
        if (idle != best_idle ? idle : !idle ? s->point < best->point : fits != best_fits ? fits : s->bytes < best->bytes)
            best = s;
    }
    return best;
}

/* A host area that no transfer or program reads any more. */
static yk_status acquire_stage(yk__exec *exec, const yk__prog *p, yk__stage **out, yk_error *err)
{
    yk__stage *s = p->is_update ? &exec->stage[YK__STAGES] : choose_stage(exec, p->input_bytes);
    if (yk__queue_wait(exec->queue, s->point, err) || stage_new(exec, s, p->input_bytes, err))
        return err->status;
    *out = s;
    return YK_OK;
}

/* Brings the inputs to the buffer that the program reads. *stage: the stage that the program itself reads, or NULL. */
static yk_status upload_inputs(yk__exec *exec, const yk__prog *p, uint32_t n, const void *const *input, const uint64_t *bytes,
                               yk__stage **stage, yk_error *err)
{
    yk__stage *s = NULL;
    *stage = NULL;
    if (!p->input_bytes)
        return YK_OK;
    if (acquire_stage(exec, p, &s, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_input; i++) {
        if (!p->input_size[i])
            continue;
        if (i >= n || bytes[i] < p->input_size[i])
            return yk__fail(err, YK_E_INTERNAL, "input %u has %llu bytes; the program reads %llu", i,
                            i < n ? (unsigned long long)bytes[i] : 0ull, (unsigned long long)p->input_size[i]);
        memcpy((char *)s->host + p->input_offset[i], input[i], p->input_size[i]);
    }
    if (s->buffer) {
        *stage = s;
        return YK_OK;
    }
    if (yk__queue_put(exec->queue, exec->input, 0, s->host, p->input_bytes, err))
        return err->status;
    s->point = exec->queue->last_point;
    return YK_OK;
}

/* ---- Actions ---- */

/* The host's address of this part of a buffer; NULL if the host does not see it. The host may use it while the device is idle: in common
 * memory this thread writes the result then; messages bring it at any time. */
static float *in_place(const yk__exec *exec, yk_buffer *b, uint64_t offset)
{
    char *map = NULL;
    if (exec->exchange->medium == YK__MEMORY && (exec->queue->dev->caps.flags & YK_CAP_HOST_VISIBLE))
        map = exec->queue->dev->table->buffer_map(b);
    return map ? (float *)(void *)(map + offset) : NULL;
}

static yk_status reserve_copy(yk__exec *exec, yk__reduction *r, uint64_t bytes, yk_error *err)
{
    if (r->copy_bytes >= bytes)
        return YK_OK;
    if (r->copy && yk__queue_idle(exec->queue, err)) /* the last result may still be on its way to the device */
        return err->status;
    yk__queue_unpin(exec->queue, &r->pin);
    yk__free(r->copy);
    r->copy_bytes = 0;
    r->copy = yk__malloc_aligned(bytes, 64);
    if (!r->copy)
        return yk__fail_mem(err, bytes, "a sum over ranks");
    r->copy_bytes = bytes;
    yk__queue_pin(exec->queue, r->copy, bytes, &r->pin);
    return YK_OK;
}

/* Begins the all-reduce of a vector in the program's memory. A vector that the host does not see is fetched. */
static yk_status begin_all_reduce(yk__exec *exec, const yk__prog *p, const yk__action *a, yk_error *err)
{
    yk__reduction *r = &exec->reduction;
    const uint64_t bytes = a->count * sizeof(float);
    if (!exec->exchange->medium)
        return YK_OK;
    r->buffer = p->slot[a->target];
    r->offset = p->slot_offset[a->target] + a->offset;
    r->vector = in_place(exec, r->buffer, r->offset);
    if (r->vector ? yk__queue_idle(exec->queue, err)
                  : reserve_copy(exec, r, bytes, err) || yk__queue_read(exec->queue, r->buffer, r->offset, r->copy, bytes, err))
        return err->status;
    r->begun_ns = yk__clock_ns();
    return yk__exchange_all_reduce_begin(exec->exchange, r->vector ? r->vector : r->copy, a->count, a->op, err);
}

/* The result takes the vector's place: the only wait inside a step. A vector that the host does not see goes back without a wait. The queue
 * is in order, so the device reads the host's copy before the next vector is fetched into it. */
static yk_status end_all_reduce(yk__exec *exec, const yk__action *a, yk_error *err)
{
    const yk__reduction *r = &exec->reduction;
    if (yk__queue_idle(exec->queue, err) || !exec->exchange->medium ||
        yk__exchange_all_reduce_end(exec->exchange, r->vector ? r->vector : r->copy, a->count, a->op, &exec->queue->exchanging,
                                    err))
        return err->status;
    yk__tracer_span(exec->queue->tracer, YK__LANE_WIRE, "all_reduce", a->count, r->begun_ns, yk__clock_ns());
    return r->vector ? YK_OK : yk__queue_put(exec->queue, r->buffer, r->offset, r->copy, a->count * sizeof(float), err);
}

/* Starts an action behind the segment that was just submitted. */
static yk_status begin_action(yk__exec *exec, const yk__prog *p, const yk__action *a, yk_error *err)
{
    switch (a->kind) {
    case YK__ACTION_ALL_REDUCE:
        return begin_all_reduce(exec, p, a, err);
    case YK__ACTION_ALL_GATHER: /* the last update has started it */
        return YK_OK;
    case YK__ACTION_REDUCE_SCATTER: /* the update sums the bucket after the window's last micro batch has run to here */
        exec->params->bucket[a->target].point = exec->queue->last_point;
        return YK_OK;
    }
    return YK_OK;
}

static yk_status end_all_gather(yk__exec *exec, uint32_t bucket, yk_error *err)
{
    if (yk__params_await(exec->params, bucket, err))
        return err->status;
    return exec->bucket_came ? exec->bucket_came(exec, bucket, err) : YK_OK;
}

/* Waits for the actions before[first .. first + n) of the plan. The update waits for buckets of gradients. */
static yk_status end_actions(yk__exec *exec, const yk__plan *p, uint32_t first, uint32_t n, yk_error *err)
{
    for (uint32_t i = first; i < first + n; i++) {
        const yk__action *a = &p->action[p->before[i]];
        if ((a->kind == YK__ACTION_ALL_REDUCE && end_all_reduce(exec, a, err)) ||
            (a->kind == YK__ACTION_ALL_GATHER && end_all_gather(exec, a->target, err)))
            return err->status;
    }
    return YK_OK;
}

/* ---- Segments ---- */

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
    if (!p->program[i])
        return YK_OK;
    yk__plugin_message();
    st = exec->queue->dev->table->queue_run(exec->queue->dev->queue, &s, &exec->queue->last_point);
    if (st)
        return yk__plugin_fail(err, exec->queue->dev->plugin, st, "starting a program");
    yk__tracer_submitted(exec->queue->tracer, YK__LANE_COMPUTE, p->is_update ? "update" : "segment", i, begun,
                        exec->queue->last_point);
    return YK_OK;
}

static yk_status run_segment(yk__exec *exec, yk__prog *p, uint32_t i, yk_buffer *input, yk_error *err)
{
    const yk__segment *s = &p->plan->segment[i];
    if (end_actions(exec, p->plan, s->first_before, s->n_before, err))
        return err->status;
    bind_segment(exec, p, s, input);
    if (submit_segment(exec, p, i, err))
        return err->status;
    for (uint32_t k = 0; k < s->n_after; k++)
        if (begin_action(exec, p, &p->plan->action[s->first_after + k], err))
            return err->status;
    return YK_OK;
}

static yk_status reserve_step(yk__exec *exec, const yk__prog *p, yk_error *err)
{
    if (yk__arena_reserve(&exec->arena, exec->queue, p->plan, err))
        return err->status;
    if (!yk__queue_wraps(exec->queue) &&
        yk__queue_reserve(exec->queue, &exec->input, &exec->input_bytes, p->input_bytes, YK__INPUT_BYTES, err))
        return err->status;
    return yk__queue_reserve(exec->queue, &exec->result, &exec->result_bytes, p->plan->result_bytes, YK__INPUT_BYTES, err);
}

yk_status yk__prog_run(yk__exec *exec, yk__prog *p, uint32_t n_input, const void *const *input, const uint64_t *bytes,
                       yk_error *err)
{
    yk__stage *stage;
    if ((p->settles && yk__params_settle(exec->params, err)) || reserve_step(exec, p, err) ||
        upload_inputs(exec, p, n_input, input, bytes, &stage, err))
        return err->status;
    exec->runs++;
    for (uint32_t i = 0; i < p->plan->n_segment; i++)
        if (run_segment(exec, p, i, stage ? stage->buffer : exec->input, err))
            return err->status;
    if (end_actions(exec, p->plan, p->plan->first_at_end, p->plan->n_action - p->plan->first_at_end, err))
        return err->status;
    if (stage)
        stage->point = exec->queue->last_point;
    return YK_OK;
}

void yk__exec_free(yk__exec *exec)
{
    yk__arena_free(&exec->arena, exec->queue);
    yk__queue_unbuffer(exec->queue, &exec->input, exec->input_bytes, YK__INPUT_BYTES);
    yk__queue_unbuffer(exec->queue, &exec->result, exec->result_bytes, YK__INPUT_BYTES);
    for (uint32_t i = 0; i <= YK__STAGES; i++)
        free_stage(exec, &exec->stage[i]);
    yk__queue_unpin(exec->queue, &exec->reduction.pin);
    yk__free(exec->reduction.copy);
}
