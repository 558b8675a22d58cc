/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sum over ranks does not need stands behind it, so that the device has work while the ranks wait for each other:
 * in backward the weight gradients, which are half of it. Nodes keep their order otherwise; sums keep theirs.
 */
#include "core/base/mem.h"
#include "core/plan/internal.h"

typedef struct reorder {
    const yk__graph *g;
    bool *read, *written; /* by root: by a later node that the sum needs */
    bool *needed;         /* by node of the present region */
} reorder;

static bool is_needed(const reorder *o, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid r = yk__root(o->g, yk__outs(o->g, n)[i]);
        if (o->read[r] || o->written[r])
            return true;
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        if (o->written[yk__root(o->g, yk__ins(o->g, n)[i])])
            return true;
    return false;
}

static void mark_needed(reorder *o, uint32_t k)
{
    const yk_node *n = &o->g->node[k];
    o->needed[k] = true;
    for (uint32_t i = 0; i < n->n_in; i++)
        o->read[yk__root(o->g, yk__ins(o->g, n)[i])] = true;
    for (uint32_t i = 0; i < n->n_out; i++)
        o->written[yk__root(o->g, yk__outs(o->g, n)[i])] = true;
}

static void unmark_needed(reorder *o, uint32_t k)
{
    const yk_node *n = &o->g->node[k];
    for (uint32_t i = 0; i < n->n_in; i++)
        o->read[yk__root(o->g, yk__ins(o->g, n)[i])] = false;
    for (uint32_t i = 0; i < n->n_out; i++)
        o->written[yk__root(o->g, yk__outs(o->g, n)[i])] = false;
}

/* The region that begins with node `begin` and ends with the sum `sum`: needed nodes, the sum, the others. */
static void emit_region(reorder *o, yk__remap *m, uint32_t begin, uint32_t sum)
{
    mark_needed(o, sum);
    for (uint32_t k = sum; k-- > begin;)
        if (is_needed(o, &o->g->node[k]))
            mark_needed(o, k);
    for (uint32_t k = begin; k <= sum; k++)
        if (o->needed[k]) {
            unmark_needed(o, k);
            yk__remap_node(m, k);
        }
    for (uint32_t k = begin; k < sum; k++)
        if (!o->needed[k])
            yk__remap_node(m, k);
}

yk_status yk__plan_overlap(yk__work *w, yk_error *err)
{
    const size_t nv = w->g.n_value + 1, nn = w->g.n_node + 1;
    reorder o = {.g = &w->g, .read = yk__calloc(nv, 1), .written = yk__calloc(nv, 1), .needed = yk__calloc(nn, 1)};
    uint32_t begin = 0;
    yk__graph g;
    yk__remap m;
    if (!o.read || !o.written || !o.needed) {
        yk__fail_mem(err, 2 * nv + nn, "a plan");
        goto free_marks;
    }
    if (yk__remap_begin(&m, w, &g, err))
        goto free_marks;
    for (uint32_t k = 0; k < w->g.n_node; k++)
        if (w->g.node[k].op == YK_OP_ALL_REDUCE) {
            emit_region(&o, &m, begin, k);
            begin = k + 1;
        }
    for (uint32_t k = begin; k < w->g.n_node; k++)
        yk__remap_node(&m, k);
    yk__remap_end(&m, w, err);
free_marks:
    yk__free(o.needed);
    yk__free(o.written);
    yk__free(o.read);
    return err->status;
}
