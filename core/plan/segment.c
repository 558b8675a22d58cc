/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts the planned graph where a bucket is complete and at every all_reduce: one small graph per segment. */
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
    uint32_t cap;
} cutting;

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

static yk_status add_segment(cutting *c, uint32_t begin, uint32_t end, yk__segment **out, yk_error *err)
{
    yk__plan *p = c->p;
    yk__segment *seg;
    size_t cap = c->cap;
    if (yk__grow(&p->segment, &cap, p->n_segment + 1ull, sizeof *p->segment))
        return yk__fail_mem(err, sizeof *p->segment, "a plan");
    c->cap = (uint32_t)cap;
    seg = &p->segment[p->n_segment++];
    memset(seg, 0, sizeof *seg);
    *out = seg;
    return build_graph(c, seg, begin, end, err);
}

/* Buckets that node k completes. */
static uint32_t list_completed(cutting *c, uint32_t k, uint32_t *n_done)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < c->w->r->n_bucket; b++)
        if (c->complete[b] == k)
            c->p->done[*n_done + n++] = b;
    *n_done += n;
    return n;
}

static bool writes_bucket(const cutting *c, const yk_node *n)
{
    const yk__graph *g = &c->w->g;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const uint32_t slot = g->value[yk__outs(g, n)[i]].slot;
        if (slot != YK_NONE && slot - c->w->bucket_slot < c->w->r->n_bucket)
            return true;
    }
    return false;
}

static void bound_all_reduce(const cutting *c, yk__segment *seg, const yk_node *n)
{
    const yk__graph *g = &c->w->g;
    const yk_value *x = &g->value[yk__ins(g, n)[0]];
    seg->boundary = YK_BOUND_ALL_REDUCE;
    seg->slot = x->slot;
    seg->offset = x->offset;
    seg->count = (uint64_t)yk__count(x);
    seg->moments = g->attr[n->attr] == YK_REDUCE_MOMENTS;
    seg->max = g->attr[n->attr] == YK_REDUCE_MAX;
}

/* Where the nodes end that follow the all_reduce k and do not touch its sum. The sum must be read later, or else its memory
 * may be theirs. */
static uint32_t beside_end(const cutting *c, uint32_t k)
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

static yk_status cut_segments(cutting *c, yk_error *err)
{
    const yk__graph *g = &c->w->g;
    const uint32_t n_node = (uint32_t)g->n_node;
    uint32_t begin = 0, n_done = 0, beside = 0;
    const bool each = yk__option_words(YK__OPTION_CUT) == 1; /* for debugging: every node by itself */
    yk__segment *seg = NULL;
    for (uint32_t k = 0; k < n_node; k++) {
        const bool sum = g->node[k].op == YK_OP_ALL_REDUCE;
        const uint32_t at = n_done;
        const uint32_t n = writes_bucket(c, &g->node[k]) ? list_completed(c, k, &n_done) : 0;
        if (!sum && (!n || c->w->r->single_rank) && !each && k + 1 < n_node && k + 1 != beside)
            continue;
        if (add_segment(c, begin, k + 1, &seg, err))
            return err->status;
        begin = k + 1;
        seg->overlapped = k < beside;
        seg->first_done = at, seg->n_done = n;
        seg->boundary = n ? YK_BOUND_BUCKET : YK_BOUND_NONE;
        if (sum) {
            bound_all_reduce(c, seg, &g->node[k]);
            beside = beside_end(c, k);
        }
    }
    list_completed(c, YK_NONE, &n_done); /* those that no node writes */
    return YK_OK;
}

yk_status yk__plan_cut(yk__work *w, yk_error *err)
{
    yk__plan *p = w->plan;
    const size_t nv = w->g.n_value + 1, nb = w->r->n_bucket + 1ull;
    cutting c = {.w = w, .p = p};
    c.first = yk__malloc(nv * sizeof *c.first);
    c.complete = yk__malloc(nb * sizeof *c.complete);
    p->done = yk__calloc(nb, sizeof *p->done);
    if (!c.first || !c.complete || !p->done)
        yk__fail_mem(err, nv * 4, "a plan");
    if (!err->status && !yk__uses_new(w, &c.u, err)) {
        memset(c.first, 0xff, nv * sizeof *c.first);
        memset(c.complete, 0xff, nb * sizeof *c.complete);
        find_ends(&c);
        cut_segments(&c, err);
    }
    yk__uses_free(&c.u);
    yk__free(c.complete);
    yk__free(c.first);
    return err->status;
}
