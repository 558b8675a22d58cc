/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A way to exchange that core/run does not know: every member sends every member all of its gradients, and adds its slices up in the order
 * of ranks. It has one column; the others are those of the ways behind it. And a home: the values begin PREFIX elements into their buffer.
 * And a kind of action: a bucket of gradients is read back from the device when it is complete, and the program waits for that. And
 * another: before each pull of parameters, what the lanes held is overwritten if no segment is to read it.
 */
#include "tests/dist/own_way.h"

#include <string.h>

#include "core/base/mem.h"

uint32_t own_way_sums;

static bool own_way_fits(const yk__params *p)
{
    return p->exchange->medium != YK__NO_MEDIUM;
}

/* Adds the bucket of rank r to `sum`; `sent` takes it. */
static yk_status add_rank(yk__params *p, const yk__bucket *b, uint32_t r, float *sent, float *sum, yk_error *err)
{
    if ((r == p->exchange->rank && yk__queue_read(p->queue, b->grad, 0, sent, b->layout.n * sizeof *sent, err)) ||
        yk__exchange_broadcast(p->exchange, r, sent, b->layout.n * sizeof *sent, err))
        return err->status;
    for (uint64_t i = b->begin; i < b->end; i++)
        sum[i] = r ? sum[i] + sent[i] : sent[i];
    return YK_OK;
}

static yk_status sum_bucket(yk__params *p, const yk__bucket *b, float *sent, float *sum, yk_error *err)
{
    for (uint32_t r = 0; r < p->exchange->world; r++)
        if (add_rank(p, b, r, sent, sum, err))
            return err->status;
    yk__exact_squares(&p->squares, sum + b->begin, b->end - b->begin);
    own_way_sums++;
    return yk__queue_write(p->queue, b->grad, b->begin * sizeof *sum, sum + b->begin, (b->end - b->begin) * sizeof *sum, err);
}

static yk_status sum_all(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket && !err->status; i++) {
        const yk__bucket *b = &p->bucket[i];
        float *scratch = yk__malloc(2 * b->layout.n * sizeof *scratch);
        if (!scratch)
            return yk__fail_mem(err, 2 * b->layout.n * sizeof *scratch, "a bucket");
        sum_bucket(p, b, scratch, scratch + b->layout.n, err);
        yk__free(scratch);
    }
    return err->status;
}

const yk__way own_way = {.name = "everything to everyone", .fits = own_way_fits, .reduce = sum_all};

/* ---- A home ---- */

#define PREFIX 1024u /* elements */

uint32_t own_home_binds;

static uint64_t prefixed_bytes(const yk__bucket *b)
{
    return yk__bucket_bytes(b) + PREFIX * yk_dtype_bytes(b->layout.dtype);
}

static bool own_home_fits(const yk__params *p, const yk__bucket *b)
{
    (void)p;
    return b->layout.dtype == YK_F32;
}

static bool own_home_make(yk__params *p, yk__bucket *b, yk_error *err)
{
    return !yk__queue_buffer(p->queue, prefixed_bytes(b), &b->values, YK__PARAM_BYTES, err);
}

static void own_home_drop(yk__params *p, yk__bucket *b)
{
    yk__queue_unbuffer(p->queue, &b->values, prefixed_bytes(b), YK__PARAM_BYTES);
}

static yk__bound own_home_bind(const yk__bucket *b, yk__range range, uint64_t point)
{
    own_home_binds++;
    return yk__home_bind_whole(b, (yk__range){range.from + PREFIX, range.to + PREFIX}, point);
}

const yk__home own_home = {YK__HOME_DEVICE, "behind a prefix", false, false, own_home_fits, own_home_make, own_home_drop, own_home_bind};

/* ---- A kind of action ---- */

uint32_t own_action_starts, own_action_waits;

static yk_status own_action_start(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    own_action_starts++;
    return yk__action_row_of(a->kind, NULL)->start(exec, p, a, err);
}

/* The device is idle behind it, so what the bucket holds is what the update sums. */
static yk_status own_action_wait(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const yk__bucket *b = &exec->params->bucket[a->target];
    (void)p;
    own_action_waits++;
    return yk__queue_wait(exec->queue, b->point, err);
}

const yk__action_row own_action = {YK__ACTION_REDUCE_SCATTER, "a bucket, at once", own_action_start, own_action_wait};

/* ---- Pulls into poisoned lanes ---- */

uint32_t own_pull_poisons;

static bool is_live(const yk__plan *plan, uint32_t lane, uint32_t segment)
{
    for (uint32_t i = 0; i < plan->n_pull; i++)
        if (plan->pull[i].lane == lane && plan->pull[i].start <= segment && segment <= plan->pull[i].end)
            return true;
    return false;
}

static yk_status poison_lane(yk__exec *exec, uint32_t lane, yk_error *err)
{
    static uint32_t poison[4096];
    const yk__lane_buffer *to = &exec->instance.pulls.lane[lane];
    memset(poison, 0xff, sizeof poison); /* not a number */
    for (uint64_t at = 0; at < to->bytes && !err->status; at += sizeof poison)
        yk__queue_put(exec->queue, to->buffer, at, poison, to->bytes - at < sizeof poison ? to->bytes - at : sizeof poison, err);
    own_pull_poisons++;
    return err->status;
}

static yk_status own_pull_start(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const yk__pull *pull = &p->plan->pull[a->target];
    for (uint32_t lane = 0; lane < p->plan->pull_lanes.n; lane++)
        if ((lane == pull->lane || !is_live(p->plan, lane, pull->start)) && poison_lane(exec, lane, err))
            return err->status;
    return yk__action_row_of(a->kind, NULL)->start(exec, p, a, err);
}

const yk__action_row own_pull = {YK__ACTION_PULL, "a pull to a poisoned lane", own_pull_start, NULL};
