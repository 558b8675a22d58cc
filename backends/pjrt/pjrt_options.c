/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PJRT plugin's options (YOKE_PJRT_*). pjrt_plugin.c checks them at the plugin's start: an unknown name or value is an error. Other
 * files ask for values, in any thread.
 */
#include "plugins/kit/kit_options.h"

#include <stdlib.h>

#include "backends/pjrt/pjrt.h"
#include "plugins/kit/plugin.h"

#define DEFAULT_MIB 1024

static bool option_is_mib(const char *value)
{
    char *end;
    const long mib = strtol(value, &end, 10);
    return end != value && !*end && mib >= 0 && mib <= 1 << 20;
}

static bool option_is_devices(const char *value)
{
    char *end;
    const long n = strtol(value, &end, 10);
    return end != value && !*end && n >= 1 && n <= PJ_DEVICES;
}

static const kit_option options[] = {
    {"CACHE_MIB", option_is_mib, "MiB, 0 to 1048576"},
    {"CLIENT_DEVICES", option_is_devices, "devices, 1 to 64"},
    {"CORES", kit_option_is_cores, KIT_ALLOWED_CORES},
    {"PROBE", kit_option_is_helper, KIT_ALLOWED_HELPER},
    {"PROBE_MS", kit_option_is_ms, KIT_ALLOWED_MS},
};

const char *pj_option(const char *key)
{
    return kit_option_value(pj_host, PJ_NAME, key);
}

uint64_t pj_cache_most(void)
{
    const char *mib = pj_option("CACHE_MIB");
    return (uint64_t)(mib ? atol(mib) : DEFAULT_MIB) << 20;
}

uint32_t pj_client_devices(void)
{
    const char *n = pj_option("CLIENT_DEVICES");
    return n ? (uint32_t)atol(n) : 1;
}

yk_status pj_options_check(void)
{
    return kit_options_check(pj_host, PJ_NAME, options, sizeof options / sizeof *options);
}
