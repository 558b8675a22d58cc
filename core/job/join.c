/* SPDX-License-Identifier: Apache-2.0 */
/* Joining the ranks of a launch, once for all jobs of the process, and leaving them at its end. */
#include "core/job/join.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/control/origin.h"
#include "core/job/job.h"

static atomic_bool opened; /* some job, ever */
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

void yk__join_leave(void)
{
    if (!joined || getpid() != joined_by) /* a fork that ends: the group is its parent's */
        return;
    yk__group_leave(joined);
    joined = NULL;
}

static void leave_at_exit(void)
{
    if (joined && getpid() == joined_by)
        yk__group_leave_at_exit(joined);
    joined = NULL;
}

yk_status yk__join_group(yk__group **group, yk_error *err)
{
    if (!yk__launched() && !joined)
        return yk__group_solo(group, err);
    if (!joined) {
        if (yk__group_join(NULL, &joined, err)) /* as the launcher named it: "rank 1 (cpu:1)" */
            return err->status;
        joined_by = getpid();
        atexit(leave_at_exit);
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
