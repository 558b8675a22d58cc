/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training to measure or to plan. It opens the job, builds the model, makes data of its kind (or opens the loader), and runs one micro
 * batch a call. `yoke bench` times it and `yoke estimate-memory` plans it, in the main thread of each rank.
 */
#include "tools/bench/sample.h"

#include "core/base/word.h"
#include "tools/eval/metrics.h"
#include "tools/train/alike.h"
#include "tools/train/train_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_u32(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A key of --model-config, or of --from's config.json, which the model reads itself as well. */
static int64_t config_int(const sample *s, const char *key, int64_t preset)
{
    yk_settings *list = train_settings(s->cli, s->job);
    const int64_t v = yk_settings_int(list, key, preset);
    yk_settings_free(list);
    return v;
}

static bool family_is(const sample *s, const char *family)
{
    return !strncmp(s->name, family, strlen(family));
}

/* Tokens of a row or window. */
static int64_t default_width(const sample *s)
{
    const bool running = family_is(s, "gpt2");
    return s->as_train ? train_length(s->cli, s->job, running ? "seq-len" : "max-length") : running ? 256 : 128;
}

static void sample_sizes(sample *s)
{
    const bool text = family_is(s, "gpt2") || family_is(s, "bert");
    s->width = text ? config_int(s, "seq_len", default_width(s)) : 1;
    s->channels = family_is(s, "resnet") ? config_int(s, "num_channels", 3) : config_int(s, "input_size", 784);
    s->side = family_is(s, "resnet") ? config_int(s, "image_size", 32) : 1;
    s->classes = family_is(s, "gpt2")       ? config_int(s, "vocab_size", 50257)
                 : family_is(s, "bert-mlm") ? config_int(s, "vocab_size", 30522)
                                            : config_int(s, "num_labels", family_is(s, "bert") ? 2 : 10);
    s->rows = s->batch;
    if (s->width < 1)
        yk_fail(s->job, YK_E_ARG, "setting seq_len=0: expected a whole number from 1");
}

/* Tokens of a row that count: half to all. */
static int64_t length_of(const sample *s, int64_t row)
{
    return family_is(s, "bert") ? s->width / 2 + row * 37 % (s->width / 2 + 1) : s->width;
}

double sample_flops(const sample *s)
{
    double sum = 0;
    for (int64_t i = 0; i < s->batch && !s->data && !strcmp(s->name, "bert"); i++)
        sum += yk_model_flops(s->model, length_of(s, i));
    return sum > 0 ? sum : yk_model_flops(s->model, s->width) * (double)s->batch;
}

/* Random data for the largest batch; every rank makes the same and takes its part. The model has looked at its sizes. */
static void make_data(sample *s)
{
    const int64_t most = s->eval_batch > s->batch ? s->eval_batch : s->batch;
    const int64_t pixels = s->channels * s->side * s->side, tokens = most * s->width;
    const int64_t vocab = family_is(s, "gpt2") ? s->classes : family_is(s, "bert") ? config_int(s, "vocab_size", 30522) : 1;
    const bool per_token = family_is(s, "gpt2") || family_is(s, "bert-mlm");
    uint32_t state = 1;
    s->x = calloc((size_t)(most * pixels) + 1, sizeof *s->x);
    s->ids = calloc(4 * (size_t)tokens + 1, sizeof *s->ids);
    s->row = calloc((size_t)most + 1, sizeof *s->row);
    if (!s->x || !s->ids || !s->row) {
        yk_fail(s->job, YK_E_MEM, "out of memory for the data");
        return;
    }
    s->mask = s->ids + tokens;
    s->types = s->mask + tokens;
    s->labels = s->types + tokens;
    for (int64_t i = 0; i < most * pixels && s->width == 1; i++)
        s->x[i] = (float)random_u32(&state) / 8388608.0f - 1;
    for (int64_t i = 0; i < tokens; i++) {
        s->ids[i] = (int32_t)(random_u32(&state) % (uint64_t)vocab);
        s->mask[i] = i % s->width < length_of(s, i / s->width);
    }
    for (int64_t i = 0; i < (per_token ? tokens : most); i++)
        s->labels[i] = (int32_t)(random_u32(&state) % (uint64_t)s->classes);
}

/* Takes this rank's part of the batch: even, unless the job says otherwise. Only the loader splits by measured speed. */
static void sample_split(sample *s, int64_t batch)
{
    uint64_t n = 0, first = 0;
    yk_split(s->job, (uint64_t)batch, &first, &n);
    s->first = (int64_t)first;
    s->rows = (int64_t)n;
    for (int64_t i = 0; i < s->rows; i++)
        s->row[i] = (int32_t)(s->first + i);
    yk_set_rows(s->job, s->rows, s->row, batch);
}

static yk_t ids_input(const sample *s, const int32_t *v)
{
    return yk_input(s->job, YK_I32, 2, (int64_t[]){s->rows, s->width}, v + s->first * s->width);
}

