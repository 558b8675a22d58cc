/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YOKE_* variables outside the table of option.h: plugins' own, variables of tests and scripts, and unknown ones. open.c warns of an
 * unknown name with the nearest known one, and `yoke env` (cmd_info.c) lists all. From one thread.
 */
#include "config.h"

#include "core/base/option_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/nearest.h"
#include "core/base/option.h"

/* Names of the project's own tests and scripts, which core does not read: full names, or prefixes that end in _. */
static const char *const outside[] = {"YOKE_TEST_", "YOKE_CTS_", "YOKE_FUZZ_", "YOKE_QUICKSTART_", "YOKE_SOURCE", "YOKE_BUILD"};

static bool name_of_plugin(const char *rest, const char *plugin, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rest[i] != toupper((unsigned char)plugin[i]))
            return false;
    return rest[n] == '_' || !rest[n]; /* the plugin's own name is its own too */
}

/* Further variables of a service link: YOKE_SERVICE_HOST, YOKE_PORT_80_TCP_ADDR, .. */
static bool name_of_service(const char *name)
{
    const char *port = getenv("YOKE_PORT");
    return port && yk__option_is_service_link("YOKE_PORT", port) &&
           (!strncmp(name, "YOKE_PORT", 9) || !strncmp(name, "YOKE_SERVICE_", 13));
}

bool yk__option_foreign(const char *name, const char *plugins)
{
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        const size_t n = strlen(outside[i]);
        if (!strncmp(name, outside[i], n) && (outside[i][n - 1] == '_' || !name[n]))
            return true;
    }
    if (name_of_service(name))
        return true;
    while (plugins && *(plugins += strspn(plugins, ", "))) {
        const size_t n = strcspn(plugins, ", ");
        if (name_of_plugin(name + strlen("YOKE_"), plugins, n))
            return true;
        plugins += n;
    }
    return false;
}

static bool name_known(const char *name)
{
    for (yk__option i = 0; i < YK__OPTION_N; i++)
        if (!strcmp(yk__option_row_of(i)->name, name))
            return true;
    return false;
}

uint32_t yk__options_unknown(const char *plugins, void (*one)(const char *name, const char *nearest))
{
    const char *known[YK__OPTION_N];
    char name[128];
    uint32_t n = 0, n_known = 0;
    for (yk__option i = 0; i < YK__OPTION_N; i++)
        if (!strncmp(yk__option_row_of(i)->name, "YOKE_", 5))
            known[n_known++] = yk__option_row_of(i)->name + strlen("YOKE_");
    for (char **variable = environ; variable && *variable; variable++) {
        if (strncmp(*variable, "YOKE_", 5))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*variable, "="), *variable);
        if (name_known(name) || yk__option_foreign(name, plugins))
            continue;
        const char *near = yk__nearest_word(name + strlen("YOKE_"), known, n_known);
        one(name, near ? near - strlen("YOKE_") : NULL);
        n++;
    }
    return n;
}

static void unknown_warn(const char *name, const char *nearest)
{
    yk__log(YK_LOG_WARN, "environment", "%s is not known%s%s%s; 'yoke env' lists all names", name,
            nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
}

void yk__options_warn(const char *plugins)
{
    static bool warned;
    if (!warned)
        yk__options_unknown(plugins, unknown_warn);
    warned = true;
}
