/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of gradients in slices (`--shard gradients` and `--shard params`): each rank holds sums for its own slices alone. Each piece of a
 * bucket goes from the device to the host. A reduce-scatter sums it over the members, and part_add adds this rank's slice to its sums.
 *
 * The action `sum_bucket` (core/run/actions.c) starts and waits in each micro batch, and ways/scattered.c ends the window, in the step
 * thread. Three parts of memory take turns, so device, exchange and addition run at once (slice_sums.h).
 */
#include "core/run/values/slice_sums.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/run/values/params.h"

/* ---- Memory ---- */

/* cut_piece cuts the bucket's slices to the range of the piece. */
static yk_status cut_piece(const yk__bucket *b, yk__piece *piece, yk_error *err)
{
    const yk__slices *all = &b->layout.slice;
    if (yk__slices_copy(&piece->layout.slice, all, err))
        return err->status;
    for (uint32_t r = 0; r <= all->ranks; r++) {
        const uint64_t at = all->begin[r] > piece->from ? all->begin[r] - piece->from : 0;
        piece->layout.slice.begin[r] = at < piece->layout.n ? at : piece->layout.n;
    }
    return YK_OK;
}

static yk_status make_pieces(const yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t n = p->summing.elements;
    const size_t pieces = (b->layout.n + n - 1) / n;
    b->piece = yk__calloc(pieces, sizeof *b->piece);
    if (!b->piece)
        return yk__fail_mem(err, pieces * sizeof *b->piece, "the pieces of a bucket");
    for (b->n_piece = 0; b->n_piece < pieces; b->n_piece++) {
        yk__piece *piece = &b->piece[b->n_piece];
        piece->from = b->n_piece * n;
        piece->layout = b->layout;
        piece->layout.slice = (yk__slices){0};
        piece->layout.n = b->layout.n - piece->from < n ? b->layout.n - piece->from : n;
        if (cut_piece(b, piece, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__sums_make(yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t bytes = yk__bucket_own_bytes(b);
    if (make_pieces(p, b, err) || !bytes)
        return err->status;
    b->sum = yk__malloc_aligned(bytes, 4096);
    if (!b->sum)
        return yk__fail_mem(err, bytes, "sums of gradients");
    if (!p->queue->dev->plans_only) /* a plan adds nothing up, and pages that are not touched cost it nothing */
        memset(b->sum, 0, bytes);
    b->is_wrapped = yk__queue_wraps(b->updates);
    if (b->is_wrapped)
        return yk__queue_wrap(b->updates, b->sum, bytes, &b->grad, YK__GRAD_BYTES, err);
    yk__queue_pin(b->updates, b->sum, bytes, &b->sum_pin);
    return yk__queue_buffer(b->updates, bytes, &b->grad, YK__GRAD_BYTES, err);
}

void yk__sums_drop(yk__bucket *b)
{
    for (uint32_t i = 0; i < b->n_piece; i++)
        yk__slices_free(&b->piece[i].layout.slice);
    yk__free(b->piece);
    b->piece = NULL;
    b->n_piece = 0;
    yk__queue_unbuffer(b->updates, &b->grad, yk__bucket_own_bytes(b), YK__GRAD_BYTES);
    yk__queue_unpin(b->updates, &b->sum_pin);
    yk__free(b->sum);
    b->sum = NULL;
}

uint64_t yk__sums_bytes(const yk__params *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_bucket && p->scatters; i++)
        bytes += yk__bucket_offloads(p, &p->bucket[i]) ? 0 : yk__bucket_own_bytes(&p->bucket[i]);
    return bytes;
}

/* ---- Pieces on their way ---- */

static uint64_t part_at(const yk__params *p, const yk__sum_part *part)
{
    return (uint64_t)(part - p->summing.part) * p->summing.elements;
}

/* Clears the elements that no gradient of the program wrote: gaps between parameters, and parameters that the program does not use. The
 * last parameter stands first in its bucket. */
static void clear_unwritten(const yk__params *p, const yk__sum_part *part, float *to)
{
    const uint64_t from = part->piece->from, end = from + part->piece->layout.n;
    const uint32_t bucket = (uint32_t)(part->bucket - p->bucket);
    uint64_t at = from;
    for (size_t i = p->n_param; part->written && i-- > 0;) {
        const yk__param *q = &p->param[i];
        const yk__range own = yk__range_meet(q->at, q->n, from, end);
        if (!q->trained || q->bucket != bucket || !part->written[i] || own.from == own.to)
            continue;
        memset(to + (at - from), 0, (own.from - at) * sizeof *to);
        at = own.to;
    }
    memset(to + (at - from), 0, (end - at) * sizeof *to);
}

/* part_post waits until the piece's gradients are on the host, and starts their reduce-scatter. */
static yk_status part_post(yk__params *p, yk__sum_part *part, yk_error *err)
{
    float *to = yk__exchange_grads(p->exchange, part_at(p, part));
    if (!part->bucket || part->posted || yk__queue_wait(p->queue, part->point, err))
        return err->status;
    clear_unwritten(p, part, to);
    part->posted = true;
    part->begun_ns = yk__clock_ns();
    return yk__exchange_reduce_scatter(p->exchange, part_at(p, part), &part->piece->layout, NULL, &part->done_ns, &part->request, err);
}

/* part_add adds this rank's slice of the piece to the window's sums, or copies it there if the window has none yet. */
static void part_add(const yk__params *p, const yk__sum_part *part)
{
    const yk__bucket *b = part->bucket;
    const yk__piece *piece = part->piece;
    const yk__range own = yk__range_meet(piece->from, piece->layout.n, b->begin, b->end);
    const float *from = yk__exchange_grads(p->exchange, part_at(p, part)) + (own.from - piece->from);
    const uint64_t n = own.to - own.from;
    float *sum = n ? b->sum + (own.from - b->begin) : NULL;
    if (n && !p->summing.adds)
        memcpy(sum, from, n * sizeof *sum);
    for (uint64_t i = 0; i < n && p->summing.adds; i++)
        sum[i] += from[i];
}

static yk_status part_finish(yk__params *p, yk__sum_part *part, yk_error *err)
{
    const double begin = yk__clock_seconds();
    const int64_t begin_ns = yk__clock_ns();
    const yk__bucket *b = part->bucket;
    if (!b || part_post(p, part, err) || yk__exchange_wait(&part->request, err))
        return err->status;
    p->queue->exchanging += yk__clock_seconds() - begin;
    if (p->exchange->medium)
        yk__tracer_span(p->queue->tracer, YK__LANE_WIRE, "reduce_scatter", (uint64_t)(b - p->bucket), part->begun_ns, part->done_ns);
    yk__tracer_span(p->queue->tracer, YK__LANE_HOST, "wait", (uint64_t)(b - p->bucket), begin_ns, yk__clock_ns());
    part_add(p, part);
    *part = (yk__sum_part){0};
    return YK_OK;
}

/* part_before returns the part of the piece started `back` pieces before the next one. */
static yk__sum_part *part_before(yk__params *p, uint32_t back)
{
    return &p->summing.part[(p->summing.count + YK__SUM_PARTS - back) % YK__SUM_PARTS];
}

static yk_status piece_start(yk__params *p, yk__bucket *b, const yk__piece *piece, yk_buffer *lane, const bool *written, yk_error *err)
{
    yk__sum_part *part = part_before(p, 0);
    if (part_finish(p, part_before(p, 2), err) || part_post(p, part_before(p, 1), err))
        return err->status;
    *part = (yk__sum_part){.bucket = b, .piece = piece, .written = lane ? written : NULL};
    p->summing.count++;
    if (lane && yk__queue_get(p->queue, lane, piece->from * sizeof(float), yk__exchange_grads(p->exchange, part_at(p, part)),
                              piece->layout.n * sizeof(float), err))
        return err->status;
    part->point = p->queue->last_point; /* a piece without gradients waits too, as the last update may still read the sums */
    return YK_OK;
}

yk_status yk__sums_start(yk__params *p, yk__bucket *b, yk_buffer *lane, const bool *written, yk_error *err)
{
    /* part_add changes sums that a late update may still read, if no program has waited for the bucket */
    if (yk__params_defer(p) && yk__params_await(p, (uint32_t)(b - p->bucket), err))
        return err->status;
    for (uint32_t i = 0; i < b->n_piece && yk__exchange_grads(p->exchange, 0); i++)
        if (piece_start(p, b, &b->piece[i], lane, written, err))
            return err->status;
    return YK_OK;
}

/* A device that only plans has no memory for gradients, but waits like a run, as waits decide which memory is free again. */
yk_status yk__sums_wait(yk__params *p, const yk__bucket *b, yk_error *err)
{
    if (!yk__exchange_grads(p->exchange, 0))
        return yk__queue_idle(p->queue, err);
    for (uint32_t back = YK__SUM_PARTS; back > 0; back--) {
        yk__sum_part *part = part_before(p, back);
        if (part->bucket && part->bucket <= b && part_finish(p, part, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__sums_nothing(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (yk__sums_start(p, &p->bucket[i], NULL, NULL, err))
            return err->status;
    return p->n_bucket ? yk__sums_wait(p, &p->bucket[p->n_bucket - 1], err) : YK_OK;
}

void yk__sums_restart(yk__params *p)
{
    p->summing.count = 0;
}

void yk__sums_cancel(yk__params *p)
{
    for (uint32_t i = 0; i < YK__SUM_PARTS; i++) {
        yk__exchange_drop(&p->summing.part[i].request);
        p->summing.part[i] = (yk__sum_part){0};
    }
    p->summing.count = 0;
}

/* ---- The end of a window ---- */

yk_status yk__sums_to_devices(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        const yk__bucket *b = &p->bucket[i];
        if (b->begin < b->end && !b->is_wrapped && yk__queue_put(b->updates, b->grad, 0, b->sum, yk__bucket_own_bytes(b), err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__sums_finish(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        const yk__bucket *b = &p->bucket[i];
        if (b->begin < b->end)
            yk__exact_squares(&p->squares, b->sum, b->end - b->begin);
    }
    return yk__sums_to_devices(p, err);
}
