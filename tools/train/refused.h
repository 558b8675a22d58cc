/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of transformers' TrainingArguments that `yoke train` knows but does not support: rows of its table with the reason and the
 * replacement. `yoke eval` and `yoke predict` have the rows about data. docs/from-huggingface.md lists them with the supported ones.
 */
#ifndef YOKE_TOOLS_TRAIN_REFUSED_H
#define YOKE_TOOLS_TRAIN_REFUSED_H

#include "tools/cli.h"

#define TRAIN_REFUSED(name, why) {name, YK_REFUSED, NULL, why, NULL}
#define TRAIN_REFUSED_BUT(words, name, why) {name, YK_REFUSED, NULL, why, words} /* words: TrainingArguments' own default */

/* Options of Lightning, timm, torchvision's references, fairseq and Megatron. */
#define TRAIN_REFUSED_ELSEWHERE                                                                                              \
    TRAIN_REFUSED("accelerator|gpus|gpu|n-gpu|num-gpus|gpu-ids|num-processes|nproc-per-node", \
                  "--devices names the devices, one rank each: cuda:0, cuda:*, cpu/2, auto"), \
        TRAIN_REFUSED("strategy", "ranks divide the rows of a batch; --shard divides the optimizer, gradients or parameters"), \
        TRAIN_REFUSED("world-size|rank|num-nodes|distributed-world-size|distributed-rank|distributed-init-method|dist-url|"  \
                      "dist-backend|init-method|parallel-mode|master-addr|master-port|mpi|use-mpi",                                      \
                      "ranks find each other by their launcher: yoke launch --hosts, srun, mpirun or torchrun"),             \
        TRAIN_REFUSED("global-batch-size",                                                                                   \
                      "--global-batch counts the rows of a micro batch over all ranks, --gradient-accumulation-steps micro batches"), \
        TRAIN_REFUSED("warmup-epochs|lr-warmup-epochs|lr-warmup-fraction",                                                   \
                      "--warmup-steps counts steps, --warmup-ratio is a part of all steps"),                                 \
        TRAIN_REFUSED("min-lr|warmup-lr|warmup-init-lr|lr-step-size|lr-gamma|lr-decay-iters|decay-epochs|decay-rate|"        \
                      "decay-milestones|cooldown-epochs|end-learning-rate",                                                  \
                      "--lr-scheduler-kwargs sets a schedule: min_lr=1e-5, step_size=30"),                                   \
        TRAIN_REFUSED("adam-betas|betas|opt-betas", "--adam-beta1 and --adam-beta2 set them"),                               \
        TRAIN_REFUSED("save-interval|save-freq|checkpoint-interval|checkpoint-freq|eval-interval|eval-freq|val-check-interval|" \
                      "check-val-every-n-epoch",                                                                             \
                      "--save-steps and --eval-steps count steps, --save-strategy epoch and --eval-strategy epoch epochs"),  \
        TRAIN_REFUSED("limit-train-batches|overfit-batches|fast-dev-run|limit-val-batches|eval-iters",                       \
                      "--max-steps, --max-train-samples and --max-eval-samples shorten a run"),                              \
        TRAIN_REFUSED("keep-last-epochs|keep-best-checkpoints|save-top-k|checkpoint-hist",                                   \
                      "--save-total-limit keeps the newest checkpoints, --save-strategy best the best one"), \
        TRAIN_REFUSED("load|checkpoint-dir|load-checkpoint|initial-checkpoint|finetune-from-model",                          \
                      "--from opens a model's folder, --resume-from-checkpoint goes on with a run"),                         \
        TRAIN_REFUSED("save", "--output-dir is the folder, --save-steps says how often"),                                    \
        TRAIN_REFUSED("pretrained", "nothing is downloaded: --from opens a folder or a safetensors file with weights"),      \
        TRAIN_REFUSED("test-only|eval-only|evaluate", "yoke eval evaluates, yoke predict names classes"),                    \
        TRAIN_REFUSED("task|criterion", "--model with --data says it: gpt2 continues text, bert and ResNets name classes"),  \
        TRAIN_REFUSED("max-tokens|batch-size-tokens",                                                                        \
                      "a batch is counted in rows: --per-device-train-batch-size; --max-length bounds a row"),               \
        TRAIN_REFUSED("num-layers|hidden-size|num-attention-heads|ffn-hidden-size|max-position-embeddings|n-layer|n-embd|"   \
                      "n-head|num-hidden-layers|vocab-size|dropout|attention-dropout|hidden-dropout|drop|drop-path",         \
                      "--model-config sets the model: n_layer=4,n_embd=128; a wrong key lists all"),                         \
        TRAIN_REFUSED("mixup|cutmix|mixup-alpha|cutmix-alpha|auto-augment|aa|reprob|random-erase|color-jitter|hflip|vflip|"  \
                      "scale|ratio|crop-pct|train-crop-size|val-crop-size|val-resize-size|interpolation|ra-sampler|"         \
                      "img-size|image-size|input-size",                                                                      \
                      "pictures are trained as the file holds them, at its size"),                                           \
        TRAIN_REFUSED("packing-strategy|padding-free|eval-packing|eval-sample-packing|train-on-inputs|mask-history|rope-scaling|"    \
                      "shift-attn|use-unsloth|xformers-attention|resize-vocab|pref-beta|truncate-or-pad|fim-rate|fim-spm-rate|"     \
                      "chat-template|init-lora-weights|ignore-bias-buffers",                                                        \
                      "there is nothing like it here: gpt2 trains on running text as it stands, with all its parameters"),          \
        TRAIN_REFUSED("dataset-num-proc|dataset-kwargs|dataset-train-split|dataset-test-split|dataset-streaming|remove-splits|"     \
                      "split|shuffle-seed",                                                                                         \
                      "--data and --eval-data name one file each, --eval-split splits one, --data-seed shuffles"),                   \
        TRAIN_REFUSED("split-batches|dispatch-batches|even-batches|use-seedable-sampler|accelerator-kwargs",                         \
                      "--global-batch is of all ranks, each of which reads its own rows"),                                           \
        TRAIN_REFUSED("fsdp-forward-prefetch|fsdp-backward-prefetch|activation-offloading|deepspeed-plugin",                         \
                      "--shard and --offload say it, and prefetch by themselves"),                                                   \
        TRAIN_REFUSED("evals-per-epoch|saves-per-epoch|wall-clock-breakdown|steps-per-print",                                        \
                      "--eval-steps, --save-steps and --logging-steps count steps"),                                                 \
        TRAIN_REFUSED("seed-everything|metric-name|eval-metric|best-checkpoint-metric|maximize-best-checkpoint-metric|eval-bleu|"    \
                      "eval-accuracy",                                                                                              \
                      "--seed, --metrics and --metric-for-best-model say it"),                                                       \
        TRAIN_REFUSED("log-wandb|wandb-watch|experiment|logger|enable-progress-bar|enable-checkpointing|callbacks",                   \
                      "--report-to writes files, --run-name names the run, --save-strategy its checkpoints"),                         \
        TRAIN_REFUSED("jsd-loss|aug-splits|remode|recount|bce-loss|tta|layer-decay|clip-mode|sched-on-updates|fuser|fast-norm|"       \
                      "use-multi-epochs-loader|torchcompile|no-aug|drop-path|drop-block|bn-momentum|split-bn|train-interpolation",    \
                      "there is nothing like it here"),                                                                              \
        TRAIN_REFUSED("share-decoder-input-output-embed|share-all-embeddings|fp16-init-scale|required-batch-size-multiple|"           \
                      "skip-invalid-size-inputs-valid-test|distributed-backend|masked-softmax-fusion|no-masked-softmax-fusion|"       \
                      "use-mcore-models|transformer-impl|init-method-std|pad-to-multiple-of|strict",                                  \
                      "there is no such setting: leave it out"),                                                                     \
        TRAIN_REFUSED("model-ema|model-ema-decay|ema|ema-decay|swa", "no average of weights over steps is kept"),            \
        TRAIN_REFUSED("beta|ref-model|reward-model|max-prompt-length|max-completion-length|num-generations|loss-type",       \
                      "there is no training by preferences or rewards: a model learns labels or running text")