static yk_batch batch_fill(const sample *s, int64_t global_rows)
{
    const bool per_token = family_is(s, "gpt2") || family_is(s, "bert-mlm");
    const int64_t pixels = s->channels * s->side * s->side;
    yk_batch batch = {.rows = s->rows, .global_rows = global_rows, .width = s->width};
    if (family_is(s, "gpt2") || family_is(s, "bert")) {
        batch.input_ids = ids_input(s, s->ids);
        batch.attention_mask = family_is(s, "bert") ? ids_input(s, s->mask) : YK_NO;
        batch.token_type_ids = family_is(s, "bert") ? ids_input(s, s->types) : YK_NO;
    } else {
        batch.x = yk_input(s->job, YK_F32, family_is(s, "resnet") ? 4 : 2, (int64_t[]){s->rows, s->channels, s->side, s->side},
                           s->x + s->first * pixels);
    }
    batch.labels = per_token ? ids_input(s, s->labels) : yk_input(s->job, YK_I32, 1, (int64_t[]){s->rows}, s->labels + s->first);
    return batch;
}

/* The loader's next batch, over the end of an epoch. An epoch without a batch is an error of the job. */
static yk_batch batch_load(sample *s)
{
    yk_batch batch = {0};
    while (yk_ok(s->job) && !yk_data_next(s->data, &batch))
        ;
    s->rows = batch.rows;
    return batch;
}

void sample_micro(sample *s)
{
    yk_batch batch;
    if (!s->data)
        sample_split(s, s->batch);
    batch = s->data ? batch_load(s) : batch_fill(s, s->batch);
    yk_backward(yk_model_loss(s->model, &batch, yk_forward(s->model, &batch)));
    if (s->clip > 0)
        yk_clip_norm(s->job, (float)s->clip);
    yk_step(s->opt);
}

static void evaluate_batch(sample *s, const yk_batch *batch)
{
    yk_t loss;
    metric_trace(s->model, batch, yk_forward(s->model, batch), &loss);
    yk_end(s->job);
}

/* Plans an evaluation: one batch if all are equal, else, for rows of text, as many batches as of training. */
static void evaluate_data(sample *s)
{
    yk_batch batch = {0};
    const uint64_t most = s->by_rows ? 256 : 1;
    for (uint64_t i = 0; i < most && yk_ok(s->job) && yk_data_next(s->eval, &batch); i++)
        evaluate_batch(s, &batch);
}

void sample_evaluate(sample *s)
{
    yk_batch batch;
    yk_train(s->job, false);
    if (s->eval)
        evaluate_data(s);
    else {
        sample_split(s, s->eval_batch);
        batch = batch_fill(s, s->eval_batch);
        evaluate_batch(s, &batch);
    }
    yk_train(s->job, true);
}

static yk_opt *optimizer_as_train(const sample *s)
{
    const char *name = yk__cli_text(s->cli, "optim"); /* checked before: a longer word than adam is adamw */
    bool bad = false;
    const int k = yk__word_find("sgd|adam", name, strlen(name));
    const double decay = yk__cli_real(s->cli, "weight-decay", 0, 1e10, &bad);
    const yk_adam_config adam = {.lr = 1e-4, .weight_decay = decay};
    if (k == 0)
        return yk_sgd(s->job, &(yk_sgd_config){
                                  .lr = 0.01, .momentum = yk__cli_real(s->cli, "momentum", 0, 1, &bad), .weight_decay = decay});
    return k == 1 ? yk_adam(s->job, &adam) : yk_adamw(s->job, &adam);
}

static yk_opt *optimizer_new(const sample *s)
{
    static const char *const words[] = {"sgd", "sgdm", "adamw"};
    bool bad = false;
    int k = yk__cli_word(s->cli, "optim", words, 3, &bad);
    if (bad)
        yk_fail(s->job, YK_E_ARG, "unknown optimizer (see above)");
    if (k < 0)
        k = family_is(s, "gpt2") || family_is(s, "bert") ? 2 : family_is(s, "resnet") ? 1 : 0;
    if (k == 2)
        return yk_adamw(s->job, &(yk_adam_config){.lr = 1e-4, .weight_decay = 0.01});
    return yk_sgd(s->job, &(yk_sgd_config){.lr = 0.01, .momentum = k ? 0.9 : 0});
}

/* True if a training with evaluation data evaluates, by yoke train's rule. */
static bool evaluates_as_train(const yk__cli *cli)
{
    const char *strategy = yk__cli_text(cli, "eval-strategy");
    return yk__cli_given(cli, "do-eval") ? yk__cli_on(cli, "do-eval") : !strategy || yk__word_find("no", strategy, strlen(strategy)) != 0;
}

bool sample_as_train_right(const yk__cli *cli)
{
    bool bad = !train_options_right(cli);
    yk__cli_int(cli, "threads", 1, 4096, &bad);
    if (yk__cli_typed(cli, "threads"))
        yk__cli_refuse_idle(cli, "devices", "beside --threads: give one of them", &bad);
    if (yk__cli_text(cli, "eval-data") && !yk__cli_text(cli, "data")) {
        yk__cli_usage(cli->command, "--eval-data without --data: training takes the most memory: name its data too");
        bad = true;
    }
    return !bad;
}

