/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan plugin's table of functions, and its options (YOKE_VULKAN_*): an unknown name or value is an error. Devices are in vk_list.c,
 * buffers in vk_memory.c, programs in vk_program.c; the queue is the kit's. The host loads the table, and calls each function in the
 * threads that plugin.h allows.
 */
#include "backends/vulkan/vlk.h"

#include "plugins/kit/kit_options.h"
#include "plugins/kit/plugin.h"

static bool value_is_shape(const char *value)
{
    return !strcmp(value, "auto") || !strcmp(value, "groups");
}

static const kit_option options[] = {
    {"CORES", kit_option_is_cores, KIT_ALLOWED_CORES},
    {"LIMITS", vlk_limits_good, "phone, or a list of alloc=BYTES (1048576 or more), local=BYTES (16384), group=N (128)"},
    {"MMA", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"PROBE", kit_option_is_helper, KIT_ALLOWED_HELPER},
    {"PROBE_MS", kit_option_is_ms, KIT_ALLOWED_MS},
    {"PROFILE", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"SHAPE", value_is_shape, "auto or groups"},
    {"STAGING", kit_option_is_flag, KIT_ALLOWED_FLAG},
};

static yk_status plugin_init(const yk_host *host)
{
    if (!kit_host_fits(host))
        return YK_E_ABI;
    vlk_host = host;
    return kit_options_check(host, VLK_WHO, options, sizeof options / sizeof *options);
}

/* Keeps the loader and drivers loaded: their threads and exit handlers do not survive unloading. */
static void plugin_fini(void)
{
    if (vlk_host)
        vlk_devices_forget();
    vlk_host = NULL;
}

static const yk_plugin TABLE = {
    KIT_PLUGIN_HEAD(VLK_WHO, VLK_VERSION),
    .init = plugin_init,
    .fini = plugin_fini,
    .device_count = vlk_device_count,
    .device_caps = vlk_device_caps,
    .device_open = vlk_device_open,
    .device_close = vlk_device_close,
    .claims = vlk_device_claims,
    .buffer_new = vlk_buffer_new,
    .buffer_wrap = vlk_buffer_wrap,
    .buffer_free = vlk_buffer_free,
    .buffer_map = vlk_buffer_map,
    .program_new = vlk_program_new,
    .program_free = vlk_program_free,
    .queue_new = vlk_queue_new,
    KIT_QUEUE_TABLE,
    .graph_scratch = vlk_graph_scratch,
};

KIT_PLUGIN_EXPORT(TABLE)
