/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best evaluation of a training: its checkpoint (DIR/checkpoint-best), the model that is left at the end, and when to stop
 * because nothing gets better (--load-best-model-at-end, --metric-for-best-model, --early-stopping-patience).
 * What is known of the best belongs to every checkpoint (best.json), so that a resumed training goes on with it.
 */
#ifndef YOKE_TOOLS_TRAIN_BEST_H
#define YOKE_TOOLS_TRAIN_BEST_H

#include "tools/eval/metrics.h"

typedef struct train_best {
    bool save, load;           /* keep the best as a checkpoint; leave it as the model */
    metric by;
    bool rises;                /* more is better */
    double threshold;          /* what counts as better, for patience */
    uint64_t patience, waited; /* evaluations without anything better until the end, 0: no end; how many there were */
    bool found;                /* there is a best one, whose model is kept where `save` says so */
    uint64_t step;             /* of the best */
    train_result result;
    double record;             /* the best value of all evaluations, which `waited` counts by: that one's model may be lost. NaN: none */
} train_best;

/* Reads the options; keeps: --save-strategy best. A contradiction prints a message and sets *bad. */
train_best train_best_read(const yk__cli *cli, bool keeps, bool *bad);
/* Has what is known saved with every checkpoint; `best` must live as long as the job. */
void train_best_attach(yk_job *job, train_best *best);
/* [all] What a checkpoint knew, which the job has gone on from. One without best.json leaves all as it is. The best model is there as
 * dir/checkpoint-best, or it is this one, which is saved there anew; else a line says that it is looked for from here on. */
void train_best_resume(yk_job *job, train_best *best, const char *checkpoint, uint64_t step, const char *dir);
/* Whether nothing has got better for too long. */
bool train_best_is_late(const train_best *best);
/* After an evaluation that the strategy made due; saves dir/checkpoint-best where it is the best. */
void train_best_judge(yk_job *job, train_best *best, const train_result *result, uint64_t step, const char *dir);
/* At the end: loads the best where it is wanted and is not the last, whose evaluation is `last`; true where it did. A last evaluation that
 * is better, and that no strategy made due, leaves the last model and dir/checkpoint-best as they are: a longer run would not have it. */
bool train_best_load(yk_job *job, const train_best *best, const train_result *last, uint64_t step, const char *dir);

#endif
