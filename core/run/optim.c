/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of an update: statistics of the gradients of this rank's slices, and the optimizer's step on them. One
 * node per stretch of a slice that belongs to one parameter group; the gaps between parameters go with what is before
 * them (their gradients, moments and values are zero and stay zero).
 */
#include "core/base/mem.h"
#include "core/run/update.h"

#define HYPER_BYTES 256u /* each group's vector begins at a multiple */

typedef struct stretch {
    uint32_t bucket, group;
    uint32_t compute;    /* the parameter it is, whose 16-bit copy is written as well; YK_NONE: some, without */
    uint64_t begin, end; /* elements of the bucket */
} stretch;

typedef struct stretches {
    stretch *list;
    size_t n, cap;
} stretches;

static uint32_t group_of(const yk__updater *u, size_t param)
{
    return u->group_of ? u->group_of[param] : 0;
}

/* Appends one parameter's part of its bucket, up to the next parameter's begin. */
static yk_status add_stretch(yk__updater *u, stretches *s, uint32_t number, uint64_t end, yk_error *err)
{
    const yk__param *p = &u->params->param[number];
    const uint32_t group = group_of(u, number), compute = p->compute && u->params->exchange->world == 1 ? number : YK_NONE;
    const yk__bucket *k = &u->params->bucket[p->bucket];
    stretch *last = s->n ? &s->list[s->n - 1] : NULL;
    const uint64_t from = p->at > k->begin ? p->at : k->begin, to = end < k->end ? end : k->end;
    if (from >= to)
        return YK_OK;
    if (last && last->bucket == p->bucket && last->group == group && last->compute == compute && compute == YK_NONE &&
        last->end == from) {
        last->end = to;
        return YK_OK;
    }
    if (yk__grow(&s->list, &s->cap, s->n + 1, sizeof *s->list))
        return yk__fail_mem(err, sizeof *s->list, "an optimizer");
    s->list[s->n++] = (stretch){p->bucket, group, compute, from, to};
    return YK_OK;
}

/* The last parameter stands first: the end of one is the begin of the one declared before it in the same bucket. */
static yk_status find_stretches(yk__updater *u, stretches *s, yk_error *err)
{
    *s = (stretches){0};
    for (size_t i = u->params->n_param; i-- > 0;) {
        const yk__param *p = &u->params->param[i];
        uint64_t end;
        if (!p->trained)
            continue;
        end = u->params->bucket[p->bucket].n;
        for (size_t j = i; j-- > 0;)
            if (u->params->param[j].trained) {
                end = u->params->param[j].bucket == p->bucket ? u->params->param[j].at : end;
                break;
            }
        if (add_stretch(u, s, (uint32_t)i, end, err))
            return err->status;
    }
    return YK_OK;
}

typedef struct bucket_slots {
    uint32_t value, grad, moment[YK__MOMENTS];
} bucket_slots;

static yk__vid stretch_leaf(yk__graph *g, uint32_t slot, const stretch *s, uint64_t from)
{
    const int64_t n = (int64_t)(s->end - s->begin);
    return yk__leaf(g, slot, (s->begin - from) * sizeof(float), YK_F32, 1, &n);
}

static bucket_slots *make_slots(yk__updater *u, yk__graph *g)
{
    bucket_slots *s = yk__calloc(u->params->n_bucket + 1ull, sizeof *s);
    for (uint32_t i = 0; s && i < u->params->n_bucket; i++) {
        const uint64_t bytes = u->params->bucket[i].n * sizeof(float);
        s[i].value = yk__slot_new(g, YK_SLOT_PARAM, bytes, YK__KEY_BUCKET | i);
        s[i].grad = yk__slot_new(g, YK_SLOT_GRAD, bytes, i);
        for (uint32_t k = 0; k < u->params->n_moment; k++)
            s[i].moment[k] = yk__slot_new(g, YK_SLOT_STATE, (u->params->bucket[i].end - u->params->bucket[i].begin) * sizeof(float),
                                          YK__KEY_BUCKET | k << 24 | i);
    }
    return s;
}

static void step_node(yk__updater *u, yk__graph *g, const bucket_slots *slots, uint32_t hyper, const stretch *s)
{
    const bucket_slots *k = &slots[s->bucket];
    const uint64_t own = u->params->bucket[s->bucket].begin;
    const int64_t n_hyper = YK_HYPER_COUNT, flags = u->layout.flags;
    const yk__vid h = yk__leaf(g, hyper, s->group * HYPER_BYTES, YK_F32, 1, &n_hyper);
    yk__vid in[6], out[4];
    uint32_t n = 0;
    in[n++] = stretch_leaf(g, k->grad, s, 0);
    in[n++] = stretch_leaf(g, k->value, s, 0);
    for (uint32_t i = 0; i < u->params->n_moment && i < 2; i++)
        in[n++] = stretch_leaf(g, k->moment[i], s, own);
    in[n++] = h;
    if (u->params->n_moment > 2)
        in[n++] = stretch_leaf(g, k->moment[2], s, own);
    for (uint32_t i = 0; i < n; i++)
        if (in[i] == YK_NONE)
            return;
    if (yk__apply(g, u->layout.kind == YK_OPT_ADAM ? YK_OP_ADAM_STEP : YK_OP_SGD_STEP, n, in, 1, &flags, YK_DTYPE_COUNT, 0,
                  NULL, out, 4) &&
        s->compute != YK_NONE)
        yk__compute_cast(u->params, g, s->compute, yk__slice(g, out[0], 0, 0, (int64_t)u->params->param[s->compute].n, 1));
}

