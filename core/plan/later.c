/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long what stands beside a sum over ranks may wait. Whoever reaches a sum last shall go on at once and make up for it at
 * a later one, where others are last: so ranks that are slow in different layers, or disturbed in turn, need not wait for
 * each other at each of them. A node may wait until another, in its turn, needs what it makes or spoils what it reads; what
 * it reads and makes stays in the arena until then.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/inner.h"

typedef struct waiting {
    yk__work *w;
    yk__uses u;
    uint32_t *complete; /* by bucket */
    uint32_t reach;
} waiting;

/* Where the nodes end that follow the all_reduce k and do not touch its sum. The sum must be read later, or else its memory
 * may be theirs. */
static uint32_t region_end(const waiting *l, uint32_t k)
{
    const yk__graph *g = &l->w->g;
    const yk__vid sum = yk__root(g, yk__outs(g, &g->node[k])[0]);
    for (uint32_t at = k + 1; at < g->n_node && l->u.last[sum] != k; at++) {
        const yk_node *n = &g->node[at];
        if (n->op == YK_OP_ALL_REDUCE)
            return at;
        for (uint32_t i = 0; i < n->n_in; i++)
            if (yk__root(g, yk__ins(g, n)[i]) == sum)
                return at;
    }
    return k + 1;
}

/* In the arena roots are apart; slots hold several, one of which may take the place of another. */
static bool meet(const yk__graph *g, yk__vid x, yk__vid y)
{
    const yk__vid a = yk__root(g, x), b = yk__root(g, y);
    const yk_value *v = &g->value[a], *u = &g->value[b];
    if (a == b || v->slot == YK_NONE || v->slot != u->slot)
        return a == b;
    return v->offset < u->offset + yk__bytes(u) && u->offset < v->offset + yk__bytes(v);
}

static bool any_meet(const yk__graph *g, const yk__vid *x, uint32_t nx, const yk__vid *y, uint32_t ny)
{
    for (uint32_t i = 0; i < nx; i++)
        for (uint32_t k = 0; k < ny; k++)
            if (meet(g, x[i], y[k]))
                return true;
    return false;
}

/* The order of the two matters. */
static bool ordered(const yk__graph *g, const yk_node *a, const yk_node *b)
{
    return any_meet(g, yk__outs(g, a), a->n_out, yk__ins(g, b), b->n_in) ||
           any_meet(g, yk__outs(g, a), a->n_out, yk__outs(g, b), b->n_out) ||
           any_meet(g, yk__ins(g, a), a->n_in, yk__outs(g, b), b->n_out);
}

/* Node k is said to complete a bucket that a writes. */
static bool completes(const waiting *l, const yk_node *a, uint32_t k)
{
    const yk__graph *g = &l->w->g;
    for (uint32_t i = 0; i < a->n_out; i++) {
        const uint32_t slot = g->value[yk__root(g, yk__outs(g, a)[i])].slot, b = slot - l->w->bucket_slot;
        if (slot != YK_NONE && b < l->w->r->n_bucket && l->complete[b] == k)
            return true;
    }
    return false;
}

/* Node a stands beside a sum. The node before which it must have run, at most `most`; those after it that may wait
 * themselves are known. */
static uint32_t wait_of(const waiting *l, uint32_t a, uint32_t end, uint32_t most)
{
    const yk__graph *g = &l->w->g;
    for (uint32_t k = end; k < most; k++) {
        const uint32_t later = l->w->later[k] ? l->w->later[k] : k;
        if (later < most && (completes(l, &g->node[a], k) || ordered(g, &g->node[a], &g->node[k])))
            most = later;
    }
    return most;
}

/* Regions from the last to the first; ends[]: of those that were found, the last first. */
static void find(waiting *l, uint32_t *ends)
{
    const yk__graph *g = &l->w->g;
    uint32_t found = 0;
    for (uint32_t k = (uint32_t)g->n_node; k-- > 0;) {
        uint32_t end, most;
        if (g->node[k].op != YK_OP_ALL_REDUCE)
            continue;
        end = region_end(l, k);
        ends[found++] = end;
        most = found > l->reach - 1 ? ends[found - l->reach] : (uint32_t)g->n_node;
        for (uint32_t a = k + 1; a < end; a++)
            most = wait_of(l, a, end, most);
        for (uint32_t a = k + 1; a < end; a++)
            l->w->later[a] = most;
    }
}

yk_status yk__plan_later(yk__work *w, uint32_t reach, yk_error *err)
{
    const size_t nn = w->g.n_node + 1;
    waiting l = {.w = w, .reach = reach};
    uint32_t *ends = yk__malloc(nn * sizeof *ends);
    l.complete = yk__malloc((w->r->n_bucket + 1ull) * sizeof *l.complete);
    if (!w->later)
        w->later = yk__calloc(nn, sizeof *w->later);
    if (!ends || !l.complete || !w->later)
        yk__fail_mem(err, nn * 8, "a plan");
    if (!err->status && !yk__uses_new(w, &l.u, err)) {
        memset(w->later, 0, nn * sizeof *w->later);
        yk__bucket_ends(w, l.complete);
        find(&l, ends);
    }
    yk__uses_free(&l.u);
    yk__free(l.complete);
    yk__free(ends);
    return err->status;
}
