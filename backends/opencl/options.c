/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's options (YOKE_OPENCL_*), checked when it starts: a name or value that means nothing is an error. */
#define _GNU_SOURCE
#include "plugins/kit/cores.h"
#include "backends/opencl/ocl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PREFIX "YOKE_OPENCL_"

extern char **environ;

static bool value_family(const char *v)
{
    return !strcmp(v, "auto") || !strcmp(v, "cpu") || !strcmp(v, "gpu");
}

static bool value_flag(const char *v)
{
    return !strcmp(v, "0") || !strcmp(v, "1");
}

static bool value_ms(const char *v)
{
    char *end;
    const long ms = strtol(v, &end, 10);
    return end != v && !*end && ms >= 1 && ms <= 3600000;
}

static bool value_cores(const char *v)
{
    cpu_set_t set;
    return kit_cores_parse(v, &set) > 0;
}

static bool value_helper(const char *v)
{
    return !strcmp(v, "none") || access(v, X_OK) == 0;
}

static const struct {
    const char *key;
    bool (*good)(const char *value);
    const char *allowed;
} options[] = {
    {"BINARIES", value_flag, "0 or 1"},
    {"CORES", value_cores, "a list of cores such as 0-3,6"},
    {"FAMILY", value_family, "auto, cpu or gpu"},
    {"PROBE", value_helper, "none, or a program that can be run"},
    {"PROBE_MS", value_ms, "milliseconds, 1 to 3600000"},
};
#define N_OPTIONS (sizeof options / sizeof *options)

const char *ocl_option(const char *key)
{
    const char *v = ocl_host->option(OCL_WHO, key);
    return v && *v ? v : NULL;
}

/* A variable of the environment, "NAME=value", that only looks like an option. */
static bool name_unknown(const char *variable)
{
    const size_t n = strlen(PREFIX), end = strcspn(variable, "=");
    if (strncmp(variable, PREFIX, n))
        return false;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (strlen(options[i].key) == end - n && !strncmp(variable + n, options[i].key, end - n))
            return false;
    return true;
}

static yk_status names_check(void)
{
    char known[160] = "";
    for (size_t i = 0; i < N_OPTIONS; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s" PREFIX "%s", i ? ", " : "", options[i].key);
    for (char **e = environ; *e; e++)
        if (name_unknown(*e)) {
            ocl_host->fail(OCL_WHO, "%.100s: there is no such option; there are %s", *e, known);
            return YK_E_ARG;
        }
    return YK_OK;
}

yk_status ocl_options_check(void)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *v = ocl_option(options[i].key);
        if (v && !options[i].good(v)) {
            ocl_host->fail(OCL_WHO, PREFIX "%s=%.100s: expected %s", options[i].key, v, options[i].allowed);
            return YK_E_ARG;
        }
    }
    return names_check();
}
