/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator in common memory: what each rank has there, for the files shm_*.c. The step thread. */
#ifndef YOKE_CORE_COLL_SHM_SLOT_H
#define YOKE_CORE_COLL_SHM_SLOT_H

#include "core/coll/state.h"

enum { YK__LANES = 2 };

/* Of one rank. */
typedef struct yk__comm_slot {
    yk__counter posted; /* the last request it has begun */
    _Alignas(64) _Atomic uint32_t done; /* all its requests up to that one are; a line of its own, as others wait for `posted` */
    yk__counter chunk_written, chunk_read; /* of all broadcasts, by whoever was the root; by this rank */
    struct { /* what is compared of a record is its first line: others of it never leave this rank's cache */
        _Alignas(64) yk__call call;
    } record[YK__COLL_REQUESTS];
    _Alignas(64) uint8_t small[YK__LANES][YK__COLL_SMALL]; /* its parts of small collectives, in turn */
    _Alignas(64) uint8_t chunk[YK__LANES][YK__COLL_SMALL]; /* what it broadcasts, in turn */
} yk__comm_slot;

struct yk__comm_shm {
    yk__comm_slot *slot;         /* [world] */
    uint32_t small;              /* small collectives so far */
    uint32_t lane[YK__LANES];    /* the request that used it last */
    uint64_t chunks;             /* of broadcasts so far */
    uint32_t done;               /* all members were seen to be done with the requests up to that one */
};

/* The counters of a request's part of the state of a communicator, for a rank that becomes a member. */
typedef struct yk__comm_state {
    uint64_t hash;
    uint64_t chunks;
    uint32_t small, sequence, order, written;
} yk__comm_state;

yk_status yk__comm_shm_new(yk__comm *comm, yk_error *err);
void yk__comm_shm_free(yk__comm *comm);
void yk__comm_shm_save(const yk__comm *comm, yk__comm_state *state);
void yk__comm_shm_load(yk__comm *comm, const yk__comm_state *state);
/* This rank is done with all requests up to that one. */
void yk__comm_shm_finish(yk__comm *comm, uint32_t sequence);

/* Whether the counter of that member has come to `value`; where wait is set it has after the call. */
yk_status yk__shm_need(yk__request *request, yk__counter *counter, uint32_t value, uint32_t peer, bool wait, bool *there,
                       yk_error *err);

static inline yk__comm_slot *yk__shm_slot(const yk__comm *comm, uint32_t rank)
{
    return &comm->shm->slot[rank];
}

#endif
