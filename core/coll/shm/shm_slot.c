/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator's slots in common memory, one per member: allocation, and waits for the members' counters. A member writes to its own slot
 * alone.
 *
 * comm.c makes and frees them with the communicator, on all ranks. shm_comm.c and shm_broadcast.c wait with yk__shm_need, which a lost
 * member ends with an error. The step thread.
 */
#include "core/coll/shm/shm_slot.h"

#include "core/base/mem.h"
#include "core/coll/call.h"

yk_status yk__comm_shm_new(yk__comm *comm, yk_error *err)
{
    yk__coll *coll = comm->coll;
    void *mem = NULL;
    comm->shm = yk__calloc(1, sizeof *comm->shm);
    if (!comm->shm)
        return yk__fail_mem(err, sizeof *comm->shm, "a communicator");
    if (yk__shm_alloc(coll->shm, "small messages", coll->size * sizeof *comm->shm->slot, &mem, err))
        return err->status;
    comm->shm->slot = mem;
    return YK_OK;
}

void yk__comm_shm_free(yk__comm *comm)
{
    yk__free(comm->shm);
    comm->shm = NULL;
}

void yk__comm_shm_save(const yk__comm *comm, yk__comm_state *state)
{
    state->small = comm->shm->small;
    state->chunks = comm->shm->chunks;
}

/* Takes over the members' counters; no member has a request in progress. */
void yk__comm_shm_load(yk__comm *comm, const yk__comm_state *state)
{
    yk__comm_slot *own = yk__shm_slot(comm, comm->coll->rank);
    comm->shm->small = state->small;
    comm->shm->chunks = state->chunks;
    comm->shm->done = state->sequence;
    for (uint32_t i = 0; i < YK__LANES; i++)
        comm->shm->lane[i] = state->sequence;
    atomic_store(&own->done, state->sequence);
    yk__shm_set(comm->coll->shm, &own->chunk_written, (uint32_t)state->chunks);
    yk__shm_set(comm->coll->shm, &own->chunk_read, (uint32_t)state->chunks);
    yk__shm_set(comm->coll->shm, &own->posted, state->sequence);
}

void yk__comm_shm_finish(yk__comm *comm, uint32_t sequence)
{
    atomic_store_explicit(&yk__shm_slot(comm, comm->coll->rank)->done, sequence, memory_order_release);
}

yk_status yk__shm_need(yk__request *request, yk__counter *counter, uint32_t value, uint32_t peer, bool wait, bool *there,
                       yk_error *err)
{
    *there = yk__shm_reached(counter, value);
    if (*there || !wait)
        return YK_OK;
    *there = true;
    return yk__shm_wait(request->comm->coll->shm, counter, value, peer, yk__call_name(&request->call), err);
}
