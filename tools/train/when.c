/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides at which steps to evaluate, save and log, by --eval-strategy, --save-strategy, --logging-strategy and their intervals. An
 * interval below 1 is a fraction of all steps: train_when_total converts it before the first train_when_due. best.c decides about saving by
 * "best". cmd_train.c (tools/cmd) reads the options, and --warmup-steps by train_steps_read; loop.c asks at each step, in the main thread.
 */
#include "tools/train/when.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Accelerate's scripts accept `--checkpointing_steps epoch`, so a user may give --WHAT-steps a word of --WHAT-strategy. */
static bool strategy_meant(const yk__cli *cli, const char *name)
{
    static const char *const whats[] = {"save", "eval", "logging"}, *const words[] = {"no", "epoch", "best"};
    const char *s = yk__cli_text(cli, name);
    for (size_t i = 0; s && i < sizeof whats / sizeof *whats; i++)
        for (size_t k = 0; k < (i ? 2 : 3); k++) {
            if (strncmp(name, whats[i], strlen(whats[i])) || strcmp(name + strlen(whats[i]), "-steps") || strcmp(s, words[k]))
                continue;
            yk__cli_usage(cli->command, "--%s %s: expected a number of steps, got a strategy: write --%s-strategy %s", name, s,
                          whats[i], s);
            return true;
        }
    return false;
}

double train_steps_read(const yk__cli *cli, const char *name, bool *bad)
{
    if (strategy_meant(cli, name)) {
        *bad = true;
        return 0;
    }
    const double steps = yk__cli_real(cli, name, 0, 1 << 30, bad);
    if (steps >= 1 && steps != floor(steps)) {
        yk__cli_usage(cli->command, "--%s %g: expected a whole number of steps, or below 1 a part of all", name, steps);
        *bad = true;
    }
    return steps;
}

double train_steps_of(double steps, uint64_t total)
{
    return steps < 1 ? ceil(steps * (double)total) : steps;
}

train_when train_when_read(const yk__cli *cli, const char *what, train_strategy preset, double usual, bool *bad)
{
    static const char *const words[] = {"no", "epoch", "steps", "best"};
    train_when w = {preset, usual, 0};
    char strategy[32], steps[32];
    double interval;
    int k;
    snprintf(strategy, sizeof strategy, "%s-strategy", what);
    snprintf(steps, sizeof steps, "%s-steps", what);
    interval = train_steps_read(cli, steps, bad);
    k = yk__cli_word(cli, strategy, words, strcmp(what, "save") ? 3 : 4, bad);
    if (k >= 0)
        w.strategy = (train_strategy)k;
    else if (interval > 0 && yk__cli_given(cli, steps))
        w.strategy = TRAIN_STEPS;
    if (interval > 0)
        w.interval = interval;
    w.every = w.interval > 1 ? (uint64_t)w.interval : 1; /* train_when_total replaces it once the number of all steps is known */
    if (k >= 0 && k != TRAIN_STEPS && interval > 0 && yk__cli_given(cli, steps)) {
        yk__cli_usage(cli->command, "--%s has no effect with --%s %s: it goes with steps", steps, strategy, words[k]);
        *bad = true;
    }
    return w;
}

void train_when_total(train_when *w, uint64_t total)
{
    const double steps = train_steps_of(w->interval, total);
    w->every = steps > 1 ? (uint64_t)steps : 1;
}

bool train_when_due(const train_when *w, uint64_t step, bool epoch_ends)
{
    return w->strategy == TRAIN_STEPS ? step % w->every == 0 : w->strategy == TRAIN_EPOCHS && epoch_ends;
}
