/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers for the parts of the arena, the device's memory for temporaries (arena.h); sizes are bytes.
 *
 * instance.c calls yk__arena_reserve before each run of a program, in the step thread. Parts grow to the largest plan and stay. A new pair
 * of plans that would pass the memory limit frees them all first. update.c frees them if moments need the memory.
 */
#include "core/run/arena.h"

#include <string.h>

#include "core/base/mem.h"

static yk_status arena_extend(yk__arena *arena, uint32_t n, yk_error *err)
{
    if (n <= arena->n)
        return YK_OK;
    if (yk__grow(&arena->part, &arena->cap, n, sizeof *arena->part))
        return yk__fail_mem(err, n * sizeof *arena->part, "the arena");
    memset(arena->part + arena->n, 0, (n - arena->n) * sizeof *arena->part);
    arena->n = n;
    return YK_OK;
}

/* Each plan keeps to the limit by itself. The first part of one plan and the second part of another may pass it together. */
static bool passes_limit(const yk__arena *arena, const yk__queue *q, const yk__plan *plan)
{
    uint64_t more = 0;
    for (uint32_t i = 0; i < plan->n_arena; i++) {
        const uint64_t need = plan->graph.slot[yk__arena_slot(plan->arena_slot, i)].bytes;
        more += need > arena->part[i].bytes ? need - arena->part[i].bytes : 0;
    }
    return yk__queue_most(q) && more && q->held + more > yk__queue_most(q);
}

yk_status yk__arena_reserve(yk__arena *arena, yk__queue *q, const yk__plan *plan, yk_error *err)
{
    if (arena_extend(arena, plan->n_arena, err))
        return err->status;
    if (arena->n > 1 && passes_limit(arena, q, plan)) {
        if (yk__queue_idle(q, err))
            return err->status;
        yk__arena_free(arena, q);
        if (arena_extend(arena, plan->n_arena, err))
            return err->status;
    }
    for (uint32_t i = 0; i < plan->n_arena; i++) {
        yk__arena_part *part = &arena->part[i];
        const uint64_t need = plan->graph.slot[yk__arena_slot(plan->arena_slot, i)].bytes;
        if (yk__queue_reserve(q, &part->buffer, &part->bytes, need, YK__ARENA_BYTES, err))
            return err->status;
    }
    return YK_OK;
}

void yk__arena_free(yk__arena *arena, yk__queue *q)
{
    for (uint32_t i = 0; i < arena->n; i++)
        yk__queue_unbuffer(q, &arena->part[i].buffer, arena->part[i].bytes, YK__ARENA_BYTES);
    yk__free(arena->part);
    *arena = (yk__arena){0};
}
