/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host's part of a job on several hosts: "yoke launch --node", which the launcher (remote.h) starts on each by ssh or srun.
 *
 * Launcher and node talk over the node's standard input and output, so that nothing of it appears on a command line or in an environment.
 * The launcher sends records, "name=value" and a zero each, and an empty one at the end: version= folder= devices= ranks= hosts= name=
 * address= port= env=NAME=VALUE .. arg= .. The node selects the devices, listens for rank 0 if it has an address, and answers in lines that
 * begin with YK__NODE_LINE: "rank SPEC" for each of its ranks, then "ready ADDRESS PORT". Then come secret=HEX first= size= address= port=
 * and the ranks are started. From there on every byte that comes is a signal to pass on, or 0, a beat of the launcher's host; the end of
 * the input is the launcher's end. Ranks' lines go out with "[RANK] " in front. "error TEXT" reports the first error of the node, "verdict
 * RANK TEXT" the fault of another rank that a rank reports as the job's end. "heeds" says that SIGUSR1 asks a rank to leave. "beat" goes
 * out if there is nothing else to send, and "end" behind the whole output. A side that is silent for longer than yk__node_silence_ms counts
 * as lost, as a connection may end so.
 */
#ifndef YOKE_CORE_LAUNCH_NODE_H
#define YOKE_CORE_LAUNCH_NODE_H

#define YK__NODE_VERSION "4"
#define YK__NODE_SECRET 32 /* bytes */

/* Returns the exit code of the process. Thread rule: a program with one thread. */
int yk__node_main(void);

#endif
