/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's part of a job on several hosts: its ranks' numbers, and their input and output while they run. Made by node.c, or, for a
 * launcher on each host, by launch.c.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_LAUNCH_NODE_IO_H
#define YOKE_CORE_LAUNCH_NODE_IO_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/launch/pipe_lines.h"

#define YK__NODE_LINE "yoke-node " /* beginning of a line of the node's own */
#define YK__NODE_BEAT_MS 500       /* each side sends a beat this often */

typedef struct yk__node {
    bool single;          /* a launcher on each host: nobody above this one gives it orders or prints for it and its ranks */
    const char *host;     /* the host's name, as the user writes it; NULL if single */
    uint32_t first, size; /* the number of its first rank; ranks of the whole job */
    char address[256];    /* rank 0's */
    uint16_t port;
    int listener;         /* rank 0's, on its host; else -1 */
    int secret;           /* a file without a name; -1 if single: the user's YOKE_SECRET_FILE has it */
    int orders;           /* from the launcher; -1 after its end, and if single */
    int64_t checked_at, beat_at; /* ms; of the last check of the launcher, of the last beat to it */
    int64_t silent_ms;    /* time without a word from the launcher, a sum of limited steps */
    bool heard;           /* the launcher has sent something since the last check */
    yk__lines *output;    /* [2 * ranks of this host]: standard output and standard error of each; NULL if single */
    uint32_t ranks;
} yk__node;

/* ---- Standard output and error: the launcher may read them slowly, or not at all ---- */

void yk__node_open(void);
/* Prints a line of the node's own: "error ..". */
void yk__node_say(const char *what, const char *text);
/* Reports the job's end to the launcher, as the local ranks give it: text, and the rank at fault. */
void yk__node_tell(uint32_t rank, const char *text);
void yk__node_drain(void); /* waits while a reader takes something */
void yk__node_close(void); /* drains first; "end" tells the launcher that no output is lost */

/* ---- While ranks run ---- */

/* Descriptors to wait for: at most YK__NODE_POLL of the host's ranks. */
#define YK__NODE_POLL(ranks) (2 * (ranks) + 3)
nfds_t yk__node_poll(const yk__node *node, struct pollfd *poll);
/* Passes on the ranks' output, each line with its rank in front, as far as the launcher takes it. */
void yk__node_pump(yk__node *node);
/* Passes on their last output, even if the launcher does not take it; the excess is lost. */
void yk__node_finish(yk__node *node);
/* The next signal that the launcher passes on; 0 if none; -1 if the launcher has just ended. SIGTSTP and SIGCONT stop and continue the
 * whole job. */
int yk__node_order(yk__node *node);
/* Sends the launcher a beat. False if nothing has come from the launcher for longer than its host may be silent. */
bool yk__node_beat(yk__node *node);
int64_t yk__node_silence_ms(void); /* how long a side may be silent; 0 means for ever (YOKE_LIVENESS_MS=0) */

#endif
