/* SPDX-License-Identifier: Apache-2.0 */
/* Whole vectors that the ranks hold in slices. */
#include <string.h>

#include "core/base/mem.h"
#include "core/run/internal.h"

/* What this rank owns of a parameter, by the slices; the rest zero. */
static yk_status own_part(yk__engine *e, yk_buffer *b, const yk__slices *s, uint64_t base, const yk__eparam *q, float *data,
                          yk_error *err)
{
    const uint64_t from = q->at > s->begin[e->rank] ? q->at : s->begin[e->rank];
    const uint64_t to = q->at + q->n < s->begin[e->rank + 1] ? q->at + q->n : s->begin[e->rank + 1];
    memset(data, 0, q->n * sizeof *data);
    if (from >= to)
        return YK_OK;
    return yk__store_io(e, b, (from - base) * sizeof *data, data + (from - q->at), (to - from) * sizeof *data, false, err);
}

yk_status yk__state_spread(yk__engine *e, const yk__slices *s, uint64_t at, uint64_t n, float *data, yk_error *err)
{
    for (uint32_t r = 0; r < e->world && e->world > 1; r++) {
        const uint64_t from = at > s->begin[r] ? at : s->begin[r];
        const uint64_t to = at + n < s->begin[r + 1] ? at + n : s->begin[r + 1];
        if (from < to && yk__group_broadcast(e->group, r, data + (from - at), (to - from) * sizeof *data, err))
            return err->status;
    }
    return YK_OK;
}

static yk_status check_trained(yk__engine *e, uint32_t number, yk_error *err)
{
    if (number >= e->n_param || !e->param[number].trained)
        return yk__fail(err, YK_E_ARG, "%s has no gradient: it is not trained",
                        number < e->n_param ? e->param[number].name : "an unknown parameter");
    return yk__store_lay_out(e, err);
}

yk_status yk__engine_grad_read(yk__engine *e, uint32_t number, float *data, yk_error *err)
{
    const yk__slices *s;
    const yk__eparam *q;
    if (check_trained(e, number, err) || yk__reduce(e, err))
        return err->status;
    q = &e->param[number];
    s = e->slices_changed ? &e->bucket[q->bucket].summed : &e->bucket[q->bucket].slice;
    if (own_part(e, e->bucket[q->bucket].grad, s, 0, q, data, err) || yk__state_spread(e, s, q->at, q->n, data, err))
        return err->status;
    for (uint64_t i = 0; i < q->n && e->divisor != 1.0; i++)
        data[i] = (float)((double)data[i] / e->divisor);
    return YK_OK;
}

uint32_t yk__engine_moments(const yk__engine *e)
{
    return e->n_moment;
}

static yk_status check_moment(yk__engine *e, uint32_t kind, uint32_t number, yk_error *err)
{
    if (kind >= e->n_moment)
        return yk__fail(err, YK_E_INTERNAL, "there is no moment %u", kind);
    return check_trained(e, number, err);
}

yk_status yk__engine_moment_read(yk__engine *e, uint32_t kind, uint32_t number, float *data, yk_error *err)
{
    const yk__eparam *q;
    const yk__bucket *p;
    if (check_moment(e, kind, number, err))
        return err->status;
    q = &e->param[number];
    p = &e->bucket[q->bucket];
    if (own_part(e, p->moment[kind], &p->slice, p->begin, q, data, err))
        return err->status;
    return yk__state_spread(e, &p->slice, q->at, q->n, data, err);
}

yk_status yk__engine_moment_write(yk__engine *e, uint32_t kind, uint32_t number, const float *data, yk_error *err)
{
    const yk__eparam *q;
    const yk__bucket *p;
    uint64_t from, to;
    float *copy;
    if (check_moment(e, kind, number, err))
        return err->status;
    q = &e->param[number];
    p = &e->bucket[q->bucket];
    from = q->at > p->begin ? q->at : p->begin;
    to = q->at + q->n < p->end ? q->at + q->n : p->end;
    if (from >= to)
        return YK_OK;
    copy = yk__malloc((to - from) * sizeof *copy);
    if (!copy)
        return yk__fail_mem(err, (to - from) * sizeof *copy, q->name);
    memcpy(copy, data + (from - q->at), (to - from) * sizeof *copy);
    yk__store_io(e, p->moment[kind], (from - p->begin) * sizeof *copy, copy, (to - from) * sizeof *copy, true, err);
    yk__free(copy);
    return err->status;
}
