/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering nodes in clusters: what a node may become part of, which clusters may be one, and the order in which that is tried. */
#include "core/plan/fuse_cluster.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"

#define SEARCH 256 /* clusters looked at for one decision; more counts as no */

/* ---- What a node is ---- */

static bool own_root(const yk__fuse *f, const yk_node *n)
{
    const yk__graph *s = f->m.src;
    const yk__vid o = yk__outs(s, n)[0];
    return n->n_out == 1 && s->value[o].base == o && s->value[o].slot == YK_NONE && f->u.writers[o] == 1;
}

/* Key and rows are the program's inputs, so that nothing in the arena can come to lie over them. */
static bool is_drop(const yk__fuse *f, const yk_node *n)
{
    const yk__graph *s = f->m.src;
    return f->fuses_dropout && n->op == YK_OP_DROPOUT && s->value[yk__ins(s, n)[1]].slot != YK_NONE &&
           s->value[yk__ins(s, n)[2]].slot != YK_NONE;
}

static bool is_elementwise(const yk__fuse *f, const yk_node *n)
{
    return ((yk__op_is_map(n->op) && n->op != YK_OP_FILL) || is_drop(f, n)) && !n->n_body && own_root(f, n);
}

static bool is_product(const yk__fuse *f, const yk_node *n)
{
    const yk__vid o = yk__outs(f->m.src, n)[0];
    return n->op == YK_OP_DOT && !n->flags && own_root(f, n) && !(f->u.kept[o] && !f->u.readers[o]);
}

static void begin_cluster(yk__fuse *f, uint32_t k)
{
    const yk__graph *s = f->m.src;
    const yk_node *n = &s->node[k];
    yk__cluster *c = &f->cluster[k];
    const yk_value *v = n->n_out ? &s->value[n->op == YK_OP_SUM ? yk__ins(s, n)[0] : yk__outs(s, n)[0]] : NULL;
    memset(c, 0, sizeof *c);
    c->head = c->tail = c->first = k;
    c->n = 1;
    c->first_overwrite = f->first_overwrite[k];
    c->phase = f->m.src_info[k].is_recomputed ? YK__FORWARD_AGAIN : f->m.src_info[k].origin ? YK__FORWARD : YK__BACKWARD;
    c->dots = n->op == YK_OP_DOT;
    if (is_elementwise(f, n) || is_product(f, n))
        c->kind = YK__FUSE_MAP;
    else if (n->op == YK_OP_SUM && own_root(f, n))
        c->kind = YK__FUSE_SUM;
    if (c->kind && v) {
        c->dims = v->dims;
        memcpy(c->dim, v->dim, sizeof c->dim);
    }
    f->cluster_of[k] = k;
    f->next[k] = YK_NONE;
}

/* ---- Legality ---- */

typedef struct pair {
    uint32_t a, b; /* clusters to become one */
} pair;

static bool is_in_pair(const yk__fuse *f, pair p, uint32_t node)
{
    return f->cluster_of[node] == p.a || f->cluster_of[node] == p.b;
}

/* Pushes what the members of cluster c need, outside of the pair. False: one of them is of the pair itself. */
static bool push_needs(yk__fuse *f, pair p, uint32_t c, bool own, uint32_t low, uint32_t *stack, uint32_t *n)
{
    for (uint32_t k = f->cluster[c].head; k != YK_NONE; k = f->next[k]) {
        uint64_t it = 0;
        uint32_t need;
        while ((need = yk__fuse_need(f, k, &it)) != YK_NONE) {
            const uint32_t d = f->cluster_of[need];
            if (is_in_pair(f, p, need)) {
                if (!own)
                    return false;
                continue;
            }
            if (f->cluster[d].tail < low || f->seen[d] == f->stamp)
                continue;
            if (*n == SEARCH)
                return false;
            f->seen[d] = f->stamp;
            stack[(*n)++] = d;
        }
    }
    return true;
}

/* No way leads out of the pair and back into it. */
static bool is_acyclic(yk__fuse *f, pair p)
{
    const uint32_t low = f->cluster[p.a].first < f->cluster[p.b].first ? f->cluster[p.a].first : f->cluster[p.b].first;
    uint32_t stack[SEARCH], n = 0, left = SEARCH;
    f->stamp++;
    if (!push_needs(f, p, p.a, true, low, stack, &n) || !push_needs(f, p, p.b, true, low, stack, &n))
        return false;
    while (n) {
        const uint32_t c = stack[--n];
        if (!left-- || !push_needs(f, p, c, false, low, stack, &n))
            return false;
    }
    return true;
}

