/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters as nodes with bodies; offered to the device, and taken apart again where it refuses. */
#include "core/plan/fuse_cluster.h"

#include <string.h>

/* The node under construction. */
typedef struct making {
    yk__fuse *f;
    yk__cluster *cluster;
    yk__vid src_in[YK__FUSE_IN], in[YK__FUSE_IN]; /* operands: old value, new value in the cluster's shape */
    bool as_is[YK__FUSE_IN];                      /* ... or as it was */
    uint32_t n_in, n_out, n_body;
    yk__vid out[YK__FUSE_OUT];
    uint32_t out_node[YK__FUSE_OUT];
    uint32_t node[64]; /* members and inlined nodes in the order of the body */
    yk__vid made[64];  /* their values */
    uint32_t n_node;
    bool fills;        /* constants came into the body */
} making;

static int find_made(const making *k, uint32_t node)
{
    for (uint32_t i = 0; i < k->n_node; i++)
        if (k->node[i] == node)
            return (int)i;
    return -1;
}

static bool in_body(const making *k, yk__vid v)
{
    const uint32_t maker = yk__maker(k->f, v);
    return maker != YK_NONE && find_made(k, maker) >= 0;
}

/* The operand as a value of the new graph, in the cluster's shape. */
static yk__vid operand_in_shape(making *k, yk__vid v, bool as_is)
{
    yk__graph *g = &k->f->g;
    const yk__vid x = yk__remap_value(&k->f->m, v);
    yk_value like;
    if (x == YK_NONE || as_is)
        return x;
    like = g->value[x];
    if (like.dims == k->cluster->dims && !memcmp(like.dim, k->cluster->dim, like.dims * sizeof *like.dim))
        return x;
    like.dims = k->cluster->dims;
    memcpy(like.dim, k->cluster->dim, sizeof like.dim);
    if (!yk__restride(&g->value[x], k->cluster->dims, k->cluster->dim, like.stride))
        return YK_NONE;
    return yk__view_like(g, x, &like, 0);
}

static bool add_operand(making *k, yk__vid v, bool as_is)
{
    for (uint32_t i = 0; i < k->n_in; i++)
        if (k->src_in[i] == v && k->as_is[i] == as_is && (i >= 2 || !k->cluster->dots))
            return true;
    if (k->n_in == YK__FUSE_IN)
        return false;
    k->src_in[k->n_in] = v;
    k->as_is[k->n_in] = as_is;
    k->in[k->n_in] = operand_in_shape(k, v, as_is);
    return k->in[k->n_in++] != YK_NONE;
}

/* Puts a node (and the inlined ones it reads) into the body's order. */
static bool add_node(making *k, uint32_t node, int depth)
{
    const yk__graph *s = k->f->m.src;
    const yk_node *n = &s->node[node];
    if (find_made(k, node) >= 0)
        return true;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const uint32_t maker = yk__maker(k->f, yk__ins(s, n)[i]);
        if (maker == YK_NONE || !k->f->inlined[maker])
            continue;
        if (depth > 16 || !yk__whole(s, yk__ins(s, n)[i]) || !add_node(k, maker, depth + 1))
            return false;
    }
    if (k->n_node == 60)
        return false;
    k->node[k->n_node++] = node;
    return true;
}

static bool list_nodes(making *k)
{
    for (uint32_t j = k->cluster->head; j != YK_NONE; j = k->f->next[j]) /* the product goes first */
        if (k->f->m.src->node[j].op == YK_OP_DOT && !add_node(k, j, 0))
            return false;
    for (uint32_t j = k->cluster->head; j != YK_NONE; j = k->f->next[j])
        if (!add_node(k, j, 0))
            return false;
    return true;
}

