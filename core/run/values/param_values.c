/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes values of parameters and states. Without a layout values wait in their sources: in memory, in a file, or not made yet.
 * With one they go to the device, and into the block that ranks share or this rank's far slices, only the ranges that this rank has there.
 *
 * core/job reads and writes through api.c (core/run), in the step thread. All ranks write the same values in the same order: a write
 * compares their signs over the ranks. A read waits for the device, and gives the values after the last update.
 */
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/values/params.h"

#define CHUNK (1u << 20) /* elements that are made or read at once */

/* ---- Sources ---- */

void yk__source_drop(yk__source *source)
{
    if (source->read && source->free)
        source->free(source->object);
    *source = (yk__source){0};
}

/* Values in memory: object has all of them. */
static yk_status memory_read(void *object, uint64_t from, uint64_t n, float *out, yk_error *err)
{
    memcpy(out, (const float *)object + from, n * sizeof *out);
    return err->status;
}

static uint64_t source_sign(const yk__param *q)
{
    return q->pending.read == memory_read ? yk__hash_bytes(YK_HASH_SEED, q->pending.object, q->n * sizeof(float)) : q->pending.sign;
}

/* ---- To the homes ---- */

/*
 * Checks, before values of trained parameters go to shared memory or to slices, that all ranks' commands are done and their values are
 * equal. Afterwards there would be one value, and no way to tell its rank.
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
        if (p->param[i].pending.read && p->param[i].trained)
            own = yk__hash_u64(yk__hash_u64(own, i), source_sign(&p->param[i]));
    if (yk__queue_idle(p->queue, err) || yk__exchange_compare(p->exchange, own, &other, err) || other == YK_NONE)
        return err->status;
    return yk__fail(err, YK_E_INTERNAL,
                    "the parameters of %s differ from those of rank 0: all ranks must write the same",
                    yk__exchange_name(p->exchange, other));
}

/* The elements that this rank writes in host memory: the block, from which excluded ranks, and in an update devices with memory of their
 * own, take parameters, or its far slice. One rank writes the shared block. */
static yk__range range_on_host(const yk__params *p, const yk__param *q)
{
    const yk__bucket *b = &p->bucket[q->bucket];
    if (q->trained && p->far)
        return yk__range_meet(q->at, q->n, b->begin, b->end);
    if (!q->trained || !yk__params_host(p, b, 0) ||
        (p->exchange->medium == YK__MEMORY && p->exchange->rank != yk__exchange_first_member(p->exchange)))
        return (yk__range){0, 0};
    return (yk__range){q->at, q->at + q->n};
}

/* The elements that this rank needs in its home or writes for other ranks. A home in the shared block has its elements from one rank. */
static yk__range range_needed(const yk__params *p, const yk__param *q)
{
    const yk__bucket *b = &p->bucket[q->bucket];
    const yk__range host = range_on_host(p, q), held = yk__params_held(b);
    if (host.from < host.to)
        return host;
    if (!q->trained)
        return (yk__range){q->at, q->at + q->n};
    if (p->exchange->part == YK__PART_EXCLUDED && p->exchange->medium == YK__MEMORY) /* the members write it, and may be in their next */
        return (yk__range){0, 0};                                                   /* update by now */
    if (b->home->in_block && yk__exchange_values(p->exchange, 0))
        return (yk__range){0, 0};
    return yk__range_meet(q->at, q->n, held.from, held.to);
}

/* Makes or reads the elements of a range in host memory if they belong there, else in `work`, and puts them to the device. */
static yk_status flush_range(yk__params *p, const yk__param *q, yk__range range, float *work, yk_error *err)
{
    const yk__bucket *b = &p->bucket[q->bucket];
    const yk__range host = range_on_host(p, q);
    float *to = host.from < host.to ? yk__params_host(p, b, range.from) : work;
    if (q->pending.read(q->pending.object, range.from - q->at, range.to - range.from, to, err))
        return err->status;
    if (to != work && b->home->in_block)
        return YK_OK;
    return yk__params_put(p, b, range, to, err) ? err->status : yk__queue_finish(p->queue, err); /* `work` goes */
}

static yk_status flush_param(yk__params *p, const yk__param *q, float *work, yk_error *err)
{
    const yk__range all = range_needed(p, q);
    for (uint64_t at = all.from; at < all.to; at += CHUNK)
        if (flush_range(p, q, (yk__range){at, all.to - at < CHUNK ? all.to : at + CHUNK}, work, err))
            return err->status;
    return YK_OK;
}

