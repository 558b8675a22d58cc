/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact sum of squares of gradients (U. Kulisch, "Computer arithmetic and validity", 2008). Any order and grouping give the same bits,
 * so a norm does not depend on the ranks' parts. Sums over ranks (reduce.c) and core/run fill it, and core/run/ways/norm.c reads it.
 *
 * Eight lanes add the squares of up to 64 numbers in double, always in the same order. That sum goes into fixed point: additions there have
 * no order. Parts of 64 keep the fixed-point work small beside the multiplications. Pure; any thread.
 */
#include "core/coll/exact.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PART 64
#define LANES 8
#define LOWEST 352 /* word 0 begins at 2^-LOWEST */

/* v >= 0 is a multiple of 2^-298, as all sums of squares of f32 are, and below 2^263. */
static void part_add(yk__exact *sum, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint64_t mantissa = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    const uint32_t at = (uint32_t)(bits >> 52) - 1023 - 52 + LOWEST, shift = at % 32;
    uint64_t *word = sum->word + at / 32;
    word[0] += (mantissa << shift) & UINT32_MAX;
    word[1] += (mantissa >> 1 >> (31 - shift)) & UINT32_MAX;
    word[2] += mantissa >> 32 >> (32 - shift);
}

static void lanes_squares(const float *x, double *lane)
{
    for (int i = 0; i < PART; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
}

/* Same bits as the portable version: squares of f32 are exact in double, and each lane adds in the same order. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void lanes_squares_avx2(const float *x, double *lane)
{
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    for (int i = 0; i < PART; i += LANES) {
        const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(x + i)), b = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4));
        low = _mm256_add_pd(low, _mm256_mul_pd(a, a));
        high = _mm256_add_pd(high, _mm256_mul_pd(b, b));
    }
    _mm256_storeu_pd(lane, low);
    _mm256_storeu_pd(lane + 4, high);
}
#endif

static double part_squares(const float *x, uint64_t n, void (*squares)(const float *, double *))
{
    double lane[LANES] = {0.0};
    if (n == PART)
        squares(x, lane);
    for (uint64_t i = 0; i < n && n != PART; i++)
        lane[i % LANES] += (double)x[i] * (double)x[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

void yk__exact_squares(yk__exact *sum, const float *x, uint64_t n)
{
    void (*squares)(const float *, double *) = lanes_squares;
#if defined(__x86_64__)
    squares = __builtin_cpu_supports("avx2") ? lanes_squares_avx2 : squares;
#endif
    for (uint64_t at = 0; at < n; at += PART) {
        const double v = part_squares(x + at, n - at < PART ? n - at : PART, squares);
        if (!isfinite(v))
            sum->bad++;
        else if (v > 0.0)
            part_add(sum, v);
    }
}

void yk__exact_get(const yk__exact *sum, double v[YK__EXACT_NUMBERS])
{
    uint64_t carry = 0;
    for (int i = 0; i < YK__EXACT_WORDS; i++) {
        const uint64_t word = sum->word[i] + carry;
        v[i] = (double)(word & UINT32_MAX);
        carry = word >> 32;
    }
    v[YK__EXACT_WORDS] = (double)sum->bad;
}

double yk__exact_value(const double v[YK__EXACT_NUMBERS])
{
    double sum = 0.0;
    for (int i = YK__EXACT_WORDS; i-- > 0;)
        sum += ldexp(v[i], 32 * i - LOWEST);
    return sum;
}
