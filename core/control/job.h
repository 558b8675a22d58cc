/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of a job's host that makes what its ranks have in common: two memory objects without a name (memfd), one for the control
 * plane, one for the ranks' data, handed to each rank, with the job's secret, over a socket. So nothing can be left behind in
 * /dev/shm. It is the launcher's side, whose ranks inherit their sockets; or, where there is no launcher of ours, that of the host's
 * lowest rank (bootstrap.h), and then the other ranks come to it.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_JOB_H
#define YOKE_CORE_CONTROL_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

typedef struct yk__control_job yk__control_job;

/* The memory objects and one socket pair per rank. All descriptors are close-on-exec. */
yk_status yk__control_job_new(uint32_t ranks, yk__control_job **job, yk_error *err);
void yk__control_job_free(yk__control_job *job);
/* The memory objects alone, for a job of which some ranks are on other hosts. secret: YK__CONTROL_SECRET bytes that all hosts have;
 * NULL: a new one. server: 1 + the rank that this process is; 0: a launcher. */
yk_status yk__control_job_make(uint32_t ranks, uint32_t server, const uint8_t *secret, yk__control_job **job, yk_error *err);
/* Hands the job to a rank that came over a socket of its own, SOCK_SEQPACKET, which is the job's from now on. */
yk_status yk__control_job_hand(yk__control_job *job, uint32_t rank, int fd, yk_error *err);
/* A socket pair for the rank, with the hello waiting in it, as yk__control_job_new makes for each. */
yk_status yk__control_job_pair(yk__control_job *job, uint32_t rank, yk_error *err);
/* The name that messages use until the rank joins under its own. */
void yk__control_job_name(yk__control_job *job, uint32_t rank, const char *name);
/* This host's address in the job's network, numeric; before a rank joins. */
void yk__control_job_address(yk__control_job *job, const char *address);
/* The descriptor for the rank's process (its YOKE_JOB_FD) and the launcher's end. The hello is waiting in it. */
int yk__control_job_rank_fd(const yk__control_job *job, uint32_t rank);
int yk__control_job_fd(const yk__control_job *job, uint32_t rank);
int yk__control_job_take_rank_fd(yk__control_job *job, uint32_t rank); /* for this process, which closes it */
/* Closes the rank's end after the process was started. */
void yk__control_job_started(yk__control_job *job, uint32_t rank);
/* True when the rank joined and has not said goodbye. */
bool yk__control_job_joined(const yk__control_job *job, uint32_t rank);
/* True when it has said goodbye. */
bool yk__control_job_left(const yk__control_job *job, uint32_t rank);
uint32_t yk__control_job_advance(const yk__control_job *job, uint32_t rank); /* as of its last beat; 0 for no rank of the job */
pid_t yk__control_job_pid(const yk__control_job *job, uint32_t rank); /* of the process that joined, by its own word; or 0 */
/* The rank's process ended before it joined: those who wait for it to join fail with its name. False when it has joined. */
bool yk__control_job_gone(yk__control_job *job, uint32_t rank);
/* Ends the job for all ranks, as yk__control_end does; false when another error came first. */
bool yk__control_job_abort(yk__control_job *job, uint32_t rank, yk_status status, const char *text);
/* The error that ended the job and the rank at fault; false when there is none. silent: found by its silence. */
bool yk__control_job_error(const yk__control_job *job, uint32_t *rank, bool *silent, yk_error *err);
/* Takes one notice that came on the rank's socket: an error to report, or news of an abort or a goodbye (then false). Also false
 * when there is none or it is malformed. */
bool yk__control_job_notice(yk__control_job *job, uint32_t rank, yk_error *err);
/* Of several hosts, where the ranks are in a job that one of them makes, and the socket is that of yk__node_fd: takes what one says has
 * ended that job, for the fault of which of its ranks. False when there is nothing. */
bool yk__control_job_verdict(yk__control_job *job, uint32_t rank, uint32_t *who, yk_error *err);

#endif
