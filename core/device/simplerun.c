/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a graph that the small planner (simple.c) planned, once, on a device, with its own buffers. Also converts single elements of any
 * type to and from double.
 *
 * The start-up probe (probe.c), the timed product (pace.c) and yoke-cts call it in the thread that opened the device. It returns when the
 * device is done.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/device/compiling.h"
#include "core/device/device_internal.h"
#include "core/device/simple.h"

typedef struct run {
    const yk__simple *s;
    yk__device *dev;
    yk_program *program;
    yk_buffer **buffer;
    uint64_t *zero; /* offsets and versions, all 0 */
    uint64_t point;
} run;

uint32_t yk__simple_claims(void *device, const yk_graph *g, uint32_t node)
{
    return yk__device_claims(device, g, node);
}

static yk_status run_fail(const run *r, yk_status status, const char *what, yk_error *err)
{
    return status ? yk__plugin_fail(err, r->dev->plugin, status, what) : YK_OK;
}

static yk_status run_prepare(run *r, void *const *slot, yk_error *err)
{
    const yk_graph *g = &r->s->abi;
    r->buffer = yk__calloc(g->n_slot, sizeof *r->buffer);
    r->zero = yk__calloc(g->n_slot, sizeof *r->zero);
    if (!r->buffer || !r->zero)
        return yk__fail_mem(err, g->n_slot * sizeof *r->zero, "the slots of a check");
    yk__compiling c;
    yk__compiling_begin(&c, r->dev, "trial program", 1);
    yk__compiling_next(&c, g, &r->program, err);
    yk__compiling_end(&c);
    if (err->status)
        return err->status;
    for (uint32_t i = 0; i < g->n_slot; i++)
        if (yk__device_buffer(r->dev, g->slot[i].bytes, &r->buffer[i], err) ||
            yk__device_put(r->dev, r->buffer[i], 0, slot[i], g->slot[i].bytes, &r->point, err))
            return err->status;
    return YK_OK;
}

static yk_status run_enqueue(run *r, yk_error *err)
{
    const yk_submit sub = {.size = sizeof sub,
                           .n_slot = r->s->abi.n_slot,
                           .program = r->program,
                           .slot = r->buffer,
                           .slot_offset = r->zero,
                           .slot_version = r->zero};
    yk__host_message_clear();
    return run_fail(r, r->dev->table->queue_run(r->dev->queue, &sub, &r->point), "running", err);
}

static yk_status run_submit(run *r, void *const *slot, yk_error *err)
{
    const yk_graph *g = &r->s->abi;
    if (run_enqueue(r, err))
        return err->status;
    for (uint32_t i = 0; i < g->n_slot; i++)
        if (yk__device_get(r->dev, r->buffer[i], 0, slot[i], g->slot[i].bytes, &r->point, err))
            return err->status;
    return yk__device_wait(r->dev, r->point, NULL, err);
}

/* Queued work must end before its memory is freed. */
static void run_drain(run *r, const yk_error *err)
{
    if (err->status && r->point)
        yk__device_drain(r->dev, r->point);
}

static void run_release(run *r, const yk_error *err)
{
    run_drain(r, err);
    if (r->program)
        r->dev->table->program_free(r->program);
    for (uint32_t i = 0; r->buffer && i < r->s->abi.n_slot; i++)
        if (r->buffer[i])
            r->dev->table->buffer_free(r->buffer[i]);
    yk__free(r->buffer);
    yk__free(r->zero);
}

yk_status yk__simple_runs(const yk__simple *s, yk__device *dev, void *const *slot, uint32_t runs, yk_error *err)
{
    run r = {.s = s, .dev = dev};
    yk_status st = run_prepare(&r, slot, err);
    for (uint32_t i = 1; i < runs && !st; i++)
        st = run_enqueue(&r, err);
    if (!st)
        run_submit(&r, slot, err);
    run_release(&r, err);
    return err->status;
}

