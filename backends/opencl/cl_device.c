/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One OpenCL device: its properties for the host, and its state while it is open. cl_list.c lists and opens devices, the table in
 * cl_plugin.c closes them, and cl_shape.c opens one for its trials. Any thread, one at a time for a device.
 */
#include "backends/opencl/ocl.h"

#include <stdio.h>

#define LOCAL_SPARE 256 /* bytes of local memory that a driver may need for itself */

cl_ulong ocl_device_number(cl_device_id id, cl_device_info what)
{
    cl_ulong v = 0;
    cl_uint small;
    size_t n = 0;
    if (clGetDeviceInfo(id, what, sizeof v, &v, &n) != CL_SUCCESS)
        return 0;
    memcpy(&small, &v, sizeof small);
    return n == sizeof small ? small : v;
}

void ocl_device_text(cl_device_id id, cl_device_info what, char *text, size_t n)
{
    size_t need = 0;
    char big[1024];
    text[0] = 0;
    if (clGetDeviceInfo(id, what, sizeof big, big, &need) == CL_SUCCESS && need > 0 && need <= sizeof big) {
        big[need - 1] = 0;
        snprintf(text, n, "%.*s", (int)n - 1, big);
    }
}

uint64_t ocl_device_identity(cl_device_id device)
{
    static const cl_device_info what[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
    char text[256];
    uint64_t h = KIT_HASH_SEED;
    for (unsigned i = 0; i < sizeof what / sizeof *what; i++) {
        ocl_device_text(device, what[i], text, sizeof text);
        h = kit_hash(h, text, strlen(text) + 1);
    }
    return h;
}

/*
 * PoCL caches compiled kernels itself, in the folder that env.c sets. A request for a program's binary would compile every
 * kernel of the program once more, for any group size. BINARIES=1 or 0 overrides this choice.
 */
static bool device_binaries(cl_device_id id)
{
    char version[128];
    const char *option = ocl_option("BINARIES");
    if (option)
        return strcmp(option, "0") != 0;
    ocl_device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    return !strstr(version, "PoCL");
}

static yk_status device_start(cl_device_id id, bool cpu_shape, yk_device *d)
{
    cl_int rc;
    const cl_ulong local = ocl_device_number(id, CL_DEVICE_LOCAL_MEM_SIZE);
    d->id = id;
    d->target = (kit_target){
        .host = ocl_host,
        .plugin = OCL_WHO,
        .cpu_shape = cpu_shape,
        .units = (uint32_t)ocl_device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS),
        .max_local = local > 1u << 30 ? 1u << 30 : (uint32_t)(local > LOCAL_SPARE ? local - LOCAL_SPARE : 0),
        .max_alloc = ocl_device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
    };
    d->units = (kit_units){
        .dev = d,
        .target = &d->target,
        .compiler = &ocl_units_compiler,
        .cache = {.host = ocl_host, .plugin = OCL_WHO, .prefix = "ocl"},
        .cached = device_binaries(id),
        .identity = ocl_device_identity(id),
    };
    ocl_device_text(id, CL_DEVICE_NAME, d->name, sizeof d->name);
    d->ctx = clCreateContext(NULL, 1, &id, NULL, NULL, &rc);
    return rc == CL_SUCCESS ? YK_OK : ocl_error(rc, "opening the device");
}

yk_status ocl_device_make(cl_device_id id, bool cpu_shape, bool in_place, yk_device **dev)
{
    yk_device *d = ocl_alloc(sizeof *d);
    if (!d)
        return YK_E_MEM;
    d->visible = in_place;
    yk_status s = device_start(id, cpu_shape, d);
    if (s != YK_OK) {
        ocl_free(d);
        return s;
    }
    kit_units_init(&d->units);
    *dev = d;
    return YK_OK;
}

void ocl_device_close(yk_device *d)
{
    if (!d)
        return;
    kit_units_release(&d->units, true);
    clReleaseContext(d->ctx);
    ocl_free(d);
}

uint32_t ocl_device_claims(yk_device *dev, const yk_graph *graph, uint32_t node)
{
    return kit_claims(&dev->target, graph, node);
}
