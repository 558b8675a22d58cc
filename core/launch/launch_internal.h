/* SPDX-License-Identifier: Apache-2.0 */
/* The shared part of the launcher's files: starting ranks (spawn.c), supervising them (launch.c), the guard (guard.c). */
#ifndef YOKE_CORE_LAUNCH_LAUNCH_INTERNAL_H
#define YOKE_CORE_LAUNCH_LAUNCH_INTERNAL_H

#include <sys/types.h>

#include "core/control/control_job.h"
#include "core/device/device.h"
#include "core/launch/launch_signals.h"
#include "core/launch/node_io.h"
#include "core/launch/restart.h"

typedef struct yk__child {
    pid_t pid; /* 0 if not started, or reaped */
    int code;  /* exit code, or 128 + signal */
    bool stopped;
    bool heeds;  /* several hosts: SIGUSR1 asks it to leave, as it says itself */
    bool blamed; /* several hosts: the rank has reported the culprit of the job's end, and ends because of it */
    int64_t left_at; /* ms; 0 while it is in the group */
    uint32_t advance; /* its count of progress at the last look, and the ms since it moved, of looks after a signal or an end */
    int64_t still_ms;
    char name[128];
} yk__child;

typedef struct yk__guard {
    pid_t pid; /* 0 without a guard */
    int fd;    /* -1 */
} yk__guard;

typedef struct yk__launcher {
    yk__control_job *job;
    yk__child *rank;
    uint32_t n_ranks, alive;
    char *const *argv;
    int (*function)(void *argument); /* runs instead of a program; NULL for argv */
    void *argument;
    yk__node *node; /* NULL for a job on this host alone */
    void (*say)(const char *text); /* as yk__launch_say */
    yk__guard guard;
    yk__signals signals;
    int interrupted; /* number of the first SIGINT, SIGTERM, SIGHUP or SIGUSR1; 0 before. A later one follows a SIGUSR1 to other programs */
    bool again;      /* a rank has left the group and ended with YK__LAUNCH_AGAIN: */
    uint32_t again_rank; /* the first such rank */
    int64_t again_at;    /* ms; the remaining ranks are late after this */
    yk__restart restart;
    bool ending, term_sent, said, gave_up;
    bool ran; /* every rank was started */
    int64_t term_at, kill_at; /* ms, once ending */
    uint32_t culprit, culprit_advance; /* the rank at fault, and its advance count at that time (core/base/advance.h) */
    int64_t culprit_at;                /* ms; time to check that the culprit has advanced; 0 once checked */
    int64_t seen_at;        /* ms; of the last look at the ranks' progress; 0 before a signal or an end */
    uint32_t stuck_ms;        /* YOKE_STUCK_MS; 0 means no limit */
    int64_t killed_at;        /* ms; of the first SIGKILL to every rank */
    int64_t stopped_since;    /* ms; 0 if no started rank is stopped, or every one is */
    bool paused;              /* several hosts: the launcher has stopped the job */
    char blame[YK_ERROR_TEXT]; /* the first verdict of a rank about another host's rank */
    int64_t left_ms;          /* how long a rank may live on after it left; 0 means for ever */
    uint64_t oom_kills;       /* yk__cgroup_kills at the start */
    bool liveness;            /* false: a stopped rank may be in a debugger */
} yk__launcher;

/* This host's part, for which a launcher on another host speaks; NULL if this launcher speaks for itself. */
static inline yk__node *yk__launcher_led(const yk__launcher *launcher)
{
    return launcher->node && !launcher->node->single ? launcher->node : NULL;
}

/* Starts each rank in a process group of its own; fills their names. */
yk_status yk__launcher_start(yk__launcher *launcher, const yk__placement *place, yk_error *err);

/* yk__launch for this host's part of a job. */
yk_status yk__launch_node(yk__node *node, const yk__placement *place, char *const *argv, void (*say)(const char *text), int *code,
                          yk_error *err);

/* The guard: a process that outlives a killed launcher just long enough to end the groups of its ranks. Children of a wrapper end with
 * them. The job also runs without a guard (no memory, no process left). */
void yk__guard_start(yk__guard *guard);
/* Runs in the rank's process, after the fork and before the exec, so that no child of it is missed. Async-signal-safe. */
void yk__guard_add(const yk__guard *guard, pid_t group);
void yk__guard_remove(const yk__guard *guard, pid_t group);
void yk__guard_stop(yk__guard *guard);

#endif
