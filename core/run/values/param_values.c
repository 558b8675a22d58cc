/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes values of parameters and states, whole, from and to the host's memory. Without a layout they wait on the host. With one
 * they go to the device, and into the block that ranks share if they have one.
 *
 * core/job reads and writes through api.c, in the step thread. All ranks write the same values in the same order: a write compares them
 * over the ranks. A read waits for the device, and gives the values after the last update.
 */
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/values/params.h"

/*
 * Checks, before the host's values of trained parameters go to shared memory, that all ranks' commands are done and their values are equal.
 * Afterwards there would be one value, and no way to tell its rank.
 */
static yk_status check_agreement(yk__params *p, yk_error *err)
{
    uint64_t own = YK_HASH_SEED;
    uint32_t other;
    if (!p->exchange->medium && !p->exchange->keeps)
        return YK_OK;
    if (yk__params_settle(p, err))
        return err->status;
    for (size_t i = 0; i < p->n_param; i++)
        if (p->param[i].pending && p->param[i].trained)
            own = yk__hash_bytes(yk__hash_u64(own, i), p->param[i].pending, p->param[i].n * sizeof(float));
    if (yk__queue_idle(p->queue, err) || yk__exchange_compare(p->exchange, own, &other, err) || other == YK_NONE)
        return err->status;
    return yk__fail(err, YK_E_INTERNAL,
                    "the parameters of %s differ from those of rank 0: all ranks must write the same",
                    yk__exchange_name(p->exchange, other));
}

/* Writes to the block from which excluded ranks, and in an update devices with memory of their own, take parameters. One rank writes the
 * shared block, and each rank its far slices. */
static void flush_shared(const yk__params *p)
{
    if ((!p->far && !yk__exchange_values(p->exchange, 0)) ||
        (p->exchange->medium == YK__MEMORY && p->exchange->rank != yk__exchange_first_member(p->exchange)))
        return;
    for (size_t i = 0; i < p->n_param; i++) {
        const yk__param *q = &p->param[i];
        const yk__bucket *b = &p->bucket[q->bucket];
        const yk__range has = p->far ? yk__range_meet(q->at, q->n, b->begin, b->end) : (yk__range){q->at, q->at + q->n};
        if (q->pending && q->trained && has.from < has.to)
            memcpy(yk__params_host(p, b, has.from), q->pending + (has.from - q->at), (has.to - has.from) * sizeof(float));
    }
}

yk_status yk__params_flush(yk__params *p, yk_error *err)
{
    if (check_agreement(p, err) || yk__far_withdraw(p, err))
        return err->status;
    flush_shared(p);
    for (size_t i = 0; i < p->n_param; i++) {
        yk__param *q = &p->param[i];
        /* The members write it, and may be in their next update by now. */
        const bool others = p->exchange->part == YK__PART_EXCLUDED && p->exchange->medium == YK__MEMORY && q->trained;
        p->values = others ? YK__VALUES_BEHIND : p->values;
        if (q->pending && q->trained)
            yk__params_forget_rest(p, q);
        if (q->pending && !others &&
            (yk__params_put(p, &p->bucket[q->bucket], (yk__range){q->at, q->at + q->n}, q->pending, err) || yk__queue_idle(p->queue, err)))
            return err->status;
        yk__free(q->pending);
        q->pending = NULL;
    }
    p->version++;
    p->writes++;
    p->copies.stale = YK__STALE_ALL;
    yk__far_publish(p);
    return yk__exchange_excludes(p->exchange) || p->slices ? yk__exchange_barrier(p->exchange, err) : YK_OK; /* they read the block */
}

yk_status yk__params_unflush(yk__params *p, yk_error *err)
{
    for (size_t i = 0; i < p->n_param; i++) {
        yk__param *q = &p->param[i];
        q->pending = yk__malloc(q->n * sizeof(float));
        if (!q->pending)
            return yk__fail_mem(err, q->n * sizeof(float), q->name);
        if (yk__params_read(p, (uint32_t)i, q->pending, err))
            return err->status;
    }
    return yk__queue_idle(p->queue, err);
}

static yk_status check_param(const yk__params *p, uint32_t number, yk_error *err)
{
    if (number >= p->n_param)
        return yk__fail(err, YK_E_INTERNAL, "there is no parameter %u", number);
    return YK_OK;
}

yk_status yk__params_write(yk__params *p, uint32_t number, const float *data, yk_error *err)
{
    yk__param *q;
    if (check_param(p, number, err))
        return err->status;
    q = &p->param[number];
    if (!q->pending)
        q->pending = yk__malloc(q->n * sizeof(float));
    if (!q->pending)
        return yk__fail_mem(err, q->n * sizeof(float), q->name);
    memcpy(q->pending, data, q->n * sizeof(float));
    return p->laid_out ? yk__params_flush(p, err) : YK_OK;
}

/* Reads waiting values: one rank may read alone before there is a layout, as all ranks make a layout together. */
static void read_pending(const yk__param *q, float *data)
{
    memset(data, 0, q->n * sizeof *data);
    if (q->pending)
        memcpy(data, q->pending, q->n * sizeof *data);
}

yk_status yk__params_read_device(yk__params *p, const yk__param *q, float *data, yk_error *err)
{
    if (yk__params_settle(p, err) || yk__params_get(p, &p->bucket[q->bucket], (yk__range){q->at, q->at + q->n}, data, err))
        return err->status;
    return yk__queue_idle(p->queue, err);
}

yk_status yk__params_read(yk__params *p, uint32_t number, float *data, yk_error *err)
{
    const yk__param *q;
    if (check_param(p, number, err))
        return err->status;
    q = &p->param[number];
    if (!p->laid_out) {
        read_pending(q, data);
        return YK_OK;
    }
    return q->trained ? p->way.read(p, q, data, err) : yk__params_read_device(p, q, data, err);
}

/* NULL, with err filled, if no state has this number. */
static yk__state *find_state(yk__params *p, uint32_t number, yk_error *err)
{
    if (number < p->n_state)
        return &p->state[number];
    yk__fail(err, YK_E_INTERNAL, "there is no state %u", number);
    return NULL;
}

yk_status yk__params_write_state(yk__params *p, uint32_t number, const void *data, yk_error *err)
{
    const yk__state *s = find_state(p, number, err);
    if (!s)
        return err->status;
    return yk__queue_write(p->queue, s->buffer, 0, data, s->n * yk_dtype_bytes(s->dtype), err);
}

yk_status yk__params_read_state(yk__params *p, uint32_t number, void *data, yk_error *err)
{
    const yk__state *s = find_state(p, number, err);
    if (!s)
        return err->status;
    return yk__queue_read(p->queue, s->buffer, 0, data, s->n * yk_dtype_bytes(s->dtype), err);
}
