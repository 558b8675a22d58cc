/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the programs of one device take turns in: temporaries, lanes, inputs and results. Inputs go from the caller's memory to
 * the device here. A rank has an instance for its own device, and one for the host's if it offloads.
 *
 * yk__prog_run (exec.c) calls yk__instance_reserve and yk__instance_upload before every run, in the step thread. Buffers grow to the
 * largest program and stay; a new pair of plans that would pass the memory limit frees the arena first, and so does update.c if moments
 * need its memory. A run may still read its inputs when the next begins, so inputs wait in one of several areas.
 */
#include "core/run/instance.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/run/exec.h"

static void lane_free(yk__lane_buffer *lane, yk__queue *q, yk__account account)
{
    yk__coll_pull_drop(&lane->pulling); /* a run that failed has left it */
    yk__queue_unbuffer(q, &lane->buffer, lane->bytes, account);
    yk__queue_unpin(q, &lane->pin);
    yk__free(lane->host);
    *lane = (yk__lane_buffer){0};
}

/* Makes a lane for far slices. A processor's lane is host memory; another device's has host memory beside it; a device that only plans
 * counts those bytes and allocates nothing. */
static yk_status lane_host(yk__lane_buffer *lane, yk__queue *q, uint64_t bytes, yk__account account, yk_error *err)
{
    if (bytes <= lane->bytes || yk__queue_idle(q, err))
        return err->status;
    lane_free(lane, q, account);
    if (yk__queue_wraps(q) || !q->dev->plans_only) {
        lane->host = yk__malloc_aligned(bytes, 4096);
        if (!lane->host)
            return yk__fail_mem(err, bytes, "parameters on their way to a device");
    }
    if (yk__queue_wraps(q) ? yk__queue_wrap(q, lane->host, bytes, &lane->buffer, account, err)
                           : yk__queue_buffer(q, bytes, &lane->buffer, account, err))
        return err->status;
    lane->bytes = bytes;
    if (!yk__queue_wraps(q))
        yk__queue_pin(q, lane->host, bytes, &lane->pin);
    return YK_OK;
}

/* Lists at least n lanes; new ones have no memory yet. */
static yk_status lanes_extend(yk__lane_set *set, uint32_t n, yk_error *err)
{
    if (yk__grow(&set->lane, &set->cap, n, sizeof *set->lane))
        return yk__fail_mem(err, n * sizeof *set->lane, "the memory of a run");
    for (; set->n < n; set->n++)
        set->lane[set->n] = (yk__lane_buffer){0};
    return YK_OK;
}

/* Makes the lanes of a plan that are missing or too small. */
static yk_status lanes_reserve(yk__lane_set *set, yk__queue *q, const yk__lanes *lanes, yk__account account, yk_error *err)
{
    if (lanes_extend(set, lanes->n, err))
        return err->status;
    for (uint32_t i = 0; i < lanes->n; i++) {
        yk__lane_buffer *lane = &set->lane[i];
        if (set->far ? lane_host(lane, q, lanes->bytes[i], account, err)
                     : yk__queue_reserve(q, &lane->buffer, &lane->bytes, lanes->bytes[i], account, err))
            return err->status;
    }
    return YK_OK;
}

uint64_t yk__instance_lane_bytes(const yk__instance *instance, const yk__queue *q)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < instance->pulls.n && instance->pulls.far && !yk__queue_wraps(q); i++)
        bytes += instance->pulls.lane[i].bytes;
    return bytes;
}

static void lanes_free(yk__lane_set *set, yk__queue *q, yk__account account)
{
    for (uint32_t i = 0; i < set->n; i++)
        lane_free(&set->lane[i], q, account);
    yk__free(set->lane);
    *set = (yk__lane_set){.far = set->far};
}

static uint64_t part_bytes(const yk__plan *plan, uint32_t part)
{
    return plan->graph.slot[yk__arena_slot(plan->arena_slot, part)].bytes;
}

/* Each plan keeps to the limit by itself. The first part of one plan and the second part of another may pass it together. */
static bool passes_limit(const yk__lane_set *arena, const yk__queue *q, const yk__plan *plan)
{
    uint64_t more = 0;
    for (uint32_t i = 0; i < plan->n_arena; i++)
        more += part_bytes(plan, i) > arena->lane[i].bytes ? part_bytes(plan, i) - arena->lane[i].bytes : 0;
    return yk__queue_most(q) && more && q->held + more > yk__queue_most(q);
}

yk_status yk__arena_reserve(yk__lane_set *arena, yk__queue *q, const yk__plan *plan, yk_error *err)
{
    if (lanes_extend(arena, plan->n_arena, err))
        return err->status;
    if (arena->n > 1 && passes_limit(arena, q, plan)) {
        if (yk__queue_idle(q, err))
            return err->status;
        for (uint32_t i = 0; i < arena->n; i++)
            lane_free(&arena->lane[i], q, YK__ARENA_BYTES);
    }
    for (uint32_t i = 0; i < plan->n_arena; i++) {
        yk__lane_buffer *part = &arena->lane[i];
        if (yk__queue_reserve(q, &part->buffer, &part->bytes, part_bytes(plan, i), YK__ARENA_BYTES, err))
            return err->status;
    }
    return YK_OK;
}

void yk__arena_free(yk__lane_set *arena, yk__queue *q)
{
    lanes_free(arena, q, YK__ARENA_BYTES);
}

