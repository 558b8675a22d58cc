/* SPDX-License-Identifier: Apache-2.0 */
/* The products of PowerSGD (powersgd.h). Row by row in memory; m[rows][cols], left[rows][rank], right[cols][rank]. No state; any thread. */
#ifndef YOKE_CORE_RUN_WAYS_POWERSGD_MATH_H
#define YOKE_CORE_RUN_WAYS_POWERSGD_MATH_H

#include "core/run/run.h"

typedef struct yk__power_shape {
    uint64_t rows, cols;
    uint32_t rank;
} yk__power_shape;

/* left = m right */
void yk__power_left(const yk__power_shape *shape, const float *m, const float *right, float *left);
/* right = m' left */
void yk__power_right(const yk__power_shape *shape, const float *m, const float *left, float *right);
/* The columns of left become orthonormal (modified Gram-Schmidt); one that depends on those before it becomes zero. */
void yk__power_orthonormal(const yk__power_shape *shape, float *left);
/* m = left right'; error = m as it was, minus factor times what it becomes */
void yk__power_restore(const yk__power_shape *shape, const float *left, const float *right, float factor, float *m, float *error);
/* Normal numbers that depend on `number` alone to the columns of right that are zero; all of them are at first. */
void yk__power_fill(const yk__power_shape *shape, uint32_t number, float *right);

#endif
