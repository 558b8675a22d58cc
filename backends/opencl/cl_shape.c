/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects one of two families of kernels for a device. cl_list.c asks when it lists devices, in the host's thread. In the CPU shape a
 * work-item is a group by itself and computes in vectors, with blocks in local memory that is really cache. In the GPU shape groups have
 * many work-items. The wrong shape is ten times slower, and no property that a driver reports tells the right one. So a small product is
 * timed in both, once per device and driver, and the rates are stored (plugins/kit/kit_survey.h). A GPU is not timed: its lanes are
 * work-items. The option FAMILY overrides the choice.
 */
#include "backends/opencl/cl_shape.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/opencl/cl_survey.h"
#include "plugins/kit/kit_clock.h"

#define M 128
#define N 256
#define K 256
#define RUNS 5
#define MARGIN 1.2 /* advantage that the CPU shape needs, as its kernels take longer to compile */
#define ENOUGH_NS 100000000u /* limit of timing; a slow device is timed once */

typedef struct shape_gflops {
    double cpu, gpu; /* GFLOP/s; 0 if the kernels do not work here */
} shape_gflops;

/* ---- A product of ones ---- */

static const yk_slot slots[] = {{.bytes = M * K * 4}, {.bytes = K * N * 4}, {.bytes = M * N * 4}};
static const yk_value values[] = {
    {.dtype = YK_F32, .dims = 2, .base = 0, .slot = 0, .dim = {M, K}, .stride = {K, 1}},
    {.dtype = YK_F32, .dims = 2, .base = 1, .slot = 1, .dim = {K, N}, .stride = {N, 1}},
    {.dtype = YK_F32, .dims = 2, .base = 2, .slot = 2, .dim = {M, N}, .stride = {N, 1}},
};
static const yk_node nodes[] = {{.op = YK_OP_DOT, .n_in = 2, .n_out = 1, .in = 0, .out = 2}};
static const uint32_t operands[] = {0, 1, 2};
static const yk_graph product = {.size = sizeof product, .n_value = 3, .n_node = 1, .n_all_node = 1, .n_index = 3, .n_slot = 3,
                                 .value = values, .node = nodes, .index = operands, .slot = slots};

typedef struct shape_trial {
    yk_device *dev;
    yk_program *program;
    yk_queue *queue;
    yk_buffer *slot[3];
    float *host; /* as large as the largest slot */
} shape_trial;

static yk_status trial_fill(shape_trial *trial)
{
    uint64_t point;
    yk_status s = YK_OK;
    for (int i = 0; i < M * K || i < K * N || i < M * N; i++)
        trial->host[i] = 1;
    for (uint32_t i = 0; i < 3 && s == YK_OK; i++)
        s = ocl_queue_copy(trial->queue, &(yk_copy){.size = sizeof(yk_copy), .src_host = trial->host, .dst = trial->slot[i],
                                                .bytes = slots[i].bytes},
                           &point);
    return s;
}

static yk_status trial_open(shape_trial *trial, cl_device_id id, bool cpu_shape)
{
    const yk_queue_desc desc = {.size = sizeof desc, .kind = YK_QUEUE_COMPUTE};
    yk_status s = ocl_device_make(id, cpu_shape, false, &trial->dev);
    if (s == YK_OK)
        s = ocl_program_new(trial->dev, &product, &trial->program);
    if (s == YK_OK)
        s = ocl_queue_new(trial->dev, &desc, &trial->queue);
    for (uint32_t i = 0; i < 3 && s == YK_OK; i++)
        s = ocl_buffer_bytes(trial->dev, slots[i].bytes, &trial->slot[i]);
    trial->host = ocl_alloc((size_t)K * N * 4);
    return s == YK_OK ? trial->host ? trial_fill(trial) : YK_E_MEM : s;
}

static void trial_close(shape_trial *trial)
{
    ocl_free(trial->host);
    for (uint32_t i = 0; i < 3; i++)
        ocl_buffer_free(trial->slot[i]);
    ocl_queue_free(trial->queue);
    ocl_program_free(trial->program);
    ocl_device_close(trial->dev);
}

/* Seconds of one product; negative after a failure. */
static double trial_run(shape_trial *trial)
{
    const uint64_t zero[3] = {0}, begin = kit_now_ns();
    uint64_t point;
    const yk_submit s = {
        .size = sizeof s, .n_slot = 3, .program = trial->program, .slot = trial->slot, .slot_offset = zero, .slot_version = zero};
    if (ocl_queue_run(trial->queue, &s, &point) != YK_OK || ocl_queue_wait(trial->queue, point, UINT64_MAX) != YK_OK)
        return -1;
    return (double)(kit_now_ns() - begin) * 1e-9;
}

