/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last whole step, in memory that the ranks of a host have in common. It has parameters, states, moments and the host's own bytes, as a
 * checkpoint has them. The part of a rank that dies stays for the ranks that are left (docs/decisions/0027).
 *
 * There are two copies, written in turn. Each member writes its slices, then the number of the snapshot into its record. A copy is whole
 * when as many records as there were members have one number. No member writes over a copy before the other copy is whole. A member is two
 * snapshots further only when all members have ended the step between.
 *
 * Lifetime: made by the first write, goes with the engine. Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_SNAPSHOT_H
#define YOKE_CORE_RUN_VALUES_SNAPSHOT_H

#include <stdatomic.h>

#include "core/run/values/params.h"

/* The record of one rank in one copy. */
typedef struct yk__snapshot_record {
    _Alignas(64) _Atomic uint64_t number; /* number of the snapshot; 0: not written, or being written */
    _Atomic uint32_t members;             /* members of the job at that snapshot */
} yk__snapshot_record;

typedef struct yk__snapshot {
    yk__params *params;
    yk__exchange *exchange;
    yk__coll_buffer block;
    uint64_t copy_bytes, values_at, moments_at, states_at, host_at; /* bytes of a copy; offsets from its begin */
    uint64_t capacity;             /* bytes of the host's */
    uint64_t made;             /* snapshots so far */
    uint64_t frozen_writes[2]; /* yk__params.writes when a copy's frozen parameters were written, plus 1; 0: not written */
} yk__snapshot;

/* Writes this member's part of the next snapshot; an excluded rank only takes part in making the block. host: bytes of the caller, of which
 * the first member's are kept. bytes: at most `capacity`, which is equal in all calls and on all ranks. All ranks call it, between
 * windows. */
yk_status yk__snapshot_write(yk__snapshot *snapshot, const void *host, uint64_t bytes, uint64_t capacity, yk_error *err);
void yk__snapshot_release(yk__snapshot *snapshot);
/* The record of a rank; the block must exist. */
yk__snapshot_record *yk__snapshot_record_of(const yk__snapshot *snapshot, int copy, uint32_t rank);

/* ---- After the job has failed ---- */

/* The newest whole copy, for the first rank that asks; -1 if there is none, or another rank has it. */
int yk__snapshot_claim(yk__snapshot *snapshot);
const void *yk__snapshot_host(const yk__snapshot *snapshot, int copy, uint64_t *bytes);
const float *yk__snapshot_param(const yk__snapshot *snapshot, int copy, uint32_t number);
const float *yk__snapshot_moment(const yk__snapshot *snapshot, int copy, uint32_t kind, uint32_t number);
const void *yk__snapshot_state(const yk__snapshot *snapshot, int copy, uint32_t number);

#endif
