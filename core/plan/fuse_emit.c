/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of fusion: emits the clusters that fuse.c gathered as nodes with bodies, into the new graph. Each is offered to the
 * device; a cluster that the device refuses is split and offered again, down to plain nodes. Both halves are one pass (passes.c), in the
 * step thread.
 */
#include "core/plan/fuse_cluster.h"

#include <string.h>

/* The node under construction. */
typedef struct making {
    yk__fuse *fuse;
    yk__cluster *cluster;
    yk__vid src_in[YK__FUSE_IN], in[YK__FUSE_IN]; /* operands: old value, new value in the cluster's shape */
    bool as_is[YK__FUSE_IN];                      /* ... or in its old shape */
    uint32_t n_in, n_out, n_body;
    yk__vid out[YK__FUSE_OUT];
    uint32_t out_node[YK__FUSE_OUT];
    uint32_t node[64]; /* members and inlined nodes in the order of the body */
    yk__vid made[64];  /* their values */
    uint32_t n_node;
    bool fills;        /* the body has constants */
} making;

static int find_made(const making *make, uint32_t node)
{
    for (uint32_t i = 0; i < make->n_node; i++)
        if (make->node[i] == node)
            return (int)i;
    return -1;
}

static bool in_body(const making *make, yk__vid v)
{
    const uint32_t maker = yk__maker(make->fuse, v);
    return maker != YK_NONE && find_made(make, maker) >= 0;
}

/* The operand as a value of the new graph, in the cluster's shape. */
static yk__vid operand_in_shape(making *make, yk__vid v, bool as_is)
{
    yk__graph *g = &make->fuse->g;
    const yk__vid x = yk__remap_value(&make->fuse->remap, v);
    yk_value like;
    if (x == YK_NONE || as_is)
        return x;
    like = g->value[x];
    if (like.dims == make->cluster->dims && !memcmp(like.dim, make->cluster->dim, like.dims * sizeof *like.dim))
        return x;
    like.dims = make->cluster->dims;
    memcpy(like.dim, make->cluster->dim, sizeof like.dim);
    if (!yk__restride(&g->value[x], make->cluster->dims, make->cluster->dim, like.stride))
        return YK_NONE;
    return yk__view_like(g, x, &like, 0);
}

static bool add_operand(making *make, yk__vid v, bool as_is)
{
    for (uint32_t i = 0; i < make->n_in; i++)
        if (make->src_in[i] == v && make->as_is[i] == as_is && (i >= 2 || !make->cluster->dots))
            return true;
    if (make->n_in == YK__FUSE_IN)
        return false;
    make->src_in[make->n_in] = v;
    make->as_is[make->n_in] = as_is;
    make->in[make->n_in] = operand_in_shape(make, v, as_is);
    return make->in[make->n_in++] != YK_NONE;
}

/* Adds a node (and the inlined nodes that it reads) to the body's order. */
static bool add_node(making *make, uint32_t node)
{
    const yk__graph *src = make->fuse->remap.src;
    const yk_node *n = &src->node[node];
    if (find_made(make, node) >= 0)
        return true;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const uint32_t maker = yk__maker(make->fuse, yk__ins(src, n)[i]);
        if (maker == YK_NONE || !make->fuse->inlined[maker])
            continue;
        if (!yk__whole(src, yk__ins(src, n)[i]) || !add_node(make, maker))
            return false;
    }
    if (make->n_node == 60)
        return false;
    make->node[make->n_node++] = node;
    return true;
}

static bool list_nodes(making *make)
{
    for (uint32_t j = make->cluster->head; j != YK_NONE; j = make->fuse->next[j]) /* the product goes first */
        if (make->fuse->remap.src->node[j].op == YK_OP_DOT && !add_node(make, j))
            return false;
    for (uint32_t j = make->cluster->head; j != YK_NONE; j = make->fuse->next[j])
        if (!add_node(make, j))
            return false;
    return true;
}