/* Data of other programs: train, eval and predict. */
#define DATA_REFUSED_OPTIONS \
    TRAIN_REFUSED("task-name",                                                                                            \
                      "nothing is downloaded, and a row has one text: --data csv:FILE,text=COLUMN,label=COLUMN"), \
        TRAIN_REFUSED("sentence1-key|sentence2-key|sentence1-column|sentence2-column|sentence1|sentence2|text-pair|text-pair-column|" \
                      "premise-column|hypothesis-column|sentence-1|sentence-2|text-column-2",                                         \
                      "a row has one text, which --data csv:FILE,text=COLUMN names: choose a column, or join both in the file"),     \
        TRAIN_REFUSED("dataset-name|dataset-config-name|dataset|dataset-dir",                                       \
                      "nothing is downloaded: save the data to a file, and name it, --data csv:FILE or jsonl:FILE"),          \
        TRAIN_REFUSED("text-column|label-column|text-column-name|text-field|dataset-text-field|label-column-name|"        \
                      "text-column-names",                                                                                 \
                      "--data names the columns: csv:FILE,text=COLUMN,label=COLUMN")

#define TRAIN_REFUSED_OPTIONS                                                                                                 \
    TRAIN_REFUSED("fsdp-min-num-params|fsdp-transformer-layer-cls-to-wrap",                                                   \
                      "units are buckets of parameters (--shard-unit): leave it out"),                                   \
        TRAIN_REFUSED("ddp-backend|xpu-backend",                                                                                          \
                      "ranks meet in shared memory, and over TCP between hosts; YOKE_TRANSPORT names another transport"),     \
        TRAIN_REFUSED("mp-parameters|tensor-model-parallel-size|pipeline-model-parallel-size|tensor-parallel-size|"          \
                      "pipeline-parallel-size|context-parallel-size|tp-size|pp-size|cp-size|sequence-parallel",              \
                      "each rank computes whole layers: --shard params puts their parameters in slices"),                    \
        TRAIN_REFUSED_BUT("last", "ray-scope", "no settings are searched for: start a run for each"),                                     \
        TRAIN_REFUSED("use-mps-device|tpu-num-cores", "name the devices: --devices cpu"),                                     \
        TRAIN_REFUSED("torch-compile|torch-compile-backend|torch-compile-mode|torchdynamo|jit-mode-eval|use-ipex|"            \
                      "use-liger-kernel|liger-kernel-config|compile|torchscript|channels-last",                              \
                      "there is no switch: every step is traced, fused and planned before it runs"),                          \
        TRAIN_REFUSED("per-gpu-train-batch-size|per-gpu-eval-batch-size",                                                     \
                      "the name is --per-device-.., as in Trainer"),                                                       \
        TRAIN_REFUSED_BUT("auto", "half-precision-backend|fp16-backend",                                                      \
                      "there is one kind of mixed precision: --precision"),                                                   \
        TRAIN_REFUSED_BUT("O1", "fp16-opt-level|amp-level|amp-impl|amp-dtype|apex-amp",            \
                      "there is one kind of mixed precision: --precision"),                                                   \
        TRAIN_REFUSED("config-name",                                                                                          \
                      "--model NAME with --model-config makes a new model, --from DIR opens a folder with its weights"),      \
        TRAIN_REFUSED("tf32",                                                                                                 \
                      "products compute in the format of --precision; NVIDIA cards in TF32 with YOKE_CUDA_TF32=1"),           \
        TRAIN_REFUSED("adafactor|optim-args|optim-target-modules",                                                            \
                      "--optim is sgd, adam or adamw; --adam-* and --momentum set it"),                                       \
        TRAIN_REFUSED("neftune-noise-alpha", "no noise is added to embeddings"),                                              \
        TRAIN_REFUSED("auto-find-batch-size",                                                                                 \
                      "yoke estimate-memory tells the memory of a batch; each rank gets rows that fit it"),                       \
        TRAIN_REFUSED("use-cache", "training keeps no keys and values of earlier tokens"),                                    \
        TRAIN_REFUSED("train-sampling-strategy",                                                                              \
                      "rows are shuffled by --data-seed; --group-by-length takes rows of like length"),                       \
        TRAIN_REFUSED("full-determinism", "there is no switch: the same shares give the same bits"),                          \
        TRAIN_REFUSED("prediction-loss-only", "--metrics loss computes nothing else"),                                        \
        TRAIN_REFUSED("include-inputs-for-metrics|include-for-metrics", "yoke predict writes a line for each row"),           \
        TRAIN_REFUSED_BUT("-1", "past-index", "there is nothing like it here"),                                               \
        TRAIN_REFUSED("use-legacy-prediction-loop|tpu-metrics-debug", "there is nothing like it here"),      \
        TRAIN_REFUSED("label-names",                                                                    \
                      "--data names the columns: csv:FILE,text=COLUMN,label=COLUMN"),                                         \
        TRAIN_REFUSED_BUT("length", "length-column-name",                                                                     \
                      "lengths are counted in tokens when the file is read: --group-by-length"),                              \
        TRAIN_REFUSED_BUT("passive|warning", "log-level|log-level-replica", "YOKE_LOG=debug|info|warn sets it"),                    \
        TRAIN_REFUSED("disable-tqdm", "progress goes to standard error, and --json leaves it out"),                           \
        TRAIN_REFUSED("debug", "a gradient that is not finite ends the job"),                                \
        TRAIN_REFUSED("include-tokens-per-second|include-num-input-tokens-seen",                          \
                      "the log has tokens_per_s, and its last line peak_bytes"),                                              \
        TRAIN_REFUSED("save-on-each-node|save-only-model",                                                                    \
                      "rank 0 saves; a checkpoint is whole, --output-dir the model alone"),                                   \
        TRAIN_REFUSED("ignore-data-skip|restore-callback-states-from-checkpoint",                                             \
                      "a resumed run goes on at its place in the data at once, with all it needs"),                           \
        TRAIN_REFUSED_BUT("every_save", "hub-strategy", "nothing is uploaded: give --output-dir to hf upload afterwards"),    \
        TRAIN_REFUSED("push-to-hub|hub-model-id|hub-token|hub-private-repo|hub-always-push|"                     \
                      "hub-revision|push-to-hub-model-id|push-to-hub-organization|push-to-hub-token",                         \
                      "nothing is uploaded: give --output-dir to hf upload afterwards"),                                      \
        TRAIN_REFUSED("zero-stage|offload-optimizer-device|offload-param-device|zero3-init-flag|zero3-save-16bit-model|"     \
                      "deepspeed-multinode-launcher",                                                                        \
                      "--shard state, gradients or params is stage 1, 2 or 3; --offload state=host is for the optimizer"),     \
        DATA_REFUSED_OPTIONS,                                                                                                 \
        TRAIN_REFUSED("train-dir|validation-dir|image-column-name|image-processor-name",                                      \
                      "folders of pictures are not read: write them into one file (idx:DIR), as docs/data.md says"),          \
        TRAIN_REFUSED("summary-column|source-prefix|source-lang|target-lang|max-source-length|"                   \
                      "max-target-length|val-max-target-length|predict-with-generate|num-beams|generation-max-length|"              \
                      "generation-num-beams|sortish-sampler|resize-position-embeddings|lang|forced-bos-token",                \
                      "there is no model that maps one text to another; gpt2 continues a text, bert names its class"),        \
        TRAIN_REFUSED("doc-stride|max-query-length|n-best-size|max-answer-length|version-2-with-negative|"                    \
                      "null-score-diff-threshold|question-column|context-column|answer-column",                               \
                      "no model marks an answer in a text: bert names a text's class"),                                       \
        TRAIN_REFUSED("return-entity-level-metrics|label-all-tokens",                                                         \
                      "no model names the class of each token: bert names a text's class"),                                   \
        TRAIN_REFUSED("whole-word-mask|mlm",                                                                                  \
                      "bert with text:FILE masks single tokens: --mlm-probability"),                                          \
        TRAIN_REFUSED("plot-loss",                                                                                            \
                      "--report-to tensorboard or csv writes the curves to files"),                                           \
        TRAIN_REFUSED("eos-token|pad-token|add-tokens|add-special-tokens|special-tokens|vocab-file|merge-file",              \
                      "the folder of the tokenizer names its tokens"),                                                        \
        TRAIN_REFUSED("datasets",                                                                                             \
                      "--data names one file: csv:FILE, jsonl:FILE or text:FILE"),                                            \
        TRAIN_REFUSED("use-peft|use-lora|use-dora|use-rslora|lora-r|lora-rank|lora-alpha|lora-dropout|lora-target-modules|"   \
                      "lora-target|lora-target-linear|lora-model-dir|lora-modules-to-save|lora-task-type|finetuning-type|"   \
                      "adapter|adapters|lora|qlora|peft-type",                                                               \
                      "there are no adapters: all parameters of a model are trained"),                                        \
        TRAIN_REFUSED("load-in-4bit|load-in-8bit|quantization-bit|quantization-method|bnb-4bit-quant-type|"                   \
                      "use-bnb-nested-quant",                                                                                 \
                      "weights are not quantized: --precision bf16 or fp8 computes with fewer bits"),                         \
        TRAIN_REFUSED("stage|template|packing|neat-packing|sample-packing|chat-template-path|"                     \
                      "assistant-only-loss|completion-only-loss",                                                             \
                      "there are no stages or templates of chats: --model gpt2 with text:FILE trains on running text"),       \
        TRAIN_REFUSED("attn-implementation|flash-attn|flash-attention|use-flash-attn|trust-remote-code",                     \
                      "there is no switch: attention is chosen by measurement, and never runs downloaded code"),                   \
        TRAIN_REFUSED("streaming|cache-dir|model-revision|token|use-auth-token",                                              \
                      "data and models are read from files, once, and nothing is cached or downloaded"),                      \
        TRAIN_REFUSED_BUT("huggingface|trackio", "project|wandb-project|wandb-entity|wandb-name|wandb-run-id|use-wandb|"    \
                      "trackio-space-id|trackio-bucket-id|trackio-static-space-id",                                          \
                      "--report-to writes files: none, jsonl, tensorboard, csv"),                                            \
        TRAIN_REFUSED_ELSEWHERE

#endif