static bool list_operands(making *k)
{
    const yk__graph *s = k->f->m.src;
    for (uint32_t j = 0; j < k->n_node; j++) {
        const yk_node *n = &s->node[k->node[j]];
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid v = yk__ins(s, n)[i];
            if (in_body(k, v)) {
                if (!yk__whole(s, v))
                    return false;
            } else if (n->op == YK_OP_DOT) {
                if (k->n_in != i) /* a and b stand first, also where they are the same */
                    return false;
                k->src_in[i] = v;
                k->in[k->n_in++] = operand_in_shape(k, v, true);
            } else if (yk__is_fill(k->f, v)) {
                k->fills = true;
            } else if (!add_operand(k, v, yk__fuse_as_is(n, i))) {
                return false;
            }
        }
    }
    return true;
}

static bool is_wanted(const making *k, uint32_t node)
{
    const yk__fuse *f = k->f;
    const yk__vid r = yk__outs(f->m.src, &f->m.src->node[node])[0];
    if (f->inlined[node])
        return false;
    if (f->u.kept[r])
        return true;
    for (uint32_t i = f->reader_begin[r]; i < f->reader_begin[r + 1]; i++)
        if (f->cluster_of[f->reader[i]] != f->cluster_of[node])
            return true;
    return false;
}

/* Values of the body: outputs, and those of its own. A sum's has its own shape, all others the cluster's. */
static bool make_values(making *k)
{
    const yk__graph *s = k->f->m.src;
    for (uint32_t j = 0; j < k->n_node; j++) {
        const yk_node *n = &s->node[k->node[j]];
        const yk_value *v = &s->value[yk__outs(s, n)[0]];
        const bool own = n->op == YK_OP_SUM || n->op == YK_OP_DOT;
        k->made[j] = yk__value_new(&k->f->g, (yk_dtype)v->dtype, own ? v->dims : k->cluster->dims, own ? v->dim : k->cluster->dim);
        if (k->made[j] == YK_NONE)
            return false;
        if (!is_wanted(k, k->node[j]))
            continue;
        if (k->n_out == YK__FUSE_OUT)
            return false;
        k->out_node[k->n_out] = k->node[j];
        k->out[k->n_out++] = k->made[j];
    }
    return true;
}

/* A constant inside the body. */
static yk__vid body_fill(making *k, yk__vid v)
{
    const yk__graph *s = k->f->m.src;
    const yk_node *fill = &s->node[yk__maker(k->f, v)];
    yk__vid x = yk__value_new(&k->f->g, (yk_dtype)s->value[v].dtype, k->cluster->dims, k->cluster->dim);
    if (x != YK_NONE && yk__body_new(&k->f->g, YK_OP_FILL, 0, NULL, 1, &x, 1, s->attr + fill->attr) != YK_NONE)
        k->n_body++;
    return x;
}

static yk__vid body_operand(making *k, const yk_node *n, uint32_t i)
{
    const yk__graph *s = k->f->m.src;
    const yk__vid v = yk__ins(s, n)[i];
    if (n->op == YK_OP_DOT)
        return k->in[i];
    if (in_body(k, v))
        return k->made[find_made(k, yk__maker(k->f, v))];
    if (yk__is_fill(k->f, v))
        return body_fill(k, v);
    for (uint32_t j = k->cluster->dots ? 2 : 0; j < k->n_in; j++)
        if (k->src_in[j] == v && k->as_is[j] == yk__fuse_as_is(n, i))
            return k->in[j];
    return YK_NONE;
}

static bool make_body(making *k)
{
    const yk__graph *s = k->f->m.src;
    for (uint32_t j = 0; j < k->n_node; j++) {
        const yk_node *n = &s->node[k->node[j]];
        yk__vid x[8];
        k->f->g.stream = n->stream;
        for (uint32_t i = 0; i < n->n_in; i++) {
            x[i] = body_operand(k, n, i);
            if (x[i] == YK_NONE)
                return false;
        }
        if (yk__body_new(&k->f->g, (yk_op)n->op, n->n_in, x, 1, &k->made[j], n->n_attr, s->attr + n->attr) == YK_NONE)
            return false;
        k->n_body++;
    }
    return true;
}

