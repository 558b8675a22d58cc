/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Far slices: with `--shard params` over messages, only the owners of a trained bucket's slices have its f32 values. The file makes that
 * memory, offers it to other ranks, and pulls ranges of a bucket from their owners (far_slices.h). It runs in the step thread.
 *
 * Homes of buckets (home.c) and the action `pull` (actions.c, core/run) read by it. update.c and roles.c (core/run) and param_values.c call
 * yk__far_withdraw before they write slices. yk__far_publish follows the write: for update.c in core/run/ways/far_values.c, else in the
 * same file. yk__far_publish raises the one version of the rank's offers, so all ranks call it equally often: a pull never mixes two steps.
 */
#include "core/run/values/far_slices.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/run/values/params.h"

#define PAGE 4096u /* bytes: buffers over host memory begin at multiples */

/* False on a device that only plans: it talks to no rank (exchange->medium). */
static bool is_far(const yk__params *p)
{
    return p->far && p->exchange->medium;
}

static uint32_t key_of(const yk__params *p, const yk__bucket *b)
{
    return (uint32_t)(b - p->bucket);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------- */

yk_status yk__far_make(yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t bytes = yk__bucket_own_bytes(b);
    if (!bytes)
        return YK_OK;
    b->own = yk__malloc_aligned(bytes, PAGE);
    if (!b->own)
        return yk__fail_mem(err, bytes, "slices of parameters");
    if (!p->queue->dev->plans_only) /* a device that only plans touches no page, so its slices cost no memory */
        memset(b->own, 0, bytes);
    return is_far(p) ? yk__coll_offer(p->exchange->coll, key_of(p, b), b->own, b->begin * sizeof *b->own, bytes, err) : YK_OK;
}

void yk__far_drop(yk__params *p, yk__bucket *b)
{
    yk_error ignored = YK_ERROR_INIT; /* the offer exists, so removing it needs no memory */
    if (b->own && is_far(p))
        yk__coll_offer(p->exchange->coll, key_of(p, b), NULL, 0, 0, &ignored);
    yk__free(b->own);
    b->own = NULL;
}

uint64_t yk__far_bytes(const yk__params *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_bucket && p->far && !yk__queue_wraps(p->queue); i++)
        bytes += yk__bucket_own_bytes(&p->bucket[i]);
    return bytes;
}

/* ---- Versions ----------------------------------------------------------------------------------------------------- */

yk_status yk__far_withdraw(yk__params *p, yk_error *err)
{
    return is_far(p) ? yk__coll_withdraw(p->exchange->coll, err) : YK_OK;
}

void yk__far_publish(yk__params *p)
{
    if (is_far(p))
        yk__coll_publish(p->exchange->coll);
}

static yk_status take_moved(yk__params *p, yk__bucket *b, const yk__bucket *was, const float *old, float *all, yk_error *err)
{
    if (was->begin < was->end)
        memcpy(all + was->begin, old, (was->end - was->begin) * sizeof *all);
    if (yk__exchange_move(p->exchange, &was->layout.slice, &b->layout.slice, all, err) || b->begin == b->end)
        return err->status;
    memcpy(b->own, all + b->begin, yk__bucket_own_bytes(b));
    if (b->home->in_block)
        return YK_OK;
    return yk__params_put(p, b, (yk__range){b->begin, b->end}, b->own, err) ? err->status : yk__queue_idle(p->queue, err);
}

yk_status yk__far_move(yk__params *p, yk__bucket *b, const yk__bucket *was, float *old, yk_error *err)
{
    float *all = yk__malloc(b->layout.n * sizeof *all);
    if (!all)
        yk__fail_mem(err, b->layout.n * sizeof *all, "parameters that change their owner");
    else if (!yk__home_choose(p, b, err))
        take_moved(p, b, was, old, all, err);
    yk__free(all);
    return err->status;
}

/* ---- Pulls -------------------------------------------------------------------------------------------------------- */

static uint32_t list_parts(const yk__params *p, const yk__bucket *b, yk__range range, float *to, yk__pull_part *part)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < p->exchange->world; r++) {
        const uint64_t *begin = b->layout.slice.begin;
        const yk__range of = yk__range_meet(range.from, range.to - range.from, begin[r], begin[r + 1]);
        if (of.from == of.to)
            continue;
        if (r == p->exchange->rank)
            memcpy(to + (of.from - range.from), b->own + (of.from - b->begin), (of.to - of.from) * sizeof *to);
        else
            part[n++] = (yk__pull_part){r, of.from * sizeof *to, (of.to - of.from) * sizeof *to, to + (of.from - range.from)};
    }
    return n;
}

yk_status yk__far_begin(const yk__params *p, const yk__bucket *b, yk__range range, float *to, yk__pulling **pulling, yk_error *err)
{
    yk__pull_part *part;
    uint32_t n;
    *pulling = NULL;
    if (!is_far(p))
        return YK_OK;
    part = yk__malloc(p->exchange->world * sizeof *part);
    if (!part)
        return yk__fail_mem(err, p->exchange->world * sizeof *part, "a pull");
    n = list_parts(p, b, range, to, part);
    if (n)
        yk__coll_pull(p->exchange->coll, key_of(p, b), part, n, pulling, err);
    yk__free(part);
    return err->status;
}

yk_status yk__far_read(const yk__params *p, const yk__bucket *b, yk__range range, float *to, yk_error *err)
{
    yk__pulling *pulling;
    if (range.from == range.to || yk__far_begin(p, b, range, to, &pulling, err))
        return err->status;
    return yk__coll_pulled(&pulling, err);
}
