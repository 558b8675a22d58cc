/* SPDX-License-Identifier: Apache-2.0 */
/* yoke eval: loss and accuracy of a model on data. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/eval/metrics.h"
#include "tools/train/train.h"

static const yk__cli_option options[] = {
    TRAIN_MODEL_OPTIONS,
    METRIC_OPTION,
    {"max-eval-samples", "N", NULL, "evaluate on the first N rows", NULL},
};

static const yk__cli_command command = {
    .name = "eval",
    .usage = "--from DIR --data|--eval-data KIND:PATH [options]",
    .summary = "evaluate a model",
    .text = "Prints mean loss, accuracy and what else --metrics names over the evaluation part of --data, the part that training\n"
            "would leave out (for idx: t10k; for csv and jsonl: all rows of the file, or those of --eval-rows; for text: the last\n"
            "tenth), or over --eval-data. A text named by --eval-data is evaluated whole.\n"
            "Names of labels are numbered as the model's config.json says (id2label).",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static void print_result(const yk__cli *cli, yk_job *job, const train_result *r, uint32_t metrics)
{
    const bool json = yk__cli_on(cli, "json");
    if (!yk_ok(job) || !yk_is_main(job))
        return;
    fputs(json ? "{" : "", stdout);
    (json ? metric_print_json : metric_print)(stdout, r, metrics);
    printf(json ? ", \"correct\": %llu, \"total\": %llu}\n" : "  (%llu of %llu)\n", (unsigned long long)r->correct,
           (unsigned long long)r->total);
}

static int eval_run(const yk__cli *cli)
{
    bool bad = false;
    yk_config config = {.quiet = yk__cli_on(cli, "json")};
    const uint32_t metrics = metric_read(cli, &bad);
    train_result r = metric_none();
    yk_job *job;
    yk_data *data;
    yk_model *m;
    yk__cli_int(cli, "max-eval-samples", 1, INT64_MAX, &bad);
    if (!train_config(cli, &config) || bad)
        return YK_EXIT_USAGE;
    job = yk_open(&config);
    if (!job)
        return YK_EXIT_FAILED;
    data = train_data(cli, job, true, (uint32_t)yk__cli_int(cli, "per-device-eval-batch-size", 1, 1 << 20, &bad) * yk_world_size(job));
    m = train_model(cli, job, data);
    if (yk_ok(job))
        r = train_evaluate(job, m, data, metrics);
    print_result(cli, job, &r, metrics);
    return yk_close(job);
}

int yk__cmd_eval(int argc, char **argv)
{
    return train_main(&command, argc, argv, eval_run);
}
