/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group of a process. A launched process joins its ranks with its first job; later jobs share the group, which is left at exit. A
 * single process gets a group of one for each job.
 */
#ifndef YOKE_CORE_JOB_TEAM_JOB_JOIN_H
#define YOKE_CORE_JOB_TEAM_JOB_JOIN_H

#include "core/group/group.h"

yk_status yk__join_group(yk__group **group, yk_error *err);
void yk__join_release(yk__group *group); /* a job ends its use; no-op for NULL */
/* Leaves the other ranks as the process's exit with that code would; for a process without exit handlers. */
void yk__join_leave(int code);
/* Tells, and notes, that this process has opened a job, and so may have loaded drivers. Thread rule: any thread. */
void yk__join_note_job(void);
bool yk__join_had_job(void);

#endif
