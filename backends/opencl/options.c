/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's options (YOKE_OPENCL_*), checked when it starts: a name or value that means nothing is an error. */
#define _GNU_SOURCE
#include "plugins/kit/cores.h"
#include "backends/opencl/ocl.h"
#include "plugins/kit/options.h"

#include <stdlib.h>
#include <unistd.h>

static bool value_family(const char *v)
{
    return !strcmp(v, "auto") || !strcmp(v, "cpu") || !strcmp(v, "gpu");
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

static const kit_option options[] = {
    {"BINARIES", kit_option_is_flag, "0 or 1"},
    {"CORES", value_cores, "a list of cores such as 0-3,6"},
    {"FAMILY", value_family, "auto, cpu or gpu"},
    {"PROBE", value_helper, "none, or a program that can be run"},
    {"PROBE_MS", value_ms, "milliseconds, 1 to 3600000"},
};

const char *ocl_option(const char *key)
{
    const char *v = ocl_host->option(OCL_WHO, key);
    return v && *v ? v : NULL;
}

yk_status ocl_options_check(void)
{
    return kit_options_check(ocl_host, OCL_WHO, options, sizeof options / sizeof *options);
}
