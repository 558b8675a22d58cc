/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the planned graph where ranks have something to do together: where a bucket is complete, at every all_reduce, where the
 * nodes begin that need the result of one, and before those that first read parameters which the last update left on their way. A
 * segment is a small graph, and has a list of the slots it touches; what ranks do is a list of actions (plan.h; docs/decisions/0018).
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/plan/internal.h"

typedef struct cutting {
    yk__work *w;
    yk__plan *p;
    yk__uses u;
    uint32_t *first;    /* by root: node that first writes it */
    uint32_t *complete; /* by bucket: last node that writes it; YK_NONE: none */
    uint32_t *reads;    /* by bucket: first node that reads its parameters, where they may be on their way; YK_NONE: none */
    uint32_t *reader;   /* by bucket: the segment of that node */
    size_t cap_segment, cap_action, cap_use;
    uint32_t reduce;     /* the all_reduce on its way, an action; YK_NONE: none is */
    uint32_t reduce_end; /* before this node its result must be there */
} cutting;

/* The bucket of trained parameters that lies in the slot; YK_NONE: none does. */
static uint32_t bucket_of_slot(const yk__plan_request *r, const yk_slot *s)
{
    return s->kind == YK_SLOT_PARAM && s->key < r->n_param ? r->param[s->key].bucket : YK_NONE;
}

static void find_reads(cutting *c)
{
    const yk__graph *g = &c->w->g;
    for (uint32_t k = (uint32_t)g->n_node; k-- > 0 && c->w->r->gathers;)
        for (uint32_t i = 0; i < g->node[k].n_in; i++) {
            const yk__vid r = yk__root(g, yk__ins(g, &g->node[k])[i]);
            const uint32_t b = g->value[r].slot == YK_NONE ? YK_NONE : bucket_of_slot(c->w->r, &g->slot[g->value[r].slot]);
            if (b != YK_NONE)
                c->reads[b] = k;
        }
}

static void find_ends(cutting *c)
{
    const yk__graph *g = &c->w->g;
    for (uint32_t k = 0; k < g->n_node; k++)
        for (uint32_t i = 0; i < g->node[k].n_out; i++) {
            const yk__vid r = yk__root(g, yk__outs(g, &g->node[k])[i]);
            const uint32_t b = g->value[r].slot - c->w->bucket_slot;
            if (c->first[r] == YK_NONE)
                c->first[r] = k;
            if (g->value[r].slot != YK_NONE && b < c->w->r->n_bucket)
                c->complete[b] = k;
        }
}

/* What a value is to the segment [begin, end): made before it, read after it. */
static void set_flags(cutting *c, yk__graph *s, const yk__remap *m, uint32_t begin, uint32_t end)
{
    const yk__graph *g = m->src;
    for (yk__vid v = 0; v < g->n_value; v++) {
        const yk__vid r = yk__root(g, v);
        if (m->map[v] == YK_NONE || g->value[r].slot != 0)
            continue;
        if (c->first[r] != YK_NONE && c->first[r] < begin)
            s->value[m->map[v]].flags |= YK_VALUE_INPUT;
        if (c->u.last[r] != YK_NONE && c->u.last[r] >= end)
            s->value[m->map[v]].flags |= YK_VALUE_OUTPUT;
    }
}

static yk_status build_graph(cutting *c, yk__segment *seg, uint32_t begin, uint32_t end, yk_error *err)
{
    yk__graph *g = &c->w->g;
    yk__remap m;
    if (yk__remap_copy(&m, g, &seg->own, err))
        return err->status;
    if (!seg->own.n_slot) {
        yk__remap_drop(&m);
        return yk__fail_mem(err, sizeof *seg->own.slot, "a plan");
    }
    seg->own.slot[0].bytes = g->slot[0].bytes;
    for (uint32_t k = begin; k < end; k++)
        if (g->node[k].op != YK_OP_ALL_REDUCE)
            yk__remap_node(&m, k);
    set_flags(c, &seg->own, &m, begin, end);
    yk__remap_drop(&m);
    if (seg->own.error.status)
        *err = seg->own.error;
    return err->status ? err->status : yk__graph_seal(&seg->own, &seg->graph, err);
}

static yk_status add_segment(cutting *c, uint32_t begin, uint32_t end, yk_error *err)
{
    yk__plan *p = c->p;
    yk__segment *seg;
    if (yk__grow(&p->segment, &c->cap_segment, p->n_segment + 1ull, sizeof *p->segment))
        return yk__fail_mem(err, sizeof *p->segment, "a plan");
    if (c->reduce != YK_NONE && begin >= c->reduce_end) {
        p->action[c->reduce].needed_by = p->n_segment;
        c->reduce = YK_NONE;
    }
    for (uint32_t b = 0; b < c->w->r->n_bucket; b++)
        if (c->reads[b] >= begin && c->reads[b] < end)
            c->reader[b] = p->n_segment;
    seg = &p->segment[p->n_segment++];
    memset(seg, 0, sizeof *seg);
    seg->first_after = p->n_action;
    return build_graph(c, seg, begin, end, err);
}

