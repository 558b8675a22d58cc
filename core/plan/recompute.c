/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputation: what backward reads of a block of forward nodes is computed again, right before its first use there,
 * from the values that enter the block (Chen et al., "Training deep nets with sublinear memory cost", 2016). Random
 * numbers depend on counters alone, so that the second computation gives the same bits.
 *
 * Stored all the same: what other forward nodes outside of the block read, what is wanted from outside, and sums over
 * ranks.
 *
 * Without being asked: large values that one pass over memory makes from what is stored anyway (an activation function
 * from its operand, a layer's normalisation, a copy in another order or format). Each such chain is a block of its own.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/internal.h"

#define LARGE (64u << 10) /* bytes that are worth a node, if the request names none */

typedef struct recomputing {
    yk__work *w;
    yk__remap m;
    yk__graph g;
    yk__uses u;
    uint32_t *block;  /* by node: its block + 1 */
    uint32_t *of;     /* by root: block whose nodes write it + 1, where it can be made again */
    yk__vid *copy;    /* by value: its second computation */
    bool *need;       /* by root: is computed again */
    bool *emitted;    /* by block */
    bool *read;       /* by root: backward reads it */
} recomputing;

static uint32_t block_of(const recomputing *a, const yk_node *n)
{
    const uint32_t at = yk__info_of(&a->m, n)->origin - 1;
    if (!yk__is_forward(&a->m, n))
        return 0;
    for (uint32_t b = 0; b < a->w->n_block; b++)
        if (at >= a->w->block[b].begin && at < a->w->block[b].end)
            return b + 1;
    return 0;
}

/* Roots that only their block and backward read. */
static void find_inner(recomputing *a)
{
    const yk__graph *s = a->m.src;
    for (uint32_t k = 0; k < s->n_node; k++) {
        const yk_node *n = &s->node[k];
        a->block[k] = block_of(a, n);
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid r = yk__root(s, yk__outs(s, n)[i]);
            if (a->block[k] && n->op != YK_OP_ALL_REDUCE && !a->u.kept[r] && s->value[r].slot == YK_NONE)
                a->of[r] = a->block[k];
        }
    }
    for (uint32_t k = 0; k < s->n_node; k++)
        for (uint32_t i = 0; i < s->node[k].n_in; i++) {
            const yk__vid r = yk__root(s, yk__ins(s, &s->node[k])[i]);
            if (yk__is_forward(&a->m, &s->node[k]) && a->block[k] != a->of[r])
                a->of[r] = 0;
        }
}

/* ---- Chains of cheap nodes ---- */

static bool is_cheap(const recomputing *a, const yk_node *n)
{
    const yk__graph *s = a->m.src;
    if (n->op == YK_OP_CAST) /* a weight in 16 bits is worth more than the time for another pass, but where memory is short */
        return a->w->lean || s->value[yk__root(s, yk__ins(s, n)[0])].slot == YK_NONE;
    return n->op == YK_OP_GELU || n->op == YK_OP_GELU_TANH || n->op == YK_OP_SILU || n->op == YK_OP_LAYER_NORM ||
           (n->op == YK_OP_COPY && n->n_in == 1);
}

/* The operands are stored anyway, or made again in the chain `*block` (0: in none). */
static bool at_hand(const recomputing *a, const yk_node *n, uint32_t *block)
{
    const yk__graph *s = a->m.src;
    *block = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid r = yk__root(s, yk__ins(s, n)[i]);
        if (a->of[r] > a->w->n_block && (!*block || *block == a->of[r]))
            *block = a->of[r];
        else if (a->of[r] || (s->value[r].slot == YK_NONE && !a->read[r]))
            return false;
    }
    return true;
}

static bool is_plain(const recomputing *a, yk__vid v)
{
    const yk__graph *s = a->m.src;
    const yk__vid r = yk__root(s, v);
    return yk__whole(s, v) && s->value[r].slot == YK_NONE && a->u.writers[r] == 1 && !a->u.kept[r] &&
           yk__value_bytes(&s->value[r]) >= (a->w->r->large ? a->w->r->large : LARGE);
}

