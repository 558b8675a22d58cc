/* SPDX-License-Identifier: Apache-2.0 */
/* One training step of a named model on random data, for `yoke bench` to time and `yoke estimate-memory` to plan. */
#ifndef YOKE_TOOLS_BENCH_SAMPLE_H
#define YOKE_TOOLS_BENCH_SAMPLE_H

#include "tools/train/train.h"

/* Options of the commands that make a sample, for their tables. */
#define SAMPLE_OPTIONS                                                                                                     \
    {"model", "NAME", "mlp", "mlp, resnet20, resnet32, resnet18, resnet50, gpt2, bert, bert-mlm", NULL},                              \
        {"model-config", "KEY=VALUE,..", NULL,                                                                              \
         "as in yoke train; seq_len= for language models, hidden=512+256 for the MLP", NULL},                               \
        {"precision", "P[,..]", "fp32", "fp32, bf16, fp16 or fp8; by rank: fp32,bf16", NULL},               \
        {"data", "SPEC", NULL, "batches from this data's loader (idx:DIR, csv:FILE ..), not one batch held in memory", NULL}, \
        {"threads", "N", NULL, "the CPU's first N cores, instead of --devices", NULL},                                      \
        {"allow-substitute", NULL, NULL, "a device without that format computes in fp32", NULL},                            \
        {"seed", "N", "42", "of weights and data", NULL}

typedef struct sample {
    const yk__cli *cli;
    yk_job *job;
    yk_model *model;
    yk_opt *opt;
    yk_data *data; /* NULL: one random batch */
    yk_data *eval; /* yoke train's evaluation data; NULL for random rows */
    char name[64];
    bool by_rows;  /* the data are rows of text with different lengths */
    bool as_train; /* without an option, optimizer, clipping and batch have `yoke train`'s defaults */
    int64_t batch, rows, first, width, classes, channels, side; /* rows: this rank's part of the batch, from `first` */
    int64_t eval_batch; /* rows over all ranks of an evaluation's batch; 0 without evaluation */
    double clip; /* limit of the gradient's norm; 0 for none */
    float *x;
    int32_t *ids, *mask, *types, *labels, *row;
    char cores[64];
} sample;

/* Opens the job by the options, on top of `config`; false after a message about the options. as_train: with a training's settings. */
bool sample_open(sample *s, const yk__cli *cli, bool as_train, const yk_config *config);
/* Model, optimizer and data; failures stay in the job. */
void sample_make(sample *s);
/* Forward, backward and yk_step, without waiting. */
void sample_micro(sample *s);
/* A batch of an evaluation, as yoke train reads it; eval_batch is not 0. */
void sample_evaluate(sample *s);
/* Operations of a step (2 per multiply-add), of the tokens alone that count where the model leaves padding out. */
double sample_flops(const sample *s);
/* Options of a training that is planned, before devices are opened; false after a message. */
bool sample_as_train_right(const yk__cli *cli);
/* All but the job. */
void sample_free(sample *s);

#endif
