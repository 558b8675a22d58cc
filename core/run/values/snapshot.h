/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last whole step, in memory that the ranks of a host have in common: parameters, states, moments and the host's own bytes, as a
 * checkpoint has them. What a rank that dies owned is there for those that are left (docs/decisions/0027).
 *
 * There are two copies, written in turn. Each member writes its slices, and when it has, the number of the snapshot into its record; a
 * copy is whole when as many records as there were members have one number. Nobody writes over a copy before the other is whole: a
 * member is two snapshots further only when all have ended the step between.
 *
 * Lifetime: made by the first write, goes with the engine. Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_SNAPSHOT_H
#define YOKE_CORE_RUN_VALUES_SNAPSHOT_H

#include <stdatomic.h>

#include "core/run/values/params.h"

/* Of one rank in one copy. */
typedef struct yk__snapshot_record {
    _Alignas(64) _Atomic uint64_t number; /* of the snapshot; 0: it is being written, or was never */
    _Atomic uint32_t members;             /* then */
} yk__snapshot_record;

typedef struct yk__snapshot {
    yk__params *params;
    yk__exchange *exchange;
    yk__coll_buffer block;
    uint64_t copy_bytes, values_at, moments_at, states_at, host_at; /* of a copy; from its begin */
    uint64_t capacity;             /* bytes of the host's */
    uint64_t made;             /* snapshots so far */
    uint64_t frozen_writes[2]; /* yk__params.writes when a copy's frozen parameters were written, plus 1; 0: they were not */
} yk__snapshot;

/* Writes this member's part of the next one; an excluded rank only takes part in making the block. host: bytes of the host's, at most
 * `capacity`, which is equal in all calls and on all ranks; the first member's count. By all ranks, between windows. */
yk_status yk__snapshot_write(yk__snapshot *snapshot, const void *host, uint64_t bytes, uint64_t capacity, yk_error *err);
void yk__snapshot_release(yk__snapshot *snapshot);
/* Once there is a block. */
yk__snapshot_record *yk__snapshot_record_of(const yk__snapshot *snapshot, int copy, uint32_t rank);

/* ---- After the job has failed ---- */

/* The newest whole copy, to the first rank that asks; -1: there is none, or another rank has it. */
int yk__snapshot_claim(yk__snapshot *snapshot);
const void *yk__snapshot_host(const yk__snapshot *snapshot, int copy, uint64_t *bytes);
const float *yk__snapshot_param(const yk__snapshot *snapshot, int copy, uint32_t number);
const float *yk__snapshot_moment(const yk__snapshot *snapshot, int copy, uint32_t kind, uint32_t number);
const void *yk__snapshot_state(const yk__snapshot *snapshot, int copy, uint32_t number);

#endif
