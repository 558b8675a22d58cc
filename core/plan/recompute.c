/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass for recomputation (also called activation checkpointing). Backward reads values of a block of forward nodes. It
 * computes them again, right before their first use there, from the values that enter the block. The source is Chen et al., "Training deep
 * nets with sublinear memory cost", 2016. Random numbers depend on counters alone, so the second computation gives the same bits.
 *
 * Stored all the same: values that forward nodes outside of the block read, values that the caller needs, and sums over ranks.
 *
 * Without a request the pass recomputes large values that one pass over memory makes from stored values. Such are copies in another
 * order or format. So are an activation function and a layer's normalisation, unless the request keeps them. Each such chain is a block by
 * itself. passes.c runs it in the step thread, anew with more blocks if the plan passes the memory limit.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

#define LARGE (64u << 10) /* least bytes that pay for a recomputed node, if the request gives no number */

typedef struct recomputing {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
    uint32_t *block;  /* by node: its block + 1 */
    uint32_t *of;     /* by root: block + 1 whose nodes write it, if it can be recomputed */
    yk__vid *copy;    /* by value: its second computation */
    bool *need;       /* by root: backward recomputes it */
    bool *emitted;    /* by block: its second computation exists */
    bool *read;       /* by root: backward reads it */
} recomputing;

static uint32_t block_of(const recomputing *state, const yk_node *n)
{
    const uint32_t at = yk__info_of(&state->remap, n)->origin - 1;
    if (!yk__is_forward(&state->remap, n))
        return 0;
    for (uint32_t b = 0; b < state->work->n_block; b++)
        if (at >= state->work->block[b].begin && at < state->work->block[b].end)
            return b + 1;
    return 0;
}

static bool is_repeated(const recomputing *state, uint32_t node, yk__vid root)
{
    return state->block[node] && state->block[node] == state->of[root] && !yk__op_over_ranks(state->remap.src->node[node].op);
}

/* Finds roots that one block alone writes, and that only this block and backward read. A padded value has several writers: a fill, then
 * copies. */
static void find_inner(recomputing *state)
{
    const yk__graph *src = state->remap.src;
    for (uint32_t k = 0; k < src->n_node; k++) {
        const yk_node *n = &src->node[k];
        state->block[k] = block_of(state, n);
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid r = yk__root(src, yk__outs(src, n)[i]);
            if (!state->uses.kept[r] && src->value[r].slot == YK_NONE)
                state->of[r] = state->block[k];
        }
    }
    for (uint32_t k = 0; k < src->n_node; k++) {
        const yk_node *n = &src->node[k];
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid r = yk__root(src, yk__outs(src, n)[i]);
            state->of[r] = is_repeated(state, k, r) ? state->of[r] : 0;
        }
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid r = yk__root(src, yk__ins(src, n)[i]);
            if (yk__is_forward(&state->remap, n) && state->block[k] != state->of[r])
                state->of[r] = 0;
        }
    }
}

/* ---- Chains of cheap nodes ---- */

/* casts_no_weight is true also for a weight that is pulled for a time, as each use casts it again. */
static bool casts_no_weight(const recomputing *state, uint32_t slot)
{
    return slot == YK_NONE || yk__plan_pulled(state->work->request, &state->remap.src->slot[slot]) != YK_NONE;
}

static bool is_cheap(const recomputing *state, const yk_node *n)
{
    const yk__graph *src = state->remap.src;
    switch ((yk__op_cheap)yk__op_traits_of(n->op)->cheap) {
    case YK_CHEAP_NO:
        return false;
    case YK_CHEAP_CAST: /* a weight in 16 bits is kept to save the time of another pass, unless memory is short */
        return state->work->lean || casts_no_weight(state, src->value[yk__root(src, yk__ins(src, n)[0])].slot);
    case YK_CHEAP_COPY:
        return n->n_in == 1;
    case YK_CHEAP_AGAIN:
        return !state->work->request->keep_cheap;
    }
    return false;
}

/* True if the operands are stored anyway, or recomputed in the chain `*block` (0: none). */
static bool at_hand(const recomputing *state, const yk_node *n, uint32_t *block)
{
    const yk__graph *src = state->remap.src;
    *block = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid r = yk__root(src, yk__ins(src, n)[i]);
        if (state->of[r] > state->work->n_block && (!*block || *block == state->of[r]))
            *block = state->of[r];
        else if (state->of[r] || (src->value[r].slot == YK_NONE && !state->read[r]))
            return false;
    }
    return true;
}

