/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed pool of a communicator's requests, and the list of the requests in progress, in the order of their begin.
 *
 * request.c takes, lists and releases requests in the step thread. The algorithms mark them as done, over messages also in the progress
 * thread. So the lists change under the plane's lock. NULL if all requests are in use.
 */
#include "core/coll/pool.h"

#include "core/base/clock.h"
#include "core/coll/messages/msg_plane.h"
#include "core/coll/shm/shm_slot.h"

yk__request *yk__pool_take(yk__comm *comm)
{
    for (uint32_t i = 0; i < YK__COLL_REQUESTS; i++)
        if (!comm->pool[i].used) {
            comm->pool[i] = (yk__request){.comm = comm, .used = true};
            return &comm->pool[i];
        }
    return NULL;
}

void yk__pool_release(yk__request *request)
{
    yk__comm *comm = request->comm;
    yk__request **at = &comm->first;
    if (request->algorithm->release)
        request->algorithm->release(request);
    yk__msg_lock(comm->coll);
    while (*at && *at != request)
        at = &(*at)->next;
    if (*at)
        *at = request->next;
    request->used = false;
    yk__msg_unlock(comm->coll);
}

void yk__pool_append(yk__request *request)
{
    yk__request **at = &request->comm->first;
    while (*at)
        at = &(*at)->next;
    *at = request;
}

void yk__pool_finish(yk__request *request)
{
    yk__comm *comm = request->comm;
    const yk__request *open = comm->first;
    if (request->desc.done_ns)
        *request->desc.done_ns = yk__clock_ns();
    request->done = true;
    while (open && open->done)
        open = open->next;
    if (comm->shm)
        yk__comm_shm_finish(comm, open ? open->call.sequence - 1 : comm->sequence);
}

bool yk__pool_done(yk__request *request)
{
    bool done;
    yk__msg_lock(request->comm->coll);
    done = request->done;
    yk__msg_unlock(request->comm->coll);
    return done;
}
