/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes gradients for the way between hosts (YOKE_WIRE): f32, bf16 or int8. A block of int8 has its scale, f32, then the
 * numbers divided by the scale, in [-127, 127], or -128 for NaN.
 *
 * messages/msg_reduce.c writes at the sender and reads at the receiver, in the step thread or the progress thread. The sender's rounding
 * error can be kept, and is added to its next gradients (error feedback).
 */
#include "core/coll/wire.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include <yoke/dtype.h>

#include "core/base/convert.h"

enum { MOST = 127, NO_NUMBER = -128 };

uint64_t yk__wire_bytes(yk__wire wire, uint64_t n)
{
    if (wire == YK__WIRE_INT8)
        return n + (n + YK__WIRE_BLOCK - 1) / YK__WIRE_BLOCK * sizeof(float);
    return n * (wire == YK__WIRE_BF16 ? sizeof(uint16_t) : sizeof(float));
}

/* ---- int8 ---------------------------------------------------------------------------------------------------------
 * Loops over whole blocks without branches, so that the compiler vectorises them; a short block is padded with zeros. */

/* Largest magnitude among the finite numbers. */
static float find_largest(const float *v)
{
    float largest[8] = {0};
    for (int i = 0; i < YK__WIRE_BLOCK; i += 8)
        for (int k = 0; k < 8; k++) {
            const float magnitude = fabsf(v[i + k]), counted = magnitude <= FLT_MAX ? magnitude : 0.0f;
            largest[k] = counted > largest[k] ? counted : largest[k];
        }
    for (int k = 1; k < 8; k++)
        largest[0] = largest[k] > largest[0] ? largest[k] : largest[0];
    return largest[0];
}

/* Rounds to units of the scale: 0 without a scale, NO_NUMBER for a number that is not finite. Adding 1.5 * 2^23 rounds to the nearest
 * integer, ties to even. It divides by the scale, as the reciprocal would add a rounding error. */
static void round_numbers(const float *v, float scale, float *whole)
{
    const float magic = 12582912.0f, unit = scale > 0.0f ? scale : INFINITY;
    for (int i = 0; i < YK__WIRE_BLOCK; i++) {
        const float rounded = v[i] / unit + magic - magic;
        whole[i] = fabsf(v[i]) <= FLT_MAX ? rounded : (float)NO_NUMBER;
    }
}

static void pack_numbers(const float *whole, int8_t *to)
{
    for (int i = 0; i < YK__WIRE_BLOCK; i++)
        to[i] = (int8_t)(int32_t)whole[i];
}

/* `was` keeps its value if the number is not finite. */
static void find_residuals(const float *v, const float *whole, float scale, float *was)
{
    for (int i = 0; i < YK__WIRE_BLOCK; i++) {
        const float left = v[i] - whole[i] * scale;
        was[i] = whole[i] > (float)NO_NUMBER ? left : was[i];
    }
}

static void write_block(const float *from, uint64_t n, float *residual, uint8_t *to)
{
    float v[YK__WIRE_BLOCK] = {0}, left[YK__WIRE_BLOCK] = {0}, whole[YK__WIRE_BLOCK], scale;
    int8_t packed[YK__WIRE_BLOCK];
    memcpy(v, from, n * sizeof *v);
    if (residual)
        memcpy(left, residual, n * sizeof *left);
    for (int i = 0; i < YK__WIRE_BLOCK; i++)
        v[i] += left[i];
    scale = find_largest(v) / MOST;
    scale = scale >= FLT_MIN ? scale : 0.0f; /* numbers that are so small wait among the residuals */
    round_numbers(v, scale, whole);
    pack_numbers(whole, packed);
    memcpy(to, &scale, sizeof scale);
    memcpy(to + sizeof scale, packed, n);
    if (!residual)
        return;
    find_residuals(v, whole, scale, left);
    memcpy(residual, left, n * sizeof *left);
}

static void read_block(const uint8_t *from, uint64_t n, float *to)
{
    const int8_t *whole = (const int8_t *)(from + sizeof(float));
    float scale;
    memcpy(&scale, from, sizeof scale);
    for (uint64_t i = 0; i < n; i++)
        to[i] = whole[i] == NO_NUMBER ? NAN : (float)whole[i] * scale;
}

/* ---- All formats -------------------------------------------------------------------------------------------------- */

static uint64_t block_length(uint64_t left)
{
    return left < YK__WIRE_BLOCK ? left : YK__WIRE_BLOCK;
}

void yk__wire_write(yk__wire wire, const float *from, uint64_t n, float *residual, uint8_t *to)
{
    if (wire == YK__WIRE_F32)
        memcpy(to, from, n * sizeof *from);
    else if (wire == YK__WIRE_BF16)
        yk__f32_to_bf16s(from, n, (uint16_t *)(void *)to);
    for (uint64_t at = 0; at < n && wire == YK__WIRE_INT8; at += YK__WIRE_BLOCK)
        write_block(from + at, block_length(n - at), residual ? residual + at : NULL, to + yk__wire_bytes(wire, at));
}

void yk__wire_read(yk__wire wire, const uint8_t *from, uint64_t n, float *to)
{
    if (wire == YK__WIRE_F32)
        memcpy(to, from, n * sizeof *to);
    else if (wire == YK__WIRE_BF16)
        yk__array_to_f32(YK_BF16, from, n, to);
    for (uint64_t at = 0; at < n && wire == YK__WIRE_INT8; at += YK__WIRE_BLOCK)
        read_block(from + yk__wire_bytes(wire, at), block_length(n - at), to + at);
}
