/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: those of all platforms that answer. No loader entry, no platform, a platform without devices: all normal.
 * What devices there are is answered from what an earlier process found, if that still holds (survey.c); the drivers are
 * loaded when a device is opened, or when there is no such answer.
 */
#include "backends/opencl/shape.h"
#include "backends/opencl/survey.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_PLATFORMS 16
#define MAX_DEVICES 64

typedef struct list_entry {
    cl_device_id id;
    ocl_shape shape;
} list_entry;

static struct {
    pthread_mutex_t lock;
    bool known, loaded;    /* how many and what they can do; and the drivers' own handles */
    bool refused;          /* the last device cannot do what an option asks */
    uint64_t key, drivers; /* of what is kept about the devices; about the drivers alone, whatever the cores */
    uint32_t n;
    list_entry dev[MAX_DEVICES];
    yk_device_caps caps[MAX_DEVICES];
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool device_usable(cl_device_id id)
{
    return ocl_device_number(id, CL_DEVICE_AVAILABLE) && ocl_device_number(id, CL_DEVICE_COMPILER_AVAILABLE) &&
           ocl_device_number(id, CL_DEVICE_ENDIAN_LITTLE);
}

static void list_platform(cl_platform_id platform)
{
    cl_device_id id[MAX_DEVICES];
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, id, &n) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < n && i < MAX_DEVICES && list.n < MAX_DEVICES; i++)
        if (device_usable(id[i]))
            list.dev[list.n++] = (list_entry){.id = id[i]};
}