static bool list_operands(making *make)
{
    const yk__graph *src = make->fuse->remap.src;
    for (uint32_t j = 0; j < make->n_node; j++) {
        const yk_node *n = &src->node[make->node[j]];
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid v = yk__ins(src, n)[i];
            if (in_body(make, v)) {
                if (!yk__whole(src, v))
                    return false;
            } else if (n->op == YK_OP_DOT) {
                if (make->n_in != i) /* a and b are the first operands, also if they are the same */
                    return false;
                make->src_in[i] = v;
                make->in[make->n_in++] = operand_in_shape(make, v, true);
            } else if (yk__is_fill(make->fuse, v)) {
                make->fills = true;
            } else if (!add_operand(make, v, yk__fuse_as_is(n, i))) {
                return false;
            }
        }
    }
    return true;
}

static bool is_wanted(const making *make, uint32_t node)
{
    const yk__fuse *fuse = make->fuse;
    const yk__vid r = yk__outs(fuse->remap.src, &fuse->remap.src->node[node])[0];
    if (fuse->inlined[node])
        return false;
    if (fuse->uses.kept[r])
        return true;
    for (uint32_t i = fuse->reader_begin[r]; i < fuse->reader_begin[r + 1]; i++)
        if (fuse->cluster_of[fuse->reader[i]] != fuse->cluster_of[node])
            return true;
    return false;
}

/* Values of the body: outputs and inner ones. A sum's value has its own shape, every other value the cluster's. */
static bool make_values(making *make)
{
    const yk__graph *src = make->fuse->remap.src;
    for (uint32_t j = 0; j < make->n_node; j++) {
        const yk_node *n = &src->node[make->node[j]];
        const yk_value *v = &src->value[yk__outs(src, n)[0]];
        const bool own = n->op == YK_OP_SUM || n->op == YK_OP_DOT;
        make->made[j] = yk__value_new(&make->fuse->g, (yk_dtype)v->dtype, own ? v->dims : make->cluster->dims,
                                      own ? v->dim : make->cluster->dim);
        if (make->made[j] == YK_NONE)
            return false;
        if (!is_wanted(make, make->node[j]))
            continue;
        if (make->n_out == YK__FUSE_OUT)
            return false;
        make->out_node[make->n_out] = make->node[j];
        make->out[make->n_out++] = make->made[j];
    }
    return true;
}

/* Makes a constant inside the body. */
static yk__vid body_fill(making *make, yk__vid v)
{
    const yk__graph *src = make->fuse->remap.src;
    const yk_node *fill = &src->node[yk__maker(make->fuse, v)];
    yk__vid x = yk__value_new(&make->fuse->g, (yk_dtype)src->value[v].dtype, make->cluster->dims, make->cluster->dim);
    if (x != YK_NONE && yk__body_new(&make->fuse->g, YK_OP_FILL, 0, NULL, 1, &x, 1, src->attr + fill->attr) != YK_NONE)
        make->n_body++;
    return x;
}

static yk__vid body_operand(making *make, const yk_node *n, uint32_t i)
{
    const yk__graph *src = make->fuse->remap.src;
    const yk__vid v = yk__ins(src, n)[i];
    if (n->op == YK_OP_DOT)
        return make->in[i];
    if (in_body(make, v))
        return make->made[find_made(make, yk__maker(make->fuse, v))];
    if (yk__is_fill(make->fuse, v))
        return body_fill(make, v);
    for (uint32_t j = make->cluster->dots ? 2 : 0; j < make->n_in; j++)
        if (make->src_in[j] == v && make->as_is[j] == yk__fuse_as_is(n, i))
            return make->in[j];
    return YK_NONE;
}

static bool make_body(making *make)
{
    const yk__graph *src = make->fuse->remap.src;
    for (uint32_t j = 0; j < make->n_node; j++) {
        const yk_node *n = &src->node[make->node[j]];
        yk__vid x[8];
        make->fuse->g.stream = n->stream;
        for (uint32_t i = 0; i < n->n_in; i++) {
            x[i] = body_operand(make, n, i);
            if (x[i] == YK_NONE)
                return false;
        }
        const uint32_t at = yk__body_new(&make->fuse->g, (yk_op)n->op, n->n_in, x, 1, &make->made[j], n->n_attr, src->attr + n->attr);
        if (at == YK_NONE)
            return false;
        make->fuse->g.body[at].flags = n->flags;
        make->n_body++;
    }
    return true;
}

