/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of the schedules' settings; sched.c checks each setting with it when a schedule is made, in the step thread. Outside them a
 * rate would be infinite, negative or without meaning. A value that the source refuses (torch's factors, transformers' lr_end above the
 * rate) is refused here too.
 */
#include "core/nn/sched_settings.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/number.h"

#define STEPS 9007199254740992.0 /* 2^53: a double cannot tell the next integer from it */
#define ANY 1e9                  /* rates and factors */
#define RATE (-1.0)              /* as a highest value: the optimizer's rate */

typedef enum setting_kind { REAL = 0, ABOVE, WHOLE, WORDS, SWITCH, STEP_LIST } setting_kind;

typedef struct setting_row {
    const char *key;
    setting_kind kind; /* ABOVE: the lowest value itself is refused */
    double low, high;
    const char *words, *only; /* only: first letters of the schedules that have this row; NULL for every schedule */
} setting_row;

static const setting_row rows[] = {
    {"num_warmup_steps", REAL, 0, STEPS, NULL, NULL},
    {"num_training_steps", REAL, 0, STEPS, NULL, NULL},
    {"num_cycles", REAL, 0, 1e6, NULL, NULL},
    {"min_lr", REAL, 0, RATE, NULL, "cosine"},
    {"min_lr_rate", REAL, 0, 1, NULL, NULL},
    {"warmup_lr_rate", REAL, 0, 1, NULL, NULL},
    {"lr_end", REAL, 0, RATE, NULL, NULL},
    {"power", ABOVE, 0, 1000, NULL, NULL},
    {"timescale", ABOVE, 0, STEPS, NULL, NULL},
    {"num_decay_steps", REAL, 0, STEPS, NULL, NULL},
    {"num_stable_steps", REAL, 0, STEPS, NULL, NULL},
    {"min_lr_ratio", REAL, 0, 1, NULL, NULL},
    {"warmup_type", WORDS, 0, 0, " linear cosine 1-sqrt ", "warmup_stable_decay"},
    {"warmup_type", WORDS, 0, 0, " log linear ", "Warmup"},
    {"decay_type", WORDS, 0, 0, " linear cosine 1-sqrt ", NULL},
    {"step_size", WHOLE, 1, STEPS, NULL, NULL},
    {"gamma", REAL, 0, 10, NULL, NULL},
    {"milestones", STEP_LIST, 0, STEPS, NULL, NULL},
    {"T_max", REAL, 1, STEPS, NULL, NULL},
    {"T_0", WHOLE, 1, STEPS, NULL, NULL},
    {"T_mult", WHOLE, 1, 1e6, NULL, NULL},
    {"eta_min", REAL, 0, ANY, NULL, NULL},
    {"start_factor", ABOVE, 0, 1, NULL, NULL},
    {"end_factor", REAL, 0, 1, NULL, NULL},
    {"total_iters", WHOLE, 1, STEPS, NULL, NULL},
    {"max_lr", ABOVE, 0, ANY, NULL, NULL},
    {"total_steps", WHOLE, 1, STEPS, NULL, NULL},
    {"pct_start", REAL, 0, 1, NULL, NULL},
    {"anneal_strategy", WORDS, 0, 0, " cos linear ", NULL},
    {"three_phase", SWITCH, 0, 0, NULL, NULL},
    {"div_factor", ABOVE, 0, 1e12, NULL, NULL},
    {"final_div_factor", ABOVE, 0, 1e12, NULL, NULL},
    {"base_momentum", REAL, 0, 1, NULL, NULL},
    {"max_momentum", REAL, 0, 1, NULL, NULL},
    {"mode", WORDS, 0, 0, " min max ", NULL},
    {"factor", ABOVE, 0, 0.9999999999999999, NULL, NULL},
    {"patience", WHOLE, 0, STEPS, NULL, NULL},
    {"threshold", REAL, 0, ANY, NULL, NULL},
    {"threshold_mode", WORDS, 0, 0, " rel abs ", NULL},
    {"cooldown", WHOLE, 0, STEPS, NULL, NULL},
    {"min_lr", REAL, 0, ANY, NULL, NULL},
    {"eps", REAL, 0, ANY, NULL, NULL},
    {"warmup_min_lr", REAL, 0, ANY, NULL, NULL},
    {"warmup_max_lr", REAL, 0, ANY, NULL, NULL},
    {"warmup_num_steps", WHOLE, 0, STEPS, NULL, NULL},
    {"total_num_steps", WHOLE, 1, STEPS, NULL, NULL},
    {"warmup_min_ratio", REAL, 0, 1, NULL, NULL},
    {"cos_min_ratio", REAL, 0, 1, NULL, NULL},
    {"lr_range_test_min_lr", ABOVE, 0, ANY, NULL, NULL},
    {"lr_range_test_step_size", WHOLE, 1, STEPS, NULL, NULL},
    {"lr_range_test_step_rate", REAL, 0, ANY, NULL, NULL},
    {"lr_range_test_staircase", SWITCH, 0, 0, NULL, NULL},
    {"cycle_min_lr", REAL, 0, ANY, NULL, NULL},
    {"cycle_max_lr", REAL, 0, ANY, NULL, NULL},
    {"decay_lr_rate", REAL, 0, ANY, NULL, NULL},
    {"cycle_first_step_size", WHOLE, 1, STEPS, NULL, NULL},
    {"cycle_second_step_size", WHOLE, 1, STEPS, NULL, NULL},
    {"cycle_first_stair_count", WHOLE, 0, STEPS, NULL, NULL},
    {"cycle_second_stair_count", WHOLE, 0, STEPS, NULL, NULL},
    {"decay_step_size", WHOLE, 0, STEPS, NULL, NULL},
    {"cycle_min_mom", REAL, 0, 1, NULL, NULL},
    {"cycle_max_mom", REAL, 0, 1, NULL, NULL},
    {"decay_mom_rate", REAL, 0, ANY, NULL, NULL},
};