static bool is_plain(const recomputing *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, v);
    return yk__whole(src, v) && src->value[r].slot == YK_NONE && state->uses.writers[r] == 1 && !state->uses.kept[r] &&
           yk__value_bytes(&src->value[r]) >= (state->work->request->large ? state->work->request->large : LARGE);
}

static void find_cheap(recomputing *state)
{
    const yk__graph *src = state->remap.src;
    uint32_t block, n = state->work->n_block;
    for (uint32_t k = 0; k < src->n_node; k++)
        for (uint32_t i = 0; !yk__is_forward(&state->remap, &src->node[k]) && i < src->node[k].n_in; i++)
            state->read[yk__root(src, yk__ins(src, &src->node[k])[i])] = true;
    for (uint32_t k = 0; k < src->n_node; k++) {
        const yk_node *node = &src->node[k];
        if (!yk__is_forward(&state->remap, node) || state->block[k] || !is_cheap(state, node) || !is_plain(state, yk__outs(src, node)[0]) ||
            !at_hand(state, node, &block))
            continue;
        state->block[k] = block ? block : ++n;
        state->of[yk__root(src, yk__outs(src, node)[0])] = state->block[k];
    }
}

/* ---- Maxima ---- */

/* The value that v repeats in another format or order. */
static yk__vid source_of(const recomputing *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    for (;;) {
        const yk__vid r = yk__root(src, v);
        const yk_node *n = state->uses.producer[r] == YK_NONE ? NULL : &src->node[state->uses.producer[r]];
        if (!n || n->n_in != 1 || (n->op != YK_OP_CAST && n->op != YK_OP_COPY))
            return r;
        v = yk__ins(src, n)[0];
    }
}

/* Lets the block compute v again, and the forward values that v repeats. False if v is made elsewhere. */
static bool maximum_repeat(recomputing *state, yk__vid v, uint32_t block)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, v), last = source_of(state, v);
    const uint32_t p = state->uses.producer[r];
    if (yk__is_forward(&state->remap, &src->node[p])) {
        if (state->block[p] != block || state->uses.writers[r] != 1)
            return false;
        state->of[r] = block;
    }
    return r == last || maximum_repeat(state, yk__ins(src, &src->node[p])[0], block);
}

/* A maximum's gradient finds its operand's elements that equal the maximum, and divides by their number. A second computation of the
 * operand may differ in the last bit from the first, as other nodes are fused with it: then none is equal. So the block also computes
 * the maximum again, from the second computation, or the operand is stored. */
static void find_maxima(recomputing *state)
{
    const yk__graph *src = state->remap.src;
    for (uint32_t k = 0; k < src->n_node; k++)
        for (uint32_t i = 0; src->node[k].op == YK_OP_EQ && i < 2; i++) {
            const yk__vid *in = yk__ins(src, &src->node[k]), x = source_of(state, in[i]);
            const uint32_t p = state->uses.producer[source_of(state, in[1 - i])];
            if (!state->of[x] || p == YK_NONE || src->node[p].op != YK_OP_RMAX || source_of(state, yk__ins(src, &src->node[p])[0]) != x)
                continue;
            if (!maximum_repeat(state, in[1 - i], state->of[x]))
                state->of[x] = 0;
        }
}

/* ---- Recomputed values ---- */

static bool writes_needed(const recomputing *state, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (state->need[yk__root(state->remap.src, yk__outs(state->remap.src, n)[i])])
            return true;
    return false;
}

/* Finds values that backward reads, and their operands inside the block. */
static void find_needed(recomputing *state)
{
    const yk__graph *src = state->remap.src;
    for (uint32_t k = 0; k < src->n_node; k++)
        for (uint32_t i = 0; !yk__is_forward(&state->remap, &src->node[k]) && i < src->node[k].n_in; i++) {
            const yk__vid r = yk__root(src, yk__ins(src, &src->node[k])[i]);
            state->need[r] |= state->of[r] != 0;
        }
    for (size_t k = src->n_node; k-- > 0;) {
        const yk_node *n = &src->node[k];
        if (!state->block[k] || !writes_needed(state, n))
            continue;
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid r = yk__root(src, yk__ins(src, n)[i]);
            state->need[r] |= state->of[r] == state->block[k];
        }
    }
}

