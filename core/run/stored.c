/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps values on the host between their use in forward and in backward: their memory, and the copies there and back
 * (`--offload activations=host`).
 *
 * The planner (core/plan/away.c) lists the values. exec.c starts the copies as actions STORE and LOAD (table in actions.c), and instance.c
 * reserves and frees the memory. exec.c and instance.c call in the step thread. With pinned memory the device queues each copy behind its
 * earlier commands, and the thread does not wait. Without pinned memory the driver may read host memory at once, so the copy back first
 * waits until the copy out has ended.
 */
#include "core/run/stored.h"

#include "core/base/mem.h"
#include "core/run/exec.h"

yk_status yk__stored_reserve(yk__stored *s, yk__queue *q, uint64_t bytes, yk_error *err)
{
    if (bytes <= s->bytes || (s->bytes && yk__queue_idle(q, err)))
        return err->status;
    yk__stored_free(s, q);
    if (!q->dev->plans_only) {
        s->host = yk__malloc_aligned(bytes, 4096);
        if (!s->host)
            return yk__fail(err, YK_E_MEM, "activations=host: expected %llu bytes of host memory for a step's activations, got none: "
                            "take a smaller batch, or --gradient-checkpointing", (unsigned long long)bytes);
        yk__queue_pin(q, s->host, bytes, &s->pin);
    }
    s->bytes = bytes;
    return YK_OK;
}

void yk__stored_free(yk__stored *s, yk__queue *q)
{
    yk__queue_unpin(q, &s->pin);
    yk__free(s->host);
    *s = (yk__stored){0};
}

/* The place of a value in the arena. */
static yk_buffer *value_place(const yk__exec *exec, const yk__plan *plan, yk__vid v, uint64_t *offset)
{
    const yk_value *x = &plan->graph.value[v];
    *offset = x->offset;
    return exec->instance.arena.lane[plan->graph.slot[x->slot].key].buffer;
}

yk_status yk__store_start(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const yk__away *v = &p->plan->away[a->target];
    yk__stored *s = &exec->instance.stored;
    uint64_t offset;
    yk_buffer *from = value_place(exec, p->plan, v->from, &offset);
    if (s->host && !yk__queue_get(exec->queue, from, offset, s->host + v->offset, v->bytes, err))
        s->point = exec->queue->last_point;
    return err->status;
}

yk_status yk__load_start(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    const yk__away *v = &p->plan->away[a->target];
    const yk__stored *s = &exec->instance.stored;
    uint64_t offset;
    yk_buffer *to = value_place(exec, p->plan, v->to, &offset);
    if (!s->host || (!s->pin && yk__queue_wait(exec->queue, s->point, err)))
        return err->status;
    return yk__queue_put(exec->queue, to, offset, s->host + v->offset, v->bytes, err);
}
