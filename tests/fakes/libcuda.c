/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's top floor: the driver itself, devices and their primary contexts, whose end frees what is left of them, modules. */
#define _GNU_SOURCE
#include "tests/fakes/libcuda_memory.h"
#include "tests/fakes/libcuda_stream.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Questions of tests */

static uint64_t live_count(void)
{
    uint64_t n = fake_object_count() + fake_memory_count();
    for (int i = 0; i < fake.n; i++)
        n += fake.device[i].retained;
    return n;
}

#define FAKE_NUMBER(function, expression)                                                                                                 \
    uint64_t function(void)                                                                                                               \
    {                                                                                                                                     \
        pthread_mutex_lock(&fake.lock);                                                                                                   \
        const uint64_t number = expression;                                                                                               \
        pthread_mutex_unlock(&fake.lock);                                                                                                 \
        return number;                                                                                                                    \
    }
FAKE_NUMBER(fake_cuda_calls, fake.calls)
FAKE_NUMBER(fake_cuda_live, live_count())
FAKE_NUMBER(fake_cuda_graphs, fake.graphs)
FAKE_NUMBER(fake_cuda_abandoned, fake.abandoned)

/* Questions of the fake NCCL */

int fake_cuda_device(void)
{
    const struct CUctx_st *context = fake_context_now();
    return context ? (int)(context - fake.device) : -1;
}

int fake_cuda_capability(void)
{
    pthread_mutex_lock(&fake.lock);
    const int sm = fake.sm;
    pthread_mutex_unlock(&fake.lock);
    return sm;
}

void fake_cuda_set_capability(int sm)
{
    pthread_mutex_lock(&fake.lock);
    fake.sm = sm;
    pthread_mutex_unlock(&fake.lock);
}

void *fake_cuda_memory(unsigned long long memory, size_t bytes)
{
    pthread_mutex_lock(&fake.lock);
    const bool good = fake_memory_covers(memory, bytes);
    pthread_mutex_unlock(&fake.lock);
    return good ? fake_host(memory) : NULL;
}

/* ---- The driver ---- */

static FILE *names_open(void)
{
    const char *path = getenv("FAKE_CUDA_CALLS");
    char own[4096];
    if (!path || snprintf(own, sizeof own, "%s.%ld", path, (long)getpid()) >= (int)sizeof own)
        return NULL;
    return fopen(own, "w");
}

/* Under the lock: the numbers of CUDA_VISIBLE_DEVICES, in its order, up to the first that is none. */
static void list_shown(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int number, length = 0;
    fake.n_shown = 0;
    for (int i = 0; i < fake.n && !list; i++)
        fake.shown[fake.n_shown++] = i;
    while (list && sscanf(list, "%d%n", &number, &length) == 1 && number >= 0 && number < fake.n && fake.n_shown < FAKE_DEVICES) {
        fake.shown[fake.n_shown++] = number;
        list += length + (list[length] == ',');
    }
}

/* Under the lock. */
static void state_begin(void)
{
    if (fake.begun)
        return;
    fake.begun = true;
    fake.names = names_open();
    fake.n = (int)fake_env("FAKE_CUDA_DEVICES", 2);
    fake.n = fake.n > FAKE_DEVICES ? FAKE_DEVICES : fake.n;
    list_shown();
    fake.sm = (int)fake_env("FAKE_CUDA_SM", fake.sm ? (uint64_t)fake.sm : 90);
    fake.version = (int)fake_env("FAKE_CUDA_VERSION", fake.version ? (uint64_t)fake.version : 12090);
    fake.fail_at = fake_env("FAKE_CUDA_FAIL", fake.fail_at);
    fake.fail_code = (int)fake_env("FAKE_CUDA_CODE", (uint64_t)fake.fail_code);
    fake.lose_at = fake_env("FAKE_CUDA_LOSE", fake.lose_at);
    fake.hang_at = fake_env("FAKE_CUDA_HANG", fake.hang_at);
    for (int i = 0; i < fake.n; i++)
        fake.device[i].memory = fake_env("FAKE_CUDA_MEMORY", 1u << 30);
}

/* FAKE_CUDA_PAGEABLE: a file that gets the number of such copies. */
__attribute__((destructor)) static void say_pageable(void)
{
    const char *path = getenv("FAKE_CUDA_PAGEABLE");
    FILE *f = path && fake.begun ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "%llu\n", (unsigned long long)fake.pageable);
    fclose(f);
}

CUresult cuInit(unsigned flags)
{
    CUresult rc;
    pthread_mutex_lock(&fake.lock);
    state_begin();
    pthread_mutex_unlock(&fake.lock);
    if (fake_call_fails(&rc))
        return rc;
    return flags ? CUDA_ERROR_INVALID_VALUE : fake.n_shown ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

void fake_cuda_set_version(int version)
{
    pthread_mutex_lock(&fake.lock);
    fake.version = version;
    pthread_mutex_unlock(&fake.lock);
}

CUresult cuDriverGetVersion(int *version)
{
    CUresult rc;
    *version = fake.version;
    return fake_call_fails(&rc) ? rc : CUDA_SUCCESS;
}

#define FAKE_ERRORS(X)                                                                                                                    \
    X(CUDA_SUCCESS) X(CUDA_ERROR_INVALID_VALUE) X(CUDA_ERROR_OUT_OF_MEMORY) X(CUDA_ERROR_NOT_INITIALIZED) X(CUDA_ERROR_NO_DEVICE)         \
    X(CUDA_ERROR_INVALID_DEVICE) X(CUDA_ERROR_INVALID_IMAGE) X(CUDA_ERROR_INVALID_CONTEXT) X(CUDA_ERROR_NO_BINARY_FOR_GPU)                \
    X(CUDA_ERROR_INVALID_HANDLE) X(CUDA_ERROR_NOT_FOUND) X(CUDA_ERROR_NOT_READY) X(CUDA_ERROR_ILLEGAL_ADDRESS)                            \
    X(CUDA_ERROR_LAUNCH_FAILED) X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) X(CUDA_ERROR_UNKNOWN)

