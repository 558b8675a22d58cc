/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass that fuses nodes: gathers them in clusters, each of which becomes one node, so that values between them need no
 * memory. This file has the conditions for joining a cluster, for merging two, and the order of the attempts; fuse_cluster.h has the kinds.
 *
 * passes.c runs it once a plan, in the step thread. fuse_emit.c writes the clusters to the new graph.
 */
#include "core/plan/fuse_cluster.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"

#define SEARCH 256 /* clusters visited for one decision; beyond that the answer is no */

/* ---- Kinds of nodes ---- */

static bool own_root(const yk__fuse *fuse, const yk_node *n)
{
    const yk__graph *src = fuse->remap.src;
    const yk__vid o = yk__outs(src, n)[0];
    return n->n_out == 1 && src->value[o].base == o && src->value[o].slot == YK_NONE && fuse->uses.writers[o] == 1;
}

/* True for a dropout whose key and rows are the program's inputs, so that no arena value can overwrite them. */
static bool is_drop(const yk__fuse *fuse, const yk_node *n)
{
    const yk__graph *src = fuse->remap.src;
    return fuse->fuses_dropout && n->op == YK_OP_DROPOUT && src->value[yk__ins(src, n)[1]].slot != YK_NONE &&
           src->value[yk__ins(src, n)[2]].slot != YK_NONE;
}

static bool is_elementwise(const yk__fuse *fuse, const yk_node *n)
{
    return ((yk__op_is_map(n->op) && n->op != YK_OP_FILL) || is_drop(fuse, n)) && !n->n_body && own_root(fuse, n);
}

static bool is_product(const yk__fuse *fuse, const yk_node *n)
{
    const yk__vid o = yk__outs(fuse->remap.src, n)[0];
    return n->op == YK_OP_DOT && !(n->flags & YK_NODE_ACCUMULATE) && own_root(fuse, n) && !(fuse->uses.kept[o] && !fuse->uses.readers[o]);
}

static void begin_cluster(yk__fuse *fuse, uint32_t k)
{
    const yk__graph *src = fuse->remap.src;
    const yk_node *n = &src->node[k];
    yk__cluster *cluster = &fuse->cluster[k];
    const yk_value *v = n->n_out ? &src->value[n->op == YK_OP_SUM ? yk__ins(src, n)[0] : yk__outs(src, n)[0]] : NULL;
    memset(cluster, 0, sizeof *cluster);
    cluster->head = cluster->tail = cluster->first = k;
    cluster->n = 1;
    cluster->first_overwrite = fuse->first_overwrite[k];
    cluster->phase = fuse->remap.src_info[k].is_recomputed ? YK__FORWARD_AGAIN
                     : fuse->remap.src_info[k].origin      ? YK__FORWARD
                                                           : YK__BACKWARD;
    cluster->dots = n->op == YK_OP_DOT;
    if (is_elementwise(fuse, n) || is_product(fuse, n))
        cluster->kind = YK__FUSE_MAP;
    else if (n->op == YK_OP_SUM && own_root(fuse, n))
        cluster->kind = YK__FUSE_SUM;
    if (cluster->kind && v) {
        cluster->dims = v->dims;
        memcpy(cluster->dim, v->dim, sizeof cluster->dim);
    }
    fuse->cluster_of[k] = k;
    fuse->next[k] = YK_NONE;
}

/* ---- Legality ---- */

typedef struct pair {
    uint32_t a, b; /* clusters to become one */
} pair;

static bool is_in_pair(const yk__fuse *fuse, pair p, uint32_t node)
{
    return fuse->cluster_of[node] == p.a || fuse->cluster_of[node] == p.b;
}

/* True if a cluster has members on both sides of node `low`: what ends before `low` may then need what begins behind it. */
static bool is_spanned(const yk__fuse *fuse, uint32_t low)
{
    for (uint32_t k = low; k < fuse->remap.src->n_node; k++)
        if (fuse->cluster[fuse->cluster_of[k]].first < low)
            return true;
    return false;
}

/* Pushes clusters, outside of the pair, that the members of cluster c need, but those that end before node `low`. False if such a cluster
 * is in the pair itself. */
