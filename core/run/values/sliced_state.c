/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes vectors that the ranks hold in slices: a parameter's gradient, and the optimizer's moments. A read gathers the slices
 * of each rank; yk__engine_moment_read with `single` gives this rank's slice, and zeros elsewhere. yk__engine_moment_give writes this
 * rank's slice.
 *
 * Compressed exchanges keep the rounding error of a vector that is sent, and add it to the next vector. The errors belong to gradients, or
 * in LocalSGD to changes of parameters. yk__engine_whole drops the errors before a checkpoint, and makes parameters equal on all ranks.
 * yk__engine_scale_errors multiplies the errors of gradients if the loss scale changes.
 *
 * core/job calls the file for yk_grad_read, for checkpoints and for a new loss scale, in the step thread. Reads of other ranks' parts are
 * collective: all ranks call them in the same order. Vectors are f32.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/run/engine.h"

#define PIECE (1u << 20) /* elements of a moment that a write takes at once */

/* Reads this rank's part of a parameter's sums from the device, and sets the other elements to zero. s: the ranks' slices of the bucket.
 * base: the bucket's element with which the buffer of sums begins. */
static yk_status own_part(yk__engine *e, const yk__bucket *b, const yk__slices *s, uint64_t base, const yk__param *q, float *data,
                          yk_error *err)
{
    const yk__range own = yk__range_meet(q->at, q->n, s->begin[e->exchange.rank], s->begin[e->exchange.rank + 1]);
    memset(data, 0, q->n * sizeof *data);
    if (own.from == own.to)
        return YK_OK;
    return yk__queue_read(b->updates, yk__bucket_sums(b), (own.from - base) * sizeof *data, data + (own.from - q->at),
                          (own.to - own.from) * sizeof *data, err);
}

static yk_status check_trained(yk__engine *e, uint32_t number, yk_error *err)
{
    if (number >= e->params.n_param || !e->params.param[number].trained)
        return yk__fail(err, YK_E_ARG, "%s has no gradient: it is not trained",
                        number < e->params.n_param ? e->params.param[number].name : "an unknown parameter");
    return yk__engine_lay_out(e, err);
}

yk_status yk__engine_grad_read(yk__engine *e, uint32_t number, float *data, yk_error *err)
{
    const yk__slices *s;
    const yk__bucket *b;
    const yk__param *q;
    if (check_trained(e, number, err))
        return err->status;
    if (e->exchange.part == YK__PART_LOCAL)
        return yk__fail(err, YK_E_UNSUPPORTED, "in LocalSGD gradients are not added up over ranks: there is none of the job to read");
    if (yk__params_reduce(&e->params, err))
        return err->status;
    q = &e->params.param[number];
    b = &e->params.bucket[q->bucket];
    /* YK__SUMS_MOVED: the ranks got other slices after the sum, and the sums still lie by the earlier ones */
    s = e->params.sums == YK__SUMS_MOVED ? &b->summed : &b->layout.slice;
    if (own_part(e, b, s, e->params.scatters ? b->begin : 0, q, data, err) ||
        yk__exchange_spread(&e->exchange, s, q->at, q->n, data, err))
        return err->status;
    for (uint64_t i = 0; i < q->n && e->updater.divisor != 1.0; i++)
        data[i] = (float)((double)data[i] / e->updater.divisor);
    return YK_OK;
}

void yk__engine_scale_errors(yk__engine *e, double factor)
{
    if (e->exchange.part == YK__PART_LOCAL) /* LocalSGD's residual is of changes of parameters, which bear no scale */
        return;
    yk__exchange_scale_residual(&e->exchange, (float)factor);
    yk__power_scale(&e->params, (float)factor);
}

yk_status yk__engine_whole(yk__engine *e, yk_error *err)
{
    yk__exchange_clear_residual(&e->exchange);
    yk__power_drop(&e->params);
    return yk__params_gather_whole(&e->params, err);
}

uint32_t yk__engine_moments(const yk__engine *e)
{
    return e->params.n_moment;
}

static yk_status check_moment(yk__engine *e, uint32_t kind, uint32_t number, yk_error *err)
{
    if (kind >= e->params.n_moment)
        return yk__fail(err, YK_E_INTERNAL, "there is no moment %u", kind);
    return check_trained(e, number, err);
}

uint32_t yk__engine_owner(const yk__engine *e, uint32_t number, uint64_t at, uint64_t *to)
{
    const yk__param *q = &e->params.param[number];
    uint32_t rank = 0;
    *to = q->n;
    if (!e->params.laid_out || !q->trained)
        return YK_NONE;
    const uint64_t *begin = e->params.bucket[q->bucket].layout.slice.begin;
    while (begin[rank + 1] <= q->at + at)
        rank++;
    *to = begin[rank + 1] - q->at < q->n ? begin[rank + 1] - q->at : q->n;
    return rank;
}

yk_status yk__engine_moment_read(yk__engine *e, uint32_t kind, uint32_t number, uint64_t from, uint64_t n, bool single, float *data,
                                 yk_error *err)
{
    const yk__param *q;
    const yk__bucket *p;
    yk__range own;
    if (check_moment(e, kind, number, err))
        return err->status;
    q = &e->params.param[number];
    p = &e->params.bucket[q->bucket];
    n = n < q->n - from ? n : q->n - from;
    own = yk__range_meet(q->at + from, n, p->begin, p->end);
    memset(data, 0, n * sizeof *data);
    if ((own.from < own.to && yk__moment_read(&e->params, p, kind, own, data + (own.from - q->at - from), err)) || single ||
        yk__exchange_updates_all(&e->exchange))
        return err->status;
    return yk__exchange_spread(&e->exchange, &p->layout.slice, q->at + from, n, data, err);
}

/* Reads a piece at a time, so that a large moment of a checkpoint's file needs little memory. */
static yk_status moment_take(yk__params *p, const yk__param *q, uint32_t kind, const yk__source *source, float *work, yk_error *err)
{
    const yk__bucket *b = &p->bucket[q->bucket];
    const yk__range own = yk__range_meet(q->at, q->n, b->begin, b->end);
    for (uint64_t at = own.from, n; at < own.to; at += n) {
        n = own.to - at < PIECE ? own.to - at : PIECE;
        if (source->read(source->object, at - q->at, n, work, err) || yk__moment_write(p, b, kind, (yk__range){at, at + n}, work, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__engine_moment_give(yk__engine *e, uint32_t kind, uint32_t number, const yk__source *source, yk_error *err)
{
    float *work;
    if (check_moment(e, kind, number, err))
        return err->status;
    work = yk__malloc(PIECE * sizeof *work);
    if (!work)
        return yk__fail_mem(err, PIECE * sizeof *work, "the optimizer's state");
    moment_take(&e->params, &e->params.param[number], kind, source, work, err);
    yk__free(work);
    return err->status;
}
