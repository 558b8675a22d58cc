/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations from bf16 to bf16 in one pass, for maps of one operation: widened, computed and rounded in registers. A result
 * keeps 8 bits, so functions are computed to about 14 (below 1/20 of what rounding costs): shorter polynomials, reciprocals by
 * the set's estimate. Polynomials are weighted least squares driven to equal ripple; the comments give their relative error.
 * Included after kern_pack.h.
 */

#define HALF_MAGIC 12582912.0f /* 1.5 2^23: sums with it are whole numbers */

/* 2^r, |r| <= 1/2: 3e-6 */
V_INLINE vf half_poly2(vf r)
{
    vf p = v_fma(v_set1(9.58267e-3f), r, v_set1(5.590606e-2f));
    p = v_fma(p, r, v_set1(0.24024099f));
    p = v_fma(p, r, v_set1(0.69312424f));
    return v_fma(p, r, v_set1(1.0f));
}

/* 2^x for |x| <= 126, beyond which it stays what it is there */
V_INLINE vf half_pow2(vf x)
{
    x = v_clamp(x, -126.0f, 126.0f);
    vf n = x + v_set1(HALF_MAGIC);
    return (vf)((vu)half_poly2(x - (n - v_set1(HALF_MAGIC))) + ((vu)n << 23)); /* the low bits of n are the integer */
}

/* 1/x, |x| < 2^126: 6e-5 (AVX-512), or better */
V_INLINE vf half_recip(vf x)
{
#if CPU_VW == 16
    return (vf)_mm512_rcp14_ps((__m512)x);
#elif CPU_VW == 8
    vf y = (vf)_mm256_rcp_ps((__m256)x);
    return y * (v_set1(2.0f) - x * y);
#else
    return v_set1(1.0f) / x;
#endif
}

#if CPU_VW >= 8
/* 1/sqrt(x) to 12 bits or better */
V_INLINE vf half_rsqrt_first(vf x)
{
#if CPU_VW == 16
    return (vf)_mm512_rsqrt14_ps((__m512)x);
#else
    return (vf)_mm256_rsqrt_ps((__m256)x);
#endif
}

/* One step of Newton's: `to` estimates sqrt(x) or 1/sqrt(x), r the latter. Zeros and infinity, where it would be NaN, give
 * `own`. */
V_INLINE vf half_root(vf x, vf r, vf to, vf own)
{
    const vf error = v_fma(-(x * r), r, v_set1(1.0f));
    const vf y = v_fma(to * v_set1(0.5f), error, to);
#if CPU_VW == 16
    return (vf)_mm512_mask_mov_ps((__m512)y, _mm512_fpclass_ps_mask((__m512)x, 0x0e), (__m512)own);
#else
    return v_sel((x == v_set1(0.0f)) | (x == v_set1(INFINITY)), own, y);
#endif
}
#endif

/* 3e-7, in half the time of an exact one, or exact */
V_INLINE vf half_rsqrt(vf x)
{
#if CPU_VW >= 8
    const vf r = half_rsqrt_first(x);
    return half_root(x, r, r, r);
#else
    return v_set1(1.0f) / v_sqrt(x);
#endif
}

V_INLINE vf half_sqrt(vf x)
{
#if CPU_VW == 16
    const vf r = half_rsqrt_first(x);
    return half_root(x, r, x * r, x);
#else
    return v_sqrt(x);
#endif
}

/* AVX2's own root and a step of Newton's take equally long and go side by side: one for every second vector. Neither is
 * near enough to a tie of bf16's for the two to differ: (m + 1/2)^2 is no number of 8 bits. */
V_INLINE vf half_sqrt_beside(vf x)
{
#if CPU_VW == 8
    const vf r = half_rsqrt_first(x);
    return half_root(x, r, x * r, x);
#else
    return half_sqrt(x);
#endif
}

/* 1 / (1 + e^-x) */
V_INLINE vf half_sigmoid(vf x)
{
    return half_recip(v_set1(1.0f) + half_pow2(x * v_set1(-1.44269504f)));
}

