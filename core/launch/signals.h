/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of a launcher, which reads them where it waits. Thread rule: a program with one thread. */
#ifndef YOKE_CORE_LAUNCH_SIGNALS_H
#define YOKE_CORE_LAUNCH_SIGNALS_H

#include <signal.h>

#include "core/base/error.h"

typedef struct yk__signals {
    int fd;        /* readable where there is one; -1: not taken */
    sigset_t mask; /* the caller's */
    struct sigaction old_child;
} yk__signals;

/* SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGCHLD come by yk__signals_next from here on. One that the caller ignores (nohup) stays ignored,
 * but for a SIGINT that a process sends: a shell ignores it for commands behind '&' because of the terminal's alone. */
yk_status yk__signals_take(yk__signals *signals, yk_error *err);
int yk__signals_next(yk__signals *signals); /* 0: there is none */
void yk__signals_release(yk__signals *signals); /* one that came late has nothing to end any more */

#endif
