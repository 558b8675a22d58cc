/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group of a process: a launched one joins its ranks with its first job; jobs that follow one another share the group, which is left
 * at exit. A process by itself gets a group of one for each job.
 */
#ifndef YOKE_CORE_JOB_JOIN_H
#define YOKE_CORE_JOB_JOIN_H

#include "core/group/group.h"

yk_status yk__join_group(yk__group **group, yk_error *err);
void yk__join_release(yk__group *group); /* a job needs it no more; NULL: nothing */
/* Leaves the other ranks, as the end of a process with that exit code does; for one that runs no exit handlers. */
void yk__join_leave(int code);
/* Whether this process has opened some job, and so may have loaded drivers. Thread rule: any thread. */
void yk__join_note_job(void);
bool yk__join_had_job(void);

#endif
