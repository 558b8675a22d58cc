/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines. One table per command defines its options once. Parsing, --help, the man page text (--man), the names for completion
 * (--options) and the nearest name in the error for an unknown option all come from it.
 *
 * A command is `int yk__cmd_NAME(int argc, char **argv)` with argv[0] the command's name. It returns the exit code: 0 done, 1 failed, 2
 * bad input or usage, and the codes in `exits`.
 */
#ifndef YOKE_TOOLS_CLI_H
#define YOKE_TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/nearest.h"

enum { YK_EXIT_OK = 0, YK_EXIT_FAILED = 1, YK_EXIT_USAGE = 2, YK_EXIT_AGAIN = 75 /* EX_TEMPFAIL: start it again */ };

enum { YK_CLI_OPTIONS = 224 }; /* most of a command */

typedef struct yk__cli_option {
    const char *name;     /* without the dashes, then its other names: "eval-strategy|evaluation-strategy" */
    const char *arg;      /* name of the value in the help ("DIR"); NULL for a switch; YK_REFUSED for a known option without support */
    const char *preset;   /* default value; NULL for none. For a refused option: the name of its value, "NAME VALUE" of two; or NULL */
    const char *help;     /* one sentence without a full stop; for a refused option the reason and the replacement */
    const char *env;      /* environment variable with the default; NULL for none. For a refused option: values that ask for nothing, as
                           * its program's own default, a list of core/base/word.h; or NULL */
} yk__cli_option;

/* A value of another program in ours: in space or elsewhere (tools/spell.h). */
typedef const char *(*yk__cli_map)(const char *given, char *space, size_t size);

/* An option's name in other programs. */
typedef struct yk__cli_spelling {
    const char *name;     /* "lr"; several as "epochs|num-epochs"; one letter has one dash */
    const char *arg;      /* name of its value; NULL for a switch */
    const char *ours;     /* our option for it; NULL if it changes nothing here */
    yk__cli_map map;      /* NULL if the value is the same */
    const char *expected; /* values that map accepts, for the error; of a switch of which nothing is ours: it is an error if turned off */
    const char *why;      /* printed on use: the difference, or the reason why it changes nothing; NULL for no line */
} yk__cli_spelling;

typedef struct yk__cli_command {
    const char *name;     /* "train" */
    const char *usage;    /* text after "yoke train": "--model NAME --data KIND:PATH [options]" */
    const char *summary;  /* one line */
    const char *text;     /* paragraphs for --help and the man page, may be NULL */
    const char *exits;    /* further exit codes, as "75 WHEN"; NULL for none */
    const yk__cli_option *options;
    size_t n_options;     /* at most YK_CLI_OPTIONS */
    const yk__cli_spelling *spellings;
    size_t n_spellings;
    int least, most;      /* number of positional arguments; most -1: any */
    bool own_program;     /* a separate program, "yoke-NAME" */
    bool rest;            /* the first positional argument ends the options (launch, trace); names may have one dash, as mpirun's */
} yk__cli_command;

typedef struct yk__cli {
    const yk__cli_command *command;
    const char *value[YK_CLI_OPTIONS]; /* by option number; NULL: not given and no preset. Switches: "" when on */
    bool given[YK_CLI_OPTIONS];        /* on the command line or by the environment */
    bool typed[YK_CLI_OPTIONS];        /* on the command line */
    bool wrong;                        /* something on the command line was complained of, and reading went on to name the rest */
    char **positional;     /* points into argv; ends with NULL, so that the program of a command with `rest` can be run by it */
    int n_positional;
} yk__cli;

extern const char yk__cli_refused[];
#define YK_REFUSED yk__cli_refused /* known from other programs: the error tells the reason. Turned off, it is accepted */

/* -1: continue. Otherwise the exit code to return at once: 0 after --help, --man or --options, 2 after a message on standard error that
 * names every unknown, refused or malformed argument.
 * Options: --name value, --name=value, -h; "--" ends them; names with - or _. A switch may be given as --no-NAME to turn it off again, as
 * --NAME=true|false, and, in commands without other arguments, as --NAME True|False. */
int yk__cli_parse(const yk__cli_command *command, int argc, char **argv, yk__cli *cli);

/* Index of the option with that name; -1 if none. Names have - or _. */
int yk__cli_find(const yk__cli_command *command, const char *name, size_t n);
/* True if `name`, of n characters, is in a list with | between names. */
bool yk__cli_is_named(const char *list, const char *name, size_t n);
bool yk__cli_takes_value(const yk__cli_option *option);
/* Arguments that are its value: 0 of a switch; two names in the help ("NAME VALUE") are two. */
int yk__cli_values(const yk__cli_option *option);
bool yk__cli_is_refused(const yk__cli_option *option);
/* ' ', or '-' of a program of its own. */
char yk__cli_separator(const yk__cli_command *command);
/* unknown_option.c: explains an argument with dashes that is none of the command's options. True if the meant option takes a value. */
bool yk__cli_refuse(const yk__cli_command *command, const char *arg);
/* True if the argument after an option that is not accepted is its value: no option, and no program that the command starts. */
/* True for "--NAME" of an option or spelling of the command, which is no value of the option before it. */
bool yk__cli_is_option(const yk__cli_command *command, const char *word);
bool yk__cli_is_value(const yk__cli_command *command, bool valued, const char *next);
/* Name of a command's manual page behind "yoke-". */
const char *yk__cli_page(const char *command);
/* 1 or 0 for the words that Python programs accept as true and false; else -1. Takes NULL. */
int yk__cli_truth(const char *s);

