/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's table: what the host calls. */
#include "backends/cuda/internal.h"

#include <stddef.h>
#include <unistd.h>

#include "plugins/kit/options.h"

#define CUDA_VERSION_TEXT "0.1.0"
#ifndef YK_SANITIZER
#if defined(__SANITIZE_ADDRESS__)
#define YK_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define YK_SANITIZER "thread"
#else
#define YK_SANITIZER "none"
#endif
#endif

static bool value_cores(const char *value)
{
    return *value != 0; /* of every rank; no thread of this plugin's computes */
}

static bool value_file(const char *value)
{
    return access(value, R_OK) == 0;
}

static const kit_option options[] = {
    {"CORES", value_cores, "a list of cores such as 0-3,6"},
    {"DRIVER", value_file, "a file that can be read: a library to be used as libcuda.so.1"},
    {"GRAPHS", kit_option_is_flag, "0 or 1"},
    {"NVRTC", value_file, "a file that can be read: a library to be used as libnvrtc.so"},
};

static yk_status plugin_init(const yk_host *host)
{
    if (host->size < offsetof(yk_host, cache_dir) + sizeof host->cache_dir)
        return YK_E_ABI; /* it lends less than what is called here */
    cuda_host = host;
    return kit_options_check(host, CUDA_WHO, options, sizeof options / sizeof *options);
}

/* The libraries stay loaded: their threads and exit handlers do not survive being unloaded. */
static void plugin_fini(void)
{
    cuda_driver_forget();
    cuda_compiler_forget();
    cuda_host = NULL;
}

static const yk_plugin TABLE = {
    .size = sizeof(yk_plugin),
    .abi = YK_ABI,
    .minor = YK_ABI_MINOR,
    .n_op = YK_OP_COUNT,
    .n_dtype = YK_DTYPE_COUNT,
    .name = CUDA_WHO,
    .version = CUDA_VERSION_TEXT,
    .sanitizer = YK_SANITIZER,
    .init = plugin_init,
    .fini = plugin_fini,
    .device_count = cuda_device_count,
    .device_caps = cuda_device_caps,
    .device_open = cuda_device_open,
    .device_close = cuda_device_close,
    .claims = cuda_device_claims,
    .buffer_new = cuda_buffer_new,
    .buffer_free = cuda_buffer_free,
    .program_new = cuda_program_new,
    .program_free = cuda_program_free,
    .queue_new = cuda_queue_new,
    .queue_free = cuda_queue_free,
    .queue_run = cuda_queue_run,
    .queue_copy = cuda_queue_copy,
    .queue_poll = cuda_queue_poll,
    .queue_wait = cuda_queue_wait,
    .queue_abort = cuda_queue_abort,
    .graph_scratch = cuda_graph_scratch,
    .host_pin = cuda_host_pin,
    .host_unpin = cuda_host_unpin,
};

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

const yk_plugin *yk_plugin_query(uint32_t abi)
{
    return abi == YK_ABI ? &TABLE : NULL;
}
