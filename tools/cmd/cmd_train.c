/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke train: reads its options, opens the job, data and model, and runs the training loop (tools/train/loop.c). yoke.c calls
 * it by its table of commands, in the main thread. It uses tools/train/train.c to start the ranks; each runs the same command line.
 * cmd_config.c and tools/bench/sample.c check options by train_options_right. An option that needs an absent option is an error.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/word.h"
#include "core/io/folder.h"
#include "core/nn/sched.h"
#include "tools/train/alike.h"
#include "tools/train/output.h"
#include "tools/config/config_shard.h"
#include "tools/eval/predict.h"
#include "tools/train/leave.h"
#include "tools/train/loop.h"
#include "tools/train/train_options.h"
#include "tools/train/reports.h"
#include "tools/train/train_restart.h"
#include "tools/train/spellings.h"

static const yk__cli_option options[] = {
    TRAIN_MODEL_OPTIONS,
    TRAIN_RUN_OPTIONS,
    SHARD_OPTIONS,
    {"measure-seconds", "S", "15", "--plan auto: seconds in which steps of the candidates run; 0: none run", NULL},
    TRAIN_REFUSED_OPTIONS,
};

static const yk__cli_spelling spellings[] = {TRAIN_SPELLINGS, TRAIN_RUN_SPELLINGS};

static const yk__cli_command command = {
    .name = "train",
    .usage = "--model NAME --data KIND:PATH --output-dir DIR [options]",
    .summary = "train a model",
    .text = "Trains on the devices that --devices selects: one process each, one model. Options carry the names of Hugging\n"
            "Face's TrainingArguments. A batch is shared out over the devices by their measured speed.\n\n"
            "--shares equal, or parts as 3:1:2, fixes the shares instead: nothing is measured, and each rank updates an even part of\n"
            "the parameters, so that the same devices with the same shares give the same bits. Then no rank is excluded, however\n"
            "slow it is: all wait for it. A share that does not fit a rank's memory ends the job with an error. Parts count rows, in\n"
            "whatever precision a rank computes: where precisions differ, it counts for the bits which rank has which part.\n\n"
            "SIGTERM and SIGUSR1, of a pre-emption or a time limit, may come to any rank or to the launcher: when the current step and\n"
            "its evaluation have ended, the ranks write DIR/checkpoint-STEP together and leave with exit code 75.\n"
            "--resume-from-checkpoint last goes on from there. A second signal ends the run at once.\n\n"
            "Example: yoke train --model mlp --data idx:/usr/share/datasets/fashion-mnist --output-dir out",
    .exits = "75 ended by SIGTERM or SIGUSR1, with a checkpoint to go on from (Ctrl-C saves nothing)",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof spellings[0],
};
const yk__cli_command *const yk__train_command = &command;

static const char *const optimizers[] = {"sgd", "adam", "adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf"};
enum { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAMW, OPTIM_NAMES = 6 };

static void read_optimizer(train_run *r, bool *bad)
{
    const yk__cli *cli = r->cli;
    const int k = yk__cli_word(cli, "optim", optimizers, OPTIM_NAMES, bad); /* used later; reported before devices are opened */
    yk__cli_real(cli, "momentum", 0, 1, bad);
    yk__cli_real(cli, "adam-beta1", 0, 1, bad);
    yk__cli_real(cli, "adam-beta2", 0, 1, bad);
    yk__cli_real(cli, "adam-epsilon", 0, 1, bad);
    r->clip = yk__cli_real(cli, "max-grad-norm", 0, 1e30, bad);
    r->lr = yk__cli_real(cli, "learning-rate", 0, 1e10, bad);
    r->decay = yk__cli_real(cli, "weight-decay", 0, 1e10, bad);
    yk__cli_real(cli, "warmup-ratio", 0, 1, bad);
    yk__cli_real(cli, "label-smoothing-factor", 0, 0.999999, bad);
    if (k > OPTIM_SGD)
        yk__cli_refuse_idle(cli, "momentum", "without --optim sgd", bad);
    if (k == OPTIM_SGD) {
        yk__cli_refuse_idle(cli, "adam-beta1", "with --optim sgd", bad);
        yk__cli_refuse_idle(cli, "adam-beta2", "with --optim sgd", bad);
        yk__cli_refuse_idle(cli, "adam-epsilon", "with --optim sgd", bad);
    }
    if (yk__cli_real(cli, "warmup-ratio", 0, 1, bad) > 0)
        yk__cli_refuse_idle(cli, "warmup-steps", "beside --warmup-ratio", bad);
    if (r->decay == 0)
        yk__cli_refuse_idle(cli, "decay-all", "without --weight-decay", bad);
}