static const setting_row *setting_find(const char *schedule, const char *key)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].key, key) && (!rows[i].only || !strncmp(schedule, rows[i].only, strlen(rows[i].only))))
            return &rows[i];
    return NULL;
}

static bool word_allowed(const char *words, const char *value)
{
    const size_t n = strlen(value);
    for (const char *p = n && value[0] != ' ' ? strstr(words, value) : NULL; p; p = strstr(p + 1, value))
        if (p[-1] == ' ' && p[n] == ' ')
            return true;
    return false;
}

static bool number_allowed(const setting_row *row, const char *value, char end_mark, double high, const char **end)
{
    char *stop;
    const double v = yk__number_read(value, &stop);
    if (stop == value || (*stop && *stop != end_mark) || !isfinite(v))
        return false;
    if (end)
        *end = stop;
    return (row->kind == ABOVE ? v > row->low : v >= row->low) && v <= high &&
           ((row->kind != WHOLE && row->kind != STEP_LIST) || v == floor(v));
}

static bool list_allowed(const setting_row *row, const char *value)
{
    for (;; value++) {
        if (!number_allowed(row, value, '+', row->high, &value))
            return false;
        if (!*value)
            return true;
    }
}

static bool setting_allowed(const setting_row *row, const char *value, double high)
{
    switch (row->kind) {
    case WORDS:
        return word_allowed(row->words, value);
    case SWITCH:
        return word_allowed(" true True 1 false False 0 ", value);
    case STEP_LIST:
        return list_allowed(row, value);
    default:
        return number_allowed(row, value, 0, high, NULL);
    }
}

yk_status yk__sched_setting_check(const char *schedule, const char *key, const char *value, double rate, yk_error *err)
{
    const setting_row *row = setting_find(schedule, key);
    if (!row)
        return yk__fail(err, YK_E_INTERNAL, "schedule %s: no range is known for %s", schedule, key);
    const double high = row->high == RATE ? rate : row->high;
    if (!strcmp(value, "null") || !strcmp(value, "None") || setting_allowed(row, value, high))
        return YK_OK;
    if (row->kind == WORDS)
        return yk__fail(err, YK_E_ARG, "schedule %s: %s=%s: expected one of%s", schedule, key, value, row->words);
    if (row->kind == SWITCH)
        return yk__fail(err, YK_E_ARG, "schedule %s: %s=%s: expected true or false", schedule, key, value);
    if (row->kind == STEP_LIST)
        return yk__fail(err, YK_E_ARG, "schedule %s: %s=%s: expected numbers of steps with + between", schedule, key, value);
    return yk__fail(err, YK_E_ARG, "schedule %s: %s=%s: expected a %snumber %s %g and at most %g%s", schedule, key, value,
                    row->kind == WHOLE ? "whole " : "", row->kind == ABOVE ? "above" : "from", row->low, high,
                    row->high == RATE ? " (the learning rate)" : "");
}