/* True if the sums stand behind all other nodes, as plugins expect. */
static bool sums_last(const making *make)
{
    bool sum = false;
    for (uint32_t j = 0; j < make->n_node; j++) {
        const bool is = make->fuse->remap.src->node[make->node[j]].op == YK_OP_SUM;
        if (sum && !is)
            return false;
        sum |= is;
    }
    return true;
}

static void move_sums(making *make)
{
    uint32_t list[64], n = 0;
    for (int sum = 0; sum < 2; sum++)
        for (uint32_t j = 0; j < make->n_node; j++)
            if ((make->fuse->remap.src->node[make->node[j]].op == YK_OP_SUM) == sum)
                list[n++] = make->node[j];
    memcpy(make->node, list, n * sizeof *list);
}

static bool offer_node(making *make, yk_op op)
{
    yk__graph *g = &make->fuse->g;
    const size_t body = g->n_body;
    const yk_node *last = &make->fuse->remap.src->node[make->cluster->tail];
    uint32_t at, claimed;
    yk__node_info info;
    if (!make_values(make))
        return false;
    g->stream = last->stream;
    at = yk__node_new(g, op, 0, make->n_in, make->in, make->n_out, make->out, 0, NULL);
    if (at == YK_NONE || !make_body(make) || make->n_body > 64)
        return false;
    g->node[at].body = (uint32_t)body;
    g->node[at].n_body = make->n_body;
    claimed = yk__plan_ask(make->fuse->work->request, g, &g->node[at], g->body + body);
    info = yk__info_from(yk__info_of(&make->fuse->remap, last));
    info.is_asked = true;
    info.claims = (uint8_t)claimed;
    yk__remap_note(&make->fuse->remap, at, info);
    return claimed & YK_CLAIM_RUN;
}

/* Maps old values to the new ones, by views if the shape differs. */
static void publish_outputs(making *make)
{
    const yk__graph *src = make->fuse->remap.src;
    for (uint32_t i = 0; i < make->n_out; i++) {
        const yk__vid v = yk__outs(src, &src->node[make->out_node[i]])[0];
        const yk_value *x = &make->fuse->g.value[make->out[i]];
        make->fuse->remap.map[v] = yk__value_same_shape(x, &src->value[v]) ? make->out[i]
                                                          : yk__view_like(&make->fuse->g, make->out[i], &src->value[v], 0);
    }
}

bool yk__fuse_drops(yk__work *work)
{
    const yk__graph *src = &work->g;
    yk__graph g;
    yk__vid in[3], out;
    uint32_t k = 0, at, claimed = 0;
    while (k < src->n_node && src->node[k].op != YK_OP_DROPOUT)
        k++;
    if (k == src->n_node)
        return false;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < 4; i++) {
        const yk_value *v = &src->value[i < 3 ? yk__ins(src, &src->node[k])[i] : yk__outs(src, &src->node[k])[0]];
        *(i < 3 ? &in[i] : &out) = yk__value_new(&g, (yk_dtype)v->dtype, v->dims, v->dim);
    }
    at = g.error.status ? YK_NONE : yk__node_new(&g, YK_OP_MAP, 0, 3, in, 1, &out, 0, NULL);
    if (at != YK_NONE &&
        yk__body_new(&g, YK_OP_DROPOUT, 3, in, 1, &out, src->node[k].n_attr, src->attr + src->node[k].attr) != YK_NONE) {
        g.node[at].n_body = 1;
        claimed = yk__plan_ask(work->request, &g, &g.node[at], g.body);
    }
    yk__graph_free(&g);
    return claimed & YK_CLAIM_RUN;
}

static bool try_make(yk__fuse *fuse, yk__cluster *cluster, yk_op op)
{
    making make = {.fuse = fuse, .cluster = cluster};
    yk__graph *g = &fuse->g;
    size_t value, node, body, index, attr;
    if (g->error.status || !list_nodes(&make))
        return false;
    if (!sums_last(&make))
        move_sums(&make);
    if (!list_operands(&make) || (make.n_node == 1 && !make.fills))
        return false;
    value = g->n_value, node = g->n_node, body = g->n_body, index = g->n_index, attr = g->n_attr;
    if (offer_node(&make, op)) {
        publish_outputs(&make);
        return true;
    }
    g->n_value = value, g->n_node = node, g->n_body = body, g->n_index = index, g->n_attr = attr;
    fuse->remap.n_info = fuse->remap.n_info < node ? fuse->remap.n_info : node;
    return false;
}