/* Refuses what the schedule does not take, before devices are opened. The number of steps may still be unknown. */
static void read_schedule(const train_run *r, bool *bad)
{
    enum { LATER = 1 << 30 };
    const char *name = yk__cli_text(r->cli, "lr-scheduler-type"), *params = yk__cli_text(r->cli, "lr-scheduler-kwargs");
    const double given = train_steps_read(r->cli, "warmup-steps", bad), warmup = given >= 1 ? given : 0;
    const double total = r->total ? (double)r->total : LATER;
    yk__sched *sched = NULL;
    yk_error err = YK_ERROR_INIT, plain = YK_ERROR_INIT;
    if (*bad || !yk__sched_new(name, warmup, total, params, r->lr, &sched, &err)) {
        yk__sched_free(sched);
        return;
    }
    if (params && !yk__sched_new(name, warmup, total, NULL, r->lr, &sched, &plain))
        yk__cli_usage(r->cli->command, "--lr-scheduler-kwargs %s: %s", params, err.text);
    else
        yk__cli_usage(r->cli->command, "--lr-scheduler-type %s: %s", name, err.text);
    yk__sched_free(sched);
    *bad = true;
}

/* True if a step of the run needs an evaluation. */
static bool wants_eval(const train_run *r)
{
    return r->eval_last || r->eval_first || yk__cli_on(r->cli, "do-predict");
}

static void refuse_idle_strategies(const train_run *r, bool *bad)
{
    if (r->eval_delay > 0 && r->eval_when.strategy == TRAIN_NEVER)
        yk__cli_refuse_idle(r->cli, "eval-delay", "where nothing is evaluated during training", bad);
    if (r->eval_when.strategy == TRAIN_NEVER && !*bad) /* --eval-strategy no with it was refused before */
        yk__cli_refuse_idle(r->cli, "eval-steps", "where nothing is evaluated during training", bad);
    if (!wants_eval(r)) {
        yk__cli_refuse_idle(r->cli, "max-eval-samples", "where nothing is evaluated", bad);
        yk__cli_refuse_idle(r->cli, "per-device-eval-batch-size", "where nothing is evaluated", bad);
    }
}

/* Reads the times of logging, evaluation and saving, and their contents. */
static void read_strategies(train_run *r, bool *bad)
{
    const yk__cli *cli = r->cli;
    const bool never = yk__cli_given(cli, "do-eval") && !yk__cli_on(cli, "do-eval");
    r->log_when = train_when_read(cli, "logging", TRAIN_STEPS, 50, bad);
    r->eval_when = train_when_read(cli, "eval", TRAIN_EPOCHS, r->log_when.interval, bad);
    r->save_when = train_when_read(cli, "save", TRAIN_NEVER, 500, bad);
    r->log_first = yk__cli_on(cli, "logging-first-step");
    r->eval_first = yk__cli_on(cli, "eval-on-start");
    r->eval_delay = yk__cli_real(cli, "eval-delay", 0, 1e15, bad);
    r->kept.limit = (uint64_t)yk__cli_int(cli, "save-total-limit", 0, 1 << 30, bad);
    r->metrics = metric_read(cli, bad);
    r->best = train_best_read(cli, r->save_when.strategy == TRAIN_BEST, bad);
    r->metrics |= 1u << r->best.by; /* always computed, even if --metrics does not name it */
    if (never)
        r->eval_when.strategy = TRAIN_NEVER;
    r->eval_last = r->eval_when.strategy != TRAIN_NEVER || yk__cli_on(cli, "do-eval");
    refuse_idle_strategies(r, bad);
    if (r->eval_when.strategy == TRAIN_NEVER && (r->best.save || r->best.patience)) {
        yk__cli_usage(cli->command, "--%s needs evaluations, and there are none: --eval-strategy steps or epoch",
                      r->best.load ? "load-best-model-at-end" : r->best.save ? "save-strategy best" : "early-stopping-patience");
        *bad = true;
    }
    if (!yk__cli_on(cli, "do-train")) {
        yk__cli_usage(cli->command, "--do-train false leaves nothing to do: yoke eval evaluates, yoke predict predicts");
        *bad = true;
    }
}

