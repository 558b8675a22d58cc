/* SPDX-License-Identifier: Apache-2.0 */
/* This host's ranks of a job on several hosts with a launcher on each, as torchrun does it. */
#ifndef YOKE_TOOLS_CMD_LAUNCH_NODE_H
#define YOKE_TOOLS_CMD_LAUNCH_NODE_H

#include <stdint.h>

struct yk__placement; /* core/device/device.h */

/* Starts `argv` for each of n placements as ranks first .. of `size`, and waits for all. The ranks meet at the address in the
 * environment, by the secret in YOKE_SECRET_FILE (docs/launching.md). When one fails, the rest here get SIGTERM, and SIGKILL 5 s later;
 * ranks on other hosts notice themselves. SIGINT, SIGTERM and SIGHUP are passed on. Returns the exit code: 0, 2 if the first rank to end
 * had that, 128 plus the signal after an interruption, else 1. Thread rule: a program with one thread. */
int launch_node(const struct yk__placement *place, uint32_t n, uint32_t first, uint32_t size, char *const *argv);

#endif