static void find_cheap(recomputing *a)
{
    const yk__graph *s = a->m.src;
    uint32_t block, n = a->w->n_block;
    for (uint32_t k = 0; k < s->n_node; k++)
        for (uint32_t i = 0; !yk__is_forward(&a->m, &s->node[k]) && i < s->node[k].n_in; i++)
            a->read[yk__root(s, yk__ins(s, &s->node[k])[i])] = true;
    for (uint32_t k = 0; k < s->n_node; k++) {
        const yk_node *node = &s->node[k];
        if (!yk__is_forward(&a->m, node) || a->block[k] || !is_cheap(a, node) || !is_plain(a, yk__outs(s, node)[0]) ||
            !at_hand(a, node, &block))
            continue;
        a->block[k] = block ? block : ++n;
        a->of[yk__root(s, yk__outs(s, node)[0])] = a->block[k];
    }
}

/* ---- What is made again ---- */

static bool writes_needed(const recomputing *a, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (a->need[yk__root(a->m.src, yk__outs(a->m.src, n)[i])])
            return true;
    return false;
}

/* What backward reads, and what that is made of inside the block. */
static void find_needed(recomputing *a)
{
    const yk__graph *s = a->m.src;
    for (uint32_t k = 0; k < s->n_node; k++)
        for (uint32_t i = 0; !yk__is_forward(&a->m, &s->node[k]) && i < s->node[k].n_in; i++) {
            const yk__vid r = yk__root(s, yk__ins(s, &s->node[k])[i]);
            a->need[r] |= a->of[r] != 0;
        }
    for (size_t k = s->n_node; k-- > 0;) {
        const yk_node *n = &s->node[k];
        if (!a->block[k] || !writes_needed(a, n))
            continue;
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid r = yk__root(s, yk__ins(s, n)[i]);
            a->need[r] |= a->of[r] == a->block[k];
        }
    }
}

/* The value as backward reads it. */
static yk__vid value_again(recomputing *a, yk__vid v)
{
    const yk__graph *s = a->m.src;
    const yk__vid r = yk__root(s, v);
    uint64_t at;
    if (!a->need[r])
        return yk__remap_value(&a->m, v);
    if (a->copy[v] != YK_NONE)
        return a->copy[v];
    if (r == v) {
        a->copy[v] = yk__value_new(&a->g, (yk_dtype)s->value[v].dtype, s->value[v].dims, s->value[v].dim);
    } else {
        at = s->value[v].offset - s->value[r].offset;
        a->copy[v] = yk__view_like(&a->g, value_again(a, r), &s->value[v], at);
    }
    return a->copy[v];
}

static void emit_node(recomputing *a, uint32_t k, bool twice)
{
    const yk__graph *s = a->m.src;
    const yk_node *n = &s->node[k];
    yk__node_info info;
    yk__vid in[32], out[8];
    uint32_t at;
    for (uint32_t i = 0; i < n->n_in; i++) {
        in[i] = value_again(a, yk__ins(s, n)[i]);
        if (in[i] == YK_NONE)
            return;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid v = yk__outs(s, n)[i];
        out[i] = !twice ? yk__remap_value(&a->m, v)
                 : a->need[yk__root(s, v)]
                     ? value_again(a, v)
                     : yk__value_new(&a->g, (yk_dtype)s->value[v].dtype, s->value[v].dims, s->value[v].dim);
    }
    a->g.stream = n->stream;
    at = yk__node_new(&a->g, (yk_op)n->op, n->flags, n->n_in, in, n->n_out, out, n->n_attr, s->attr + n->attr);
    info = *yk__info_of(&a->m, n);
    info.is_recomputed |= twice;
    yk__remap_note(&a->m, at, info);
}

static void emit_block(recomputing *a, uint32_t block)
{
    if (a->emitted[block])
        return;
    a->emitted[block] = true;
    for (uint32_t k = 0; k < a->m.src->n_node; k++)
        if (a->block[k] == block && writes_needed(a, &a->m.src->node[k]))
            emit_node(a, k, true);
}

static void emit_all(recomputing *a)
{
    const yk__graph *s = a->m.src;
    for (uint32_t k = 0; k < s->n_node; k++) {
        const yk_node *n = &s->node[k];
        if (yk__is_forward(&a->m, n)) {
            yk__remap_node(&a->m, k);
            continue;
        }
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid r = yk__root(s, yk__ins(s, n)[i]);
            if (a->need[r])
                emit_block(a, a->of[r]);
        }
        emit_node(a, k, false);
    }
}

