/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke predict: the class of each row of a file, by a saved model. yoke.c calls it by its table of commands, in the main
 * thread. It uses tools/train/train.c to start the ranks, and tools/eval/predict.c to write the lines.
 */
#include "tools/eval/predict.h"
#include "tools/config/apply.h"
#include "tools/train/refused.h"
#include "tools/train/spellings.h"
#include "tools/train/train.h"

static const yk__cli_option options[] = {
    TRAIN_MODEL_OPTIONS,
    CONFIG_FILE_OPTIONS,
    {"output", "FILE", NULL, "where the lines go (default: standard output)", NULL},
    {"max-eval-samples", "N", NULL, "the first N rows", NULL},
    DATA_REFUSED_OPTIONS,
};

static const yk__cli_spelling spellings[] = {TRAIN_SPELLINGS, USE_SPELLINGS, PREDICT_SPELLINGS};

static const yk__cli_command command = {
    .name = "predict",
    .usage = "--from DIR --data|--eval-data KIND:PATH [options]",
    .summary = "name the class of each row of a file",
    .text = "Prints a line for each row of the data that yoke eval would evaluate on, in their order, on any number of devices: the\n"
            "row (its line in a csv or jsonl file, else its number from 1), the label and its score (a softmax), between tabs. With\n"
            "--json each line is an object, which has the scores of all classes. For classifiers: of images, and of rows of text,\n"
            "which need no labels: csv and jsonl without that column, or lines:FILE, a text on each line, which FILE.txt is too. Of\n"
            "a regression (num_labels=1) a line is the row and the number; with --json {\"row\": 2, \"number\": 0.9}. A row whose text is\n"
            "empty has no line. FILE of --output keeps what it had until all lines are written.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof spellings[0],
};

static int predict_run(const yk__cli *cli)
{
    yk_config config = {.quiet = true, .inference = true};
    train_use use;
    int code;
    if (!train_use_open(cli, &config, &use, &code))
        return code;
    if (yk_ok(use.job))
        predict_write(use.job, use.model, use.data, yk__cli_text(cli, "output"), "--output ", yk__cli_on(cli, "json"));
    return yk_close(use.job);
}

int yk__cmd_predict(int argc, char **argv)
{
    return train_main(&command, argc, argv, train_use_check, predict_run);
}
