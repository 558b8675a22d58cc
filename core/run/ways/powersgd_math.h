/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The products of PowerSGD (powersgd.h). Matrices lie row by row: m[rows][cols], left[rows][rank], right[cols][rank]. No state; any thread.
 */
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
/* The columns of left become orthonormal (modified Gram-Schmidt); a column that depends on the columns before it becomes zero. */
void yk__power_orthonormal(const yk__power_shape *shape, float *left);
/* m = left right'; error = old m - factor * new m */
void yk__power_restore(const yk__power_shape *shape, const float *left, const float *right, float factor, float *m, float *error);
/* Fills the zero columns of right with normal numbers that depend on `number` alone. At first all columns are zero. */
void yk__power_fill(const yk__power_shape *shape, uint32_t number, float *right);

#endif
