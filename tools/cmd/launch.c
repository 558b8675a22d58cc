/* SPDX-License-Identifier: Apache-2.0 */
/* yoke launch: one process per device, as the ranks of one job. */
#include "tools/cli.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/control/origin.h"
#include "core/device/device.h"
#include "core/launch/launch.h"

static const yk__cli_option options[] = {
    {"devices", "SPECS", NULL, "which devices: one rank each", "YOKE_DEVICES"},
    {"json", NULL, NULL, "print, when all has ended, one JSON line about the job on standard output", NULL},
};

static const yk__cli_command command = {
    .name = "launch",
    .usage = "[--devices SPECS] [--json] [--] PROGRAM [ARGUMENTS]",
    .summary = "run a program once per device, as the ranks of one job",
    .text =
        "SPECS select the devices, separated by spaces or commas: cpu (one rank on all cores), cpu:0-3 (one rank on "
        "these cores), cpu/2 (two ranks that share the cores), opencl:0, opencl:0@1 (its host threads on core 1), "
        "opencl:*, auto. A device that would slow the job down is excluded from it; a '!' behind its spec (opencl:0!) "
        "keeps it in. Each rank's process finds its device in YOKE_DEVICES, its number in YOKE_RANK and "
        "YOKE_LOCAL_RANK, and how many there are in YOKE_WORLD_SIZE; a program that uses Yoke reads them by itself.\n"
        "\n"
        "The ranks meet in shared memory that has no name and ends with them. The job's secret goes to them over the "
        "inherited descriptor YOKE_JOB_FD, never over a command line or the environment.\n"
        "\n"
        "When a rank is killed, stops, dies or ends with an error, the others are ended within two seconds and one "
        "line names the rank; one that lives but does nothing while others wait for it (a deadlock, a device that never "
        "finishes) is found after YOKE_STUCK_MS. SIGINT, SIGTERM and SIGHUP are passed on to the ranks; a second one kills them. "
        "Ctrl-Z stops the whole job. If the launcher itself is killed, the ranks end too.\n"
        "\n"
        "Environment: YOKE_LIVENESS_MS is how long a rank may give no sign of life (default 1300; 0 switches this "
        "off, as for a debugger that stops one rank); YOKE_STUCK_MS is how long a rank that others wait for may do nothing "
        "(default 600000; 0 switches this off, and so does YOKE_LIVENESS_MS=0 unless it is set): calls of the library, "
        "compiled programs, reads and writes, and what its device finishes count as something done, work of the program's "
        "own does not; YOKE_JOIN_MS is how long the ranks wait for each other at the "
        "start (default 300000).\n"
        "\n"
        "Other launchers work too: under mpirun, mpiexec, srun, torchrun, in a Kubernetes indexed job, or started by hand with "
        "YOKE_RANK, YOKE_SIZE, YOKE_ADDR, YOKE_PORT and YOKE_SECRET_FILE, the processes are the ranks of one job; docs/launching.md "
        "says what each needs, 'yoke info' how a process was started. A rank that lost the descriptor (behind a wrapper that "
        "closes what it inherits), and one of several processes whose variables do not suffice, end with an error instead of training "
        "alone. YOKE_LAUNCHER=none says that such a process is a job of its own.\n"
        "\n"
        "The exit code is 2 when the rank at fault ended with 2, and 128 plus the signal's number after an "
        "interruption.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .least = 1,
    .most = -1,
    .rest = true,
};

static void print_json(const yk__placement *place, uint32_t n, int code, const yk_error *err)
{
    char spec[sizeof place->plugin + sizeof place->cores + 16];
    printf("{\"ranks\": [");
    for (uint32_t r = 0; r < n; r++) {
        yk__placement_text(&place[r], spec, sizeof spec);
        printf("%s", r ? ", " : "");
        yk__json_text(spec);
    }
    printf("], \"exit_code\": %d, \"error\": ", code);
    if (err->status)
        yk__json_text(err->text);
    else
        printf("null");
    printf("}\n");
}

static void say_launch(const char *text)
{
    fprintf(stderr, "yoke launch: %s\n", text);
}

int yk__cmd_launch(int argc, char **argv)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement *place = NULL;
    uint32_t n = 0;
    yk__cli cli;
    int code = yk__cli_parse(&command, argc, argv, &cli);
    if (code >= 0)
        return code;
    if (yk__launch_check(&err))
        return yk__launch_speaks() ? yk__cli_usage(&command, "%s", err.text) : YK_EXIT_USAGE;
    if (yk__launched() && yk__launch_fd() < 0)
        return yk__cli_usage(&command, "this process is a rank of another launcher's job already (yoke info): start the program itself, "
                             "or set YOKE_LAUNCHER=none");
    if (yk__launch_select(yk__cli_text(&cli, "devices"), &place, &n, &err))
        return yk__cli_usage(&command, "%s", err.text);
    cli.positional[cli.n_positional] = NULL; /* the list lies in argv, behind the command's name */
    yk__launch(place, n, cli.positional, say_launch, &code, &err);
    if (yk__cli_on(&cli, "json"))
        print_json(place, n, code, &err);
    yk__free(place);
    return code;
}