static bool trial_right(shape_trial *trial)
{
    const yk_copy back = {.size = sizeof back, .src = trial->slot[2], .dst_host = trial->host, .bytes = slots[2].bytes};
    uint64_t point;
    if (ocl_queue_copy(trial->queue, &back, &point) != YK_OK ||
        ocl_queue_wait(trial->queue, point, UINT64_MAX) != YK_OK)
        return false;
    for (int i = 0; i < M * N; i++)
        if (trial->host[i] != K)
            return false;
    return true;
}

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of a few runs, without the first, in which the driver may compile. 0 if it fails or gives wrong numbers. */
static double shape_rate(cl_device_id id, bool cpu_shape)
{
    shape_trial trial = {0};
    double seconds[RUNS], rate = 0;
    int n = 0;
    if (trial_open(&trial, id, cpu_shape) == YK_OK && trial_run(&trial) >= 0 && trial_right(&trial)) {
        const uint64_t begin = kit_now_ns();
        do
            seconds[n] = trial_run(&trial);
        while (seconds[n] >= 0 && ++n < RUNS && kit_now_ns() - begin < ENOUGH_NS);
    }
    if (n) {
        qsort(seconds, (size_t)n, sizeof *seconds, compare_seconds);
        rate = 2e-9 * M * N * K / seconds[n / 2];
    }
    trial_close(&trial);
    return rate;
}

/* ---- The choice ---- */

static shape_gflops shape_rates(cl_device_id id, uint64_t key)
{
    const kit_survey survey = ocl_survey();
    shape_gflops r;
    uint32_t bytes = 0;
    uint64_t age;
    if (key && kit_survey_read(&survey, "shape", key, &r, sizeof r, &bytes, &age) && bytes == sizeof r)
        return r;
    r.gpu = shape_rate(id, false);
    r.cpu = shape_rate(id, true);
    if (key)
        kit_survey_write(&survey, "shape", key, &r, sizeof r);
    return r;
}

static ocl_shape shape_measured(cl_device_id id, uint64_t key)
{
    const shape_gflops r = shape_rates(id, key);
    ocl_shape s = {.cpu = r.cpu > MARGIN * r.gpu};
    if (r.cpu > 0 && r.gpu > 0)
        snprintf(s.why, sizeof s.why, "measured: %.1f against %.1f GFLOP/s", s.cpu ? r.cpu : r.gpu, s.cpu ? r.gpu : r.cpu);
    else
        snprintf(s.why, sizeof s.why, "%s kernels do not work here", r.cpu > 0 ? "gpu" : r.gpu > 0 ? "cpu" : "either");
    return s;
}

/* Finds impossible shapes: the CPU shape without local memory, the GPU shape without groups. "" if both are possible. */
static void shape_limits(cl_device_id id, ocl_shape *cannot)
{
    const cl_ulong local = ocl_device_number(id, CL_DEVICE_LOCAL_MEM_SIZE), team = ocl_device_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    if (local < KIT_LOCAL_LEAST) {
        cannot->cpu = true;
        snprintf(cannot->why, sizeof cannot->why, "%llu KiB of local memory", (unsigned long long)local >> 10);
    } else if (team < KIT_GROUP_MOST) {
        cannot->cpu = false;
        snprintf(cannot->why, sizeof cannot->why, "groups of %llu at most", (unsigned long long)team);
    }
}

yk_status ocl_shape_choose(cl_device_id id, uint64_t key, ocl_shape *out)
{
    const char *family = ocl_option("FAMILY");
    const bool asked = family && strcmp(family, "auto");
    ocl_shape cannot = {0};
    shape_limits(id, &cannot);
    if (asked && cannot.why[0] && cannot.cpu == !strcmp(family, "cpu")) {
        char name[128];
        ocl_device_text(id, CL_DEVICE_NAME, name, sizeof name);
        ocl_host->fail(OCL_WHO, "YOKE_OPENCL_FAMILY=%s: %s cannot run these kernels: it has %s, and they need %s", family, name,
                       cannot.why, cannot.cpu ? "32 KiB" : "256");
        return YK_E_ARG;
    }
    if (asked) {
        *out = (ocl_shape){.cpu = !strcmp(family, "cpu"), .why = "YOKE_OPENCL_FAMILY"};
    } else if (cannot.why[0]) {
        *out = cannot;
        out->cpu = !cannot.cpu;
    } else if (ocl_device_number(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) {
        *out = (ocl_shape){.cpu = false, .why = "it is a GPU"};
    } else {
        *out = shape_measured(id, key);
    }
    return YK_OK;
}
