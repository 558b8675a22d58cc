/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementary functions on vf, about 1 ulp (tests/unit/cpu_ops.c holds the bounds). Included after vec.h.
 * exp, log, tanh: the Cephes single precision forms (S. Moshier); erf: two minimax polynomials, after N. Juffa.
 */

V_INLINE vf v_pow2(vi n)
{
    return (vf)((n + 127) << 23);
}

/* exp(x) = 2^n exp(r), |r| <= ln2/2; 2^n in two factors so that results near the ends of the range are right */
V_INLINE vf v_exp(vf x)
{
    x = v_clamp(x, -104.0f, 89.0f);
    const vf magic = v_set1(12582912.0f);
    vf n = v_fma(x, v_set1(1.44269504088896341f), magic) - magic;
    vf r = v_fma(n, v_set1(-0.693145751953125f), x);
    r = v_fma(n, v_set1(-1.42860682030941723e-6f), r);
    vf p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_fma(p, r * r, r) + v_set1(1.0f);
#if CPU_VW == 16
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vi k = v_ftoi(n), h = k >> 1;
    return p * v_pow2(h) * v_pow2(k - h);
#endif
}

V_INLINE vf v_log(vf x)
{
    vi tiny = x < v_set1(0x1p-126f);
    vf s = v_sel(tiny, x * v_set1(0x1p23f), x);
    vi u = (vi)s;
    vi e = ((u - 0x3f3504f3) >> 23);
    vf m = (vf)(u - (e << 23));
    vf ef = v_itof(e) - v_sel(tiny, v_set1(23.0f), v_set1(0.0f));
    vf f = m - v_set1(1.0f), z = f * f;
    vf p = v_set1(7.0376836292e-2f);
    p = v_fma(p, f, v_set1(-1.1514610310e-1f));
    p = v_fma(p, f, v_set1(1.1676998740e-1f));
    p = v_fma(p, f, v_set1(-1.2420140846e-1f));
    p = v_fma(p, f, v_set1(1.4249322787e-1f));
    p = v_fma(p, f, v_set1(-1.6668057665e-1f));
    p = v_fma(p, f, v_set1(2.0000714765e-1f));
    p = v_fma(p, f, v_set1(-2.4999993993e-1f));
    p = v_fma(p, f, v_set1(3.3333331174e-1f));
    vf y = f * z * p;
    y = v_fma(ef, v_set1(-2.12194440e-4f), y);
    y = v_fma(z, v_set1(-0.5f), y);
    y = v_fma(ef, v_set1(0.693359375f), f + y);
    y = v_sel(x == v_set1(0.0f), v_set1(-INFINITY), y);
    y = v_sel(x == v_set1(INFINITY), x, y);
    return v_sel((x >= v_set1(0.0f)) | (x != x), v_sel(x != x, x, y), v_set1(NAN));
}

V_INLINE vf v_tanh(vf x)
{
    vf a = v_abs(x), z = x * x;
    vf p = v_set1(-5.70498872745e-3f);
    p = v_fma(p, z, v_set1(2.06390887954e-2f));
    p = v_fma(p, z, v_set1(-5.37397155531e-2f));
    p = v_fma(p, z, v_set1(1.33314422036e-1f));
    p = v_fma(p, z, v_set1(-3.33332819422e-1f));
    vf small = v_fma(p * z, x, x);
    vf big = v_set1(1.0f) - v_set1(2.0f) / (v_exp(a + a) + v_set1(1.0f));
    big = (vf)((vi)big | ((vi)x & (int32_t)0x80000000));
    vf y = v_sel(a < v_set1(0.625f), small, big);
    return v_sel(x != x, x, y);
}

V_INLINE vf v_erf(vf x)
{
    vf t = v_abs(x), s = x * x;
    vf r = v_fma(v_set1(-1.72853470e-5f), t, v_set1(3.83197126e-4f));
    vf u = v_fma(v_set1(-3.88396438e-3f), t, v_set1(2.42546219e-2f));
    r = v_fma(r, s, u);
    r = v_fma(r, t, v_set1(-1.06777877e-1f));
    r = v_fma(r, t, v_set1(-6.34846687e-1f));
    r = v_fma(r, t, v_set1(-1.28717512e-1f));
    r = v_fma(r, t, -t);
    vf big = v_set1(1.0f) - v_exp(r);
    big = v_sel(t > v_set1(4.0f), v_set1(1.0f), big);
    big = (vf)((vi)big | ((vi)x & (int32_t)0x80000000));
    r = v_set1(-5.96761703e-4f);
    r = v_fma(r, s, v_set1(4.99119423e-3f));
    r = v_fma(r, s, v_set1(-2.67681349e-2f));
    r = v_fma(r, s, v_set1(1.12819925e-1f));
    r = v_fma(r, s, v_set1(-3.76125336e-1f));
    r = v_fma(r, s, v_set1(1.28379166e-1f));
    vf small = v_fma(r, x, x);
    vf y = v_sel(t > v_set1(0.927734375f), big, small);
    return v_sel(x != x, x, y);
}

V_INLINE vf v_sigmoid(vf x)
{
    return v_set1(1.0f) / (v_set1(1.0f) + v_exp(-x));
}
