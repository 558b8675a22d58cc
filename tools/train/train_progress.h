/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on a terminal, plain lines elsewhere; on standard error. */
#ifndef YOKE_TOOLS_TRAIN_TRAIN_PROGRESS_H
#define YOKE_TOOLS_TRAIN_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool on, terminal, open; /* open: a bar stands on the current line */
    double begin;
    uint64_t first; /* step that the run began at */
} progress;

void progress_begin(progress *p, bool on);
void progress_show(progress *p, uint64_t step, uint64_t total, double loss, double lr, double rows_per_s);
void progress_say(progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* on its own line */
void progress_end(progress *p);

#endif
