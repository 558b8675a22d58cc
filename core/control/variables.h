/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of the environment that say how a process was started: those of other launchers too, so they are in no table of options.
 * Read anew at each call. Thread rule: any thread, while nobody changes the environment.
 */
#ifndef YOKE_CORE_CONTROL_VARIABLES_H
#define YOKE_CORE_CONTROL_VARIABLES_H

#include <stdbool.h>

/* What the environment says; NULL or false: nothing, or no number. */
const char *yk__variable_text(const char *name);
bool yk__variable_number(const char *name, unsigned long long *value);

/* Names of variables that are not set and should be. */
typedef struct yk__missing {
    char names[160];
} yk__missing;
void yk__missing_add(yk__missing *missing, const char *name); /* nothing where it is set */

#endif
