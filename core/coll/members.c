/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a communicator's members by rank, and the lists of hosts that follow from it.
 *
 * comm.c sets it, under the plane's lock if the job has messages. comm.c and the feeds ask for the lowest member, which serves excluded
 * ranks, and for the number of excluded ranks.
 */
#include "core/coll/members.h"

#include <string.h>

void yk__members_set(yk__comm *comm, const bool *member)
{
    comm->size = 0;
    memmove(comm->has, member, comm->coll->size * sizeof *member);
    for (uint32_t r = 0; r < comm->coll->size; r++)
        if (member[r])
            comm->member[comm->size++] = r;
    comm->joined = member[comm->coll->rank];
    if (comm->hosts.of)
        yk__comm_hosts_set(&comm->hosts, comm->member, comm->size, comm->coll->host_id);
}

uint32_t yk__members_lowest(const yk__comm *comm)
{
    return comm->member[0];
}

uint32_t yk__members_excluded(const yk__coll *coll)
{
    return coll->size - coll->comm->next->size;
}
