/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training that was started anew (yoke launch --max-restarts) finds of its earlier attempts: that the output folder is its own, by
 * DIR/.yoke-run, which names the launch and when it came there. Only a launch that may restart writes that file. Rank 0's.
 */
#ifndef YOKE_TOOLS_TRAIN_RESTART_H
#define YOKE_TOOLS_TRAIN_RESTART_H

#include <stdbool.h>

/* When an earlier attempt of this launch claimed that folder, in seconds since 1970: later checkpoints are its own. 0: none did. */
double restart_since(const char *dir);
bool restart_may_come(void); /* this launch restarts */
/* Claims a folder for this launch, where none of its attempts has. NULL, or why not. */
const char *restart_claim(const char *dir);

#endif
