/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's options (YOKE_PJRT_*), checked at its start: an unknown name or value is an error. */
#include "plugins/kit/kit_options.h"

#include "backends/pjrt/pjrt.h"
#include "plugins/kit/plugin.h"

static const kit_option options[] = {
    {"CORES", kit_option_is_cores, KIT_ALLOWED_CORES},
    {"PROBE", kit_option_is_helper, KIT_ALLOWED_HELPER},
    {"PROBE_MS", kit_option_is_ms, KIT_ALLOWED_MS},
};

const char *pj_option(const char *key)
{
    return kit_option_value(pj_host, PJ_NAME, key);
}

yk_status pj_options_check(void)
{
    return kit_options_check(pj_host, PJ_NAME, options, sizeof options / sizeof *options);
}
