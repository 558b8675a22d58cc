/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of a launcher, read from a descriptor that it polls. Thread rule: a program with one thread. */
#ifndef YOKE_CORE_LAUNCH_LAUNCH_SIGNALS_H
#define YOKE_CORE_LAUNCH_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__signals {
    int fd;        /* readable if a signal waits; -1 if not taken */
    int last;        /* the last signal that asked for the end; 0 if none */
    bool last_order; /* another launcher passed it on */
    int64_t last_at; /* ms */
    bool typed;      /* the last SIGTSTP was the terminal's Ctrl-Z */
    sigset_t mask;   /* the caller's */
    sigset_t ranks;  /* the same without the signals that are taken here: a parent that blocks them keeps none from the ranks */
    struct sigaction old_child;
} yk__signals;

/* From here on yk__signals_next returns SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP and SIGCHLD, over all attempts of a job. A signal that
 * the caller ignores (nohup) stays ignored, except a SIGINT sent by a process. A shell ignores SIGINT for commands behind '&' only
 * because of the terminal's. */
yk_status yk__signals_take(yk__signals *signals, yk_error *err);
int yk__signals_next(yk__signals *signals); /* 0 if none waits */
/* True if a signal that asks for the end repeats the last one. timeout(1) signals the process and the process's group: the same signal
 * within 50 ms counts once. Slurm signals the launcher and its part on each host, to which the launcher passes its own signal on. A
 * signal and an `order` within 0.5 s count once. */
bool yk__signals_repeated(yk__signals *signals, int sig, bool order);
/* Stops this process after a SIGTSTP, until SIGCONT. Ctrl-Z stops it only if a shell can continue it. */
void yk__signals_stop(const yk__signals *signals);
void yk__signals_release(yk__signals *signals); /* a late signal has nothing left to end */

#endif
