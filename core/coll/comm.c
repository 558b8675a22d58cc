/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators, lists of ranks that run collectives together: making them, and changing the list of members.
 *
 * coll.c makes the world and the members, and core/group changes the members between steps, on all ranks, in the step thread. A change
 * first exchanges each rank's state, so ranks that disagree end with an error instead of waiting for ever.
 */
#include "core/coll/comm.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/coll/call.h"
#include "core/coll/feed.h"
#include "core/coll/members.h"
#include "core/coll/messages/msg_plane.h"
#include "core/coll/request.h"
#include "core/coll/shm/shm_slot.h"

/* ---- Reading ------------------------------------------------------------------------------------------------------- */

yk__comm *yk__coll_world(yk__coll *coll)
{
    return coll->comm;
}

yk__comm *yk__coll_members(yk__coll *coll)
{
    return coll->comm->next;
}

uint32_t yk__comm_size(const yk__comm *comm)
{
    return comm->size;
}

uint32_t yk__comm_generation(const yk__comm *comm)
{
    return comm->generation;
}

bool yk__comm_has(const yk__comm *comm, uint32_t rank)
{
    return rank < comm->coll->size && comm->has[rank];
}

/* ---- Making -------------------------------------------------------------------------------------------------------- */

void yk__comm_free(yk__comm *comm)
{
    if (!comm)
        return;
    for (yk__request *r = comm->first; r; r = r->next)
        if (r->algorithm->release)
            r->algorithm->release(r);
    yk__comm_shm_free(comm);
    yk__comm_hosts_free(&comm->hosts);
    yk__free(comm->part);
    yk__free(comm->member);
    yk__free(comm->has);
    yk__free(comm);
}

static yk_status lists_new(yk__comm *comm, uint32_t size, yk_error *err)
{
    comm->has = yk__calloc(size, sizeof *comm->has);
    comm->member = yk__calloc(size, sizeof *comm->member);
    comm->part = yk__calloc(size, sizeof *comm->part);
    return comm->has && comm->member && comm->part ? YK_OK : yk__fail_mem(err, size * sizeof *comm->member, "a communicator");
}

static void comm_append(yk__comm *comm)
{
    yk__coll *coll = comm->coll;
    yk__comm **end = &coll->comm;
    yk__msg_lock(coll);
    while (*end)
        end = &(*end)->next;
    *end = comm;
    coll->comms++;
    yk__msg_unlock(coll);
}

yk_status yk__comm_make(yk__coll *coll, yk__comm **out, yk_error *err)
{
    yk__comm *comm = yk__calloc(1, sizeof *comm);
    if (!comm)
        return yk__fail_mem(err, sizeof *comm, "a communicator");
    comm->coll = coll;
    comm->id = coll->comms;
    if (lists_new(comm, coll->size, err) || (coll->shm && yk__comm_shm_new(comm, err)) ||
        (coll->host_id && yk__comm_hosts_new(&comm->hosts, coll->size, err))) {
        yk__comm_free(comm);
        return err->status;
    }
    for (uint32_t r = 0; r < coll->size; r++)
        comm->has[r] = true;
    yk__members_set(comm, comm->has);
    comm_append(comm);
    *out = comm;
    return YK_OK;
}

/* ---- Changing ------------------------------------------------------------------------------------------------------ */

static yk_status check_members(const yk__comm *comm, const bool *member, yk_error *err)
{
    bool any = false;
    for (uint32_t r = 0; r < comm->coll->size; r++)
        any = any || member[r];
    if (!any)
        return yk__fail(err, YK_E_ARG, "a communicator without members");
    if (comm->first)
        return yk__fail(err, YK_E_ARG, "the members of a communicator are set while %s is under way on it",
                        yk__call_name(&comm->first->call));
    return YK_OK;
}

/* A rank's part of the exchange: the members that it sets, and its counters. */
static yk_status exchange_state(yk__comm *comm, const bool *member, yk__comm_state *all, yk_error *err)
{
    yk__coll *coll = comm->coll;
    yk__comm_state own = {0};
    const yk__coll_desc d = {.kind = YK__COLL_MEMBERS, .dtype = YK_U8, .in = &own, .out = all, .count = sizeof own};
    own.hash = yk__hash_bytes(YK_HASH_SEED + comm->id, member, coll->size * sizeof *member);
    own.sequence = comm->sequence;
    own.order = coll->order + 1; /* counts this request too */
    own.written = yk__feed_written(coll);
    if (comm->shm)
        yk__comm_shm_save(comm, &own);
    if (yk__coll_run(yk__coll_world(coll), &d, err))
        return err->status;
    for (uint32_t r = 1; r < coll->size; r++)
        if (all[r].hash != all[0].hash)
            return yk__fail(err, YK_E_INTERNAL, "%s sets other members than %s", yk__control_name(coll->control, r),
                            yk__control_name(coll->control, 0));
    return YK_OK;
}

static void change_members(yk__comm *comm, const bool *member, const yk__comm_state *old)
{
    const bool was = comm->joined;
    yk__coll *coll = comm->coll;
    yk__members_set(comm, member);
    comm->generation++;
    comm->broken = false;
    comm->sequence = old->sequence;
    if (!was && comm->joined) {
        if (comm->id < YK__COMM_OTHERS)
            coll->order = old->order;
        if (comm->shm)
            yk__comm_shm_load(comm, old);
    }
    if (was && !comm->joined && comm->id == YK__COMM_MEMBERS)
        yk__feed_resume(coll, old->written);
}

yk_status yk__comm_set_members(yk__comm *comm, const bool *member, yk_error *err)
{
    yk__coll *coll = comm->coll;
    yk__comm_state *all;
    yk_status s;
    if (check_members(comm, member, err))
        return err->status;
    if (!coll->control)
        return YK_OK;
    all = yk__calloc(coll->size, sizeof *all);
    if (!all)
        return yk__fail_mem(err, coll->size * sizeof *all, "the members of a communicator");
    s = exchange_state(comm, member, all, err);
    if (!s)
        change_members(comm, member, &all[yk__members_lowest(comm)]);
    yk__free(all);
    return s;
}

yk_status yk__comm_new(yk__coll *coll, const bool *member, yk__comm **out, yk_error *err)
{
    yk__comm *comm = NULL;
    if (yk__comm_make(coll, &comm, err) || yk__comm_set_members(comm, member, err))
        return err->status;
    *out = comm;
    return YK_OK;
}
