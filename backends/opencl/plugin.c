/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's table: what the host calls. */
#include "backends/opencl/ocl.h"

#include <stddef.h>

#ifndef YK_SANITIZER
#if defined(__SANITIZE_ADDRESS__)
#define YK_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define YK_SANITIZER "thread"
#else
#define YK_SANITIZER "none"
#endif
#endif

static yk_status plugin_init(const yk_host *host)
{
    if (host->size < offsetof(yk_host, cache_dir) + sizeof host->cache_dir)
        return YK_E_ABI; /* it lends less than what is called here */
    ocl_host = host;
    return ocl_options_check();
}

/* The driver stays loaded: its threads and exit handlers do not survive being unloaded. */
static void plugin_fini(void)
{
    if (ocl_host)
        ocl_devices_forget();
    ocl_host = NULL;
}

static const yk_plugin TABLE = {
    .size = sizeof(yk_plugin),
    .abi = YK_ABI,
    .minor = YK_ABI_MINOR,
    .n_op = YK_OP_COUNT,
    .n_dtype = YK_DTYPE_COUNT,
    .name = OCL_WHO,
    .version = OCL_VERSION,
    .sanitizer = YK_SANITIZER,
    .init = plugin_init,
    .fini = plugin_fini,
    .device_count = ocl_device_count,
    .device_caps = ocl_device_caps,
    .device_open = ocl_device_open,
    .device_close = ocl_device_close,
    .claims = ocl_device_claims,
    .buffer_new = ocl_buffer_new,
    .buffer_wrap = ocl_buffer_wrap,
    .buffer_free = ocl_buffer_free,
    .buffer_map = ocl_buffer_map,
    .program_new = ocl_program_new,
    .program_free = ocl_program_free,
    .queue_new = ocl_queue_new,
    .queue_free = ocl_queue_free,
    .queue_run = ocl_queue_run,
    .queue_copy = ocl_queue_copy,
    .queue_poll = ocl_queue_poll,
    .queue_wait = ocl_queue_wait,
    .graph_scratch = ocl_graph_scratch,
    .queue_abort = ocl_queue_abort,
};

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

const yk_plugin *yk_plugin_query(uint32_t abi)
{
    return abi == YK_ABI ? &TABLE : NULL;
}
