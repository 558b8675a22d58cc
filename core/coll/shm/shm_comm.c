/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithm for collectives in common memory; request.c calls it through the table in algorithms.c, in the step thread. Each member
 * writes its part and the record of the request into its own slot, and sets a counter. It waits for all members, and computes the result
 * from all slots. Large vectors are in common memory already; only the counter travels.
 *
 * A slot holds the records of the last requests and two parts of small ones, used in turn. A member that reuses a place waits until all
 * members are done with it. Requests finish soon after all members begin them, so that wait is almost always over at once.
 */
#include "core/coll/shm/shm_comm.h"

#include <sched.h>
#include <string.h>

#include "core/coll/call.h"
#include "core/coll/feed.h"
#include "core/coll/pool.h"
#include "core/coll/reduce.h"
#include "core/coll/shm/shm_broadcast.h"
#include "core/coll/shm/shm_slot.h"

/* ---- Waiting ------------------------------------------------------------------------------------------------------ */

static yk_status check_calls(const yk__request *request, yk_error *err)
{
    const yk__comm *comm = request->comm;
    for (uint32_t i = 0; i < comm->size; i++) {
        const yk__call *c = &yk__shm_slot(comm, comm->member[i])->record[request->call.sequence % YK__COLL_REQUESTS].call;
        if (c->common != request->call.common || !yk__call_same(c, &request->call))
            return yk__call_fail(comm->coll, &request->call, comm->member[i], c, err);
    }
    return YK_OK;
}

/* Checks that all members have begun this request, and that it is the same one. */
static yk_status check_posted(yk__request *request, bool wait, bool *there, yk_error *err)
{
    const yk__comm *comm = request->comm;
    uint32_t own = 0;
    yk_status s;
    while (comm->member[own] != comm->coll->rank)
        own++;
    *there = true;
    for (uint32_t i = 1; i < comm->size; i++) {
        const uint32_t peer = comm->member[(own + i) % comm->size];
        s = yk__shm_need(request, &yk__shm_slot(comm, peer)->posted, request->call.sequence, peer, wait, there, err);
        if (s || !*there)
            return s;
    }
    return check_calls(request, err);
}

/* ---- Beginning ---------------------------------------------------------------------------------------------------- */

static bool is_small(const yk__request *request)
{
    return request->desc.kind == YK__COLL_ALL_GATHER || request->desc.kind == YK__COLL_ALL_REDUCE ||
           request->desc.kind == YK__COLL_MEMBERS;
}

/* A member that is not done with every request up to that one; UINT32_MAX if none. Reads the counters only if the cached value is too
 * old, as each read takes a cache line from its writer. */
static uint32_t member_behind(const yk__comm *comm, uint32_t sequence)
{
    uint32_t least = comm->sequence;
    if ((int32_t)(comm->shm->done - sequence) >= 0)
        return UINT32_MAX;
    for (uint32_t i = 0; i < comm->size; i++) {
        const uint32_t done = atomic_load_explicit(&yk__shm_slot(comm, comm->member[i])->done, memory_order_acquire);
        if ((int32_t)(done - sequence) < 0)
            return comm->member[i];
        least = (int32_t)(done - least) < 0 ? done : least;
    }
    comm->shm->done = least;
    return UINT32_MAX;
}

static yk_status advance_others(const yk__request *request, yk_error *err)
{
    for (yk__request *r = request->comm->first; r && r != request; r = r->next)
        if (!r->done && r->algorithm->advance(r, false, err))
            return err->status;
    return YK_OK;
}

/* Waits until all members are done with the place that this request writes. They may wait for this rank's other requests meanwhile. */
static yk_status reserve_slot(yk__request *request, uint32_t lane, yk_error *err)
{
    const yk__comm *comm = request->comm;
    uint32_t done = request->call.sequence - YK__COLL_REQUESTS, peer;
    yk__control_wait wait = {0};
    if (is_small(request) && (int32_t)(comm->shm->lane[lane] - done) > 0)
        done = comm->shm->lane[lane];
    while ((peer = member_behind(comm, done)) != UINT32_MAX) {
        if (advance_others(request, err) ||
            (peer != comm->coll->rank &&
             yk__control_look(comm->coll->control, &wait, peer, yk__call_name(&request->call), err)))
            return err->status;
        if (yk__control_left(comm->coll->control, peer))
            return yk__control_fail_left(comm->coll->control, peer, yk__call_name(&request->call), err);
        sched_yield();
    }
    yk__control_waited(comm->coll->control, &wait);
    return YK_OK;
}

