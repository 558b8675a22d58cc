/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke test: checks that this machine trains right, by sanity checks, golden tables (--golden) or operator vectors (--vectors).
 * yoke.c calls it by its table of commands, in the main thread of each rank; tools/check has the checks. Exit code 1 if a check fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/control/start/origin.h"
#include "tools/check/golden/golden.h"
#include "tools/check/sanity.h"
#include "tools/train/train.h"
#include "tools/check/vectors.h"

static const yk__cli_option options[] = {
    {"golden", "DIR", NULL, "run every case of a folder of golden tables", NULL},
    {"vectors", "DIR", NULL, "run every case of a folder of operator vectors", NULL},
    {"only", "TEXT", NULL, "only the cases whose name holds this", NULL},
    {"devices", "SPECS", "cpu", "the devices to test, one rank each; ! behind one: never excluded", "YOKE_DEVICES"},
    {"json", NULL, NULL, "one JSON object per case and a last one with the counts", NULL},
    {"from|data|eval-data|model|test-file", YK_REFUSED, "VALUE", "yoke eval evaluates a model on data, this command tests the machine",
     NULL},
};

static const yk__cli_command command = {
    .name = "test",
    .usage = "[--golden DIR | --vectors DIR] [options]",
    .summary = "check that this machine computes right",
    .text = "Without a folder: trains a line on the given devices in every way (split, accumulated, idle ranks, 16-bit formats)\n"
            "and compares with float64; then a small network with all rows on one device in turn (look-ups, batch norm, attention,\n"
            "micro batches, fp32 and bf16), whose gradients are compared with the CPU plugin's, tensor by tensor. With --golden:\n"
            "training curves, optimizers, layers, schedules and loss scaling against tables. With --vectors: single operators.\n"
            "A case that needs an unsupported feature is named and counted separately.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static int test_finish(const yk__cli *cli, bool speak, unsigned passed, unsigned failed, unsigned unsupported)
{
    if (speak && yk__cli_on(cli, "json"))
        printf("{\"passed\": %u, \"failed\": %u, \"unsupported\": %u}\n", passed, failed, unsupported);
    else if (speak)
        printf("%u passed, %u failed, %u unsupported\n", passed, failed, unsupported);
    return failed ? YK_EXIT_FAILED : YK_EXIT_OK;
}

static bool folder_has(const char *dir, const char *name)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return !stat(path, &st);
}

/* Names a folder of the format whose subject is not supported. */
static void name_unbuilt(golden *g)
{
    if (folder_has(g->dir, "generate") && golden_wanted(g, "generate"))
        golden_report(g, GOLDEN_UNSUPPORTED, "generate", 0, 0, "decoding is not built");
}

static int run_golden(const yk__cli *cli)
{
    golden g = {.dir = yk__cli_text(cli, "golden"),
                .devices = yk__cli_text(cli, "devices"),
                .only = yk__cli_text(cli, "only"),
                .json = yk__cli_on(cli, "json")};
    yk_job *job;
    if (!folder_has(g.dir, "curves") && !folder_has(g.dir, "layers") && !folder_has(g.dir, "optim") &&
        !folder_has(g.dir, "schedules.json") && !folder_has(g.dir, "loss_scale.json") && !folder_has(g.dir, "loader"))
        return yk__cli_usage(&command, "--golden %s: none of curves/, optim/, layers/, loader/, schedules.json, loss_scale.json is there",
                             g.dir);
    job = golden_job(&g, (yk_config){0});
    if (!job || !yk_ok(job))
        return job ? yk_close(job) : YK_EXIT_FAILED;
    g.world = yk_world_size(job);
    g.speak = yk_is_main(job);
    yk_close(job);
    if (folder_has(g.dir, "curves"))
        golden_curves(&g);
    if (folder_has(g.dir, "loader"))
        golden_loader(&g);
    if (g.world > 1) /* the rest is about one rank */
        return test_finish(cli, g.speak, g.passed, g.failed, g.unsupported);
    if (folder_has(g.dir, "schedules.json") || folder_has(g.dir, "loss_scale.json"))
        golden_tables(&g);
    if (folder_has(g.dir, "optim"))
        golden_optim(&g);
    if (folder_has(g.dir, "layers"))
        golden_layers(&g);
    name_unbuilt(&g);
    return test_finish(cli, g.speak, g.passed, g.failed, g.unsupported);
}

static int run_vectors(const yk__cli *cli)
{
    vectors v = {.dir = yk__cli_text(cli, "vectors"),
                 .devices = yk__cli_text(cli, "devices"),
                 .only = yk__cli_text(cli, "only"),
                 .json = yk__cli_on(cli, "json")};
    int code = vectors_run(&v);
    return code ? code : test_finish(cli, true, v.passed, v.failed, v.unsupported);
}

static int run_sanity(const yk__cli *cli)
{
    sanity s = {.devices = yk__cli_text(cli, "devices")};
    sanity_run(&s);
    return test_finish(cli, s.speak, s.passed, s.failed, s.unsupported);
}

static bool test_check(const yk__cli *cli)
{
    bool bad = false;
    if (!yk__cli_text(cli, "golden") && !yk__cli_text(cli, "vectors"))
        yk__cli_refuse_idle(cli, "only", "without --golden or --vectors", &bad);
    if (yk__cli_text(cli, "golden"))
        yk__cli_refuse_idle(cli, "vectors", "beside --golden: one folder at a time", &bad);
    return !bad;
}

/* True if the devices of a launched rank can be opened. A process without a launcher opens them in the checks. *code: the exit code. */
static bool devices_open(const yk__cli *cli, int *code)
{
    *code = YK_EXIT_OK;
    if (yk__launched())
        *code = yk_close(yk_open(&(yk_config){.devices = yk__cli_text(cli, "devices"), .quiet = true}));
    return *code == YK_EXIT_OK;
}

static int test_run(const yk__cli *cli)
{
    int code;
    if (!devices_open(cli, &code))
        return code;
    return yk__cli_text(cli, "golden") ? run_golden(cli) : yk__cli_text(cli, "vectors") ? run_vectors(cli) : run_sanity(cli);
}

int yk__cmd_test(int argc, char **argv)
{
    return train_main(&command, argc, argv, test_check, test_run);
}
