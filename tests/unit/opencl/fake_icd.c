/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenCL driver that stands before another (PoCL) and makes another machine of it. A loader entry (*.icd) names this
 * file; the environment says what it does (all names begin as kit_survey.c's do, so that answers are kept for each):
 *   OCL_FAKE_DRIVER=FILE         the driver behind it; without it the one /etc/OpenCL/vendors/pocl.icd names
 *   OCL_FAKE_LOCAL_KB=N          its local memory, where it has more: told, and kernels that need more fail as at a driver's
 *   OCL_FAKE_UNITS=N             its compute units, as told
 *   OCL_FAKE_UUID=N              it is a GPU, every byte of whose own number is N
 *   OCL_FAKE_BUS=N, _BUS_AMD=N, _BUS_NV=N  it is a GPU in place 0000:N:02.1 of the PCI bus, which that vendor's extension tells
 *   OCL_FAKE_SLOW=F              every kernel takes F times its time; the device sleeps meanwhile, as one with its own cores
 *   OCL_FAKE_SLOW_FROM=N, _UNTIL=N   only from the N-th kernel on, and before the N-th, counted in this process
 *   OCL_FAKE_SLOW_GROUP=N        only kernels whose groups have N work-items
 *   OCL_FAKE_BUILD_MS=N          clBuildProgram takes this much longer;
 *   OCL_FAKE_BUILD_UNTIL=N       only the first N times in this process
 *   OCL_FAKE_SNAPSHOT=1          a buffer over host memory takes what is there once; what the device fills in comes back
 * The driver's table of functions is changed in place: all its objects point to it, and its first entries are the same in
 * every version of OpenCL.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *clGetExtensionFunctionAddress(const char *name);
EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *need);

struct _cl_platform_id {
    cl_icd_dispatch *table;
};

static cl_icd_dispatch real; /* the driver's own functions */
static void *(*real_address)(const char *name);
static clIcdGetPlatformIDsKHR_fn real_platforms;
static _Atomic unsigned long kernels, builds; /* enqueued and compiled so far */

static double setting_of(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atof(text) : otherwise;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&t, &t) && errno == EINTR)
        continue;
}

/* Reported properties */

static size_t local_limit(void)
{
    return (size_t)(setting_of("OCL_FAKE_LOCAL_KB", 0) * 1024);
}

/* A card's answer about itself: its bytes, or 0 without an answer. */
static size_t gpu_answer(cl_device_info what, unsigned char answer[24])
{
    const cl_uint khr = (cl_uint)setting_of("OCL_FAKE_BUS", 0), amd = (cl_uint)setting_of("OCL_FAKE_BUS_AMD", 0),
                  nv = (cl_uint)setting_of("OCL_FAKE_BUS_NV", 0), place[] = {0, khr, 2, 1}, type = 1, slot = 2 << 3 | 1;
    memset(answer, what == 0x106A ? (int)setting_of("OCL_FAKE_UUID", 0) : 0, 24);
    switch (what) {
    case 0x106A: /* CL_DEVICE_UUID_KHR */
        return getenv("OCL_FAKE_UUID") ? 16 : 0;
    case 0x410F: /* CL_DEVICE_PCI_BUS_INFO_KHR */
        memcpy(answer, place, sizeof place);
        return khr ? sizeof place : 0;
    case 0x4037: /* CL_DEVICE_TOPOLOGY_AMD */
        memcpy(answer, &type, sizeof type);
        answer[21] = (unsigned char)amd, answer[22] = 2, answer[23] = 1;
        return amd ? 24 : 0;
    case 0x4008: /* CL_DEVICE_PCI_BUS_ID_NV, CL_DEVICE_PCI_SLOT_ID_NV */
    case 0x4009:
        memcpy(answer, what == 0x4008 ? &nv : &slot, sizeof slot);
        return nv ? sizeof slot : 0;
    default:
        return 0;
    }
}

static bool is_gpu(void)
{
    return getenv("OCL_FAKE_UUID") || getenv("OCL_FAKE_BUS") || getenv("OCL_FAKE_BUS_AMD") || getenv("OCL_FAKE_BUS_NV");
}

