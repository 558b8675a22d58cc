/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores the settings of a program behind yk_open: signal handlers, the environment, the floating-point mode, the cores of the calling
 * thread. Plugins and drivers may change them while a job opens.
 *
 * open.c keeps a copy before and compares it after, in the step thread; only a changed setting is set.
 */
#include "config.h"

#include "core/base/process/guest.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"

extern char **environ;

/* ---- Environment ---- */

static void variables_free(yk__guest *kept)
{
    for (size_t i = 0; i < kept->variables; i++)
        yk__free(kept->variable[i]);
    yk__free(kept->variable);
    kept->variable = NULL;
    kept->variables = 0;
}

static void variables_keep(yk__guest *kept)
{
    size_t n = 0;
    while (environ && environ[n])
        n++;
    kept->variables = 0;
    kept->variable = yk__calloc(n + 1, sizeof *kept->variable);
    for (size_t i = 0; kept->variable && i < n; i++) {
        const size_t bytes = strlen(environ[i]) + 1;
        char *copy = yk__malloc(bytes);
        if (!copy) {
            variables_free(kept);
            return;
        }
        memcpy(copy, environ[i], bytes);
        kept->variable[kept->variables++] = copy;
    }
}

static bool variable_known(const yk__guest *kept, const char *name, size_t length)
{
    for (size_t i = 0; i < kept->variables; i++)
        if (!strncmp(kept->variable[i], name, length) && kept->variable[i][length] == '=')
            return true;
    return false;
}

/* A variable of the environment that was not there before; false: there is none. */
static bool variable_drop(const yk__guest *kept)
{
    for (char **at = environ; at && *at; at++) {
        const size_t length = strcspn(*at, "=");
        char name[256];
        if (!(*at)[length] || length >= sizeof name || variable_known(kept, *at, length))
            continue;
        memcpy(name, *at, length);
        name[length] = 0;
        return !unsetenv(name);
    }
    return false;
}

static void variables_restore(const yk__guest *kept)
{
    while (variable_drop(kept))
        ;
    for (size_t i = 0; i < kept->variables; i++) {
        char *equals = strchr(kept->variable[i], '=');
        if (!equals)
            continue;
        *equals = 0;
        const char *now = getenv(kept->variable[i]);
        if (!now || strcmp(now, equals + 1))
            setenv(kept->variable[i], equals + 1, 1);
        *equals = '=';
    }
}

/* ---- All ---- */

/* The C library's own call, as masks of hosts with more than 1024 cores do not fit a cpu_set_t. */
static void affinity_keep(yk__guest *kept)
{
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof kept->affinity, kept->affinity);
    kept->affinity_bytes = bytes > 0 ? (size_t)bytes : 0;
}

static void affinity_restore(const yk__guest *kept)
{
    yk__guest now;
    affinity_keep(&now);
    if (kept->affinity_bytes && (now.affinity_bytes != kept->affinity_bytes || memcmp(now.affinity, kept->affinity, now.affinity_bytes)))
        syscall(SYS_sched_setaffinity, 0, kept->affinity_bytes, kept->affinity);
}

void yk__guest_keep(yk__guest *kept)
{
    yk__signals_keep(&kept->signals);
    affinity_keep(kept);
    fegetenv(&kept->mode);
    variables_keep(kept);
}

void yk__guest_restore(yk__guest *kept)
{
    if (kept->variable)
        variables_restore(kept);
    variables_free(kept);
    fesetenv(&kept->mode);
    affinity_restore(kept);
    yk__signals_restore(&kept->signals);
}
