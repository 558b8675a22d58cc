/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's memory for the temporaries of programs, which take turns in it. Each part of the arena (plan.h) has a buffer, as large as
 * the greediest program needs. One engine has one arena.
 */
#ifndef YOKE_CORE_RUN_ARENA_H
#define YOKE_CORE_RUN_ARENA_H

#include "core/plan/plan.h"
#include "core/run/queue.h"

typedef struct yk__arena_part {
    yk_buffer *buffer;
    uint64_t bytes;
} yk__arena_part;

typedef struct yk__arena {
    yk__arena_part *part;
    size_t cap;
    uint32_t n;
} yk__arena;

/* Call it before a program of that plan runs. It waits for the device before it frees a buffer. */
yk_status yk__arena_reserve(yk__arena *arena, yk__queue *q, const yk__plan *plan, yk_error *err);
void yk__arena_free(yk__arena *arena, yk__queue *q); /* the device is idle */

#endif
