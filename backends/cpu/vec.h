/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One vector type for every instruction set. A kernel file is written once against vf/vi and compiled once per set:
 * the including file defines CPU_VW (lanes: 4, 8 or 16) and CPU_ISA(name) and has set the target pragma before.
 * Nothing here is visible outside that file.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if CPU_VW >= 8
#include <immintrin.h>
#endif

#define V_BYTES (CPU_VW * 4)
typedef float vf __attribute__((vector_size(V_BYTES), may_alias));
typedef int32_t vi __attribute__((vector_size(V_BYTES), may_alias));
typedef uint32_t vu __attribute__((vector_size(V_BYTES), may_alias));
typedef uint16_t vh __attribute__((vector_size(CPU_VW * 2), may_alias));
typedef float vf_any __attribute__((vector_size(V_BYTES), aligned(1), may_alias));
typedef uint16_t vh_any __attribute__((vector_size(CPU_VW * 2), aligned(1), may_alias));

#define V_INLINE static inline __attribute__((always_inline, unused))

V_INLINE vf v_set1(float x)
{
    return x - (vf){0};
}

V_INLINE vi v_seti(int32_t x)
{
    return x - (vi){0};
}

V_INLINE vf v_load(const void *p)
{
    return *(const vf_any *)p;
}

V_INLINE void v_store(void *p, vf x)
{
    *(vf_any *)p = x;
}

V_INLINE vh v_loadh(const void *p)
{
    return *(const vh_any *)p;
}

V_INLINE void v_storeh(void *p, vh x)
{
    *(vh_any *)p = x;
}

#if CPU_VW < 16
/* from word CPU_VW - n on: a mask of the first n lanes */
static const int32_t v_mask[2 * CPU_VW] __attribute__((unused)) = {
#if CPU_VW == 8
    -1, -1, -1, -1,
#endif
    -1, -1, -1, -1,
};
#endif

/* The first n (< CPU_VW) lanes of x; the others 0. */
V_INLINE vf v_keep(vf x, size_t n)
{
#if CPU_VW == 16
    return (vf)_mm512_maskz_mov_ps((__mmask16)((1u << n) - 1), (__m512)x);
#else
    return (vf)((vi)x & (vi)v_load(v_mask + CPU_VW - n));
#endif
}

/* x without its first n (< CPU_VW) lanes, which become 0. */
V_INLINE vf v_drop(vf x, size_t n)
{
#if CPU_VW == 16
    return (vf)_mm512_maskz_mov_ps((__mmask16)~((1u << n) - 1), (__m512)x);
#else
    return (vf)((vi)x & ~(vi)v_load(v_mask + CPU_VW - n));
#endif
}

/* The first n (< CPU_VW) lanes; the others are 0. */
V_INLINE vf v_load_n(const void *p, size_t n)
{
#if CPU_VW == 16
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif CPU_VW == 8
    return (vf)_mm256_maskload_ps(p, _mm256_loadu_si256((const __m256i_u *)(v_mask + CPU_VW - n)));
#else
    vf x = {0};
    memcpy(&x, p, n * 4);
    return x;
#endif
}

V_INLINE void v_store_n(void *p, vf x, size_t n)
{
#if CPU_VW == 16
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
#elif CPU_VW == 8 /* masked stores take tens of cycles on some processors, calls to copy a few bytes on all */
    __m128 t = _mm256_castps256_ps128((__m256)x);
    float *d = p;
    if (n & 4) {
        _mm_storeu_ps(d, t);
        t = _mm256_extractf128_ps((__m256)x, 1);
        d += 4;
    }
    if (n & 2) {
        _mm_storel_epi64((__m128i_u *)(void *)d, _mm_castps_si128(t));
        t = _mm_movehl_ps(t, t);
        d += 2;
    }
    if (n & 1)
        _mm_store_ss(d, t);
#else
    memcpy(p, &x, n * 4);
#endif
}

