/* SPDX-License-Identifier: Apache-2.0 */
/* A training's reports: its log (--log) and its trackers (--report-to, --logging-dir, --run-name). */
#ifndef YOKE_TOOLS_TRAIN_REPORTS_H
#define YOKE_TOOLS_TRAIN_REPORTS_H

#include "tools/train/loop.h"

/* Checks the options before devices are opened; false after a message. */
bool train_reports_read(const yk__cli *cli);
/* Opens rank 0's files; all ranks call it, once the start of the run is known. */
void train_reports_open(train_run *r);
/* A line of the logs (--log, log.jsonl): write it into the stream, NULL if there is no log; then report_end, always. */
FILE *report_begin(train_run *r);
void report_end(train_run *r);
/* A file that is cut short fails the job; the model is saved by then. */
void train_reports_close(train_run *r);

#endif
