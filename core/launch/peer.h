/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host of a job as the launcher sees it: the child, ssh or srun, that runs a node there (node.h), and its input. A peer knows of no
 * other; remote.h has all of a job.
 *
 * Thread rule: a program with one thread.
 */
#ifndef YOKE_CORE_LAUNCH_PEER_H
#define YOKE_CORE_LAUNCH_PEER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/launch/hosts.h"
#include "core/launch/launch_signals.h"
#include "core/launch/pipe_lines.h"
#include "core/launch/restart.h"

/* The program, and the hosts to run it on. Lives as long as the peers. */
typedef struct yk__peer_config {
    const yk__hosts *hosts;
    const char *devices; /* for hosts that have none of their own; NULL for auto */
    const char *shell;   /* the command that runs another on a host, words with blanks between: "ssh -o BatchMode=yes" */
    bool slurm;          /* srun instead, on nodes of this allocation */
    const char *address, *port; /* rank 0's, by the user; NULL: its host finds them */
    char *const *argv;   /* the program */
    char *const *variables; /* names of the environment that go to the hosts besides Yoke's own; ends with NULL */
    yk__restart restart; /* this attempt */
    yk__signals *signals; /* taken over all attempts: a signal between two of them ends the next */
} yk__peer_config;

typedef struct yk__peer {
    const char *name;
    char **argv;          /* the child's, one allocation a word */
    pid_t pid;            /* 0 if not started, or reaped */
    int in;               /* socket to the child's standard input; -1 if closed */
    yk__lines out, err;
    bool ready;           /* the node has answered */
    bool said;            /* the node has reported why its ranks end */
    bool whole;           /* the node's last word has come, behind all output */
    int64_t killed_at;    /* ms; of the first SIGKILL; 0 before */
    int64_t silent_ms;    /* time without a word from the node, a sum of limited steps */
    uint32_t ranks;
    char **device;        /* [ranks] */
    size_t capacity;
    char address[256];    /* rank 0's listening address, for the first host */
    unsigned port;
    char complaint[320];  /* the last line on standard error before it was ready */
} yk__peer;

/* Facts for the ranks of a host before they start; the same for all hosts but `first`. */
typedef struct yk__peer_begin {
    const char *secret;  /* hex digits of a number of YK__NODE_SECRET bytes */
    uint32_t first, size; /* the number of the host's first rank; ranks of the whole job */
    const char *address; /* rank 0's listening address */
    uint32_t port;
} yk__peer_begin;

/* Starts the child of host number `index`, with the caller's `mask` of signals, and sends it the first records. */
yk_status yk__peer_start(yk__peer *peer, const yk__peer_config *config, uint32_t index, const sigset_t *mask, yk_error *err);
/* Sends the last records, after which its ranks run. A host that does not take them ends soon; the launcher notices then. */
void yk__peer_run(yk__peer *peer, const yk__peer_begin *begin);
/* The command that started the host's node, for messages: words with blanks between. */
void yk__peer_command(const yk__peer *peer, char *text, size_t size);
void yk__peer_hang_up(yk__peer *peer); /* closes the child's input */
void yk__peer_release(yk__peer *peer);

#endif