/* All values that the cluster's members read from outside can be read in the shape. */
static bool fits_shape(const yk__fuse *f, pair p, uint32_t c, uint32_t dims, const int64_t *dim)
{
    const yk__graph *s = f->m.src;
    int64_t stride[YK_MAX_DIMS];
    for (uint32_t k = f->cluster[c].head; k != YK_NONE; k = f->next[k]) {
        const yk_node *n = &s->node[k];
        for (uint32_t i = 0; i < n->n_in && !yk__fuse_as_is(n, i); i++) {
            const yk__vid v = yk__ins(s, n)[i];
            const uint32_t maker = yk__maker(f, v);
            if (maker != YK_NONE && is_in_pair(f, p, maker)) {
                if (!yk__whole(s, v))
                    return false;
            } else if (!yk__is_fill(f, v) && !yk__restride(&s->value[v], dims, dim, stride)) {
                return false;
            }
        }
    }
    return true;
}

/* The shape of the two together: that of either. */
static bool common_shape(const yk__fuse *f, pair p, const yk__cluster **shape)
{
    const yk__cluster *a = &f->cluster[p.a], *b = &f->cluster[p.b];
    int64_t na = 1, nb = 1;
    for (uint32_t i = 0; i < a->dims; i++)
        na *= a->dim[i];
    for (uint32_t i = 0; i < b->dims; i++)
        nb *= b->dim[i];
    if (na != nb)
        return false;
    *shape = a;
    if (!b->dots && fits_shape(f, p, p.a, a->dims, a->dim) && fits_shape(f, p, p.b, a->dims, a->dim))
        return true;
    *shape = b;
    return !a->dots && fits_shape(f, p, p.a, b->dims, b->dim) && fits_shape(f, p, p.b, b->dims, b->dim);
}

/* Somebody outside of the pair wants the value of node k. */
static bool goes_out(const yk__fuse *f, pair p, uint32_t k)
{
    const yk__vid r = yk__root(f->m.src, yk__outs(f->m.src, &f->m.src->node[k])[0]);
    if (f->u.kept[r])
        return true;
    for (uint32_t i = f->reader_begin[r]; i < f->reader_begin[r + 1]; i++)
        if (!is_in_pair(f, p, f->reader[i]))
            return true;
    return false;
}

static void count_outside(const yk__fuse *f, pair p, uint32_t c, yk__vid *in, uint32_t *n_in, uint32_t *n_out)
{
    const yk__graph *s = f->m.src;
    for (uint32_t k = f->cluster[c].head; k != YK_NONE && *n_in <= YK__FUSE_IN; k = f->next[k]) {
        const yk_node *n = &s->node[k];
        *n_out += goes_out(f, p, k);
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid v = yk__ins(s, n)[i];
            const uint32_t maker = yk__maker(f, v);
            uint32_t j = 0;
            if ((maker != YK_NONE && is_in_pair(f, p, maker)) || yk__is_fill(f, v))
                continue;
            while (j < *n_in && in[j] != v)
                j++;
            if (j == *n_in && (*n_in)++ < YK__FUSE_IN)
                in[j] = v;
        }
    }
}

static bool small_enough(const yk__fuse *f, pair p)
{
    yk__vid in[YK__FUSE_IN + 1];
    uint32_t n_in = 0, n_out = 0;
    const bool dot = f->cluster[p.a].dots || f->cluster[p.b].dots;
    if (f->cluster[p.a].n + f->cluster[p.b].n > YK__FUSE_NODES)
        return false;
    count_outside(f, p, p.a, in, &n_in, &n_out);
    count_outside(f, p, p.b, in, &n_in, &n_out);
    return n_in <= YK__FUSE_IN && n_out <= (dot ? YK__FUSE_OUT - 1 : YK__FUSE_OUT);
}

/* ---- Merging ---- */

static void link_members(yk__fuse *f, uint32_t a, uint32_t b)
{
    uint32_t x = f->cluster[a].head, y = f->cluster[b].head, *to = &f->cluster[a].head, last = YK_NONE;
    while (x != YK_NONE || y != YK_NONE) {
        uint32_t *from = y == YK_NONE || (x != YK_NONE && x < y) ? &x : &y;
        last = *to = *from;
        f->cluster_of[last] = a;
        to = &f->next[last];
        *from = f->next[last];
    }
    *to = YK_NONE;
    f->cluster[a].tail = last;
}