yk_status yk__plan_recompute(yk__work *w, yk_error *err)
{
    const size_t nv = w->g.n_value + 1, nn = w->g.n_node + 1;
    recomputing a = {.w = w};
    a.block = yk__calloc(nn, sizeof *a.block);
    a.of = yk__calloc(nv, sizeof *a.of);
    a.copy = yk__malloc(nv * sizeof *a.copy);
    a.need = yk__calloc(nv, 1);
    a.emitted = yk__calloc(w->n_block + nn + 1, 1);
    a.read = yk__calloc(nv, 1);
    if (!a.block || !a.of || !a.copy || !a.need || !a.emitted || !a.read)
        yk__fail_mem(err, nv * 10, "a plan");
    if (!err->status && !yk__uses_new(w, &a.u, err) && !yk__remap_begin(&a.m, w, &a.g, err)) {
        memset(a.copy, 0xff, nv * sizeof *a.copy);
        find_inner(&a);
        find_cheap(&a);
        find_needed(&a);
        emit_all(&a);
        yk__remap_end(&a.m, w, err);
    }
    yk__uses_free(&a.u);
    yk__free(a.read);
    yk__free(a.emitted);
    yk__free(a.need);
    yk__free(a.copy);
    yk__free(a.of);
    yk__free(a.block);
    return err->status;
}

/* ---- Blocks chosen for a limit ---- */

/* Bytes alive in forward across each node's end: what a cut there would store. */
static void find_crossing(const yk__graph *t, uint64_t *cross, uint32_t *first, uint32_t *last)
{
    for (uint32_t k = 0; k < t->n_node; k++) {
        for (uint32_t i = 0; i < t->node[k].n_in; i++)
            last[yk__root(t, yk__ins(t, &t->node[k])[i])] = k;
        for (uint32_t i = 0; i < t->node[k].n_out; i++) {
            const yk__vid r = yk__root(t, yk__outs(t, &t->node[k])[i]);
            first[r] = first[r] == YK_NONE ? k : first[r];
        }
    }
    for (yk__vid v = 0; v < t->n_value; v++) {
        if (t->value[v].base != v || first[v] == YK_NONE || last[v] == YK_NONE || last[v] <= first[v])
            continue;
        cross[first[v]] += yk__value_bytes(&t->value[v]); /* differences; summed up below */
        cross[last[v]] -= yk__value_bytes(&t->value[v]);
    }
    for (uint32_t k = 1; k < t->n_node; k++)
        cross[k] += cross[k - 1];
}

/* The cheapest cut near `want`. */
static uint32_t cut_near(const uint64_t *cross, uint32_t n, uint32_t want, uint32_t reach, uint32_t after)
{
    const uint32_t from = want > reach + after ? want - reach : after, to = want + reach < n ? want + reach : n;
    uint32_t best = from;
    for (uint32_t k = from; k < to; k++)
        if (cross[k] < cross[best])
            best = k;
    return best;
}

yk_status yk__plan_blocks(const yk__graph *t, uint32_t parts, yk__recompute *block, uint32_t *n_block, yk_error *err)
{
    const uint32_t n = (uint32_t)t->n_node;
    uint64_t *cross = yk__calloc(n + 1ull, sizeof *cross);
    uint32_t *first = yk__malloc((t->n_value + 1) * sizeof *first), *last = yk__malloc((t->n_value + 1) * sizeof *last);
    uint32_t begin = 0;
    *n_block = 0;
    if (!cross || !first || !last) {
        yk__fail_mem(err, n * sizeof *cross, "a plan");
    } else {
        memset(first, 0xff, (t->n_value + 1) * sizeof *first);
        memset(last, 0xff, (t->n_value + 1) * sizeof *last);
        find_crossing(t, cross, first, last);
        for (uint32_t p = 1; p < parts; p++) { /* the last part is needed at once: it is kept */
            const uint32_t want = (uint32_t)((uint64_t)n * p / parts);
            const uint32_t end = cut_near(cross, n, want, n / (2 * parts) + 1, begin) + 1;
            if (end > begin + 1 && end < n)
                block[(*n_block)++] = (yk__recompute){begin, end};
            begin = end;
        }
    }
    yk__free(last);
    yk__free(first);
    yk__free(cross);
    return err->status;
}
