/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane: the ranks of the job, their liveness and progress, and the end of the job. It knows nothing of the data that ranks
 * exchange (core/coll).
 *
 * A rank joins over a descriptor, from the launcher (YOKE_JOB_FD) or from bootstrap.h. The descriptor brings the job's secret and two
 * memory objects without a name. The first has a slot per rank of the job, for this header; the second holds the data of this host's
 * ranks. control_job.h makes them. The host's agent (agent.h) keeps the slots of ranks on other hosts up to date, so this header works
 * alike for ranks on one host and on several.
 *
 * A thread per rank shows that its process lives, and checks the other ranks of its host. A rank that is silent for liveness_ms is lost.
 * Heartbeats of another host share their line with data, so data is a sign of life too. A rank that waits for a live but idle rank finds it
 * (yk__control_look). The end of a job is one record that every wait checks; its first writer wins, so every rank reports the same error.
 *
 * Thread rule: one thread for join, leave, exchange, publish and the looks of one wait; any thread for the other functions.
 */
#ifndef YOKE_CORE_CONTROL_CONTROL_H
#define YOKE_CORE_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Ranks of one job at most: a mistyped number of ranks is refused before anything is made for it. Tables by rank have the job's size. The
 * first part of the program that learns of a larger job, from its variables or hosts, refuses it.
 */
#define YK__RANKS 1024u

typedef struct yk__control yk__control;
typedef struct yk__agent yk__agent; /* agent.h */

typedef struct yk__control_config {
    int job_fd;           /* from the launcher or yk__bootstrap; join takes it over */
    yk__agent *agent;     /* from yk__bootstrap, or NULL; join takes it over */
    const char *name;     /* this rank's name in other ranks' messages; NULL for the launcher's name */
    uint32_t liveness_ms; /* time without a sign of life after which a rank is lost; 0 for never */
    uint32_t join_ms;     /* time that join waits for all ranks; 0 for ever */
    uint32_t stuck_ms;    /* time after which an awaited, idle rank is lost; 0 for never */
    uint32_t call_ms;     /* the same for a rank in a call, see yk__act_patience_ms; in its own code it is then only named. 0: stuck_ms
                           * for both */
    const struct yk__origin *origin;  /* start of this process, for a log line during the wait; NULL for no line */
    const volatile uint32_t *advance; /* a count that moves while this rank works; NULL if only its calls count */
} yk__control_config;

/* Returns once all ranks have joined. */
yk_status yk__control_join(const yk__control_config *config, yk__control **control, yk_error *err);
/* Called once the group is whole: from then on this process looks at itself, too (stuck.c). */
void yk__control_met(yk__control *c);
/* Says goodbye, so that no rank takes it for a death. With the host's agent in this process, waits until no other rank needs the agent.
 * In a fork of the process that joined, frees only the memory. */
void yk__control_leave(yk__control *c);
/* The same from an exit handler of the process that joined: frees and unmaps nothing, as threads may go on, and takes no lock. */
void yk__control_leave_at_exit(yk__control *c);

uint32_t yk__control_rank(const yk__control *c);
uint32_t yk__control_size(const yk__control *c);
const char *yk__control_name(const yk__control *c, uint32_t rank); /* valid as long as c; "" for an unknown rank */
/* Equal for ranks on one host, under one kernel. */
uint64_t yk__control_host(const yk__control *c, uint32_t rank);
/* This host's numeric address in the job's network; NULL if one host has all ranks. Valid as long as c. */
const char *yk__control_address(const yk__control *c);
/* The memory object of this host's ranks, empty at first; core/coll/shm/shm.h lays it out. */
int yk__control_memory(const yk__control *c);
#define YK__CONTROL_SECRET 32
/* Known to the ranks of this job alone. Never log it. */
const uint8_t *yk__control_secret(const yk__control *c);

/* ---- The end of the job ------------------------------------------------------------------------------------------ */

/* Ends the job for all ranks with this error, for the fault of `rank`. No-op in a job that is ending already. */
void yk__control_end(yk__control *c, uint32_t rank, yk_status status, const char *text);
/* YK_OK while the job goes on, else the error that ended it. */
yk_status yk__control_check(const yk__control *c, yk_error *err);
/* Non-zero once the job must end. Another process writes it: read it by __atomic_load_n(p, __ATOMIC_ACQUIRE). */
const volatile int *yk__control_cancelled(const yk__control *c);
bool yk__control_left(const yk__control *c, uint32_t rank); /* true once it has said goodbye */
/* Announces the exit code of this process before it leaves, for the errors of ranks that wait for it. */
void yk__control_exits(yk__control *c, int code);
/* Tells the launcher that SIGUSR1 asks this rank to save and to leave. */
void yk__control_heeds_signal(yk__control *c);
/* The error of a wait in the operation `what` for a rank that has left. */
yk_status yk__control_describe_left(const yk__control *c, uint32_t rank, const char *what, yk_error *err);
/* The same, and ends the job. */
yk_status yk__control_fail_left(yk__control *c, uint32_t rank, const char *what, yk_error *err);

/* Notes data from a rank on another host: it lives, even if its host's heartbeats are late. */
void yk__control_heard(yk__control *c, uint32_t rank);

/* ---- Waits ------------------------------------------------------------------------------------------------------- */

/* A wait's observations of the rank that delays it; zero at first. */
typedef struct yk__control_wait {
    uint32_t rank, calls, advance; /* rank: 1 + its number */
    int64_t last, ns;              /* time of the last look; time for which the rank has done nothing */
} yk__control_wait;

/* A periodic look during a long wait for `peer`, in the operation `what`. Fails once the job ends. Also fails, and ends the job, if the
 * delaying rank (peer, or the rank that peer waits for) has done nothing for too long. */
yk_status yk__control_look(yk__control *c, yk__control_wait *wait, uint32_t peer, const char *what, yk_error *err);
void yk__control_waited(yk__control *c, const yk__control_wait *wait); /* ends the wait */
void yk__control_count_call(yk__control *c); /* counts a step of this rank that other ranks may wait for */

/* ---- Small data -------------------------------------------------------------------------------------------------- */

#define YK__CONTROL_INFO 160u  /* bytes that a rank publishes about its operation */
#define YK__CONTROL_BLOB 4096u /* bytes of an exchange */

/* Publishes this rank's info; `bytes` must always be the same. */
void yk__control_publish(yk__control *c, const void *info, uint32_t bytes);
/* Copies that rank's info; false if there is none, or if it is being written. */
bool yk__control_read(const yk__control *c, uint32_t rank, void *info, uint32_t bytes);
/* all[r * bytes ..] = rank r's `blob`, on every rank. A collective for the start of a job (addresses, keys). */
yk_status yk__control_exchange(yk__control *c, const char *what, const void *blob, uint32_t bytes, void *all, yk_error *err);

/* Reports an error to the launcher over its descriptor, before or after the rank joined. False without a launcher. Any thread. */
bool yk__control_report(int job_fd, const yk_error *why);

#endif
