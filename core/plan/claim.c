/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass that offers each composite, an operation with a definition in simpler ones, to the device. A composite that it does
 * not claim is replaced by that definition, until only claimed composites and primitives are left.
 *
 * passes.c runs it once a plan, in the step thread. The plugin answers through request->claims.
 */
#include "core/base/log.h"
#include "core/plan/plan_internal.h"

#define MAX_DEPTH 16 /* depth of nested bodies; more is a mistake in the table of bodies */

/* Copies the body's value to an output that lies in existing memory (an optimizer's parameter). */
static void write_back(yk__remap *remap, yk__vid out, yk__vid value)
{
    yk__vid view = yk__remap_value(remap, out), in[2];
    if (view == YK_NONE || value == YK_NONE)
        return;
    in[0] = value;
    in[1] = yk__root(remap->dst, view);
    yk__node_new(remap->dst, YK_OP_COPY, 0, 2, in, 1, &view, 0, NULL);
}

static bool in_place(const yk__remap *remap, const yk_node *n, yk__vid out)
{
    const yk__vid r = yk__root(remap->src, out);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (yk__root(remap->src, yk__ins(remap->src, n)[i]) == r)
            return true;
    return false;
}

static yk_status inline_node(yk__remap *remap, uint32_t k, yk_error *err)
{
    const yk_node *n = &remap->src->node[k];
    const yk_graph view = yk__graph_view(remap->src);
    const size_t first = remap->dst->n_node;
    yk__vid in[32], out[8];
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = yk__remap_value(remap, yk__ins(remap->src, n)[i]);
    remap->dst->stream = n->stream;
    if (yk__body_append(remap->dst, &view, k, in, out, err))
        return yk__fail_in(err, "%s (node %u)", yk__op_info_of(n->op)->name, n->stream), yk__fail_node(err, n->stream);
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid o = yk__outs(remap->src, n)[i];
        if (in_place(remap, n, o))
            write_back(remap, o, out[i]);
        else
            remap->map[o] = yk__dense(remap->dst, out[i]);
    }
    for (size_t j = first; j < remap->dst->n_node; j++)
        yk__remap_note(remap, (uint32_t)j, yk__info_from(&remap->src_info[k]));
    return YK_OK;
}

static bool is_claimed(const yk__work *work, const yk_node *n, yk__node_info *info)
{
    if (!info->is_asked)
        info->claims = (uint8_t)yk__plan_ask(work->request, &work->g, n, work->g.body + n->body);
    info->is_asked = true;
    return info->claims & YK_CLAIM_RUN;
}

static yk_status round_of_claims(yk__work *work, bool *changed, yk_error *err)
{
    yk__graph g;
    yk__remap remap;
    *changed = false;
    if (yk__remap_begin(&remap, work, &g, err))
        return err->status;
    for (uint32_t k = 0; k < work->g.n_node && !g.error.status; k++) {
        const yk_node *n = &work->g.node[k];
        const yk__op_info *op = yk__op_info_of(n->op);
        if (op->kind != YK_KIND_COMP || is_claimed(work, n, &work->info[k])) {
            yk__remap_node(&remap, k);
            continue;
        }
        *changed = true;
        if (inline_node(&remap, k, err)) {
            yk__remap_drop(&remap);
            yk__graph_free(&g);
            return err->status;
        }
    }
    return yk__remap_end(&remap, work, err);
}

yk_status yk__plan_claim(yk__work *work, yk_error *err)
{
    bool changed = true;
    for (int i = 0; changed && i < MAX_DEPTH; i++)
        if (round_of_claims(work, &changed, err))
            return err->status;
    if (changed)
        return yk__fail(err, YK_E_INTERNAL, "composites are left after %d rounds of replacing them", MAX_DEPTH);
    return YK_OK;
}
