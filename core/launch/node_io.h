/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's part of a job on several hosts: who its ranks are in it, and what goes to and from them while they run. Made by node.c.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_LAUNCH_NODE_IO_H
#define YOKE_CORE_LAUNCH_NODE_IO_H

#include <poll.h>
#include <stdint.h>

#include "core/launch/lines.h"

#define YK__NODE_LINE "yoke-node " /* what a line of the node's own begins with */

typedef struct yk__node {
    const char *host;     /* as the user calls it */
    uint32_t first, size; /* the number of its first rank; ranks of the whole job */
    char address[256];    /* of rank 0 */
    uint16_t port;
    int listener;         /* of rank 0, on its host; else -1 */
    int secret;           /* a file without a name */
    int orders;           /* from the launcher; -1: it has ended */
    yk__lines *output;    /* [2 * ranks of this host]: standard output and standard error of each */
    uint32_t ranks;
} yk__node;

/* Descriptors to wait for: at most YK__NODE_POLL of so many ranks. */
#define YK__NODE_POLL(ranks) (2 * (ranks) + 1)
nfds_t yk__node_poll(const yk__node *node, struct pollfd *poll);
/* Passes on what ranks have printed, each line with its rank in front. */
void yk__node_pump(yk__node *node);
/* Tells the launcher what has ended the job, as its ranks have it, for the fault of that one of them. */
void yk__node_tell(uint32_t rank, const char *text);
/* The next signal that the launcher passes on; 0: none; -1: the launcher has just ended. */
int yk__node_order(yk__node *node);

#endif
