/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that all files of the OpenCL plugin share: the host's table of services, memory, texts of failed calls, waiting for a driver's
 * queue. Any thread.
 */
#include "backends/opencl/ocl.h"

#include "plugins/kit/plugin.h"

const yk_host *ocl_host;

void *ocl_alloc(size_t bytes)
{
    return kit_zeroed(ocl_host, OCL_WHO, bytes, "the plugin's state");
}

void ocl_free(void *p)
{
    kit_release(ocl_host, p);
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
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: /* another queue failed */
        return YK_E_CANCELLED;
    default:
        return YK_E_INTERNAL;
    }
}

/* Waits for an event, because clFinish of Mesa's rusticl 22.3 returns at once if the queue was flushed before. */
bool ocl_finish(cl_command_queue q)
{
    cl_event end;
    if (clEnqueueMarkerWithWaitList(q, 0, NULL, &end) != CL_SUCCESS)
        return clFinish(q) == CL_SUCCESS;
    const cl_int rc = clWaitForEvents(1, &end);
    clReleaseEvent(end);
    return rc == CL_SUCCESS;
}
