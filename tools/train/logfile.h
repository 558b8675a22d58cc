/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log that grows line by line: JSON lines with a "step", or a table whose first column is the step. A run that goes on from a checkpoint
 * goes on with its log, too: lines up to the checkpoint's step stay, later ones are moved to the end of PATH.cut. Rank 0's.
 */
#ifndef YOKE_TOOLS_TRAIN_LOGFILE_H
#define YOKE_TOOLS_TRAIN_LOGFILE_H

#include <stdint.h>
#include <stdio.h>

enum { LOGFILE_ANEW = -2, LOGFILE_NO_STEP = -1 };

/* Opens a log to write. kept: the last step whose lines stay; LOGFILE_NO_STEP: of no step; LOGFILE_ANEW: the file begins anew. A last line
 * that is torn goes. What is moved is told on standard error. NULL: errno says why. */
FILE *logfile_open(const char *path, int64_t kept);

#endif