static const char *code_name(CUresult code)
{
    switch ((int)code) {
#define FAKE_CASE(name)                                                                                                                   \
    case name:                                                                                                                            \
        return #name;
        FAKE_ERRORS(FAKE_CASE)
#undef FAKE_CASE
    default:
        return NULL;
    }
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    *name = code_name(code);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    *text = code_name(code) ? "says the fake driver" : NULL;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Devices ---- */

static CUresult device_begin(CUdevice device)
{
    CUresult rc;
    if (fake_call_fails(&rc))
        return rc;
    if (!fake.begun)
        return CUDA_ERROR_NOT_INITIALIZED;
    return device >= 0 && device < fake.n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult rc;
    *count = fake.n_shown;
    return fake_call_fails(&rc) ? rc : fake.begun ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int number)
{
    *device = number >= 0 && number < fake.n_shown ? fake.shown[number] : -1;
    return device_begin(*device);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    snprintf(name, (size_t)bytes, "fake CUDA device %d", device);
    return device_begin(device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    const CUresult rc = device_begin(device);
    if (!rc)
        *bytes = fake.device[device].memory;
    return rc;
}

enum { FAKE_MULTICAST = 132 }; /* CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, which older headers lack */

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const CUresult rc = device_begin(device);
    if (rc)
        return rc;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        *value = 2147483647;
        return rc;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        *value = 65535;
        return rc;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        *value = 49152;
        return rc;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = (int)fake_env("FAKE_CUDA_UNITS", 2);
        return rc;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = fake.sm / 10;
        return rc;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = fake.sm % 10;
        return rc;
    case FAKE_MULTICAST:
        *value = (int)fake_env("FAKE_CUDA_MULTICAST", 1);
        return rc;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", 0xa0 + device);
    return device_begin(device);
}

/* ---- Contexts ---- */

static void module_free(CUmodule m)
{
    dlclose(m->object);
    free(m->function);
    free(m);
}

/* Frees any one object of the context; false: there is none. */
static bool object_end(CUcontext context, fake_kind kind)
{
    void *object = fake_object_take(context, kind);
    if (!object)
        return false;
    if (kind == FAKE_MODULE)
        module_free(object);
    else
        fake_stream_object_free(kind, object);
    return true;
}

/* Frees what is left: streams first, which may still work. */
static void context_end(CUcontext context)
{
    static const fake_kind order[] = {FAKE_STREAM, FAKE_EVENT, FAKE_CAPTURED, FAKE_EXEC, FAKE_MODULE};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        while (object_end(context, order[i]))
            ;
    pthread_mutex_lock(&fake.lock);
    fake_memory_end(context);
    pthread_mutex_unlock(&fake.lock);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    const CUresult rc = device_begin(device);
    *flags = 0;
    if (!rc) {
        pthread_mutex_lock(&fake.lock);
        *active = fake.device[device].retained > 0;
        pthread_mutex_unlock(&fake.lock);
    }
    return rc;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    const CUresult rc = device_begin(device);
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    *context = &fake.device[device];
    const bool first = (*context)->retained++ == 0;
    pthread_mutex_unlock(&fake.lock);
    if (first)
        fake.null_stream[device] = fake_stream_start(*context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    const CUresult rc = device_begin(device);
    if ((int)rc == CUDA_ERROR_INVALID_DEVICE)
        return rc;
    pthread_mutex_lock(&fake.lock);
    const bool last = --fake.device[device].retained == 0;
    if (last)
        fake.device[device].lost = 0;
    pthread_mutex_unlock(&fake.lock);
    if (last) {
        context_end(&fake.device[device]);
        fake_stream_stop(fake.null_stream[device]);
    }
    return rc;
}

/* ---- Modules ---- */

static void *object_open(const char *data, size_t bytes)
{
    char path[] = "/tmp/yoke-cuda-XXXXXX";
    const int fd = mkstemp(path);
    void *object = NULL;
    if (fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes)
        object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return object;
}

static void functions_make(CUmodule m)
{
    int n = 0;
    while (m->kernel[n].name)
        n++;
    m->function = calloc((size_t)n + 1, sizeof *m->function);
    for (int i = 0; i < n; i++)
        m->function[i] = (struct CUfunc_st){.kernel = &m->kernel[i], .context = m->context};
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUcontext context;
    fake_image head;
    const CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    memcpy(&head, image, sizeof head);
    if (head.magic != FAKE_MAGIC)
        return CUDA_ERROR_INVALID_IMAGE;
    if (head.ptx ? head.arch > fake.sm : head.arch != fake.sm)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    CUmodule m = calloc(1, sizeof *m);
    m->context = context;
    m->object = object_open((const char *)image + sizeof head, head.bytes);
    m->kernel = m->object ? dlsym(m->object, "fake_kernels") : NULL;
    if (!m->kernel) {
        free(m);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    functions_make(m);
    fake_object_add(FAKE_MODULE, m, context);
    *module = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    fake_object_remove(module);
    module_free(module);
    return rc;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    for (int i = 0; !rc && module->kernel[i].name; i++)
        if (!strcmp(module->kernel[i].name, name)) {
            *function = &module->function[i];
            return CUDA_SUCCESS;
        }
    return rc ? rc : CUDA_ERROR_NOT_FOUND;
}