static bool push_needs(yk__fuse *fuse, pair p, uint32_t c, bool own, uint32_t low, uint32_t *stack, uint32_t *n)
{
    for (uint32_t k = fuse->cluster[c].head; k != YK_NONE; k = fuse->next[k]) {
        uint64_t it = 0;
        uint32_t need;
        while ((need = yk__fuse_need(fuse, k, &it)) != YK_NONE) {
            const uint32_t d = fuse->cluster_of[need];
            if (is_in_pair(fuse, p, need)) {
                if (!own)
                    return false;
                continue;
            }
            if (fuse->cluster[d].tail < low || fuse->seen[d] == fuse->stamp)
                continue;
            if (*n == SEARCH)
                return false;
            fuse->seen[d] = fuse->stamp;
            stack[(*n)++] = d;
        }
    }
    return true;
}

/* True if no path leaves the pair and comes back to it. */
static bool is_acyclic(yk__fuse *fuse, pair p)
{
    const uint32_t low = fuse->cluster[p.a].first < fuse->cluster[p.b].first ? fuse->cluster[p.a].first : fuse->cluster[p.b].first;
    const uint32_t least = is_spanned(fuse, low) ? 0 : low;
    uint32_t stack[SEARCH], n = 0, left = SEARCH;
    fuse->stamp++;
    if (!push_needs(fuse, p, p.a, true, least, stack, &n) || !push_needs(fuse, p, p.b, true, least, stack, &n))
        return false;
    while (n) {
        const uint32_t c = stack[--n];
        if (!left-- || !push_needs(fuse, p, c, false, least, stack, &n))
            return false;
    }
    return true;
}

/* True if all outside operands of the cluster can be read in the shape, and the pair makes no operand that a member reads whole. A product
 * runs before the rest of its cluster. */
static bool fits_shape(const yk__fuse *fuse, pair p, uint32_t c, uint32_t dims, const int64_t *dim)
{
    const yk__graph *src = fuse->remap.src;
    int64_t stride[YK_MAX_DIMS];
    for (uint32_t k = fuse->cluster[c].head; k != YK_NONE; k = fuse->next[k]) {
        const yk_node *n = &src->node[k];
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid v = yk__ins(src, n)[i];
            const uint32_t maker = yk__maker(fuse, v);
            const bool as_is = yk__fuse_as_is(n, i);
            if (maker != YK_NONE && is_in_pair(fuse, p, maker)) {
                if (as_is || !yk__whole(src, v))
                    return false;
            } else if (!as_is && !yk__is_fill(fuse, v) && !yk__restride(&src->value[v], dims, dim, stride)) {
                return false;
            }
        }
    }
    return true;
}

/* Shape of the merged pair: that of one of its clusters. */
static bool common_shape(const yk__fuse *fuse, pair p, const yk__cluster **shape)
{
    const yk__cluster *cluster = &fuse->cluster[p.a], *b = &fuse->cluster[p.b];
    int64_t na = 1, nb = 1;
    for (uint32_t i = 0; i < cluster->dims; i++)
        na *= cluster->dim[i];
    for (uint32_t i = 0; i < b->dims; i++)
        nb *= b->dim[i];
    if (na != nb)
        return false;
    *shape = cluster;
    if (!b->dots && fits_shape(fuse, p, p.a, cluster->dims, cluster->dim) && fits_shape(fuse, p, p.b, cluster->dims, cluster->dim))
        return true;
    *shape = b;
    return !cluster->dots && fits_shape(fuse, p, p.a, b->dims, b->dim) && fits_shape(fuse, p, p.b, b->dims, b->dim);
}

/* True if a node outside of the pair, or the outside of the graph, needs the value of node k. */
static bool goes_out(const yk__fuse *fuse, pair p, uint32_t k)
{
    const yk__vid r = yk__root(fuse->remap.src, yk__outs(fuse->remap.src, &fuse->remap.src->node[k])[0]);
    if (fuse->uses.kept[r])
        return true;
    for (uint32_t i = fuse->reader_begin[r]; i < fuse->reader_begin[r + 1]; i++)
        if (!is_in_pair(fuse, p, fuse->reader[i]))
            return true;
    return false;
}

