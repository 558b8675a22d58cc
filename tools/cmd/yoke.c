/* SPDX-License-Identifier: Apache-2.0 */
/* The yoke program: finds the command and hands over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "core/base/limit.h"
#include "core/base/option.h"
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

static int help_print(void)
{
    printf("usage: yoke COMMAND [options]\n\nTrains one model across whatever hardware there is.\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-15s %s\n", commands[i].name, commands[i].summary);
    printf("\n`yoke COMMAND --help` lists its options. Exit code: 0 done, 1 failed, 2 bad input or usage.\n");
    return YK_EXIT_OK;
}

static void man_environment(void)
{
    printf(".SH ENVIRONMENT\nAn empty value is none. A setuid program takes no paths and no options of plugins from here.\n"
           ".B yoke info --env\nprints what is in force.\n");
    for (yk__option i = 0; i < YK__OPTION_N; i++) {
        const yk__option_row *row = yk__option_row_of(i);
        printf(".TP\n.B %s\n%s%s%s.%s%s%s\n", row->name, row->help, row->words ? ": " : "", row->words ? row->words : "",
               *row->preset ? " Default: " : "", row->preset, *row->preset ? "." : "");
    }
}

static int man_print(void)
{
    printf(".TH YOKE 1\n.SH NAME\nyoke \\- train one model across whatever hardware there is\n.SH SYNOPSIS\n.B yoke\n"
           "\\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\nThe commands have manual pages of their own:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf(".TP\n.BR yoke\\-%s (1)\n%s\n", commands[i].name, commands[i].summary);
    man_environment();
    printf(".SH EXIT STATUS\n0 done, 1 failed, 2 bad input or usage.\n");
    return YK_EXIT_OK;
}

static int command_unknown(const char *name)
{
    const char *words[N_COMMANDS], *near;
    for (size_t i = 0; i < N_COMMANDS; i++)
        words[i] = commands[i].name;
    near = yk__nearest_word(name, words, N_COMMANDS);
    fprintf(stderr, "yoke: unknown command \"%s\"%s%s%s (yoke --help lists all)\n", name, near ? ": did you mean " : "",
            near ? near : "", near ? "?" : "");
    return YK_EXIT_USAGE;
}

/* A variable that cannot be read ends every command but info, whose --env shows it. */
static bool environment_refused(void)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk__options_check(&err))
        return false;
    fprintf(stderr, "yoke: %s\n", err.text);
    return true;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        help_print();
        return YK_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help_print();
    if (!strcmp(argv[1], "--man"))
        return man_print();
    if (!strcmp(argv[1], "--version")) {
        printf("yoke %s\n", PACKAGE_VERSION);
        return YK_EXIT_OK;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run == yk__cmd_info || !environment_refused() ? commands[i].run(argc - 1, argv + 1) : YK_EXIT_USAGE;
    return command_unknown(argv[1]);
}

static char program[64] = "yoke";
static bool done;

/* No command calls exit: a driver did, perhaps with 0, and nobody should take that for success. */
static void check_done(void)
{
    if (done)
        return;
    fflush(stdout);
    fprintf(stderr, "%s: the process was ended by a call of exit, in a driver or another library, before the command was done\n", program);
    _exit(YK_EXIT_FAILED);
}

int main(int argc, char **argv)
{
    yk__limit_is_error();
    if (argc > 1 && argv[1][0] != '-')
        snprintf(program, sizeof program, "yoke %s", argv[1]);
    atexit(check_done);
    const int code = yk__cli_close_output(program, run_command(argc, argv));
    done = true;
    return code;
}
