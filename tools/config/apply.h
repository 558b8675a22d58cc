/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings files on a command line: --config-file FILE or YOKE_CONFIG_FILE, else the file of `yoke config`; and Trainer's --deepspeed,
 * --fsdp, --fsdp-config, --sharded-ddp, --parallelism-config and --accelerator-config. They become options of the command, before its
 * other arguments. A typed option overrides a file's, and a line reports it.
 */
#ifndef YOKE_TOOLS_CONFIG_APPLY_H
#define YOKE_TOOLS_CONFIG_APPLY_H

#include "tools/config/config_settings.h"

/* For the table of a command that reads them. */
#define CONFIG_FILE_OPTIONS                                                                                                          \
    {"config-file|default-config-file", "FILE", NULL,                                                                                \
     "settings in YAML (Yoke's, Accelerate's) or JSON (DeepSpeed's); none: no file", "YOKE_CONFIG_FILE"},                            \
        {"dry-run", NULL, NULL, "print the fate of each key of --config-file and similar files, and compute nothing", NULL}

/* A command that takes settings, and its check of all its options; false after messages. */
typedef struct settings_job {
    const yk__cli_command *command;
    bool (*check)(const yk__cli *cli); /* NULL if it has none */
} settings_job;

/* argv with the files' options, of *argc (updated) arguments; valid until the process ends. NULL with the exit code in *code, after
 * messages, or after the fates of all keys for --dry-run of a command other than `yoke launch`. */
char **settings_apply(const settings_job *job, int *argc, char **argv, int *code);
/* Number i of the files of settings that settings_apply read, typed or not; NULL after the last. */
const char *settings_file(size_t i);
/* "--NAME=VALUE"; yk__free() it. NULL without memory. */
char *settings_word(const settings_option *o);
/* The command's verdict on keys whose options are among these arguments: it becomes the fate of each key. What the command refuses for good
 * is a message, and so is a fault of words that no file has. True if the command has checked the words. */
bool settings_decide(settings *s, const settings_job *job, int argc, char *const *argv);
/* The same of a file's options alone. */
void settings_decide_file(settings *s, const settings_job *job);
/* The fate of the rows of a step, if only the number of ranks tells them and it is unknown. */
void settings_decide_rows(settings *s);

/* Prints each key with its fate, then the options that it makes; as one JSON object. */
void settings_show(const settings *s, FILE *f);
void settings_show_json(const settings *s, FILE *f);
/* The keys of a format, as a table of Markdown; false: no such format. */
bool settings_print_keys(const char *format, FILE *f);
/* Each message in a line of the command's. */
void settings_complain(const settings *s, const yk__cli_command *command);
/* The file of `yoke config` and of the commands: $XDG_CONFIG_HOME or ~/.config, yoke/config.yaml. False if there is no such folder. */
bool settings_default_path(char *path, size_t size);

#endif
