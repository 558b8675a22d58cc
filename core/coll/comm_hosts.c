/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups the members of a communicator by hosts, so that algorithms over messages send to each host once.
 *
 * comm.c makes the lists, and members.c fills them after each change of members, under the plane's lock. Groups stand in the order of their
 * lowest rank, so all ranks have equal lists.
 */
#include "core/coll/comm_hosts.h"

#include <string.h>

#include "core/base/mem.h"

yk_status yk__comm_hosts_new(yk__comm_hosts *hosts, uint32_t world, yk_error *err)
{
    uint32_t *all = yk__calloc(4ull * world + 1, sizeof *all);
    *hosts = (yk__comm_hosts){0};
    if (!all)
        return yk__fail_mem(err, (4ull * world + 1) * sizeof *all, "the hosts of a communicator");
    hosts->of = all;
    hosts->index = all + world;
    hosts->rank = all + 2ull * world;
    hosts->begin = all + 3ull * world;
    return YK_OK;
}

void yk__comm_hosts_free(yk__comm_hosts *hosts)
{
    yk__free(hosts->of);
    *hosts = (yk__comm_hosts){0};
}

/* The first of member[0..n) that runs on member[n]'s host, or n. */
static uint32_t find_first(const uint32_t *member, uint32_t n, const uint64_t *id)
{
    uint32_t i = 0;
    while (i < n && id[member[i]] != id[member[n]])
        i++;
    return i;
}

void yk__comm_hosts_set(yk__comm_hosts *hosts, const uint32_t *member, uint32_t n, const uint64_t *id)
{
    uint32_t placed = 0;
    hosts->count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t first = find_first(member, i, id);
        hosts->of[member[i]] = first < i ? hosts->of[member[first]] : hosts->count++;
    }
    for (uint32_t h = 0; h < hosts->count; h++) {
        hosts->begin[h] = placed;
        for (uint32_t i = 0; i < n; i++)
            if (hosts->of[member[i]] == h) {
                hosts->index[member[i]] = placed - hosts->begin[h];
                hosts->rank[placed++] = member[i];
            }
    }
    hosts->begin[hosts->count] = placed;
}
