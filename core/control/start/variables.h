/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environment variables that describe the start of a process. Some belong to other launchers, so the table of options has none of them.
 * Each call reads the environment again. Thread rule: any thread, while no thread changes the environment.
 */
#ifndef YOKE_CORE_CONTROL_START_VARIABLES_H
#define YOKE_CORE_CONTROL_START_VARIABLES_H

#include <stdbool.h>

/* The variable's text, or its number; NULL or false if it is unset or no number. */
const char *yk__variable_text(const char *name);
bool yk__variable_number(const char *name, unsigned long long *value);

/* Names of unset variables that should be set. */
typedef struct yk__missing {
    char names[160];
} yk__missing;
void yk__missing_add(yk__missing *missing, const char *name); /* no-op if it is set */

#endif
