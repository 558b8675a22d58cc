/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix products of PowerSGD, which run in the order of memory; sums of a column are in f64. powersgd.c alone calls them, in the step
 * thread. All ranks compute their common factors from equal numbers in this order, so the factors have equal bits.
 */
#include "core/run/ways/powersgd_math.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/philox.h"

void yk__power_left(const yk__power_shape *shape, const float *m, const float *right, float *left)
{
    const uint32_t rank = shape->rank;
    for (uint64_t i = 0; i < shape->rows; i++) {
        float sum[YK__POWER_RANKS] = {0};
        for (uint64_t j = 0; j < shape->cols; j++)
            for (uint32_t k = 0; k < rank; k++)
                sum[k] += m[i * shape->cols + j] * right[j * rank + k];
        memcpy(left + i * rank, sum, rank * sizeof *sum);
    }
}

void yk__power_right(const yk__power_shape *shape, const float *m, const float *left, float *right)
{
    const uint32_t rank = shape->rank;
    memset(right, 0, shape->cols * rank * sizeof *right);
    for (uint64_t i = 0; i < shape->rows; i++)
        for (uint64_t j = 0; j < shape->cols; j++)
            for (uint32_t k = 0; k < rank; k++)
                right[j * rank + k] += m[i * shape->cols + j] * left[i * rank + k];
}

static double dot_columns(const yk__power_shape *shape, const float *left, uint32_t a, uint32_t b)
{
    double sum = 0.0;
    for (uint64_t i = 0; i < shape->rows; i++)
        sum += (double)left[i * shape->rank + a] * (double)left[i * shape->rank + b];
    return sum;
}

static void scale_column(const yk__power_shape *shape, float *left, uint32_t k, double factor)
{
    for (uint64_t i = 0; i < shape->rows; i++)
        left[i * shape->rank + k] = (float)(factor * (double)left[i * shape->rank + k]);
}

void yk__power_orthonormal(const yk__power_shape *shape, float *left)
{
    for (uint32_t k = 0; k < shape->rank; k++) {
        const double was = dot_columns(shape, left, k, k);
        double is;
        for (uint32_t before = 0; before < k; before++) {
            const double part = dot_columns(shape, left, before, k);
            for (uint64_t i = 0; i < shape->rows; i++)
                left[i * shape->rank + k] -= (float)(part * (double)left[i * shape->rank + before]);
        }
        is = dot_columns(shape, left, k, k);
        scale_column(shape, left, k, is <= 1e-10 * was ? 0.0 : 1.0 / sqrt(is)); /* a column this small is only rounding; NaN goes on */
    }
}

void yk__power_restore(const yk__power_shape *shape, const float *left, const float *right, float factor, float *m, float *error)
{
    for (uint64_t i = 0; i < shape->rows; i++)
        for (uint64_t j = 0; j < shape->cols; j++) {
            const uint64_t at = i * shape->cols + j;
            float sum = 0.0f;
            for (uint32_t k = 0; k < shape->rank; k++)
                sum += left[i * shape->rank + k] * right[j * shape->rank + k];
            error[at] = m[at] - factor * sum;
            m[at] = sum;
        }
}

/* A normal number, by Box and Muller (1958). */
static float normal_number(uint32_t number, uint32_t column, uint64_t at)
{
    const uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), column, number}, key[2] = {0x706f7765, 0x72736764};
    uint32_t word[4];
    yk__philox(counter, key, word);
    return (float)(sqrt(-2.0 * log(((double)word[0] + 0.5) * 0x1p-32)) * cos(6.283185307179586 * ((double)word[1] + 0.5) * 0x1p-32));
}

static bool column_is_zero(const yk__power_shape *shape, const float *right, uint32_t k)
{
    for (uint64_t j = 0; j < shape->cols; j++)
        if (right[j * shape->rank + k] != 0.0f)
            return false;
    return true;
}

void yk__power_fill(const yk__power_shape *shape, uint32_t number, float *right)
{
    for (uint32_t k = 0; k < shape->rank; k++) {
        const bool empty = column_is_zero(shape, right, k);
        for (uint64_t j = 0; j < shape->cols && empty; j++)
            right[j * shape->rank + k] = normal_number(number, k, j);
    }
}
