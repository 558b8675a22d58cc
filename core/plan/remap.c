/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common tool of the planner's passes (plan_internal.h has its interface): it rewrites a graph into a new one, value by value. Other
 * parts of it answer questions of several passes: a device's claims, the readers and writers of values.
 *
 * A pass that replaces work->g begins by yk__remap_begin, hands over the nodes in order, and ends by yk__remap_end. yk__remap_copy alone
 * begins the first graph (trace.c) and a segment's own one (segment.c); a segment then drops the table. All run in the thread that calls
 * yk__plan_new. yk__plan_ask alone leaves core/plan: `claims` asks the plugin.
 *
 * A pass may map a root to a value of another type before a view of it follows (autocast.c). So a view's offset is taken in elements.
 */
#include "core/plan/plan_internal.h"

#include <string.h>

#include "core/base/mem.h"

yk_graph yk__graph_view(const yk__graph *g)
{
    return (yk_graph){
        .size = sizeof(yk_graph),
        .n_value = (uint32_t)g->n_value,
        .n_node = (uint32_t)g->n_node,
        .n_all_node = (uint32_t)g->n_node,
        .n_index = (uint32_t)g->n_index,
        .n_attr = (uint32_t)g->n_attr,
        .n_slot = (uint32_t)g->n_slot,
        .value = g->value,
        .node = g->node,
        .index = g->index,
        .attr = g->attr,
        .slot = g->slot,
        .hash = g->hash,
    };
}

/* The plugin sees a graph of this node alone, with its body behind it, over all values of g. Fusion makes at most 48 nodes of a body, and a
 * longer one is refused. */
uint32_t yk__plan_ask(const yk__plan_request *request, const yk__graph *g, const yk_node *node, const yk_node *body)
{
    yk_node list[65];
    yk_graph view = yk__graph_view(g);
    uint32_t yes;
    if (!request->claims || node->n_body > 64)
        return 0;
    list[0] = *node;
    list[0].body = node->n_body ? 1 : 0;
    if (node->n_body)
        memcpy(list + 1, body, node->n_body * sizeof *body);
    view.node = list;
    view.n_node = 1;
    view.n_all_node = 1 + node->n_body;
    yes = request->claims(request->claims_arg, &view, 0);
    return yes & YK_CLAIM_RUN ? yes : 0;
}

bool yk__whole(const yk__graph *g, yk__vid v)
{
    const yk_value *x = &g->value[v], *r = &g->value[yk__root(g, v)];
    return x->offset == r->offset && yk__value_count(x) == yk__value_count(r) && yk__value_is_dense(x);
}

yk_status yk__remap_copy(yk__remap *remap, const yk__graph *src, yk__graph *dst, yk_error *err)
{
    const size_t n = src->n_value ? src->n_value : 1;
    *remap = (yk__remap){0};
    remap->map = yk__malloc(n * sizeof *remap->map);
    if (!remap->map)
        return yk__fail_mem(err, n * sizeof *remap->map, "a plan");
    memset(remap->map, 0xff, n * sizeof *remap->map);
    remap->src = src;
    remap->dst = dst;
    yk__graph_init(dst);
    for (size_t i = 1; i < src->n_slot; i++)
        yk__slot_new(dst, src->slot[i].kind, src->slot[i].bytes, src->slot[i].key);
    dst->stream = src->stream;
    return YK_OK;
}

yk_status yk__remap_begin(yk__remap *remap, yk__work *work, yk__graph *dst, yk_error *err)
{
    if (yk__remap_copy(remap, &work->g, dst, err))
        return err->status;
    remap->src_info = work->info;
    return YK_OK;
}

void yk__remap_drop(yk__remap *remap)
{
    yk__free(remap->map);
    yk__free(remap->info);
    remap->map = NULL;
    remap->info = NULL;
}

static bool extend_info(yk__node_info **info, size_t *have, size_t *cap, size_t n)
{
    if (n <= *have)
        return true;
    if (yk__grow(info, cap, n, sizeof **info))
        return false;
    memset(*info + *have, 0, (n - *have) * sizeof **info);
    *have = n;
    return true;
}

/* Ensures info for the first n nodes of dst. */
static bool reserve_info(yk__remap *remap, size_t n)
{
    if (extend_info(&remap->info, &remap->n_info, &remap->cap_info, n))
        return true;
    if (!remap->dst->error.status)
        yk__fail_mem(&remap->dst->error, n * sizeof *remap->info, "a plan");
    return false;
}

