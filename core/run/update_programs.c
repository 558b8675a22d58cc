/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's programs of an update: statistics of the gradients of this rank's slices, and the optimizer's step on them. update.c and
 * ways/norm.c ask for them in the step thread, roles.c drops them, and the struct yk__optim_programs owns them.
 *
 * Each stretch of a slice that belongs to one parameter group has a node. The gaps between parameters go with the parameter before them:
 * their gradients, moments and values are zero and stay zero.
 */
#include "core/run/update_programs.h"

#include <string.h>

#include "core/base/mem.h"

#define PAGE 4096u
#define HYPER_BYTES 256u /* each group's vector begins at a multiple */

typedef struct stretch {
    uint32_t bucket, group;
    uint32_t compute;    /* the stretch's one parameter, whose 16-bit copy is written too; YK_NONE: one or several, without copies */
    uint64_t begin, end; /* elements of the bucket */
} stretch;

typedef struct stretches {
    stretch *list;
    size_t n, cap;
} stretches;

static uint32_t group_of(const yk__optim_programs *optim, size_t param)
{
    return optim->group_of ? optim->group_of[param] : 0;
}

/* Another device may update the rest of this rank's slices. */
static bool updates_bucket(const yk__optim_programs *optim, uint32_t i)
{
    return optim->params->bucket[i].updates == optim->exec->queue;
}

/* Appends one parameter's part of its bucket, up to the next parameter's begin. */
static yk_status add_stretch(yk__optim_programs *optim, stretches *s, uint32_t number, uint64_t end, yk_error *err)
{
    const yk__param *p = &optim->params->param[number];
    const uint32_t group = group_of(optim, number), compute = yk__copy_follows(optim->params, p) ? number : YK_NONE;
    const yk__bucket *k = &optim->params->bucket[p->bucket];
    stretch *last = s->n ? &s->list[s->n - 1] : NULL;
    const yk__range own = yk__range_meet(p->at, end - p->at, k->begin, k->end);
    if (own.from == own.to || !updates_bucket(optim, p->bucket))
        return YK_OK;
    if (last && last->bucket == p->bucket && last->group == group && last->compute == compute && compute == YK_NONE &&
        last->end == own.from) {
        last->end = own.to;
        return YK_OK;
    }
    if (yk__grow(&s->list, &s->cap, s->n + 1, sizeof *s->list))
        return yk__fail_mem(err, sizeof *s->list, "an optimizer");
    s->list[s->n++] = (stretch){p->bucket, group, compute, own.from, own.to};
    return YK_OK;
}

