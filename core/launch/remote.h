/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching a job on several hosts: on each, by ssh or srun, a "yoke launch --node" (node.h) that starts and supervises its ranks.
 *
 * Thread rule: a program with one thread.
 */
#ifndef YOKE_CORE_LAUNCH_REMOTE_H
#define YOKE_CORE_LAUNCH_REMOTE_H

#include <stddef.h>

#include "core/launch/launch.h"
#include "core/launch/peer.h"

typedef struct yk__remote yk__remote;

/* Starts a node on every host and asks for its devices; no rank runs yet. An error names a host that cannot be reached, has no Yoke, or
 * lacks the devices. The error has been reported then, and *code is the exit code. say: gets the first error, once. */
yk_status yk__remote_open(const yk__peer_config *config, yk__launch_say say, yk__remote **remote, int *code, yk_error *err);
/* Starts the ranks, numbered in the order of hosts, and waits for all of them. Their output appears with "[RANK] " in front of each
 * line. If a rank ends badly, or a host's connection ends, the ranks of all hosts are ended. SIGINT, SIGTERM, SIGHUP and SIGUSR1 are
 * passed on. *code as of yk__launch. *again: the job must be started anew, by another remote with the next count of its config's
 * restart. If that is possible, `say` gets the error once all ranks have ended, with the decision. */
yk_status yk__remote_run(yk__remote *remote, bool *again, int *code, yk_error *err);
/* Ends what still runs. Takes NULL. */
void yk__remote_close(yk__remote *remote);

uint32_t yk__remote_size(const yk__remote *remote); /* ranks of all hosts */
/* The host of a rank by its place in the list, and its device spec, which lives as long as the remote. */
uint32_t yk__remote_host(const yk__remote *remote, uint32_t rank);
const char *yk__remote_device(const yk__remote *remote, uint32_t rank);
/* The command that started this host's node, for messages: words with blanks between. */
void yk__remote_command(const yk__remote *remote, uint32_t host, char *text, size_t size);

#endif
