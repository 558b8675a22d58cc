/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: begin, test, wait, cancel. core/run/exchange.c, core/group and core/job's host_coll.c call them in the step thread; comm.c and
 * tune.c run requests of their own there. The progress thread also drives requests over messages, between these calls (progress.c).
 *
 * A communicator holds its requests in a fixed pool, so a step allocates nothing, and lists them in the order of their begin. Requests may
 * finish in any order, with one exception. A test or wait first advances earlier broadcasts, and earlier requests that feed excluded ranks.
 */
#include "core/coll/request.h"

#include "core/coll/algorithms.h"
#include "core/coll/call.h"
#include "core/coll/feed.h"
#include "core/coll/messages/msg.h"
#include "core/coll/messages/msg_feed.h"
#include "core/coll/messages/msg_plane.h"
#include "core/coll/pool.h"

static yk_status fail_desc(const yk__call *call, const char *why, yk_error *err)
{
    return yk__fail(err, YK_E_ARG, "%s of %u times %llu elements: %s", yk__call_name(call), call->rows,
                    (unsigned long long)call->count, why);
}

static yk_status check_small(const yk__call *call, yk_error *err)
{
    if (call->rows <= YK__COLL_SMALL && call->count <= YK__COLL_SMALL && yk__call_bytes(call) <= YK__COLL_SMALL)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "a small collective of %u times %llu bytes a rank: at most %u", call->rows,
                    (unsigned long long)(call->count * yk_dtype_bytes(call->dtype)), YK__COLL_SMALL);
}

static yk_status check_reduce(const yk__coll_desc *d, const yk__call *call, yk_error *err)
{
    if (d->dtype != YK_F32 && (d->dtype != YK_F64 || d->op != YK__COLL_SUM || d->rows != 1))
        return fail_desc(call, "numbers of f32, or one row of f64 to be summed, are reduced", err);
    if (d->op == YK__COLL_MOMENTS && d->rows != 3)
        return fail_desc(call, "moments have three rows", err);
    return check_small(call, err);
}

static yk_status check_slices(const yk__comm *comm, const yk__coll_desc *d, const yk__call *call, yk_error *err)
{
    if (!d->buffer || !d->parts || d->dtype != YK_F32 || d->parts->ranks != comm->coll->size ||
        d->parts->begin[comm->coll->size] != d->count)
        return fail_desc(call, "expected a buffer of f32 and its slices", err);
    if ((d->offset + d->count) * sizeof(float) > d->buffer->bytes)
        return fail_desc(call, "the buffer is shorter", err);
    return YK_OK;
}

static yk_status check_desc(const yk__comm *comm, const yk__coll_desc *d, yk_error *err)
{
    const yk__call call = {.kind = (uint8_t)d->kind, .dtype = (uint8_t)d->dtype, .op = (uint8_t)d->op, .rows = d->rows, .count = d->count};
    switch (d->kind) {
    case YK__COLL_BARRIER:
        return YK_OK;
    case YK__COLL_BROADCAST:
        if (d->root >= comm->coll->size || !comm->has[d->root])
            return yk__fail(err, YK_E_ARG, "broadcast from rank %u of %u", d->root, comm->coll->size);
        return YK_OK;
    case YK__COLL_ALL_GATHER:
    case YK__COLL_MEMBERS:
        return check_small(&call, err);
    case YK__COLL_ALL_REDUCE:
        return check_reduce(d, &call, err);
    case YK__COLL_REDUCE_SCATTER:
    case YK__COLL_ALL_GATHERV:
        return check_slices(comm, d, &call, err);
    case YK__COLL_NONE:
    case YK__COLL_ALLOC:
        break;
    }
    return fail_desc(&call, "no such request", err);
}