yk_status yk__simple_run(const yk__simple *s, yk__device *dev, void *const *slot, yk_error *err)
{
    return yk__simple_runs(s, dev, slot, 1, err);
}

yk_status yk__simple_time(const yk__simple *s, yk__device *dev, void *const *slot, uint32_t runs, double most, void (*await)(void *arg),
                          void *arg, double *least, double *mean, yk_error *err)
{
    run r = {.s = s, .dev = dev};
    double began, took = 0, spent = 0;
    if (run_prepare(&r, slot, err) == YK_OK && run_enqueue(&r, err) == YK_OK && yk__device_wait(dev, r.point, NULL, err) == YK_OK && await)
        await(arg);
    *least = *mean = 0;
    for (uint32_t i = 0; i < runs && spent < most && !err->status; i++) {
        began = yk__clock_seconds();
        if (!run_enqueue(&r, err))
            yk__device_wait(dev, r.point, NULL, err);
        took = yk__clock_seconds() - began;
        spent += took;
        *least = i && *least < took ? *least : took;
        *mean = spent / (i + 1);
    }
    run_release(&r, err);
    return err->status;
}

/* ---- Elements ------------------------------------------------------------------------------------------------------------- */

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* 2^e, for e of normal doubles, faster than ldexp. */
static double double_power(int e)
{
    const uint64_t u = (uint64_t)(e + 1023) << 52;
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static double from_f16(uint16_t h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? (1024 + m) * double_power(e - 25) : m * 0x1p-24;
    return h >> 15 ? -v : v;
}

double yk__element(const void *data, uint32_t dtype, uint64_t i)
{
    uint16_t h = 0;
    if (dtype == YK_F16 || dtype == YK_BF16)
        memcpy(&h, (const uint8_t *)data + 2 * i, 2);
    switch (dtype) {
    case YK_F32:
        return ((const float *)data)[i];
    case YK_F64:
        return ((const double *)data)[i];
    case YK_I32:
        return ((const int32_t *)data)[i];
    case YK_I64:
        return (double)((const int64_t *)data)[i];
    case YK_I8:
        return ((const int8_t *)data)[i];
    case YK_F16:
        return from_f16(h);
    case YK_BF16:
        return from_bits((uint32_t)h << 16);
    default:
        return ((const uint8_t *)data)[i];
    }
}

static uint16_t to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (f != f)
        return (uint16_t)(u >> 16 | 64);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static uint16_t to_f16(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    uint64_t u;
    int e;
    if (v != v)
        return 0x7e00;
    if (a >= 65520)
        return sign | 0x7c00;
    if (a == 0)
        return sign;
    memcpy(&u, &a, sizeof u);
    e = (int)(u >> 52) - 1022;
    e = e < -13 ? -13 : e;                     /* subnormal numbers are evenly spaced */
    a = nearbyint(a * double_power(11 - e));   /* 11 significant bits, ties to even */
    return (uint16_t)(sign | (uint16_t)(a + (double)((e + 13) * 1024)));
}

void yk__element_set(void *data, uint32_t dtype, uint64_t i, double v)
{
    uint16_t h;
    switch (dtype) {
    case YK_F32:
        ((float *)data)[i] = (float)v;
        return;
    case YK_F64:
        ((double *)data)[i] = v;
        return;
    case YK_I32:
        ((int32_t *)data)[i] = (int32_t)v;
        return;
    case YK_I64:
        ((int64_t *)data)[i] = (int64_t)v;
        return;
    case YK_F16:
    case YK_BF16:
        h = dtype == YK_F16 ? to_f16(v) : to_bf16((float)v);
        memcpy((uint8_t *)data + 2 * i, &h, 2);
        return;
    default:
        ((uint8_t *)data)[i] = (uint8_t)(int)v;
    }
}

double yk__epsilon(uint32_t dtype)
{
    return dtype == YK_F64 ? 0x1p-52 : dtype == YK_F32 ? 0x1p-23 : dtype == YK_F16 ? 0x1p-10 : dtype == YK_BF16 ? 0x1p-7 : 0;
}