static void count_outside(const yk__fuse *fuse, pair p, uint32_t c, yk__vid *in, uint32_t *n_in, uint32_t *n_out)
{
    const yk__graph *src = fuse->remap.src;
    for (uint32_t k = fuse->cluster[c].head; k != YK_NONE && *n_in <= YK__FUSE_IN; k = fuse->next[k]) {
        const yk_node *n = &src->node[k];
        *n_out += goes_out(fuse, p, k);
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid v = yk__ins(src, n)[i];
            const uint32_t maker = yk__maker(fuse, v);
            uint32_t j = 0;
            if ((maker != YK_NONE && is_in_pair(fuse, p, maker)) || yk__is_fill(fuse, v))
                continue;
            while (j < *n_in && in[j] != v)
                j++;
            if (j == *n_in && (*n_in)++ < YK__FUSE_IN)
                in[j] = v;
        }
    }
}

static bool small_enough(const yk__fuse *fuse, pair p)
{
    yk__vid in[YK__FUSE_IN + 1];
    uint32_t n_in = 0, n_out = 0;
    const bool dot = fuse->cluster[p.a].dots || fuse->cluster[p.b].dots;
    if (fuse->cluster[p.a].n + fuse->cluster[p.b].n > YK__FUSE_NODES)
        return false;
    count_outside(fuse, p, p.a, in, &n_in, &n_out);
    count_outside(fuse, p, p.b, in, &n_in, &n_out);
    return n_in <= YK__FUSE_IN && n_out <= (dot ? YK__FUSE_OUT - 1 : YK__FUSE_OUT);
}

/* ---- Merging ---- */

static void link_members(yk__fuse *fuse, uint32_t a, uint32_t b)
{
    uint32_t x = fuse->cluster[a].head, y = fuse->cluster[b].head, *to = &fuse->cluster[a].head, last = YK_NONE;
    while (x != YK_NONE || y != YK_NONE) {
        uint32_t *from = y == YK_NONE || (x != YK_NONE && x < y) ? &x : &y;
        last = *to = *from;
        fuse->cluster_of[last] = a;
        to = &fuse->next[last];
        *from = fuse->next[last];
    }
    *to = YK_NONE;
    fuse->cluster[a].tail = last;
}

static void merge_pair(yk__fuse *fuse, pair p, const yk__cluster *shape)
{
    yk__cluster *cluster = &fuse->cluster[p.a], *b = &fuse->cluster[p.b];
    const yk__cluster like = *shape;
    link_members(fuse, p.a, p.b);
    cluster->n += b->n;
    cluster->first = cluster->first < b->first ? cluster->first : b->first;
    cluster->first_overwrite = cluster->first_overwrite < b->first_overwrite ? cluster->first_overwrite : b->first_overwrite;
    cluster->dots = (uint8_t)(cluster->dots + b->dots);
    cluster->dims = like.dims;
    memcpy(cluster->dim, like.dim, sizeof cluster->dim);
    b->n = 0;
}

/* True if the two clusters can be one, apart from the order of nodes. */
static bool may_stand_together(yk__fuse *fuse, pair p, const yk__cluster **shape)
{
    const yk__cluster *cluster = &fuse->cluster[p.a], *b = &fuse->cluster[p.b];
    const uint32_t end = cluster->tail > b->tail ? cluster->tail : b->tail;
    return p.a != p.b && cluster->kind == b->kind && cluster->dots + b->dots <= 1 && cluster->first_overwrite > end &&
           b->first_overwrite > end && common_shape(fuse, p, shape) && small_enough(fuse, p) && is_acyclic(fuse, p);
}

static bool may_merge(yk__fuse *fuse, pair p, const yk__cluster **shape)
{
    return fuse->cluster[p.a].phase == fuse->cluster[p.b].phase && may_stand_together(fuse, p, shape);
}

/* The single reader of node k's value; YK_NONE if there are none, several, or a reader outside of the graph. */
static uint32_t only_reader(const yk__fuse *fuse, uint32_t k)
{
    const yk__vid r = yk__root(fuse->remap.src, yk__outs(fuse->remap.src, &fuse->remap.src->node[k])[0]);
    return fuse->uses.kept[r] || fuse->reader_begin[r + 1] - fuse->reader_begin[r] != 1 ? YK_NONE : fuse->reader[fuse->reader_begin[r]];
}

/*
 * True if node k should be computed later. A maker's value is stored anyway. The chain of single readers from k on ends in a node that
 * cannot join the maker: it waits for a result of the maker's value. Then k is computed there, from the stored value, and nothing more is
 * stored.
 */
