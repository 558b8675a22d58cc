/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL plugin's own types. One file per part, and each calls only parts named after it: cl_plugin.c (table); cl_list.c (list of
 * devices); cl_shape.c (kernel family of a device); cl_queue.c; cl_program.c (launches of the kit as kernel objects);
 * cl_build.c (compiling and the cache of binaries); cl_watch.c; cl_memory.c; cl_device.c (an open device); cl_probe.c (drivers tried in a
 * child process); cl_survey.h (stored answers); env.c (environment, signals); cl_options.c; cl_host.c.
 * The kit selects the launches of a graph (plugins/kit/lower/lower.h).
 */
#ifndef YOKE_BACKENDS_OPENCL_OCL_H
#define YOKE_BACKENDS_OPENCL_OCL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <yoke/plugin.h>

#include "plugins/kit/lower/lower.h"
#include "plugins/kit/units.h"

#define OCL_WHO "opencl"
#define OCL_VERSION "0.1.0"

/* ---- cl_host.c ---- */
/* The host's table, NULL before init. */
extern const yk_host *ocl_host;

void *ocl_alloc(size_t bytes); /* zeroed; NULL after telling the host */
void ocl_free(void *p);
/* A status for a failed OpenCL call, explained to the host as "what: CL_NAME (code)". */
yk_status ocl_error(cl_int code, const char *what);
const char *ocl_error_name(cl_int code);
bool ocl_finish(cl_command_queue q); /* waits for all its commands */

/* ---- cl_options.c ---- */
const char *ocl_option(const char *key); /* NULL if unset or empty */
yk_status ocl_options_check(void);       /* YK_E_ARG, explained, for an unknown name or value */

/* ---- env.c, cl_probe.c ---- */
typedef struct ocl_signals ocl_signals;
ocl_signals *ocl_signals_save(void); /* NULL is harmless */
void ocl_signals_restore(ocl_signals *s);
void ocl_env_setup(void);    /* before the first OpenCL call: caches, cores */
uint64_t ocl_probe_key(void); /* key of the present drivers, before the environment is set up; 0 without a driver */
bool ocl_probe_known(void); /* true if stored results for these drivers are recent enough, or probing is off */
void ocl_probe_drivers(void); /* excludes drivers that abort or hang */
void ocl_probe_done(void);    /* called after the loader has read its entries */

/* ---- cl_device.c ---- */
struct yk_device {
    cl_device_id id;
    cl_context ctx;
    char name[64];
    kit_target target;    /* properties that select its launches */
    bool visible;         /* host memory is used in place */
    kit_units units;
    atomic_bool left_behind; /* a hanging queue was left behind: buffers keep their memory, as the device may still write there */
    _Atomic uint64_t compiling_ns; /* total so far; below: the user has got a line (cl_watch.c) */
    atomic_bool compiling_reported;
};

cl_ulong ocl_device_number(cl_device_id id, cl_device_info what); /* 0 if unknown */
void ocl_device_text(cl_device_id id, cl_device_info what, char *text, size_t n);
/* in_place: host memory is used without copies. Close it with ocl_device_close. */
yk_status ocl_device_make(cl_device_id id, bool cpu_shape, bool in_place, yk_device **dev);
void ocl_device_close(yk_device *dev);
uint64_t ocl_device_identity(cl_device_id id); /* hash of device, driver, platform */
uint32_t ocl_device_claims(yk_device *dev, const yk_graph *graph, uint32_t node);

/* ---- cl_place.c ---- */
void ocl_device_place(cl_device_id id, char text[64]); /* text stays as it is if the place is unknown */

/* ---- cl_list.c ---- */
yk_status ocl_device_count(uint32_t *n);
yk_status ocl_device_caps(uint32_t i, yk_device_caps *caps);
yk_status ocl_device_open(uint32_t i, yk_device **dev);
void ocl_devices_forget(void);

/* ---- cl_memory.c ---- */
struct yk_buffer {
    yk_device *dev;
    cl_mem mem;
    void *host; /* its address in host memory, or NULL */
    bool owned; /* the plugin frees host */
    uint64_t bytes;
    uint64_t serial; /* from 1 on, of no other buffer: a driver may give mem's handle again */
};
yk_status ocl_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b);
yk_status ocl_buffer_bytes(yk_device *dev, uint64_t bytes, yk_buffer **b);
yk_status ocl_buffer_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **b);
void ocl_buffer_free(yk_buffer *b);
void *ocl_buffer_map(yk_buffer *b);
bool ocl_memory_in_place(cl_context ctx, cl_device_id id); /* true if the device uses host memory without copies */

/* ---- cl_watch.c ---- */
typedef struct ocl_watch { /* around a call in which the driver may compile; lives on the caller's stack */
    yk_device *dev;
    uint64_t begin;
    pthread_t thread;
    pthread_mutex_t lock; /* guards over */
    pthread_cond_t ended;
    bool waits, over;
} ocl_watch;
void ocl_watch_begin(ocl_watch *watch, yk_device *dev);
void ocl_watch_end(ocl_watch *watch);

/* ---- cl_build.c ---- */
extern const kit_compiler ocl_units_compiler;

/* ---- cl_program.c ---- */
typedef struct ocl_launch {
    cl_kernel kernel;
    cl_uint dims;
    size_t global[3], local[3];
    uint32_t node;
} ocl_launch;

typedef struct ocl_bind { /* kernel arguments `at`, at + 1 = (memory, element offset) */
    uint32_t launch, at;
    kit_arg arg;
} ocl_bind;

struct yk_program {
    yk_device *dev;
    const yk_graph *graph;
    ocl_launch *launch;
    ocl_bind *bind; /* memory arguments */
    size_t n_launch, n_bind;
    uint64_t scratch_bytes, scratch_serial; /* serial: that of the scratch memory last set in the kernels */
    cl_mem meta;
    uint64_t *bound; /* per slot: serial of the buffer last set in the kernels, or 0 */
    uint64_t *bound_offset;
    bool ran;
    pthread_mutex_t lock;
};

typedef struct ocl_scratch { /* scratch memory of a queue */
    yk_buffer *buffer;
    uint64_t bytes;
} ocl_scratch;
void ocl_scratch_free(ocl_scratch *s);

yk_status ocl_program_new(yk_device *dev, const yk_graph *graph, yk_program **program);
yk_status ocl_graph_scratch(yk_device *dev, const yk_graph *graph, uint64_t *bytes);
void ocl_program_free(yk_program *program);
/* Enqueues all launches; *last is the event of the last one (NULL without launches). */
yk_status ocl_program_run(yk_program *program, const yk_submit *s, cl_command_queue q, ocl_scratch *scratch, cl_uint n_wait,
                          const cl_event *wait, cl_event *last);

/* ---- cl_queue.c ---- */
yk_status ocl_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q);
void ocl_queue_free(yk_queue *q);
yk_status ocl_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point);
yk_status ocl_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point);
yk_status ocl_queue_poll(yk_queue *q, uint64_t *done);
yk_status ocl_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns);
void ocl_queue_abort(yk_queue *q, yk_status why);

#endif