static void emit_plain(yk__fuse *fuse, uint32_t node)
{
    yk__remap_node(&fuse->remap, node);
}

/* Emits an inlined node that no map_sum included, as an ordinary node. */
static void emit_inlined(yk__fuse *fuse, uint32_t node)
{
    const yk__graph *src = fuse->remap.src;
    const yk_node *n = &src->node[node];
    for (uint32_t i = 0; i < n->n_in; i++) {
        const uint32_t maker = yk__maker(fuse, yk__ins(src, n)[i]);
        if (maker == YK_NONE || !fuse->inlined[maker] || fuse->cluster[maker].done)
            continue;
        emit_inlined(fuse, maker);
        fuse->cluster[maker].done = 1;
        emit_plain(fuse, maker);
    }
}

static void emit_parts(yk__fuse *fuse, const yk__cluster *cluster)
{
    for (uint32_t k = cluster->head; k != YK_NONE; k = fuse->next[k]) {
        emit_inlined(fuse, k);
        emit_plain(fuse, k);
    }
}

/* Emits the operands of inlined nodes before the sums that include them. */
static void emit_needs(yk__fuse *fuse, uint32_t node, uint32_t self)
{
    uint64_t it = 0;
    uint32_t need;
    while ((need = yk__fuse_need(fuse, node, &it)) != YK_NONE) {
        if (fuse->inlined[need])
            emit_needs(fuse, need, self);
        else if (fuse->cluster_of[need] != self)
            yk__fuse_emit(fuse, fuse->cluster_of[need]);
    }
}

static bool emit_fused(yk__fuse *fuse, yk__cluster *cluster)
{
    bool dots = cluster->dots, inlines = false;
    if (cluster->kind == YK__FUSE_SUM) {
        for (uint32_t k = cluster->head; k != YK_NONE; k = fuse->next[k]) {
            const uint32_t maker = yk__maker(fuse, yk__ins(fuse->remap.src, &fuse->remap.src->node[k])[0]);
            inlines |= maker != YK_NONE && fuse->inlined[maker];
        }
        return (inlines || cluster->n > 1) && try_make(fuse, cluster, YK_OP_MAP_SUM);
    }
    if (cluster->kind != YK__FUSE_MAP || (dots && cluster->n == 1))
        return false;
    return try_make(fuse, cluster, dots ? YK_OP_DOT_MAP : YK_OP_MAP);
}

/* Emits a product whose epilogue was refused by itself, and the rest of its cluster as a map. */
static bool emit_split(yk__fuse *fuse, yk__cluster *cluster)
{
    const yk__graph *src = fuse->remap.src;
    uint32_t *to = &cluster->head, dot = YK_NONE, tail = YK_NONE;
    if (!cluster->dots || cluster->n == 1)
        return false;
    while (*to != YK_NONE) {
        if (src->node[*to].op == YK_OP_DOT) {
            dot = *to;
            *to = fuse->next[dot];
            continue;
        }
        tail = *to;
        to = &fuse->next[tail];
    }
    fuse->cluster_of[dot] = (uint32_t)src->n_node; /* a cluster of this node alone */
    fuse->cluster[src->n_node].done = 1;
    cluster->dots = 0;
    cluster->tail = tail;
    cluster->n--;
    emit_plain(fuse, dot);
    return emit_fused(fuse, cluster);
}

void yk__fuse_emit(yk__fuse *fuse, uint32_t cluster)
{
    yk__cluster *c = &fuse->cluster[cluster];
    if (c->done || c->busy)
        return;
    c->busy = 1;
    for (uint32_t k = c->head; k != YK_NONE; k = fuse->next[k])
        emit_needs(fuse, k, cluster);
    if (!emit_fused(fuse, c) && !emit_split(fuse, c))
        emit_parts(fuse, c);
    c->done = 1;
    c->busy = 0;
}
