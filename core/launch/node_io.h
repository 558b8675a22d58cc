/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's part of a job on several hosts: who its ranks are in it, and what goes to and from them while they run. Made by node.c.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_LAUNCH_NODE_IO_H
#define YOKE_CORE_LAUNCH_NODE_IO_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/launch/lines.h"

#define YK__NODE_LINE "yoke-node " /* what a line of the node's own begins with */
#define YK__NODE_BEAT_MS 500       /* so often each side shows the other that it is there */

typedef struct yk__node {
    const char *host;     /* as the user calls it */
    uint32_t first, size; /* the number of its first rank; ranks of the whole job */
    char address[256];    /* of rank 0 */
    uint16_t port;
    int listener;         /* of rank 0, on its host; else -1 */
    int secret;           /* a file without a name */
    int orders;           /* from the launcher; -1: it has ended */
    int64_t checked_at, beat_at; /* ms; of the last check of the launcher, of the last beat to it */
    int64_t silent_ms;    /* for so long nothing has come from the launcher, added up from short steps */
    bool heard;           /* something has come since the last look */
    yk__lines *output;    /* [2 * ranks of this host]: standard output and standard error of each */
    uint32_t ranks;
} yk__node;

/* ---- Standard output and error, which the launcher reads, or does not ---- */

void yk__node_open(void);
/* A line of the node's own: "error ..". */
void yk__node_say(const char *what, const char *text);
/* Tells the launcher what has ended the job, as its ranks have it, for the fault of that one of them. */
void yk__node_tell(uint32_t rank, const char *text);
void yk__node_drain(void); /* waits for a reader that takes something, and no other */
void yk__node_close(void); /* the same first */

/* ---- While ranks run ---- */

/* Descriptors to wait for: at most YK__NODE_POLL of so many ranks. */
#define YK__NODE_POLL(ranks) (2 * (ranks) + 3)
nfds_t yk__node_poll(const yk__node *node, struct pollfd *poll);
/* Passes on what ranks have printed, each line with its rank in front. all: though the launcher does not take it; the excess is lost. */
void yk__node_pump(yk__node *node, bool all);
/* The next signal that the launcher passes on; 0: none; -1: the launcher has just ended. SIGTSTP and SIGCONT: the whole job is to stop, and
 * to go on. */
int yk__node_order(yk__node *node);
/* Shows the launcher that this process is there. False when nothing has come from the launcher for longer than its host may be silent. */
bool yk__node_beat(yk__node *node);
int64_t yk__node_silence_ms(void); /* how long a side may be silent; 0: for ever (YOKE_LIVENESS_MS=0) */

#endif