static yk_status plan_graph(yk__updater *u, yk__graph *g, uint32_t n_result, const yk__vid *result, yk__prog **p, yk_error *err)
{
    yk__plan_request r;
    yk__prog_request(u->exec, g, &r);
    r.single_rank = true;
    r.n_result = n_result, r.result = result;
    if (g->error.status)
        *err = g->error;
    else if (!yk__prog_new(u->exec, &r, p, err))
        (*p)->is_update = true;
    return err->status;
}

static yk_status make_step(yk__updater *u, const stretches *s, yk_error *err)
{
    yk__graph g;
    bucket_slots *slots;
    uint32_t hyper;
    yk__graph_init(&g);
    hyper = yk__slot_new(&g, YK_SLOT_INPUT, u->layout.n_group * HYPER_BYTES, 0);
    slots = make_slots(u, &g);
    if (!slots)
        yk__fail_mem(err, u->params->n_bucket * sizeof *slots, "an optimizer");
    for (size_t i = 0; slots && i < s->n; i++)
        step_node(u, &g, slots, hyper, &s->list[i]);
    if (!err->status)
        plan_graph(u, &g, 0, NULL, &u->step_prog, err);
    yk__free(slots);
    yk__graph_free(&g);
    return err->status;
}

static void stat_nodes(yk__updater *u, yk__graph *g, yk__vid scale, yk__vid *result)
{
    u->n_stat = 0;
    for (uint32_t i = 0; i < u->params->n_bucket; i++) {
        const yk__bucket *p = &u->params->bucket[i];
        const stretch all = {i, 0, YK_NONE, p->begin, p->end};
        const uint32_t slot = yk__slot_new(g, YK_SLOT_GRAD, p->n * sizeof(float), i);
        yk__vid in[2], out;
        if (p->begin == p->end)
            continue;
        in[0] = stretch_leaf(g, slot, &all, 0);
        in[1] = scale;
        if (in[0] != YK_NONE && yk__apply(g, YK_OP_GRAD_STATS, 2, in, 0, NULL, YK_DTYPE_COUNT, 0, NULL, &out, 1))
            result[u->n_stat++] = out;
    }
}

static yk_status make_stats(yk__updater *u, yk_error *err)
{
    const int64_t one = 1;
    yk__vid *result = yk__calloc(u->params->n_bucket + 1ull, sizeof *result);
    yk__graph g;
    uint32_t scale;
    yk__graph_init(&g);
    u->stats = yk__calloc(u->params->n_bucket + 1ull, 2 * sizeof *u->stats);
    scale = yk__slot_new(&g, YK_SLOT_INPUT, HYPER_BYTES, 0);
    if (!result || !u->stats) {
        yk__fail_mem(err, u->params->n_bucket * 8ull, "an optimizer");
    } else {
        stat_nodes(u, &g, yk__leaf(&g, scale, 0, YK_F32, 1, &one), result);
        plan_graph(u, &g, u->n_stat, result, &u->stat_prog, err);
    }
    yk__graph_free(&g);
    yk__free(result);
    return err->status;
}

static yk_status make_step_program(yk__updater *u, yk_error *err)
{
    stretches s;
    if (!u->hyper) /* it stays when the program is made again */
        u->hyper = yk__calloc(u->layout.n_group ? u->layout.n_group : 1, HYPER_BYTES);
    if (!u->hyper)
        return yk__fail_mem(err, HYPER_BYTES, "an optimizer");
    u->n_compute = u->params->n_compute;
    if (!find_stretches(u, &s, err))
        make_step(u, &s, err);
    yk__free(s.list);
    return err->status;
}

yk_status yk__optim_make(yk__updater *u, yk_error *err)
{
    if (u->params->exchange->world == 1 && !u->stat_prog && make_stats(u, err))
        return err->status;
    if (u->step_prog && u->n_compute != u->params->n_compute) { /* it is to write the new copies, too */
        if (yk__queue_idle(u->exec->queue, err))
            return err->status;
        yk__prog_free(u->exec, u->step_prog);
        u->step_prog = NULL;
    }
    return u->step_prog || u->layout.kind == YK_OPT_NONE ? YK_OK : make_step_program(u, err);
}

void yk__optim_drop(yk__updater *u)
{
    yk__prog_free(u->exec, u->step_prog);
    yk__prog_free(u->exec, u->stat_prog);
    yk__free(u->hyper);
    yk__free(u->stats);
    u->step_prog = u->stat_prog = NULL;
    u->hyper = u->stats = NULL;
}
