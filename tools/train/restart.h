/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training that was started anew (yoke launch --max-restarts) finds of its earlier attempts: that the output folder is its own, by
 * DIR/.yoke-run, which names the launch, as its checkpoints do. Only a launch that may restart writes that file. Rank 0's.
 */
#ifndef YOKE_TOOLS_TRAIN_RESTART_H
#define YOKE_TOOLS_TRAIN_RESTART_H

#include <stdbool.h>

/* What this launch calls itself, in checkpoints too; NULL: it does not restart. */
const char *restart_run(void);
bool restart_is_own(const char *dir); /* an earlier attempt of this launch claimed that folder */
/* Claims a folder for this launch, where none of its attempts has. NULL, or why not. */
const char *restart_claim(const char *dir);

#endif
