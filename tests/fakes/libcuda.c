/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's first part: failing on purpose, devices and their primary contexts, memory, modules. */
#define _GNU_SOURCE
#include "tests/fakes/libcuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK 16

#define X(member, symbol, parameters) FAKE_EXPORT CUresult symbol parameters;
CUDA_DRIVER_TABLE(X)
#undef X

/* A piece of memory: of a device (address with the tag), or of the host's (page-locked, registered). */
typedef struct piece {
    struct piece *next;
    uint64_t address;
    size_t bytes;
    bool on_device, own; /* own: of the host's, allocated here */
    void *memory;        /* of a device's: where it lies, for a checker of leaks, which does not know the tag */
    CUcontext context;
} piece;

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .fail_code = CUDA_ERROR_UNKNOWN};
static piece *pieces; /* under the lock */
static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;

char *fake_host(CUdeviceptr address)
{
    return (char *)(uintptr_t)(address & ~FAKE_TAG);
}

int fake_cuda_device(void)
{
    return depth ? (int)(stack[depth - 1] - fake.device) : -1;
}

void *fake_cuda_memory(unsigned long long memory, size_t bytes)
{
    pthread_mutex_lock(&fake.lock);
    const bool good = fake_memory_covers(memory, bytes);
    pthread_mutex_unlock(&fake.lock);
    return good ? fake_host(memory) : NULL;
}

/* ---- Failing on purpose ---- */

uint64_t fake_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

bool fake_call_counted(const char *name, CUresult *rc)
{
    pthread_mutex_lock(&fake.lock);
    const bool fails = ++fake.calls == fake.fail_at;
    fake.failed = fails ? name : fake.failed;
    *rc = fails ? (CUresult)fake.fail_code : CUDA_SUCCESS;
    pthread_mutex_unlock(&fake.lock);
    return fails;
}