yk_status yk__work_extend_info(yk__work *work, yk_error *err)
{
    if (!extend_info(&work->info, &work->n_info, &work->cap_info, work->g.n_node))
        yk__fail_mem(err, work->g.n_node * sizeof *work->info, "a plan");
    return err->status;
}

void yk__remap_note(yk__remap *remap, uint32_t at, yk__node_info info)
{
    if (at != YK_NONE && reserve_info(remap, at + 1ull))
        remap->info[at] = info;
}

void yk__remap_move_last(yk__remap *remap, uint32_t at)
{
    yk__graph *g = remap->dst;
    const size_t last = g->n_node - 1;
    const yk_node node = g->node[last];
    yk__node_info info;
    if (!reserve_info(remap, last + 1))
        return;
    info = remap->info[last];
    memmove(g->node + at + 1, g->node + at, (last - at) * sizeof node);
    memmove(remap->info + at + 1, remap->info + at, (last - at) * sizeof info);
    g->node[at] = node;
    remap->info[at] = info;
}

yk_status yk__remap_end(yk__remap *remap, yk__work *work, yk_error *err)
{
    for (uint32_t i = 0; i < work->n_keep; i++)
        work->keep[i] = yk__remap_value(remap, work->keep[i]);
    reserve_info(remap, remap->dst->n_node);
    if (remap->dst->error.status) {
        *err = remap->dst->error;
        yk__graph_free(remap->dst);
    } else {
        yk__graph_free(&work->g);
        yk__free(work->info);
        work->g = *remap->dst;
        work->info = remap->info;
        work->n_info = remap->n_info;
        work->cap_info = remap->cap_info;
        remap->info = NULL;
    }
    yk__remap_drop(remap);
    return err->status;
}

yk__vid yk__view_like(yk__graph *g, yk__vid of, const yk_value *v, uint64_t relative)
{
    yk_value *x, *b;
    yk__vid id;
    if (of == YK_NONE)
        return YK_NONE;
    id = yk__value_new(g, (yk_dtype)g->value[of].dtype, v->dims, v->dim);
    if (id == YK_NONE)
        return YK_NONE;
    x = &g->value[id], b = &g->value[of];
    memcpy(x->stride, v->stride, sizeof x->stride);
    x->base = yk__root(g, of);
    x->slot = b->slot;
    x->flags = b->flags;
    x->offset = b->offset + relative;
    return id;
}

/* A root keeps its slot, offset (bytes), flags and strides. */
static yk__vid copy_root(yk__remap *remap, const yk_value *x)
{
    yk__vid id = yk__value_new(remap->dst, (yk_dtype)x->dtype, x->dims, x->dim);
    if (id == YK_NONE)
        return YK_NONE;
    remap->dst->value[id].flags = x->flags;
    remap->dst->value[id].slot = x->slot;
    remap->dst->value[id].offset = x->offset;
    memcpy(remap->dst->value[id].stride, x->stride, sizeof x->stride);
    return id;
}

yk__vid yk__remap_value(yk__remap *remap, yk__vid v)
{
    const yk_value *x;
    yk__vid base, id;
    uint64_t relative;
    if (v == YK_NONE || remap->map[v] != YK_NONE)
        return v == YK_NONE ? YK_NONE : remap->map[v];
    x = &remap->src->value[v];
    if (x->base == v) {
        id = copy_root(remap, x);
    } else {
        base = yk__remap_value(remap, x->base);
        if (base == YK_NONE)
            return YK_NONE;
        relative = (x->offset - remap->src->value[x->base].offset) / yk_dtype_bytes(x->dtype);
        id = yk__view_like(remap->dst, base, x, relative * yk_dtype_bytes(remap->dst->value[base].dtype));
    }
    return remap->map[v] = id;
}

