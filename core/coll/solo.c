/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithm for collectives of a job of one rank. A request is done when it begins, and never waits. The result is the rank's own data,
 * as the same sum over one member would give it.
 *
 * request.c calls it through the table in algorithms.c, in the step thread.
 */
#include "core/coll/solo.h"

#include <string.h>

#include "core/coll/pool.h"
#include "core/coll/reduce.h"

static void reduce_own(const yk__request *request)
{
    const yk__coll_desc *d = &request->desc;
    const uint64_t begin = d->parts->begin[0];
    const void *const part[] = {(const float *)d->buffer->mem + d->offset};
    yk__reduce_slice(part, 1, begin, d->parts->begin[1] - begin, d->out, d->squares);
}

static yk_status solo_start(yk__request *request, yk_error *err)
{
    const yk__coll_desc *d = &request->desc;
    yk__coll *coll = request->comm->coll;
    if (__atomic_load_n(&coll->cancelled, __ATOMIC_ACQUIRE)) {
        *err = coll->why;
        return err->status;
    }
    if (d->kind == YK__COLL_ALL_GATHER)
        memmove(d->out, d->in, d->count * yk_dtype_bytes(d->dtype));
    if (d->kind == YK__COLL_REDUCE_SCATTER)
        reduce_own(request);
    yk__pool_finish(request);
    return YK_OK;
}

static yk_status solo_advance(yk__request *request, bool wait, yk_error *err)
{
    (void)request;
    (void)wait;
    (void)err;
    return YK_OK;
}

static bool solo_fits(const yk__comm *comm, const yk__coll_desc *desc)
{
    (void)desc;
    return !comm->coll->control;
}

const yk__coll_algorithm yk__solo_algorithm = {.name = "one rank", .fits = solo_fits, .start = solo_start, .advance = solo_advance};
