/* SPDX-License-Identifier: Apache-2.0 */
/* The yoke program: finds the command and hands over. */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "tools/cli.h"

typedef struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
#define X(id, name, text) {name, text, yk__cmd_##id},
    YK_COMMAND_TABLE(X)
#undef X
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int help(void)
{
    printf("usage: yoke COMMAND [options]\n\nTrains one model across whatever hardware there is.\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-15s %s\n", commands[i].name, commands[i].summary);
    printf("\n`yoke COMMAND --help` tells more. Exit code: 0 done, 1 failed, 2 bad input or usage.\n");
    return YK_EXIT_OK;
}

static int man(void)
{
    printf(".TH YOKE 1\n.SH NAME\nyoke \\- train one model across whatever hardware there is\n.SH SYNOPSIS\n.B yoke\n"
           "\\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\nThe commands have manual pages of their own:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf(".TP\n.BR yoke\\-%s (1)\n%s\n", commands[i].name, commands[i].summary);
    printf(".SH EXIT STATUS\n0 done, 1 failed, 2 bad input or usage.\n");
    return YK_EXIT_OK;
}

static int unknown(const char *name)
{
    const char *words[N_COMMANDS], *near;
    for (size_t i = 0; i < N_COMMANDS; i++)
        words[i] = commands[i].name;
    near = yk__nearest(name, words, N_COMMANDS);
    fprintf(stderr, "yoke: unknown command \"%s\"%s%s%s (yoke --help lists all)\n", name, near ? ": did you mean " : "",
            near ? near : "", near ? "?" : "");
    return YK_EXIT_USAGE;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        help();
        return YK_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help();
    if (!strcmp(argv[1], "--man"))
        return man();
    if (!strcmp(argv[1], "--version")) {
        printf("yoke %s\n", PACKAGE_VERSION);
        return YK_EXIT_OK;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    return unknown(argv[1]);
}

int main(int argc, char **argv)
{
    char program[64] = "yoke";
    if (argc > 1 && argv[1][0] != '-')
        snprintf(program, sizeof program, "yoke %s", argv[1]);
    return yk__cli_close_output(program, run_command(argc, argv));
}
