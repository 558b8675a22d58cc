/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child process that loads plugins and asks them. Drivers start threads of their own, some end the process or hang, and none tolerates a
 * fork after its first use. The waiting process names the plugin. Thread rule: as for a fork.
 */
#ifndef YOKE_CORE_LAUNCH_ASKING_H
#define YOKE_CORE_LAUNCH_ASKING_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/error.h"

typedef struct yk__asking {
    pid_t pid;
    int fd;      /* the read end of the child's answer */
    char *asked; /* YK__ASKED bytes, shared by parent and child */
} yk__asking;

/* The child runs `run`, which may write to fd, and exits with run's result; no exit handlers run. */
yk_status yk__asking_start(yk__asking *a, int (*run)(void *arg, int fd), void *arg, yk_error *err);
/* Waits until the child has written something, or has ended. A slow plugin is named, and given up after YOKE_JOIN_MS. */
yk_status yk__asking_await(yk__asking *a, yk_error *err);
/* Waits for the child's end. *code: run's result. An end by anything else is an error that names the plugin. */
yk_status yk__asking_end(yk__asking *a, int *code, yk_error *err);

#endif
