/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a training: rows of the tables of yoke train, and of yoke estimate-memory, which plans the training that the same line asks
 * for.
 */
#ifndef YOKE_TOOLS_TRAIN_TRAIN_OPTIONS_H
#define YOKE_TOOLS_TRAIN_TRAIN_OPTIONS_H

#include "tools/eval/metrics.h"
#include "tools/train/refused.h"
#include "tools/train/train.h"

#define TRAIN_RUN_OPTIONS \
    {"new-head|ignore-mismatched-sizes", NULL, NULL, "a new classifier if --from's has other classes than the data", NULL}, \
        {"output-dir", "DIR", NULL, "where the model and the checkpoints go", NULL}, \
        {"overwrite-output-dir", NULL, NULL, "--output-dir may hold a model or checkpoints already (--from the same folder too)", NULL}, \
        {"num-train-epochs", "N", "3", "epochs", NULL}, \
        {"max-steps", "N", "0", "optimizer steps in all; 0 or -1: as the epochs say", NULL}, \
        {"per-device-train-batch-size", "N", "8", "rows of a micro batch for each rank; shared out as --shares says", NULL}, \
        {"global-batch", "N", NULL, "rows of a micro batch over all ranks, instead", NULL}, \
        {"gradient-accumulation-steps", "N", "1", "micro batches per optimizer step", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"}, \
        {"bucket-bytes", "BYTES", NULL, "gradients exchanged at a time, as 16M", "YOKE_BUCKET_BYTES"}, \
        {"memory-limit|limit", "BYTES", NULL, \
         "of each rank, as 6G or 500M; by rank: 6G,2G. Activations are computed again to stay below", "YOKE_MEMORY_LIMIT"}, \
        {"local-sgd-steps", "N", "0", "ranks step by themselves and average after every N steps (LocalSGD); 0: they step together", NULL}, \
        {"average", "RULE", "micro", "micro: mean of the micro batches' means; items: of all labels; rows: of all rows", NULL}, \
        {"learning-rate", "R", "5e-5", "peak learning rate", NULL}, \
        {"lr-scheduler-type", "NAME", "linear", "a schedule of transformers, PyTorch or DeepSpeed; an unknown one lists them", NULL}, \
        {"lr-scheduler-kwargs", "KEY=VALUE,..", NULL, "further settings of the schedule (min_lr=1e-4)", NULL}, \
        {"warmup-steps", "N", "0", "steps of linear warm-up; below 1: part of all steps", NULL}, \
        {"warmup-ratio", "R", NULL, "part of all steps that warms up, instead: older Trainers' name", NULL}, \
        {"label-smoothing-factor", "R", "0", "label smoothing of the training's loss", NULL}, \
        {"weight-decay", "R", "0", "on matrices and kernels; not on biases and norms", NULL}, \
        {"decay-all", NULL, NULL, "weight decay on every parameter", NULL}, \
        {"max-grad-norm", "R", "1.0", "clip the gradient to this norm; 0: no clipping", NULL}, \
        {"optim", "NAME", "adamw", "sgd, adam or adamw (also adamw_torch, adamw_torch_fused, adamw_hf: the same)", NULL}, \
        {"momentum", "R", "0.9", "of sgd", NULL}, \
        {"adam-beta1", "R", "0.9", "of adam and adamw", NULL}, \
        {"adam-beta2", "R", "0.999", "of adam and adamw", NULL}, \
        {"adam-epsilon", "R", "1e-8", "of adam and adamw", NULL}, \
        {"gradient-checkpointing", NULL, NULL, "compute blocks of layers again in backward instead of keeping them", NULL}, \
        {"group-by-length", NULL, NULL, "batches of rows of like length, for rows of text", NULL}, \
        {"dataloader-drop-last", NULL, "on", "drop the last, shorter batch of an epoch; --no-dataloader-drop-last trains on it", NULL}, \
        {"data-seed", "N", NULL, "of the sample order (default: --seed)", NULL}, \
        {"max-train-samples", "N", NULL, "train on the first N rows", NULL}, \
        {"max-eval-samples", "N", NULL, "evaluate on the first N rows", NULL}, \
        {"logging-strategy", "no|steps|epoch", NULL, "when the log gets a line (default: steps)", NULL}, \
        {"logging-steps", "N", "50", "a line in the log every so many steps; below 1: part of all steps", NULL}, \
        {"logging-first-step", NULL, NULL, "the first step has a line too", NULL}, \
        {"eval-strategy|evaluation-strategy", "no|steps|epoch", NULL, \
         "when to evaluate, besides at the end (default: epoch, or steps with --eval-steps); no: never", NULL}, \
        {"eval-steps", "N", "0", "evaluate every so many steps; below 1: part of all steps", NULL}, \
        {"eval-delay", "N", "0", "no evaluation before so many epochs, or steps with --eval-strategy steps", NULL}, \
        {"eval-on-start", NULL, NULL, "evaluate before the first step too", NULL}, \
        {"do-train", NULL, "on", "this command always trains; yoke eval and yoke predict do not", NULL}, \
        {"do-eval", NULL, NULL, "evaluate at the end, also with --eval-strategy no; --no-do-eval never evaluates", NULL}, \
        {"do-predict", NULL, NULL, "write predictions for the evaluation data to DIR/predictions.jsonl at the end", NULL}, \
        METRIC_OPTION, \
        {"save-strategy", "no|steps|epoch|best", NULL, \
         "when to write a checkpoint (default: no, or steps with --save-steps); best: checkpoint-best alone", NULL}, \
        {"save-steps", "N", "0", "a checkpoint every so many steps; below 1: part of all steps", NULL}, \
        {"save-total-limit", "N", "0", "keep only the newest checkpoints; 0: all", NULL}, \
        {"enable-jit-checkpoint", NULL, "on", \
         "SIGTERM and SIGUSR1 write a checkpoint; --no-enable-jit-checkpoint: they end the run at once", NULL}, \
        {"load-best-model-at-end", NULL, NULL, "leave the model of the best evaluation, kept as checkpoint-best meanwhile", NULL}, \
        {"metric-for-best-model", "NAME", NULL, "the metric of --metrics that decides about the best model (default: loss)", NULL}, \
        {"greater-is-better", NULL, NULL, "more of --metric-for-best-model is better (default: as the metric is)", NULL}, \
        {"early-stopping-patience", "N", "0", "stop after so many evaluations without a better one; 0: never", NULL}, \
        {"early-stopping-threshold", "R", "0", "the least gain of an evaluation to count as better", NULL}, \
        {"resume-from-checkpoint", "DIR|last", NULL, "go on from a checkpoint, bit for bit; True is the same as last", NULL}, \
        {"log", "FILE", NULL, "JSON lines to a last \"final\": true; a resumed run adds to it, a new one keeps it in FILE.cut", NULL}, \
        {"report-to", "NAME,..", "none", "none, jsonl, tensorboard, csv or all: files in --logging-dir", NULL}, \
        {"logging-dir", "DIR", NULL, "where --report-to writes (default: runs in --output-dir)", NULL}, \
        {"run-name", "NAME", NULL, "a folder in --logging-dir for this run", NULL}

/* Checks the numbers and words of these options before devices are opened; false after a message. */
bool train_options_right(const yk__cli *cli);
/* The same, and fills *config with what they say of the job. */
bool train_options_read(const yk__cli *cli, yk_config *config);

#endif
