/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA plugin's table of functions: devices are in cuda_list.c, queues in cuda_queue.c, programs in cuda_program.c, memory in
 * cuda_memory.c. The file also has the table of options (YOKE_CUDA_*): an unknown name or value is an error. The host loads the table, and
 * calls each function in the threads that plugin.h allows. The first question for devices opens the driver.
 */
#include "backends/cuda/cublaslt.h"
#include "backends/cuda/cuda_internal.h"
#include "backends/cuda/cudnn.h"
#include "backends/cuda/nccl.h"

#include <unistd.h>

#include "plugins/kit/kit_options.h"
#include "plugins/kit/plugin.h"

#define CUDA_VERSION_TEXT "0.1.0"

static bool value_file(const char *value)
{
    return access(value, R_OK) == 0;
}

/* True for a file that can be read, and for "0", which means no library. */
static bool value_file_or_none(const char *value)
{
    return !strcmp(value, "0") || value_file(value);
}

static const kit_option options[] = {
    {"CORES", kit_option_is_cores, KIT_ALLOWED_CORES},
    {"CUBLASLT", value_file_or_none, "a file that can be read: a library to be used as libcublasLt.so; or 0: none"},
    {"CUDNN", value_file_or_none, "a file that can be read: a library to be used as libcudnn.so; or 0: none"},
    {"DRIVER", value_file, "a file that can be read: a library to be used as libcuda.so.1"},
    {"FATBINS", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"GRAPHS", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"MMA", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"FP8", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"NCCL", value_file_or_none, "a file that can be read: a library to be used as libnccl.so.2; or 0: none"},
    {"PROFILE", kit_option_is_flag, KIT_ALLOWED_FLAG},
    {"NVRTC", value_file, "a file that can be read: a library to be used as libnvrtc.so"},
    {"TF32", kit_option_is_flag, KIT_ALLOWED_FLAG},
};

static yk_status plugin_init(const yk_host *host)
{
    if (!kit_host_fits(host))
        return YK_E_ABI;
    cuda_host = host;
    return kit_options_check(host, CUDA_WHO, options, sizeof options / sizeof *options);
}

/* The libraries stay loaded: their threads and exit handlers do not survive being unloaded. */
static void plugin_fini(void)
{
    cuda_driver_forget();
    cuda_compiler_forget();
    cuda_nccl_forget();
    cuda_cublaslt_forget();
    cuda_cudnn_forget();
    cuda_host = NULL;
}

static const void *plugin_extension(const char *name)
{
    return strcmp(name, YK_EXT_COLL) ? NULL : cuda_coll();
}

static const yk_plugin TABLE = {
    KIT_PLUGIN_HEAD(CUDA_WHO, CUDA_VERSION_TEXT),
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
    .queue_span = cuda_queue_span,
    .graph_scratch = cuda_graph_scratch,
    .extension = plugin_extension,
    .host_pin = cuda_host_pin,
    .host_unpin = cuda_host_unpin,
};

KIT_PLUGIN_EXPORT(TABLE)
