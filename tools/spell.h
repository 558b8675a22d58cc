/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options' names in other programs: a command's rows (yk__cli_spelling) map each to one of our options and convert its value. Arguments
 * are respelled before any other code reads them, so that the command and its ranks see only our names. --help and the manual page print
 * the same rows.
 */
#ifndef YOKE_TOOLS_SPELL_H
#define YOKE_TOOLS_SPELL_H

#include "tools/cli.h"

/* argv in our names, with *argc (updated) arguments; valid until the process ends. Prints a row's line, if any, on standard error, on
 * rank 0 only. NULL after a message: a value does not map, or two names of one option contradict each other; and
 * after those about all that yk__cli_parse would refuse. */
char **yk__spell(const yk__cli_command *command, int *argc, char **argv);
/* Our option for a name, of n characters, in any program's spelling, and *value in our words; `value` NULL: a switch that is on. The name
 * itself without a row, or if the row says something or does not map. space: for the value. NULL if nothing is left to set. */
const char *yk__spell_option(const yk__cli_command *command, const char *name, size_t n, const char **value, char *space, size_t size);
/* Says what is wrong with these arguments, of a command that ends for another fault. */
void yk__spell_complain(const yk__cli_command *command, int argc, char **argv);

/* Maps for the rows; each returns the value for our option, in space or not; yk__spell_nothing: the option is left out; NULL: no map. */
extern const char yk__spell_nothing[];
const char *yk__spell_precision(const char *given, char *space, size_t size); /* bfloat16, torch.float32, no */
const char *yk__spell_mixed(const char *given, char *space, size_t size);     /* 16-mixed: fp16; another word as it is */
const char *yk__spell_half(const char *given, char *space, size_t size);      /* a switch for fp16 */
const char *yk__spell_device(const char *given, char *space, size_t size);    /* cuda:1; gpu: auto */
const char *yk__spell_cpu(const char *given, char *space, size_t size);       /* a switch for the CPU alone */
const char *yk__spell_data(const char *given, char *space, size_t size);      /* FILE.csv: csv:FILE.csv */
const char *yk__spell_percent(const char *given, char *space, size_t size);   /* 10: 0.1 */
const char *yk__spell_mebibytes(const char *given, char *space, size_t size); /* 25: 26214400 */
const char *yk__spell_classes(const char *given, char *space, size_t size);   /* 10: num_labels=10 */
const char *yk__spell_settings(const char *given, char *space, size_t size);  /* a JSON object: key=value,key=value */

#endif