/* 2 sqrt(2/pi) (x + 0.044715 x^3), the argument of gelu_tanh's sigmoid */
V_INLINE vf half_gelu_arg(vf x)
{
    return x * v_fma(x * x, v_set1(7.1354816e-2f), v_set1(1.5957691f));
}

V_INLINE vf half_gelu_tanh_grad(vf x)
{
    vf z = x * x, s = half_sigmoid(x * v_fma(z, v_set1(7.1354816e-2f), v_set1(1.5957691f)));
    vf d = x * v_fma(z, v_set1(0.21406445f), v_set1(1.5957691f));
    return v_fma(d, s * (v_set1(1.0f) - s), s);
}

/* 1 - erf(t), t >= 0: 2^p(t), 5e-5 up to 4.2, where it is 3e-9 */
V_INLINE vf half_erfc(vf t)
{
    vf p = v_fma(v_set1(1.90393599e-4f), t, v_set1(-3.53904886e-3f));
    p = v_fma(p, t, v_set1(2.91809169e-2f));
    p = v_fma(p, t, v_set1(-0.145696715f));
    p = v_fma(p, t, v_set1(-0.921513244f));
    p = v_fma(p, t, v_set1(-1.62708070f));
    return (vf)((vi)half_pow2(p * t) & ~(vi)(t > v_set1(4.2f)));
}

V_INLINE vf half_erf(vf x)
{
    vf t = v_abs(x), z = x * x;
    vf small = x * v_fma(v_fma(v_set1(0.10326699f), z, v_set1(-0.37523832f)), z, v_set1(1.12836667f));
    vf big = (vf)((vi)(v_set1(1.0f) - half_erfc(t)) | ((vi)x & (int32_t)0x80000000));
    return v_sel(t < v_set1(0.5f), small, big);
}

/* e^(-x^2/2) */
V_INLINE vf half_bell(vf x)
{
    return half_pow2(x * x * v_set1(-0.72134752f));
}

/* The normal distribution function, given e = half_bell(x): beyond a = |x| there is e u Q(u), u = 1/(a + 3.95), 4e-5. */
V_INLINE vf half_cdf(vf x, vf e)
{
    vf u = half_recip(v_clamp(v_abs(x), 0.0f, 16.0f) + v_set1(3.95f));
    vf q = v_fma(v_set1(210.12323f), u, v_set1(-16.6550045f));
    q = v_fma(q, u, v_set1(9.89176369f));
    q = v_fma(q, u, v_set1(1.36280286f));
    q = v_fma(q, u, v_set1(0.403167784f)) * (u * e);
    return v_sel(x < v_set1(0.0f), q, v_set1(1.0f) - q);
}

V_INLINE vf half_gelu_grad(vf x)
{
    vf e = half_bell(x);
    return v_fma(x, v_set1(0.39894228f) * e, half_cdf(x, e));
}

V_INLINE vf half_tanh(vf x)
{
    vf a = v_abs(x), z = x * x;
    vf small = x * v_fma(v_fma(v_set1(0.11520914f), z, v_set1(-0.33169008f)), z, v_set1(0.99997727f));
    vf big = v_fma(v_set1(-2.0f), half_recip(v_set1(1.0f) + half_pow2(a * v_set1(2.88539008f))), v_set1(1.0f));
    big = (vf)((vi)big | ((vi)x & (int32_t)0x80000000));
    return v_sel(a < v_set1(0.5f), small, big);
}

/* e^x over the whole range of results */
V_INLINE vf half_exp(vf x)
{
    x *= v_set1(1.44269504f);
#if CPU_VW == 16 /* what is left of an infinity by reduce is 0 */
    __m512 r = _mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 m = _mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (vf)_mm512_scalef_ps((__m512)half_poly2((vf)r), m);
#else /* the low bits of n are the integer k + 254; 2^k as the product of two powers, for it may be beyond f32 */
    const vf magic = v_set1(HALF_MAGIC + 254.0f);
    x = v_clamp(x, -160.0f, 130.0f);
    vf n = x + magic;
    vu h = (vu)n >> 1;
    return half_poly2(x - (n - magic)) * (vf)(h << 23) * (vf)(((vu)n - h) << 23);
#endif
}

