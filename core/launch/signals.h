/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of a launcher, which reads them where it waits. Thread rule: a program with one thread. */
#ifndef YOKE_CORE_LAUNCH_SIGNALS_H
#define YOKE_CORE_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__signals {
    int fd;        /* readable where there is one; -1: not taken */
    int last;        /* the last that asked for the end; 0: none has */
    bool last_order; /* another launcher passed it on */
    int64_t last_at; /* ms */
    sigset_t mask; /* the caller's */
    struct sigaction old_child;
} yk__signals;

/* SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP and SIGCHLD come by yk__signals_next from here on, over all attempts of a job. One that the
 * caller ignores (nohup) stays ignored, but for a SIGINT that a process sends: a shell ignores it for commands behind '&' because of the
 * terminal's alone. */
yk_status yk__signals_take(yk__signals *signals, yk_error *err);
int yk__signals_next(yk__signals *signals); /* 0: there is none */
/* Whether a signal that asks for the end is the last one once more. timeout(1) sends one to the process and to the process's group: the
 * same signal within 50 ms counts once. Slurm sends one to the launcher and to its part on each host, to which the launcher passes its
 * own on: a signal and an `order` within 0.5 s count once. */
bool yk__signals_repeated(yk__signals *signals, int sig, bool order);
void yk__signals_release(yk__signals *signals); /* one that came late has nothing to end any more */

#endif
