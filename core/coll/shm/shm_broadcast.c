/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcasts in common memory; shm_comm.c calls it in the step thread. The root writes chunks into its slot, in turn into two places, and
 * the other members read them.
 *
 * Chunks are numbered over all broadcasts of a communicator. The root writes a chunk once all members have read the last but one, even if
 * another root wrote that one.
 */
#include "core/coll/shm/shm_broadcast.h"

#include <string.h>

#include "core/coll/call.h"
#include "core/coll/pool.h"
#include "core/coll/shm/shm_slot.h"

/* True once all members have read every chunk before `value`. */
static yk_status need_all_read(yk__request *request, uint32_t value, bool wait, bool *there, yk_error *err)
{
    const yk__comm *comm = request->comm;
    *there = true;
    for (uint32_t i = 0; i < comm->size; i++) {
        const uint32_t peer = comm->member[i];
        const yk_status s = yk__shm_need(request, &yk__shm_slot(comm, peer)->chunk_read, value, peer, wait, there, err);
        if (s || !*there)
            return s;
    }
    return YK_OK;
}

static void move_chunk(const yk__request *request, uint64_t number)
{
    const yk__comm *comm = request->comm;
    const uint64_t bytes = yk__call_bytes(&request->call), at = request->chunk_at * YK__COLL_SMALL;
    const uint64_t n = bytes - at < YK__COLL_SMALL ? bytes - at : YK__COLL_SMALL;
    uint8_t *lane = yk__shm_slot(comm, request->desc.root)->chunk[number % YK__LANES], *data = (uint8_t *)request->desc.out + at;
    if (comm->coll->rank == request->desc.root)
        memcpy(lane, data, n);
    else
        memcpy(data, lane, n);
}

yk_status yk__shm_broadcast(yk__request *request, bool wait, yk_error *err)
{
    const yk__comm *comm = request->comm;
    const uint32_t rank = comm->coll->rank, root = request->desc.root;
    yk__comm_slot *own = yk__shm_slot(comm, rank);
    for (; request->chunk_at < request->chunks; request->chunk_at++) {
        const uint64_t number = request->chunk + request->chunk_at;
        bool there;
        if (rank == root ? need_all_read(request, (uint32_t)number - YK__LANES + 1, wait, &there, err)
                         : yk__shm_need(request, &yk__shm_slot(comm, root)->chunk_written, (uint32_t)number + 1, root, wait,
                                        &there, err))
            return err->status;
        if (!there)
            return YK_OK;
        move_chunk(request, number);
        if (rank == root)
            yk__shm_set(comm->coll->shm, &own->chunk_written, (uint32_t)number + 1);
        yk__shm_set(comm->coll->shm, &own->chunk_read, (uint32_t)number + 1);
    }
    yk__pool_finish(request);
    return YK_OK;
}