static void merge_pair(yk__fuse *f, pair p, const yk__cluster *shape)
{
    yk__cluster *a = &f->cluster[p.a], *b = &f->cluster[p.b];
    const yk__cluster like = *shape;
    link_members(f, p.a, p.b);
    a->n += b->n;
    a->first = a->first < b->first ? a->first : b->first;
    a->first_overwrite = a->first_overwrite < b->first_overwrite ? a->first_overwrite : b->first_overwrite;
    a->dots = (uint8_t)(a->dots + b->dots);
    a->dims = like.dims;
    memcpy(a->dim, like.dim, sizeof a->dim);
    b->n = 0;
}

/* But for where they stand, the two can be one. */
static bool may_stand_together(yk__fuse *f, pair p, const yk__cluster **shape)
{
    const yk__cluster *a = &f->cluster[p.a], *b = &f->cluster[p.b];
    const uint32_t end = a->tail > b->tail ? a->tail : b->tail;
    return p.a != p.b && a->kind == b->kind && a->dots + b->dots <= 1 && a->first_overwrite > end &&
           b->first_overwrite > end && common_shape(f, p, shape) && small_enough(f, p) && is_acyclic(f, p);
}

static bool may_merge(yk__fuse *f, pair p, const yk__cluster **shape)
{
    return f->cluster[p.a].phase == f->cluster[p.b].phase && may_stand_together(f, p, shape);
}

/* The one node that reads what k makes; YK_NONE: none, several, or somebody outside. */
static uint32_t only_reader(const yk__fuse *f, uint32_t k)
{
    const yk__vid r = yk__root(f->m.src, yk__outs(f->m.src, &f->m.src->node[k])[0]);
    return f->u.kept[r] || f->reader_begin[r + 1] - f->reader_begin[r] != 1 ? YK_NONE : f->reader[f->reader_begin[r]];
}

/*
 * A maker's value is stored anyway, and the chain of single readers that begins with k ends in a node that cannot join the
 * maker (it waits for something made of the maker's value): then k is computed there, from the stored value, and nothing
 * more is stored.
 */
static bool belongs_later(yk__fuse *f, uint32_t k, uint32_t maker)
{
    const yk__graph *s = f->m.src;
    const uint32_t cluster = f->cluster_of[maker];
    uint32_t chain[4], n = 0, q = k;
    bool cyclic = false;
    if (!goes_out(f, (pair){cluster, f->cluster_of[k]}, maker))
        return false;
    while (n < 4 && !cyclic) {
        chain[n++] = q;
        q = only_reader(f, q);
        if (q == YK_NONE || !is_elementwise(f, &s->node[q]) || f->inlined[q] || f->cluster[q].phase != f->cluster[k].phase)
            break;
        for (uint32_t i = 0; i < n; i++)
            f->cluster_of[chain[i]] = cluster;
        cyclic = !is_acyclic(f, (pair){cluster, f->cluster_of[q]});
        for (uint32_t i = 0; i < n; i++)
            f->cluster_of[chain[i]] = chain[i];
    }
    return cyclic;
}

/* An elementwise node goes to where its operands come from. */
static void join_makers(yk__fuse *f, uint32_t k)
{
    const yk__graph *s = f->m.src;
    const yk_node *n = &s->node[k];
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(s, n)[i];
        const uint32_t maker = yk__maker(f, v);
        const yk__cluster *shape;
        pair p;
        if (maker == YK_NONE || f->inlined[maker] || f->cluster[f->cluster_of[maker]].kind != YK__FUSE_MAP)
            continue;
        p = (pair){f->cluster_of[maker], f->cluster_of[k]};
        if (!(f->cluster_of[k] == k && belongs_later(f, k, maker)) && may_merge(f, p, &shape))
            merge_pair(f, p, shape);
    }
}

/*
 * An activation that is made again for a weight's gradient, from a stored value that its own backward reads in the epilogue
 * of a product: there they are one pass. It has one operand, so that it rounds there as it does anywhere.
 */
static void join_backward(yk__fuse *f, uint32_t k)
{
    const yk__graph *s = f->m.src;
    const yk_node *n = &s->node[k];
    const yk__cluster *shape;
    if (f->cluster_of[k] != k || f->cluster[k].n != 1 || f->cluster[k].phase != YK__FORWARD_AGAIN || n->op < YK_OP_RELU || n->n_in != 1)
        return;
    const yk__vid r = yk__root(s, yk__ins(s, n)[0]);
    for (uint32_t i = f->reader_begin[r]; i < f->reader_begin[r + 1]; i++) {
        const uint32_t q = f->reader[i], cluster = f->cluster_of[q];
        const pair p = {cluster, k};
        if (s->node[q].op == n->op + 1u && f->cluster[cluster].dots && f->cluster[cluster].phase == YK__BACKWARD &&
            may_stand_together(f, p, &shape)) {
            merge_pair(f, p, shape);
            return;
        }
    }
}

