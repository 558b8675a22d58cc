/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the ranks of a launch, once for all jobs of the process, and leaves them at its end. A single process gets a group of one for each
 * job.
 *
 * open.c (core/job/session) calls it when a job opens or closes, in the step thread. The group outlives the job. A handler of exit() leaves
 * it, so other ranks learn how this process ended.
 */
#include "core/job/team/job_join.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/control/start/origin.h"
#include "core/job/job.h"

static atomic_bool opened; /* true once any job was opened */
static yk__group *joined;
static pid_t joined_by;

void yk__join_note_job(void)
{
    atomic_store(&opened, true);
}

bool yk__join_had_job(void)
{
    return atomic_load(&opened);
}

void yk__join_leave(int code)
{
    if (!joined || getpid() != joined_by) /* in a forked child the group is its parent's */
        return;
    yk__group_exits(joined, code);
    yk__group_leave(joined);
    joined = NULL;
}

static void leave_at_exit(int code)
{
    if (!joined || getpid() != joined_by)
        return;
    yk__group_exits(joined, code);
    yk__group_leave_at_exit(joined);
    joined = NULL;
}

/* glibc's on_exit passes the exit code; a plain exit handler does not know it. */
#ifdef __GLIBC__
static void leave_exiting(int code, void *unused)
{
    (void)unused;
    leave_at_exit(code);
}
#else
static void leave_exiting(void)
{
    leave_at_exit(0);
}
#define on_exit(function, argument) atexit(function)
#endif

yk_status yk__join_group(yk__group **group, yk_error *err)
{
    const bool is_fork = joined && getpid() != joined_by;
    if (!yk__launched() && (!joined || is_fork))
        return yk__group_solo(group, err);
    if (is_fork)
        return yk__fail(err, YK_E_ARG, "this process is a fork of rank %u, which is in the job already: open the job's jobs in the rank, "
                        "or set YOKE_LAUNCHER=none in the fork for a job of its own", yk__group_rank(joined));
    if (!joined) {
        if (yk__group_join(NULL, &joined, err)) /* under the launcher's name: "rank 1 (cpu:1)" */
            return err->status;
        joined_by = getpid();
        on_exit(leave_exiting, NULL);
        yk__group_place(joined, yk__here_place);
    }
    *group = joined;
    return YK_OK;
}

void yk__join_release(yk__group *group)
{
    if (group != joined)
        yk__group_leave(group);
}
