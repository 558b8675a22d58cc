/* SPDX-License-Identifier: Apache-2.0 */
/* yoke train: trains a model on data, on one or several devices. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output.h"
#include "tools/train_loop.h"
#include "tools/train_refused.h"

static const yk__cli_option options[] = {
    TRAIN_MODEL_OPTIONS,
    {"output-dir", "DIR", NULL, "where the model and the checkpoints go", NULL},
    {"overwrite-output-dir", NULL, NULL, "--output-dir may hold a model or checkpoints already (--from the same folder too)", NULL},
    {"num-train-epochs", "N", "3", "epochs", NULL},
    {"max-steps", "N", "0", "optimizer steps in all; 0: as the epochs say", NULL},
    {"per-device-train-batch-size", "N", "8", "rows of a micro batch for each rank; shared out by speed", NULL},
    {"global-batch", "N", NULL, "rows of a micro batch over all ranks, instead", NULL},
    {"gradient-accumulation-steps", "N", "1", "micro batches per optimizer step", NULL},
    {"average", "RULE", "micro", "micro: mean of the micro batches' means; items: of all labels; rows: of all rows", NULL},
    {"learning-rate", "R", "5e-5", "peak learning rate", NULL},
    {"lr-scheduler-type", "NAME", "linear", "a name of transformers' get_scheduler", NULL},
    {"lr-scheduler-kwargs", "KEY=VALUE,..", NULL, "further settings of the schedule (min_lr=1e-4)", NULL},
    {"warmup-steps", "N", "0", "steps of linear warm-up", NULL},
    {"weight-decay", "R", "0", "on matrices and kernels; not on biases and norms", NULL},
    {"decay-all", NULL, NULL, "weight decay on every parameter", NULL},
    {"max-grad-norm", "R", "1.0", "clip the gradient to this norm; 0: no clipping", NULL},
    {"optim", "NAME", "adamw", "sgd, adam or adamw", NULL},
    {"momentum", "R", "0.9", "of sgd", NULL},
    {"adam-beta1", "R", "0.9", "of adam and adamw", NULL},
    {"adam-beta2", "R", "0.999", "of adam and adamw", NULL},
    {"adam-epsilon", "R", "1e-8", "of adam and adamw", NULL},
    {"logging-steps", "N", "50", "a line in the log every so many steps", NULL},
    {"eval-steps", "N", "0", "evaluate every so many steps; 0: after each epoch", NULL},
    {"save-steps", "N", "0", "a checkpoint every so many steps; 0: none but the final model", NULL},
    {"save-total-limit", "N", "0", "keep only the newest checkpoints; 0: all", NULL},
    {"resume-from-checkpoint", "DIR|last", NULL, "go on from a checkpoint, bit for bit", NULL},
    {"log", "FILE", NULL, "JSON lines; the last has \"final\": true", NULL},
    TRAIN_REFUSED_OPTIONS,
};

static const yk__cli_command command = {
    .name = "train",
    .usage = "--model NAME --data KIND:PATH --output-dir DIR [options]",
    .summary = "train a model",
    .text = "Trains on the devices that --devices selects: one process each, one model. Options carry the names of Hugging\n"
            "Face's TrainingArguments. A batch is shared out over the devices by their measured speed.\n\n"
            "Example: yoke train --model mlp --data idx:/usr/share/datasets/fashion-mnist --output-dir out",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static const char *const optimizers[] = {"sgd", "adam", "adamw"};

/* Numbers of the command line, before devices are opened; false after a message. */
static bool read_numbers(train_run *r, yk_config *config)
{
    static const char *const rules[] = {"micro", "items", "rows"};
    const yk__cli *cli = r->cli;
    bool bad = !train_config(cli, config);
    int rule = yk__cli_word(cli, "average", rules, 3, &bad);
    config->average = rule < 0 ? YK_AVERAGE_MICRO : (yk_average)rule;
    r->accumulate = (uint64_t)yk__cli_int(cli, "gradient-accumulation-steps", 1, 1 << 20, &bad);
    config->accumulate = (uint32_t)r->accumulate;
    r->epochs = (uint64_t)yk__cli_int(cli, "num-train-epochs", 1, 1 << 30, &bad);
    r->total = (uint64_t)yk__cli_int(cli, "max-steps", 0, INT64_MAX / 2, &bad);
    r->log_every = (uint64_t)yk__cli_int(cli, "logging-steps", 1, 1 << 30, &bad);
    r->eval_every = (uint64_t)yk__cli_int(cli, "eval-steps", 0, 1 << 30, &bad);
    r->save_every = (uint64_t)yk__cli_int(cli, "save-steps", 0, 1 << 30, &bad);
    r->kept.limit = (uint64_t)yk__cli_int(cli, "save-total-limit", 0, 1 << 30, &bad);
    yk__cli_word(cli, "optim", optimizers, 3, &bad); /* used later; what is wrong is told before devices are opened */
    yk__cli_real(cli, "momentum", 0, 1, &bad);
    yk__cli_real(cli, "adam-beta1", 0, 1, &bad);
    yk__cli_real(cli, "adam-beta2", 0, 1, &bad);
    yk__cli_real(cli, "adam-epsilon", 0, 1, &bad);
    r->clip = yk__cli_real(cli, "max-grad-norm", 0, 1e30, &bad);
    r->lr = yk__cli_real(cli, "learning-rate", 0, 1e10, &bad);
    r->decay = yk__cli_real(cli, "weight-decay", 0, 1e10, &bad);
    yk__cli_int(cli, "warmup-steps", 0, INT32_MAX, &bad);
    yk__cli_int(cli, "per-device-train-batch-size", 1, 1 << 20, &bad);
    yk__cli_int(cli, "global-batch", 1, 1 << 24, &bad);
    r->out = r->kept.dir = yk__cli_text(cli, "output-dir");
    if (!r->out) {
        yk__cli_usage(cli->command, "--output-dir is missing: where the model goes");
        bad = true;
    }
    return !bad;
}

