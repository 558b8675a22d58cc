/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator in common memory: each rank's slot, for the files shm_*.c. The step thread. */
#ifndef YOKE_CORE_COLL_SHM_SHM_SLOT_H
#define YOKE_CORE_COLL_SHM_SHM_SLOT_H

#include "core/coll/coll_state.h"

enum { YK__LANES = 2 };

/* The slot of one rank. */
typedef struct yk__comm_slot {
    yk__counter posted; /* number of the last request it has begun */
    _Alignas(64) _Atomic uint32_t done; /* the rank is done with requests up to this one; a cache line of its own, as other ranks wait
                                         * for `posted` */
    yk__counter chunk_written, chunk_read; /* chunks of all broadcasts: written by it as root; read by it */
    struct { /* members compare a record's first line only, so its other lines never leave this rank's cache */
        _Alignas(64) yk__call call;
    } record[YK__COLL_REQUESTS];
    _Alignas(64) uint8_t small[YK__LANES][YK__COLL_SMALL]; /* parts of small collectives, in turn */
    _Alignas(64) uint8_t chunk[YK__LANES][YK__COLL_SMALL]; /* chunks of broadcasts, in turn */
} yk__comm_slot;

struct yk__comm_shm {
    yk__comm_slot *slot;         /* [world], in a block */
    uint32_t small;              /* small collectives so far */
    uint32_t lane[YK__LANES];    /* last request that used the lane */
    uint64_t chunks;             /* chunks of broadcasts so far */
    uint32_t done;               /* all members are known to be done with requests up to this one */
};

/* The counters of a communicator, for a rank that becomes a member. */
typedef struct yk__comm_state {
    uint64_t hash;
    uint64_t chunks;
    uint32_t small, sequence, order, written;
} yk__comm_state;

yk_status yk__comm_shm_new(yk__comm *comm, yk_error *err);
void yk__comm_shm_free(yk__comm *comm);
void yk__comm_shm_save(const yk__comm *comm, yk__comm_state *state);
void yk__comm_shm_load(yk__comm *comm, const yk__comm_state *state);
/* Tells that this rank is done with every request up to that one. */
void yk__comm_shm_finish(yk__comm *comm, uint32_t sequence);

/* Sets *there if that member's counter has reached `value`. With `wait` it waits until then. */
yk_status yk__shm_need(yk__request *request, yk__counter *counter, uint32_t value, uint32_t peer, bool wait, bool *there,
                       yk_error *err);

static inline yk__comm_slot *yk__shm_slot(const yk__comm *comm, uint32_t rank)
{
    return &comm->shm->slot[rank];
}

#endif
