/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane: who is in the job, whether all of them live and do something, and how the job ends. It knows nothing of
 * the data that ranks exchange (core/coll).
 *
 * A rank joins over a descriptor, which the launcher gave it (YOKE_JOB_FD) or which it found by itself (bootstrap.h): over it come
 * the job's secret and two memory objects without a name, one with a slot per rank of the job, for what stands here, one for the data
 * of the ranks of this host. The side that makes them is in job.h. Slots of ranks on other hosts are kept up to date by the agent of
 * the host (agent.h), so all that stands here is the same whether ranks share a host or not.
 *
 * A thread per rank shows that its process lives, and looks whether the others of its host do: a rank that is silent for liveness_ms
 * is lost. Of another host heartbeats come over a connection that shares its line with data, so data is a sign of life, too.
 * A rank that lives but does nothing is found by those who wait for it (yk__control_look). The end of a job is one record that all
 * waits look at; the first who writes it wins, so every rank reports the same error.
 *
 * Thread rule: join, leave, exchange, publish and the look of one wait by one thread; everything else from any thread.
 */
#ifndef YOKE_CORE_CONTROL_CONTROL_H
#define YOKE_CORE_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Ranks of one job at most. Tables of what is known of each rank (core/balance, core/job/share.h, yk__roles) have so many places; nothing
 * else is limited by their number but by memory and descriptors. Whoever learns of a larger job first, from its variables or its hosts,
 * refuses it.
 */
#define YK__RANKS 1024u

typedef struct yk__control yk__control;
typedef struct yk__agent yk__agent; /* agent.h */

typedef struct yk__control_config {
    int job_fd;           /* from the launcher, or of yk__bootstrap; join takes it */
    yk__agent *agent;     /* of yk__bootstrap, or NULL; join takes it */
    const char *name;     /* what others call this rank in messages; NULL: as the launcher named it */
    uint32_t liveness_ms; /* a rank without a sign of life for so long is lost; 0: never */
    uint32_t join_ms;     /* how long join waits for all ranks; 0: for ever */
    uint32_t stuck_ms;    /* a rank that others wait for and that does nothing for so long is lost; 0: never */
    uint32_t call_ms;     /* .. one that is in a call, by yk__act_patience_ms; in its own code it is named then. 0: stuck_ms for all */
    const struct yk__origin *origin;  /* how this process was started, for a line while it waits; NULL: there is none */
    const volatile uint32_t *advance; /* a count that moves while this rank does something; NULL: only its calls count */
} yk__control_config;

/* Returns when all ranks have joined. */
yk_status yk__control_join(const yk__control_config *config, yk__control **control, yk_error *err);
/* Says goodbye, so that others do not take it for a death. Where this process has its host's agent, returns when no other rank needs
 * it any more. In a fork of the process that joined: releases the memory alone. */
void yk__control_leave(yk__control *c);

uint32_t yk__control_rank(const yk__control *c);
uint32_t yk__control_size(const yk__control *c);
const char *yk__control_name(const yk__control *c, uint32_t rank); /* lives as long as c; "" for no such rank */
/* Ranks with equal numbers run on one host, under one kernel. */
uint64_t yk__control_host(const yk__control *c, uint32_t rank);
/* Numeric, of this host in the job's network; NULL where all ranks run on one. Lives as long as c. */
const char *yk__control_address(const yk__control *c);
/* The memory object that the ranks of this host have in common, empty at first; core/coll/shm.h lays it out. */
int yk__control_memory(const yk__control *c);
#define YK__CONTROL_SECRET 32
/* Known to the ranks of this job alone. Never to be logged. */
const uint8_t *yk__control_secret(const yk__control *c);

/* ---- The end of the job ------------------------------------------------------------------------------------------ */

/* Ends the job for all ranks with this error, for the fault of `rank`. Nothing when it is ending already. */
void yk__control_end(yk__control *c, uint32_t rank, yk_status status, const char *text);
/* YK_OK while the job goes on, else the error that ended it. */
yk_status yk__control_check(const yk__control *c, yk_error *err);
/* Non-zero once the job is to end. Another process writes it: read it by __atomic_load_n(p, __ATOMIC_ACQUIRE). */
const volatile int *yk__control_cancelled(const yk__control *c);
bool yk__control_left(const yk__control *c, uint32_t rank); /* it has said goodbye */
/* This process ends with that exit code, for the error of those that wait for it; before it leaves. */
void yk__control_exits(yk__control *c, int code);
/* The error of a wait, in the operation `what`, for a rank that has left. */
yk_status yk__control_describe_left(const yk__control *c, uint32_t rank, const char *what, yk_error *err);
/* The same, and it ends the job. */
yk_status yk__control_fail_left(yk__control *c, uint32_t rank, const char *what, yk_error *err);

/* Data of a rank on another host has come: it lives, whatever became of its host's heartbeats. */
void yk__control_heard(yk__control *c, uint32_t rank);

/* ---- Waits ------------------------------------------------------------------------------------------------------- */

/* What one wait has seen of the rank that holds it up; zero at first. */
typedef struct yk__control_wait {
    uint32_t rank, calls, advance; /* rank: 1 + its number */
    int64_t last, ns;              /* of the last look; for so long has it done nothing */
} yk__control_wait;

/* A look, now and then during a wait for `peer` that lasts, in the operation `what`: fails when the job ends, or when the rank
 * that holds it up (peer, or the one which peer waits for itself) has done nothing for too long; then the job ends. */
yk_status yk__control_look(yk__control *c, yk__control_wait *wait, uint32_t peer, const char *what, yk_error *err);
void yk__control_waited(yk__control *c, const yk__control_wait *wait); /* the wait is over */
void yk__control_count_call(yk__control *c); /* this rank has done something that others may wait for */

/* ---- Small data -------------------------------------------------------------------------------------------------- */

#define YK__CONTROL_INFO 160u  /* bytes that a rank shows of the operation it is in */
#define YK__CONTROL_BLOB 4096u /* bytes of an exchange */

/* What others see of this rank; `bytes` of it, always the same. */
void yk__control_publish(yk__control *c, const void *info, uint32_t bytes);
/* A copy of what that rank shows; false where there is none, or it is being written just now. */
bool yk__control_read(const yk__control *c, uint32_t rank, void *info, uint32_t bytes);
/* all[r * bytes ..] = rank r's `blob`, on every rank; a collective, for the start of a job (addresses, keys). */
yk_status yk__control_exchange(yk__control *c, const char *what, const void *blob, uint32_t bytes, void *all, yk_error *err);

/* In a rank, whether it has joined or not: tells the launcher of an error, over the descriptor that it gave. False when there is no
 * launcher. Any thread. */
bool yk__control_report(int job_fd, const yk_error *why);

#endif