yk_status yk__instance_lanes(yk__instance *instance, yk__queue *q, const yk__plan *plan, yk_error *err)
{
    if (plan->pull_lanes.n && lanes_reserve(&instance->pulls, q, &plan->pull_lanes, YK__PARAM_BYTES, err))
        return err->status;
    return plan->grad_lanes.n ? lanes_reserve(&instance->grads, q, &plan->grad_lanes, YK__GRAD_BYTES, err) : YK_OK;
}

yk_status yk__instance_reserve(yk__instance *instance, yk__queue *q, const yk__prog *p, yk_error *err)
{
    if (yk__arena_reserve(&instance->arena, q, p->plan, err) || yk__instance_lanes(instance, q, p->plan, err) ||
        yk__stored_reserve(&instance->stored, q, p->plan->away_bytes, err))
        return err->status;
    if (!yk__queue_wraps(q) && yk__queue_reserve(q, &instance->input, &instance->input_bytes, p->input_bytes, YK__INPUT_BYTES, err))
        return err->status;
    return yk__queue_reserve(q, &instance->result, &instance->result_bytes, p->plan->result_bytes, YK__INPUT_BYTES, err);
}

static void staging_free(yk__queue *q, yk__staging *s)
{
    if (s->buffer)
        yk__queue_unbuffer(q, &s->buffer, s->bytes, YK__INPUT_BYTES);
    yk__queue_unpin(q, &s->pin);
    yk__free(s->host);
    *s = (yk__staging){0};
}

static yk_status staging_make(yk__queue *q, yk__staging *s, uint64_t bytes, yk_error *err)
{
    yk_status st = YK_OK;
    if (s->bytes >= bytes)
        return YK_OK;
    staging_free(q, s);
    s->host = yk__malloc_aligned(bytes, 4096);
    if (!s->host)
        return yk__fail_mem(err, bytes, "the inputs of a step");
    s->bytes = bytes;
    if (yk__queue_wraps(q))
        st = yk__queue_wrap(q, s->host, bytes, &s->buffer, YK__INPUT_BYTES, err);
    else
        yk__queue_pin(q, s->host, bytes, &s->pin);
    if (st)
        staging_free(q, s);
    return st;
}

/* Chooses the area of a micro batch; the optimizer's step has its own. It prefers areas that nothing reads any more: the smallest that is
 * large enough, else the smallest. If all areas are in use, the caller waits for the oldest. So no more areas grow than are in use at
 * once. */
static yk__staging *staging_choose(yk__instance *instance, const yk__queue *q, uint64_t bytes)
{
    yk__staging *best = &instance->staging[0];
    for (yk__staging *s = best + 1; s < instance->staging + YK__STAGINGS; s++) {
        const bool idle = s->point <= q->waited, best_idle = best->point <= q->waited;
        const bool fits = s->bytes >= bytes, best_fits = best->bytes >= bytes;
        if (idle != best_idle ? idle : !idle ? s->point < best->point : fits != best_fits ? fits : s->bytes < best->bytes)
            best = s;
    }
    return best;
}

/* A host area that no transfer or program reads any more. */
static yk_status staging_acquire(yk__instance *instance, yk__queue *q, const yk__prog *p, yk__staging **out, yk_error *err)
{
    yk__staging *s = p->is_update ? &instance->staging[YK__STAGINGS] : staging_choose(instance, q, p->input_bytes);
    if (yk__queue_wait(q, s->point, err) || staging_make(q, s, p->input_bytes, err))
        return err->status;
    *out = s;
    return YK_OK;
}

yk_status yk__instance_upload(yk__instance *instance, yk__queue *q, const yk__prog *p, yk__inputs inputs, yk__staging **staging,
                              yk_error *err)
{
    yk__staging *s = NULL;
    *staging = NULL;
    if (!p->input_bytes)
        return YK_OK;
    if (staging_acquire(instance, q, p, &s, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_input; i++) {
        if (!p->input_size[i])
            continue;
        if (i >= inputs.n || inputs.bytes[i] < p->input_size[i])
            return yk__fail(err, YK_E_INTERNAL, "input %u has %llu bytes; the program reads %llu", i,
                            i < inputs.n ? (unsigned long long)inputs.bytes[i] : 0ull, (unsigned long long)p->input_size[i]);
        memcpy((char *)s->host + p->input_offset[i], inputs.data[i], p->input_size[i]);
    }
    if (s->buffer) {
        *staging = s;
        return YK_OK;
    }
    if (yk__queue_put(q, instance->input, 0, s->host, p->input_bytes, err))
        return err->status;
    s->point = q->last_point;
    return YK_OK;
}

void yk__instance_free(yk__instance *instance, yk__queue *q)
{
    yk__arena_free(&instance->arena, q);
    yk__stored_free(&instance->stored, q);
    lanes_free(&instance->grads, q, YK__GRAD_BYTES);
    lanes_free(&instance->pulls, q, YK__PARAM_BYTES);
    yk__queue_unbuffer(q, &instance->input, instance->input_bytes, YK__INPUT_BYTES);
    yk__queue_unbuffer(q, &instance->result, instance->result_bytes, YK__INPUT_BYTES);
    for (uint32_t i = 0; i <= YK__STAGINGS; i++)
        staging_free(q, &instance->staging[i]);
    yk__queue_unpin(q, &instance->reduction.pin);
    yk__free(instance->reduction.copy);
}
