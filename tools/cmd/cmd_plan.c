/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke plan: finds the options of yoke train that fit some devices and are fastest. yoke.c calls it by its table of commands,
 * in the main thread; tools/plan has the search. yoke plan fails if no candidate fits, and in a rank of a job.
 */
#include <stdlib.h>

#include "core/control/start/origin.h"
#include "tools/bench/sample.h"
#include "tools/config/apply.h"
#include "tools/config/config_shard.h"
#include "tools/plan/table.h"
#include "tools/train/spellings.h"
#include "tools/train/train_options.h"

static const yk__cli_option options[] = {
    TRAIN_MODEL_OPTIONS,
    TRAIN_RUN_OPTIONS,
    SHARD_OPTIONS,
    {"objective", "time|memory", "time", "the candidate of least time that fits, or of least memory", NULL},
    {"disk", "DIR", NULL, "a folder on a disk: --offload state=nvme:DIR where a candidate does not fit", NULL},
    {"measure-seconds", "S", "15", "seconds in which steps of the candidates run, on devices that are here; 0: none run", NULL},
    {"measure", NULL, NULL, "measure the devices again, though their times are in the cache folder", NULL},
    TRAIN_REFUSED_OPTIONS,
};

static const yk__cli_spelling spellings[] = {TRAIN_SPELLINGS, TRAIN_RUN_SPELLINGS};

static const yk__cli_command command = {
    .name = "plan",
    .usage = "--model NAME|--from DIR [--data KIND:PATH] [the options of yoke train]",
    .summary = "choose sharding, recomputation and micro batches by memory and predicted time",
    .text = "Candidates are the stages of --shard that a run accepts, each with and without --gradient-checkpointing, and with micro\n"
            "batches of the rows of --global-batch, their halves, quarters and eighths. The rows of a step stay the same. An option that\n"
            "is given is not varied. A row of the table is a candidate: rows of a micro batch over all ranks, micro batches, the\n"
            "predicted time of a step, the memory of the fullest rank, host memory that ranks share, and bytes that a rank sends in a\n"
            "step. The memory is yoke estimate-memory's, to the byte. Candidates that do not fit come last, with the bytes they need.\n"
            "If one does not fit, the same candidates with --offload state=host follow for devices with memory of their own; with\n"
            "--disk DIR, then those with --offload state=nvme:DIR. If none fits yet, those with activations=host follow, alone and\n"
            "beside state=host. If none fits then, the exit code is 1.\n"
            "The last line has the options of the first candidate and the given ones, for yoke train. A shell takes it as it stands.\n"
            "\n"
            "Times come from steps of the candidates, which run here for --measure-seconds, on random rows or those of --data. Steps of\n"
            "few rows scale the times of candidates that take longer. Which candidates come first, and the times without such steps,\n"
            "follow from small models on the devices, alone and together. The cache folder keeps these under the devices' names. A disk\n"
            "is measured in half a second, each time. With --device-file the devices are those of a file that yoke info --describe\n"
            "wrote, here or on another machine. \"count\" there makes several ranks of one device; memory is then planned for two ranks\n"
            "that exchange messages, with slices of the described ranks' size.\n"
            "\n"
            "yoke train --plan auto does the same before it starts, takes the first candidate, and logs the predicted time beside the\n"
            "measured one.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof spellings[0],
};

static int plan_run(const yk__cli *cli, char *program)
{
    static search s;
    static const char *const objectives[] = {"time", "memory"};
    bool bad = false;
    int code = YK_EXIT_USAGE;
    const int objective = yk__cli_word(cli, "objective", objectives, 2, &bad);
    if (!sample_as_train_right(cli) || bad)
        return YK_EXIT_USAGE;
    if (search_run(&s, cli, objective == 1, program, &code)) {
        if (yk__cli_on(cli, "json"))
            table_print_json(&s);
        else
            table_print(&s);
        code = s.n && s.list[0].fits ? YK_EXIT_OK : YK_EXIT_FAILED;
        if (code && search_hung(&s))
            yk__cli_usage(&command, "no candidate is left, as steps hung (see failed): look at the device's driver, or choose "
                                    "another device");
        else if (code)
            yk__cli_usage(&command, "no candidate fits: give more devices%s, or a smaller --global-batch",
                              yk__cli_typed(cli, "offload") || yk__cli_typed(cli, "disk") ? ""
                                                                                        : ", --disk DIR (the optimizer's state on a disk)");
    }
    search_free(&s);
    return code;
}

int yk__cmd_plan(int argc, char **argv)
{
    yk__cli cli;
    int code;
    argv = settings_apply(&(settings_job){&command, sample_as_train_right}, &argc, argv, &code);
    if (!argv)
        return code;
    argv = yk__spell(&command, &argc, argv);
    if (!argv)
        return YK_EXIT_USAGE;
    char **args = train_arguments(argc, argv);
    code = args ? yk__cli_parse(&command, argc, argv, &cli) : YK_EXIT_FAILED;
    if (code < 0 && yk__launched())
        code = yk__cli_usage(&command, "this process is a rank of a job, and a plan is made before ranks start: run yoke plan without "
                             "that launcher");
    if (code < 0)
        code = plan_run(&cli, args[0]);
    free(args);
    return code;
}
