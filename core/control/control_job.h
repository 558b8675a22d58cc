/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a job's host that makes the objects of its ranks. They are two memory objects without a name (memfd): one for the control
 * plane, one for the ranks' data. A socket hands them to each rank, with the job's secret. So nothing can stay behind in /dev/shm. It runs
 * in the launcher, whose ranks inherit their sockets. Without a launcher of ours it runs in the host's lowest rank (bootstrap.h), to which
 * the other ranks connect.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_CONTROL_JOB_H
#define YOKE_CORE_CONTROL_CONTROL_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

typedef struct yk__control_job yk__control_job;

/* Makes the memory objects and one socket pair per rank. All descriptors are close-on-exec. */
yk_status yk__control_job_new(uint32_t ranks, yk__control_job **job, yk_error *err);
void yk__control_job_free(yk__control_job *job);
/* Makes only the memory objects, for a job with ranks on other hosts. secret: YK__CONTROL_SECRET bytes that all hosts share; NULL for a
 * new one. server: 1 + the rank of this process; 0 for a launcher. */
yk_status yk__control_job_make(uint32_t ranks, uint32_t server, const uint8_t *secret, yk__control_job **job, yk_error *err);
/* Hands the job to a rank that connected by a SOCK_SEQPACKET socket; the job owns the socket from now on. */
yk_status yk__control_job_hand(yk__control_job *job, uint32_t rank, int fd, yk_error *err);
/* Makes a socket pair for the rank, with the hello in it, as yk__control_job_new does for each rank. */
yk_status yk__control_job_pair(yk__control_job *job, uint32_t rank, yk_error *err);
/* The rank's name in messages until it joins under its own. */
void yk__control_job_name(yk__control_job *job, uint32_t rank, const char *name);
/* This host's numeric address in the job's network; set before any rank joins. */
void yk__control_job_address(yk__control_job *job, const char *address);
/* The rank's end of its socket (its YOKE_JOB_FD), with the hello in it, and the launcher's end. */
int yk__control_job_rank_fd(const yk__control_job *job, uint32_t rank);
int yk__control_job_fd(const yk__control_job *job, uint32_t rank);
int yk__control_job_take_rank_fd(yk__control_job *job, uint32_t rank); /* the caller owns and closes it */
/* Closes the rank's end, once its process was started. */
void yk__control_job_started(yk__control_job *job, uint32_t rank);
/* True if the rank joined and has not said goodbye. */
bool yk__control_job_joined(const yk__control_job *job, uint32_t rank);
/* True if it has said goodbye. */
bool yk__control_job_left(const yk__control_job *job, uint32_t rank);
/* True if the rank says that SIGUSR1 asks it to save and to leave (yk__control_heeds_signal). */
bool yk__control_job_heeds(const yk__control_job *job, uint32_t rank);
uint32_t yk__control_job_advance(const yk__control_job *job, uint32_t rank); /* value at its last beat; 0 for an unknown rank */
/* ms without progress after which the rank counts as stuck, as it says itself at each beat; 0: unknown, or an act that may last,
 * such as its own code, unless YOKE_STUCK_MS is set. */
uint32_t yk__control_job_patience(const yk__control_job *job, uint32_t rank);
pid_t yk__control_job_pid(const yk__control_job *job, uint32_t rank); /* process that joined, as the rank itself says; 0 if unknown */
/* Marks a rank whose process ended before it joined, so that the ranks that wait for it fail with its name. False if it has joined. */
bool yk__control_job_gone(yk__control_job *job, uint32_t rank);
/* Ends the job for all ranks, as yk__control_end does; false if another error came first. */
bool yk__control_job_abort(yk__control_job *job, uint32_t rank, yk_status status, const char *text);
/* The error that ended the job and the rank at fault; false if none. *silent: its silence was the fault. */
bool yk__control_job_error(const yk__control_job *job, uint32_t *rank, bool *silent, yk_error *err);
/* Reads one note from the rank's socket. True for an error to report; false for a wake-up after an abort or goodbye, a malformed note,
 * or no note. */
bool yk__control_job_notice(yk__control_job *job, uint32_t rank, yk_error *err);
/* For a job of several hosts, with the socket of yk__node_fd: reads a rank's report of the error that ended the job and the rank at
 * fault. err stays YK_OK for the word that SIGUSR1 asks a rank to leave. False without a report. */
bool yk__control_job_verdict(yk__control_job *job, uint32_t rank, uint32_t *who, yk_error *err);

#endif