static uint32_t device_align(cl_device_id id)
{
    uint32_t bytes = (uint32_t)ocl_device_number(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, align = 64;
    while (align < bytes && align < 4096)
        align *= 2;
    return align;
}

static void caps_fill(const list_entry *l, yk_device_caps *c)
{
    const ocl_shape shape = l->shape;
    char version[128]; /* "OpenCL 3.0 and the driver's own words" */
    bool cpu = ocl_device_number(l->id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
    ocl_device_text(l->id, CL_DEVICE_NAME, c->name, sizeof c->name);
    ocl_device_text(l->id, CL_DEVICE_VERSION, version, sizeof version);
    const size_t first = strcspn(version, " "), both = first + strcspn(version + first + (version[first] != 0), " ");
    version[both + (version[first] != 0)] = 0;
    snprintf(c->isa, sizeof c->isa, "%.10s, %s kernels (%.37s)", version, shape.cpu ? "cpu" : "gpu", shape.why);
    c->flags = YK_CAP_DETERMINISTIC | (cpu ? YK_CAP_CPU : 0u);
    c->mem_total = c->mem_free = ocl_device_number(l->id, CL_DEVICE_GLOBAL_MEM_SIZE);
    c->max_alloc = ocl_device_number(l->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    c->align = device_align(l->id);
    c->units = (uint32_t)ocl_device_number(l->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    c->store = 1u << YK_F32 | 1u << YK_F16 | 1u << YK_BF16 | 1u << YK_I32 | 1u << YK_U8 | 1u << YK_BOOL;
    c->compute = 1u << YK_F32 | 1u << YK_F16 | 1u << YK_BF16 | 1u << YK_I32;
}

/* Whether host memory is used in place can only be tried; a context costs milliseconds. */
static bool device_in_place(const list_entry *l)
{
    cl_int rc;
    cl_context ctx = NULL;
    bool in_place = false;
    if (ocl_device_number(l->id, CL_DEVICE_HOST_UNIFIED_MEMORY))
        ctx = clCreateContext(NULL, 1, &l->id, NULL, NULL, &rc);
    if (ctx) {
        in_place = ocl_memory_in_place(ctx, l->id);
        clReleaseContext(ctx);
    }
    return in_place;
}

/* What a measured shape depends on beside the drivers. */
static uint64_t shape_key(cl_device_id id)
{
    const cl_ulong local = ocl_device_number(id, CL_DEVICE_LOCAL_MEM_SIZE);
    return list.drivers ? kit_hash(list.drivers ^ ocl_device_identity(id), &local, sizeof local) : 0;
}

static yk_status device_shape(list_entry *l)
{
    return ocl_shape_choose(l->id, shape_key(l->id), &l->shape);
}

static void list_drivers(void)
{
    cl_platform_id platform[MAX_PLATFORMS];
    cl_uint n = 0;
    ocl_signals *signals = ocl_signals_save();
    list.n = 0;
    if (clGetPlatformIDs(MAX_PLATFORMS, platform, &n) != CL_SUCCESS)
        n = 0;
    for (cl_uint i = 0; i < n && i < MAX_PLATFORMS; i++)
        list_platform(platform[i]);
    memset(list.caps, 0, sizeof list.caps);
    list.refused = false;
    for (uint32_t i = 0; i < list.n && !list.refused; i++) {
        if (device_shape(&list.dev[i]) != YK_OK) {
            list.refused = true;
            list.n = i + 1;
        }
        caps_fill(&list.dev[i], &list.caps[i]);
        if (device_in_place(&list.dev[i]))
            list.caps[i].flags |= YK_CAP_HOST_VISIBLE | YK_CAP_WRAP;
    }
    ocl_signals_restore(signals);
}

/* Loads the drivers. What they say replaces what an earlier process found. */
static void list_load(void)
{
    ocl_env_setup();
    ocl_probe_drivers();
    list_drivers();
    ocl_probe_done();
    if (list.key && !list.refused)
        ocl_survey_write("devices", list.key, list.caps, list.n * (uint32_t)sizeof *list.caps);
    list.known = list.loaded = true;
}

static bool list_recall(void)
{
    uint64_t age;
    uint32_t bytes = 0;
    list.drivers = list.key = ocl_probe_key();
    if (!list.drivers)
        return false;
    list.key = ocl_survey_key_devices(list.drivers);
    if (!ocl_probe_believed() || !ocl_survey_read("devices", list.key, list.caps, sizeof list.caps, &bytes, &age))
        return false;
    list.n = bytes / (uint32_t)sizeof *list.caps;
    list.known = true;
    return true;
}

static void list_need(bool loaded)
{
    pthread_mutex_lock(&list.lock);
    if (!list.known && !list_recall())
        list_load();
    if (loaded && !list.loaded)
        list_load();
    pthread_mutex_unlock(&list.lock);
}

/* Asked again, so that the host is told why again; nothing is measured then. */
static yk_status list_refusal(void)
{
    return list.refused ? device_shape(&list.dev[list.n - 1]) : YK_OK;
}

void ocl_devices_forget(void)
{
    list.refused = false;
    list.known = list.loaded = false;
    list.n = 0;
}

yk_status ocl_device_count(uint32_t *n)
{
    list_need(false);
    *n = list.n;
    return list_refusal();
}

static yk_status device_known(uint32_t i, bool loaded)
{
    list_need(loaded);
    if (list.refused)
        return list_refusal();
    if (i < list.n)
        return YK_OK;
    ocl_host->fail(OCL_WHO, "device %u: there are %u", i, list.n);
    return YK_E_ARG;
}

yk_status ocl_device_caps(uint32_t i, yk_device_caps *caps)
{
    yk_device_caps c;
    yk_status s = device_known(i, false);
    if (s != YK_OK)
        return s;
    c = list.caps[i];
    c.size = caps->size < sizeof c ? caps->size : (uint32_t)sizeof c;
    memcpy(caps, &c, c.size);
    return YK_OK;
}

yk_status ocl_device_open(uint32_t i, yk_device **dev)
{
    yk_status s = device_known(i, true);
    if (s != YK_OK)
        return s;
    ocl_signals *signals = ocl_signals_save();
    s = ocl_device_make(list.dev[i].id, list.dev[i].shape.cpu, list.caps[i].flags & YK_CAP_WRAP, dev);
    ocl_signals_restore(signals);
    return s;
}
