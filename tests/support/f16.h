/* SPDX-License-Identifier: Apache-2.0 */
/* Halves by arithmetic in double, for comparison in tests, on compilers with and without a type for them. */
#ifndef YOKE_TESTS_SUPPORT_F16_H
#define YOKE_TESTS_SUPPORT_F16_H

#include <math.h>
#include <stdint.h>

/* IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits; not every compiler has the type. */
static inline double f16_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double size = exponent == 31 ? (mantissa ? (double)NAN : HUGE_VAL)
                        : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                       : ldexp(mantissa, -24);
    return bits & 0x8000 ? -size : size;
}

/* The nearest one, ties to even. */
static inline uint16_t f16_bits(float f)
{
    const uint16_t sign = signbit(f) ? 0x8000 : 0;
    int exponent;
    double steps;
    if (isnan(f))
        return sign | 0x7e00;
    if (fabs((double)f) >= 65520)
        return sign | 0x7c00;
    frexp((double)f, &exponent); /* |f| in [2^(exponent - 1), 2^exponent) */
    exponent = f == 0.0f || exponent < -13 ? -13 : exponent;
    steps = nearbyint(ldexp(fabs((double)f), 11 - exponent)); /* 1024 to 2048 of them, fewer for subnormals */
    return (uint16_t)(sign + ((exponent + 13) << 10) + (int)steps);
}

#endif
