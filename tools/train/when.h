/* SPDX-License-Identifier: Apache-2.0 */
/* Times in a training: never, at each end of an epoch, or every so many steps (--eval-strategy and its relatives). */
#ifndef YOKE_TOOLS_TRAIN_WHEN_H
#define YOKE_TOOLS_TRAIN_WHEN_H

#include "tools/cli.h"

typedef enum train_strategy { TRAIN_NEVER, TRAIN_EPOCHS, TRAIN_STEPS, TRAIN_BEST } train_strategy;

typedef struct train_when {
    train_strategy strategy;
    double interval; /* steps; below 1 a part of all steps */
    uint64_t every;  /* steps, once all are known */
} train_when;

/* A number of steps; below 1 a part of all steps. An invalid number prints a message and sets *bad. */
double train_steps_read(const yk__cli *cli, const char *name, bool *bad);
/* How many steps that is, of a run of `total`. */
double train_steps_of(double steps, uint64_t total);

/* Reads --WHAT-strategy and --WHAT-steps. Without the former the result is `preset`, or TRAIN_STEPS if --WHAT-steps is given and not 0;
 * `usual` is the interval if only the strategy is given. A contradiction prints a message and sets *bad. */
train_when train_when_read(const yk__cli *cli, const char *what, train_strategy preset, double usual, bool *bad);
/* Converts a part of all steps into steps. */
void train_when_total(train_when *w, uint64_t total);
/* After this step, which may end an epoch. */
bool train_when_due(const train_when *w, uint64_t step, bool epoch_ends);

#endif