/* ---- Actions ---- */

/* To start after the last segment. */
static yk_status add_action(cutting *c, yk__action a, yk_error *err)
{
    yk__plan *p = c->p;
    if (yk__grow(&p->action, &c->cap_action, p->n_action + 1ull, sizeof *p->action))
        return yk__fail_mem(err, sizeof *p->action, "a plan");
    a.start_after = p->n_segment - 1;
    a.needed_by = YK_NONE;
    p->action[p->n_action++] = a;
    p->segment[a.start_after].n_after++;
    return YK_OK;
}

/* Some bucket gets its last contribution from node k. */
static bool completes_bucket(const cutting *c, uint32_t k)
{
    for (uint32_t b = 0; b < c->w->r->n_bucket && !c->w->r->single_rank; b++)
        if (c->complete[b] == k)
            return true;
    return false;
}

static yk_status add_reduce_scatters(cutting *c, uint32_t k, yk_error *err)
{
    const yk__plan_request *r = c->w->r;
    for (uint32_t b = 0; b < r->n_bucket; b++)
        if (c->complete[b] == k && add_action(c, (yk__action){.kind = YK__ACTION_REDUCE_SCATTER, .target = b,
                                                              .count = r->bucket_bytes[b] / sizeof(float)}, err))
            return err->status;
    return YK_OK;
}

/* Where the nodes end that follow the all_reduce k and do not touch its sum. The sum must be read later, or else its memory
 * may be theirs. */
static uint32_t overlap_end(const cutting *c, uint32_t k)
{
    const yk__graph *g = &c->w->g;
    const yk__vid sum = yk__root(g, yk__outs(g, &g->node[k])[0]);
    for (uint32_t at = k + 1; at < g->n_node && c->u.last[sum] != k; at++) {
        const yk_node *n = &g->node[at];
        if (n->op == YK_OP_ALL_REDUCE)
            return at;
        for (uint32_t i = 0; i < n->n_in; i++)
            if (yk__root(g, yk__ins(g, n)[i]) == sum)
                return at;
    }
    return k + 1;
}

static yk_status add_all_reduce(cutting *c, uint32_t k, yk_error *err)
{
    const yk__graph *g = &c->w->g;
    const yk_node *n = &g->node[k];
    const yk_value *x = &g->value[yk__ins(g, n)[0]];
    c->reduce = c->p->n_action;
    c->reduce_end = overlap_end(c, k);
    return add_action(c, (yk__action){.kind = YK__ACTION_ALL_REDUCE, .op = (uint32_t)g->attr[n->attr], .target = x->slot,
                                      .offset = x->offset, .count = (uint64_t)yk__value_count(x)}, err);
}

/* Node k is the first to read some bucket of parameters. */
static bool begins_bucket(const cutting *c, uint32_t k)
{
    for (uint32_t b = 0; b < c->w->r->n_bucket && c->w->r->gathers; b++)
        if (c->reads[b] == k)
            return true;
    return false;
}

static yk_status cut_segments(cutting *c, yk_error *err)
{
    const yk__graph *g = &c->w->g;
    const uint32_t n_node = (uint32_t)g->n_node;
    uint32_t begin = 0;
    const bool each = yk__option_words(YK__OPTION_CUT) == 1; /* for debugging: every node by itself */
    for (uint32_t k = 0; k < n_node; k++) {
        const bool sum = g->node[k].op == YK_OP_ALL_REDUCE, completes = completes_bucket(c, k);
        if (!sum && !completes && !each && k + 1 < n_node && k + 1 != c->reduce_end && !begins_bucket(c, k + 1))
            continue;
        if (add_segment(c, begin, k + 1, err) || (sum && add_all_reduce(c, k, err)) ||
            (completes && add_reduce_scatters(c, k, err)))
            return err->status;
        begin = k + 1;
    }
    return YK_OK;
}

/* What was started before the plan. */
static yk_status add_gathers(cutting *c, yk_error *err)
{
    const yk__plan_request *r = c->w->r;
    yk__plan *p = c->p;
    for (uint32_t b = 0; b < r->n_bucket; b++) {
        if (c->reads[b] == YK_NONE)
            continue;
        if (yk__grow(&p->action, &c->cap_action, p->n_action + 1ull, sizeof *p->action))
            return yk__fail_mem(err, sizeof *p->action, "a plan");
        p->action[p->n_action++] = (yk__action){.kind = YK__ACTION_ALL_GATHER,
                                                .target = b,
                                                .count = r->bucket_bytes[b] / sizeof(float),
                                                .start_after = YK_NONE,
                                                .needed_by = c->reader[b]};
    }
    return YK_OK;
}