static void read_data_options(const yk__cli *cli, bool *bad)
{
    yk__cli_int(cli, "per-device-train-batch-size", 1, 1 << 20, bad);
    yk__cli_int(cli, "global-batch", 1, 1 << 24, bad);
    yk__cli_int(cli, "data-seed", 0, INT64_MAX, bad);
    yk__cli_int(cli, "max-train-samples", 1, INT64_MAX, bad);
    yk__cli_int(cli, "max-eval-samples", 1, INT64_MAX, bad);
    if (!yk__cli_text(cli, "from"))
        yk__cli_refuse_idle(cli, "new-head", "without --from: every model that is made is new", bad);
    if (yk__cli_typed(cli, "global-batch"))
        yk__cli_refuse_idle(cli, "per-device-train-batch-size", "beside --global-batch", bad);
}

/* A number of epochs may be written as Trainer prints it, 3.0. */
static uint64_t read_epochs(const yk__cli *cli, bool *bad)
{
    const double v = yk__cli_real(cli, "num-train-epochs", 0, 1 << 30, bad);
    if (v >= 1 && v == floor(v))
        return (uint64_t)v;
    if (!*bad)
        yk__cli_usage(cli->command, "--num-train-epochs %g: expected a whole number from 1 on; --max-steps ends a run within an epoch", v);
    *bad = true;
    return 1;
}

/* Numbers of the command line, before devices are opened; false after a message. */
static bool read_numbers(train_run *r, yk_config *config)
{
    static const char *const rules[] = {"micro", "items", "rows"};
    const yk__cli *cli = r->cli;
    int64_t total;
    bool bad = !train_config(cli, config);
    int rule = yk__cli_word(cli, "average", rules, 3, &bad);
    config->average = rule < 0 ? YK_AVERAGE_MICRO : (yk_average)rule;
    r->accumulate = (uint64_t)yk__cli_int(cli, "gradient-accumulation-steps", 1, 1 << 20, &bad);
    config->accumulate = (uint32_t)r->accumulate;
    config->local_sgd_steps = (uint32_t)yk__cli_int(cli, "local-sgd-steps", 0, 1 << 30, &bad);
    r->epochs = read_epochs(cli, &bad);
    total = yk__cli_int(cli, "max-steps", -1, INT64_MAX / 2, &bad);
    r->total = total > 0 ? (uint64_t)total : 0;
    read_optimizer(r, &bad);
    read_schedule(r, &bad);
    read_strategies(r, &bad);
    read_data_options(cli, &bad);
    shard_read(cli, config, &bad);
    r->plan = prediction_read(cli);
    return train_reports_read(cli) && !bad;
}

bool train_options_read(const yk__cli *cli, yk_config *config)
{
    train_run r = {.cli = cli};
    return read_numbers(&r, config);
}

bool train_options_right(const yk__cli *cli)
{
    yk_config config = {0};
    return train_options_read(cli, &config);
}

static bool read_output(train_run *r)
{
    r->out = r->kept.dir = yk__cli_text(r->cli, "output-dir");
    if (r->out && *r->out)
        return true;
    yk__cli_usage(r->cli->command, "--output-dir is %s: where the model goes", r->out ? "empty" : "missing");
    return false;
}

/* There is something to train, and something to train it on. */
static bool read_subject(const yk__cli *cli)
{
    const bool model = yk__cli_text(cli, "model") || yk__cli_text(cli, "from"), data = yk__cli_text(cli, "data") != NULL;
    if (!model)
        yk__cli_usage(cli->command, "neither --model NAME nor --from DIR is given: there is nothing to work with");
    if (!data)
        yk__cli_usage(cli->command, "--data is missing: give the data as KIND:PATH");
    return model && data;
}