static bool belongs_later(yk__fuse *fuse, uint32_t k, uint32_t maker)
{
    const yk__graph *src = fuse->remap.src;
    const uint32_t cluster = fuse->cluster_of[maker];
    uint32_t chain[4], n = 0, q = k;
    bool cyclic = false;
    if (!goes_out(fuse, (pair){cluster, fuse->cluster_of[k]}, maker))
        return false;
    while (n < 4 && !cyclic) {
        chain[n++] = q;
        q = only_reader(fuse, q);
        if (q == YK_NONE || !is_elementwise(fuse, &src->node[q]) || fuse->inlined[q] || fuse->cluster[q].phase != fuse->cluster[k].phase)
            break;
        for (uint32_t i = 0; i < n; i++)
            fuse->cluster_of[chain[i]] = cluster;
        cyclic = !is_acyclic(fuse, (pair){cluster, fuse->cluster_of[q]});
        for (uint32_t i = 0; i < n; i++)
            fuse->cluster_of[chain[i]] = chain[i];
    }
    return cyclic;
}

/* Joins an elementwise node to a cluster that makes one of its operands. */
static void join_makers(yk__fuse *fuse, uint32_t k)
{
    const yk__graph *src = fuse->remap.src;
    const yk_node *n = &src->node[k];
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(src, n)[i];
        const uint32_t maker = yk__maker(fuse, v);
        const yk__cluster *shape;
        pair p;
        if (maker == YK_NONE || fuse->inlined[maker] || fuse->cluster[fuse->cluster_of[maker]].kind != YK__FUSE_MAP)
            continue;
        p = (pair){fuse->cluster_of[maker], fuse->cluster_of[k]};
        if (!(fuse->cluster_of[k] == k && belongs_later(fuse, k, maker)) && may_merge(fuse, p, &shape))
            merge_pair(fuse, p, shape);
    }
}

/*
 * Joins a recomputed activation, needed by a weight's gradient, to the epilogue of a product in which its own backward reads the same
 * stored value. There they are one pass. It has one operand, so it rounds there as anywhere.
 */
static void join_backward(yk__fuse *fuse, uint32_t k)
{
    const yk__graph *src = fuse->remap.src;
    const yk_node *n = &src->node[k];
    const uint32_t back = yk__op_traits_of(n->op)->back;
    const yk__cluster *shape;
    if (fuse->cluster_of[k] != k || fuse->cluster[k].n != 1 || fuse->cluster[k].phase != YK__FORWARD_AGAIN ||
        back == YK_OP_NONE)
        return;
    const yk__vid r = yk__root(src, yk__ins(src, n)[0]);
    for (uint32_t i = fuse->reader_begin[r]; i < fuse->reader_begin[r + 1]; i++) {
        const uint32_t q = fuse->reader[i], cluster = fuse->cluster_of[q];
        const pair p = {cluster, k};
        if (src->node[q].op == back && fuse->cluster[cluster].dots && fuse->cluster[cluster].phase == YK__BACKWARD &&
            may_stand_together(fuse, p, &shape)) {
            merge_pair(fuse, p, shape);
            return;
        }
    }
}

/* ---- Sums ---- */

static int64_t axes_of(const yk__fuse *fuse, uint32_t k)
{
    return fuse->remap.src->attr[fuse->remap.src->node[k].attr];
}

static bool same_sum(const yk__fuse *fuse, uint32_t a, uint32_t b)
{
    const yk__cluster *cluster = &fuse->cluster[a], *y = &fuse->cluster[b];
    return axes_of(fuse, cluster->head) == axes_of(fuse, y->head) && cluster->dims == y->dims &&
           !memcmp(cluster->dim, y->dim, sizeof cluster->dim) &&
           cluster->n + y->n <= YK__FUSE_OUT && cluster->phase == y->phase;
}

