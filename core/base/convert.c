/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between f32 and the 16-bit formats, for single numbers and arrays. Messages (core/coll), rounded parameters (core/run) and
 * weights of files (core/job/checkpoint) go through it. No state; any thread.
 *
 * Conversions go by bits instead of the compiler's types: not every compiler has _Float16, and rounding must be the same on every machine.
 * Rounding to bf16 adds half of the last place, plus the last kept bit, before it truncates. A NaN would turn into infinity, so it has its
 * own branch.
 */
#include "core/base/convert.h"

#include <string.h>
#include <yoke/dtype.h>

static float f32_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

float yk__bf16_to_f32(uint16_t b)
{
    return f32_of_bits((uint32_t)b << 16);
}

uint16_t yk__f32_to_bf16(float f)
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40); /* NaN stays NaN, made quiet */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

/* ---- bf16 in blocks ------------------------------------------------------------------------------------------------
 * Blocks of a constant length, without a branch on NaN, so that the compiler vectorises them at -O2 too. */

enum { BLOCK = 256 };

/* The nearest bf16 of an f32, in the upper half; the lower half is undefined. */
static uint32_t round_bits(uint32_t u)
{
    const uint32_t is_nan = 0u - (uint32_t)((int32_t)(u & 0x7fffffffu) > 0x7f800000);
    return ((u + 0x7fffu + ((u >> 16) & 1)) & ~is_nan) | ((u | 0x400000u) & is_nan);
}

static void narrow_block(const float *restrict from, uint16_t *restrict to)
{
    for (int i = 0; i < BLOCK; i++)
        to[i] = (uint16_t)(round_bits(f32_bits(from[i])) >> 16);
}

static void widen_block(const uint16_t *restrict from, float *restrict to)
{
    for (int i = 0; i < BLOCK; i++)
        to[i] = f32_of_bits((uint32_t)from[i] << 16);
}

static void split_block(float *restrict v, float *restrict rest)
{
    for (int i = 0; i < BLOCK; i++) {
        const float rounded = f32_of_bits(round_bits(f32_bits(v[i])) & 0xffff0000u);
        rest[i] = v[i] - rounded;
        v[i] = rounded;
    }
}

void yk__f32_to_bf16s(const float *from, size_t n, uint16_t *to)
{
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        narrow_block(from + i, to + i);
    for (; i < n; i++)
        to[i] = yk__f32_to_bf16(from[i]);
}

static void widen_bf16s(const uint16_t *from, size_t n, float *to)
{
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        widen_block(from + i, to + i);
    for (; i < n; i++)
        to[i] = yk__bf16_to_f32(from[i]);
}

void yk__split_bf16s(float *v, size_t n, float *rest)
{
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        split_block(v + i, rest + i);
    for (; i < n; i++) {
        const float rounded = yk__bf16_to_f32(yk__f32_to_bf16(v[i]));
        rest[i] = v[i] - rounded;
        v[i] = rounded;
    }
}

float yk__f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
    if (exponent == 31)
        return f32_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    return f32_of_bits(sign | f32_bits((float)fraction * 0x1p-24f));
}

uint16_t yk__f32_to_f16(float f)
{
    const uint32_t u = f32_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffffu;
    uint32_t r;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00); /* NaN */
    if (a >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
    if (a < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, rounded by the addition */
        r = f32_bits(f32_of_bits(a) + 0.5f) - f32_bits(0.5f);
        return (uint16_t)(sign | r);
    }
    r = a - 0x38000000u;
    return (uint16_t)(sign | ((r + 0xfffu + ((r >> 13) & 1)) >> 13));
}

#define LOOP(type, expression)                                                                                         \
    do {                                                                                                               \
        const type *p = from;                                                                                          \
        for (size_t i = 0; i < n; i++)                                                                                 \
            to[i] = (expression);                                                                                      \
    } while (0)

int yk__array_to_f32(int dtype, const void *from, size_t n, float *to)
{
    switch (dtype) {
    case YK_F32: memcpy(to, from, n * sizeof *to); return 0;
    case YK_F16: LOOP(uint16_t, yk__f16_to_f32(p[i])); return 0;
    case YK_BF16: widen_bf16s(from, n, to); return 0;
    case YK_F64: LOOP(double, (float)p[i]); return 0;
    case YK_I32: LOOP(int32_t, (float)p[i]); return 0;
    case YK_I64: LOOP(int64_t, (float)p[i]); return 0;
    case YK_U8:
    case YK_BOOL: LOOP(uint8_t, (float)p[i]); return 0;
    case YK_I8: LOOP(int8_t, (float)p[i]); return 0;
    default: return -1;
    }
}
