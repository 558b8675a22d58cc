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
    yk__work *work;
    yk__uses uses;
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

static bool fits_in_place(const layout *arena, const yk_node *n, uint32_t k, yk__vid x, yk__vid y)
{
    const yk__graph *g = &arena->work->g;
    return in_arena(g, x) && arena->first[x] != YK_NONE && arena->uses.last[arena->owner[x]] == k && arena->first[y] == k &&
           yk__value_bytes(&g->value[x]) == yk__value_bytes(&g->value[y]) &&
           yk_dtype_bytes(g->value[x].dtype) == yk_dtype_bytes(g->value[y].dtype) && reads_whole(g, n, x);
}

/* Lets output y take the place of a dying operand. */
static void share_operand(layout *arena, const yk_node *n, uint32_t k, yk__vid y)
{
    const yk__graph *g = &arena->work->g;
    const bool loss = n->op == YK_OP_CROSS_ENTROPY_BWD; /* over the logits, operand 1 */
    for (uint32_t i = loss; i < (loss ? 2u : n->n_in); i++) {
        const yk__vid x = yk__root(g, yk__ins(g, n)[i]);
        if (x == y || !fits_in_place(arena, n, k, x, y))
            continue;
        arena->owner[y] = arena->owner[x];
        arena->uses.last[arena->owner[x]] = arena->uses.last[y];
        return;
    }
}

/* last[] of an owner is that of its whole chain: a chain grows only at its end, so this is the last of its values. */
static void find_chains(layout *arena)
{
    const yk__graph *g = &arena->work->g;
    for (uint32_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        const bool can = n->op == YK_OP_MAP || yk__op_is_map(n->op) || n->op == YK_OP_ALL_REDUCE ||
                         n->op == YK_OP_CROSS_ENTROPY_BWD;
        for (uint32_t i = 0; i < n->n_out; i++) {
            const yk__vid y = yk__root(g, yk__outs(g, n)[i]);
            if (arena->first[y] != YK_NONE || !in_arena(g, y))
                continue;
            arena->first[y] = k;
            arena->owner[y] = y;
            if (can && arena->uses.writers[y] == 1)
                share_operand(arena, n, k, y);
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

static void list_blocks(layout *arena)
{
    const yk__graph *g = &arena->work->g;
    const uint64_t align = arena->work->request->caps->align > 256 ? arena->work->request->caps->align : 256;
    for (yk__vid v = 0; v < g->n_value; v++)
        if (arena->first[v] != YK_NONE && arena->owner[v] == v)
            arena->block[arena->n_block++] =
                (block){v, arena->first[v], arena->uses.last[v], (yk__value_bytes(&g->value[v]) + align - 1) / align * align, 0};
    qsort(arena->block, arena->n_block, sizeof *arena->block, by_size);
}

static void place_block(layout *arena, uint32_t b)
{
    block *x = &arena->block[b];
    uint64_t end = 0, best = UINT64_MAX, at = UINT64_MAX;
    uint32_t where = arena->n_order;
    for (uint32_t i = 0; i < arena->n_order; i++) {
        const block *y = &arena->block[arena->order[i]];
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
    while (where > 0 && arena->block[arena->order[where - 1]].offset > x->offset)
        where--;
    memmove(arena->order + where + 1, arena->order + where, (arena->n_order - where) * sizeof *arena->order);
    arena->order[where] = b;
    arena->n_order++;
    if (x->offset + x->bytes > arena->work->arena_bytes)
        arena->work->arena_bytes = x->offset + x->bytes;
}

/* Roots get slot 0 and their block's offset, views their root's. */
static void write_offsets(layout *arena)
{
    yk__graph *g = &arena->work->g;
    for (uint32_t b = 0; b < arena->n_block; b++)
        g->value[arena->block[b].root].offset = arena->block[b].offset;
    for (yk__vid v = 0; v < g->n_value; v++) {
        const yk__vid r = yk__root(g, v);
        if (arena->first[r] == YK_NONE || r == v)
            continue;
        g->value[v].slot = 0;
        g->value[v].offset += g->value[arena->owner[r]].offset;
    }
    for (yk__vid v = 0; v < g->n_value; v++)
        if (arena->first[v] != YK_NONE) {
            g->value[v].slot = 0;
            g->value[v].offset = g->value[arena->owner[v]].offset;
        }
}

/* What forward leaves behind for backward: blocks alive across the end of the last node of the trace itself. */
static uint64_t sum_kept(const layout *arena)
{
    const yk__graph *g = &arena->work->g;
    uint64_t sum = 0;
    uint32_t end = (uint32_t)g->n_node;
    while (end > 0 && (!arena->work->info[end - 1].origin || arena->work->info[end - 1].is_recomputed))
        end--;
    for (uint32_t b = 0; b < arena->n_block && end; b++)
        sum += arena->block[b].begin < end && arena->block[b].end >= end ? arena->block[b].bytes : 0;
    return sum;
}

yk_status yk__plan_memory(yk__work *work, yk_error *err)
{
    const size_t n = work->g.n_value + 1;
    layout arena = {.work = work};
    arena.first = yk__malloc(n * sizeof *arena.first);
    arena.owner = yk__malloc(n * sizeof *arena.owner);
    arena.block = yk__malloc(n * sizeof *arena.block);
    arena.order = yk__malloc(n * sizeof *arena.order);
    work->arena_bytes = 0;
    if (!arena.first || !arena.owner || !arena.block || !arena.order)
        yk__fail_mem(err, n * sizeof *arena.block, "a plan");
    if (!err->status && !yk__uses_new(work, &arena.uses, err)) {
        memset(arena.first, 0xff, n * sizeof *arena.first);
        find_chains(&arena);
        list_blocks(&arena);
        for (uint32_t b = 0; b < arena.n_block; b++)
            place_block(&arena, b);
        write_offsets(&arena);
        work->kept_bytes = sum_kept(&arena);
        work->g.slot[0].bytes = work->arena_bytes;
    }
    yk__uses_free(&arena.uses);
    yk__free(arena.order);
    yk__free(arena.block);
    yk__free(arena.owner);
    yk__free(arena.first);
    return err->status;
}