/* The sums stand behind all else: plugins look for them there. */
static bool sums_last(const making *k)
{
    bool sum = false;
    for (uint32_t j = 0; j < k->n_node; j++) {
        const bool is = k->f->m.src->node[k->node[j]].op == YK_OP_SUM;
        if (sum && !is)
            return false;
        sum |= is;
    }
    return true;
}

static void move_sums(making *k)
{
    uint32_t list[64], n = 0;
    for (int sum = 0; sum < 2; sum++)
        for (uint32_t j = 0; j < k->n_node; j++)
            if ((k->f->m.src->node[k->node[j]].op == YK_OP_SUM) == sum)
                list[n++] = k->node[j];
    memcpy(k->node, list, n * sizeof *list);
}

static bool offer_node(making *k, yk_op op)
{
    yk__graph *g = &k->f->g;
    const size_t body = g->n_body;
    const yk_node *last = &k->f->m.src->node[k->cluster->tail];
    uint32_t at, claimed;
    yk__node_info info;
    if (!make_values(k))
        return false;
    g->stream = last->stream;
    at = yk__node_new(g, op, 0, k->n_in, k->in, k->n_out, k->out, 0, NULL);
    if (at == YK_NONE || !make_body(k) || k->n_body > 64)
        return false;
    g->node[at].body = (uint32_t)body;
    g->node[at].n_body = k->n_body;
    claimed = yk__plan_ask(k->f->w->r, g, &g->node[at], g->body + body);
    info = yk__info_from(yk__info_of(&k->f->m, last));
    info.is_asked = true;
    info.claims = (uint8_t)claimed;
    yk__remap_note(&k->f->m, at, info);
    return claimed & YK_CLAIM_RUN;
}

/* The old values stand for views of the new ones where the shape is another. */
static void publish_outputs(making *k)
{
    const yk__graph *s = k->f->m.src;
    for (uint32_t i = 0; i < k->n_out; i++) {
        const yk__vid v = yk__outs(s, &s->node[k->out_node[i]])[0];
        const yk_value *x = &k->f->g.value[k->out[i]];
        k->f->m.map[v] = yk__value_same_shape(x, &s->value[v]) ? k->out[i]
                                                          : yk__view_like(&k->f->g, k->out[i], &s->value[v], 0);
    }
    k->f->n_fused += k->n_node - 1;
}

bool yk__fuse_drops(yk__work *w)
{
    const yk__graph *s = &w->g;
    yk__graph g;
    yk__vid in[3], out;
    uint32_t k = 0, at, claimed = 0;
    while (k < s->n_node && s->node[k].op != YK_OP_DROPOUT)
        k++;
    if (k == s->n_node)
        return false;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < 4; i++) {
        const yk_value *v = &s->value[i < 3 ? yk__ins(s, &s->node[k])[i] : yk__outs(s, &s->node[k])[0]];
        *(i < 3 ? &in[i] : &out) = yk__value_new(&g, (yk_dtype)v->dtype, v->dims, v->dim);
    }
    at = g.error.status ? YK_NONE : yk__node_new(&g, YK_OP_MAP, 0, 3, in, 1, &out, 0, NULL);
    if (at != YK_NONE &&
        yk__body_new(&g, YK_OP_DROPOUT, 3, in, 1, &out, s->node[k].n_attr, s->attr + s->node[k].attr) != YK_NONE) {
        g.node[at].n_body = 1;
        claimed = yk__plan_ask(w->r, &g, &g.node[at], g.body);
    }
    yk__graph_free(&g);
    return claimed & YK_CLAIM_RUN;
}

static bool try_make(yk__fuse *f, yk__cluster *c, yk_op op)
{
    making k = {.f = f, .cluster = c};
    yk__graph *g = &f->g;
    size_t value, node, body, index, attr;
    if (g->error.status || !list_nodes(&k))
        return false;
    if (!sums_last(&k))
        move_sums(&k);
    if (!list_operands(&k) || (k.n_node == 1 && !k.fills))
        return false;
    value = g->n_value, node = g->n_node, body = g->n_body, index = g->n_index, attr = g->n_attr;
    if (offer_node(&k, op)) {
        publish_outputs(&k);
        return true;
    }
    g->n_value = value, g->n_node = node, g->n_body = body, g->n_index = index, g->n_attr = attr;
    f->m.n_info = f->m.n_info < node ? f->m.n_info : node;
    return false;
}

