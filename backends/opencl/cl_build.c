/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the code of units, sets of kernels that are compiled together, for the kit (plugins/kit/units.h). It takes the source, or the
 * driver's own binaries, which the kit keeps for other processes. The kit builds under its lock while a program is made, in any thread;
 * kit_units_release calls program_release when the device closes, without the lock.
 *
 * A guard restores the user's signal handlers after the driver has compiled, and logs a line for a long build.
 */
#include "backends/opencl/ocl.h"

#include <stdio.h>

/* State around a call in which the driver may compile. */
typedef struct build_guard {
    ocl_watch watch;
    ocl_signals *signals;
} build_guard;

static void guard_begin(build_guard *guard, yk_device *dev)
{
    guard->signals = ocl_signals_save();
    ocl_watch_begin(&guard->watch, dev);
}

static void guard_end(build_guard *guard)
{
    ocl_watch_end(&guard->watch);
    ocl_signals_restore(guard->signals);
}

/* ---- Binaries ---- */

static cl_program binary_build(const yk_device *dev, const unsigned char *data, size_t bytes)
{
    cl_int rc, one;
    cl_program program = clCreateProgramWithBinary(dev->ctx, 1, &dev->id, &bytes, &data, &one, &rc);
    if (rc != CL_SUCCESS)
        return NULL;
    if (clBuildProgram(program, 1, &dev->id, NULL, NULL, NULL) == CL_SUCCESS)
        return program;
    clReleaseProgram(program);
    return NULL;
}

static void *program_load(yk_device *dev, const void *image, size_t bytes)
{
    build_guard guard;
    guard_begin(&guard, dev);
    cl_program program = binary_build(dev, image, bytes);
    guard_end(&guard);
    return program;
}

/* Copies the driver's binary into *image, which stays empty if there is none or memory is short. */
static void binary_get(cl_program program, kit_image *image)
{
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || !bytes)
        return;
    unsigned char *data = ocl_alloc(bytes);
    if (data && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL) == CL_SUCCESS)
        *image = (kit_image){data, bytes};
    else
        ocl_free(data);
}

/* ---- Sources ---- */

static yk_status build_failed(yk_device *dev, cl_program program, cl_int rc, const char *options)
{
    size_t n = 0;
    clGetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n);
    char *text = n ? ocl_alloc(n + 1) : NULL;
    if (text)
        clGetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, n, text, NULL);
    ocl_host->fail(OCL_WHO, "compiling kernels (%s): %s (%d)\n%.4000s", options, ocl_error_name(rc), rc,
                   text ? text : "");
    ocl_free(text);
    return YK_E_INTERNAL;
}

static yk_status source_build(yk_device *dev, const char *macros, const char *const part[KIT_PARTS], cl_program *out)
{
    cl_int rc;
    const char *text[KIT_PARTS];
    char options[KIT_MACROS + 8];
    memcpy(text, part, sizeof text);
    snprintf(options, sizeof options, "-w %s", macros); /* without -w PoCL prints the number of warnings to the terminal */
    cl_program program = clCreateProgramWithSource(dev->ctx, KIT_PARTS, text, NULL, &rc);
    if (rc != CL_SUCCESS)
        return ocl_error(rc, "clCreateProgramWithSource");
    rc = clBuildProgram(program, 1, &dev->id, options, NULL, NULL);
    if (rc != CL_SUCCESS) {
        yk_status s = build_failed(dev, program, rc, macros);
        clReleaseProgram(program);
        return s;
    }
    *out = program;
    return YK_OK;
}

static yk_status program_build(yk_device *dev, const char *macros, const char *const part[KIT_PARTS], void **code, kit_image *image)
{
    build_guard guard;
    cl_program program = NULL;
    guard_begin(&guard, dev);
    const yk_status s = source_build(dev, macros, part, &program);
    guard_end(&guard);
    if (!s && dev->units.cached)
        binary_get(program, image);
    *code = program;
    return s;
}

static void program_release(void *code)
{
    clReleaseProgram(code);
}

const kit_compiler ocl_units_compiler = {.load = program_load, .build = program_build, .release = program_release};