static yk_status begin_checked(yk__comm *comm, const yk__coll_desc *d, const yk__coll_algorithm *algorithm, yk__request **out,
                               yk_error *err)
{
    yk__request *request;
    if (comm->id == YK__COMM_WORLD && yk__feed_meet(comm->coll, err))
        return err->status;
    request = yk__pool_take(comm);
    if (!request)
        return yk__fail(err, YK_E_ARG, "%u requests are under way on a communicator: wait for one first", YK__COLL_REQUESTS);
    request->algorithm = algorithm;
    request->desc = *d;
    yk__msg_lock(comm->coll);
    yk__call_begin(request);
    yk__pool_append(request);
    yk__msg_unlock(comm->coll);
    if (comm->id == YK__COMM_WORLD) {
        yk__feed_wake(comm->coll);
        yk__msg_feed_send(comm->coll);
    }
    if (algorithm->start(request, err)) {
        yk__pool_release(request);
        return err->status;
    }
    *out = request;
    return YK_OK;
}

static yk_status request_begin(yk__comm *comm, const yk__coll_desc *desc, yk__request **out, yk_error *err)
{
    yk__coll_desc d = *desc;
    const yk__coll_algorithm *algorithm = yk__algorithms_find(comm, desc);
    d.rows = d.rows ? d.rows : 1;
    d.pitch = d.pitch ? d.pitch : d.count;
    if (check_desc(comm, &d, err))
        return err->status;
    if (!algorithm)
        return yk__fail(err, YK_E_INTERNAL, "an excluded rank is in %s of the members",
                        yk__call_name(&(yk__call){.kind = (uint8_t)d.kind, .dtype = (uint8_t)d.dtype}));
    if (comm->broken)
        return yk__fail(err, YK_E_CANCELLED, "a request was cancelled on this communicator: set its members first");
    return begin_checked(comm, &d, algorithm, out, err);
}

yk_status yk__coll_begin(yk__comm *comm, const yk__coll_desc *desc, yk__request **out, yk_error *err)
{
    const yk_status s = request_begin(comm, desc, out, err);
    if (!s)
        yk__msg_hand_over(comm->coll);
    return s;
}

static bool goes_in_order(const yk__request *request)
{
    return request->desc.feeds || request->desc.kind == YK__COLL_BROADCAST;
}

/* Advances the requests before this one that must not be overtaken. Other ranks wait for a broadcast's root, and results go to excluded
 * ranks in order. */
static yk_status advance_before(yk__request *request, bool wait, bool *open, yk_error *err)
{
    yk_status s = YK_OK;
    *open = false;
    for (yk__request *r = request->comm->first; r && r != request && !*open && !s; r = r->next) {
        if (!goes_in_order(r) || yk__pool_done(r))
            continue;
        request->comm->coll->waits = &r->call;
        s = r->algorithm->advance(r, wait, err);
        *open = !yk__pool_done(r);
    }
    return s;
}

static yk_status advance_to(yk__request *request, bool wait, yk_error *err)
{
    bool open;
    yk_status s;
    if (yk__pool_done(request))
        return YK_OK;
    s = advance_before(request, wait, &open, err);
    if (s || open)
        return s;
    request->comm->coll->waits = &request->call;
    return request->algorithm->advance(request, wait, err);
}

yk_status yk__coll_test(yk__request *request, bool *done, yk_error *err)
{
    const yk_status s = advance_to(request, false, err);
    request->comm->coll->waits = NULL;
    *done = !s && yk__pool_done(request);
    if (s || *done)
        yk__pool_release(request);
    return s;
}

yk_status yk__coll_wait(yk__request *request, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    const yk_status s = advance_to(request, true, err);
    coll->waits = NULL;
    yk__pool_release(request);
    yk__msg_hand_over(coll);
    return s;
}

void yk__coll_cancel(yk__request *request)
{
    request->comm->broken = true;
    yk__pool_release(request);
}

yk_status yk__coll_run(yk__comm *comm, const yk__coll_desc *desc, yk_error *err)
{
    yk__request *request = NULL;
    return request_begin(comm, desc, &request, err) ? err->status : yk__coll_wait(request, err);
}