/* log(1 + f) = f p(f), 8e-6 */
V_INLINE vf half_log(vf x)
{
    vu u = (vu)x; /* of negative numbers anything comes out */
    vi e = (vi)(u - 0x3f3504f3u) >> 23;
    vf f = (vf)(u - ((vu)e << 23)) - v_set1(1.0f);
    vf p = v_fma(v_set1(-0.14290598f), f, v_set1(0.22054354f));
    p = v_fma(p, f, v_set1(-0.25403159f));
    p = v_fma(p, f, v_set1(0.33258152f));
    p = v_fma(p, f, v_set1(-0.49990227f));
    p = v_fma(p, f, v_set1(1.00000455f));
    vf y = v_fma(v_itof(e), v_set1(0.69314718f), f * p);
    y = v_sel(x < v_set1(0x1p-126f), v_sel(x < v_set1(0.0f), v_set1(NAN), v_set1(-INFINITY)), y);
    return v_sel((vi)(x < v_set1(INFINITY)), y, x);
}

/* 2 vectors of 16-bit numbers, the first, third ... of them in x0, the others in x1 */
V_INLINE void half_load(const uint16_t *p, vf *x0, vf *x1)
{
    vu w = (vu)v_load(p);
    *x0 = (vf)(w << 16);
    *x1 = (vf)(w & 0xffff0000u);
}

/* What comes from bf16 has no NaN that rounding could make anything else. */
V_INLINE void half_store(uint16_t *p, vf x0, vf x1)
{
#ifdef CPU_CVT_BF16
    v_store(p, (vf)pack_both(x0, x1));
#else
    v_store(p, (vf)v_uppers(v_round_bf16(x0), v_round_bf16(x1)));
#endif
}

/* numbers that are bf16 already: nothing to round */
V_INLINE void half_keep(uint16_t *p, vf x0, vf x1)
{
    v_store(p, (vf)v_uppers((vu)x0, (vu)x1));
}