/* Reads every option, so that one run reports all errors. */
static bool read_all(train_run *r, yk_config *config)
{
    const bool right = read_numbers(r, config), subject = read_subject(r->cli);
    return read_output(r) && right && subject;
}

static double zero_is_meant(double v)
{
    return v == 0 ? YK_ZERO : v;
}

static yk_opt *make_optimizer(train_run *r)
{
    const yk__cli *cli = r->cli;
    bool bad = false;
    int k = yk__cli_word(cli, "optim", optimizers, OPTIM_NAMES, &bad);
    const double lr = zero_is_meant(r->lr);
    const yk_sgd_config sgd = {.lr = lr,
                               .momentum = yk__cli_real(cli, "momentum", 0, 1, &bad),
                               .weight_decay = r->decay};
    const yk_adam_config adam = {.lr = lr,
                                 .beta1 = zero_is_meant(yk__cli_real(cli, "adam-beta1", 0, 1, &bad)),
                                 .beta2 = zero_is_meant(yk__cli_real(cli, "adam-beta2", 0, 1, &bad)),
                                 .eps = zero_is_meant(yk__cli_real(cli, "adam-epsilon", 0, 1, &bad)),
                                 .weight_decay = r->decay};
    return k == OPTIM_SGD ? yk_sgd(r->job, &sgd) : k == OPTIM_ADAM ? yk_adam(r->job, &adam) : yk_adamw(r->job, &adam);
}

/* Biases and norms go into a group without decay. */
static void spare_from_decay(train_run *r)
{
    uint32_t group;
    if (r->decay == 0 || yk__cli_on(r->cli, "decay-all") || !yk_ok(r->job))
        return;
    group = yk_opt_group(r->opt, 1, 0);
    for (uint32_t i = 0; i < yk_param_count(r->job); i++)
        if (!yk_param_is_state(r->job, i) && !yk_model_decays(r->model, yk_param_name(r->job, i)))
            yk_opt_move(r->opt, group, yk_param_at(r->job, i));
}

/* DeepSpeed's schedules warm up for 1000 steps if nothing says how many. A given 0 says it. */
static void choose_no_warmup(const train_run *r, yk_sched_config *sched, char *text, size_t size)
{
    const char *params = sched->params ? sched->params : "";
    if (!yk__cli_given(r->cli, "warmup-steps") || sched->warmup_steps > 0 || strstr(params, "warmup_num_steps") ||
        yk__word_find("warmuplr|warmupdecaylr|warmupcosinelr", sched->name, strlen(sched->name)) < 0)
        return;
    snprintf(text, size, "%s%swarmup_num_steps=0", params, *params ? "," : "");
    sched->params = text;
}

static bool is_plateau(const char *name)
{
    return yk__word_find("reduce_lr_on_plateau|reducelronplateau", name, strlen(name)) >= 0;
}

/* A schedule that follows the best model's metric lowers the rate if that metric stops rising, unless mode= says otherwise. */
static void choose_mode(const train_run *r, yk_sched_config *sched, char *text, size_t size)
{
    const char *params = sched->params ? sched->params : "";
    if (!r->best.rises || !is_plateau(sched->name) || !strncmp(params, "mode=", 5) || strstr(params, ",mode="))
        return;
    snprintf(text, size, "%s%smode=max", params, *params ? "," : "");
    sched->params = text;
}