/* Devices and cores, precision and seed of a sample that is timed. */
static bool read_timed(sample *s, yk_config *c)
{
    static const yk_dtype types[] = {YK_F32, YK_BF16, YK_F16, YK_F8E4M3};
    bool bad = false;
    c->precision_by_rank = train_precision_by_rank(s->cli);
    const int k = c->precision_by_rank ? 0 : yk__cli_choice(s->cli, "precision", YK__PRECISION_WORDS, &bad);
    c->precision = types[k < 0 ? 0 : k];
    c->seed = (uint64_t)yk__cli_int(s->cli, "seed", 0, INT64_MAX, &bad);
    c->devices = yk__cli_text(s->cli, "devices");
    c->allow_substitute = yk__cli_on(s->cli, "allow-substitute");
    c->shard = yk__cli_text(s->cli, "shard");
    c->offload = yk__cli_text(s->cli, "offload");
    return !bad;
}

bool sample_open(sample *s, const yk__cli *cli, bool as_train, const yk_config *config)
{
    bool bad = false;
    const int64_t threads = yk__cli_int(cli, "threads", 1, 4096, &bad);
    yk_config c = *config;
    *s = (sample){.cli = cli, .as_train = as_train};
    s->batch = yk__cli_int(cli, "global-batch", 1, 1 << 20, &bad);
    s->clip = yk__cli_real(cli, "max-grad-norm", 0, 1e30, &bad);
    if (!(s->as_train ? train_config(cli, &c) : read_timed(s, &c)) || bad)
        return false;
    c.quiet = true;
    if (threads) {
        snprintf(s->cores, sizeof s->cores, threads == 1 ? "cpu:0" : "cpu:0-%lld", (long long)threads - 1);
        c.devices = s->cores;
    }
    s->job = train_open(cli, &c);
    if (!s->job)
        return false;
    if (!s->batch)
        s->batch = (int64_t)yk_world_size(s->job) * yk__cli_int(cli, "per-device-train-batch-size", 1, 1 << 20, &bad);
    s->eval_batch = s->as_train && evaluates_as_train(cli) ? train_eval_batch(cli, s->job, (uint32_t)s->batch) : 0;
    return true;
}

static void model_as_train(sample *s)
{
    bool bad = false; /* reported before the job was opened */
    yk_model_label_smoothing(s->model, (float)yk__cli_real(s->cli, "label-smoothing-factor", 0, 0.999999, &bad));
    yk_model_recompute(s->model, yk__cli_on(s->cli, "gradient-checkpointing"));
}

/* Opens data and model of the planned training, as its own command does. */
static void make_as_train(sample *s)
{
    const bool has_data = yk__cli_text(s->cli, "data") != NULL;
    if (has_data)
        s->data = train_data(s->cli, s->job, false, (uint32_t)s->batch);
    if (has_data && yk_ok(s->job)) {
        const char *kind = yk_data_kind(s->data);
        s->by_rows = !strcmp(kind, "csv") || !strcmp(kind, "jsonl") || !strcmp(kind, "lines");
    }
    if (has_data && yk_ok(s->job) && s->eval_batch && train_has_eval(s->cli))
        s->eval = train_data(s->cli, s->job, true, (uint32_t)s->eval_batch);
    if (has_data && !s->eval)
        s->eval_batch = 0;
    if (yk_ok(s->job) && !yk__cli_text(s->cli, "model") && !yk__cli_text(s->cli, "from"))
        s->model = yk_model_new(s->job, "mlp", yk__cli_text(s->cli, "model-config"), s->data);
    else if (yk_ok(s->job))
        s->model = train_model(s->cli, s->job, s->data);
}

static void open_timed_data(sample *s)
{
    if (yk__cli_text(s->cli, "data"))
        s->data = yk_data_open(s->job, yk__cli_text(s->cli, "data"),
                               &(yk_data_config){.global_batch = (uint32_t)s->batch, .seq_len = (uint32_t)s->width});
}

void sample_make(sample *s)
{
    const char *given = yk__cli_text(s->cli, "model");
    if (yk_ok(s->job) && s->as_train)
        make_as_train(s);
    else if (yk_ok(s->job))
        s->model = yk_model_new(s->job, given, yk__cli_text(s->cli, "model-config"), NULL);
    if (yk_ok(s->job)) {
        snprintf(s->name, sizeof s->name, "%s", yk_model_name(s->model));
        sample_sizes(s);
    }
    if (yk_ok(s->job) && !(s->as_train && s->data))
        make_data(s);
    if (yk_ok(s->job) && !s->as_train)
        open_timed_data(s);
    if (yk_ok(s->job))
        s->opt = s->as_train ? optimizer_as_train(s) : optimizer_new(s);
    if (s->as_train && yk_ok(s->job))
        model_as_train(s);
}

void sample_free(sample *s)
{
    free(s->x);
    free(s->ids);
    free(s->row);
}