static cl_int CL_API_CALL fake_device_info(cl_device_id id, cl_device_info what, size_t size, void *value, size_t *need)
{
    unsigned char answer[24];
    const size_t bytes = gpu_answer(what, answer);
    if (bytes && value && size >= bytes) {
        memcpy(value, answer, bytes);
        if (need)
            *need = bytes;
        return CL_SUCCESS;
    }
    cl_int rc = real.clGetDeviceInfo(id, what, size, value, need);
    if (rc != CL_SUCCESS || !value)
        return rc;
    if (what == CL_DEVICE_TYPE && is_gpu())
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    if (what == CL_DEVICE_LOCAL_MEM_SIZE && local_limit() && local_limit() < *(cl_ulong *)value)
        *(cl_ulong *)value = local_limit();
    if (what == CL_DEVICE_MAX_COMPUTE_UNITS && setting_of("OCL_FAKE_UNITS", 0) > 0)
        *(cl_uint *)value = (cl_uint)setting_of("OCL_FAKE_UNITS", 0);
    return rc;
}

/* Enforced limits */

static bool kernel_fits(cl_kernel kernel, cl_device_id id)
{
    cl_ulong bytes = 0;
    if (!local_limit() || real.clGetKernelWorkGroupInfo(kernel, id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL) != CL_SUCCESS)
        return true;
    if (bytes <= local_limit())
        return true;
    char name[80] = "";
    real.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    fprintf(stderr, "fake OpenCL driver: %s needs %llu bytes of local memory, there are %zu\n", name, (unsigned long long)bytes,
            local_limit());
    return false;
}

static cl_int CL_API_CALL fake_build(cl_program program, cl_uint n, const cl_device_id *id, const char *options,
                                     void(CL_CALLBACK *notify)(cl_program, void *), void *arg)
{
    if ((double)atomic_fetch_add(&builds, 1) < setting_of("OCL_FAKE_BUILD_UNTIL", 1e18))
        sleep_ns((uint64_t)(setting_of("OCL_FAKE_BUILD_MS", 0) * 1e6));
    return real.clBuildProgram(program, n, id, options, notify, arg);
}

/* ---- How long it takes: each kernel stands between two calls of the host, made by the device's own thread ---- */

typedef struct delay {
    uint64_t begin;
    double factor;
} delay;

static void CL_CALLBACK delay_begin(void *arg)
{
    (*(delay **)arg)->begin = now_ns();
}

#define LONGEST_NS 20000000u /* ns of a kernel; a longer one was mostly the driver's compiler, at its first run */

static void CL_CALLBACK delay_end(void *arg)
{
    delay *d = *(delay **)arg;
    const uint64_t took = now_ns() - d->begin;
    sleep_ns((uint64_t)((double)(took < LONGEST_NS ? took : LONGEST_NS) * (d->factor - 1)));
    free(d);
}

static double slow_factor(cl_uint dims, const size_t *local)
{
    const double number = (double)atomic_fetch_add(&kernels, 1), group = setting_of("OCL_FAKE_SLOW_GROUP", 0);
    size_t items = 1;
    for (cl_uint i = 0; local && i < dims; i++)
        items *= local[i];
    if (number < setting_of("OCL_FAKE_SLOW_FROM", 0) || number >= setting_of("OCL_FAKE_SLOW_UNTIL", 1e18))
        return 1;
    return group > 0 && (size_t)group != items ? 1 : setting_of("OCL_FAKE_SLOW", 1);
}