#if CPU_VW == 8
/* 0 < n < 8 numbers of 16 bits, in two overlapping parts where there are four */
V_INLINE __m128i v_few(const uint16_t *p, size_t n)
{
    uint64_t a, b = 0;
    if (n >= 4) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 4, 8);
        b = b >> 8 * (8 - n) >> 8 * (8 - n); /* by 64 bits at most, which one shift cannot */
    } else {
        a = p[0] | (uint64_t)p[n / 2] << n / 2 * 16 | (uint64_t)p[n - 1] << (n - 1) * 16;
    }
    return _mm_set_epi64x((long long)b, (long long)a);
}
#endif

V_INLINE vh v_loadh_n(const void *p, size_t n)
{
#if CPU_VW == 16
    return (vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
#elif CPU_VW == 8
    return (vh)v_few(p, n);
#else
    vh x = {0};
    memcpy(&x, p, n * 2);
    return x;
#endif
}

V_INLINE void v_storeh_n(void *p, vh x, size_t n)
{
#if CPU_VW == 16
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)x);
#elif CPU_VW == 8
    uint64_t a = (uint64_t)_mm_cvtsi128_si64((__m128i)x);
    uint16_t *d = p;
    if (n & 4) {
        memcpy(d, &a, 8);
        a = (uint64_t)_mm_extract_epi64((__m128i)x, 1);
        d += 4;
    }
    if (n & 2) {
        memcpy(d, &a, 4);
        a >>= 32;
        d += 2;
    }
    if (n & 1)
        memcpy(d, &a, 2);
#else
    memcpy(p, &x, n * 2);
#endif
}