/* ---- Sums ---- */

static int64_t axes_of(const yk__fuse *f, uint32_t k)
{
    return f->m.src->attr[f->m.src->node[k].attr];
}

static bool same_sum(const yk__fuse *f, uint32_t a, uint32_t b)
{
    const yk__cluster *x = &f->cluster[a], *y = &f->cluster[b];
    return axes_of(f, x->head) == axes_of(f, y->head) && x->dims == y->dims && !memcmp(x->dim, y->dim, sizeof x->dim) &&
           x->n + y->n <= YK__FUSE_OUT && x->phase == y->phase;
}

/* A sum joins one over the same axes that reads the same memory, through inlined nodes; and is noted at what it reads. */
static void visit_read(yk__fuse *f, uint32_t k, yk__vid v, int depth, bool join)
{
    const yk__graph *s = f->m.src;
    const yk__vid r = yk__root(s, v);
    const uint32_t maker = yk__maker(f, v);
    if (maker != YK_NONE && f->inlined[maker] && depth < 8) {
        const yk_node *n = &s->node[maker];
        for (uint32_t i = 0; i < n->n_in; i++)
            visit_read(f, k, yk__ins(s, n)[i], depth + 1, join);
        return;
    }
    if (!join) {
        f->last_sum[r] = k;
    } else if (f->last_sum[r] != YK_NONE) {
        const pair p = {f->cluster_of[f->last_sum[r]], f->cluster_of[k]};
        const uint32_t end = k;
        if (p.a != p.b && same_sum(f, p.a, p.b) && f->cluster[p.a].first_overwrite > end && is_acyclic(f, p))
            merge_pair(f, p, &f->cluster[p.a]);
    }
}

static void join_sums(yk__fuse *f, uint32_t k)
{
    const yk__vid x = yk__ins(f->m.src, &f->m.src->node[k])[0];
    visit_read(f, k, x, 0, true);
    visit_read(f, k, x, 0, false);
}

/* ---- Tables ---- */

static void find_readers(yk__fuse *f)
{
    const yk__graph *s = f->m.src;
    uint32_t sum = 0;
    for (yk__vid v = 0; v <= s->n_value; v++) {
        f->reader_begin[v] = sum;
        sum += v < s->n_value ? f->u.readers[v] : 0;
    }
    for (uint32_t k = 0; k < s->n_node; k++)
        for (uint32_t i = 0; i < s->node[k].n_in; i++)
            f->reader[f->reader_begin[yk__root(s, yk__ins(s, &s->node[k])[i])]++] = k;
    for (yk__vid v = (yk__vid)s->n_value; v > 0; v--)
        f->reader_begin[v] = f->reader_begin[v - 1];
    f->reader_begin[0] = 0;
}

static void find_order(yk__fuse *f)
{
    const yk__graph *s = f->m.src;
    uint32_t *last = f->last_sum, reduce = YK_NONE; /* borrowed */
    for (uint32_t k = 0; k < s->n_node; k++) {
        const yk_node *n = &s->node[k];
        f->reduce_before[k] = n->op == YK_OP_ALL_REDUCE ? reduce : YK_NONE;
        if (n->op == YK_OP_ALL_REDUCE)
            reduce = k;
        f->older_writer[k] = YK_NONE;
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid r = yk__root(s, yk__outs(s, n)[i]);
            if (last[r] != YK_NONE && last[r] != k)
                f->older_writer[k] = last[r];
            last[r] = k;
        }
    }
    memset(last, 0xff, (s->n_value + 1) * sizeof *last);
    for (uint32_t k = (uint32_t)s->n_node; k-- > 0;) {
        const yk_node *n = &s->node[k];
        f->first_overwrite[k] = YK_NONE;
        for (uint32_t i = 0; i < n->n_in; i++) {
            const uint32_t w = last[yk__root(s, yk__ins(s, n)[i])];
            if (w < f->first_overwrite[k])
                f->first_overwrite[k] = w;
        }
        for (uint32_t i = 0; i < n->n_out; i++)
            last[yk__root(s, yk__outs(s, n)[i])] = k;
    }
    memset(last, 0xff, (s->n_value + 1) * sizeof *last);
}