/* Joins a sum to an earlier one over the same axes that reads the same memory, through inlined nodes; notes it at its operands. */
static void visit_read(yk__fuse *fuse, uint32_t k, yk__vid v, int depth, bool join)
{
    const yk__graph *src = fuse->remap.src;
    const yk__vid r = yk__root(src, v);
    const uint32_t maker = yk__maker(fuse, v);
    if (maker != YK_NONE && fuse->inlined[maker] && depth < 8) {
        const yk_node *n = &src->node[maker];
        for (uint32_t i = 0; i < n->n_in; i++)
            visit_read(fuse, k, yk__ins(src, n)[i], depth + 1, join);
        return;
    }
    if (!join) {
        fuse->last_sum[r] = k;
    } else if (fuse->last_sum[r] != YK_NONE) {
        const pair p = {fuse->cluster_of[fuse->last_sum[r]], fuse->cluster_of[k]};
        const uint32_t end = k;
        if (p.a != p.b && same_sum(fuse, p.a, p.b) && fuse->cluster[p.a].first_overwrite > end && is_acyclic(fuse, p))
            merge_pair(fuse, p, &fuse->cluster[p.a]);
    }
}

static void join_sums(yk__fuse *fuse, uint32_t k)
{
    const yk__vid x = yk__ins(fuse->remap.src, &fuse->remap.src->node[k])[0];
    visit_read(fuse, k, x, 0, true);
    visit_read(fuse, k, x, 0, false);
}

/* ---- Tables ---- */

static void find_readers(yk__fuse *fuse)
{
    const yk__graph *src = fuse->remap.src;
    uint32_t sum = 0;
    for (yk__vid v = 0; v <= src->n_value; v++) {
        fuse->reader_begin[v] = sum;
        sum += v < src->n_value ? fuse->uses.readers[v] : 0;
    }
    for (uint32_t k = 0; k < src->n_node; k++)
        for (uint32_t i = 0; i < src->node[k].n_in; i++)
            fuse->reader[fuse->reader_begin[yk__root(src, yk__ins(src, &src->node[k])[i])]++] = k;
    for (yk__vid v = (yk__vid)src->n_value; v > 0; v--)
        fuse->reader_begin[v] = fuse->reader_begin[v - 1];
    fuse->reader_begin[0] = 0;
}

static void find_order(yk__fuse *fuse)
{
    const yk__graph *src = fuse->remap.src;
    uint32_t *last = fuse->last_sum, reduce = YK_NONE; /* reuses last_sum's memory */
    for (uint32_t k = 0; k < src->n_node; k++) {
        const yk_node *n = &src->node[k];
        fuse->reduce_before[k] = n->op == YK_OP_ALL_REDUCE ? reduce : YK_NONE;
        if (n->op == YK_OP_ALL_REDUCE)
            reduce = k;
        fuse->older_writer[k] = YK_NONE;
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid r = yk__root(src, yk__outs(src, n)[i]);
            if (last[r] != YK_NONE && last[r] != k)
                fuse->older_writer[k] = last[r];
            last[r] = k;
        }
    }
    memset(last, 0xff, (src->n_value + 1) * sizeof *last);
    for (uint32_t k = (uint32_t)src->n_node; k-- > 0;) {
        const yk_node *n = &src->node[k];
        fuse->first_overwrite[k] = YK_NONE;
        for (uint32_t i = 0; i < n->n_in; i++) {
            const uint32_t w = last[yk__root(src, yk__ins(src, n)[i])];
            if (w < fuse->first_overwrite[k])
                fuse->first_overwrite[k] = w;
        }
        for (uint32_t i = 0; i < n->n_out; i++)
            last[yk__root(src, yk__outs(src, n)[i])] = k;
    }
    memset(last, 0xff, (src->n_value + 1) * sizeof *last);
}

/* Values that only sums read are computed in the sums' bodies. inlined[k] is the number of such nodes in a row from k to a sum. A node
 * beyond a body's depth is an ordinary cluster, whose value the nearer nodes read. */
static void find_inlined(yk__fuse *fuse)
{
    const yk__graph *src = fuse->remap.src;
    for (uint32_t k = (uint32_t)src->n_node; k-- > 0;) {
        const yk_node *n = &src->node[k];
        const yk__vid r = n->n_out ? yk__root(src, yk__outs(src, n)[0]) : 0;
        bool only = is_elementwise(fuse, n) && n->op != YK_OP_DROPOUT && fuse->uses.readers[r] && !fuse->uses.kept[r];
        uint8_t row = 0;
        for (uint32_t i = fuse->reader_begin[r]; only && i < fuse->reader_begin[r + 1]; i++) {
            const uint32_t q = fuse->reader[i];
            row = fuse->inlined[q] > row ? fuse->inlined[q] : row;
            only = fuse->inlined[q] || (src->node[q].op == YK_OP_SUM && own_root(fuse, &src->node[q]));
        }
        fuse->inlined[k] = only && row < YK__FUSE_DEPTH ? (uint8_t)(row + 1) : 0;
    }
}

