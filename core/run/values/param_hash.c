/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes of the memory from which this rank's device reads parameters, so that ranks can be compared: f32 values, and copies in the compute
 * format.
 *
 * core/job/checkpoint/job_hash.c calls it in the step thread, and exchanges the hashes itself. A hash waits for exchanges under way and for
 * the device. Ranks with equal bits have equal hashes, also on unlike devices.
 */
#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/engine.h"

#define CHUNK (4u << 20) /* bytes hashed at once */
#define PART (8ull << 20) /* elements compared in a turn: some 10 ms with the way from a device */

/* Values that lie in slices: this rank's from its device, the rest from the block for exchanges. */
static yk_status hash_range(yk__engine *e, const yk__bucket *b, yk__range range, void *scratch, uint64_t *h, yk_error *err)
{
    const uint64_t each = yk_dtype_bytes(b->layout.dtype), most = CHUNK / each;
    for (uint64_t at = range.from; at < range.to && !err->status; at += most) {
        const uint64_t n = range.to - at < most ? range.to - at : most;
        if (!yk__params_get(&e->params, b, (yk__range){at, at + n}, scratch, err) && !yk__queue_finish(&e->queue, err))
            *h = yk__hash_bytes(*h, scratch, n * each);
    }
    return err->status;
}

static yk_status hash_part(yk__engine *e, yk__bound from, uint64_t bytes, void *scratch, uint64_t *h, yk_error *err)
{
    for (uint64_t at = 0; at < bytes && !err->status; at += CHUNK) {
        const uint64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        if (!yk__queue_read(&e->queue, from.buffer, from.offset + at, scratch, n, err))
            *h = yk__hash_bytes(*h, scratch, n);
    }
    return err->status;
}

/* The elements in `part` of a parameter that begins at element `begin` of all parameters. */
static yk__span span_of(const yk__param *q, uint64_t begin, yk__span part)
{
    const uint64_t from = part.from > begin ? part.from - begin : 0, to = part.to > begin ? part.to - begin : 0;
    return (yk__span){from, to < q->n ? to : q->n};
}

static yk_status hash_values(yk__engine *e, yk__span part, void *scratch, uint64_t *hash, yk_error *err)
{
    uint64_t h = YK_HASH_SEED, begin = 0;
    for (size_t i = 0; i < e->params.n_param && !err->status; begin += e->params.param[i++].n) {
        const yk__param *q = &e->params.param[i];
        const yk__span own = span_of(q, begin, part);
        if (own.from < own.to)
            hash_range(e, &e->params.bucket[q->bucket], (yk__range){q->at + own.from, q->at + own.to}, scratch, &h, err);
    }
    *hash = h;
    return err->status;
}

/* Hashes the copies. Copies older than the parameters are made again first, as the next program would. */
static yk_status hash_copies(yk__engine *e, yk__span part, void *scratch, yk__hashes *out, yk_error *err)
{
    const uint64_t element = yk_dtype_bytes(e->params.precision);
    uint64_t which = yk__hash_u64(YK_HASH_SEED, e->params.precision), h = YK_HASH_SEED, begin = 0;
    bool any = false;
    for (size_t i = 0; i < e->params.n_param; i++)
        any = any || e->params.param[i].compute;
    if (!any || yk__compute_refresh(&e->exec, true, err))
        return err->status;
    for (size_t i = 0; i < e->params.n_param && !err->status; begin += e->params.param[i++].n) {
        const yk__param *q = &e->params.param[i];
        const yk__span own = span_of(q, begin, part);
        if (!q->compute || own.from >= own.to)
            continue;
        which = yk__hash_u64(which, i);
        hash_part(e, (yk__bound){q->compute, own.from * element}, (own.to - own.from) * element, scratch, &h, err);
    }
    out->copied = which;
    out->copies = h;
    return err->status;
}

static yk_status hash_all(yk__engine *e, yk__span part, bool copies, yk__hashes *h, yk_error *err)
{
    void *scratch;
    *h = (yk__hashes){0};
    if (yk__engine_lay_out(e, err) || yk__params_settle(&e->params, err))
        return err->status;
    scratch = yk__calloc(1, CHUNK); /* a device that plans only reads nothing into it */
    if (!scratch)
        return yk__fail_mem(err, CHUNK, "the hash of the parameters");
    if (!hash_values(e, part, scratch, &h->values, err) && copies)
        hash_copies(e, part, scratch, h, err);
    yk__free(scratch);
    return err->status;
}

yk__span yk__engine_hash_part(const yk__engine *e, uint64_t turn)
{
    uint64_t n = 0, from;
    for (size_t i = 0; i < e->params.n_param; i++)
        n += e->params.param[i].n;
    from = n ? turn % ((n + PART - 1) / PART) * PART : 0;
    return (yk__span){from, from + PART < n ? from + PART : n};
}

yk_status yk__engine_hashes(yk__engine *e, yk__span part, yk__hashes *h, yk_error *err)
{
    const int64_t begin = yk__clock_ns();
    hash_all(e, part, true, h, err);
    yk__tracer_span(e->queue.tracer, YK__LANE_HOST, "hash", part.from, begin, yk__clock_ns());
    return err->status;
}

yk_status yk__engine_hash(yk__engine *e, uint64_t *hash, yk_error *err)
{
    yk__hashes h;
    if (!hash_all(e, YK__SPAN_ALL, false, &h, err))
        *hash = h.values;
    return err->status;
}

bool yk__hashes_agree(const yk__hashes *a, const yk__hashes *b)
{
    return a->values == b->values && (a->copied != b->copied || a->copies == b->copies);
}