/* a*b + c, fused where the set has it */
V_INLINE vf v_fma(vf a, vf b, vf c)
{
#if CPU_VW == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif CPU_VW == 8
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* lanes of a where the mask lane is all ones, else of b */
V_INLINE vf v_sel(vi m, vf a, vf b)
{
    return (vf)((m & (vi)a) | (~m & (vi)b));
}

V_INLINE vi v_seli(vi m, vi a, vi b)
{
    return (m & a) | (~m & b);
}

/* NaN in either operand gives NaN: the rule of max and min in the op table */
V_INLINE vf v_max(vf a, vf b)
{
#if CPU_VW == 16
    vf m = (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif CPU_VW == 8
    vf m = (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    vf m = v_sel(a > b, a, b);
#endif
    return v_sel(a != a, a, m);
}

V_INLINE vf v_min(vf a, vf b)
{
#if CPU_VW == 16
    vf m = (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif CPU_VW == 8
    vf m = (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    vf m = v_sel(a < b, a, b);
#endif
    return v_sel(a != a, a, m);
}

/* NaN stays: the instructions give their second operand then */
V_INLINE vf v_clamp(vf x, float lo, float hi)
{
#if CPU_VW == 16
    return (vf)_mm512_max_ps((__m512)v_set1(lo), _mm512_min_ps((__m512)v_set1(hi), (__m512)x));
#elif CPU_VW == 8
    return (vf)_mm256_max_ps((__m256)v_set1(lo), _mm256_min_ps((__m256)v_set1(hi), (__m256)x));
#else
    x = v_sel(x > v_set1(hi), v_set1(hi), x);
    return v_sel(x < v_set1(lo), v_set1(lo), x);
#endif
}

/* max(x, 0), NaN for NaN: the instruction gives its second operand where the first is not greater */
V_INLINE vf v_relu(vf x)
{
#if CPU_VW == 16
    return (vf)_mm512_max_ps(_mm512_setzero_ps(), (__m512)x);
#elif CPU_VW == 8
    return (vf)_mm256_max_ps(_mm256_setzero_ps(), (__m256)x);
#else
    return v_max(x, v_set1(0.0f));
#endif
}

/* y where x > 0, else 0 */
V_INLINE vf v_positive(vf x, vf y)
{
#if CPU_VW == 16
    return (vf)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_GT_OQ), (__m512)y);
#else
    return (vf)((vi)(x > v_set1(0.0f)) & (vi)y);
#endif
}

V_INLINE vf v_abs(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

V_INLINE vf v_sqrt(vf x)
{
#if CPU_VW == 16
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif CPU_VW == 8
    return (vf)_mm256_sqrt_ps((__m256)x);
#else
    vf y;
    for (int i = 0; i < CPU_VW; i++)
        y[i] = sqrtf(x[i]);
    return y;
#endif
}

V_INLINE vf v_itof(vi x)
{
    return __builtin_convertvector(x, vf);
}

/* truncates; out of range is the set's own value, so callers clamp first */
V_INLINE vi v_ftoi(vf x)
{
#if CPU_VW == 16
    return (vi)_mm512_cvttps_epi32((__m512)x);
#elif CPU_VW == 8
    return (vi)_mm256_cvttps_epi32((__m256)x);
#else
    vi y;
    for (int i = 0; i < CPU_VW; i++)
        y[i] = x[i] >= -2147483648.0f && x[i] < 2147483648.0f ? (int32_t)x[i] : INT32_MIN;
    return y;
#endif
}

/* Fixed tree (each half added to the other), so that a sum is the same wherever it is computed. */
V_INLINE float v_sum(vf x)
{
#if CPU_VW >= 8
#if CPU_VW == 16
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
#else
    __m256 y = (__m256)x;
#endif
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
#else
    float t[CPU_VW];
    memcpy(t, &x, sizeof t);
    for (int w = CPU_VW / 2; w; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] += t[i + w];
    return t[0];
#endif
}

/* Lane i of the result is lane from[i] of a and b, taken as one vector of 2 CPU_VW lanes. After unrolling `from` is known to
 * the compiler, which makes one instruction of it; clang sees that in the lanes one by one, gcc only in its own function. */
V_INLINE vu v_pick(vu a, vu b, vi from)
{
#if defined __clang__
    vu picked = a;
#pragma GCC unroll 16
    for (int i = 0; i < CPU_VW; i++)
        picked[i] = from[i] < CPU_VW ? a[from[i] % CPU_VW] : b[from[i] % CPU_VW];
    return picked;
#else
    return __builtin_shuffle(a, b, from);
#endif
}

V_INLINE float v_hmax(vf x)
{
#pragma GCC unroll 4
    for (int s = CPU_VW / 2; s; s /= 2) {
        vi swap = {0};
#pragma GCC unroll 16
        for (int i = 0; i < CPU_VW; i++)
            swap[i] = i ^ s;
        x = v_max(x, (vf)v_pick((vu)x, (vu)x, swap));
    }
    return x[0];
}

V_INLINE vf v_from_bf16(vh h)
{
#if CPU_VW == 16 /* the compiler goes through two halves */
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif CPU_VW == 8
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
    return (vf)(__builtin_convertvector(h, vu) << 16);
#endif
}

/* a vector of bf16, widened */
V_INLINE vf v_load_bf16(const uint16_t *p)
{
#if CPU_VW == 8 /* the load fills both halves, so that one shuffle in each does it all */
    const __m256i turn = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1, 10, 11,
                                          -1, -1, 12, 13, -1, -1, 14, 15);
    return (vf)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256((__m128i)v_loadh(p)), turn);
#else
    return v_from_bf16(v_loadh(p));
#endif
}

/* rounded to nearest even, in the upper half of each word; a NaN may become any number */
V_INLINE vu v_round_bf16(vf x)
{
    vu u = (vu)x;
    return u + 0x7fff + ((u >> 16) & 1);
}

#if CPU_VW == 16
/* words of two: z's lower half in the lower halves, its upper half in the upper ones */
V_INLINE vu v_interleave(__m512i z)
{
    const __m512i turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
                                          4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vu)_mm512_permutexvar_epi16(turn, z);
}
#endif

/* words of two: x in the lower halves, y in the upper ones */
V_INLINE vu v_pairs(vh x, vh y)
{
#if CPU_VW == 16
    return v_interleave(_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)x), (__m256i)y, 1));