/* EXPR for the even numbers and for what is left, ODD for the odd ones */
#define HALF_MAP(name, store, EXPR, ODD)                                                                               \
    V_INLINE vf half_of_##name(vf x, vf y)                                                                             \
    {                                                                                                                  \
        (void)y;                                                                                                       \
        return EXPR;                                                                                                   \
    }                                                                                                                  \
    V_INLINE vf half_odd_##name(vf x, vf y)                                                                            \
    {                                                                                                                  \
        (void)y;                                                                                                       \
        return ODD;                                                                                                    \
    }                                                                                                                  \
    static void half_map_##name(void *dv, const void *av, const void *bv, const void *cv, size_t n)                    \
    {                                                                                                                  \
        uint16_t *d = dv;                                                                                              \
        const uint16_t *a = av, *b = bv;                                                                               \
        size_t i = 0;                                                                                                  \
        (void)cv;                                                                                                      \
        for (; i + 2 * CPU_VW <= n; i += 2 * CPU_VW) {                                                                 \
            vf x0, x1, y0, y1;                                                                                         \
            half_load(a + i, &x0, &x1);                                                                                \
            half_load(b + i, &y0, &y1);                                                                                \
            store(d + i, half_of_##name(x0, y0), half_odd_##name(x1, y1));                                             \
        }                                                                                                              \
        for (; i < n; i += CPU_VW) {                                                                                   \
            size_t l = n - i < CPU_VW ? n - i : CPU_VW;                                                                \
            vh x = l < CPU_VW ? v_loadh_n(a + i, l) : v_loadh(a + i), y = l < CPU_VW ? v_loadh_n(b + i, l) : v_loadh(b + i); \
            vh r = v_to_bf16(half_of_##name(v_from_bf16(x), v_from_bf16(y)));                                          \
            if (l < CPU_VW)                                                                                            \
                v_storeh_n(d + i, r, l);                                                                               \
            else                                                                                                       \
                v_storeh(d + i, r);                                                                                    \
        }                                                                                                              \
    }
#define HALF_OP(name, EXPR) HALF_MAP(name, half_store, EXPR, EXPR)
#define HALF_CHOICE(name, EXPR) HALF_MAP(name, half_keep, EXPR, EXPR)
HALF_OP(exp, half_exp(x))
HALF_OP(log, half_log(x))
HALF_MAP(sqrt, half_store, half_sqrt(x), half_sqrt_beside(x))
HALF_OP(rsqrt, half_rsqrt(x))
HALF_OP(recip, v_set1(1.0f) / x)
HALF_OP(tanh, half_tanh(x))
HALF_OP(erf, half_erf(x))
HALF_OP(add, x + y)
HALF_OP(sub, x - y)
HALF_OP(mul, x *y)
HALF_OP(div, x / y)
HALF_CHOICE(max, v_max(x, y))
HALF_CHOICE(min, v_min(x, y))
HALF_CHOICE(relu, v_relu(x))
HALF_CHOICE(relu_bwd, v_positive(x, y))
HALF_OP(gelu, x *half_cdf(x, half_bell(x)))
HALF_OP(gelu_bwd, half_gelu_grad(x) * y)
HALF_OP(gelu_tanh, x *half_sigmoid(half_gelu_arg(x)))
HALF_OP(gelu_tanh_bwd, half_gelu_tanh_grad(x) * y)
HALF_OP(silu, x *half_sigmoid(x))
HALF_OP(silu_bwd, y *half_sigmoid(x) * v_fma(x, v_set1(1.0f) - half_sigmoid(x), v_set1(1.0f)))
HALF_OP(sigmoid, half_sigmoid(x))
HALF_OP(sigmoid_bwd, y *x *(v_set1(1.0f) - x))
HALF_OP(tanh_bwd, y *(v_set1(1.0f) - x * x))

/* dropout: y = x / q under the mask b of 32-bit numbers; q is at c */
static void half_drop(void *dv, const void *av, const void *bv, const void *cv, size_t n)
{
    uint16_t *d = dv;
    const uint16_t *a = av;
    const float *b = bv, *q = cv;
    const vf vq = v_set1(*q);
    size_t i = 0;
    for (; i + CPU_VW <= n; i += CPU_VW)
        v_storeh(d + i, v_to_bf16((vf)((vi)(v_from_bf16(v_loadh(a + i)) / vq) & (vi)v_load(b + i))));
    if (i < n)
        v_storeh_n(d + i, v_to_bf16((vf)((vi)(v_from_bf16(v_loadh_n(a + i, n - i)) / vq) & (vi)v_load_n(b + i, n - i))), n - i);
}

static const cpu_map_kernel half_kernels[CPU_M_COUNT] = {
    [CPU_M_EXP] = half_map_exp, [CPU_M_LOG] = half_map_log, [CPU_M_SQRT] = half_map_sqrt, [CPU_M_RSQRT] = half_map_rsqrt,
    [CPU_M_RECIP] = half_map_recip, [CPU_M_TANH] = half_map_tanh, [CPU_M_ERF] = half_map_erf, [CPU_M_ADD] = half_map_add,
    [CPU_M_SUB] = half_map_sub, [CPU_M_MUL] = half_map_mul, [CPU_M_DIV] = half_map_div, [CPU_M_MAX] = half_map_max,
    [CPU_M_MIN] = half_map_min, [CPU_M_RELU] = half_map_relu, [CPU_M_RELU_BWD] = half_map_relu_bwd,
    [CPU_M_GELU] = half_map_gelu, [CPU_M_GELU_BWD] = half_map_gelu_bwd, [CPU_M_GELU_TANH] = half_map_gelu_tanh,
    [CPU_M_GELU_TANH_BWD] = half_map_gelu_tanh_bwd, [CPU_M_SILU] = half_map_silu, [CPU_M_SILU_BWD] = half_map_silu_bwd,
    [CPU_M_SIGMOID] = half_map_sigmoid, [CPU_M_SIGMOID_BWD] = half_map_sigmoid_bwd, [CPU_M_TANH_BWD] = half_map_tanh_bwd,
};
