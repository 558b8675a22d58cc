/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a communicator by hosts. Without computing by hosts each member counts as a host, so that the algorithms over messages
 * become direct exchanges between all members.
 * Plain data; in a job with a plane, under its lock (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_COMM_HOSTS_H
#define YOKE_CORE_COLL_COMM_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__comm_hosts {
    uint32_t count;  /* hosts with members, ordered by their lowest member */
    uint32_t *of;    /* [world]: index of a member's host */
    uint32_t *begin; /* [world + 1]: rank[begin[h] .. begin[h + 1]) are the members on host h */
    uint32_t *rank;  /* [world]: members, host by host, ascending */
    uint32_t *index; /* [world]: index of a member on its host */
} yk__comm_hosts;

yk_status yk__comm_hosts_new(yk__comm_hosts *hosts, uint32_t world, yk_error *err);
void yk__comm_hosts_free(yk__comm_hosts *hosts);
/* member[0..n), ascending; id[r] is equal for ranks of one host. */
void yk__comm_hosts_set(yk__comm_hosts *hosts, const uint32_t *member, uint32_t n, const uint64_t *id);

static inline uint32_t yk__comm_hosts_size(const yk__comm_hosts *hosts, uint32_t host)
{
    return hosts->begin[host + 1] - hosts->begin[host];
}
/* The leader of `host` towards `member`: it receives from that member for its whole host, and sends to it for the host. Leaders are
 * spread evenly, so that all ranks of a host share its traffic. */
static inline uint32_t yk__comm_hosts_leader(const yk__comm_hosts *hosts, uint32_t host, uint32_t member)
{
    return hosts->rank[hosts->begin[host] + hosts->index[member] % yk__comm_hosts_size(hosts, host)];
}

#endif
