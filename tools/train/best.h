/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best evaluation of a training: its checkpoint (DIR/checkpoint-best), the final model, and the stop without progress
 * (--load-best-model-at-end, --metric-for-best-model, --early-stopping-patience). Every checkpoint has the record of the best
 * (best.json), so that a resumed training continues it.
 */
#ifndef YOKE_TOOLS_TRAIN_BEST_H
#define YOKE_TOOLS_TRAIN_BEST_H

#include "tools/eval/metrics.h"

typedef struct train_best {
    bool save, load;           /* keep the best as a checkpoint; leave it as the model */
    metric by;
    bool rises;                /* more is better */
    double threshold;          /* least improvement that patience counts */
    uint64_t patience, waited; /* evaluations without an improvement until the stop, 0 for never; such evaluations so far */
    bool found;                /* there is a best one, whose model is kept if `save` is set */
    bool current;              /* the job's weights are those of the best: steps of a resumed run may have other numbers */
    uint64_t step;             /* step of the best, as the run that found it counted */
    train_result result;
    char from[4096];           /* the folder whose checkpoint-best is the best model; "" for the output folder */
    double record;             /* best value over all evaluations, by which `waited` counts: that model may be lost. NaN before any */
} train_best;

/* Reads the options; keeps: --save-strategy best. A contradiction prints a message and sets *bad. */
train_best train_best_read(const yk__cli *cli, bool keeps, bool *bad);
/* Saves the record with every checkpoint; `best` must live as long as the job. */
void train_best_attach(yk_job *job, train_best *best);
/* [all] Restores the record of the checkpoint that the job resumed. Without best.json it stays as it is. The best model is
 * dir/checkpoint-best, or this one, which is saved there again, or checkpoint-best beside the resumed one, or
 * where that one's run knew it to be. Else a line says that the search starts from here. `step` is the job's, UINT64_MAX if the
 * checkpoint's run counted steps otherwise. */
void train_best_resume(yk_job *job, train_best *best, const char *checkpoint, uint64_t step, const char *dir);
/* True after too long without an improvement. */
bool train_best_is_late(const train_best *best);
/* After an evaluation that the strategy made due; saves dir/checkpoint-best if it is the best. */
void train_best_judge(yk_job *job, train_best *best, const train_result *result, uint64_t step, const char *dir);
/* At the end: loads the best model if that is wanted and it is not the last, whose evaluation is `last`; true if loaded. A better last
 * evaluation that no strategy made due keeps the last model and dir/checkpoint-best: a longer run would not have it. */
bool train_best_load(yk_job *job, train_best *best, const train_result *last, const char *dir);

#endif