/* The last parameter stands first: the end of one is the begin of the one declared before it in the same bucket. */
static yk_status find_stretches(yk__optim_programs *optim, stretches *s, yk_error *err)
{
    *s = (stretches){0};
    for (size_t i = optim->params->n_param; i-- > 0;) {
        const yk__param *p = &optim->params->param[i];
        uint64_t end;
        if (!p->trained)
            continue;
        end = optim->params->bucket[p->bucket].layout.n;
        for (size_t j = i; j-- > 0;)
            if (optim->params->param[j].trained) {
                end = optim->params->param[j].bucket == p->bucket ? optim->params->param[j].at : end;
                break;
            }
        if (add_stretch(optim, s, (uint32_t)i, end, err))
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

/* The slot of a bucket's gradients, or of the sums of this rank's slice. */
static uint32_t grad_slot(const yk__params *p, yk__graph *g, uint32_t i)
{
    const yk__bucket *b = &p->bucket[i];
    return p->scatters ? yk__slot_new(g, YK_SLOT_GRAD, (b->end - b->begin) * sizeof(float), YK__KEY_BUCKET | i)
                       : yk__slot_new(g, YK_SLOT_GRAD, yk__bucket_bytes(b), i);
}

/* The bucket's element at which that slot begins. */
static uint64_t grad_from(const yk__params *p, uint32_t i)
{
    return p->scatters ? p->bucket[i].begin : 0;
}

/* The elements of a bucket whose moments a part's program has. */
static yk__range part_moments(const yk__params *p, const yk__optim_part *part, uint32_t i)
{
    return part->bucket == YK_NONE ? (yk__range){p->bucket[i].begin, p->bucket[i].end} : part->range;
}

static bucket_slots *make_slots(yk__optim_programs *optim, const yk__optim_part *part, yk__graph *g)
{
    bucket_slots *s = yk__calloc(optim->params->n_bucket + 1ull, sizeof *s);
    for (uint32_t i = 0; s && i < optim->params->n_bucket; i++) {
        const yk__range has = yk__params_updated(optim->params, &optim->params->bucket[i]);
        const yk__range moments = part_moments(optim->params, part, i);
        if (!updates_bucket(optim, i) || (part->bucket != YK_NONE && part->bucket != i))
            continue;
        s[i].value = yk__slot_new(g, YK_SLOT_PARAM, (has.to - has.from) * sizeof(float), YK__KEY_BUCKET | i);
        s[i].grad = grad_slot(optim->params, g, i);
        for (uint32_t k = 0; k < optim->params->n_moment; k++)
            s[i].moment[k] =
                yk__slot_new(g, YK_SLOT_STATE, (moments.to - moments.from) * sizeof(float), YK__KEY_BUCKET | k << 24 | i);
    }
    return s;
}

/* Casts the elements of the stretch's parameter to its copy; a gap may follow them. */
static void cast_stretch(const yk__params *p, yk__graph *g, const stretch *s, yk__vid value)
{
    const yk__param *q = &p->param[s->compute];
    const yk__range own = yk__range_meet(q->at, q->n, s->begin, s->end);
    const uint64_t n = own.to - own.from;
    if (n)
        yk__compute_cast(p, g, s->compute, own.from - q->at, n, yk__slice(g, value, 0, 0, (int64_t)n, 1));
}

/* own: the element at which the slots of moments begin. */
static void step_node(yk__optim_programs *optim, yk__graph *g, const bucket_slots *slots, uint32_t hyper, uint64_t own, const stretch *s)
{
    const bucket_slots *k = &slots[s->bucket];
    const int64_t n_hyper = YK_HYPER_COUNT, flags = optim->layout.flags;
    const yk__vid h = yk__leaf(g, hyper, s->group * HYPER_BYTES, YK_F32, 1, &n_hyper);
    yk__vid in[6], out[4];
    uint32_t n = 0;
    in[n++] = stretch_leaf(g, k->grad, s, grad_from(optim->params, s->bucket));
    in[n++] = stretch_leaf(g, k->value, s, yk__params_updated(optim->params, &optim->params->bucket[s->bucket]).from);
    for (uint32_t i = 0; i < optim->params->n_moment && i < 2; i++)
        in[n++] = stretch_leaf(g, k->moment[i], s, own);
    in[n++] = h;
    if (optim->params->n_moment > 2)
        in[n++] = stretch_leaf(g, k->moment[2], s, own);
    for (uint32_t i = 0; i < n; i++)
        if (in[i] == YK_NONE)
            return;
    if (yk__apply(g, optim->layout.kind == YK_OPT_ADAM ? YK_OP_ADAM_STEP : YK_OP_SGD_STEP, n, in, 1, &flags, YK_DTYPE_COUNT, 0,
                  NULL, out, 4) &&
        s->compute != YK_NONE)
        cast_stretch(optim->params, g, s, out[0]);
}

/* The stretch's elements in a part; begin == end if there are none. */
static stretch part_stretch(const yk__optim_part *part, stretch s)
{
    const yk__range r = yk__range_meet(s.begin, s.end - s.begin, part->range.from, part->range.to);
    if (part->bucket != YK_NONE)
        s.begin = r.from, s.end = part->bucket == s.bucket ? r.to : r.from;
    return s;
}

/* The program is cut behind each bucket if the next forward waits for buckets in turn. Numbers of buckets that the host updates are below
 * n_updated. */
static yk__prog_ends part_ends(const yk__optim_programs *optim)
{
    const yk__params *p = optim->params;
    return (yk__prog_ends){.n_updated = yk__params_defer(p) && optim->exec->queue == p->updates ? p->n_bucket : 0};
}

static yk_status make_part(yk__optim_programs *optim, const stretches *s, yk__optim_part *part, yk_error *err)
{
    yk__graph g;
    bucket_slots *slots;
    uint32_t hyper;
    yk__graph_init(&g);
    hyper = yk__slot_new(&g, YK_SLOT_INPUT, optim->layout.n_group * HYPER_BYTES, 0);
    slots = make_slots(optim, part, &g);
    if (!slots)
        yk__fail_mem(err, optim->params->n_bucket * sizeof *slots, "an optimizer");
    for (size_t i = s->n; i-- > 0 && slots;) { /* the last bucket first, as forward reads it first */
        const stretch one = part_stretch(part, s->list[i]);
        if (one.begin < one.end)
            step_node(optim, &g, slots, hyper, part_moments(optim->params, part, one.bucket).from, &one);
    }
    if (!yk__prog_of_graph(optim->exec, &g, part_ends(optim), &part->prog, err))
        part->prog->is_update = true;
    yk__free(slots);
    return err->status;
}

static yk_status add_part(yk__optim_programs *optim, yk__optim_part part, const stretches *s, yk_error *err)
{
    if (yk__grow(&optim->part, &optim->cap_part, optim->n_part + 1, sizeof *optim->part))
        return yk__fail_mem(err, sizeof *optim->part, "an optimizer");
    if (!make_part(optim, s, &part, err))
        optim->part[optim->n_part++] = part;
    return err->status;
}

/* A program for all slices, or one for each block of each bucket's slice. */
static yk_status make_parts(yk__optim_programs *optim, const stretches *s, yk_error *err)
{
    const yk__params *p = optim->params;
    const uint64_t block = p->state_home->block ? p->state_home->block(p) : 0;
    if (!block)
        return add_part(optim, (yk__optim_part){.bucket = YK_NONE}, s, err);
    for (uint32_t i = 0; i < p->n_bucket; i++)
        for (uint64_t at = p->bucket[i].begin / block * block; at < p->bucket[i].end; at += block) {
            const yk__range r = yk__range_meet(at, block, p->bucket[i].begin, p->bucket[i].end);
            if (r.from < r.to && add_part(optim, (yk__optim_part){.bucket = i, .range = r}, s, err))
                return err->status;
        }
    return YK_OK;
}

static void stat_nodes(yk__optim_programs *optim, yk__graph *g, yk__vid scale, yk__vid *result)
{
    optim->n_stat = 0;
    for (uint32_t i = 0; i < optim->params->n_bucket; i++) {
        const yk__bucket *p = &optim->params->bucket[i];
        const stretch all = {i, 0, YK_NONE, p->begin, p->end};
        yk__vid in[2], out;
        if (p->begin == p->end || !updates_bucket(optim, i))
            continue;
        const uint32_t slot = grad_slot(optim->params, g, i);
        in[0] = stretch_leaf(g, slot, &all, grad_from(optim->params, i));
        in[1] = scale;
        if (in[0] != YK_NONE && yk__apply(g, YK_OP_GRAD_STATS, 2, in, 0, NULL, YK_DTYPE_COUNT, 0, NULL, &out, 1))
            result[optim->n_stat++] = out;
    }
}

/* Allocates whole pages and registers them with the device: a copy to other memory blocks the host in the driver, which hides a hang. */
static yk_status make_stats_memory(yk__optim_programs *optim, yk_error *err)
{
    const uint64_t bytes = (optim->stat_prog->plan->result_bytes + PAGE) / PAGE * PAGE;
    optim->stats = yk__malloc_aligned(bytes, PAGE);
    if (!optim->stats)
        return yk__fail_mem(err, bytes, "an optimizer");
    memset(optim->stats, 0, bytes);
    yk__queue_pin(optim->exec->queue, optim->stats, bytes, &optim->stats_pin);
    return YK_OK;
}

yk_status yk__optim_make_stats(yk__optim_programs *optim, yk_error *err)
{
    const int64_t one = 1;
    yk__vid *result;
    yk__graph g;
    if (optim->stat_prog)
        return YK_OK;
    result = yk__calloc(optim->params->n_bucket + 1ull, sizeof *result);
    if (!result)
        return yk__fail_mem(err, optim->params->n_bucket * 8ull, "an optimizer");
    yk__graph_init(&g);
    stat_nodes(optim, &g, yk__leaf(&g, yk__slot_new(&g, YK_SLOT_INPUT, HYPER_BYTES, 0), 0, YK_F32, 1, &one), result);
    if (!yk__prog_of_graph(optim->exec, &g, (yk__prog_ends){.n_result = optim->n_stat, .result = result}, &optim->stat_prog, err))
        optim->stat_prog->is_update = true;
    if (!err->status && make_stats_memory(optim, err)) {
        yk__prog_free(optim->exec->queue->dev, optim->stat_prog);
        optim->stat_prog = NULL;
    }
    yk__free(result);
    return err->status;
}

static void drop_parts(yk__optim_programs *optim)
{
    for (size_t i = 0; i < optim->n_part; i++)
        yk__prog_free(optim->exec->queue->dev, optim->part[i].prog);
    yk__free(optim->part);
    optim->part = NULL;
    optim->n_part = optim->cap_part = 0;
}

static yk_status make_step_programs(yk__optim_programs *optim, yk_error *err)
{
    stretches s;
    if (!optim->hyper) /* kept when the program is made again */
        optim->hyper = yk__calloc(optim->layout.n_group ? optim->layout.n_group : 1, HYPER_BYTES);
    if (!optim->hyper)
        return yk__fail_mem(err, HYPER_BYTES, "an optimizer");
    optim->n_compute = optim->params->copies.n;
    if (!find_stretches(optim, &s, err))
        make_parts(optim, &s, err);
    yk__free(s.list);
    if (err->status)
        drop_parts(optim);
    return err->status;
}

yk_status yk__optim_make_step(yk__optim_programs *optim, yk_error *err)
{
    if (optim->n_part && optim->n_compute != optim->params->copies.n) { /* the step must write the new copies, too */
        if (yk__queue_idle(optim->exec->queue, err))
            return err->status;
        drop_parts(optim);
    }
    return optim->n_part ? YK_OK : make_step_programs(optim, err);
}

void yk__optim_drop(yk__optim_programs *optim)
{
    drop_parts(optim);
    yk__prog_free(optim->exec->queue->dev, optim->stat_prog);
    yk__free(optim->hyper);
    if (optim->stats_pin)
        yk__queue_unpin(optim->exec->queue, &optim->stats_pin);
    yk__free(optim->stats);
    optim->stat_prog = NULL;
    optim->hyper = optim->stats = NULL;
}

uint32_t yk__optim_moments(const yk__opt_layout *l)
{
    return l->kind == YK_OPT_ADAM ? ((l->flags & YK_OPT_AMSGRAD) ? 3 : 2) : l->kind == YK_OPT_SGD && l->momentum;
}

yk_status yk__optim_set_layout(yk__optim_programs *optim, const yk__opt_layout *layout, yk_error *err)
{
    const size_t n = optim->params->n_param;
    optim->layout = *layout;
    optim->layout.n_group = layout->n_group ? layout->n_group : 1;
    optim->params->n_moment = yk__optim_moments(layout);
    optim->group_of = yk__calloc(n + 1, sizeof *optim->group_of);
    if (!optim->group_of)
        return yk__fail_mem(err, n * sizeof *optim->group_of, "an optimizer");
    for (size_t i = 0; layout->group_of && i < n; i++)
        optim->group_of[i] = layout->group_of[i] < optim->layout.n_group ? layout->group_of[i] : 0;
    optim->layout.group_of = optim->group_of;
    optim->has_layout = true;
    return YK_OK;
}

void yk__optim_free(yk__optim_programs *optim)
{
    yk__optim_drop(optim);
    yk__free(optim->group_of);
}