static void make_trainer(train_run *r)
{
    bool bad = false;
    char params[1100], with_mode[1200];
    yk_sched_config sched = {.name = yk__cli_text(r->cli, "lr-scheduler-type"), .params = yk__cli_text(r->cli, "lr-scheduler-kwargs")};
    r->opt = make_optimizer(r);
    spare_from_decay(r);
    r->per_epoch = (yk_data_batches(r->data) + r->accumulate - 1) / r->accumulate;
    if (yk_ok(r->job) && !r->per_epoch)
        yk_fail(r->job, YK_E_ARG, "the data has fewer rows than one batch: lower --global-batch, or keep the last batch of an epoch by "
                "--no-dataloader-drop-last");
    if (!r->total)
        r->total = r->per_epoch * r->epochs;
    sched.total_steps = (double)r->total;
    const double ratio = yk__cli_real(r->cli, "warmup-ratio", 0, 1, &bad);
    sched.warmup_steps = ratio > 0 ? ceil(sched.total_steps * ratio)
                                   : train_steps_of(train_steps_read(r->cli, "warmup-steps", &bad), r->total);
    choose_no_warmup(r, &sched, params, sizeof params);
    choose_mode(r, &sched, with_mode, sizeof with_mode);
    train_when_total(&r->log_when, r->total);
    train_when_total(&r->eval_when, r->total);
    train_when_total(&r->save_when, r->total);
    train_best_attach(r->job, &r->best);
    yk_model_label_smoothing(r->model, (float)yk__cli_real(r->cli, "label-smoothing-factor", 0, 0.999999, &bad));
    yk_model_recompute(r->model, yk__cli_on(r->cli, "gradient-checkpointing"));
    r->sched = yk_schedule(r->opt, &sched);
    if (yk_sched_by_metric(r->sched) && (!r->eval || r->eval_when.strategy == TRAIN_NEVER))
        yk_fail(r->job, YK_E_ARG, r->eval ? "--lr-scheduler-type reduce_lr_on_plateau follows evaluations during the training, and "
                                            "there are none: give --eval-strategy steps or epoch, or another schedule"
                                          : "--lr-scheduler-type reduce_lr_on_plateau follows the loss of evaluations, and there are "
                                            "none: give --eval-data, or another schedule");
}

static bool may_overwrite(const train_run *r)
{
    return yk__cli_on(r->cli, "overwrite-output-dir") || yk__cli_text(r->cli, "resume-from-checkpoint") || r->kept.again;
}

static void open_data(train_run *r)
{
    const yk__cli *cli = r->cli;
    bool bad = false;
    const int64_t world = yk_world_size(r->job);
    const int64_t batch = yk__cli_given(cli, "global-batch")
                              ? yk__cli_int(cli, "global-batch", 1, 1 << 24, &bad)
                              : world * yk__cli_int(cli, "per-device-train-batch-size", 1, 1 << 20, &bad);
    r->batch = (uint64_t)batch;
    output_check(r->job, r->out, may_overwrite(r));
    r->data = train_data(cli, r->job, false, (uint32_t)batch);
    if (yk_ok(r->job) && wants_eval(r) && train_has_eval(cli))
        r->eval = train_data(cli, r->job, true, train_eval_batch(cli, r->job, (uint32_t)batch));
    else if (yk_ok(r->job) && wants_eval(r) && yk_is_main(r->job))
        fprintf(stderr, "yoke train: no evaluation: all rows of the file train (--eval-data names others; of rows of text "
                        "--eval-split or --eval-rows, of images holdout=)\n");
    if (yk_ok(r->job) && !r->eval && (r->best.save || r->best.patience))
        yk_fail(r->job, YK_E_ARG, "the best model is chosen by evaluations, and there is no evaluation data: --eval-data or --eval-rows");
    if (yk_ok(r->job) && !r->eval && yk__cli_on(cli, "do-predict"))
        yk_fail(r->job, YK_E_ARG, "--do-predict: there is no evaluation data to predict for: --eval-data or --eval-rows");
    if (yk_ok(r->job) && r->eval && yk__cli_on(cli, "do-predict"))
        predict_check(r->job, r->eval);
}

/* A copied command line may limit checkpoints that Trainer writes without being asked. */
static void say_idle_limit(const train_run *r)
{
    const bool none = r->save_when.strategy == TRAIN_NEVER || r->save_when.strategy == TRAIN_BEST;
    if (none && r->kept.limit && yk_is_main(r->job))
        fprintf(stderr, "yoke train: --save-total-limit changes nothing: no checkpoints are written but the model at the end (--save-steps "
                        "or --save-strategy epoch writes them)\n");
}

