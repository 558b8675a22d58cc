/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of `yoke train`: the order of steps, epochs, evaluations and checkpoints, and the log's lines. The command
 * fills a train_run, all ranks call train_loop alike.
 */
#ifndef YOKE_TOOLS_TRAIN_LOOP_H
#define YOKE_TOOLS_TRAIN_LOOP_H

#include <stdio.h>

#include "tools/train/checkpoints.h"
#include "tools/train/leave.h"
#include "tools/train/prediction.h"
#include "tools/train/train_progress.h"
#include "tools/train/trackers.h"
#include "tools/train/train.h"
#include "tools/train/best.h"
#include "tools/train/when.h"

/* A line of the logs while it is written. */
typedef struct report_line {
    FILE *file;
    char *text;
    size_t bytes;
} report_line;

/* All that a run of training carries along. */
typedef struct train_run {
    const yk__cli *cli;
    yk_job *job;
    yk_data *data, *eval;
    yk_model *model;
    yk_opt *opt;
    yk_sched *sched;
    FILE *log[2]; /* --log and log.jsonl, on rank 0; NULL if unused */
    report_line line;
    const char *out;
    uint64_t steps, total, epochs, per_epoch, batch, accumulate; /* batch: rows of a micro batch over all ranks */
    uint64_t first; /* steps that a checkpoint had done */
    checkpoints kept;
    int lock; /* lock of the output folder; -1 if not held */
    train_when eval_when, save_when, log_when;
    bool log_first, eval_first; /* at the first step, before it */
    bool eval_last;             /* once more at the end, if the last step was not evaluated */
    double eval_delay;          /* epochs, or steps if evaluation goes by steps, before the first one */
    uint32_t metrics;           /* a set of bits */
    train_best best;
    trackers *trackers;
    double decay, lr, clip, started;
    double log_spent, spent; /* seconds that the ranks trained for: since the last line, up to an evaluation; up to the last line */
    uint64_t log_rows, log_tokens, rows, logged; /* since the last line; in all; the step of that line */
    train_result result;
    uint64_t evaluated, saved; /* steps of the result and of the model in `out`; UINT64_MAX if none */
    bool stop;          /* no improvement for too long */
    leave leave;
    bool left;          /* for a signal, with a checkpoint */
    progress bar;
    prediction plan;
} train_run;

/* Sets r->steps to the data's place: a checkpoint's, or the start. */
void train_begin(train_run *r);
/* Trains up to step r->total, saves the model, then evaluates it: a failed evaluation loses no model. An error is the job's. */
void train_loop(train_run *r);

#endif