/* Lists the actions by the segment that needs them; what no segment of the plan needs stands at the end. */
static yk_status list_needs(cutting *c, yk_error *err)
{
    yk__plan *p = c->p;
    uint32_t n = 0;
    p->before = yk__calloc(p->n_action + 1ull, sizeof *p->before);
    if (!p->before)
        return yk__fail_mem(err, p->n_action * sizeof *p->before, "a plan");
    for (uint32_t i = 0; i < p->n_action; i++)
        p->action[i].needed_by = p->action[i].needed_by == YK_NONE ? p->n_segment : p->action[i].needed_by;
    for (uint32_t s = 0; s <= p->n_segment; s++) {
        const uint32_t first = n;
        for (uint32_t i = 0; i < p->n_action; i++)
            if (p->action[i].needed_by == s)
                p->before[n++] = i;
        if (s == p->n_segment) {
            p->first_at_end = first;
            break;
        }
        p->segment[s].first_before = first;
        p->segment[s].n_before = n - first;
    }
    return YK_OK;
}

/* ---- Slots ---- */

enum { SLOT_READ = 1, SLOT_WRITTEN = 2 };

/* What the segment does with each slot; an all_reduce that starts after it is done in its memory. */
static void mark_slots(const yk__plan *p, const yk__segment *s, uint8_t *mark)
{
    const yk__graph *g = &s->own;
    for (size_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        for (uint32_t i = 0; i < n->n_in; i++)
            mark[g->value[yk__ins(g, n)[i]].slot] |= SLOT_READ;
        for (uint32_t i = 0; i < n->n_out; i++)
            mark[g->value[yk__outs(g, n)[i]].slot] |= SLOT_WRITTEN;
    }
    for (uint32_t i = 0; i < s->n_after; i++)
        if (p->action[s->first_after + i].kind == YK__ACTION_ALL_REDUCE)
            mark[p->action[s->first_after + i].target] |= SLOT_READ | SLOT_WRITTEN;
}

static yk_status add_uses(cutting *c, yk__segment *s, const uint8_t *mark, yk_error *err)
{
    yk__plan *p = c->p;
    s->first_use = p->n_use;
    for (uint32_t i = 0; i < c->w->g.n_slot; i++) {
        if (!mark[i])
            continue;
        if (yk__grow(&p->use, &c->cap_use, p->n_use + 1ull, sizeof *p->use))
            return yk__fail_mem(err, sizeof *p->use, "a plan");
        p->use[p->n_use++] = (yk__slot_use){.slot = i, .is_read = mark[i] & SLOT_READ, .is_written = mark[i] & SLOT_WRITTEN};
        s->n_use++;
    }
    return YK_OK;
}

/* Which use of a slot is the first and which is the last of the plan. seen: by slot, zero. */
static void find_first_and_last(yk__plan *p, uint8_t *seen)
{
    for (uint32_t i = 0; i < p->n_use; i++) {
        p->use[i].is_first = !(seen[p->use[i].slot] & 1);
        seen[p->use[i].slot] |= 1;
    }
    for (uint32_t i = p->n_use; i-- > 0;) {
        p->use[i].is_last = !(seen[p->use[i].slot] & 2);
        seen[p->use[i].slot] |= 2;
    }
}

static yk_status list_uses(cutting *c, yk_error *err)
{
    const size_t n_slot = c->w->g.n_slot;
    uint8_t *mark = yk__malloc(n_slot);
    if (!mark)
        return yk__fail_mem(err, n_slot, "a plan");
    for (uint32_t i = 0; i < c->p->n_segment && !err->status; i++) {
        memset(mark, 0, n_slot);
        mark_slots(c->p, &c->p->segment[i], mark);
        add_uses(c, &c->p->segment[i], mark, err);
    }
    memset(mark, 0, n_slot);
    find_first_and_last(c->p, mark);
    yk__free(mark);
    return err->status;
}

yk_status yk__plan_cut(yk__work *w, yk_error *err)
{
    const size_t nv = w->g.n_value + 1, nb = w->r->n_bucket + 1ull;
    cutting c = {.w = w, .p = w->plan, .reduce = YK_NONE};
    c.first = yk__malloc(nv * sizeof *c.first);
    c.complete = yk__malloc(3 * nb * sizeof *c.complete);
    if (!c.first || !c.complete)
        yk__fail_mem(err, nv * 4, "a plan");
    if (!err->status && !yk__uses_new(w, &c.u, err)) {
        c.reads = c.complete + nb;
        c.reader = c.reads + nb;
        memset(c.first, 0xff, nv * sizeof *c.first);
        memset(c.complete, 0xff, 3 * nb * sizeof *c.complete);
        find_ends(&c);
        find_reads(&c);
        if (!cut_segments(&c, err) && !add_gathers(&c, err) && !list_needs(&c, err))
            list_uses(&c, err);
    }
    yk__uses_free(&c.u);
    yk__free(c.complete);
    yk__free(c.first);
    return err->status;
}