/* Logs defaults that differ from Trainer's, if the command line leaves them open. */
static void say_defaults(const train_run *r)
{
    const yk__cli *cli = r->cli;
    const uint64_t left = r->batch ? yk_data_rows(r->data) % r->batch : 0;
    if (!yk_is_main(r->job) || yk__cli_on(cli, "json"))
        return;
    if (left && !yk__cli_typed(cli, "dataloader-drop-last"))
        fprintf(stderr, "yoke train: each epoch drops its last %llu rows, which fill no batch of %llu; Trainer keeps them: "
                        "--no-dataloader-drop-last\n", (unsigned long long)left, (unsigned long long)r->batch);
    if (train_cuts_text(cli))
        fprintf(stderr, "yoke train: the last tenth of the text evaluates and does not train: --eval-data names another text, "
                        "--eval-split R another part\n");
    if (r->save_when.strategy == TRAIN_STEPS && r->save_when.interval > r->total)
        fprintf(stderr, "yoke train: no checkpoint is written but the model at the end: --save-steps %llu is more than the "
                        "run's %llu steps\n",
                (unsigned long long)r->save_when.interval, (unsigned long long)r->total);
    if (r->save_when.strategy == TRAIN_NEVER && !yk__cli_typed(cli, "save-strategy"))
        fprintf(stderr, "yoke train: no checkpoints are written but the model at the end; Trainer writes one every 500 steps: "
                        "--save-steps 500\n");
    if (r->accumulate > 1 && !yk__cli_typed(cli, "average"))
        fprintf(stderr, "yoke train: the micro batches of a step count alike; Trainer weighs them by their labels: --average items\n");
}

static void set_up(train_run *r)
{
    say_idle_limit(r);
    open_data(r);
    if (yk_ok(r->job))
        r->model = train_model(r->cli, r->job, r->data);
    r->metrics = metric_choose(r->cli, yk_data_labels(r->data), r->metrics) | 1u << r->best.by;
    if (yk_ok(r->job) && r->eval && yk_model_fits(r->model, r->eval))
        metric_check(r->job, yk_data_labels(r->data), yk_data_classes(r->data), r->metrics | 1u << r->best.by);
    if (yk_ok(r->job))
        make_trainer(r);
    if (yk_ok(r->job))
        r->lock = output_claim(r->job, r->out, may_overwrite(r));
    if (r->save_when.strategy != TRAIN_NEVER || restart_run())
        output_compare(r->job, r->out);
}

static void print_ranks(const train_run *r, FILE *f, const double *peak)
{
    for (uint32_t i = 0; i < yk_world_size(r->job); i++)
        fprintf(f, "%s{\"rank\": %u, \"device\": \"%s\", \"share\": %.4f, \"peak_bytes\": %.0f}", i ? ", " : "", i,
                yk_device_name(r->job, i), yk_share(r->job, i), peak[i]);
}

/* Peak memory of each rank's device, in bytes; free() it. NULL after a failure. */
static double *gather_peaks(const train_run *r)
{
    double *peak = calloc(yk_world_size(r->job), sizeof *peak);
    if (!peak) {
        yk_fail(r->job, YK_E_MEM, "out of memory for the report");
        return NULL;
    }
    peak[yk_rank(r->job)] = (double)yk_peak_bytes(r->job);
    yk_all_reduce_sum(r->job, peak, yk_world_size(r->job));
    return peak;
}

static double run_speed(const train_run *r)
{
    return r->spent > 0 ? (double)r->rows / r->spent : 0;
}

static void print_final(const train_run *r, FILE *f, uint64_t hash, double seconds, const double *peak)
{
    yk_memory memory;
    fprintf(f, "{\"final\": true, \"step\": %llu, \"steps\": %llu, ", (unsigned long long)r->steps,
            (unsigned long long)(r->steps - r->first));
    metric_print_json(f, &r->result, r->metrics);
    yk_memory_get(r->job, &memory);
    fprintf(f, ", \"peak_bytes\": %llu, \"host_bytes\": %llu, \"disk_bytes\": %llu, \"param_hash\": \"%016llx\", \"seconds\": %.6g, "
            "\"samples_per_s\": %.6g, \"shares\": [",
            (unsigned long long)memory.peak, (unsigned long long)memory.host, (unsigned long long)memory.disk,
            (unsigned long long)hash, seconds, run_speed(r));
    print_ranks(r, f, peak);
    fprintf(f, "]}\n");
}

