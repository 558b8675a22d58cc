/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL plugin's options (YOKE_OPENCL_*). cl_plugin.c checks them at the plugin's start: an unknown name or value is an error. Other
 * files ask for values, in any thread.
 */
#include "backends/opencl/ocl.h"
#include "plugins/kit/kit_options.h"
#include "plugins/kit/plugin.h"

static bool value_family(const char *v)
{
    return !strcmp(v, "auto") || !strcmp(v, "cpu") || !strcmp(v, "gpu");
}

static const kit_option options[] = {
    {"BINARIES", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"CORES", kit_option_is_cores, KIT_ALLOWED_CORES},
    {"FAMILY", value_family, "auto, cpu or gpu"},
    {"PROBE", kit_option_is_helper, KIT_ALLOWED_HELPER},
    {"PROBE_MS", kit_option_is_ms, KIT_ALLOWED_MS},
};

const char *ocl_option(const char *key)
{
    return kit_option_value(ocl_host, OCL_WHO, key);
}

yk_status ocl_options_check(void)
{
    return kit_options_check(ocl_host, OCL_WHO, options, sizeof options / sizeof *options);
}
