/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of train, eval and predict under their names in other programs: Trainer's example scripts, Accelerate, DeepSpeed, TRL, and
 * habit; and options that change nothing here. docs/from-huggingface.md lists both.
 */
#ifndef YOKE_TOOLS_TRAIN_SPELLINGS_H
#define YOKE_TOOLS_TRAIN_SPELLINGS_H

#include "tools/spell.h"

#define SPELLING_EXPECTED_DTYPE "bfloat16, float16, float32, fp8 or no"

/* Model and data options: all three commands. */
#define TRAIN_SPELLINGS                                                                                                          \
    {"model-name-or-path|model-name|model-path|model-dir|base-model|pretrained-model-name-or-path", "DIR", "from", NULL, NULL, NULL}, \
        {"train-file|dataset-path|train-data|train-dataset|data-path|data-dir", "FILE", "data", yk__spell_data, NULL, NULL}, \
        {"validation-file|test-file|eval-file|dev-file|eval-dataset|valid-file|val-file", "FILE", "eval-data", yk__spell_data, NULL, \
         NULL},                                                                                                              \
        {"data", "FILE", "data", yk__spell_data, NULL, NULL},                                                                    \
        {"eval-data", "FILE", "eval-data", yk__spell_data, NULL, NULL},                                                          \
        {"max-seq-length|max-seq-len|model-max-length|cutoff-len", "N", "max-length", NULL, NULL, NULL},                         \
        {"block-size|sequence-len|context-length|seq-length|tokens-per-sample", "N", "seq-len", NULL, NULL, NULL},           \
        {"tokenizer-name|tokenizer-name-or-path", "DIR", "tokenizer", NULL, NULL, NULL},                                         \
        {"model-type|arch", "NAME", "model", NULL, NULL, NULL},                                                              \
        {"config-overrides", "KEY=VALUE,..", "model-config", yk__spell_settings, "a JSON object of numbers and words", NULL},    \
        {"model-config", "KEY=VALUE,..", "model-config", yk__spell_settings, "a JSON object of numbers and words", NULL},        \
        {"dtype|torch-dtype|mixed-precision", "TYPE", "precision", yk__spell_precision, SPELLING_EXPECTED_DTYPE,                 \
         "sets the format of products: weights and the optimizer's state stay f32"},                                                     \
        {"precision", "P", "precision", yk__spell_mixed, NULL, NULL},                                                        \
        {"amp|use-amp|native-amp", NULL, "precision", yk__spell_half, NULL, "stands for fp16, as PyTorch's autocast on a card"}, \
        {"device", "NAME", "devices", yk__spell_device, NULL, NULL},                                                             \
        {"use-cpu|no-cuda|cpu", NULL, "devices", yk__spell_cpu, NULL, NULL},                                                     \
        {"eval-batch-size|validation-batch-size|batch-size-valid", "N", "per-device-eval-batch-size", NULL, NULL, "is rows of each rank"}, \
        {"train-val-split|val-size|val-set-size", "R", "eval-split", NULL, NULL, NULL},                                      \
        {"validation-split-percentage", "N", "eval-split", yk__spell_percent, "a number from 0 to below 100", NULL},             \
        {"line-by-line", NULL, NULL, NULL, NULL, "a .txt file is read as lines:FILE by it, other data have one text a row"},     \
        {"pad-to-max-length", NULL, NULL, NULL, NULL, "rows are padded to the longest of a batch, and padding counts nowhere"},  \
        {"use-fast-tokenizer|use-slow-tokenizer", NULL, NULL, NULL, NULL, "there is one tokenizer, whose ids are transformers'"}, \
        {"overwrite-cache|low-cpu-mem-usage", NULL, NULL, NULL, NULL, "files are read whole, and nothing is cached"},           \
        {"keep-linebreaks", NULL, NULL, NULL, "line breaks kept, as there is no other way", "a text has its line breaks as tokens"}, \
        {"preprocessing-num-workers", "N", NULL, NULL, NULL, "text becomes ids as it is read"},                                  \
        {"dataloader-num-workers|dataloader-prefetch-factor|dataloader-multiprocessing-context", "N", NULL, NULL, NULL,          \
         "each rank prefetches by a thread of its own"},                                                                         \
        {"num-workers|workers|j", "N", NULL, NULL, NULL, "each rank prefetches by a thread of its own"},                     \
        {"dataloader-pin-memory|dataloader-persistent-workers|dataloader-in-order|pin-memory|pin-mem", NULL, NULL, NULL, NULL, \
         "each rank prefetches by a thread of its own"},                                                                         \
        {"num-classes|num-labels", "N", "model-config", yk__spell_classes, "a whole number above 0", "is num_labels of --model-config"}, \
        {"eval-accumulation-steps", "N", NULL, NULL, NULL, "sums alone are kept of an evaluation batch"},                        \
        {"eval-do-concat-batches|eval-use-gather-object|batch-eval-metrics", NULL, NULL, NULL, NULL,                             \
         "sums alone are kept of an evaluation batch"}