static void emit_plain(yk__fuse *f, uint32_t node)
{
    yk__remap_node(&f->m, node);
}

/* An inlined node that no map_sum took in is made like any other node. */
static void emit_inlined(yk__fuse *f, uint32_t node, int depth)
{
    const yk__graph *s = f->m.src;
    const yk_node *n = &s->node[node];
    for (uint32_t i = 0; i < n->n_in; i++) {
        const uint32_t maker = yk__maker(f, yk__ins(s, n)[i]);
        if (maker == YK_NONE || !f->inlined[maker] || f->cluster[maker].done || depth > 200)
            continue;
        emit_inlined(f, maker, depth + 1);
        f->cluster[maker].done = 1;
        emit_plain(f, maker);
    }
}

static void emit_parts(yk__fuse *f, const yk__cluster *c)
{
    for (uint32_t k = c->head; k != YK_NONE; k = f->next[k]) {
        emit_inlined(f, k, 0);
        emit_plain(f, k);
    }
}

/* What inlined nodes read has to be there before the sums that take them in. */
static void emit_needs(yk__fuse *f, uint32_t node, uint32_t self)
{
    uint64_t it = 0;
    uint32_t need;
    while ((need = yk__fuse_need(f, node, &it)) != YK_NONE) {
        if (f->inlined[need])
            emit_needs(f, need, self);
        else if (f->cluster_of[need] != self)
            yk__fuse_emit(f, f->cluster_of[need]);
    }
}

static bool emit_fused(yk__fuse *f, yk__cluster *c)
{
    bool dots = c->dots, inlines = false;
    if (c->kind == YK__FUSE_SUM) {
        for (uint32_t k = c->head; k != YK_NONE; k = f->next[k]) {
            const uint32_t maker = yk__maker(f, yk__ins(f->m.src, &f->m.src->node[k])[0]);
            inlines |= maker != YK_NONE && f->inlined[maker];
        }
        return (inlines || c->n > 1) && try_make(f, c, YK_OP_MAP_SUM);
    }
    if (c->kind != YK__FUSE_MAP || (dots && c->n == 1))
        return false;
    return try_make(f, c, dots ? YK_OP_DOT_MAP : YK_OP_MAP);
}

/* A product whose epilogue was refused goes alone, and the rest of its cluster becomes a map. */
static bool emit_split(yk__fuse *f, yk__cluster *c)
{
    const yk__graph *s = f->m.src;
    uint32_t *to = &c->head, dot = YK_NONE, tail = YK_NONE;
    if (!c->dots || c->n == 1)
        return false;
    while (*to != YK_NONE) {
        if (s->node[*to].op == YK_OP_DOT) {
            dot = *to;
            *to = f->next[dot];
            continue;
        }
        tail = *to;
        to = &f->next[tail];
    }
    f->cluster_of[dot] = (uint32_t)s->n_node; /* a cluster that nothing else is in */
    f->cluster[s->n_node].done = 1;
    c->dots = 0;
    c->tail = tail;
    c->n--;
    emit_plain(f, dot);
    return emit_fused(f, c);
}

void yk__fuse_emit(yk__fuse *f, uint32_t cluster)
{
    yk__cluster *c = &f->cluster[cluster];
    if (c->done || c->busy)
        return;
    c->busy = 1;
    for (uint32_t k = c->head; k != YK_NONE; k = f->next[k])
        emit_needs(f, k, cluster);
    if (!emit_fused(f, c) && !emit_split(f, c))
        emit_parts(f, c);
    c->done = 1;
    c->busy = 0;
}
