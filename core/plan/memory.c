/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass that places values in the arena, the device's memory for temporaries. It computes lifetimes of roots over the order of
 * the nodes, in-place outputs, and offsets in bytes. passes.c runs it once a plan, near the end, in the step thread.
 *
 * Blocks are placed from large to small, each into the tightest gap among those whose lifetimes cross its own. This is "greedy by size"
 * (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). The arena is one address range, but no block
 * crosses a multiple of the device's largest buffer. The arena is cut there into parts, a slot each.
 */
#include "core/plan/plan_internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

typedef struct block {
    yk__vid root; /* root of the first value in it */
    uint32_t begin, end;
    uint64_t bytes, offset;
} block;

typedef struct layout {
    yk__work *work;
    yk__uses uses;
    uint32_t *first; /* by root: node that first writes it */
    yk__vid *owner;  /* by root: the root whose block it uses */
    block *block;    /* by size, then begin */
    uint32_t *order; /* placed blocks by offset */
    uint32_t n_block, n_order;
    uint64_t part; /* largest size of a part, bytes */
} layout;

static bool in_arena(const yk__graph *g, yk__vid root)
{
    return g->value[root].slot == YK_NONE;
}

/* True if v lies in its root as w does in w's root: a matrix with padded rows, and its gradient (padding.c). */
static bool lies_alike(const yk__graph *g, yk__vid v, yk__vid w)
{
    const yk_value *x = &g->value[v], *y = &g->value[w];
    return yk__value_same_shape(x, y) && !memcmp(x->stride, y->stride, x->dims * sizeof *x->stride) &&
           x->offset - g->value[yk__root(g, v)].offset == y->offset - g->value[yk__root(g, w)].offset;
}

/* True if every operand of the node in root x is all of it, or has the layout of its result. Then element i is read before element i
 * is written. */
static bool reads_whole(const yk__graph *g, const yk_node *n, yk__vid x)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(g, n)[i];
        if (yk__root(g, v) == x && !yk__whole(g, v) && (n->op != YK_OP_CROSS_ENTROPY_BWD || !lies_alike(g, v, yk__outs(g, n)[0])))
            return false;
    }
    return true;
}

static bool fits_in_place(const layout *arena, const yk_node *n, uint32_t k, yk__vid x, yk__vid y)
{
    const yk__graph *g = &arena->work->g;
    return in_arena(g, x) && arena->first[x] != YK_NONE && arena->uses.last[arena->owner[x]] == k && arena->first[y] == k &&
           yk__value_bytes(&g->value[x]) == yk__value_bytes(&g->value[y]) &&
           yk_dtype_bytes(g->value[x].dtype) == yk_dtype_bytes(g->value[y].dtype) && reads_whole(g, n, x);
}

/* Lets output y reuse the memory of an operand that dies here. */
static void share_operand(layout *arena, const yk_node *n, uint32_t k, yk__vid y)
{
    const yk__graph *g = &arena->work->g;
    const bool loss = n->op == YK_OP_CROSS_ENTROPY_BWD; /* reuses the logits, operand 1 */
    for (uint32_t i = loss; i < (loss ? 2u : n->n_in); i++) {
        const yk__vid x = yk__root(g, yk__ins(g, n)[i]);
        if (x == y || !fits_in_place(arena, n, k, x, y))
            continue;
        arena->owner[y] = arena->owner[x];
        arena->uses.last[arena->owner[x]] = arena->uses.last[y];
        return;
    }
}

