/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: what ranks compute together. A communicator is a list of ranks; a collective on it is begun as a request on a
 * described buffer, and waited for.
 *
 * Order. All members of a communicator begin the same requests in the same order. Several may be under way at once. Every request
 * carries its communicator, generation and sequence number, kind, dtype, operation and count, and the place of the call in the
 * user's program; where two ranks differ, both end with YK_E_INTERNAL, which names both ranks, both requests and both places.
 *
 * Sums are taken in the order of rank numbers, so a result depends neither on timing nor on the algorithm: ranks of one host
 * compute in shared memory (shm_*.c), others over the messages of a transport (msg_*.c), and get the same bits. A job may ask for
 * what gives that up for fewer bytes between hosts: sums of each host first, and numbers of 16 or 8 bits on the way (yk__coll_config). All
 * ranks still have the same bits, and every run with the same ranks on the same hosts gives them again.
 *
 * Members and excluded ranks. There are two communicators from the start: the world, and the members, who are all ranks at first
 * and are changed by yk__comm_set_members. A rank that is not in the members is excluded: no member waits for it, and what members
 * do costs it nothing. A request of the members with `feeds` set is made by excluded ranks too; they take no part and get the
 * result from the feed (at most some 0.5 s late).
 *
 * Every wait ends with YK_E_CANCELLED or YK_E_DEVICE_LOST and the name of the rank at fault within two seconds of a death.
 * Ranks are named by their number in the job everywhere.
 * Thread rule: one thread per job (the step thread). A progress thread of its own (yk__coll_config) drives requests over messages.
 */
#ifndef YOKE_CORE_COLL_COLL_H
#define YOKE_CORE_COLL_COLL_H

#include <yoke/transport.h>

#include "core/coll/comm.h"
#include "core/coll/request.h"
#include "core/coll/wire.h"
#include "core/control/control.h"

typedef struct yk__coll_config {
    yk__control *control;          /* NULL: a job of one rank */
    const yk_transport *transport; /* between ranks without common memory; NULL: there is none */
    bool messages_only;            /* not even ranks of one host compute in shared memory */
    bool by_host;                  /* reduce-scatter: each host's sum first, then those in the order of the hosts' lowest ranks */
    yk__wire wire;                 /* reduce-scatter: how what goes to another host is rounded; the same on all ranks, both */
    bool narrow_params;            /* what yk__coll_narrows says where ranks talk by messages */
    uint64_t columns_from;         /* bytes of an all-reduce over messages from which on it goes by columns; 0: the plan says (plan.h) */
    uint64_t rounds_below;         /* with columns_from: bytes of small data below which records go in rounds (msg_rounds.h); 0: never */
    bool progress;                 /* a thread drives requests over messages while the step thread computes */
    void (*place)(const char **file, int *line); /* where in the user's program a request is begun; NULL: not known */
} yk__coll_config;

/* By all ranks of the job. */
yk_status yk__coll_new(const yk__coll_config *config, yk__coll **coll, yk_error *err);
/* What is under way is given up. The control plane stays. */
void yk__coll_free(yk__coll *coll);
void yk__coll_place(yk__coll *coll, void (*place)(const char **file, int *line)); /* file: NULL or a string that stays */
void yk__coll_rows(yk__coll *coll, const bool *none); /* whether this rank has no rows of the step under way, for errors; it stays */
/* Ends the job for all ranks with this error; every wait returns it. */
void yk__coll_abort(yk__coll *coll, const yk_error *why);
/* Non-zero once the job is to end. Another process or thread writes it: read it by __atomic_load_n(p, __ATOMIC_ACQUIRE). */
bool yk__coll_why(const yk__coll *coll, yk_error *err); /* whether the job is to end, and the error that ended it */
const volatile int *yk__coll_cancelled(const yk__coll *coll);

/* A number of this rank's own, which the ranks read at no cost to it; 0: none yet. */
void yk__coll_show(yk__coll *coll, float number);
float yk__coll_shown(const yk__coll *coll, uint32_t rank);

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

/* By all ranks of the job, in equal order, with equal bytes. what: for errors. */
yk_status yk__coll_alloc(yk__coll *coll, const char *what, uint64_t bytes, yk__coll_mode mode, yk__coll_buffer *buffer,
                         yk_error *err);
/* Takes memory for a range of a sparse buffer, before its first use; any rank alone, as often as it likes. */
yk_status yk__coll_fill(yk__coll *coll, const yk__coll_buffer *buffer, uint64_t at, uint64_t bytes, yk_error *err);
/* By all ranks in equal order beside what they make; others may go on to use theirs. */
void yk__coll_release(yk__coll *coll, yk__coll_buffer *buffer);
/* What rounding takes from this rank's numbers of the buffer, on their way to others, goes with the next ones (wire.h). Nothing, where they
 * are not sent as int8. Until it is cleared, with nothing under way, or released. */
yk_status yk__coll_keep_residual(yk__coll *coll, yk__coll_buffer *buffer, yk_error *err);
bool yk__coll_keeps_residual(const yk__coll *coll); /* else it does nothing: numbers are not sent as int8 */
void yk__coll_clear_residual(yk__coll_buffer *buffer);
/* What is added up from now on is `factor` times as large. */
void yk__coll_scale_residual(yk__coll_buffer *buffer, float factor);
/* All ranks have memory in common, so that each sees others' blocks. */
bool yk__coll_shares(const yk__coll *coll);
/* Requests that were begun go on while the step thread does something else: in common memory, where there is nothing to move, and by the
 * progress thread. */
bool yk__coll_drives(const yk__coll *coll);
bool yk__coll_narrows(const yk__coll *coll); /* parameters are to travel in bf16 (yk__coll_desc.narrow) */
uint64_t yk__coll_sent(yk__coll *coll); /* bytes of requests so far, from this rank to other hosts */

/* ---- Parameters that an excluded rank reads while members go on --------------------------------------------------- */

/* Members tell when they begin to write slices (each before an exchange that precedes it) and when all have; an excluded rank
 * that reads them meanwhile does so between begin and end, and again until end says that nothing was written. In common memory
 * alone. */
void yk__coll_updating(yk__coll *coll, bool on);
uint32_t yk__coll_read_begin(const yk__coll *coll);
bool yk__coll_read_end(yk__coll *coll, uint32_t begun);
/* An excluded rank tells that it waits until it can read, and when it has: members look, as slices that one member alone writes may be
 * unfinished for longer (yk__coll_before_meeting). */
void yk__coll_reading(yk__coll *coll, bool on);
bool yk__coll_is_read(const yk__coll *coll);
/* What this rank does before it may wait for excluded ranks, who may wait to read: before each request of the world, and each buffer that
 * is made, and where their results are not taken. NULL: nothing. It begins no request itself. */
void yk__coll_before_meeting(yk__coll *coll, yk_status (*meeting)(void *arg, yk_error *err), void *arg);

#endif
