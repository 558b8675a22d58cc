/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the OpenCL plugin: allocated, wrapped, mapped and freed for the host, through the table in cl_plugin.c, in the caller's
 * thread. cl_program.c and cl_shape.c free buffers of their own, and cl_list.c asks if a device computes in host memory. Sizes are bytes.
 *
 * If the driver computes in host memory, a buffer lies in page-aligned host memory, is host visible, and can wrap existing memory.
 * Otherwise the driver allocates it. Buffers are not exported, and the device limits their size.
 */
#include "backends/opencl/ocl.h"

#include "plugins/kit/drain.h"

#define PAGE 4096u
#define TURNS 3 /* turns of the trial for memory used in place */

static _Atomic uint64_t newest; /* serial of the newest buffer */

static yk_status buffer_make(yk_device *dev, void *host, uint64_t bytes, yk_buffer **out)
{
    cl_int rc;
    yk_buffer *buffer = ocl_alloc(sizeof *buffer);
    if (!buffer)
        return YK_E_MEM;
    buffer->dev = dev;
    buffer->host = host;
    buffer->bytes = bytes;
    buffer->serial = atomic_fetch_add(&newest, 1) + 1;
    buffer->mem = clCreateBuffer(dev->ctx, CL_MEM_READ_WRITE | (host ? CL_MEM_USE_HOST_PTR : 0), bytes ? bytes : 1, host, &rc);
    if (rc != CL_SUCCESS) {
        ocl_free(buffer);
        ocl_host->fail(OCL_WHO, "a buffer of %llu bytes: %s (%d)", (unsigned long long)bytes, ocl_error_name(rc), rc);
        return YK_E_MEM;
    }
    *out = buffer;
    return YK_OK;
}

yk_status ocl_buffer_bytes(yk_device *dev, uint64_t bytes, yk_buffer **out)
{
    void *host = NULL;
    if (dev->target.max_alloc && bytes > dev->target.max_alloc) {
        ocl_host->fail(OCL_WHO, "a buffer of %llu bytes: this device allows %llu at most", (unsigned long long)bytes,
                       (unsigned long long)dev->target.max_alloc);
        return YK_E_MEM;
    }
    if (dev->visible) {
        host = ocl_host->alloc((bytes + PAGE - 1 + (bytes == 0)) / PAGE * PAGE, PAGE);
        if (!host) {
            ocl_host->fail(OCL_WHO, "out of memory: a buffer of %llu bytes", (unsigned long long)bytes);
            return YK_E_MEM;
        }
    }
    yk_status s = buffer_make(dev, host, bytes, out);
    if (s == YK_OK)
        (*out)->owned = host != NULL;
    else if (host)
        ocl_host->free(host);
    return s;
}

/* Ignores use and flags, as the driver has one kind of memory. */
yk_status ocl_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    if (desc->flags & YK_BUF_EXPORT) {
        ocl_host->fail(OCL_WHO, "buffers of this plugin are not exported");
        return YK_E_UNSUPPORTED;
    }
    return ocl_buffer_bytes(dev, desc->bytes, out);
}

yk_status ocl_buffer_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **out)
{
    if (!dev->visible) {
        ocl_host->fail(OCL_WHO, "this device cannot compute in host memory");
        return YK_E_UNSUPPORTED;
    }
    if (!host || (uintptr_t)host % PAGE) {
        ocl_host->fail(OCL_WHO, "host memory at %p: expected an address that is a multiple of %u", host, PAGE);
        return YK_E_ARG;
    }
    return buffer_make(dev, host, bytes, out);
}

void ocl_buffer_free(yk_buffer *buffer)
{
    if (!buffer)
        return;
    if (atomic_load(&buffer->dev->left_behind)) {
        kit_leave(buffer);
        return;
    }
    clReleaseMemObject(buffer->mem);
    if (buffer->owned)
        ocl_host->free(buffer->host);
    ocl_free(buffer);
}

void *ocl_buffer_map(yk_buffer *buffer)
{
    return buffer->host;
}

/* True if the device reads the pattern in mem, tested by a copy to its own memory. */
static bool device_sees(cl_command_queue q, cl_mem mem, cl_mem own, unsigned char pattern)
{
    unsigned char seen[PAGE] = {0};
    if (clEnqueueCopyBuffer(q, mem, own, 0, 0, PAGE, 0, NULL, NULL) != CL_SUCCESS ||
        clEnqueueReadBuffer(q, own, CL_TRUE, 0, PAGE, seen, 0, NULL, NULL) != CL_SUCCESS)
        return false;
    for (unsigned i = 0; i < PAGE; i++)
        if (seen[i] != pattern)
            return false;
    return true;
}

static bool host_sees(cl_command_queue q, cl_mem mem, const unsigned char *host, unsigned char pattern)
{
    if (clEnqueueFillBuffer(q, mem, &pattern, 1, 0, PAGE, 0, NULL, NULL) != CL_SUCCESS || !ocl_finish(q))
        return false;
    for (unsigned i = 0; i < PAGE; i++)
        if (((const volatile unsigned char *)host)[i] != pattern)
            return false;
    return true;
}

static bool map_is(cl_command_queue q, cl_mem mem, const unsigned char *host)
{
    cl_int rc;
    void *p = clEnqueueMapBuffer(q, mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, PAGE, 0, NULL, NULL, &rc);
    if (rc != CL_SUCCESS)
        return false;
    clEnqueueUnmapMemObject(q, mem, p, 0, NULL, NULL);
    return ocl_finish(q) && p == host;
}

/* True if host and device share the memory. A driver may keep a copy of host memory and update it only on mapping, or now and then. So
 * host and device write in turn and read each other's pattern, some times, and mapping comes last. */
static bool memory_seen(cl_context ctx, cl_command_queue q, cl_mem mem, unsigned char *host)
{
    cl_int rc;
    bool seen = true;
    cl_mem own = clCreateBuffer(ctx, CL_MEM_READ_WRITE, PAGE, NULL, &rc);
    if (rc != CL_SUCCESS)
        return false;
    for (unsigned char i = 1; i <= TURNS && seen; i++) {
        memset(host, i, PAGE);
        seen = device_sees(q, mem, own, i) && host_sees(q, mem, host, (unsigned char)(0xa0 + i));
    }
    clReleaseMemObject(own);
    return seen && map_is(q, mem, host);
}

bool ocl_memory_in_place(cl_context ctx, cl_device_id id)
{
    bool seen = false;
    cl_int rc;
    unsigned char *host = ocl_host->alloc(PAGE, PAGE);
    if (!host)
        return false;
    memset(host, 0, PAGE);
    cl_command_queue q = clCreateCommandQueue(ctx, id, 0, &rc);
    if (rc == CL_SUCCESS) {
        cl_mem mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, PAGE, host, &rc);
        if (rc == CL_SUCCESS) {
            seen = memory_seen(ctx, q, mem, host);
            clReleaseMemObject(mem);
        }
        clReleaseCommandQueue(q);
    }
    ocl_host->free(host);
    return seen;
}
