/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulls over messages: a rank reads slices in the memory of their owners, and no other rank takes part (docs/decisions/0084). Owners offer
 * slices and publish them all at once, in versions that all ranks count alike. A thread of the owner answers while its program does other
 * work.
 *
 * A rank that is ahead may ask for the next version: the owner answers once it has published. To ask for an older version, or for elements
 * that the owner does not have, is an error that ends the job and names both ranks. Only with messages and a progress thread.
 * Thread rule: the step thread.
 */
#ifndef YOKE_CORE_COLL_PULL_H
#define YOKE_CORE_COLL_PULL_H

#include "core/base/error.h"
#include "core/coll/comm.h"

typedef struct yk__pulling yk__pulling; /* pulls under way */

/* Bytes [at, at + bytes) of the vector with that key, from their owner, another rank. */
typedef struct yk__pull_part {
    uint32_t owner;
    uint64_t at, bytes;
    void *to;
} yk__pull_part;

/* This rank has bytes [at, at + bytes) of the vector `key` at mem, until it offers another range; mem NULL: none. Between withdraw and
 * publish, or in a job that ends. */
yk_status yk__coll_offer(yk__coll *coll, uint32_t key, const void *mem, uint64_t at, uint64_t bytes, yk_error *err);
/* Waits until no answer reads this rank's offered slices; it may write them then. All ranks have done their pulls of this version
 * before. */
yk_status yk__coll_withdraw(yk__coll *coll, yk_error *err);
/* This rank's offered slices have the next version now. All ranks call it equally often. */
void yk__coll_publish(yk__coll *coll);

/* Begins pulls of the version that this rank published last. `to` belongs to them until they are done or dropped. */
yk_status yk__coll_pull(yk__coll *coll, uint32_t key, const yk__pull_part *part, uint32_t n, yk__pulling **pulling, yk_error *err);
/* Returns once they are done; *pulling is NULL then, after an error too. Does nothing if it is NULL. */
yk_status yk__coll_pulled(yk__pulling **pulling, yk_error *err);
void yk__coll_pull_drop(yk__pulling **pulling);

#endif