/* Appends the body's nodes to dst, with their operands and attributes. False if memory is out. */
static bool remap_body(yk__remap *remap, const yk_node *n, uint32_t at)
{
    yk__graph *d = remap->dst;
    for (uint32_t k = 0; k < n->n_body; k++) {
        const yk_node *b = &remap->src->body[n->body + k];
        yk_node *to;
        yk__vid v[32];
        uint32_t in, out, attr;
        for (uint32_t i = 0; i < b->n_in; i++)
            v[i] = yk__remap_value(remap, remap->src->index[b->in + i]);
        for (uint32_t i = 0; i < b->n_out; i++)
            v[b->n_in + i] = yk__remap_value(remap, remap->src->index[b->out + i]);
        if (yk__grow(&d->body, &d->cap_body, d->n_body + 1, sizeof *d->body) ||
            yk__grow(&d->index, &d->cap_index, d->n_index + b->n_in + b->n_out, sizeof *d->index) ||
            yk__grow(&d->attr, &d->cap_attr, d->n_attr + b->n_attr, sizeof *d->attr))
            return false;
        in = (uint32_t)d->n_index, out = in + b->n_in, attr = (uint32_t)d->n_attr;
        memcpy(d->index + in, v, (size_t)(b->n_in + b->n_out) * sizeof *v);
        if (b->n_attr)
            memcpy(d->attr + attr, remap->src->attr + b->attr, b->n_attr * sizeof *d->attr);
        d->n_index += (size_t)b->n_in + b->n_out;
        d->n_attr += b->n_attr;
        to = &d->body[d->n_body++];
        *to = *b;
        to->in = in, to->out = out, to->attr = attr;
    }
    d->node[at].body = (uint32_t)(d->n_body - n->n_body);
    d->node[at].n_body = n->n_body;
    return true;
}

uint32_t yk__remap_node(yk__remap *remap, uint32_t node)
{
    const yk_node *n = &remap->src->node[node];
    yk__vid in[32], out[8];
    uint32_t at;
    if (n->n_in > 32 || n->n_out > 8) {
        if (!remap->dst->error.status)
            yk__fail(&remap->dst->error, YK_E_INTERNAL, "a node with %u operands and %u outputs", n->n_in, n->n_out);
        return YK_NONE;
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = yk__remap_value(remap, yk__ins(remap->src, n)[i]);
    for (uint32_t i = 0; i < n->n_out; i++)
        out[i] = yk__remap_value(remap, yk__outs(remap->src, n)[i]);
    remap->dst->stream = n->stream;
    at = yk__node_new(remap->dst, (yk_op)n->op, n->flags, n->n_in, in, n->n_out, out, n->n_attr, remap->src->attr + n->attr);
    if (at == YK_NONE)
        return YK_NONE;
    if (remap->src_info)
        yk__remap_note(remap, at, remap->src_info[node]);
    if (n->n_body && !remap_body(remap, n, at) && !remap->dst->error.status)
        yk__fail_mem(&remap->dst->error, n->n_body * sizeof *n, "a plan");
    return at;
}

void yk__uses_free(yk__uses *uses)
{
    yk__free(uses->readers);
    yk__free(uses->writers);
    yk__free(uses->producer);
    yk__free(uses->last);
    yk__free(uses->kept);
    memset(uses, 0, sizeof *uses);
}

static void count_uses(const yk__work *work, yk__uses *uses)
{
    const yk__graph *g = &work->g;
    for (uint32_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid r = yk__root(g, yk__ins(g, n)[i]);
            uses->readers[r]++;
            uses->last[r] = k;
        }
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid r = yk__root(g, yk__outs(g, n)[i]);
            uses->writers[r]++;
            uses->producer[r] = uses->last[r] = k;
        }
    }
    for (uint32_t i = 0; i < work->n_keep; i++)
        if (work->keep[i] != YK_NONE)
            uses->kept[yk__root(g, work->keep[i])]++;
}

yk_status yk__uses_new(const yk__work *work, yk__uses *uses, yk_error *err)
{
    const size_t n = work->g.n_value ? work->g.n_value : 1;
    *uses = (yk__uses){
        .readers = yk__calloc(n, sizeof *uses->readers),
        .writers = yk__calloc(n, sizeof *uses->writers),
        .producer = yk__malloc(n * sizeof *uses->producer),
        .last = yk__malloc(n * sizeof *uses->last),
        .kept = yk__calloc(n, sizeof *uses->kept),
    };
    if (!uses->readers || !uses->writers || !uses->producer || !uses->last || !uses->kept) {
        yk__uses_free(uses);
        return yk__fail_mem(err, n * 20, "a plan");
    }
    memset(uses->producer, 0xff, n * sizeof *uses->producer);
    memset(uses->last, 0xff, n * sizeof *uses->last);
    count_uses(work, uses);
    return YK_OK;
}
