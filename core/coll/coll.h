/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: computations over several ranks. A communicator is a list of ranks. The caller begins a collective on it as a request on
 * a described buffer, and waits for the request.
 *
 * Order. All members of a communicator begin the same requests in the same order. Several may be in progress at once. Every request
 * carries its communicator, generation and sequence number, kind, dtype, operation and count, and the place of the call in the
 * user's program. If two ranks differ, both end with YK_E_INTERNAL, which names both ranks, both requests and both places.
 *
 * Sums follow the order of rank numbers, so a result depends neither on timing nor on the algorithm. Ranks of one host compute in shared
 * memory (shm_*.c), ranks of several hosts over a transport's messages (msg_*.c), with the same bits. A job may give up this order for
 * fewer bytes between hosts: sums of each host first, and numbers of 16 or 8 bits between hosts (yk__coll_config). Even then all ranks
 * have the same bits, and every run with the same ranks on the same hosts repeats them.
 *
 * Members and excluded ranks. Two communicators exist from the start: the world and the members. The members are all ranks at first;
 * yk__comm_set_members changes them. A rank outside the members is excluded: no member waits for it, and the members' work costs it
 * nothing. Excluded ranks too make the members' requests that have `feeds` set. They take no part, and get the result from the feed (at
 * most some 0.5 s late).
 *
 * Every wait ends with YK_E_CANCELLED or YK_E_DEVICE_LOST and the name of the rank at fault within two seconds of a death.
 * Ranks have their number in the job everywhere.
 * Thread rule: one thread per job (the step thread); yk__coll_abort alone may come from any thread.
 * A progress thread (yk__coll_config) drives requests over messages.
 */
#ifndef YOKE_CORE_COLL_COLL_H
#define YOKE_CORE_COLL_COLL_H

#include <yoke/transport.h>

#include "core/coll/comm.h"
#include "core/coll/request.h"
#include "core/coll/wire.h"
#include "core/control/control.h"

typedef struct yk__coll_config {
    yk__control *control;          /* NULL for a job of one rank */
    const yk_transport *transport; /* for ranks without common memory; NULL if there are none */
    yk__seal seal;                 /* which messages bear a seal; equal on all ranks */
    bool messages_only;            /* ranks of one host use messages too */
    bool by_host;                  /* reduce-scatter adds up each host first, then the hosts in the order of their lowest ranks */
    yk__wire wire;                 /* format of gradients between hosts in a reduce-scatter; by_host and wire are equal on all ranks */
    bool narrow_params;            /* result of yk__coll_narrows if ranks talk by messages */
    uint64_t columns_from;         /* least bytes of an all-reduce over messages that goes by columns; 0: the plan decides (tune.h) */
    uint64_t rounds_below;         /* with columns_from: records of fewer bytes of small data go in rounds (msg_rounds.h); 0 for never */
    bool progress;                 /* a thread drives requests over messages while the step thread computes */
    void (*place)(const char **file, int *line); /* finds the place of a request in the user's program; NULL if unknown */
} yk__coll_config;

/* All ranks of the job call it. */
yk_status yk__coll_new(const yk__coll_config *config, yk__coll **coll, yk_error *err);
bool yk__coll_sends(const yk__coll *coll); /* true if requests go over messages, the last of which leave while it is freed */
/* Cancels the requests in progress. The control plane stays open. */
void yk__coll_free(yk__coll *coll);
void yk__coll_place(yk__coll *coll, void (*place)(const char **file, int *line)); /* file: NULL or a string that stays */
void yk__coll_rows(yk__coll *coll, const bool *none); /* *none: this rank has no rows in the step, for errors; it stays */
/* The function of yoke.h that makes the requests on the world from here on; ranks compare it. Returns the one before. */
yk__coll_use yk__coll_used_by(yk__coll *coll, yk__coll_use use);
/* Ends the job for all ranks with this error; every wait returns it. */
void yk__coll_abort(yk__coll *coll, const yk_error *why);
bool yk__coll_why(const yk__coll *coll, yk_error *err); /* true once the job must end; *err is then the error that ended it */
/* Non-zero once the job must end. Another process or thread writes it: read it by __atomic_load_n(p, __ATOMIC_ACQUIRE). */
const volatile int *yk__coll_cancelled(const yk__coll *coll);

/* A number that this rank publishes; other ranks read it at no cost to this one. 0 before the first call. */
void yk__coll_show(yk__coll *coll, float number);
float yk__coll_shown(const yk__coll *coll, uint32_t rank);

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

/* All ranks of the job call it in equal order, with equal bytes. `what`: the buffer's name in errors. */
yk_status yk__coll_alloc(yk__coll *coll, const char *what, uint64_t bytes, yk__coll_mode mode, yk__coll_buffer *buffer,
                         yk_error *err);
/* Reserves memory for a range of a sparse buffer before its first use; any rank may call it alone and repeatedly. */
yk_status yk__coll_fill(yk__coll *coll, const yk__coll_buffer *buffer, uint64_t at, uint64_t bytes, yk_error *err);
/* All ranks call it, in one order with their allocations. Other ranks may still use their blocks. */
void yk__coll_release(yk__coll *coll, yk__coll_buffer *buffer);
/* Error feedback: adds the rounding error of this rank's last send of each number to the next one (wire.h). Only for int8. Ends with
 * clear_residual, which needs that no request is in progress, or with the buffer's release. */
yk_status yk__coll_keep_residual(yk__coll *coll, yk__coll_buffer *buffer, yk_error *err);
bool yk__coll_keeps_residual(const yk__coll *coll); /* true if numbers travel as int8; else keep_residual does nothing */
void yk__coll_clear_residual(yk__coll_buffer *buffer);
/* Scales the residual, for gradients that are `factor` times as large from here on. */
void yk__coll_scale_residual(yk__coll_buffer *buffer, float factor);
/* True if all ranks have memory in common, so that each reads the other ranks' blocks. */
bool yk__coll_shares(const yk__coll *coll);
/* True if requests make progress without the step thread. They do over messages with a progress thread, and in common memory, as no data
 * moves there. */
bool yk__coll_drives(const yk__coll *coll);
bool yk__coll_narrows(const yk__coll *coll); /* true if parameters travel in bf16 (yk__coll_desc.narrow) */
uint64_t yk__coll_sent(yk__coll *coll); /* bytes that this rank's requests have sent to other hosts */

/* ---- Parameters for reading by excluded ranks, while members go on ----------------------------------------------- */

/* A seqlock in common memory. Members call updating before they write slices (each before an exchange that precedes the write) and once
 * all are written. An excluded rank reads between begin and end, and repeats that until end returns true: no member wrote meanwhile. */
void yk__coll_updating(yk__coll *coll, bool on);
uint32_t yk__coll_read_begin(const yk__coll *coll);
bool yk__coll_read_end(yk__coll *coll, uint32_t begun);
/* Set by an excluded rank from the beginning of its wait until it has read. Members look at it, as slices that only one member writes
 * may stay unfinished for longer (yk__coll_before_meeting). */
void yk__coll_reading(yk__coll *coll, bool on);
bool yk__coll_is_read(const yk__coll *coll);
/* Sets a function that a member calls before it may wait for excluded ranks, as these may be waiting to read parameters. It runs before
 * each request of the world, each allocation, and each wait for a full feed. NULL for none. It must not begin a request. */
void yk__coll_before_meeting(yk__coll *coll, yk_status (*meeting)(void *arg, yk_error *err), void *arg);

#endif
