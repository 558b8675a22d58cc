/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A restarted training (yoke launch --max-restarts) and its earlier attempts. DIR/.yoke-run names the launch, as its checkpoints do, so
 * that the output folder is known as its own. Only a launch that may restart writes that file. Rank 0's.
 */
#ifndef YOKE_TOOLS_TRAIN_TRAIN_RESTART_H
#define YOKE_TOOLS_TRAIN_TRAIN_RESTART_H

#include <stdbool.h>

/* The name of this launch, also in checkpoints; NULL if it does not restart. */
const char *restart_run(void);
bool restart_is_own(const char *dir); /* an earlier attempt of this launch claimed that folder */
/* Claims a folder for this launch, unless an attempt has done so. NULL, or the reason of a failure. */
const char *restart_claim(const char *dir);

#endif
