/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the ranks of one host have in common: blocks, counters to wait for, and words to sleep on, in the memory object of
 * core/control. The algorithms over shared memory (shm_*.c) use it.
 *
 * Every wait ends when the job does, or when the awaited rank has left, with that rank's name.
 * Thread rule: one thread (the step thread), except yk__shm_set of a counter that one other thread owns.
 */
#ifndef YOKE_CORE_COLL_SHM_SHM_H
#define YOKE_CORE_COLL_SHM_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/control/control.h"

typedef struct yk__shm yk__shm;

/* A counter in a block. It counts upwards modulo 2^32; one rank sets it, the other ranks wait for it. */
typedef struct yk__counter {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers; /* written by all ranks */
} yk__counter;

bool yk__shm_one_host(const yk__control *control); /* true if all ranks of the job run on one host */
/* Attaches to the memory of this rank's host; all ranks of the job call it. *shm stays NULL for a rank that is alone on its host. */
yk_status yk__shm_attach(yk__control *control, yk__shm **shm, yk_error *err);
void yk__shm_detach(yk__shm *shm); /* releases all blocks */
/* Sets a function that a long wait for a peer calls now and then. The wait ends with its error, if any. */
void yk__shm_watch(yk__shm *shm, yk_status (*watch)(void *arg, uint32_t peer, yk_error *err), void *arg);

uint32_t yk__shm_ranks(const yk__shm *shm); /* number of ranks on this host */
/* Index of that rank among the ranks of this host, in the order of rank numbers; UINT32_MAX if it runs on another host. */
uint32_t yk__shm_index(const yk__shm *shm, uint32_t rank);

/* Makes a zeroed, page aligned block on all ranks of the host; all call it in the same order with equal bytes. `what`: its name in
 * errors. */
yk_status yk__shm_alloc(yk__shm *shm, const char *what, uint64_t bytes, void **mem, yk_error *err);
/* The same without memory: yk__shm_fill reserves it range by range. Any rank may call that, repeatedly for the same range too. */
yk_status yk__shm_alloc_sparse(yk__shm *shm, const char *what, uint64_t bytes, void **mem, yk_error *err);
yk_status yk__shm_fill(yk__shm *shm, const void *mem, uint64_t at, uint64_t bytes, yk_error *err);
/* Releases this rank's mapping; other ranks' mappings stay until they release theirs. All ranks make and release blocks in the same
 * order; no rank waits. */
void yk__shm_release(yk__shm *shm, void *mem);

/* Sets the counter. A rank whose wait for it returns sees everything that this rank wrote to blocks before. */
void yk__shm_set(yk__shm *shm, yk__counter *counter, uint32_t value);
static inline bool yk__shm_reached(const yk__counter *counter, uint32_t value)
{
    return (int32_t)(atomic_load_explicit(&counter->value, memory_order_acquire) - value) >= 0;
}
/* Returns once `peer` has set its counter to at least `value`. `what`: the operation in errors ("barrier"). */
yk_status yk__shm_wait(yk__shm *shm, yk__counter *counter, uint32_t value, uint32_t peer, const char *what, yk_error *err);

/* For waits over many steps: sleeps until *word, in a block, differs from `seen`, until a wake-up, or for ms at most. Fails once the job
 * ends or `peer`, which should change the word, has left. It never spins, and does not call the watch function. */
yk_status yk__shm_sleep(yk__shm *shm, uint32_t peer, const uint32_t *word, uint32_t seen, uint32_t ms, const char *what,
                        yk_error *err);
void yk__shm_wake(const uint32_t *word); /* wakes all sleepers on the word; the caller has changed it atomically before */

#endif
