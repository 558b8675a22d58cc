/* SPDX-License-Identifier: Apache-2.0 */
/* Rewriting a graph into a new one, and facts about a graph that several passes need. */
#include "core/plan/inner.h"

#include <string.h>

#include "core/base/mem.h"

yk_graph yk__graph_face(const yk__graph *g)
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

uint32_t yk__ask_claims(const yk__plan_request *r, const yk__graph *g, const yk_node *node, const yk_node *body)
{
    yk_node list[65];
    yk_graph face = yk__graph_face(g);
    if (!r->claims || node->n_body > 64)
        return 0;
    list[0] = *node;
    list[0].body = node->n_body ? 1 : 0;
    list[0].reserved = 0;
    if (node->n_body)
        memcpy(list + 1, body, node->n_body * sizeof *body);
    face.node = list;
    face.n_node = 1;
    face.n_all_node = 1 + node->n_body;
    return r->claims(r->claims_arg, &face, 0);
}

uint32_t yk__ask(const yk__plan_request *r, const yk__graph *g, const yk_node *node, const yk_node *body)
{
    const uint32_t yes = yk__ask_claims(r, g, node, body);
    return (yes & 1 ? YK__CLAIMED : 0) | ((yes & 3) == 3 ? YK__CAN_ADD : 0) | ((yes & 5) == 5 ? YK__CAN_NARROW : 0);
}

bool yk__whole(const yk__graph *g, yk__vid v)
{
    const yk_value *x = &g->value[v], *r = &g->value[yk__root(g, v)];
    return x->offset == r->offset && yk__count(x) == yk__count(r) && yk__is_dense(x);
}

yk_status yk__remap_begin(yk__remap *m, const yk__graph *src, yk__graph *dst, yk_error *err)
{
    const size_t n = src->n_value ? src->n_value : 1;
    m->map = yk__malloc(n * sizeof *m->map);
    if (!m->map)
        return yk__fail_mem(err, n * sizeof *m->map, "a plan");
    memset(m->map, 0xff, n * sizeof *m->map);
    m->src = src;
    m->dst = dst;
    yk__graph_init(dst);
    for (size_t i = 1; i < src->n_slot; i++)
        yk__slot_new(dst, src->slot[i].kind, src->slot[i].bytes, src->slot[i].key);
    dst->stream = src->stream;
    return YK_OK;
}

void yk__remap_drop(yk__remap *m)
{
    yk__free(m->map);
    m->map = NULL;
}

