/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of devices of all OpenCL platforms that answer. The host calls it through the table in cl_plugin.c. No loader entry, no
 * platform, a platform without devices: all are normal.
 *
 * The list comes from an earlier process's answer, if that is still valid. The drivers are loaded when a device is opened, or without such
 * an answer (plugins/kit/devices.h).
 */
#include "backends/opencl/cl_shape.h"
#include "backends/opencl/cl_survey.h"

#include <stdio.h>
#include <stdlib.h>

#include "plugins/kit/devices.h"
#include "plugins/kit/plugin.h"

#define MAX_PLATFORMS 16

typedef struct list_entry {
    cl_device_id id;
    ocl_shape shape;
} list_entry;

static uint64_t devices_key(void);
static bool devices_load(void);

static list_entry entry[KIT_DEVICES]; /* filled once the drivers are loaded */
static uint64_t drivers_key;          /* key of stored facts about the drivers, independent of the cores */
static bool refused;                  /* the last device cannot do what an option requests */
static kit_devices list = {.survey = ocl_survey,
                           .find_key = devices_key,
                           .drivers_known = ocl_probe_known,
                           .load = devices_load,
                           .lock = PTHREAD_MUTEX_INITIALIZER};

static bool device_usable(cl_device_id id)
{
    return ocl_device_number(id, CL_DEVICE_AVAILABLE) && ocl_device_number(id, CL_DEVICE_COMPILER_AVAILABLE) &&
           ocl_device_number(id, CL_DEVICE_ENDIAN_LITTLE);
}

static void list_platform(cl_platform_id platform)
{
    cl_device_id id[KIT_DEVICES];
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, KIT_DEVICES, id, &n) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < n && i < KIT_DEVICES && list.n < KIT_DEVICES; i++)
        if (device_usable(id[i]))
            entry[list.n++] = (list_entry){.id = id[i]};
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
    char version[128]; /* "OpenCL 3.0", then the driver's own text */
    bool cpu = ocl_device_number(l->id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
    ocl_device_text(l->id, CL_DEVICE_NAME, c->name, sizeof c->name);
    ocl_device_place(l->id, c->locality);
    ocl_device_text(l->id, CL_DEVICE_VERSION, version, sizeof version);
    const size_t first = strcspn(version, " "), both = first + strcspn(version + first + (version[first] != 0), " ");
    version[both + (version[first] != 0)] = 0;
    snprintf(c->isa, sizeof c->isa, "%.10s, %s kernels (%.37s)", version, shape.cpu ? "cpu" : "gpu", shape.why);
    c->flags = YK_CAP_DETERMINISTIC | YK_CAP_LONG_SUMS | (cpu ? YK_CAP_CPU : 0u);
    c->mem_total = ocl_device_number(l->id, CL_DEVICE_GLOBAL_MEM_SIZE); /* OpenCL has no query of free memory */
    c->max_alloc = ocl_device_number(l->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    if (c->mem_total && c->max_alloc > c->mem_total)
        c->max_alloc = c->mem_total;
    c->align = device_align(l->id);
    c->units = (uint32_t)ocl_device_number(l->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    c->store = KIT_STORE;
    c->compute = KIT_COMPUTE;
}

/* Tests if the device uses host memory in place. Only a trial shows it; a context costs milliseconds. */
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

/* Key of a measured shape: everything that it depends on beside the drivers. */
static uint64_t shape_key(cl_device_id id)
{
    const cl_ulong local = ocl_device_number(id, CL_DEVICE_LOCAL_MEM_SIZE);
    return drivers_key ? kit_hash(drivers_key ^ ocl_device_identity(id), &local, sizeof local) : 0;
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
    refused = false;
    for (uint32_t i = 0; i < list.n && !refused; i++) {
        if (device_shape(&entry[i]) != YK_OK) {
            refused = true;
            list.n = i + 1;
        }
        caps_fill(&entry[i], &list.caps[i]);
        if (device_in_place(&entry[i]))
            list.caps[i].flags |= YK_CAP_HOST_VISIBLE | YK_CAP_WRAP;
    }
    ocl_signals_restore(signals);
}

static bool devices_load(void)
{
    ocl_env_setup();
    ocl_probe_drivers();
    list_drivers();
    ocl_probe_done();
    return !refused;
}

static uint64_t devices_key(void)
{
    const kit_survey survey = ocl_survey();
    drivers_key = ocl_probe_key();
    return drivers_key ? kit_survey_key_devices(&survey, drivers_key) : 0;
}

/* Repeats the choice for its error text; measures nothing. */
static yk_status list_refusal(void)
{
    return refused ? device_shape(&entry[list.n - 1]) : YK_OK;
}

void ocl_devices_forget(void)
{
    refused = false;
    kit_devices_forget(&list);
}

yk_status ocl_device_count(uint32_t *n)
{
    kit_devices_need(&list, false);
    *n = list.n;
    return list_refusal();
}

static yk_status device_known(uint32_t i, bool loaded)
{
    kit_devices_need(&list, loaded);
    return refused ? list_refusal() : kit_devices_find(&list, i, loaded);
}

yk_status ocl_device_caps(uint32_t i, yk_device_caps *caps)
{
    const yk_status s = device_known(i, false);
    if (!s)
        kit_caps_give(caps, &list.caps[i]);
    return s;
}

yk_status ocl_device_open(uint32_t i, yk_device **dev)
{
    yk_status s = device_known(i, true);
    if (s)
        return s;
    ocl_signals *signals = ocl_signals_save();
    s = ocl_device_make(entry[i].id, entry[i].shape.cpu, list.caps[i].flags & YK_CAP_WRAP, dev);
    ocl_signals_restore(signals);
    return s;
}