/* Values by name (a name that is not in the table is a fault of the program: returns NULL / 0). */
const char *yk__cli_text(const yk__cli *cli, const char *name);
bool yk__cli_on(const yk__cli *cli, const char *name);
bool yk__cli_given(const yk__cli *cli, const char *name);
bool yk__cli_typed(const yk__cli *cli, const char *name);
/* Whole-string numbers in a range; on a bad one prints "yoke train: --max-steps: ..." and sets *bad (never clears it). */
int64_t yk__cli_int(const yk__cli *cli, const char *name, int64_t least, int64_t most, bool *bad);
double yk__cli_real(const yk__cli *cli, const char *name, double least, double most, bool *bad);
/* One of a list of words ("fp32", "bf16") in any case; the index; -1 and *bad with the nearest word in the message. */
int yk__cli_word(const yk__cli *cli, const char *name, const char *const *words, size_t n, bool *bad);
/* The same of a list of core/base/word.h, of at most 16 words with their further spellings. */
int yk__cli_choice(const yk__cli *cli, const char *name, const char *list, bool *bad);

/* True if this value of a refused option asks for nothing: empty, false, none, or its program's own default. */
bool yk__cli_asks_nothing(const yk__cli_option *o, const char *given);
/* True if two values of this option are one: the same text, or the same number of an option that takes a number (016 and 16). */
bool yk__cli_same_value(const yk__cli_command *command, const char *name, const char *a, const char *b);
/* If the option was typed: prints "--NAME has no effect WHY" on standard error, and sets *bad. A switch that is typed as it is without
 * being typed (--group-by-length false) asks for nothing. */
void yk__cli_refuse_idle(const yk__cli *cli, const char *name, const char *why, bool *bad);

/* An option that a file gave: a message that says its name (without dashes) says `from`, "FILE, line 3: KEY", too. */
void yk__cli_note_file(const char *name, const char *from);
/* True if a text has "--NAME" as a word. */
bool yk__cli_occurs(const char *text, const char *name);
/* Messages go to `ear`, without the command's name, until a call with NULL: then to standard error again. advice: options in the text are
 * advice, and no cause. */
typedef void (*yk__cli_ear)(void *context, const char *message, bool advice);
void yk__cli_divert(yk__cli_ear ear, void *context);
/* "yoke train: TEXT" on standard error; returns YK_EXIT_USAGE. */
int yk__cli_usage(const yk__cli_command *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Flushes and closes standard output at the very end of a program. Returns `code`; or 1, after a line in the name of `program`, if the
 * output is incomplete and the code was 0. */
int yk__cli_close_output(const char *program, int code);
/* Closes a written file; NULL, or the reason why the file is incomplete. Takes NULL. */
const char *yk__cli_close_file(FILE *f);

/* JSON strings on standard output, escaped, with the quotes. */
void yk__json_text(const char *s);
void yk__json_write(FILE *f, const char *s); /* the same into a file */

/* The commands. */
#define YK_COMMAND_TABLE(X)                                                                                            \
    X(info, "info", "devices, plugins and libraries on this machine, and what was chosen and why")                     \
    X(env, "env", "facts for a fault report: versions, devices, plugins and every setting in force")              \
    X(train, "train", "train a model")                                                                                 \
    X(eval, "eval", "evaluate a model")                                                                                \
    X(predict, "predict", "name the class of each row of a file")                                                      \
    X(launch, "launch", "run a program once per device, as the ranks of one job")                                      \
    X(config, "config", "write or show the file of settings")                                                          \
    X(trace, "trace", "run a program and write a timeline of some of its steps")                                       \
    X(estimate, "estimate-memory", "tell beforehand how much memory a training step takes")                                 \
    X(plan, "plan", "choose sharding, recomputation and micro batches by memory and predicted time")                        \
    X(bench, "bench", "measure steps, peaks, mixed efficiency and overheads")                                          \
    X(test, "test", "check that this machine computes right")                                                          \
    X(plugin, "plugin", "list the plugins")                                                                            \
    X(inspect, "inspect", "show the contents of a data, model or token file")                                                \
    X(tokenize, "tokenize", "turn text into token ids")
#define YK_COMMAND_DECLARE(id, name, text) int yk__cmd_##id(int argc, char **argv);
YK_COMMAND_TABLE(YK_COMMAND_DECLARE)
#undef YK_COMMAND_DECLARE

#endif
