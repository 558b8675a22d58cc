/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's table, and what all parts share: memory of the host, error texts. */
#include "backends/opencl/ocl.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#ifndef YK_SANITIZER
#if defined(__SANITIZE_ADDRESS__)
#define YK_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define YK_SANITIZER "thread"
#else
#define YK_SANITIZER "none"
#endif
#endif

const yk_host *ocl_host;

void *ocl_alloc(size_t bytes)
{
    void *p = ocl_host->alloc(bytes ? bytes : 1, 64);
    if (p)
        memset(p, 0, bytes);
    else
        ocl_host->fail(OCL_WHO, "out of memory: %zu bytes", bytes);
    return p;
}

void *ocl_grow(void *old, size_t bytes, size_t more)
{
    char *p = ocl_alloc(bytes + more);
    if (p && old) {
        memcpy(p, old, bytes);
        ocl_free(old);
    }
    return p;
}

void ocl_free(void *p)
{
    if (p)
        ocl_host->free(p);
}

uint64_t ocl_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define OCL_ERRORS(X)                                                                                                  \
    X(CL_DEVICE_NOT_FOUND) X(CL_DEVICE_NOT_AVAILABLE) X(CL_COMPILER_NOT_AVAILABLE)                                     \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE) X(CL_OUT_OF_RESOURCES) X(CL_OUT_OF_HOST_MEMORY) X(CL_BUILD_PROGRAM_FAILURE)    \
    X(CL_MAP_FAILURE) X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) X(CL_INVALID_VALUE) X(CL_INVALID_DEVICE)         \
    X(CL_INVALID_CONTEXT) X(CL_INVALID_COMMAND_QUEUE) X(CL_INVALID_HOST_PTR) X(CL_INVALID_MEM_OBJECT)                  \
    X(CL_INVALID_BINARY) X(CL_INVALID_BUILD_OPTIONS) X(CL_INVALID_PROGRAM) X(CL_INVALID_PROGRAM_EXECUTABLE)            \
    X(CL_INVALID_KERNEL_NAME) X(CL_INVALID_KERNEL) X(CL_INVALID_ARG_INDEX) X(CL_INVALID_ARG_VALUE)                     \
    X(CL_INVALID_ARG_SIZE) X(CL_INVALID_KERNEL_ARGS) X(CL_INVALID_WORK_DIMENSION) X(CL_INVALID_WORK_GROUP_SIZE)        \
    X(CL_INVALID_WORK_ITEM_SIZE) X(CL_INVALID_GLOBAL_OFFSET) X(CL_INVALID_EVENT_WAIT_LIST) X(CL_INVALID_EVENT)         \
    X(CL_INVALID_OPERATION) X(CL_INVALID_BUFFER_SIZE) X(CL_INVALID_GLOBAL_WORK_SIZE)

const char *ocl_error_name(cl_int code)
{
    switch (code) {
#define OCL_ERROR_CASE(name)                                                                                           \
    case name:                                                                                                         \
        return #name;
        OCL_ERRORS(OCL_ERROR_CASE)
#undef OCL_ERROR_CASE
    default:
        return "an OpenCL error";
    }
}

yk_status ocl_error(cl_int code, const char *what)
{
    ocl_host->fail(OCL_WHO, "%s: %s (%d)", what, ocl_error_name(code), (int)code);
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE:
        return YK_E_MEM;
    case CL_DEVICE_NOT_AVAILABLE:
        return YK_E_DEVICE_LOST;
    default:
        return YK_E_INTERNAL;
    }
}

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

static const void *plugin_extension(const char *name)
{
    (void)name;
    return NULL;
}

static const yk_plugin TABLE = {
    .size = sizeof(yk_plugin),
    .abi = YK_ABI,
    .name = OCL_WHO,
    .version = OCL_VERSION,
    .sanitizer = YK_SANITIZER,
    .init = plugin_init,
    .fini = plugin_fini,
    .device_count = ocl_device_count,
    .device_caps = ocl_device_caps,
    .device_open = ocl_device_open,
    .device_close = ocl_device_close,
    .claims = ocl_claims,
    .buffer_new = ocl_buffer_new,
    .buffer_wrap = ocl_buffer_wrap,
    .buffer_free = ocl_buffer_free,
    .buffer_map = ocl_buffer_map,
    .program_new = ocl_program_new,
    .program_free = ocl_program_free,
    .queue_new = ocl_queue_new,
    .queue_free = ocl_queue_free,
    .queue_run = ocl_queue_run,
    .queue_put = ocl_queue_put,
    .queue_get = ocl_queue_get,
    .queue_poll = ocl_queue_poll,
    .queue_wait = ocl_queue_wait,
    .extension = plugin_extension,
    .graph_scratch = ocl_graph_scratch,
};

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

const yk_plugin *yk_plugin_query(uint32_t abi)
{
    return abi == YK_ABI ? &TABLE : NULL;
}