CUcontext fake_context_now(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult fake_context_begin(const char *name, CUcontext *context)
{
    CUresult rc;
    *context = fake_context_now();
    if (fake_call_counted(name, &rc))
        return rc;
    if (!fake.begun)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake.lock);
    rc = (CUresult)(*context)->lost;
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

/* ---- What was made ---- */

static fake_object *objects; /* under the lock */

void fake_object_add(fake_kind kind, void *object, CUcontext context)
{
    fake_object *own = malloc(sizeof *own);
    pthread_mutex_lock(&fake.lock);
    *own = (fake_object){.next = objects, .object = object, .context = context, .kind = kind};
    objects = own;
    pthread_mutex_unlock(&fake.lock);
}

void fake_object_remove(void *object)
{
    fake_object *found = NULL;
    pthread_mutex_lock(&fake.lock);
    for (fake_object **at = &objects; *at && !found; at = found ? at : &(*at)->next)
        if ((*at)->object == object) {
            found = *at;
            *at = found->next;
        }
    pthread_mutex_unlock(&fake.lock);
    free(found);
}

void fake_context_settle(CUcontext context)
{
    const struct CUstream_st *null_stream = fake.null_stream[context - fake.device];
    for (bool busy = true; busy;) {
        busy = null_stream->done < null_stream->given;
        for (const fake_object *o = objects; o && !busy; o = o->next) {
            const struct CUstream_st *s = o->object;
            busy = o->kind == FAKE_STREAM && o->context == context && s->done < s->given;
        }
        if (busy)
            pthread_cond_wait(&fake.changed, &fake.lock);
    }
}

static uint64_t live_count(void)
{
    uint64_t n = 0;
    for (const fake_object *o = objects; o; o = o->next)
        n++;
    for (const piece *p = pieces; p; p = p->next)
        n++;
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

const char *fake_cuda_failed(void)
{
    return fake.failed ? fake.failed : "";
}

void fake_cuda_fail(uint64_t n, int code)
{
    pthread_mutex_lock(&fake.lock);
    fake.fail_at = n ? fake.calls + n : 0;
    fake.fail_code = code;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_hang(uint64_t n)
{
    pthread_mutex_lock(&fake.lock);
    fake.hang_at = n ? fake.kernels + n : 0;
    fake.released = false;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_lose(uint64_t n)
{
    pthread_mutex_lock(&fake.lock);
    fake.lose_at = n ? fake.launches + n : 0;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_release(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.released = true;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

/* ---- The driver ---- */

/* Under the lock. */
static void state_begin(void)
{
    if (fake.begun)
        return;
    fake.begun = true;
    fake.n = (int)fake_env("FAKE_CUDA_DEVICES", 2);
    fake.n = fake.n > FAKE_DEVICES ? FAKE_DEVICES : fake.n;
    fake.sm = (int)fake_env("FAKE_CUDA_SM", 90);
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
    return flags ? CUDA_ERROR_INVALID_VALUE : fake.n ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    CUresult rc;
    *version = 12090;
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
    *count = fake.n;
    return fake_call_fails(&rc) ? rc : fake.begun ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int number)
{
    *device = number;
    return device_begin(number);
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
        *value = 2;
        return rc;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = fake.sm / 10;
        return rc;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = fake.sm % 10;
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
    void *object = NULL;
    pthread_mutex_lock(&fake.lock);
    for (const fake_object *o = objects; o && !object; o = o->next)
        object = o->context == context && o->kind == kind ? o->object : NULL;
    fake.abandoned += object != NULL;
    if (object && kind == FAKE_EVENT)
        fake_event_release(object);
    pthread_mutex_unlock(&fake.lock);
    if (!object)
        return false;
    fake_object_remove(object);
    if (kind == FAKE_STREAM)
        fake_stream_stop(object);
    else if (kind == FAKE_MODULE)
        module_free(object);
    else if (kind == FAKE_CAPTURED)
        fake_graph_free(object);
    else if (kind == FAKE_EXEC)
        fake_exec_free(object);
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
    for (piece **at = &pieces; *at;) {
        piece *p = *at;
        if (p->on_device && p->context == context) {
            *at = p->next;
            free(fake_host(p->address));
            free(p);
            fake.abandoned++;
        } else {
            at = &p->next;
        }
    }
    context->used = 0;
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

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CUresult rc;
    if (fake_call_fails(&rc))
        return rc;
    if (!context || depth == STACK)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    CUresult rc;
    const bool fails = fake_call_fails(&rc);
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return fails ? rc : CUDA_SUCCESS;
}

/* ---- Memory ---- */

static piece *piece_find(uint64_t address, size_t bytes, bool on_device)
{
    for (piece *p = pieces; p; p = p->next)
        if (p->on_device == on_device && address >= p->address && address - p->address <= p->bytes &&
            bytes <= p->bytes - (address - p->address))
            return p;
    return NULL;
}

bool fake_memory_covers(CUdeviceptr address, size_t bytes)
{
    return piece_find(address, bytes, true) != NULL;
}

bool fake_is_pinned(const void *memory, size_t bytes)
{
    return piece_find((uint64_t)(uintptr_t)memory, bytes, false) != NULL;
}

static void piece_add(piece p)
{
    piece *own = malloc(sizeof *own);
    *own = p;
    own->next = pieces;
    pieces = own;
}

/* Takes the piece that begins there off the list; a zero one if there is none. */
static piece piece_take(uint64_t address, bool on_device)
{
    piece found = {.bytes = 0};
    for (piece **at = &pieces; *at; at = &(*at)->next)
        if ((*at)->address == address && (*at)->on_device == on_device) {
            piece *p = *at;
            found = *p;
            *at = p->next;
            free(p);
            break;
        }
    return found;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    *free_bytes = context->memory - context->used;
    *total_bytes = context->memory;
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    CUcontext context;
    void *own = NULL;
    CUresult rc = fake_call_begin(&context);
    if (rc || !bytes)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    if (bytes > context->memory - context->used || posix_memalign(&own, 512, bytes)) {
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        memset(own, 0xa5, bytes);
        context->used += bytes;
        *memory = (uint64_t)(uintptr_t)own | FAKE_TAG;
        piece_add((piece){.address = *memory, .bytes = bytes, .on_device = true, .memory = own, .context = context});
    }
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

/* What fails here is freed all the same: a driver that is asked to free has nothing else to say than earlier failures. */
CUresult cuMemFree_v2(CUdeviceptr memory)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    pthread_mutex_lock(&fake.lock);
    if (context)
        fake_context_settle(context); /* as the driver does */
    const piece p = piece_take(memory, true);
    if (p.bytes) {
        p.context->used -= p.bytes;
        free(fake_host(p.address));
    }
    pthread_mutex_unlock(&fake.lock);
    return rc ? rc : p.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    CUcontext context;
    CUresult rc = fake_call_begin(&context);
    (void)flags;
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    if (posix_memalign(memory, 4096, bytes))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    else
        piece_add((piece){.address = (uint64_t)(uintptr_t)*memory, .bytes = bytes, .own = true});
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

CUresult cuMemFreeHost(void *memory)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    pthread_mutex_lock(&fake.lock);
    const piece p = piece_take((uint64_t)(uintptr_t)memory, false);
    pthread_mutex_unlock(&fake.lock);
    if (p.own)
        free(memory);
    return rc ? rc : p.own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    CUcontext context;
    CUresult rc = fake_call_begin(&context);
    (void)flags;
    if (rc || !memory || !bytes)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    if (fake_is_pinned(memory, bytes))
        rc = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else
        piece_add((piece){.address = (uint64_t)(uintptr_t)memory, .bytes = bytes});
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

CUresult cuMemHostUnregister(void *memory)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    pthread_mutex_lock(&fake.lock);
    const piece p = piece_take((uint64_t)(uintptr_t)memory, false);
    pthread_mutex_unlock(&fake.lock);
    return rc ? rc : p.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
