/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_mixed.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ROUNDS = 99, MOST_ARGS = 64 };

static const char *const passed_on[] = {"model", "model-config", "global-batch", "precision", "optim", "iterations", "seed"};

/* argv for one `yoke bench step` run. */
static void step_arguments(const yk__cli *cli, char *program, char *devices, char **argv)
{
    int n = 0;
    argv[n++] = program;
    argv[n++] = (char *)(uintptr_t) "bench";
    argv[n++] = (char *)(uintptr_t) "step";
    argv[n++] = (char *)(uintptr_t) "--json";
    argv[n++] = (char *)(uintptr_t) "--devices";
    argv[n++] = devices;
    if (yk__cli_on(cli, "allow-substitute"))
        argv[n++] = (char *)(uintptr_t) "--allow-substitute";
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        static char names[sizeof passed_on / sizeof passed_on[0]][40];
        if (!yk__cli_text(cli, passed_on[i]))
            continue;
        snprintf(names[i], sizeof names[i], "--%s", passed_on[i]);
        argv[n++] = names[i];
        argv[n++] = (char *)(uintptr_t)yk__cli_text(cli, passed_on[i]);
    }
    argv[n] = NULL;
}

/* Runs argv and reads what it prints; -1 when it fails. */
static int run(char **argv, char *out, size_t size)
{
    int pipes[2], status;
    size_t used = 0;
    ssize_t n;
    pid_t pid;
    if (pipe(pipes))
        return -1;
    pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(pipes[1]);
    while (pid > 0 && used < size - 1 && (n = read(pipes[0], out + used, size - 1 - used)) > 0)
        used += (size_t)n;
    close(pipes[0]);
    out[used] = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
        return -1;
    return 0;
}

/* Samples per second of one run on these devices; negative when it fails. */
static double throughput(const yk__cli *cli, char *program, char *devices)
{
    char *argv[MOST_ARGS], out[8192];
    json_t *o;
    double v = -1;
    step_arguments(cli, program, devices, argv);
    if (run(argv, out, sizeof out))
        return -1;
    o = json_loads(out, 0, NULL);
    if (o && json_is_number(json_object_get(o, "samples_per_s")))
        v = json_number_value(json_object_get(o, "samples_per_s"));
    json_decref(o);
    return v;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const yk__cli *cli, char word[2][128], double v[3][MOST_ROUNDS], int rounds)
{
    double median[3], eta[MOST_ROUNDS];
    for (int r = 0; r < rounds; r++)
        eta[r] = v[2][r] / (v[0][r] + v[1][r]);
    for (int k = 0; k < 3; k++) {
        qsort(v[k], (size_t)rounds, sizeof v[k][0], by_size);
        median[k] = v[k][rounds / 2];
    }
    qsort(eta, (size_t)rounds, sizeof eta[0], by_size);
    if (yk__cli_on(cli, "json"))
        printf("{\"alone\": [%.6g, %.6g], \"together\": %.6g, \"eta\": %.4f, \"eta_of_medians\": %.4f}\n", median[0], median[1],
               median[2], eta[rounds / 2], median[2] / (median[0] + median[1]));
    else
        printf("%-16s %10.1f samples/s\n%-16s %10.1f samples/s\n%-16s %10.1f samples/s\nefficiency       %10.3f\n", word[0], median[0],
               word[1], median[1], "together", median[2], eta[rounds / 2]);
}

int bench_mixed(const yk__cli *cli, char *const *args)
{
    static double v[3][MOST_ROUNDS];
    const char *words = yk__cli_text(cli, "devices");
    bool bad = false;
    const int rounds = (int)yk__cli_int(cli, "rounds", 1, MOST_ROUNDS, &bad);
    char word[2][128], both[257];
    if (bad)
        return YK_EXIT_USAGE;
    if (!words || sscanf(words, "%127s %127s", word[0], word[1]) != 2)
        return yk__cli_usage(cli->command, "mixed wants two devices, as in --devices \"cpu:0 opencl:0@1\"");
    snprintf(both, sizeof both, "%s %s", word[0], word[1]);
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 3; k++) {
            v[k][r] = throughput(cli, args[0], k < 2 ? word[k] : both);
            if (v[k][r] <= 0)
                return fprintf(stderr, "yoke bench: the run on %s failed\n", k < 2 ? word[k] : both), YK_EXIT_FAILED;
        }
    print(cli, word, v, rounds);
    return YK_EXIT_OK;
}