/* Assigns owners. last[] of an owner is that of its whole chain: a chain grows only at its end, so the newest value's last[] is enough. */
static void find_chains(layout *arena)
{
    const yk__graph *g = &arena->work->g;
    yk__plan_away_lives(arena->work, 0, &arena->uses, arena->first);
    for (uint32_t i = 0; i < arena->work->plan->n_away; i++)
        arena->owner[arena->work->plan->away[i].to] = arena->work->plan->away[i].to;
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

static yk_status block_refuse(const layout *arena, const block *x, yk_error *err)
{
    const yk__graph *g = &arena->work->g;
    const yk_device_caps *caps = arena->work->request->caps;
    char shape[100];
    return yk__fail(err, YK_E_MEM, "%s: a result of %s, %s, has %llu bytes; the device's largest buffer has %llu: take fewer rows at once",
                    caps->name, yk__op_info_of(g->node[x->begin].op)->name,
                    yk__value_shape_text(&g->value[x->root], shape, sizeof shape),
                    (unsigned long long)yk__value_bytes(&g->value[x->root]), (unsigned long long)caps->max_alloc);
}

static yk_status list_blocks(layout *arena, yk_error *err)
{
    const yk__graph *g = &arena->work->g;
    const yk_device_caps *caps = arena->work->request->caps;
    const uint64_t align = caps->align > 256 ? caps->align : 256;
    arena->part = caps->max_alloc ? caps->max_alloc / align * align : UINT64_MAX;
    for (yk__vid v = 0; v < g->n_value; v++)
        if (arena->first[v] != YK_NONE && arena->owner[v] == v)
            arena->block[arena->n_block++] =
                (block){v, arena->first[v], arena->uses.last[v], (yk__value_bytes(&g->value[v]) + align - 1) / align * align, 0};
    qsort(arena->block, arena->n_block, sizeof *arena->block, by_size);
    if (arena->n_block && arena->block[0].bytes > arena->part)
        return block_refuse(arena, &arena->block[0], err);
    return YK_OK;
}

/* The least offset from `at` on for a block that stays in one part. */
static uint64_t part_fit(const layout *arena, uint64_t at, uint64_t bytes)
{
    const uint64_t left = arena->part - at % arena->part;
    return bytes <= left ? at : at + left;
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
        if (y->offset >= end + x->bytes && y->offset - end < best && y->offset >= part_fit(arena, end, x->bytes) + x->bytes) {
            best = y->offset - end;
            at = part_fit(arena, end, x->bytes);
        }
        if (y->offset + y->bytes > end)
            end = y->offset + y->bytes;
    }
    x->offset = at == UINT64_MAX ? part_fit(arena, end, x->bytes) : at;
    while (where > 0 && arena->block[arena->order[where - 1]].offset > x->offset)
        where--;
    memmove(arena->order + where + 1, arena->order + where, (arena->n_order - where) * sizeof *arena->order);
    arena->order[where] = b;
    arena->n_order++;
}

/* Makes a slot for each part, of the needed length: slot 0 is the first, the other parts follow the existing slots. */
static yk_status make_parts(layout *arena, yk_error *err)
{
    yk__work *work = arena->work;
    work->n_arena = 1;
    work->arena_slot = (uint32_t)work->g.n_slot;
    for (uint32_t b = 0; b < arena->n_block; b++)
        for (; arena->block[b].offset / arena->part >= work->n_arena; work->n_arena++)
            if (yk__slot_new(&work->g, YK_SLOT_ARENA, 0, work->n_arena) == YK_NONE)
                return *err = work->g.error, err->status;
    for (uint32_t b = 0; b < arena->n_block; b++) {
        const block *x = &arena->block[b];
        yk_slot *s = &work->g.slot[yk__arena_slot(work->arena_slot, (uint32_t)(x->offset / arena->part))];
        const uint64_t end = x->offset % arena->part + x->bytes;
        s->bytes = end > s->bytes ? end : s->bytes;
    }
    for (uint32_t i = 0; i < work->n_arena; i++)
        work->arena_bytes += work->g.slot[yk__arena_slot(work->arena_slot, i)].bytes;
    return YK_OK;
}

/* Gives roots their block's slot and offset, views their root's. */
static void write_offsets(layout *arena)
{
    yk__graph *g = &arena->work->g;
    for (uint32_t b = 0; b < arena->n_block; b++) {
        yk_value *root = &g->value[arena->block[b].root];
        root->slot = yk__arena_slot(arena->work->arena_slot, (uint32_t)(arena->block[b].offset / arena->part));
        root->offset = arena->block[b].offset % arena->part;
    }
    for (yk__vid v = 0; v < g->n_value; v++) {
        const yk__vid r = yk__root(g, v);
        if (arena->first[r] == YK_NONE || r == v)
            continue;
        g->value[v].slot = g->value[arena->owner[r]].slot;
        g->value[v].offset += g->value[arena->owner[r]].offset;
    }
    for (yk__vid v = 0; v < g->n_value; v++)
        if (arena->first[v] != YK_NONE) {
            g->value[v].slot = g->value[arena->owner[v]].slot;
            g->value[v].offset = g->value[arena->owner[v]].offset;
        }
}

/* Bytes that forward leaves for backward: blocks alive across the end of the last node of the trace itself. */
static uint64_t sum_kept(const layout *arena)
{
    uint64_t sum = 0;
    const uint32_t end = yk__forward_end(arena->work);
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
        list_blocks(&arena, err);
        for (uint32_t b = 0; b < arena.n_block && !err->status; b++)
            place_block(&arena, b);
        if (!err->status && !make_parts(&arena, err)) {
            write_offsets(&arena);
            work->kept_bytes = sum_kept(&arena);
        }
    }
    yk__uses_free(&arena.uses);
    yk__free(arena.order);
    yk__free(arena.block);
    yk__free(arena.owner);
    yk__free(arena.first);
    return err->status;
}
