/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's options (YOKE_<PLUGIN>_<KEY>), checked when it starts: an unknown name or value is an error. */
#ifndef YOKE_PLUGINS_KIT_KIT_OPTIONS_H
#define YOKE_PLUGINS_KIT_KIT_OPTIONS_H

#include <stdbool.h>

#include <yoke/plugin.h>

typedef struct kit_option {
    const char *key;
    bool (*good)(const char *value);
    const char *allowed; /* for the message: "0 or 1" */
} kit_option;

/* YK_E_ARG, explained to the host, for a value that is not good or a variable of the environment that only looks like one. */
yk_status kit_options_check(const yk_host *host, const char *plugin, const kit_option *option, size_t n_option);
/* The values alone: for options beside which the plugin's author may have others. */
yk_status kit_options_values_check(const yk_host *host, const char *plugin, const kit_option *option, size_t n_option);

/* Checks that several plugins share, each with its message's list of allowed values. */
bool kit_option_is_flag(const char *value);
bool kit_option_is_ms(const char *value);
bool kit_option_is_cores(const char *value);
bool kit_option_is_helper(const char *value);
#define KIT_ALLOWED_FLAG "0 or 1"
#define KIT_ALLOWED_MS "milliseconds, 1 to 3600000"
#define KIT_ALLOWED_CORES "a list of cores such as 0-3,6"
#define KIT_ALLOWED_HELPER "none, or a program that can be run"

#endif
