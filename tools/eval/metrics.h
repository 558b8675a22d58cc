/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of an evaluation: sums over the rows of all ranks, and their results.
 *
 *   loss        mean over the labels that count      accuracy   labels that the largest score names / labels
 *   perplexity  exp(loss)
 *   f1          2 tp / (2 tp + fp + fn) of class 1; only for models of two classes
 *   f1_macro    mean of the classes' f1, over classes that are a label or prediction of at least one row
 *   mse         mean of (class predicted - class)^2, for classes that are grades; for a regression of its numbers
 *   pearson     correlation of class predicted and class, or of the numbers; undefined (NaN) if one of them is constant
 *
 * A regression has only loss, mse and pearson.
 */
#ifndef YOKE_TOOLS_EVAL_METRICS_H
#define YOKE_TOOLS_EVAL_METRICS_H

#include <yoke/yoke.h>

#include "tools/cli.h"

/* Name; true if more is better; true if computed without --metrics. */
#define METRIC_TABLE(X)                                                                                                \
    X(LOSS, "loss", false, true)                                                                                       \
    X(ACCURACY, "accuracy", true, true)                                                                                \
    X(F1, "f1", true, false)                                                                                           \
    X(F1_MACRO, "f1_macro", true, false)                                                                               \
    X(PERPLEXITY, "perplexity", false, false)                                                                          \
    X(MSE, "mse", false, false)                                                                                        \
    X(PEARSON, "pearson", true, false)

#define METRIC_ID(id, name, rises, preset) METRIC_##id,
typedef enum metric { METRIC_TABLE(METRIC_ID) METRIC_COUNT } metric;
#undef METRIC_ID

/* For a command's table. */
#define METRIC_OPTION                                                                                                         \
    {"metrics", "NAME,..", "loss,accuracy", "loss, accuracy, f1 (two classes), f1_macro, perplexity, mse, pearson; all: all but f1", NULL}

typedef struct train_result {
    double value[METRIC_COUNT]; /* NaN: not asked for, or not defined */
    uint64_t correct, total;
} train_result;

extern const char *const metric_names[METRIC_COUNT];
bool metric_rises(metric m);
train_result metric_none(void);

/* Says that --OPTION names no metric, with the nearest one. several: the option takes a list. */
void metric_refuse(const yk__cli *cli, const char *option, const char *given, bool several);
/* The metrics that --metrics names, as a set of bits; loss is always among them. Each bad name prints a message and sets *bad. */
uint32_t metric_read(const yk__cli *cli, bool *bad);
/* The metrics for labels of this kind, if no option names any or it says all. */
uint32_t metric_choose(const yk__cli *cli, yk_labels labels, uint32_t wanted);
/* Fails the job unless they are defined for labels of this kind, with so many classes (0 for a language model). */
bool metric_check(yk_job *job, yk_labels labels, int64_t classes, uint32_t wanted);
/* Index of "f1" or "eval_f1"; -1 for another name. */
int metric_find(const char *name);

/* Keeps the values that an evaluation reads of a batch: the class with the largest logit (for a regression its numbers), and the loss. */
yk_t metric_trace(yk_model *m, const yk_batch *batch, yk_t logits, yk_t *loss);
/* Over the whole evaluation data and all ranks. Leaves the job in training mode. */
train_result train_evaluate(yk_job *job, yk_model *m, yk_data *data, uint32_t wanted);

/* "eval loss 0.1234 accuracy 0.9": the metrics that are there, by these words before and between. */
void metric_print(FILE *f, const train_result *r, uint32_t wanted);
/* "\"eval_loss\": 0.1234, \"eval_accuracy\": 0.9" */
void metric_print_json(FILE *f, const train_result *r, uint32_t wanted);

#endif
