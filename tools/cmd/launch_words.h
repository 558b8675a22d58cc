/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of yoke launch's options in the words of other launchers: torchrun's gpu, cpu and auto, mpirun's -x and --map-by. cmd_launch.c
 * calls it in the main thread.
 */
#ifndef YOKE_TOOLS_CMD_LAUNCH_WORDS_H
#define YOKE_TOOLS_CMD_LAUNCH_WORDS_H

#include "tools/cli.h"

/* Maps for rows of spellings (tools/spell.h). */
const char *launch_map_nodes(const char *given, char *space, size_t size);      /* 2:2 of torchrun, if both are equal: 2 */
const char *launch_map_slot(const char *given, char *space, size_t size);       /* slot alone */
const char *launch_map_rendezvous(const char *given, char *space, size_t size); /* c10d or static alone */
const char *launch_map_endpoint(const char *given, char *space, size_t size);   /* an address of this host alone */
/* NAME=VALUE, or the NAME of a variable that is set: sets it, and keeps the name for launch_variables. */
const char *launch_map_variable(const char *given, char *space, size_t size);
/* The names of all --env, ends with NULL; valid until the process ends. */
char *const *launch_variables(void);

/* Reads --nproc-per-node, a number or a word: *ranks, 0 without the option, and for a word *devices, which stay until the process ends.
 * listed: the hosts stand in a list. Sets *bad after a message. */
void launch_each_read(const yk__cli *cli, bool listed, uint32_t *ranks, const char **devices, bool *bad);

#endif
