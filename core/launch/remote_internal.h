/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher of several hosts knows of each: shared by remote.c (what comes of it) and remote_start.c (starting it). */
#ifndef YOKE_CORE_LAUNCH_REMOTE_INTERNAL_H
#define YOKE_CORE_LAUNCH_REMOTE_INTERNAL_H

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include "core/launch/lines.h"
#include "core/launch/remote.h"

typedef struct yk__peer { /* a host */
    const char *name;
    char **argv;          /* of its child, one allocation a word */
    pid_t pid;            /* 0: not started, or reaped */
    int in;               /* a socket to its standard input; -1: closed */
    yk__lines out, err;
    bool ready;           /* it has answered */
    uint32_t ranks;
    char **device;        /* [ranks] */
    size_t capacity;
    char address[256];    /* of the first host: where rank 0 listens */
    unsigned port;
    char complaint[320];  /* the last line on standard error before it was ready */
} yk__peer;

struct yk__remote {
    yk__remote_config config;
    yk__peer *peer;       /* [hosts] */
    struct pollfd *poll;
    uint32_t alive;
    bool running;
    int signal_fd, interrupted, code;
    yk_error err;         /* the first */
    const yk__peer *failed; /* whose it is; NULL: nobody's */
    int64_t kill_at;      /* ms, after an error */
    sigset_t mask;        /* the caller's */
    struct sigaction old_child;
};

/* Starts the child of a host and sends it the first records. */
yk_status yk__remote_start(yk__remote *remote, uint32_t host, yk_error *err);
/* Sends the last records, after which the ranks run. */
yk_status yk__remote_begin(yk__remote *remote, yk_error *err);
void yk__remote_hang_up(yk__peer *peer); /* closes its input */
void yk__peer_release(yk__peer *peer);

#endif
