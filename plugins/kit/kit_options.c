/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a plugin's options (YOKE_<PLUGIN>_<KEY>) when it starts. A wrong value is an error with the expectation, an unknown name one with
 * the list of known names.
 *
 * Each plugin calls kit_options_check at its start, in the thread that loads plugins. Values come from the host, which also knows those of
 * device specs. Names are looked for in the environment.
 */
#define _GNU_SOURCE
#include "plugins/kit/kit_options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/kit/kit_cores.h"
#include "plugins/kit/plugin.h"

#define MOST_MS 3600000
#define PREFIX 64
#define KNOWN 256

extern char **environ;

static void prefix_make(const char *plugin, char prefix[PREFIX])
{
    const int n = snprintf(prefix, PREFIX, "YOKE_%.50s_", plugin);
    for (int i = 0; i < n; i++)
        prefix[i] = (char)toupper((unsigned char)prefix[i]);
}

/* A variable of the environment, "NAME=value", that only looks like an option. */
static bool name_unknown(const char *variable, const char *prefix, const kit_option *option, size_t n_option)
{
    const size_t n = strlen(prefix), end = strcspn(variable, "=");
    if (strncmp(variable, prefix, n))
        return false;
    for (size_t i = 0; i < n_option; i++)
        if (strlen(option[i].key) == end - n && !strncmp(variable + n, option[i].key, end - n))
            return false;
    return true;
}

static yk_status names_check(const yk_host *host, const char *plugin, const char *prefix, const kit_option *option, size_t n_option)
{
    char known[KNOWN] = "";
    for (size_t i = 0; i < n_option; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s%s", i ? ", " : "", prefix, option[i].key);
    for (char **variable = environ; *variable; variable++)
        if (name_unknown(*variable, prefix, option, n_option)) {
            host->fail(plugin, "%.100s: there is no such option; there are %s", *variable, known);
            return YK_E_ARG;
        }
    return YK_OK;
}

yk_status kit_options_values_check(const yk_host *host, const char *plugin, const kit_option *option, size_t n_option)
{
    char prefix[PREFIX];
    prefix_make(plugin, prefix);
    for (size_t i = 0; i < n_option; i++) {
        const char *value = kit_option_value(host, plugin, option[i].key);
        if (value && !option[i].good(value)) {
            host->fail(plugin, "%s%s=%.100s: expected %s", prefix, option[i].key, value, option[i].allowed);
            return YK_E_ARG;
        }
    }
    return YK_OK;
}

yk_status kit_options_check(const yk_host *host, const char *plugin, const kit_option *option, size_t n_option)
{
    char prefix[PREFIX];
    prefix_make(plugin, prefix);
    yk_status s = kit_options_values_check(host, plugin, option, n_option);
    if (!s)
        s = names_check(host, plugin, prefix, option, n_option);
    return s;
}

bool kit_option_is_flag(const char *value)
{
    return !strcmp(value, "0") || !strcmp(value, "1");
}

bool kit_option_is_ms(const char *value)
{
    char *end;
    const long ms = strtol(value, &end, 10);
    return end != value && !*end && ms >= 1 && ms <= MOST_MS;
}

bool kit_option_is_cores(const char *value)
{
    cpu_set_t set;
    return kit_cores_parse(value, &set) > 0;
}

bool kit_option_is_helper(const char *value)
{
    return !strcmp(value, "none") || access(value, X_OK) == 0;
}
