/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-probe-opencl compiles and runs a small kernel on each device of the OpenCL drivers that the loader finds.
 *
 * plugins/kit/kit_probe.c starts a probe for each driver without a kept verdict, before the OpenCL plugin loads drivers. It leaves a
 * driver out after a non-zero exit, a signal, or silence beyond its time limit; the other drivers stay.
 *
 * The probe exits with 0 if nothing failed. A failed enumeration counts as no device. The one argument is the id of the asking process.
 * The probe ends with that process, even if the driver hangs.
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MANY 16

static const char *const source = "__kernel void probe(__global int *x) { x[get_global_id(0)] = 7; }";

static cl_int run_kernel(cl_context ctx, cl_command_queue q, cl_program program)
{
    cl_int rc, x = 0;
    size_t one = 1;
    cl_kernel kernel = clCreateKernel(program, "probe", &rc);
    if (rc != CL_SUCCESS)
        return rc;
    cl_mem mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE, sizeof x, NULL, &rc);
    if (rc == CL_SUCCESS)
        rc = clSetKernelArg(kernel, 0, sizeof mem, &mem);
    if (rc == CL_SUCCESS)
        rc = clEnqueueNDRangeKernel(q, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    if (rc == CL_SUCCESS)
        rc = clEnqueueReadBuffer(q, mem, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL);
    return rc == CL_SUCCESS && x != 7 ? CL_INVALID_VALUE : rc;
}

static cl_int try_device(cl_device_id id)
{
    cl_int rc;
    cl_context ctx = clCreateContext(NULL, 1, &id, NULL, NULL, &rc);
    if (rc != CL_SUCCESS)
        return rc;
    cl_command_queue q = clCreateCommandQueue(ctx, id, 0, &rc);
    if (rc != CL_SUCCESS)
        return rc;
    cl_program program = clCreateProgramWithSource(ctx, 1, (const char **)&source, NULL, &rc);
    if (rc == CL_SUCCESS)
        rc = clBuildProgram(program, 1, &id, "", NULL, NULL);
    return rc == CL_SUCCESS ? run_kernel(ctx, q, program) : rc;
}

/* The parent may have ended before this could be asked for. */
static void end_with_parent(const char *parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (parent && (long)getppid() != atol(parent))
        _exit(1); /* child process */
}

int main(int argc, char **argv)
{
    cl_platform_id platform[MANY];
    cl_device_id device[MANY];
    cl_uint n_platform = 0, n_device;
    int bad = 0;
    end_with_parent(argc > 1 ? argv[1] : NULL);
    if (clGetPlatformIDs(MANY, platform, &n_platform) != CL_SUCCESS)
        return 0;
    for (cl_uint i = 0; i < n_platform && i < MANY; i++) {
        n_device = 0;
        if (clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, MANY, device, &n_device) != CL_SUCCESS)
            continue;
        for (cl_uint k = 0; k < n_device && k < MANY; k++)
            bad |= try_device(device[k]) != CL_SUCCESS;
    }
    _exit(bad); /* child process: exit handlers of drivers are not worth waiting for */
}
