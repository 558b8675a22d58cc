/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kinds of actions: work of the ranks together between a program's segments. Some kinds sum a vector of the step or a bucket
 * of gradients. Other kinds pull a bucket of parameters to a lane, or wait for it, or copy values of this rank alone (stored.h).
 *
 * list.c looks a row up when it compiles a program. The loop in exec.c then calls the row's start and wait, in the step thread, which runs
 * the user's program. A wait returns when the next segment can read the values. Counts are elements of f32.
 */
#include "core/run/actions.h"

#include "core/base/mem.h"
#include "core/run/exec.h"
#include "core/run/stored.h"

/* ---- Sums of a vector of the step ---- */

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
static yk_status all_reduce_start(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    yk__reduction *r = &exec->instance.reduction;
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

/* The result takes the vector's place. A vector that the host does not see goes back without a wait. The queue is in order, so the device
 * reads the host's copy before the next vector is fetched into it. */
static yk_status all_reduce_wait(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const yk__reduction *r = &exec->instance.reduction;
    (void)p;
    if (yk__queue_idle(exec->queue, err) || !exec->exchange->medium ||
        yk__exchange_all_reduce_end(exec->exchange, r->vector ? r->vector : r->copy, a->count, a->op, &exec->queue->exchanging,
                                    err))
        return err->status;
    yk__tracer_span(exec->queue->tracer, YK__LANE_WIRE, "all_reduce", a->count, r->begun_ns, yk__clock_ns());
    return r->vector ? YK_OK : yk__queue_put(exec->queue, r->buffer, r->offset, r->copy, a->count * sizeof(float), err);
}

/* ---- Buckets ---- */

/* The update sums the bucket after the window's last micro batch has run to here. */
static yk_status bucket_made(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    (void)p;
    (void)err;
    exec->params->bucket[a->target].point = exec->queue->last_point;
    return YK_OK;
}

/* The bucket's gradients leave their lane behind the commands so far; sums of earlier pieces go on. */
static yk_status sum_bucket_start(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const uint32_t lane = p->plan->lane[a->target];
    return yk__sums_start(exec->params, &exec->params->bucket[a->target], lane == YK_NONE ? NULL : exec->instance.grads.lane[lane].buffer,
                          p->plan->written, err);
}

static yk_status sum_bucket_wait(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    (void)p;
    return yk__sums_wait(exec->params, &exec->params->bucket[a->target], err);
}

/* The host goes on with the next bucket; the step thread waits for this one where a program reads it. */
static yk_status bucket_updated(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    (void)p;
    (void)err;
    exec->params->bucket[a->target].updated = exec->queue->last_point;
    return YK_OK;
}

static yk_status gather_wait(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    (void)p;
    if (yk__params_await(exec->params, a->target, err))
        return err->status;
    return exec->bucket_came ? exec->bucket_came(exec, a->target, err) : YK_OK;
}

/* Commands so far may read a processor's lane, and its slices may be on their way. Another device's copy reads the lane's host memory. */
static yk_status far_start(yk__exec *exec, yk__lane_buffer *lane, const yk__bucket *b, yk_error *err)
{
    if (yk__queue_wraps(exec->queue) ? yk__queue_idle(exec->queue, err) : yk__queue_wait(exec->queue, lane->point, err))
        return err->status;
    yk__coll_pull_drop(&lane->pulling); /* a run that failed has left it */
    lane->begun_ns = yk__clock_ns();
    return yk__far_begin(exec->params, b, (yk__range){0, b->layout.n}, lane->host, &lane->pulling, err);
}

/* The bucket goes from the block for exchanges, or a frozen one from the host's memory, to its lane. It goes behind the commands so far,
 * the last of which has read the lane's bucket. Far slices begin their way. */
static yk_status pull_start(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const yk__pull *pull = &p->plan->pull[a->target];
    const yk__bucket *b = &exec->params->bucket[pull->bucket];
    if (b->trained && yk__params_await(exec->params, pull->bucket, err))
        return err->status;
    if (exec->params->far)
        return exec->exchange->medium ? far_start(exec, &exec->instance.pulls.lane[pull->lane], b, err) : YK_OK;
    const float *from = yk__params_host(exec->params, b, 0);
    if (!from) /* a device that plans only */
        return YK_OK;
    return yk__queue_put(exec->queue, exec->instance.pulls.lane[pull->lane].buffer, 0, from, yk__bucket_bytes(b), err);
}

/* Far slices are here. The copy to a device with memory of its own lies before the next commands. */
static yk_status pull_wait(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const yk__pull *pull = &p->plan->pull[a->target];
    const yk__bucket *b = &exec->params->bucket[pull->bucket];
    if (!exec->params->far || !exec->exchange->medium)
        return YK_OK;
    yk__lane_buffer *lane = &exec->instance.pulls.lane[pull->lane];
    const int64_t begin = yk__clock_ns();
    if (yk__coll_pulled(&lane->pulling, err))
        return err->status;
    yk__tracer_span(exec->queue->tracer, YK__LANE_WIRE, "pull", pull->bucket, lane->begun_ns, yk__clock_ns());
    yk__tracer_span(exec->queue->tracer, YK__LANE_HOST, "wait", pull->bucket, begin, yk__clock_ns());
    exec->queue->exchanging += (double)(yk__clock_ns() - begin) * 1e-9;
    if (yk__queue_wraps(exec->queue))
        return YK_OK;
    if (yk__queue_put(exec->queue, lane->buffer, 0, lane->host, yk__bucket_bytes(b), err))
        return err->status;
    lane->point = exec->queue->last_point;
    return YK_OK;
}

/* ---- The table ---- */

static const yk__action_row rows[] = {
    {YK__ACTION_ALL_REDUCE, "all_reduce", all_reduce_start, all_reduce_wait},
    {YK__ACTION_REDUCE_SCATTER, "reduce_scatter", bucket_made, NULL},
    {YK__ACTION_SUM_BUCKET, "sum_bucket", sum_bucket_start, sum_bucket_wait},
    {YK__ACTION_PULL, "pull", pull_start, pull_wait}, /* the next commands in the queue find the bucket in its lane */
    {YK__ACTION_ALL_GATHER, "all_gather", NULL, gather_wait}, /* the last update has started it */
    {YK__ACTION_UPDATE, "update", bucket_updated, NULL},
    {YK__ACTION_STORE, "store", yk__store_start, NULL}, /* later commands of the queue find the value away, and back again */
    {YK__ACTION_LOAD, "load", yk__load_start, NULL},
};

const yk__action_row *yk__action_row_of(yk__action_kind kind, const yk__action_row *first)
{
    return first && first->kind == kind ? first : &rows[kind];
}
