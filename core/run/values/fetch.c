/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's results on their way to the host. micro.c (core/run) adds a micro batch's results, and api.c (core/run) delivers them once
 * the device has passed their point, in the step thread. A full stage or list is delivered here, too.
 *
 * Results are copied to a stage, memory that is registered with the device, so that the copy does not hold the host up. After a wait for
 * their point they are copied from the stage to their destination. If a device registers no memory, or results are larger than the stage,
 * they are copied at once.
 */
#include "core/run/values/fetch.h"

#include <string.h>

#include "core/base/mem.h"

#define STAGE_BYTES (64u << 10)

/* False if this device has no stage. */
static bool make_stage(yk__fetches *f, yk__queue *q)
{
    if (!f->stage && (q->dev->caps.flags & YK_CAP_PINS)) {
        f->stage = yk__malloc_aligned(STAGE_BYTES, 4096);
        yk__queue_pin(q, f->stage, STAGE_BYTES, &f->pin);
    }
    return f->pin != NULL;
}

void yk__fetches_done(yk__fetches *f, const yk__queue *q)
{
    while (f->first < f->n && f->list[f->first].point <= q->waited) {
        memcpy(f->list[f->first].dst, f->stage + f->list[f->first].at, f->list[f->first].bytes);
        f->first++;
    }
    if (f->first == f->n)
        f->used = f->first = f->n = 0;
}

yk_status yk__fetches_add(yk__fetches *f, yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err)
{
    if (bytes > STAGE_BYTES || !make_stage(f, q))
        return yk__queue_get(q, b, offset, dst, bytes, err);
    if (f->n == YK__FETCHES || bytes > STAGE_BYTES - f->used) {
        if (yk__queue_idle(q, err))
            return err->status;
        yk__fetches_done(f, q);
    }
    if (yk__queue_get(q, b, offset, f->stage + f->used, bytes, err))
        return err->status;
    f->list[f->n].dst = dst;
    f->list[f->n].at = f->used;
    f->list[f->n].bytes = bytes;
    f->list[f->n++].point = q->last_point;
    f->used += bytes;
    return YK_OK;
}

void yk__fetches_free(yk__fetches *f, yk__queue *q)
{
    yk__queue_unpin(q, &f->pin);
    yk__free(f->stage);
    *f = (yk__fetches){0};
}