static cl_int CL_API_CALL fake_enqueue(cl_command_queue q, cl_kernel kernel, cl_uint dims, const size_t *offset, const size_t *global,
                                       const size_t *local, cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    cl_device_id id;
    const double factor = slow_factor(dims, local);
    cl_int rc = real.clGetCommandQueueInfo(q, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
    if (rc == CL_SUCCESS && !kernel_fits(kernel, id))
        return CL_OUT_OF_RESOURCES;
    delay *d = rc == CL_SUCCESS && factor > 1 ? malloc(sizeof *d) : NULL;
    if (!d)
        return real.clEnqueueNDRangeKernel(q, kernel, dims, offset, global, local, n_wait, wait, done);
    d->factor = factor;
    rc = real.clEnqueueNativeKernel(q, delay_begin, &d, sizeof d, 0, NULL, NULL, n_wait, wait, NULL);
    if (rc == CL_SUCCESS)
        rc = real.clEnqueueNDRangeKernel(q, kernel, dims, offset, global, local, 0, NULL, NULL);
    if (rc == CL_SUCCESS)
        rc = real.clEnqueueNativeKernel(q, delay_end, &d, sizeof d, 0, NULL, NULL, 0, NULL, done);
    return rc;
}

/* ---- Host memory ---- */

static cl_mem snapshot_mem; /* the last one */
static void *snapshot_host;

static cl_mem CL_API_CALL fake_buffer(cl_context ctx, cl_mem_flags flags, size_t bytes, void *host, cl_int *rc)
{
    if (!(flags & CL_MEM_USE_HOST_PTR))
        return real.clCreateBuffer(ctx, flags, bytes, host, rc);
    snapshot_host = host;
    return snapshot_mem = real.clCreateBuffer(ctx, (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR, bytes, host, rc);
}

static cl_int CL_API_CALL fake_fill(cl_command_queue q, cl_mem mem, const void *pattern, size_t size, size_t at, size_t bytes, cl_uint n,
                                    const cl_event *wait, cl_event *e)
{
    if (mem == snapshot_mem && size == 1)
        memset((char *)snapshot_host + at, *(const unsigned char *)pattern, bytes);
    return real.clEnqueueFillBuffer(q, mem, pattern, size, at, bytes, n, wait, e);
}

static void *CL_API_CALL fake_map(cl_command_queue q, cl_mem mem, cl_bool blocks, cl_map_flags flags, size_t at, size_t bytes, cl_uint n,
                                  const cl_event *wait, cl_event *e, cl_int *rc)
{
    void *p = real.clEnqueueMapBuffer(q, mem, blocks, flags, at, bytes, n, wait, e, rc);
    if (mem != snapshot_mem || !p)
        return p;
    real.clEnqueueUnmapMemObject(q, mem, p, 0, NULL, NULL);
    return (char *)snapshot_host + at;
}

static cl_int CL_API_CALL fake_unmap(cl_command_queue q, cl_mem mem, void *p, cl_uint n, const cl_event *wait, cl_event *e)
{
    return mem == snapshot_mem ? CL_SUCCESS : real.clEnqueueUnmapMemObject(q, mem, p, n, wait, e);
}

static void memory_change(cl_icd_dispatch *table)
{
    if (!setting_of("OCL_FAKE_SNAPSHOT", 0))
        return;
    real.clEnqueueFillBuffer = table->clEnqueueFillBuffer; /* a function of OpenCL 1.2: not among the saved ones */
    table->clCreateBuffer = fake_buffer;
    table->clEnqueueFillBuffer = fake_fill;
    table->clEnqueueMapBuffer = fake_map;
    table->clEnqueueUnmapMemObject = fake_unmap;
}

/* ---- Standing in ---- */

static void table_change(cl_icd_dispatch *table)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)table / page * page;
    if (table->clBuildProgram == fake_build)
        return;
    memcpy(&real, table, offsetof(cl_icd_dispatch, clCreateSubDevices));
    if (mprotect((void *)from, (uintptr_t)table + sizeof *table - from, PROT_READ | PROT_WRITE)) {
        perror("fake OpenCL driver: mprotect");
        abort();
    }
    table->clGetDeviceInfo = fake_device_info;
    table->clBuildProgram = fake_build;
    table->clEnqueueNDRangeKernel = fake_enqueue;
    memory_change(table);
}

static cl_int CL_API_CALL fake_platforms(cl_uint n, cl_platform_id *platform, cl_uint *have)
{
    cl_int rc = real_platforms(n, platform, have);
    for (cl_uint i = 0; rc == CL_SUCCESS && platform && i < n; i++)
        table_change(platform[i]->table);
    return rc;
}

static bool driver_load(void)
{
    char path[400] = "";
    const char *name = getenv("OCL_FAKE_DRIVER");
    FILE *f = name ? NULL : fopen("/etc/OpenCL/vendors/pocl.icd", "r");
    if (f && fgets(path, sizeof path, f))
        path[strcspn(path, "\n")] = 0;
    if (f)
        fclose(f);
    void *so = dlopen(name ? name : path, RTLD_NOW | RTLD_LOCAL);
    if (so)
        real_address = (void *(*)(const char *))dlsym(so, "clGetExtensionFunctionAddress");
    if (real_address)
        real_platforms = (clIcdGetPlatformIDsKHR_fn)real_address("clIcdGetPlatformIDsKHR");
    if (!real_platforms)
        fprintf(stderr, "fake OpenCL driver: no driver behind it in %s\n", name ? name : path);
    return real_platforms != NULL;
}

void *clGetExtensionFunctionAddress(const char *name)
{
    if (!real_platforms && !driver_load())
        return NULL;
    return !strcmp(name, "clIcdGetPlatformIDsKHR") ? (void *)fake_platforms : real_address(name);
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *need)
{
    return platform->table->clGetPlatformInfo(platform, what, size, value, need);
}
