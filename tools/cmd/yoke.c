/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main function of the yoke program: finds the command in the table of commands, and calls it with its arguments, in the main thread.
 * Unknown commands are an error with the nearest known one. The exit code is the command's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "core/base/limit.h"
#include "core/base/option.h"
#include "core/job/session/standing.h"
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
           ".B yoke env\nprints what is in force.\n");
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
        printf(".TP\n.BR yoke\\-%s (1)\n%s\n", yk__cli_page(commands[i].name), commands[i].summary);
    man_environment();
    printf(".SH EXIT STATUS\n0 done, 1 failed, 2 bad input or usage.\n");
    return YK_EXIT_OK;
}

/* Commands of other programs, and ours for the same work, or the reason why there is none. */
static const struct {
    const char *name, *ours;
} elsewhere[] = {
    {"--help-all", "yoke --help lists the commands, and yoke COMMAND --help its options"},
    {"version", "yoke --version prints it"},
    {"merge-weights", "not needed: a saved folder has its weights whole, in model.safetensors"},
    {"merge_weights", "not needed: a saved folder has its weights whole, in model.safetensors"},
    {"merge", "not needed: there are no adapters, and a saved folder has its weights whole"},
    {"generate", "there is no command that continues a text: a saved gpt2 folder opens in transformers"},
    {"chat", "there is no command that continues a text: a saved gpt2 folder opens in transformers"},
    {"serve", "there is no server: yoke predict classifies the rows of a file"},
    {"export", "not needed for transformers, which opens a saved folder; other formats are not written"},
    {"sft", "use yoke train --model gpt2, or --from DIR, with --data text:FILE"},
    {"pt", "use yoke train --model gpt2, or --from DIR, with --data text:FILE"},
    {"pretrain", "use yoke train --model NAME --data KIND:PATH"},
    {"finetune", "use yoke train --from DIR --data KIND:PATH"},
    {"fit", "use yoke train --model NAME --data KIND:PATH"},
    {"dpo", "there is no training by preferences: yoke train trains on labels and on running text"},
    {"grpo", "there is no training by rewards: yoke train trains on labels and on running text"},
    {"kto", "there is no training by preferences: yoke train trains on labels and on running text"},
    {"reward", "there is no training by preferences: yoke train trains on labels and on running text"},
    {"rloo", "there is no training by rewards: yoke train trains on labels and on running text"},
    {"evaluate", "use yoke eval"},
    {"validate", "use yoke eval"},
    {"inference", "use yoke predict"},
    {"preprocess", "use yoke tokenize"},
    {"run", "use yoke launch"},
    {"merge-lora", "not needed: there are no adapters, and a saved folder has its weights whole"},
    {"merge_lora", "not needed: there are no adapters, and a saved folder has its weights whole"},
    {"merge-sharded-fsdp-weights", "not needed: a saved folder has its weights whole, in model.safetensors"},
    {"to-fsdp2", "files for FSDP 1 and 2 are read as they are: yoke train --config-file FILE"},
    {"tpu-config", "there is no backend for TPUs: yoke info lists the devices that there are"},
    {"quantize", "weights are not quantized: --precision bf16 or fp8 computes with fewer bits"},
    {"cloud", "nothing is rented: yoke launch --hosts starts ranks on hosts that ssh reaches"},
    {"fetch", "nothing is downloaded: hf download NAME --local-dir DIR, then --from DIR"},
    {"download", "nothing is downloaded: hf download NAME --local-dir DIR, then --from DIR"},
    {"vllm-serve", "there is no server: yoke predict classifies the rows of a file"},
    {"api", "there is no server: yoke predict classifies the rows of a file"},
    {"webchat", "there is no command that continues a text: a saved gpt2 folder opens in transformers"},
    {"webui", "there is no page to click: --report-to tensorboard shows a run"},
    {"lm-eval", "use yoke eval"},
    {"lm_eval", "use yoke eval"},
    {"score", "use yoke eval"},
    {"estimate", "use yoke estimate-memory"},
};

static int command_unknown(const char *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (!strcmp(name, elsewhere[i].name)) {
            fprintf(stderr, "yoke: unknown command \"%s\": %s\n", name, elsewhere[i].ours);
            return YK_EXIT_USAGE;
        }
    const char *words[N_COMMANDS], *near;
    for (size_t i = 0; i < N_COMMANDS; i++)
        words[i] = commands[i].name;
    near = yk__nearest_word(name, words, N_COMMANDS);
    fprintf(stderr, "yoke: unknown command \"%s\"%s%s%s (yoke --help lists all)\n", name, near ? ": did you mean " : "",
            near ? near : "", near ? "?" : "");
    return YK_EXIT_USAGE;
}

static bool shows_environment(int (*run)(int argc, char **argv))
{
    return run == yk__cmd_info || run == yk__cmd_env;
}

/* A variable that cannot be read ends every command but info and env, which show it. */
static bool environment_refused(void)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk__options_check(&err))
        return false;
    fprintf(stderr, "yoke: %s\n", err.text);
    return true;
}

/* yoke help COMMAND prints the same as yoke COMMAND --help. */
static int command_help(int argc, char **argv)
{
    char option[] = "--help", *words[] = {argv[1], option, NULL};
    for (size_t i = 0; i < N_COMMANDS && argc > 1; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(2, words);
    return command_unknown(argv[1]);
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        help_print();
        return YK_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "help") && argc > 2)
        return command_help(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help_print();
    if (!strcmp(argv[1], "--man"))
        return man_print();
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "-v")) {
        printf("yoke %s\n", PACKAGE_VERSION);
        return YK_EXIT_OK;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return shows_environment(commands[i].run) || !environment_refused() ? commands[i].run(argc - 1, argv + 1) : YK_EXIT_USAGE;
    return command_unknown(argv[1]);
}

static char program[64] = "yoke";
static bool done;

/* No command calls exit: a driver did, perhaps with 0, which must not pass for success. */
static void check_done(void)
{
    if (done)
        return;
    fflush(stdout);
    fprintf(stderr, "%s: the process was ended by a call of exit, in a driver or another library, before the command was done\n", program);
    _exit(YK_EXIT_FAILED);
}

static void end_process1(int sig)
{
    _exit(128 + sig);
}

/* Process 1, as in a container without an init, gets no signal whose action is the default: Ctrl-C and `docker stop` would do nothing. */
static void take_signals_of_process1(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    const struct sigaction take = {.sa_handler = end_process1};
    struct sigaction now;
    for (size_t i = 0; i < sizeof ending / sizeof *ending && getpid() == 1; i++)
        if (!sigaction(ending[i], NULL, &now) && now.sa_handler == SIG_DFL)
            sigaction(ending[i], &take, NULL);
}

int main(int argc, char **argv)
{
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* a line is one write: ranks share the file, and one may be killed within a line */
    take_signals_of_process1();
    yk__limit_is_error();
    yk__standing_ours();
    if (argc > 1 && argv[1][0] != '-')
        snprintf(program, sizeof program, "yoke %s", argv[1]);
    atexit(check_done);
    const int code = yk__cli_close_output(program, run_command(argc, argv));
    done = true;
    return code;
}
