/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child process in which plugins are loaded and asked: drivers start threads of their own, some end the process or hang, and none
 * likes a fork after its first use. Whoever waits for it names the plugin. Thread rule: as for a fork.
 */
#ifndef YOKE_CORE_LAUNCH_ASKING_H
#define YOKE_CORE_LAUNCH_ASKING_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/error.h"

typedef struct yk__asking {
    pid_t pid;
    int fd;      /* what it writes */
    char *asked; /* YK__ASKED bytes that both see */
} yk__asking;

/* The child runs `run`, which may write to fd, and exits with what it returns; no exit handlers run. */
yk_status yk__asking_start(yk__asking *a, int (*run)(void *arg, int fd), void *arg, yk_error *err);
/* Until it has written something, or has ended. A plugin that takes long is named, and given up after YOKE_JOIN_MS. */
yk_status yk__asking_await(yk__asking *a, yk_error *err);
/* Waits for its end. *code: what run returned; an error where something else ended it, which names the plugin. */
yk_status yk__asking_end(yk__asking *a, int *code, yk_error *err);

#endif
