/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operation round8 in one file: shapes, body and reference. It rounds a value to 8 bits, with one scale for all its elements. The scale
 * is the largest power of two that keeps the largest element in the format. core/plan/autocast.c emits it in a job of fp8. The functions
 * run in any thread, and keep no state.
 *
 * Scaling by powers of two is exact, so only the rounding changes bits. A different largest element changes only elements below the
 * format's normal numbers.
 */
#include "core/graph/body.h"

#include <math.h>

static const struct {
    int mantissa, least, most; /* bits behind the point; exponents of the least normal and of the largest number */
} formats[] = {[YK_ROUND8_E4M3] = {3, -6, 8}, [YK_ROUND8_E5M2] = {2, -14, 15}};

#define LEAST_SCALED (-90) /* least exponent of the largest element for the scale; keeps every factor in f32 */

/* The largest number: 1.75 * 2^most in both formats. */
static double largest_of(int64_t format)
{
    return ldexp(1.75, formats[format].most);
}

bool yk__infer_round8(yk__shape *s)
{
    if (s->attr[0] < YK_ROUND8_E4M3 || s->attr[0] > YK_ROUND8_E5M2)
        return yk__shape_bad(s, "format %lld: expected 0 (e4m3) or 1 (e5m2)", (long long)s->attr[0]);
    if (!yk__shape_float(s, 0))
        return false;
    yk__shape_out(s, 0, s->x[0]->dtype, s->x[0]->dims, s->x[0]->dim);
    return true;
}

/* ---- Evaluation ---- */

/* The exponent of the factor. */
static int scale_of(double largest, int64_t format)
{
    const int most = formats[format].most;
    int e;
    if (!isfinite(largest))
        return 0;
    if (largest < ldexp(1, LEAST_SCALED))
        return most - LEAST_SCALED;
    const double part = frexp(largest, &e); /* in 0.5 .. 1, of 2^e */
    return part > 0.875 ? most - e : most - e + 1;
}

yk_status yk__eval_round8(yk__eval *e)
{
    const int64_t format = e->attr[0], n = yk__value_count(e->x_value[0]);
    const int mantissa = formats[format].mantissa, least = formats[format].least;
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(e->x[0][i]) <= largest))
            largest = isfinite(largest) ? fabs(e->x[0][i]) : largest;
    const int scale = scale_of(largest, format);
    for (int64_t i = 0; i < n; i++) {
        const double x = e->x[0][i], v = fmin(ldexp(fabs(x), scale), largest_of(format));
        int own = 0;
        frexp(v, &own);
        own = (own - 1 < least ? least : own - 1) - mantissa;
        e->y[0][i] = isfinite(x) ? copysign(ldexp(nearbyint(ldexp(v, -own)), own - scale), x) : x;
    }
    return YK_OK;
}

/* ---- Body: no operation in it rounds, so every device computes the same bits ---- */

static yk__vid body_mul(yk__inline *b, yk__vid x, yk__vid y)
{
    return yk__bin(b->g, YK_OP_MUL, x, y);
}

static yk__vid is_finite(yk__inline *b, yk__vid x)
{
    return yk__bin(b->g, YK_OP_EQ, yk__bin(b->g, YK_OP_SUB, x, x), yk__body_number(b, 0));
}

/* A pair of factors whose product is 1. */
typedef struct factors {
    yk__vid up, down;
} factors;

/* Divides the factor `up` by 2^by, except if `stay`. */
static factors factors_shift(yk__inline *b, factors f, yk__vid stay, int by)
{
    return (factors){yk__select(b->g, stay, f.up, yk__scale(b->g, f.up, ldexp(1, -by))),
                     yk__select(b->g, stay, f.down, yk__scale(b->g, f.down, ldexp(1, by)))};
}

/* Finds the factor that brings x below 2^(top + 1), and, if x is at least 2^least, not below 2^top. The first step covers the
 * largest part of the way; each further step applies at most once. */
static factors factors_find(yk__inline *b, yk__vid x, int top, int least, const int *steps)
{
    factors f = {yk__body_number(b, ldexp(1, top - least)), yk__body_number(b, ldexp(1, least - top))};
    for (size_t i = 0; steps[i]; i++) {
        const yk__vid part = yk__scale(b->g, body_mul(b, x, f.up), ldexp(1, -steps[i] - top));
        f = factors_shift(b, f, yk__bin(b->g, YK_OP_LT, part, yk__body_number(b, 1)), steps[i]);
    }
    return f;
}

/* Factors of elements (up) and of results (down). 1 if the largest element is not finite. */
static factors find_scale(yk__inline *b, yk__vid size, int64_t format)
{
    static const int steps[] = {64, 64, 32, 32, 16, 8, 4, 2, 1, 0}; /* from -90 to 127 */
    const uint32_t axes = (1u << b->x[0]->dims) - 1;
    const yk__vid most = yk__body_number(b, largest_of(format));
    yk__vid largest = axes ? yk__rmax(b->g, size, axes) : size, over;
    largest = yk__select(b->g, is_finite(b, largest), largest, most);
    const factors f = factors_find(b, largest, formats[format].most, LEAST_SCALED, steps);
    over = yk__bin(b->g, YK_OP_MAX, body_mul(b, largest, f.up), most);
    return factors_shift(b, f, yk__bin(b->g, YK_OP_EQ, over, most), 1);
}

static yk__vid cut_off(yk__inline *b, yk__vid x)
{
    return yk__cast(b->g, yk__cast(b->g, x, YK_I32), yk__body_dtype(b));
}

/* Rounds to the nearest integer, ties to even; x is 0 .. 16. */
static yk__vid to_whole(yk__inline *b, yk__vid x)
{
    yk__graph *g = b->g;
    const yk__vid n = cut_off(b, x), rest = yk__bin(g, YK_OP_SUB, x, n), half = yk__body_number(b, 0.5);
    const yk__vid odd = yk__bin(g, YK_OP_SUB, n, yk__scale(g, cut_off(b, yk__scale(g, n, 0.5)), 2));
    const yk__vid up = yk__select(g, yk__bin(g, YK_OP_LT, half, rest), yk__body_number(b, 1), yk__body_number(b, 0));
    return yk__bin(g, YK_OP_ADD, n, yk__select(g, yk__bin(g, YK_OP_EQ, rest, half), odd, up));
}

void yk__body_round8(yk__inline *b)
{
    static const int steps[][6] = {{8, 4, 2, 1, 0}, {16, 8, 4, 2, 1, 0}};
    yk__graph *g = b->g;
    const int64_t format = b->attr[0];
    const yk__vid x = yk__body_widen(b, 0), size = yk__un(g, YK_OP_ABS, x);
    const factors scale = find_scale(b, size, format);
    const yk__vid v = yk__bin(g, YK_OP_MIN, body_mul(b, size, scale.up), yk__body_number(b, largest_of(format)));
    const factors own = factors_find(b, v, formats[format].mantissa, formats[format].least, steps[format]);
    yk__vid y = body_mul(b, body_mul(b, to_whole(b, body_mul(b, v, own.up)), own.down), scale.down);
    y = yk__select(g, yk__bin(g, YK_OP_LT, x, yk__body_number(b, 0)), yk__un(g, YK_OP_NEG, y), y);
    yk__body_output(b, 0, yk__select(g, is_finite(b, x), y, x));
}