static void gather_clusters(yk__fuse *fuse)
{
    const yk__graph *src = fuse->remap.src;
    for (uint32_t k = 0; k < src->n_node; k++)
        begin_cluster(fuse, k);
    for (uint32_t k = 0; k < src->n_node; k++) {
        if (fuse->inlined[k])
            continue;
        if (src->node[k].op != YK_OP_DOT && fuse->cluster[k].kind == YK__FUSE_MAP)
            join_makers(fuse, k);
        else if (fuse->cluster[k].kind == YK__FUSE_SUM)
            join_sums(fuse, k);
    }
    for (uint32_t k = 0; k < src->n_node; k++)
        if (!fuse->inlined[k] && fuse->cluster[k].kind == YK__FUSE_MAP)
            join_backward(fuse, k);
}

static void fuse_all(yk__fuse *fuse)
{
    const yk__graph *src = fuse->remap.src;
    memset(fuse->last_sum, 0xff, (src->n_value + 1) * sizeof *fuse->last_sum);
    find_readers(fuse);
    find_order(fuse);
    find_inlined(fuse);
    gather_clusters(fuse);
    for (uint32_t k = 0; k < src->n_node; k++)
        if (fuse->cluster[fuse->cluster_of[k]].tail == k && !fuse->inlined[k])
            yk__fuse_emit(fuse, fuse->cluster_of[k]);
}

static bool make_tables(yk__fuse *fuse, size_t nn, size_t nv, size_t n_read)
{
    fuse->cluster_of = yk__malloc(nn * sizeof *fuse->cluster_of);
    fuse->next = yk__malloc(nn * sizeof *fuse->next);
    fuse->cluster = yk__calloc(nn, sizeof *fuse->cluster);
    fuse->inlined = yk__calloc(nn, 1);
    fuse->reader = yk__malloc(n_read * sizeof *fuse->reader);
    fuse->reader_begin = yk__calloc(nv + 1, sizeof *fuse->reader_begin);
    fuse->older_writer = yk__malloc(nn * sizeof *fuse->older_writer);
    fuse->reduce_before = yk__malloc(nn * sizeof *fuse->reduce_before);
    fuse->first_overwrite = yk__malloc(nn * sizeof *fuse->first_overwrite);
    fuse->last_sum = yk__malloc(nv * sizeof *fuse->last_sum);
    fuse->seen = yk__calloc(nn, sizeof *fuse->seen);
    return fuse->cluster_of && fuse->next && fuse->cluster && fuse->inlined && fuse->reader && fuse->reader_begin && fuse->older_writer &&
           fuse->reduce_before && fuse->first_overwrite && fuse->last_sum && fuse->seen;
}

static void free_tables(yk__fuse *fuse)
{
    yk__free(fuse->cluster_of);
    yk__free(fuse->next);
    yk__free(fuse->cluster);
    yk__free(fuse->inlined);
    yk__free(fuse->reader);
    yk__free(fuse->reader_begin);
    yk__free(fuse->older_writer);
    yk__free(fuse->reduce_before);
    yk__free(fuse->first_overwrite);
    yk__free(fuse->last_sum);
    yk__free(fuse->seen);
    yk__uses_free(&fuse->uses);
}

yk_status yk__plan_fuse(yk__work *work, yk_error *err)
{
    yk__fuse fuse = {.work = work};
    work->plan->nodes_before = (uint32_t)work->g.n_node;
    if (!make_tables(&fuse, work->g.n_node + 1, work->g.n_value + 1, work->g.n_index + 1))
        yk__fail_mem(err, work->g.n_node * sizeof *fuse.cluster, "a plan");
    if (!err->status && !yk__uses_new(work, &fuse.uses, err) && !yk__remap_begin(&fuse.remap, work, &fuse.g, err)) {
        fuse.fuses_dropout = yk__fuse_drops(work);
        fuse_all(&fuse);
        yk__remap_end(&fuse.remap, work, err);
    }
    free_tables(&fuse);
    return err->status;
}
