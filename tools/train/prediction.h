/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's predicted time of a step beside the measured one: the median of some early windows, logged once. */
#ifndef YOKE_TOOLS_TRAIN_PREDICTION_H
#define YOKE_TOOLS_TRAIN_PREDICTION_H

#include "tools/train/train.h"
#include "tools/train/train_progress.h"

enum { PREDICTION_FIRST = 3, PREDICTION_WINDOWS = 9 }; /* windows of warm-up; windows that are measured */

typedef struct prediction {
    double expected; /* ms of a step; 0: none */
    double begun;    /* time at which the window under way began; 0: not measured */
    double ms[PREDICTION_WINDOWS];
    uint32_t windows; /* so far */
    bool said;
} prediction;

/* Reads --plan MS. */
prediction prediction_read(const yk__cli *cli);
/* At a window's end, on all ranks: waits for the step while windows are measured. `last`: the run ends. */
void prediction_end(prediction *p, yk_opt *opt, yk_job *job, progress *bar, bool last);
/* Behind the work that is no step: the next window begins. */
void prediction_begin(prediction *p);

#endif
