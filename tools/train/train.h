/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This part serves yoke train, eval, predict, test, bench and estimate-memory. It has options for model and data, the start of the ranks,
 * opening a job, evaluation and the progress line. Jobs and models come from yoke.h alone, so that a user's program can do the same.
 */
#ifndef YOKE_TOOLS_TRAIN_TRAIN_H
#define YOKE_TOOLS_TRAIN_TRAIN_H

#include <yoke/yoke.h>

#include "tools/cli.h"

/* Options of train, eval, predict, estimate-memory and plan, for their tables. */
#define TRAIN_MODEL_OPTIONS                                                                                            \
    {"model", "NAME", NULL, "mlp, resnet20, resnet32, resnet18, resnet50, gpt2, bert, bert-mlm", NULL},                          \
        {"model-config", "KEY=VALUE,..", NULL,                                                                          \
         "model settings by Hugging Face's names (n_layer=4,n_embd=128); an unknown one lists them", NULL},             \
        {"from", "DIR|FILE", NULL, "Hugging Face folder to start from; with --model, a safetensors file", NULL},       \
        {"data", "[KIND:]PATH[,..]", NULL, "idx:DIR cifar10:DIR csv: jsonl: lines: text: tokens:FILE, or FILE.csv .tsv ..", NULL},       \
        {"eval-data", "KIND:PATH[,..]", NULL, "data to evaluate on; else the evaluation part of --data", NULL},        \
        {"eval-rows", "FILE", NULL, "line numbers of --data that evaluate instead of train", NULL},                    \
        {"eval-split", "R[,seed=N]", NULL, "this part of the rows of --data evaluates instead of training, chosen by the seed", NULL}, \
        {"tokenizer", "char|bytes|DIR", NULL, "how text becomes ids (default: the --from folder's)", NULL},             \
        {"max-length", "N", NULL, "most tokens of a row of text (default: --from's, else the model's context, at most 128)", NULL},       \
        {"seq-len", "N", NULL, "tokens of a window of running text (default: the model's context, at most 128)", NULL},\
        {"devices", "SPECS", NULL, "cpu cpu:0-3 cpu/2 opencl:0@1 opencl:* auto, one rank each; ! behind one: never excluded",   \
         "YOKE_DEVICES"},                                                                                               \
        {"shares", "equal|speed|N:N..", NULL,                                                                           \
         "rows of each rank: speed, as measured (default), equal, or parts by rank, 3:1:2", "YOKE_SHARES"},             \
        {"precision", "P[,..]", "fp32", "fp32, bf16, fp16 or fp8; by rank: fp32,bf16", NULL},               \
        {"bf16", NULL, NULL, "the same as --precision bf16", NULL},                                                    \
        {"fp16", NULL, NULL, "the same as --precision fp16", NULL},                                                    \
        {"bf16-full-eval", NULL, NULL, "evaluate in bf16; a training in bf16 does", NULL},                             \
        {"fp16-full-eval", NULL, NULL, "evaluate in fp16; a training in fp16 does", NULL},                             \
        {"allow-substitute", NULL, NULL, "a device without that format computes in fp32, logged", NULL},               \
        {"mlm-probability", "R", NULL, "bert-mlm: part of the tokens that are masked (default: 0.15)", NULL}, \
        {"per-device-eval-batch-size", "N", NULL,                                                                       \
         "rows of an evaluation batch for each rank (default: 64, but no more than a batch of the training)", NULL},  \
        {"seed", "N", "42", "of weights, dropout and sample order", NULL},                                             \
        {"json", NULL, NULL, "one JSON object on standard output", NULL}

/* If the devices select several ranks, starts them and returns the exit code; -1: go on here. args: as train_arguments
 * made them; loses --devices. */
int train_launch(const yk__cli *cli, char **args);
/* argv for starting the ranks ("PROGRAM train ..."), made before yk__cli_parse reorders it; free() it. */
char **train_arguments(int argc, char **argv);
/* Runs the command: parses, starts a process per device if there are several, else runs here. Returns the exit code. check (may be NULL)
 * runs before ranks are started, so that an error is reported once: false after a message. */
int train_main(const yk__cli_command *command, int argc, char **argv, bool (*check)(const yk__cli *cli), int (*run)(const yk__cli *cli));

/* --precision as a list; NULL: one for all ranks. */
const char *train_precision_by_rank(const yk__cli *cli);
/* Fills devices, shares, precision, seed and substitution, and refuses options that contradict each other; false after a message. */
bool train_config(const yk__cli *cli, yk_config *config);
/* Opens training (eval false) or evaluation data as the options say. */
yk_data *train_data(const yk__cli *cli, yk_job *job, bool eval, uint32_t global_batch);
/* True if there are rows to evaluate on. Rows of text and one file of images have no evaluation part: evaluating on the training rows would
 * only look like one. */
bool train_has_eval(const yk__cli *cli);
/* True if the end of --data's running text evaluates, and no option says so. */
bool train_cuts_text(const yk__cli *cli);
/* Rows of an evaluation's batch over all ranks: the requested number, else 64 per rank. At most `training`, a training batch's rows, so
 * that an evaluation takes no more memory than training; 0 without training. */
uint32_t train_eval_batch(const yk__cli *cli, const yk_job *job, uint32_t training);
/* The model's settings: before data are opened it is known by them alone. yk_settings_free them. */
yk_settings *train_settings(const yk__cli *cli, yk_job *job);
/* Tokens of a row or window: from --max-length or --seq-len, else the folder's yoke_max_length or yoke_seq_len, else the model's
 * number of positions, at most 128. */
uint32_t train_length(const yk__cli *cli, yk_job *job, const char *option);
/* Builds or loads the model; fails the job if the options name none. */
yk_model *train_model(const yk__cli *cli, yk_job *job, const yk_data *data);
double train_seconds(void); /* monotonic clock */

/* A job with a model and the data to use it on, of a command that does not train. */
typedef struct train_use {
    yk_job *job;
    yk_data *data;
    yk_model *model;
} train_use;
/* Opens the job by the options, with --per-device-eval-batch-size and --max-eval-samples; `config` has the command's own settings.
 * False: use->job is NULL, *code is the exit code. Other failures are in the job. */
bool train_use_open(const yk__cli *cli, yk_config *config, train_use *use, int *code);
/* Its options, before ranks are started; false after a message. */
bool train_use_check(const yk__cli *cli);

#endif
