/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA plugin's own types. One file per part, each calling only files named after it: cuda_plugin.c (table); cuda_list.c (list of
 * devices, opening one); cuda_coll.c (collectives); nccl.c (NCCL); cuda_queue.c (streams, points, copies); cuda_program.c (launches,
 * graphs); cuda_profile.c (times of launches); product.c (products by cuBLASLt); cublaslt.c (that library); cuda_attention.c, flash.c,
 * conv_request.c, cudnn_conv.c (both by cuDNN), dnn.c, dnn_graph.c (their common part); cudnn.c (that library); cuda_build.c (units as
 * modules); fatbin.c (units that are built in); compile.c (NVRTC); cuda_memory.c (buffers, registered host memory); context.c;
 * cuda_error.c (of calls); driver.c (libcuda); cuda_host.c (the host's table). Which launches run a graph is decided by the kit
 * (plugins/kit/lower/lower.h).
 *
 * Every call of the driver that needs one has the device's context current (cuda_enter .. cuda_leave). This is the primary context, which
 * other libraries of the process use too. cuda_leave puts the caller's own back.
 */
#ifndef YOKE_BACKENDS_CUDA_CUDA_INTERNAL_H
#define YOKE_BACKENDS_CUDA_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <yoke/extension.h>
#include <yoke/plugin.h>

#include "backends/cuda/cuda_host.h"
#include "backends/cuda/driver.h"
#include "plugins/kit/kit_profile.h"
#include "plugins/kit/lower/lower.h"
#include "plugins/kit/units.h"

#define CUDA_ALIGN 256u /* the least that cuMemAlloc promises */

/* ---- cuda_error.c ---- */
/* A status for a failed call of the driver, explained to the host as "what: CUDA_ERROR_NAME (code), text". */
yk_status cuda_error(CUresult code, const char *what);
/* The same of a call of another library, in words. */
yk_status cuda_error_say(yk_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Error of a call of a library, in its words; in the driver's if the device is lost: a library knows only that it was not done. */
yk_status cuda_error_library(const yk_device *dev, yk_status status, const char *what, const char *library, const char *words, int code);
#define CUDA_ERROR_BYTES 300
const char *cuda_error_last(void); /* text of this thread's last cuda_error since .. */
void cuda_error_forget(void);      /* .. then; or "" */

/* ---- context.c ---- */
/* Makes the device's context this thread's; undone by cuda_leave. False after the host was told why. */
bool cuda_enter(const yk_device *dev, yk_status *s);
void cuda_leave(void);

/* ---- compile.c ---- */
/*
 * Compiles CUDA C++ for compute capability `sm` (90: 9.0) by NVRTC: to code of the chip, or to PTX, which the driver finishes, if NVRTC is
 * older than the chip. parts: texts that make one source. *image is the caller's (cuda_free). Any thread.
 */
yk_status cuda_compile(const char *const *parts, size_t n_part, const char *macros, int sm, char **image, size_t *bytes);
bool cuda_compiler_version(int version[2]); /* 12, 9: NVRTC 12.9; false: there is none */
uint64_t cuda_compiler_key(void); /* hash of what compiles: its version; 0 when there is none */
void cuda_compiler_forget(void);

/* ---- cuda_memory.c ---- */
struct yk_buffer {
    yk_device *dev;
    CUdeviceptr memory; /* 0: of no bytes */
    uint64_t bytes;
};

struct yk_pin {
    yk_device *dev;
    void *memory;
    bool shared; /* it was registered by somebody else, and is left so */
};

yk_status cuda_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **buffer);
void cuda_buffer_free(yk_buffer *buffer);
yk_status cuda_host_pin(yk_device *dev, void *memory, uint64_t bytes, yk_pin **pin);
void cuda_host_unpin(yk_pin *pin);
yk_status cuda_memory_alloc(yk_device *dev, uint64_t bytes, CUdeviceptr *memory); /* the context is current */

/* ---- product.c ---- */
typedef struct cuda_product cuda_product; /* one shape, planned; its device's */

typedef struct cuda_products {
    pthread_mutex_t lock; /* guards all below; plans do not change, but for the scales that a product of 8 bits is given */
    bool is_open;
    const struct cuda_cublaslt *lt;  /* NULL: it is not used */
    struct cublasLtContext *handle;  /* or this is */
    cuda_product *first;
} cuda_products;

#define CUDA_PRODUCT_ARGS 6 /* A, B, C, workspace; of 8 bits, the scales of A and B; then arguments of the work behind it */
#define CUDA_LIBRARY_ARGS 11 /* most arguments of a launch of a library */
bool cuda_product_take(yk_device *dev, const kit_product *shape, uint64_t *scratch); /* as kit_target.product; any thread */
/* The plan of a shape that was taken. */
const cuda_product *cuda_product_of(yk_device *dev, const kit_product *shape);
/* Enqueues it; the context is current. node: for messages. */
yk_status cuda_product_run(yk_device *dev, const cuda_product *product, const CUdeviceptr at[CUDA_PRODUCT_ARGS], uint32_t node,
                           CUstream stream);
void cuda_products_free(yk_device *dev);

/* ---- dnn.c ---- */
typedef struct cuda_dnn_plan cuda_dnn_plan; /* an attention or a convolution of one shape, planned; its device's */

typedef struct cuda_dnn {
    pthread_mutex_t lock; /* guards all below; plans do not change */
    bool is_open;
    const struct cuda_cudnn *library; /* NULL: it is not used */
    struct cudnnContext *handle;      /* or this is */
    cuda_dnn_plan *first;
} cuda_dnn;

/* Enqueues it; the context is current. node: for messages. */
yk_status cuda_dnn_run(yk_device *dev, const cuda_dnn_plan *plan, const CUdeviceptr at[CUDA_LIBRARY_ARGS], uint32_t node, CUstream stream);
void cuda_dnn_free(yk_device *dev);

/* ---- cuda_attention.c, conv_request.c ---- */
bool cuda_attention_take(yk_device *dev, const kit_attention *shape, uint64_t *scratch);     /* as kit_target.attention; any thread */
bool cuda_convolution_take(yk_device *dev, const kit_convolution *shape, uint64_t *scratch); /* the same */
/* The plan of a shape that was taken. */
const cuda_dnn_plan *cuda_attention_of(yk_device *dev, const kit_attention *shape);
const cuda_dnn_plan *cuda_convolution_of(yk_device *dev, const kit_convolution *shape);

/* ---- cuda_list.c ---- */
struct yk_device {
    CUdevice id;
    CUcontext context;
    kit_target target;    /* the numbers that decide about its launches */
    int sm;               /* compute capability: 90 is 9.0 */
    unsigned grid[3];     /* most blocks in x, y, z */
    atomic_bool graphs;   /* programs run as CUDA graphs; false, too, once one could not be made */
    bool tf32;            /* products of f32 may round their operands to TF32 */
    CUevent origin;       /* recorded when it was opened: the spans of its queues count from there */
    kit_units units;
    atomic_bool left_behind; /* a queue that hangs was: memory stays, as it may still be written to, and to free it would wait */
    cuda_products products;
    cuda_dnn dnn;
    bool profiles;        /* times of launches are measured, and printed at the end */
    pthread_mutex_t profile_lock;
    kit_profile profile;
};

yk_status cuda_device_count(uint32_t *n);
bool cuda_has_multicast(void); /* the switch of NVLink can add up for a device; true also if the driver does not say */
yk_status cuda_device_caps(uint32_t i, yk_device_caps *caps);
yk_status cuda_device_open(uint32_t i, yk_device **dev);
void cuda_device_close(yk_device *dev);
uint32_t cuda_device_claims(yk_device *dev, const yk_graph *graph, uint32_t node);

/* ---- cuda_profile.c ---- */
typedef struct cuda_marks cuda_marks; /* events of one program; the context is current */
cuda_marks *cuda_marks_new(size_t n); /* NULL: no memory, or no event */
void cuda_marks_free(cuda_marks *m);
CUresult cuda_marks_set(cuda_marks *m, size_t i, CUstream stream);
/* After a run: waits for it, and adds what lies between each two marks to what its launches took. */
CUresult cuda_marks_add(yk_device *dev, const cuda_marks *m, const yk_graph *graph, const kit_program *kit, CUstream stream);

/* ---- cuda_build.c ---- */
extern const kit_compiler cuda_units_compiler; /* the device's context is current */

/* ---- cuda_program.c ---- */
typedef struct cuda_scratch { /* scratch memory of a queue: its programs run one after the other */
    CUdeviceptr memory;
    uint64_t bytes;
} cuda_scratch;

yk_status cuda_program_new(yk_device *dev, const yk_graph *graph, yk_program **program);
void cuda_program_free(yk_program *program);
yk_status cuda_graph_scratch(yk_device *dev, const yk_graph *graph, uint64_t *bytes);
/* True if a submission can be run: each slot in use is bound, within its buffer, and aligned. Else the host gets an error. */
yk_status cuda_program_check(const yk_program *program, const yk_submit *s);
/* Enqueues all launches on `stream`. capture: of the same queue, never used for anything else. The context is current. */
yk_status cuda_program_run(yk_program *program, const yk_submit *s, CUstream stream, CUstream capture, cuda_scratch *scratch);

/* ---- cuda_queue.c ---- */
yk_status cuda_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **queue);
void cuda_queue_free(yk_queue *queue);
yk_status cuda_queue_run(yk_queue *queue, const yk_submit *s, uint64_t *point);
yk_status cuda_queue_copy(yk_queue *queue, const yk_copy *c, uint64_t *point);
yk_status cuda_queue_poll(yk_queue *queue, uint64_t *done);
yk_status cuda_queue_wait(yk_queue *queue, uint64_t point, uint64_t timeout_ns);
void cuda_queue_abort(yk_queue *queue, yk_status why);
/* A command's work on the queue's stream; the context is current. */
typedef yk_status (*cuda_command)(yk_queue *queue, CUstream stream, const void *what);
/* Enqueues a command behind the waits, and gives its point. A failure of it is the queue's. */
yk_status cuda_queue_command(yk_queue *queue, const yk_wait *wait, uint32_t n_wait, cuda_command command, const void *what,
                             uint64_t *point);
yk_status cuda_queue_span(yk_queue *queue, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns);

/* ---- cuda_coll.c ---- */
const yk_coll *cuda_coll(void); /* yk.coll.1 */

#endif
