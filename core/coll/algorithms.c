/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of algorithms for collectives: a job of one rank, the feed of an excluded rank, common memory, messages. The first row that
 * fits a request runs it.
 *
 * request.c finds the row when a request begins, in the step thread, and calls the row's functions from then on.
 */
#include "core/coll/algorithms.h"

#include "core/coll/feed.h"
#include "core/coll/messages/msg.h"
#include "core/coll/shm/shm_comm.h"
#include "core/coll/solo.h"

static const yk__coll_algorithm *const algorithms[] = {
    &yk__solo_algorithm,
    &yk__shm_algorithm,
    &yk__feed_algorithm,
    &yk__msg_algorithm,
};

const yk__coll_algorithm *yk__algorithms_find(const yk__comm *comm, const yk__coll_desc *desc)
{
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
        if (algorithms[i]->fits(comm, desc))
            return algorithms[i];
    return NULL;
}
