/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena: lifetimes of roots over the order of the nodes, in-place outputs, and offsets.
 *
 * Blocks are placed from large to small, each into the tightest gap among those whose lifetimes cross its own (greedy by
 * size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
 */
#include "core/plan/internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

typedef struct block {
    yk__vid root; /* of the first value in it */
    uint32_t begin, end;
    uint64_t bytes, offset;
} block;

typedef struct layout {
    yk__work *w;
    yk__uses u;
    uint32_t *first; /* by root: node that first writes it */
    yk__vid *owner;  /* by root: whose block it lies in */
    block *block;    /* by size, then begin */
    uint32_t *order; /* placed blocks by offset */
    uint32_t n_block, n_order;
} layout;

static bool in_arena(const yk__graph *g, yk__vid root)
{
    return g->value[root].slot == YK_NONE;
}

/* Every operand of the node that lies in root x is all of it, so that element i is read before element i is written. */
static bool reads_whole(const yk__graph *g, const yk_node *n, yk__vid x)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (yk__root(g, yk__ins(g, n)[i]) == x && !yk__whole(g, yk__ins(g, n)[i]))
            return false;
    return true;
}

static bool fits_in_place(const layout *l, const yk_node *n, uint32_t k, yk__vid x, yk__vid y)
{
    const yk__graph *g = &l->w->g;
    return in_arena(g, x) && l->first[x] != YK_NONE && l->u.last[l->owner[x]] == k && l->first[y] == k &&
           yk__value_bytes(&g->value[x]) == yk__value_bytes(&g->value[y]) &&
           yk_dtype_bytes(g->value[x].dtype) == yk_dtype_bytes(g->value[y].dtype) && reads_whole(g, n, x);
}

/* Lets output y take the place of a dying operand. */
static void share_operand(layout *l, const yk_node *n, uint32_t k, yk__vid y)
{
    const yk__graph *g = &l->w->g;
    const bool loss = n->op == YK_OP_CROSS_ENTROPY_BWD; /* over the logits, operand 1 */
    for (uint32_t i = loss; i < (loss ? 2u : n->n_in); i++) {
        const yk__vid x = yk__root(g, yk__ins(g, n)[i]);
        if (x == y || !fits_in_place(l, n, k, x, y))
            continue;
        l->owner[y] = l->owner[x];
        l->u.last[l->owner[x]] = l->u.last[y];
        return;
    }
}

/* last[] of an owner is that of its whole chain: a chain grows only at its end, so this is the last of its values. */
static void find_chains(layout *l)
{
    const yk__graph *g = &l->w->g;
    for (uint32_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        const bool can = n->op == YK_OP_MAP || yk__op_is_map(n->op) || n->op == YK_OP_ALL_REDUCE ||
                         n->op == YK_OP_CROSS_ENTROPY_BWD;
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid y = yk__root(g, yk__outs(g, n)[i]);
            if (l->first[y] != YK_NONE || !in_arena(g, y))
                continue;
            l->first[y] = k;
            l->owner[y] = y;
            if (can && l->u.writers[y] == 1)
                share_operand(l, n, k, y);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void list_blocks(layout *l)
{
    const yk__graph *g = &l->w->g;
    const uint64_t align = l->w->r->caps->align > 256 ? l->w->r->caps->align : 256;
    for (yk__vid v = 0; v < g->n_value; v++)
        if (l->first[v] != YK_NONE && l->owner[v] == v)
            l->block[l->n_block++] =
                (block){v, l->first[v], l->u.last[v], (yk__value_bytes(&g->value[v]) + align - 1) / align * align, 0};
    qsort(l->block, l->n_block, sizeof *l->block, by_size);
}

static void place_block(layout *l, uint32_t b)
{
    block *x = &l->block[b];
    uint64_t end = 0, best = UINT64_MAX, at = UINT64_MAX;
    uint32_t where = l->n_order;
    for (uint32_t i = 0; i < l->n_order; i++) {
        const block *y = &l->block[l->order[i]];
        if (y->begin > x->end || y->end < x->begin)
            continue;
        if (y->offset >= end + x->bytes && y->offset - end < best) {
            best = y->offset - end;
            at = end;
        }
        if (y->offset + y->bytes > end)
            end = y->offset + y->bytes;
    }
    x->offset = at == UINT64_MAX ? end : at;
    while (where > 0 && l->block[l->order[where - 1]].offset > x->offset)
        where--;
    memmove(l->order + where + 1, l->order + where, (l->n_order - where) * sizeof *l->order);
    l->order[where] = b;
    l->n_order++;
    if (x->offset + x->bytes > l->w->arena_bytes)
        l->w->arena_bytes = x->offset + x->bytes;
}

/* Roots get slot 0 and their block's offset, views their root's. */
static void write_offsets(layout *l)
{
    yk__graph *g = &l->w->g;
    for (uint32_t b = 0; b < l->n_block; b++)
        g->value[l->block[b].root].offset = l->block[b].offset;
    for (yk__vid v = 0; v < g->n_value; v++) {
        const yk__vid r = yk__root(g, v);
        if (l->first[r] == YK_NONE || r == v)
            continue;
        g->value[v].slot = 0;
        g->value[v].offset += g->value[l->owner[r]].offset;
    }
    for (yk__vid v = 0; v < g->n_value; v++)
        if (l->first[v] != YK_NONE) {
            g->value[v].slot = 0;
            g->value[v].offset = g->value[l->owner[v]].offset;
        }
}

/* What forward leaves behind for backward: blocks alive across the end of the last node of the trace itself. */
static uint64_t sum_kept(const layout *l)
{
    const yk__graph *g = &l->w->g;
    uint64_t sum = 0;
    uint32_t end = (uint32_t)g->n_node;
    while (end > 0 && (!l->w->info[end - 1].origin || l->w->info[end - 1].is_recomputed))
        end--;
    for (uint32_t b = 0; b < l->n_block && end; b++)
        sum += l->block[b].begin < end && l->block[b].end >= end ? l->block[b].bytes : 0;
    return sum;
}

yk_status yk__plan_memory(yk__work *w, yk_error *err)
{
    const size_t n = w->g.n_value + 1;
    layout l = {.w = w};
    l.first = yk__malloc(n * sizeof *l.first);
    l.owner = yk__malloc(n * sizeof *l.owner);
    l.block = yk__malloc(n * sizeof *l.block);
    l.order = yk__malloc(n * sizeof *l.order);
    w->arena_bytes = 0;
    if (!l.first || !l.owner || !l.block || !l.order)
        yk__fail_mem(err, n * sizeof *l.block, "a plan");
    if (!err->status && !yk__uses_new(w, &l.u, err)) {
        memset(l.first, 0xff, n * sizeof *l.first);
        find_chains(&l);
        list_blocks(&l);
        for (uint32_t b = 0; b < l.n_block; b++)
            place_block(&l, b);
        write_offsets(&l);
        w->kept_bytes = sum_kept(&l);
        w->g.slot[0].bytes = w->arena_bytes;
    }
    yk__uses_free(&l.u);
    yk__free(l.order);
    yk__free(l.block);
    yk__free(l.owner);
    yk__free(l.first);
    return err->status;
}
