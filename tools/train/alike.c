/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the options of a job's ranks (alike.h). train, eval, predict, bench and estimate-memory open their jobs by it, in the main
 * thread of every rank. Ranks gather a hash of each option; only if hashes differ do they gather the values of the first such option.
 */
#include "tools/train/alike.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/number.h"

/* Options in which ranks may differ: a rank's own device and memory, files that rank 0 alone writes, files of settings, whose contents have
 * become options, and values that the core compares by their meaning (16M is 16777216). */
static const char own[] = "devices|memory-limit|allow-substitute|output-dir|log|logging-dir|run-name|output|json|config-file|"
                          "deepspeed|fsdp-config|parallelism-config|accelerator-config|device-file|dry-run|plan|measure-seconds|threads|"
                          "bucket-bytes|shares|offload";
/* Paths, which may differ between hosts: ranks compare whether one was given, and later what the files hold. */
static const char paths[] = "data|eval-data|eval-rows|from|tokenizer|resume-from-checkpoint|save-init";

enum { TEXT = 256, SHOWN = 200, ROWS = YK_CLI_OPTIONS + 1 }; /* a row for each option, behind the command's */

/* The option's value as people say it; numbers have one text each, as 1e-4 is 0.0001. space: for a number. */
static const char *value_text(const yk__cli *cli, size_t i, yk__number *space)
{
    const char *value = cli->value[i];
    char *end = NULL;
    if (!yk__cli_takes_value(&cli->command->options[i]))
        return value ? "on" : "off";
    const double number = value && *value ? yk__number_read(value, &end) : 0;
    if (!end || end == value || *end)
        return value ? value : "none";
    *space = yk__number_text(number, 17);
    errno = 0;
    const unsigned long long whole = strtoull(value, &end, 10);
    if (!errno && !*end && whole >> 53 && number > 0) /* a double has not all of its bits */
        snprintf(space->text, sizeof space->text, "%llu", whole);
    return space->text;
}

static uint64_t text_hash(const char *text)
{
    return yk__hash_bytes(YK_HASH_SEED, text, strlen(text));
}

static uint64_t value_hash(const yk__cli *cli, size_t i)
{
    const char *names = cli->command->options[i].name;
    const size_t n = strcspn(names, "|");
    yk__number space;
    if (yk__cli_is_refused(&cli->command->options[i]) || yk__cli_is_named(own, names, n))
        return 0;
    return yk__cli_is_named(paths, names, n) ? cli->value[i] != NULL : text_hash(value_text(cli, i, &space));
}

/* The first row that differs from rank 0's, with the first such rank; ROWS if none. */
static size_t first_unlike(const uint64_t *all, uint32_t world, uint32_t *rank)
{
    for (size_t i = 0; i < ROWS; i++)
        for (uint32_t r = 1; r < world; r++)
            if (all[r * (size_t)ROWS + i] != all[i]) {
                *rank = r;
                return i;
            }
    return ROWS;
}

/* Names the row and two ranks' values. Every rank calls it with the same arguments. */
static void fail_unlike(const yk__cli *cli, yk_job *job, size_t row, uint32_t rank)
{
    const char *name = row ? cli->command->options[row - 1].name : "the command";
    char text[TEXT], message[3 * TEXT], *all = calloc(yk_world_size(job), TEXT);
    yk__number space;
    if (!all) {
        yk_fail(job, YK_E_MEM, "out of memory for the ranks' options, which differ");
        return;
    }
    memset(text, 0, TEXT);
    snprintf(text, TEXT, "%s", row ? value_text(cli, row - 1, &space) : cli->command->name);
    yk_gather(job, text, TEXT, all);
    const char *form = strncmp(all, all + rank * (size_t)TEXT, SHOWN)
                           ? "%s%.*s: expected %.*s, as on rank 0, got %.*s on rank %u: give it the same value on all ranks"
                           : "%s%.*s: expected %.*s.., as on rank 0, got %.*s.. on rank %u, which differs behind that: give it the same "
                             "value on all ranks";
    snprintf(message, sizeof message, form, row ? "--" : "", (int)strcspn(name, "|"), name, SHOWN, all, SHOWN, all + rank * (size_t)TEXT,
             rank);
    yk_fail(job, YK_E_ARG, message);
    free(all);
}

static void compare_options(const yk__cli *cli, yk_job *job)
{
    const uint32_t world = yk_world_size(job);
    uint64_t row[ROWS] = {text_hash(cli->command->name)}, *all = calloc(world, sizeof row);
    uint32_t rank = 0;
    if (!all) {
        yk_fail(job, YK_E_MEM, "out of memory for the ranks' options");
        return;
    }
    for (size_t i = 0; i < cli->command->n_options; i++)
        row[i + 1] = value_hash(cli, i);
    yk_gather(job, row, sizeof row, all);
    const size_t unlike = yk_ok(job) ? first_unlike(all, world, &rank) : ROWS;
    if (unlike < ROWS)
        fail_unlike(cli, job, unlike, rank);
    free(all);
}

yk_job *train_open(const yk__cli *cli, const yk_config *config)
{
    yk_job *job = yk_open(config);
    if (yk_ok(job) && yk_world_size(job) > 1)
        compare_options(cli, job);
    return job;
}
