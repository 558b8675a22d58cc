/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of one host: a shared-memory object without a name (memfd), made by the launcher and handed to each
 * rank, with the job's secret, over a socket it inherits. So nothing can be left behind in /dev/shm.
 *
 * This header is the launcher's side and the table; the layout of the shared object is in layout.h.
 */
#ifndef YOKE_TRANSPORT_LOCAL_LOCAL_H
#define YOKE_TRANSPORT_LOCAL_LOCAL_H

#include <stdbool.h>
#include <sys/types.h>

#include <yoke/transport.h>

#include "core/base/error.h"

const yk_transport *yk__local_transport(void);

/* ---- The launcher's side; one thread ----------------------------------------------------------------------------- */

typedef struct yk__local_job yk__local_job;

/* The shared object and one socket pair per rank. All descriptors are close-on-exec. */
yk_status yk__local_job_new(uint32_t ranks, yk__local_job **job, yk_error *err);
void yk__local_job_free(yk__local_job *job);
/* The name that messages use until the rank joins under its own. */
void yk__local_job_name(yk__local_job *job, uint32_t rank, const char *name);
/* The descriptor for the rank's process (its YOKE_JOB_FD) and the launcher's end. The hello is waiting in it. */
int yk__local_job_rank_fd(const yk__local_job *job, uint32_t rank);
int yk__local_job_fd(const yk__local_job *job, uint32_t rank);
/* Closes the rank's end after the process was started. */
void yk__local_job_started(yk__local_job *job, uint32_t rank);
/* True when the rank joined and has not said goodbye. */
bool yk__local_job_joined(const yk__local_job *job, uint32_t rank);
/* True when it has said goodbye. */
bool yk__local_job_left(const yk__local_job *job, uint32_t rank);
pid_t yk__local_job_pid(const yk__local_job *job, uint32_t rank); /* of the process that joined, by its own word; or 0 */
/* The rank's process ended before it joined: those who wait for it to join fail with its name. False when it has joined. */
bool yk__local_job_gone(yk__local_job *job, uint32_t rank);
/* Ends the job for all ranks, as yk_transport.abort does; false when another error came first. */
bool yk__local_job_abort(yk__local_job *job, uint32_t rank, yk_status status, const char *words);
/* The error that ended the job and the rank at fault; false when there is none. silent: found by its silence. */
bool yk__local_job_error(const yk__local_job *job, uint32_t *rank, bool *silent, yk_error *err);
/* Takes one notice that came on the rank's socket: an error to report, or news of an abort or a goodbye (then false). Also false
 * when there is none or it is malformed. */
bool yk__local_job_notice(yk__local_job *job, uint32_t rank, yk_error *err);

/* In a rank: tells the launcher of an error, whether it has joined or not. False when there is no launcher. */
bool yk__local_report(int job_fd, const yk_error *why);

#endif
