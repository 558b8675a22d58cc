/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log that grows line by line: JSON lines with a "step", or a table whose first column is the step. A resumed run also continues its
 * log: lines up to the checkpoint's step stay, later ones are moved to the end of PATH.cut. Rank 0's.
 */
#ifndef YOKE_TOOLS_TRAIN_LOGFILE_H
#define YOKE_TOOLS_TRAIN_LOGFILE_H

#include <stdint.h>
#include <stdio.h>

enum { LOGFILE_ASIDE = -3, LOGFILE_ANEW = -2, LOGFILE_NO_STEP = -1 };

/* Opens a log for writing. kept: the last step whose lines stay; LOGFILE_NO_STEP for no step; LOGFILE_ASIDE to move all lines, which are
 * another run's; LOGFILE_ANEW to start a new file. A torn last line is removed from the log of the same run, and
 * moved from another file. Lines before the last fall of the step stay in any case (a run resumed with another batch counts otherwise).
 * Moved lines are reported on standard error. NULL with errno. */
FILE *logfile_open(const char *path, int64_t kept);

#endif