static yk_status flush_all(yk__params *p, yk_error *err)
{
    float *work = yk__malloc(CHUNK * sizeof *work);
    if (!work)
        return yk__fail_mem(err, CHUNK * sizeof *work, "first values");
    for (size_t i = 0; i < p->n_param && !err->status; i++) {
        yk__param *q = &p->param[i];
        if (!q->pending.read)
            continue;
        if (q->trained) {
            p->values = p->exchange->part == YK__PART_EXCLUDED && p->exchange->medium == YK__MEMORY ? YK__VALUES_BEHIND : p->values;
            yk__params_forget_rest(p, q);
        }
        if (!flush_param(p, q, work, err))
            yk__source_drop(&q->pending);
    }
    yk__free(work);
    return err->status;
}

yk_status yk__params_flush(yk__params *p, yk_error *err)
{
    if (check_agreement(p, err) || yk__far_withdraw(p, err) || flush_all(p, err))
        return err->status;
    p->version++;
    p->writes++;
    p->copies.stale = YK__STALE_ALL;
    yk__far_publish(p);
    return yk__exchange_excludes(p->exchange) || p->slices || p->exchange->medium == YK__MEMORY ? yk__exchange_barrier(p->exchange, err)
                                                                                               : YK_OK; /* they read the block */
}

yk_status yk__params_unflush(yk__params *p, yk_error *err)
{
    for (size_t i = 0; i < p->n_param; i++) {
        yk__param *q = &p->param[i];
        float *all = yk__malloc(q->n * sizeof *all);
        if (!all)
            return yk__fail_mem(err, q->n * sizeof(float), q->name);
        q->pending = (yk__source){memory_read, yk__free, all, 0};
        if (yk__params_read(p, (uint32_t)i, 0, UINT64_MAX, all, err))
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

yk_status yk__params_give(yk__params *p, uint32_t number, yk__source source, yk_error *err)
{
    if (check_param(p, number, err)) {
        yk__source_drop(&source);
        return err->status;
    }
    yk__source_drop(&p->param[number].pending);
    p->param[number].pending = source;
    return p->laid_out ? yk__params_flush(p, err) : YK_OK;
}

yk_status yk__params_write(yk__params *p, uint32_t number, const float *data, yk_error *err)
{
    yk_status s;
    float *own;
    uint64_t n;
    if (check_param(p, number, err))
        return err->status;
    n = p->param[number].n;
    if (p->laid_out) {
        s = yk__params_give(p, number, (yk__source){memory_read, NULL, (void *)(uintptr_t)data, 0}, err);
        yk__source_drop(&p->param[number].pending);
        return s;
    }
    own = yk__malloc(n * sizeof *own);
    if (!own)
        return yk__fail_mem(err, n * sizeof *own, p->param[number].name);
    memcpy(own, data, n * sizeof *own);
    return yk__params_give(p, number, (yk__source){memory_read, yk__free, own, 0}, err);
}

/* Reads waiting values: one rank may read alone before there is a layout, as all ranks make a layout together. */
static yk_status read_pending(const yk__param *q, uint64_t from, uint64_t n, float *data, yk_error *err)
{
    memset(data, 0, n * sizeof *data);
    return q->pending.read ? q->pending.read(q->pending.object, from, n, data, err) : YK_OK;
}

yk_status yk__params_read_device(yk__params *p, const yk__param *q, yk__range range, float *data, yk_error *err)
{
    if (yk__params_settle(p, err) || yk__params_get(p, &p->bucket[q->bucket], range, data, err))
        return err->status;
    return yk__queue_finish(p->queue, err); /* data is the caller's */
}

yk_status yk__params_read(yk__params *p, uint32_t number, uint64_t from, uint64_t n, float *data, yk_error *err)
{
    const yk__param *q;
    if (check_param(p, number, err))
        return err->status;
    q = &p->param[number];
    n = n < q->n - from ? n : q->n - from;
    if (!p->laid_out)
        return read_pending(q, from, n, data, err);
    const yk__range range = {q->at + from, q->at + from + n};
    return q->trained ? p->way.read(p, q, range, data, err) : yk__params_read_device(p, q, range, data, err);
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
