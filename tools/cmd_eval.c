/* SPDX-License-Identifier: Apache-2.0 */
/* yoke eval: loss and accuracy of a model on data. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/train.h"

static const yk__cli_option options[] = {TRAIN_MODEL_OPTIONS};

static const yk__cli_command command = {
    .name = "eval",
    .usage = "--from DIR --data|--eval-data KIND:PATH [options]",
    .summary = "evaluate a model",
    .text = "Prints mean loss and accuracy over the evaluation part of --data, the part that training would leave out (for idx: t10k;\n"
            "for csv and jsonl: all rows of the file, or those of --eval-rows; for text: the last tenth), or over --eval-data. A text\n"
            "named by --eval-data is evaluated whole. Names of labels are numbered as the model's config.json says (id2label).",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static void print(const yk__cli *cli, yk_job *job, const train_result *r)
{
    if (!yk_ok(job) || !yk_is_main(job))
        return;
    if (yk__cli_on(cli, "json"))
        printf("{\"eval_loss\": %.9g, \"eval_accuracy\": %.9g, \"correct\": %llu, \"total\": %llu}\n", r->loss, r->accuracy,
               (unsigned long long)r->correct, (unsigned long long)r->total);
    else
        printf("loss %.4f  accuracy %.4f  (%llu of %llu)\n", r->loss, r->accuracy, (unsigned long long)r->correct,
               (unsigned long long)r->total);
}

static int run(const yk__cli *cli)
{
    bool bad = false;
    uint32_t batch = (uint32_t)yk__cli_int(cli, "per-device-eval-batch-size", 1, 1 << 20, &bad);
    yk_config config = {.quiet = yk__cli_on(cli, "json")};
    train_result r = {0};
    yk_job *job;
    yk_data *data;
    yk_model *m;
    if (!train_config(cli, &config) || bad)
        return YK_EXIT_USAGE;
    job = yk_open(&config);
    if (!job)
        return YK_EXIT_FAILED;
    data = train_data(cli, job, true, batch * yk_world(job));
    m = train_model(cli, job, data);
    if (yk_ok(job))
        r = train_evaluate(job, m, data);
    print(cli, job, &r);
    return yk_close(job);
}

int yk__cmd_eval(int argc, char **argv)
{
    return train_main(&command, argc, argv, run);
}