static yk_opt *make_optimizer(train_run *r)
{
    const yk__cli *cli = r->cli;
    bool bad = false;
    int k = yk__cli_word(cli, "optim", optimizers, 3, &bad);
    const yk_sgd_config sgd = {.lr = r->lr,
                               .momentum = yk__cli_real(cli, "momentum", 0, 1, &bad),
                               .weight_decay = r->decay};
    const yk_adam_config adam = {.lr = r->lr,
                                 .beta1 = yk__cli_real(cli, "adam-beta1", 0, 1, &bad),
                                 .beta2 = yk__cli_real(cli, "adam-beta2", 0, 1, &bad),
                                 .eps = yk__cli_real(cli, "adam-epsilon", 0, 1, &bad),
                                 .weight_decay = r->decay};
    return k == 0 ? yk_sgd(r->job, &sgd) : k == 1 ? yk_adam(r->job, &adam) : yk_adamw(r->job, &adam);
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

static void make_trainer(train_run *r)
{
    bool bad = false;
    yk_sched_config sched = {.name = yk__cli_text(r->cli, "lr-scheduler-type"), .params = yk__cli_text(r->cli, "lr-scheduler-kwargs")};
    r->opt = make_optimizer(r);
    spare_from_decay(r);
    r->per_epoch = (yk_data_batches(r->data) + r->accumulate - 1) / r->accumulate;
    if (yk_ok(r->job) && !r->per_epoch)
        yk_fail(r->job, YK_E_ARG, "the data has fewer rows than one batch: lower --global-batch");
    if (!r->total)
        r->total = r->per_epoch * r->epochs;
    sched.warmup_steps = (double)yk__cli_int(r->cli, "warmup-steps", 0, INT32_MAX, &bad);
    sched.total_steps = (double)r->total;
    r->sched = yk_schedule(r->opt, &sched);
    if (yk_sched_by_metric(r->sched) && !r->eval)
        yk_fail(r->job, YK_E_ARG, "--lr-scheduler-type reduce_lr_on_plateau follows the loss of evaluations, and there are none: give "
                                  "--eval-data, or another schedule");
}

/* A table has no evaluation part of its own: evaluating on the rows that train would only look like one. */
static bool has_eval(const yk__cli *cli)
{
    const char *data = yk__cli_text(cli, "data");
    const bool table = data && (!strncmp(data, "csv:", 4) || !strncmp(data, "jsonl:", 6));
    return !table || yk__cli_text(cli, "eval-data") || yk__cli_text(cli, "eval-rows");
}

static void fail_log(const train_run *r, const char *reason)
{
    char text[4352];
    snprintf(text, sizeof text, "--log %s: %s", yk__cli_text(r->cli, "log"), reason);
    yk_fail(r->job, YK_E_IO, text);
}

static bool may_overwrite(const yk__cli *cli)
{
    return yk__cli_on(cli, "overwrite-output-dir") || yk__cli_text(cli, "resume-from-checkpoint");
}

static void set_up(train_run *r)
{
    const yk__cli *cli = r->cli;
    bool bad = false;
    const int64_t world = yk_world(r->job);
    int64_t batch = yk__cli_given(cli, "global-batch") ? yk__cli_int(cli, "global-batch", 1, 1 << 24, &bad)
                                                       : world * yk__cli_int(cli, "per-device-train-batch-size", 1, 1 << 20, &bad);
    int64_t eval_batch = world * yk__cli_int(cli, "per-device-eval-batch-size", 1, 1 << 20, &bad);
    const char *log = yk__cli_text(cli, "log");
    output_check(r->job, r->out, may_overwrite(cli));
    r->data = train_data(cli, r->job, false, (uint32_t)batch);
    if (yk_ok(r->job) && has_eval(cli))
        r->eval = train_data(cli, r->job, true, (uint32_t)eval_batch);
    else if (yk_ok(r->job) && yk_is_main(r->job))
        fprintf(stderr, "yoke train: no evaluation: all rows of the file train (--eval-data or --eval-rows names others)\n");
    if (yk_ok(r->job))
        r->model = train_model(cli, r->job, r->data);
    if (yk_ok(r->job) && (!r->eval || yk_model_takes(r->model, r->eval)))
        make_trainer(r);
    if (yk_ok(r->job))
        r->lock = output_claim(r->job, r->out, may_overwrite(cli));
    if (log && yk_ok(r->job) && yk_is_main(r->job)) {
        r->log = fopen(log, "w");
        if (!r->log)
            fail_log(r, strerror(errno));
    }
}

static void print_shares(const train_run *r, FILE *f, const char *separator)
{
    for (uint32_t i = 0; i < yk_world(r->job); i++)
        fprintf(f, "%s{\"rank\": %u, \"device\": \"%s\", \"share\": %.4f}", i ? separator : "", i, yk_device_name(r->job, i),
                yk_share(r->job, i));
}

static double speed(const train_run *r)
{
    return r->spent > 0 ? (double)r->rows / r->spent : 0;
}

static void print_final(const train_run *r, FILE *f, uint64_t hash, double seconds)
{
    fprintf(f, "{\"final\": true, \"step\": %llu, \"eval_loss\": %s, \"eval_accuracy\": %s, \"peak_bytes\": %llu, "
               "\"param_hash\": \"%016llx\", \"seconds\": %.6g, \"samples_per_s\": %.6g, \"shares\": [",
            (unsigned long long)r->steps, train_number(r->result.loss).text, train_number(r->result.accuracy).text,
            (unsigned long long)yk_peak_bytes(r->job), (unsigned long long)hash, seconds, speed(r));
    print_shares(r, f, ", ");
    fprintf(f, "]}\n");
}

static void print_report(const train_run *r, uint64_t hash, double seconds)
{
    if (isfinite(r->result.loss))
        printf("accuracy %.4f, loss %.4f after ", r->result.accuracy, r->result.loss);
    printf("%llu steps in %.1f s; training ran at %.0f samples/s\n", (unsigned long long)r->steps, seconds, speed(r));
    for (uint32_t i = 0; i < yk_world(r->job); i++)
        printf("  rank %u  %-28s share %5.1f %%\n", i, yk_device_name(r->job, i), 100 * yk_share(r->job, i));
    printf("parameters %016llx%s\nsaved in %s\n", (unsigned long long)hash,
           yk_world(r->job) > 1 ? ", bit-identical on all ranks" : "", r->out);
}

static void report(train_run *r)
{
    const double seconds = train_seconds() - r->started;
    const uint64_t hash = yk_param_hash(r->job); /* fails the job if the ranks' parameters differ */
    if (!yk_ok(r->job) || !yk_is_main(r->job))
        return;
    if (r->log)
        print_final(r, r->log, hash, seconds);
    if (yk__cli_on(r->cli, "json"))
        print_final(r, stdout, hash, seconds);
    else
        print_report(r, hash, seconds);
}

/* A log that is cut short fails the job; the model is saved by then. */
static void close_log(train_run *r)
{
    const char *reason = yk__cli_close_file(r->log);
    if (reason)
        fail_log(r, reason);
}

static int run_training(const yk__cli *cli)
{
    yk_config config = {.quiet = yk__cli_on(cli, "json")};
    train_run r = {.cli = cli, .lock = -1, .result = {NAN, NAN, 0, 0}};
    int code;
    if (!read_numbers(&r, &config))
        return YK_EXIT_USAGE;
    r.job = yk_open(&config);
    if (!r.job)
        return YK_EXIT_FAILED;
    progress_begin(&r.bar, yk_is_main(r.job) && !yk__cli_on(cli, "json"));
    if (yk_ok(r.job))
        set_up(&r);
    checkpoint_resume(&r.kept, r.job, yk__cli_text(cli, "resume-from-checkpoint"));
    if (yk_ok(r.job))
        train_loop(&r);
    if (yk_ok(r.job))
        report(&r);
    close_log(&r);
    code = yk_close(r.job);
    checkpoints_free(&r.kept);
    output_release(r.out, r.lock);
    return code;
}

int yk__cmd_train(int argc, char **argv)
{
    return train_main(&command, argc, argv, run_training);
}
