/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke eval: loss and accuracy of a saved model on data. yoke.c calls it by its table of commands, in the main thread. It uses
 * tools/train/train.c to start the ranks, and tools/eval to compute the metrics.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/eval/metrics.h"
#include "tools/train/train.h"
#include "tools/config/apply.h"
#include "tools/train/refused.h"
#include "tools/train/spellings.h"

static const yk__cli_option options[] = {
    TRAIN_MODEL_OPTIONS,
    CONFIG_FILE_OPTIONS,
    METRIC_OPTION,
    {"max-eval-samples", "N", NULL, "evaluate on the first N rows", NULL},
    DATA_REFUSED_OPTIONS,
};

static const yk__cli_spelling spellings[] = {TRAIN_SPELLINGS, USE_SPELLINGS};

static const yk__cli_command command = {
    .name = "eval",
    .usage = "--from DIR --data|--eval-data KIND:PATH [options]",
    .summary = "evaluate a model",
    .text = "Prints mean loss, accuracy and the other --metrics over the evaluation part of --data, the part that training\n"
            "would leave out (for idx: t10k; for csv and jsonl: all rows of the file, or those of --eval-rows; for text: the last\n"
            "tenth), or over --eval-data. A text named by --eval-data is evaluated whole.\n"
            "Names of labels are numbered as the model's config.json says (id2label).",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof spellings[0],
};

static void print_result(const yk__cli *cli, yk_job *job, const train_result *r, yk_labels labels, uint32_t metrics)
{
    const bool json = yk__cli_on(cli, "json");
    if (!yk_ok(job) || !yk_is_main(job))
        return;
    fputs(json ? "{" : "", stdout);
    (json ? metric_print_json : metric_print)(stdout, r, metrics);
    if (labels == YK_LABELS_NUMBERS)
        printf(json ? ", \"total\": %llu}\n" : "  (%llu rows)\n", (unsigned long long)r->total);
    else
        printf(json ? ", \"correct\": %llu, \"total\": %llu}\n" : "  (%llu of %llu)\n", (unsigned long long)r->correct,
               (unsigned long long)r->total);
}

/* Metrics of results that are no numbers would look like those of a poor model. An infinite loss may be due to large labels. */
static void loss_check(yk_job *job, const train_result *r)
{
    char text[200];
    const double loss = r->value[METRIC_LOSS];
    if (!yk_ok(job) || !r->total || !isnan(loss))
        return;
    snprintf(text, sizeof text, "the mean loss of %llu labels is nan: the model's weights are damaged, or had diverged when they were "
             "saved", (unsigned long long)r->total);
    yk_fail(job, YK_E_NUMERIC, text);
}

static int eval_run(const yk__cli *cli)
{
    bool bad = false; /* reported by eval_check */
    yk_config config = {.quiet = yk__cli_on(cli, "json"), .inference = true};
    uint32_t metrics = metric_read(cli, &bad);
    train_result r = metric_none();
    train_use use;
    int code;
    if (!train_use_open(cli, &config, &use, &code))
        return code;
    metrics = metric_choose(cli, yk_data_labels(use.data), metrics);
    if (yk_ok(use.job))
        r = train_evaluate(use.job, use.model, use.data, metrics);
    loss_check(use.job, &r);
    print_result(cli, use.job, &r, yk_data_labels(use.data), metrics);
    return yk_close(use.job);
}

static bool eval_check(const yk__cli *cli)
{
    bool bad = false;
    metric_read(cli, &bad);
    return train_use_check(cli) && !bad;
}

int yk__cmd_eval(int argc, char **argv)
{
    return train_main(&command, argc, argv, eval_check, eval_run);
}