static void print_metrics(const train_run *r)
{
    const char *gap = "";
    for (int i = METRIC_COUNT - 1; i >= 0; i--) /* the loss last */
        if (r->metrics & 1u << i && isfinite(r->result.value[i])) {
            printf("%s%s %.4f", gap, metric_names[i], r->result.value[i]);
            gap = ", ";
        }
    printf("%s", *gap ? " after " : "");
}

static void print_report(const train_run *r, uint64_t hash, double seconds)
{
    const unsigned long long first = r->first, steps = r->steps;
    print_metrics(r);
    printf("%llu step%s", steps, steps == 1 ? "" : "s");
    if (first && first < steps)
        printf(" (%llu to %llu in this run)", first + 1, steps);
    else if (first)
        printf(" (none in this run)");
    printf(" in %.1f s", seconds);
    printf(steps > first ? "; training ran at %.0f samples/s\n" : "\n", run_speed(r));
    for (uint32_t i = 0; i < yk_world_size(r->job); i++)
        printf("  rank %u  %-28s share %5.1f %%\n", i, yk_device_name(r->job, i), 100 * yk_share(r->job, i));
    printf("parameters %016llx%s\nsaved in %s\n", (unsigned long long)hash,
           yk_world_size(r->job) > 1 ? ", bit-identical on all ranks" : "", r->out);
}

static void run_report(train_run *r)
{
    const double seconds = train_seconds() - r->started;
    const uint64_t hash = yk_param_hash(r->job); /* fails the job if the ranks' parameters differ */
    double *peak = yk_ok(r->job) ? gather_peaks(r) : NULL;
    const bool speaks = yk_ok(r->job) && yk_is_main(r->job);
    FILE *line = speaks ? report_begin(r) : NULL;
    if (line)
        print_final(r, line, hash, seconds, peak);
    report_end(r);
    if (speaks && yk__cli_on(r->cli, "json"))
        print_final(r, stdout, hash, seconds, peak);
    else if (speaks)
        print_report(r, hash, seconds);
    free(peak);
}

static void write_predictions(train_run *r)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/predictions.jsonl", r->out);
    predict_write(r->job, r->model, r->eval, path, "", true);
}

static int run_training(const yk__cli *cli)
{
    yk_config config = {.quiet = yk__cli_on(cli, "json")};
    train_run r = {.cli = cli, .lock = -1, .result = metric_none()};
    int code;
    if (!read_all(&r, &config))
        return YK_EXIT_USAGE;
    if (!yk__cli_on(cli, "enable-jit-checkpoint"))
        leave_ignore();
    r.job = train_open(cli, &config);
    if (!r.job)
        return YK_EXIT_FAILED;
    if (yk__cli_on(cli, "enable-jit-checkpoint"))
        leave_begin(r.job);
    progress_begin(&r.bar, yk_is_main(r.job) && !yk__cli_on(cli, "json"));
    if (yk_is_main(r.job) && yk_restart_count())
        r.kept.again = restart_is_own(r.out);
    if (yk_ok(r.job))
        set_up(&r);
    checkpoint_resume(&r.kept, r.job, yk__cli_text(cli, "resume-from-checkpoint"));
    if (yk_ok(r.job))
        train_begin(&r);
    if (yk_ok(r.job))
        checkpoints_place(&r.kept, r.job, &r.save_when, r.best.save, r.first, r.total, r.per_epoch);
    if (yk_ok(r.job))
        train_reports_open(&r);
    if (yk_ok(r.job)) {
        say_defaults(&r);
        train_loop(&r);
    }
    if (yk_ok(r.job) && !r.left && yk__cli_on(cli, "do-predict"))
        write_predictions(&r);
    if (yk_ok(r.job) && !r.left)
        run_report(&r);
    train_reports_close(&r);
    code = yk_close(r.job);
    checkpoints_free(&r.kept);
    output_release(r.out, r.lock);
    return !code && r.left ? YK_EXIT_AGAIN : code;
}

/* --dry-run needs neither model nor data. */
static bool train_check(const yk__cli *cli)
{
    yk_config config = {0};
    train_run r = {.cli = cli};
    return yk__cli_on(cli, "dry-run") ? read_numbers(&r, &config) : read_all(&r, &config);
}

int yk__cmd_train(int argc, char **argv)
{
    leave_listen();
    return train_main(&command, argc, argv, train_check, run_training);
}
