/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's table, and its options (YOKE_VULKAN_*): a name or value that means nothing is an error. */
#include "backends/vulkan/vlk.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugins/kit/plugin.h"

#ifndef YK_SANITIZER
#if defined(__SANITIZE_ADDRESS__)
#define YK_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define YK_SANITIZER "thread"
#else
#define YK_SANITIZER "none"
#endif
#endif
#define PREFIX "YOKE_VULKAN_"

extern char **environ;

/* ---- Options ---- */

static bool value_flag(const char *v)
{
    return !strcmp(v, "0") || !strcmp(v, "1");
}

static bool value_shape(const char *v)
{
    return !strcmp(v, "auto") || !strcmp(v, "groups");
}

static bool value_ms(const char *v)
{
    char *end;
    const long ms = strtol(v, &end, 10);
    return end != v && !*end && ms >= 1 && ms <= 3600000;
}

static const struct {
    const char *key;
    bool (*good)(const char *value);
    const char *allowed;
} options[] = {
    {"CORES", vlk_probe_cores, "a list of cores such as 0-3,6"},
    {"LIMITS", vlk_limits_good, "phone, or a list of alloc=BYTES (1048576 or more), local=BYTES (16384), group=N (128)"},
    {"PROBE", vlk_probe_helper, "none, or a program that can be run"},
    {"PROBE_MS", value_ms, "milliseconds, 1 to 3600000"},
    {"PROFILE", value_flag, "0 or 1"},
    {"SHAPE", value_shape, "auto or groups"},
    {"STAGING", value_flag, "0 or 1"},
};
#define N_OPTIONS (sizeof options / sizeof *options)

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
    for (char **e = environ; *e; e++)
        if (name_unknown(*e)) {
            vlk_host->fail(VLK_WHO, "%.100s: there is no such option; there are " PREFIX
                           "CORES, _LIMITS, _PROBE, _PROBE_MS, _PROFILE, _SHAPE and _STAGING", *e);
            return YK_E_ARG;
        }
    return YK_OK;
}

static yk_status options_check(void)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *v = vlk_option(options[i].key);
        if (v && !options[i].good(v)) {
            vlk_host->fail(VLK_WHO, PREFIX "%s=%.100s: expected %s", options[i].key, v, options[i].allowed);
            return YK_E_ARG;
        }
    }
    return names_check();
}

/* ---- The table ---- */

static yk_status plugin_init(const yk_host *host)
{
    if (host->size < offsetof(yk_host, cache_dir) + sizeof host->cache_dir)
        return YK_E_ABI; /* it lends less than what is called here */
    vlk_host = host;
    return options_check();
}

/* The loader and drivers stay loaded: their threads and exit handlers do not survive being unloaded. */
static void plugin_fini(void)
{
    if (vlk_host)
        vlk_devices_forget();
    vlk_host = NULL;
}

static const yk_plugin TABLE = {
    .size = sizeof(yk_plugin),
    .abi = YK_ABI,
    .minor = YK_ABI_MINOR,
    .n_op = YK_OP_COUNT,
    .n_dtype = YK_DTYPE_COUNT,
    .name = VLK_WHO,
    .version = VLK_VERSION,
    .sanitizer = YK_SANITIZER,
    .init = plugin_init,
    .fini = plugin_fini,
    .device_count = vlk_device_count,
    .device_caps = vlk_device_caps,
    .device_open = vlk_device_open,
    .device_close = vlk_device_close,
    .claims = vlk_device_claims,
    .buffer_new = vlk_buffer_new,
    .buffer_free = vlk_buffer_free,
    .buffer_map = vlk_buffer_map,
    .program_new = vlk_program_new,
    .program_free = vlk_program_free,
    .queue_new = vlk_queue_new,
    .queue_free = kit_queue_free,
    .queue_run = kit_queue_run,
    .queue_copy = kit_queue_copy,
    .queue_poll = kit_queue_poll,
    .queue_wait = kit_queue_wait,
    .graph_scratch = vlk_graph_scratch,
    .queue_abort = kit_queue_abort,
    .queue_span = kit_queue_span,
};

KIT_PLUGIN_EXPORT(TABLE)