#elif CPU_VW == 8
    return (vu)_mm256_set_m128i(_mm_unpackhi_epi16((__m128i)x, (__m128i)y), _mm_unpacklo_epi16((__m128i)x, (__m128i)y));
#else
    return __builtin_convertvector(x, vu) | __builtin_convertvector(y, vu) << 16;
#endif
}

/* the upper halves of a's words in the lower halves, of b's words in the upper ones */
V_INLINE vu v_uppers(vu a, vu b)
{
#if CPU_VW == 8
    return (vu)_mm256_blend_epi16((__m256i)(a >> 16), (__m256i)b, 0xaa);
#else
    return (a >> 16) | (b & 0xffff0000u);
#endif
}

/* Round to nearest even; NaN stays NaN: the same bits on every set, but for numbers below 2^-126, which the instruction
 * takes for 0 as all arithmetic of the plugin does, and integers keep. */
V_INLINE vh v_to_bf16(vf x)
{
#ifdef CPU_CVT_BF16
    return (vh)_mm512_cvtneps_pbh((__m512)x);
#else
    vu r = v_round_bf16(x) >> 16;
    vu q = ((vu)x >> 16) | 0x40;
#if CPU_VW == 16
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    return (vh)_mm512_cvtepi32_epi16(_mm512_mask_mov_epi32((__m512i)r, nan, (__m512i)q));
#elif CPU_VW == 8
    __m256i t = _mm256_blendv_epi8((__m256i)r, (__m256i)q, (__m256i)(x != x));
    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(t, t), 0x08));
#else
    r = (vu)v_seli(x != x, (vi)q, (vi)r);
    return __builtin_convertvector(r, vh);
#endif
#endif
}

#if CPU_VW >= 8
V_INLINE vf v_from_f16(vh h)
{
#if CPU_VW == 16
    return (vf)_mm512_cvtph_ps((__m256i)h);
#else
    return (vf)_mm256_cvtph_ps((__m128i)h);
#endif
}

V_INLINE vh v_to_f16(vf x)
{
#if CPU_VW == 16
    return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#else
    return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#endif
}
#else
/* The exponent is rebased; below the normal halves the mantissa is an integer times 2^-24. Exact, and in no mode of the
 * processor's does an f32 below the normal ones come into it. */
V_INLINE vf v_from_f16(vh h)
{
    vu w = __builtin_convertvector(h, vu);
    vu em = (w & 0x7fff) << 13;
    vf tiny = __builtin_convertvector((vi)(w & 0x3ff), vf) * v_set1(0x1p-24f);
    vf mag = (vf)v_seli((vi)(em < (0x400u << 13)), (vi)tiny, (vi)(em + (112u << 23)));
    vi special = (vi)(em >= (0x7c00u << 13));
    mag = (vf)v_seli(special, (vi)(em | 0x7f800000u), (vi)mag);
    return (vf)((vu)mag | ((w & 0x8000) << 16));
}

/* Round to nearest even through the float adder for denormal halves, by integers for the rest. */
V_INLINE vh v_to_f16(vf x)
{
    vu u = (vu)x, sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
    vu normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    vf den = (vf)a + v_set1(0.5f);
    vu tiny = (vu)den - 0x3f000000u;
    vu r = (vu)v_seli((vi)(a < (113u << 23)), (vi)tiny, (vi)normal);
    r = (vu)v_seli((vi)(a >= 0x477ff000u), v_seti(0x7c00), (vi)r);
    r = (vu)v_seli((vi)(a > 0x7f800000u), (vi)(0x7e00 | ((a >> 13) & 0x3ff)), (vi)r);
    return __builtin_convertvector(r | sign, vh);
}
#endif
