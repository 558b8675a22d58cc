/* SPDX-License-Identifier: Apache-2.0 */
/* Where a training reports to: its log (--log) and its trackers (--report-to, --logging-dir, --run-name). */
#ifndef YOKE_TOOLS_TRAIN_REPORTS_H
#define YOKE_TOOLS_TRAIN_REPORTS_H

#include "tools/train/loop.h"

/* Whether the options make sense, before devices are opened; false after a message. */
bool train_reports_read(const yk__cli *cli);
/* Opens what rank 0 writes; all ranks call it, once it is known where the run begins. */
void train_reports_open(train_run *r);
/* A line of the logs (--log, log.jsonl): write it into the stream, which is NULL where there is no log; then report_end, always. */
FILE *report_begin(train_run *r);
void report_end(train_run *r);
/* A file that is cut short fails the job; the model is saved by then. */
void train_reports_close(train_run *r);

#endif
