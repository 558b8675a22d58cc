/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass that moves nodes behind an all_reduce that does not need them. An all_reduce is a sum or a maximum of the trace, such
 * as batch norm's; segment.c places the exchanges of gradients. So the device has work while ranks wait for each other: in backward the
 * weight gradients, half of its work. Nodes keep their order otherwise; all_reduce nodes always do. passes.c runs it once for each plan, in
 * the step thread.
 */
#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

typedef struct reorder {
    const yk__graph *g;
    bool *read, *written; /* by root: a later node that the sum needs reads it, writes it */
    bool *needed;         /* by node of the current region */
} reorder;

static bool is_needed(const reorder *order, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid r = yk__root(order->g, yk__outs(order->g, n)[i]);
        if (order->read[r] || order->written[r])
            return true;
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        if (order->written[yk__root(order->g, yk__ins(order->g, n)[i])])
            return true;
    return false;
}

static void mark_needed(reorder *order, uint32_t k)
{
    const yk_node *n = &order->g->node[k];
    order->needed[k] = true;
    for (uint32_t i = 0; i < n->n_in; i++)
        order->read[yk__root(order->g, yk__ins(order->g, n)[i])] = true;
    for (uint32_t i = 0; i < n->n_out; i++)
        order->written[yk__root(order->g, yk__outs(order->g, n)[i])] = true;
}

static void unmark_needed(reorder *order, uint32_t k)
{
    const yk_node *n = &order->g->node[k];
    for (uint32_t i = 0; i < n->n_in; i++)
        order->read[yk__root(order->g, yk__ins(order->g, n)[i])] = false;
    for (uint32_t i = 0; i < n->n_out; i++)
        order->written[yk__root(order->g, yk__outs(order->g, n)[i])] = false;
}

/* Emits the region from node `begin` to the sum `sum`: needed nodes, the sum, the remaining nodes. */
static void emit_region(reorder *order, yk__remap *remap, uint32_t begin, uint32_t sum)
{
    mark_needed(order, sum);
    for (uint32_t k = sum; k-- > begin;)
        if (is_needed(order, &order->g->node[k]))
            mark_needed(order, k);
    for (uint32_t k = begin; k <= sum; k++)
        if (order->needed[k]) {
            unmark_needed(order, k);
            yk__remap_node(remap, k);
        }
    for (uint32_t k = begin; k < sum; k++)
        if (!order->needed[k])
            yk__remap_node(remap, k);
}

static void emit_all(reorder *order, yk__remap *remap)
{
    uint32_t begin = 0;
    for (uint32_t k = 0; k < order->g->n_node; k++)
        if (order->g->node[k].op == YK_OP_ALL_REDUCE) {
            emit_region(order, remap, begin, k);
            begin = k + 1;
        }
    for (uint32_t k = begin; k < order->g->n_node; k++)
        yk__remap_node(remap, k);
}

yk_status yk__plan_overlap(yk__work *work, yk_error *err)
{
    const size_t nv = work->g.n_value + 1, nn = work->g.n_node + 1;
    reorder order = {.g = &work->g, .read = yk__calloc(nv, 1), .written = yk__calloc(nv, 1), .needed = yk__calloc(nn, 1)};
    yk__graph g;
    yk__remap remap;
    if (!order.read || !order.written || !order.needed) {
        yk__fail_mem(err, 2 * nv + nn, "a plan");
    } else if (!yk__remap_begin(&remap, work, &g, err)) {
        emit_all(&order, &remap);
        yk__remap_end(&remap, work, err);
    }
    yk__free(order.needed);
    yk__free(order.written);
    yk__free(order.read);
    return err->status;
}
