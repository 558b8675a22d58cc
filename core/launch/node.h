/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host's part of a job on several hosts: "yoke launch --node", which the launcher (remote.h) starts on each by ssh or srun.
 *
 * What they say to each other goes over its standard input and output, so that nothing of it stands on a command line or in an
 * environment. The launcher sends records, "name=value" and a zero each, and an empty one at the end:
 *     version=1 folder= devices= ranks= hosts= name= address= port= env=NAME=VALUE .. arg= ..
 * The node selects the devices, listens for rank 0 where it has an address, and answers in lines that begin with YK__NODE_LINE: "rank
 * SPEC" for each of its ranks, then "ready ADDRESS PORT". Then come
 *     secret=HEX first= size= address= port=
 * and the ranks are started. From there on every byte that comes is a signal to pass on, and the end of the input the launcher's end. What
 * ranks print goes out with "[RANK] " in front of each line; the first error of the node as "error TEXT"; and what a rank says has ended
 * the job, for the fault of another, as "verdict RANK TEXT".
 */
#ifndef YOKE_CORE_LAUNCH_NODE_H
#define YOKE_CORE_LAUNCH_NODE_H

#define YK__NODE_VERSION "1"
#define YK__NODE_SECRET 32 /* bytes */

/* Returns the exit code of the process. Thread rule: a program with one thread. */
int yk__node_main(void);

#endif
