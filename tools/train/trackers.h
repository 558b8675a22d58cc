/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets of a training's figures besides its log (--report-to): a table, log.csv, with the columns step, epoch, tag and value; and
 * events.out.tfevents.* for TensorBoard. Rank 0's; other ranks have NULL, which every function takes.
 */
#ifndef YOKE_TOOLS_TRAIN_TRACKERS_H
#define YOKE_TOOLS_TRAIN_TRACKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trackers trackers;

/* Opens the files in a folder that is there; kept: as of logfile.h, for the table, and TensorBoard hides later steps of earlier files. NULL
 * after writing why into text. */
trackers *trackers_open(const char *dir, bool csv, bool tensorboard, int64_t kept, char *text, size_t size);
/* One figure ("train/loss"). */
void trackers_add(trackers *t, uint64_t step, double epoch, const char *tag, double value);
/* Hands the added figures to the system. */
void trackers_flush(trackers *t);
/* Closes; false, with the incomplete file and the reason in `text`. */
bool trackers_close(trackers *t, char *text, size_t size);

#endif
