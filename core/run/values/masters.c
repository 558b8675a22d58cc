/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters that travel in bf16 (YOKE_WIRE_PARAMS). All ranks compute with the rounded parameters, so their bits are equal. The owner
 * keeps the rest that rounding took from its slice, in f32, and adds it before the next update. Rounded value plus rest is the parameter
 * bit for bit: of its 24 bits the rounded value has the first 8, and the rest is exact.
 *
 * ways/rounded.c rounds after an update, and update.c (core/run) restores before the next, in the step thread. A save or new owners need
 * the exact values: sliced_state.c and roles.c (core/run) call yk__params_gather_whole on all ranks for that.
 */
#include <string.h>

#include "core/base/convert.h"
#include "core/base/mem.h"
#include "core/run/values/params.h"

static yk_status round_bucket(yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t n = b->end - b->begin;
    if (!n)
        return YK_OK;
    b->rest = b->rest ? b->rest : yk__malloc(n * sizeof *b->rest);
    if (!b->rest)
        return yk__fail_mem(err, n * sizeof *b->rest, "what is rounded away from parameters");
    yk__split_bf16s(yk__params_host(p, b, b->begin), n, b->rest);
    return yk__params_put_shared(p, b, (yk__range){b->begin, b->end}, err);
}

yk_status yk__params_round(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (round_bucket(p, &p->bucket[i], err))
            return err->status;
    p->values = YK__VALUES_ROUNDED;
    return YK_OK;
}

/* Adds the rest back. A member that was excluded, or whose rest was dropped, has none. */
static yk_status restore_bucket(yk__params *p, const yk__bucket *b, yk_error *err)
{
    float *v = yk__params_host(p, b, b->begin);
    if (!b->rest)
        return YK_OK;
    for (uint64_t i = 0; i < b->end - b->begin; i++)
        v[i] += b->rest[i];
    return yk__params_put_shared(p, b, (yk__range){b->begin, b->end}, err);
}

yk_status yk__params_restore(yk__params *p, yk_error *err)
{
    if (p->values != YK__VALUES_ROUNDED)
        return YK_OK;
    if (yk__queue_idle(p->queue, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (restore_bucket(p, &p->bucket[i], err))
            return err->status;
    p->values = YK__VALUES_PUBLISHED;
    return YK_OK;
}

void yk__params_drop_rest(yk__params *p)
{
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        yk__free(p->bucket[i].rest);
        p->bucket[i].rest = NULL;
    }
    p->values = p->values == YK__VALUES_ROUNDED ? YK__VALUES_PUBLISHED : p->values;
}

void yk__params_forget_rest(const yk__params *p, const yk__param *q)
{
    const yk__bucket *b = &p->bucket[q->bucket];
    const yk__range own = yk__range_meet(q->at, q->n, b->begin, b->end);
    if (b->rest)
        memset(b->rest + (own.from - b->begin), 0, (own.to - own.from) * sizeof *b->rest);
}

yk_status yk__params_gather_whole(yk__params *p, yk_error *err)
{
    if (p->values != YK__VALUES_ROUNDED)
        return YK_OK;
    if (yk__params_settle(p, err) || yk__params_restore(p, err) || p->way.gather(p, err) || yk__params_settle(p, err))
        return err->status;
    p->version++;
    yk__copies_changed(p);
    return yk__queue_idle(p->queue, err);
}
