/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Number formats: single numbers and arrays between f32 and the other types. Rounding to 16 bits is to nearest even, as
 * the ABI asks. Thread-safe.
 */
#ifndef YOKE_CORE_BASE_CONVERT_H
#define YOKE_CORE_BASE_CONVERT_H

#include <stddef.h>
#include <stdint.h>

float yk__bf16_to_f32(uint16_t b);
uint16_t yk__f32_to_bf16(float f);
void yk__f32_to_bf16s(const float *from, size_t n, uint16_t *to);
/* Rounds v to numbers of bf16; rest gets the exact rounding errors (24 bits, of which bf16 keeps the first 8). */
void yk__split_bf16s(float *v, size_t n, float *rest);
float yk__f16_to_f32(uint16_t h);
uint16_t yk__f32_to_f16(float f);

/* Converts n elements of a dtype (yk_dtype) to f32; -1 for a type without a conversion. */
int yk__array_to_f32(int dtype, const void *from, size_t n, float *to);

#endif