/* Options of eval and predict alone. */
#define USE_SPELLINGS {"batch-size|b", "N", "per-device-eval-batch-size", NULL, NULL, "is rows of each rank"}
/* Options of predict alone. */
#define PREDICT_SPELLINGS {"output-file|out-file|predictions-file|o", "FILE", "output", NULL, NULL, NULL}

/* Training options. */
#define TRAIN_RUN_SPELLINGS                                                                                                      \
    {"lr", "R", "learning-rate", NULL, NULL, NULL},                                                                              \
        {"batch-size|train-batch-size|micro-batch-size|train-micro-batch-size-per-gpu|b", "N", "per-device-train-batch-size", NULL, NULL, \
         "is rows of each rank; --global-batch is of all"},                                                                      \
        {"epochs|num-epochs|max-epochs|max-epoch|train-epochs", "N", "num-train-epochs", NULL, NULL, NULL},                  \
        {"gradient-clipping|clip-grad-norm|grad-clip|max-norm|gradient-clip-val|clip-norm|clip-grad", "R", "max-grad-norm", NULL, \
         NULL, NULL},                                                                                                        \
        {"accumulation-steps|accumulate-grad-batches|grad-accum|grad-accum-steps|gradient-accumulation|update-freq|accum-steps", "N", \
         "gradient-accumulation-steps", NULL, NULL, NULL},                                                                       \
        {"wd|decay", "R", "weight-decay", NULL, NULL, NULL},                                                                     \
        {"lr-scheduler|scheduler|sched|lr-decay-style", "NAME", "lr-scheduler-type", NULL, NULL, NULL},                      \
        {"lr-scheduler-kwargs", "KEY=VALUE,..", "lr-scheduler-kwargs", yk__spell_settings,                                       \
         "a JSON object of numbers, words and lists", NULL},                                                                     \
        {"optimizer|opt", "NAME", "optim", NULL, NULL, NULL},                                                                \
        {"num-warmup-steps|warmup-updates|lr-warmup-steps|lr-warmup-iters|warmup-iters", "N", "warmup-steps", NULL, NULL, NULL}, \
        {"max-train-steps|num-train-steps|num-steps|steps|max-update|train-iters|max-iters|total-steps", "N", "max-steps", NULL, \
         NULL, NULL},                                                                                                        \
        {"checkpointing-steps|save-interval-updates", "N", "save-steps", NULL, NULL, NULL},                                  \
        {"label-smoothing|smoothing", "R", "label-smoothing-factor", NULL, NULL, NULL},                                      \
        {"beta1", "R", "adam-beta1", NULL, NULL, NULL},                                                                      \
        {"beta2", "R", "adam-beta2", NULL, NULL, NULL},                                                                      \
        {"adam-eps|opt-eps", "R", "adam-epsilon", NULL, NULL, NULL},                                                         \
        {"save-dir|out-dir|work-dir|default-root-dir|o", "DIR", "output-dir", NULL, NULL, NULL},                             \
        {"resume|ckpt-path|restore-file", "DIR|last", "resume-from-checkpoint", NULL, NULL, NULL},                           \
        {"log-interval|print-freq|log-every-n-steps", "N", "logging-steps", NULL, NULL, NULL},                               \
        {"log-dir|tensorboard-dir", "DIR", "logging-dir", NULL, NULL, NULL},                                                 \
        {"validate-interval-updates|eval-every", "N", "eval-steps", NULL, NULL, NULL},                                       \
        {"keep-interval-updates", "N", "save-total-limit", NULL, NULL, NULL},                                                \
        {"patience", "N", "early-stopping-patience", NULL, NULL, NULL},                                                      \
        {"activation-checkpointing|grad-checkpointing|recompute-activations", NULL, "gradient-checkpointing", NULL, NULL, NULL}, \
        {"gradient-checkpointing-kwargs|activation-checkpointing-kwargs", "JSON", NULL, NULL, NULL,                              \
         "blocks that are computed again give the same bits, and need no settings"},                                             \
        {"local-rank", "N", NULL, NULL, NULL, "a rank knows its number from how it was started (yoke info)"},                    \
        {"ddp-timeout", "SECONDS", NULL, NULL, NULL, "a rank that does nothing is found by YOKE_STUCK_MS"},                      \
        {"ddp-bucket-cap-mb|bucket-cap-mb", "N", "bucket-bytes", yk__spell_mebibytes, "a number of MiB above 0", NULL}, \
        {"ddp-find-unused-parameters", NULL, NULL, NULL, NULL, "a parameter that a step does not use rests"},                    \
        {"sync-bn|sync-batchnorm", NULL, NULL, NULL, "the moments of all ranks' rows, as there are no other ones",               \
         "a batch norm has the moments of all ranks' rows"},                                                                 \
        {"average-tokens-across-devices", NULL, NULL, NULL, "one mean over the rows of all ranks, as ranks have none of their own", \
         "a mean is over the rows of all ranks; --average items weighs them by their tokens"},                                   \
        {"ddp-broadcast-buffers|ddp-static-graph", NULL, NULL, NULL, NULL, "the ranks' steps are compared and planned as they are"}, \
        {"save-safetensors", NULL, NULL, NULL, "model.safetensors, as weights have no other form", \
         "weights are saved as model.safetensors"}, \
        {"remove-unused-columns", NULL, NULL, NULL, NULL, "--data names the columns that are read"}, \
        {"log-on-each-node", NULL, NULL, NULL, NULL, "rank 0 alone prints the log"}, \
        {"logging-nan-inf-filter", NULL, NULL, NULL, NULL, "a gradient that is not finite ends the job"}, \
        {"skip-memory-metrics", NULL, NULL, NULL, NULL, "the last line of --log has peak_bytes"}, \
        {"with-tracking", NULL, NULL, NULL, NULL, "--report-to chooses the reports, and --log their file"},                          \
        {"max-samples", "N", "max-train-samples", NULL, NULL, NULL},                                                             \
        {"shuffle", NULL, NULL, NULL, "shuffled rows, as there is no other order", "rows are shuffled for each epoch by --data-seed"}, \
        {"shuffle-train-dataset", NULL, NULL, NULL, NULL, "rows are shuffled for each epoch by --data-seed"},                    \
        {"use-distributed-optimizer", NULL, NULL, NULL, NULL, "each rank updates its part of the parameters: --shard state"}, \
        {"no-epoch-checkpoints", NULL, NULL, NULL, NULL, "checkpoints are written as --save-strategy and --save-steps say"}, \
        {"torch-empty-cache-steps", "N", NULL, NULL, NULL, "memory is planned before a step runs: nothing piles up"}

#endif
