/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact sum of squares (U. Kulisch, "Computer arithmetic and validity", 2008): the squares of up to 64 numbers are added in
 * double by eight lanes, always the same way, and that sum goes into fixed point, where addition has no order. 64, because it
 * keeps the fixed-point work small beside the multiplications.
 */
#include "core/base/exact.h"

#include <math.h>
#include <string.h>

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

static double part_squares(const float *x, uint64_t n)
{
    double lane[LANES] = {0.0};
    if (n == PART)
        for (int i = 0; i < PART; i += LANES)
            for (int k = 0; k < LANES; k++)
                lane[k] += (double)x[i + k] * (double)x[i + k];
    for (uint64_t i = 0; i < n && n != PART; i++)
        lane[i % LANES] += (double)x[i] * (double)x[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

void yk__exact_squares(yk__exact *sum, const float *x, uint64_t n)
{
    for (uint64_t at = 0; at < n; at += PART) {
        const double v = part_squares(x + at, n - at < PART ? n - at : PART);
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