/* The value for a backward reader: stored or recomputed. */
static yk__vid value_again(recomputing *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, v);
    uint64_t at;
    if (!state->need[r])
        return yk__remap_value(&state->remap, v);
    if (state->copy[v] != YK_NONE)
        return state->copy[v];
    if (r == v) {
        state->copy[v] = yk__value_new(&state->g, (yk_dtype)src->value[v].dtype, src->value[v].dims, src->value[v].dim);
    } else {
        at = src->value[v].offset - src->value[r].offset;
        state->copy[v] = yk__view_like(&state->g, value_again(state, r), &src->value[v], at);
    }
    return state->copy[v];
}

static void emit_block(recomputing *state, uint32_t block);

/* emit_node first emits the blocks of its operands. Backward's nodes read blocks, and nodes of a block read chains of cheap ones. */
static void emit_node(recomputing *state, uint32_t k, bool twice)
{
    const yk__graph *src = state->remap.src;
    const yk_node *n = &src->node[k];
    yk__node_info info;
    yk__vid in[32], out[8];
    uint32_t at;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid r = yk__root(src, yk__ins(src, n)[i]);
        if (state->need[r])
            emit_block(state, state->of[r]);
    }
    for (uint32_t i = 0; i < n->n_in; i++) {
        in[i] = value_again(state, yk__ins(src, n)[i]);
        if (in[i] == YK_NONE)
            return;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid v = yk__outs(src, n)[i];
        out[i] = !twice ? yk__remap_value(&state->remap, v)
                 : state->need[yk__root(src, v)]
                     ? value_again(state, v)
                     : yk__value_new(&state->g, (yk_dtype)src->value[v].dtype, src->value[v].dims, src->value[v].dim);
    }
    state->g.stream = n->stream;
    at = yk__node_new(&state->g, (yk_op)n->op, n->flags, n->n_in, in, n->n_out, out, n->n_attr, src->attr + n->attr);
    info = *yk__info_of(&state->remap, n);
    info.is_recomputed |= twice;
    yk__remap_note(&state->remap, at, info);
}

static void emit_block(recomputing *state, uint32_t block)
{
    if (state->emitted[block])
        return;
    state->emitted[block] = true;
    for (uint32_t k = 0; k < state->remap.src->n_node; k++)
        if (state->block[k] == block && writes_needed(state, &state->remap.src->node[k]))
            emit_node(state, k, true);
}

static void emit_all(recomputing *state)
{
    const yk__graph *src = state->remap.src;
    for (uint32_t k = 0; k < src->n_node; k++) {
        if (yk__is_forward(&state->remap, &src->node[k]))
            yk__remap_node(&state->remap, k);
        else
            emit_node(state, k, false);
    }
}

yk_status yk__plan_recompute(yk__work *work, yk_error *err)
{
    const size_t nv = work->g.n_value + 1, nn = work->g.n_node + 1;
    recomputing state = {.work = work};
    state.block = yk__calloc(nn, sizeof *state.block);
    state.of = yk__calloc(nv, sizeof *state.of);
    state.copy = yk__malloc(nv * sizeof *state.copy);
    state.need = yk__calloc(nv, 1);
    state.emitted = yk__calloc(work->n_block + nn + 1, 1);
    state.read = yk__calloc(nv, 1);
    if (!state.block || !state.of || !state.copy || !state.need || !state.emitted || !state.read)
        yk__fail_mem(err, nv * 10, "a plan");
    if (!err->status && !yk__uses_new(work, &state.uses, err) && !yk__remap_begin(&state.remap, work, &state.g, err)) {
        memset(state.copy, 0xff, nv * sizeof *state.copy);
        find_inner(&state);
        find_cheap(&state);
        find_maxima(&state);
        find_needed(&state);
        emit_all(&state);
        yk__remap_end(&state.remap, work, err);
    }
    yk__uses_free(&state.uses);
    yk__free(state.read);
    yk__free(state.emitted);
    yk__free(state.need);
    yk__free(state.copy);
    yk__free(state.of);
    yk__free(state.block);
    return err->status;
}

/* ---- Blocks chosen for a limit ---- */

/* Bytes alive in forward across each node's end: the cost of a cut there. */
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
        for (uint32_t p = 1; p < parts; p++) { /* the last part is needed at once, so it is kept */
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