static void find_inlined(yk__fuse *f)
{
    const yk__graph *s = f->m.src;
    for (uint32_t k = (uint32_t)s->n_node; k-- > 0;) {
        const yk_node *n = &s->node[k];
        const yk__vid r = n->n_out ? yk__root(s, yk__outs(s, n)[0]) : 0;
        bool only = is_elementwise(f, n) && n->op != YK_OP_DROPOUT && f->u.readers[r] && !f->u.kept[r];
        for (uint32_t i = f->reader_begin[r]; only && i < f->reader_begin[r + 1]; i++) {
            const uint32_t q = f->reader[i];
            only = f->inlined[q] || (s->node[q].op == YK_OP_SUM && own_root(f, &s->node[q]));
        }
        f->inlined[k] = only;
    }
}

static void gather_clusters(yk__fuse *f)
{
    const yk__graph *s = f->m.src;
    for (uint32_t k = 0; k < s->n_node; k++)
        begin_cluster(f, k);
    for (uint32_t k = 0; k < s->n_node; k++) {
        if (f->inlined[k])
            continue;
        if (s->node[k].op != YK_OP_DOT && f->cluster[k].kind == YK__FUSE_MAP)
            join_makers(f, k);
        else if (f->cluster[k].kind == YK__FUSE_SUM)
            join_sums(f, k);
    }
    for (uint32_t k = 0; k < s->n_node; k++)
        if (!f->inlined[k] && f->cluster[k].kind == YK__FUSE_MAP)
            join_backward(f, k);
}

static void fuse_all(yk__fuse *f)
{
    const yk__graph *s = f->m.src;
    memset(f->last_sum, 0xff, (s->n_value + 1) * sizeof *f->last_sum);
    find_readers(f);
    find_order(f);
    find_inlined(f);
    gather_clusters(f);
    for (uint32_t k = 0; k < s->n_node; k++)
        if (f->cluster[f->cluster_of[k]].tail == k && !f->inlined[k])
            yk__fuse_emit(f, f->cluster_of[k]);
}

static bool make_tables(yk__fuse *f, size_t nn, size_t nv, size_t n_read)
{
    f->cluster_of = yk__malloc(nn * sizeof *f->cluster_of);
    f->next = yk__malloc(nn * sizeof *f->next);
    f->cluster = yk__calloc(nn, sizeof *f->cluster);
    f->inlined = yk__calloc(nn, 1);
    f->reader = yk__malloc(n_read * sizeof *f->reader);
    f->reader_begin = yk__calloc(nv + 1, sizeof *f->reader_begin);
    f->older_writer = yk__malloc(nn * sizeof *f->older_writer);
    f->reduce_before = yk__malloc(nn * sizeof *f->reduce_before);
    f->first_overwrite = yk__malloc(nn * sizeof *f->first_overwrite);
    f->last_sum = yk__malloc(nv * sizeof *f->last_sum);
    f->seen = yk__calloc(nn, sizeof *f->seen);
    return f->cluster_of && f->next && f->cluster && f->inlined && f->reader && f->reader_begin && f->older_writer &&
           f->reduce_before && f->first_overwrite && f->last_sum && f->seen;
}

static void free_tables(yk__fuse *f)
{
    yk__free(f->cluster_of);
    yk__free(f->next);
    yk__free(f->cluster);
    yk__free(f->inlined);
    yk__free(f->reader);
    yk__free(f->reader_begin);
    yk__free(f->older_writer);
    yk__free(f->reduce_before);
    yk__free(f->first_overwrite);
    yk__free(f->last_sum);
    yk__free(f->seen);
    yk__uses_free(&f->u);
}

yk_status yk__plan_fuse(yk__work *w, yk_error *err)
{
    yk__fuse f = {.w = w};
    w->plan->nodes_before = (uint32_t)w->g.n_node;
    if (!make_tables(&f, w->g.n_node + 1, w->g.n_value + 1, w->g.n_index + 1))
        yk__fail_mem(err, w->g.n_node * sizeof *f.cluster, "a plan");
    if (!err->status && !yk__uses_new(w, &f.u, err) && !yk__remap_begin(&f.m, w, &f.g, err)) {
        f.fuses_dropout = yk__fuse_drops(w);
        fuse_all(&f);
        yk__remap_end(&f.m, w, err);
    }
    free_tables(&f);
    return err->status;
}