yk_status yk__remap_end(yk__remap *m, yk__work *w, yk_error *err)
{
    for (uint32_t i = 0; i < w->n_keep; i++)
        w->keep[i] = yk__remap_value(m, w->keep[i]);
    yk__remap_drop(m);
    if (m->dst->error.status) {
        *err = m->dst->error;
        yk__graph_free(m->dst);
        return err->status;
    }
    yk__graph_free(&w->g);
    w->g = *m->dst;
    return YK_OK;
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

static yk__vid copy_root(yk__remap *m, const yk_value *x)
{
    yk__vid id = yk__value_new(m->dst, (yk_dtype)x->dtype, x->dims, x->dim);
    if (id == YK_NONE)
        return YK_NONE;
    m->dst->value[id].flags = x->flags;
    m->dst->value[id].reserved = x->reserved;
    m->dst->value[id].slot = x->slot;
    m->dst->value[id].offset = x->offset;
    memcpy(m->dst->value[id].stride, x->stride, sizeof x->stride);
    return id;
}

yk__vid yk__remap_value(yk__remap *m, yk__vid v)
{
    const yk_value *x;
    yk__vid base, id;
    uint64_t relative;
    if (v == YK_NONE || m->map[v] != YK_NONE)
        return v == YK_NONE ? YK_NONE : m->map[v];
    x = &m->src->value[v];
    if (x->base == v) {
        id = copy_root(m, x);
    } else {
        base = yk__remap_value(m, x->base);
        if (base == YK_NONE)
            return YK_NONE;
        relative = (x->offset - m->src->value[x->base].offset) / yk_dtype_bytes(x->dtype);
        id = yk__view_like(m->dst, base, x, relative * yk_dtype_bytes(m->dst->value[base].dtype));
    }
    return m->map[v] = id;
}

static bool remap_body(yk__remap *m, const yk_node *n, uint32_t at)
{
    yk__graph *d = m->dst;
    for (uint32_t k = 0; k < n->n_body; k++) {
        const yk_node *b = &m->src->body[n->body + k];
        yk_node *to;
        yk__vid v[32];
        uint32_t in, out, attr;
        for (uint32_t i = 0; i < b->n_in; i++)
            v[i] = yk__remap_value(m, m->src->index[b->in + i]);
        for (uint32_t i = 0; i < b->n_out; i++)
            v[b->n_in + i] = yk__remap_value(m, m->src->index[b->out + i]);
        if (yk__grow(&d->body, &d->cap_body, d->n_body + 1, sizeof *d->body) ||
            yk__grow(&d->index, &d->cap_index, d->n_index + b->n_in + b->n_out, sizeof *d->index) ||
            yk__grow(&d->attr, &d->cap_attr, d->n_attr + b->n_attr, sizeof *d->attr))
            return false;
        in = (uint32_t)d->n_index, out = in + b->n_in, attr = (uint32_t)d->n_attr;
        memcpy(d->index + in, v, (size_t)(b->n_in + b->n_out) * sizeof *v);
        if (b->n_attr)
            memcpy(d->attr + attr, m->src->attr + b->attr, b->n_attr * sizeof *d->attr);
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

uint32_t yk__remap_node(yk__remap *m, uint32_t node)
{
    const yk_node *n = &m->src->node[node];
    yk__vid in[32], out[8];
    uint32_t at;
    if (n->n_in > 32 || n->n_out > 8) {
        if (!m->dst->error.status)
            yk__fail(&m->dst->error, YK_E_INTERNAL, "a node with %u operands and %u outputs", n->n_in, n->n_out);
        return YK_NONE;
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = yk__remap_value(m, yk__ins(m->src, n)[i]);
    for (uint32_t i = 0; i < n->n_out; i++)
        out[i] = yk__remap_value(m, yk__outs(m->src, n)[i]);
    m->dst->stream = n->stream;
    at = yk__node_new(m->dst, (yk_op)n->op, n->flags, n->n_in, in, n->n_out, out, n->n_attr, m->src->attr + n->attr);
    if (at == YK_NONE)
        return YK_NONE;
    m->dst->node[at].reserved = n->reserved;
    if (n->n_body && !remap_body(m, n, at) && !m->dst->error.status)
        yk__fail_mem(&m->dst->error, n->n_body * sizeof *n, "a plan");
    return at;
}

void yk__uses_free(yk__uses *u)
{
    yk__free(u->readers);
    yk__free(u->writers);
    yk__free(u->producer);
    yk__free(u->last);
    yk__free(u->kept);
    memset(u, 0, sizeof *u);
}

static void count_uses(const yk__work *w, yk__uses *u)
{
    const yk__graph *g = &w->g;
    for (uint32_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid r = yk__root(g, yk__ins(g, n)[i]);
            u->readers[r]++;
            u->last[r] = k;
        }
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid r = yk__root(g, yk__outs(g, n)[i]);
            u->writers[r]++;
            u->producer[r] = u->last[r] = k;
        }
    }
    for (uint32_t i = 0; i < w->n_keep; i++)
        if (w->keep[i] != YK_NONE)
            u->kept[yk__root(g, w->keep[i])]++;
}

yk_status yk__uses_new(const yk__work *w, yk__uses *u, yk_error *err)
{
    const size_t n = w->g.n_value ? w->g.n_value : 1;
    *u = (yk__uses){
        .readers = yk__calloc(n, sizeof *u->readers),
        .writers = yk__calloc(n, sizeof *u->writers),
        .producer = yk__malloc(n * sizeof *u->producer),
        .last = yk__malloc(n * sizeof *u->last),
        .kept = yk__calloc(n, sizeof *u->kept),
    };
    if (!u->readers || !u->writers || !u->producer || !u->last || !u->kept) {
        yk__uses_free(u);
        return yk__fail_mem(err, n * 20, "a plan");
    }
    memset(u->producer, 0xff, n * sizeof *u->producer);
    memset(u->last, 0xff, n * sizeof *u->last);
    count_uses(w, u);
    return YK_OK;
}