static void write_part(const yk__request *request, uint8_t *to)
{
    const yk__coll_desc *d = &request->desc;
    const uint64_t bytes = d->count * yk_dtype_bytes(d->dtype), pitch = d->pitch * yk_dtype_bytes(d->dtype);
    if (!bytes)
        return;
    if (d->kind != YK__COLL_ALL_REDUCE)
        memcpy(to, d->in, bytes);
    for (uint32_t row = 0; row < d->rows && d->kind == YK__COLL_ALL_REDUCE; row++)
        memcpy(to + row * bytes, (const uint8_t *)d->out + row * pitch, bytes);
}

static yk_status shm_start(yk__request *request, yk_error *err)
{
    yk__comm *comm = request->comm;
    yk__comm_slot *own = yk__shm_slot(comm, comm->coll->rank);
    const uint32_t lane = comm->shm->small % YK__LANES;
    if (reserve_slot(request, lane, err))
        return err->status;
    if (is_small(request)) {
        write_part(request, own->small[lane]);
        request->lane = lane;
        comm->shm->lane[lane] = request->call.sequence;
        comm->shm->small++;
    }
    if (request->desc.kind == YK__COLL_BROADCAST) {
        request->chunk = comm->shm->chunks;
        request->chunks = (yk__call_bytes(&request->call) + YK__COLL_SMALL - 1) / YK__COLL_SMALL;
        comm->shm->chunks += request->chunks;
    }
    own->record[request->call.sequence % YK__COLL_REQUESTS].call = request->call;
    yk__shm_set(comm->coll->shm, &own->posted, request->call.sequence);
    return YK_OK;
}

/* ---- Results ------------------------------------------------------------------------------------------------------ */

static void gather_small(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    const yk__coll_desc *d = &request->desc;
    const uint64_t bytes = d->count * yk_dtype_bytes(d->dtype);
    for (uint32_t r = 0; r < comm->coll->size; r++)
        if (comm->has[r])
            memcpy((char *)d->out + r * bytes, yk__shm_slot(comm, r)->small[request->lane], bytes);
        else
            memset((char *)d->out + r * bytes, 0, bytes);
}

static void reduce_small(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    for (uint32_t i = 0; i < comm->size; i++)
        comm->part[i] = yk__shm_slot(comm, comm->member[i])->small[request->lane];
    yk__reduce_small(&request->desc, comm->part, comm->size);
}

static void reduce_slice(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    const yk__coll_desc *d = &request->desc;
    const uint64_t begin = d->parts->begin[comm->coll->rank], n = d->parts->begin[comm->coll->rank + 1] - begin;
    for (uint32_t i = 0; i < comm->size; i++)
        comm->part[i] = (const float *)yk__coll_peer_view(d->buffer, comm->member[i]) + d->offset;
    yk__reduce_slice(comm->part, comm->size, begin, n, d->out, d->squares);
}

/* Copies the slices if each rank has its own block; a common block is complete already. */
static void gather_slices(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    const yk__coll_desc *d = &request->desc;
    for (uint32_t i = 0; i < comm->size && d->buffer->stride; i++) {
        const uint32_t r = comm->member[i];
        const uint64_t begin = d->parts->begin[r], n = d->parts->begin[r + 1] - begin;
        if (r != comm->coll->rank && n)
            memcpy((float *)d->buffer->mem + d->offset + begin,
                   (const float *)yk__coll_peer_view(d->buffer, r) + d->offset + begin, n * sizeof(float));
    }
}

static void compute_result(const yk__request *request)
{
    switch (request->desc.kind) {
    case YK__COLL_ALL_GATHER:
    case YK__COLL_MEMBERS:
        gather_small(request);
        break;
    case YK__COLL_ALL_REDUCE:
        reduce_small(request);
        break;
    case YK__COLL_REDUCE_SCATTER:
        reduce_slice(request);
        break;
    case YK__COLL_ALL_GATHERV:
        gather_slices(request);
        break;
    default:
        break;
    }
}

static yk_status shm_advance(yk__request *request, bool wait, yk_error *err)
{
    bool there = false;
    const yk_status s = request->done ? YK_OK : check_posted(request, wait, &there, err);
    if (s || !there)
        return s;
    if (request->desc.kind == YK__COLL_BROADCAST)
        return yk__shm_broadcast(request, wait, err);
    compute_result(request);
    yk__pool_finish(request);
    return request->desc.feeds ? yk__feed_put(request, err) : YK_OK;
}

static bool shm_fits(const yk__comm *comm, const yk__coll_desc *desc)
{
    (void)desc;
    return comm->shm && comm->joined;
}

const yk__coll_algorithm yk__shm_algorithm = {.name = "common memory", .fits = shm_fits, .start = shm_start, .advance = shm_advance};
