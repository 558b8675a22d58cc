/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the ranks of one host have in common: blocks, counters to wait for, and words to sleep on. It lies in the memory
 * object of core/control. The algorithms over shared memory (shm_*.c) are written over it.
 *
 * Every wait ends when the job does, or when the rank it waits for has left, with that rank's name.
 * Thread rule: one thread (the step thread), but for yk__shm_set of a counter that one other thread owns.
 */
#ifndef YOKE_CORE_COLL_SHM_H
#define YOKE_CORE_COLL_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/control/control.h"

typedef struct yk__shm yk__shm;

/* In a block. It counts upwards modulo 2^32; one rank sets it, others wait. */
typedef struct yk__counter {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers; /* written by all */
} yk__counter;

bool yk__shm_one_host(const yk__control *control); /* all ranks of the job run on one */
/* By all ranks of the job: what those of a host have in common. *shm stays NULL where this rank is alone on its host. */
yk_status yk__shm_attach(yk__control *control, yk__shm **shm, yk_error *err);
void yk__shm_detach(yk__shm *shm); /* releases all blocks */
/* Called now and then while a wait for a peer lasts; not YK_OK: the wait ends with that error. */
void yk__shm_watch(yk__shm *shm, yk_status (*watch)(void *arg, uint32_t peer, yk_error *err), void *arg);

uint32_t yk__shm_ranks(const yk__shm *shm); /* of this host */
/* The place of that rank among those of this host, in the order of rank numbers; UINT32_MAX: it runs on another. */
uint32_t yk__shm_index(const yk__shm *shm, uint32_t rank);

/* A block of the host's ranks, zero at first, page aligned, of equal size on all; all call in the same order. what: for errors. */
yk_status yk__shm_alloc(yk__shm *shm, const char *what, uint64_t bytes, void **mem, yk_error *err);
/* The same, whose memory is taken range by range; a range may be taken more than once, by any rank. */
yk_status yk__shm_alloc_sparse(yk__shm *shm, const char *what, uint64_t bytes, void **mem, yk_error *err);
yk_status yk__shm_fill(yk__shm *shm, const void *mem, uint64_t at, uint64_t bytes, yk_error *err);
/* Gives it back: this rank's address is no longer valid, others' are until they release it, too. All ranks make and release
 * blocks in the same order; nobody is waited for. */
void yk__shm_release(yk__shm *shm, void *mem);

/* Makes everything that this rank wrote to blocks before visible to a rank whose wait for the counter returns. */
void yk__shm_set(yk__shm *shm, yk__counter *counter, uint32_t value);
static inline bool yk__shm_reached(const yk__counter *counter, uint32_t value)
{
    return (int32_t)(atomic_load_explicit(&counter->value, memory_order_acquire) - value) >= 0;
}
/* Returns when `peer` has set its counter to at least `value`. what: the operation, for errors ("barrier"). */
yk_status yk__shm_wait(yk__shm *shm, yk__counter *counter, uint32_t value, uint32_t peer, const char *what, yk_error *err);

/* For waits that last for many steps: sleeps until *word, in a block, is not `seen`, or for ms at most, or until it is woken;
 * fails when the job ends or `peer`, whose turn it is to change the word, has left. Takes no turns of the processor in between, and
 * watch is not called. */
yk_status yk__shm_sleep(yk__shm *shm, uint32_t peer, const uint32_t *word, uint32_t seen, uint32_t ms, const char *what,
                        yk_error *err);
void yk__shm_wake(const uint32_t *word); /* all who sleep on it; it was changed before, atomically */

#endif
