/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL plugin's table of functions: devices are in cl_list.c, buffers in cl_memory.c, programs in cl_program.c, queues in cl_queue.c.
 * The host loads the table, and calls each function in the threads that plugin.h allows.
 */
#include "backends/opencl/ocl.h"
#include "plugins/kit/plugin.h"

static yk_status plugin_init(const yk_host *host)
{
    if (!kit_host_fits(host))
        return YK_E_ABI;
    ocl_host = host;
    return ocl_options_check();
}

/* Keeps the driver loaded: its threads and exit handlers do not survive unloading. */
static void plugin_fini(void)
{
    if (ocl_host)
        ocl_devices_forget();
    ocl_host = NULL;
}

static const yk_plugin TABLE = {
    KIT_PLUGIN_HEAD(OCL_WHO, OCL_VERSION),
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

KIT_PLUGIN_EXPORT(TABLE)
