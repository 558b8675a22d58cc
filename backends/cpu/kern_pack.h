/* SPDX-License-Identifier: Apache-2.0 */
/* Moving data: transposition, strips for the packed operands, conversions. Included after vec.h. */

/* VWxVW words in registers: log2(VW) rounds that swap blocks of 1, 2, 4, 8 lanes */
V_INLINE void pack_square(vu r[CPU_VW])
{
#pragma GCC unroll 4
    for (int s = 1; s < CPU_VW; s *= 2) {
        vi lo = {0}, hi = {0};
#pragma GCC unroll 16
        for (int l = 0; l < CPU_VW; l++) {
            lo[l] = (l & s) ? CPU_VW + (l ^ s) : l;
            hi[l] = (l & s) ? CPU_VW + l : (l ^ s);
        }
#pragma GCC unroll 16
        for (int i = 0; i < CPU_VW; i++)
            if (!(i & s)) {
                vu a = r[i], b = r[i | s];
                r[i] = v_pick(a, b, lo);
                r[i | s] = v_pick(a, b, hi);
            }
    }
}

static void pack_transpose(uint32_t *dst, size_t ldd, const void *srcv, size_t apart, size_t rows, size_t cols)
{
    const char *src = srcv;
    for (size_t r = 0; r < rows; r += CPU_VW) {
        size_t nr = rows - r < CPU_VW ? rows - r : CPU_VW;
        for (size_t c = 0; c < cols; c += CPU_VW) {
            size_t nc = cols - c < CPU_VW ? cols - c : CPU_VW;
            uint32_t *to = dst + c * ldd + r;
            const char *from = src + r * apart + c * 4;
            vu t[CPU_VW];
            if (nr == CPU_VW && nc == CPU_VW) {
#pragma GCC unroll 16
                for (size_t i = 0; i < CPU_VW; i++)
                    t[i] = (vu)v_load(from + i * apart);
                pack_square(t);
#pragma GCC unroll 16
                for (size_t i = 0; i < CPU_VW; i++)
                    v_store(to + i * ldd, (vf)t[i]);
                continue;
            }
            for (size_t i = 0; i < nr; i++) /* strips of A are narrower than a vector: the rows of the next one */
                __builtin_prefetch(from + (rows + i) * apart, 0, 2);
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++)
                t[i] = i < nr ? (vu)v_load_n(from + i * apart, nc) : (vu){0};
            pack_square(t);
            for (size_t i = 0; i < nc; i++)
                if (r && nr < CPU_VW) /* the start of the next row is written already */
                    v_store_n(to + i * ldd, (vf)t[i], nr);
                else
                    v_store(to + i * ldd, (vf)t[i]);
        }
    }
}

/* n <= 2 vw 16-bit numbers as words of two; those past the last are 0 */
V_INLINE vu pack_words_in(const uint16_t *p, size_t n)
{
    if (n >= 2 * CPU_VW)
        return (vu)v_load(p);
#if CPU_VW == 16
    return (vu)_mm512_maskz_loadu_epi16((1u << n) - 1, p);
#elif CPU_VW == 8
    const vh lo = n < 8 ? v_loadh_n(p, n) : v_loadh(p), hi = n > 8 ? v_loadh_n(p + 8, n - 8) : (vh){0};
    return (vu)_mm256_set_m128i((__m128i)hi, (__m128i)lo);
#else
    vu x = {0};
    memcpy(&x, p, n * 2);
    return x;
#endif
}

/* a vector of words from `rows` rows of 2 CPU_VW numbers, of which n are there */
V_INLINE void pack_words_of(vu t[CPU_VW], const char *src, size_t apart, size_t rows, size_t n)
{
    for (size_t i = 0; i < CPU_VW; i++)
        t[i] = i < rows ? pack_words_in((const uint16_t *)(const void *)(src + i * apart), n) : (vu){0};
}

/* The same of bf16, widened: words of two numbers are turned, which is half the work, and taken apart. */
static void pack_transpose_half(uint32_t *dst, size_t ldd, const void *srcv, size_t apart, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r += CPU_VW) {
        const char *src = (const char *)srcv + r * apart;
        size_t nr = rows - r < CPU_VW ? rows - r : CPU_VW;
        for (size_t c = 0; c < cols; c += 2 * CPU_VW) {
            size_t nc = cols - c < 2 * CPU_VW ? cols - c : 2 * CPU_VW;
            uint32_t *to = dst + c * ldd + r;
            vu t[CPU_VW];
            if (nr < CPU_VW || nc < 2 * CPU_VW) {
                for (size_t i = 0; i < nr; i++) /* as above */
                    __builtin_prefetch(src + (rows + i) * apart + c * 2, 0, 2);
                pack_words_of(t, src + c * 2, apart, nr, nc);
                pack_square(t);
                for (size_t i = 0; i < nc; i++) {
                    vu x = i % 2 ? (vu)(t[i / 2] & 0xffff0000u) : (vu)(t[i / 2] << 16);
                    if (r && nr < CPU_VW) /* the start of the next row is written already */
                        v_store_n(to + i * ldd, (vf)x, nr);
                    else
                        v_store(to + i * ldd, (vf)x);
                }
                continue;
            }
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++)
                t[i] = (vu)v_load(src + i * apart + c * 2);
            pack_square(t);
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++) {
                v_store(to + 2 * i * ldd, (vf)(t[i] << 16));
                v_store(to + (2 * i + 1) * ldd, (vf)(t[i] & 0xffff0000u));
            }
        }
    }
}

static void pack_strips(uint32_t *dst, size_t w, size_t step, const uint32_t *row, size_t n)
{
    for (; n >= w; n -= w, row += w, dst += step) {
        size_t i = 0;
        for (; i + CPU_VW <= w; i += CPU_VW)
            v_store(dst + i, v_load(row + i));
        if (i < w) /* the slack of the row below takes the lanes too many */
            v_store_n(dst + i, v_load_n(row + i, w - i), w - i);
    }
    if (n)
        memcpy(dst, row, n * 4);
}

/* a vector of pairs from two rows with `left` numbers to go */
V_INLINE vf pack_pair(const uint16_t *a, const uint16_t *b, size_t left)
{
    bool full = left >= CPU_VW;
    vh x = full ? v_loadh(a) : v_loadh_n(a, left), y = !b ? (vh){0} : full ? v_loadh(b) : v_loadh_n(b, left);
    return (vf)v_pairs(x, y);
}

static void pack_strip_pairs(uint32_t *dst, size_t w, size_t step, const uint16_t *r0, const uint16_t *r1, size_t n)
{
    while (n) {
        size_t m = n < w ? n : w, i = 0;
        for (; i + CPU_VW <= m; i += CPU_VW)
            v_store(dst + i, pack_pair(r0 + i, r1 ? r1 + i : NULL, CPU_VW));
        if (i < m)
            v_store_n(dst + i, pack_pair(r0 + i, r1 ? r1 + i : NULL, n - i), m - i);
        n -= m, r0 += m, r1 = r1 ? r1 + m : NULL, dst += step;
    }
}

/* dst[c*ldd + r] = the pair of number c of row r of both; the second one has `seconds` rows, then zeros */
static void pack_transpose_pairs(uint32_t *dst, size_t ldd, const uint16_t *first, const uint16_t *second, size_t apart, size_t rows,
                                 size_t seconds, size_t cols)
{
    for (size_t c = 0; c < cols; c += CPU_VW, dst += CPU_VW * ldd) {
        size_t nc = cols - c < CPU_VW ? cols - c : CPU_VW;
        vu t[CPU_VW];
        if (nc == CPU_VW && seconds == CPU_VW) {
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++)
                t[i] = (vu)pack_pair(first + i * apart + c, second + i * apart + c, CPU_VW);
            pack_square(t);
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++)
                v_store(dst + i * ldd, (vf)t[i]);
            continue;
        }
#pragma GCC unroll 16
        for (size_t i = 0; i < CPU_VW; i++)
            t[i] = i < rows ? (vu)pack_pair(first + i * apart + c, i < seconds ? second + i * apart + c : NULL, nc) : (vu){0};
        pack_square(t);
        for (size_t i = 0; i < nc; i++)
            v_store(dst + i * ldd, (vf)t[i]);
    }
}

/* Rounded to bf16 in the upper halves; a NaN stays one. */
V_INLINE void pack_round(vf x0, vf x1, vu *r0, vu *r1)
{
    *r0 = v_round_bf16(x0), *r1 = v_round_bf16(x1);
#if CPU_VW == 8 /* a jump that is hardly ever taken costs less than two blends */
    if (!__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps((__m256)x0, (__m256)x1, _CMP_UNORD_Q)), 0))
        return;
#endif
    *r0 = (vu)v_seli(x0 != x0, (vi)((vu)x0 | 0x400000), (vi)*r0);
    *r1 = (vu)v_seli(x1 != x1, (vi)((vu)x1 | 0x400000), (vi)*r1);
}

/* rounded to bf16: x0 in the low, x1 in the high half of a word */
V_INLINE vu pack_both(vf x0, vf x1)
{
#ifdef CPU_CVT_BF16
    return v_interleave((__m512i)_mm512_cvtne2ps_pbh((__m512)x1, (__m512)x0));
#else
    vu r0, r1;
    pack_round(x0, x1, &r0, &r1);
    return v_uppers(r0, r1);
#endif
}

#if CPU_VW >= 8
/* two vectors that follow each other, rounded */
V_INLINE vf pack_next(vf x0, vf x1)
{
#ifdef CPU_CVT_BF16
    return (vf)_mm512_cvtne2ps_pbh((__m512)x1, (__m512)x0);
#else
    vu r0, r1;
    pack_round(x0, x1, &r0, &r1);
#if CPU_VW == 16
    const __m512i high = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21,
                                          19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return (vf)_mm512_permutex2var_epi16((__m512i)r0, high, (__m512i)r1);
#else
    __m256i t = _mm256_packus_epi32((__m256i)(r0 >> 16), (__m256i)(r1 >> 16));
    return (vf)_mm256_permute4x64_epi64(t, 0xd8);
#endif
#endif
}
#endif

/* x1 after x0; a NaN stays one */
V_INLINE void pack_store_next(uint16_t *p, vf x0, vf x1)
{
#if CPU_VW >= 8
    v_store(p, pack_next(x0, x1));
#else
    v_storeh(p, v_to_bf16(x0));
    v_storeh(p + CPU_VW, v_to_bf16(x1));
#endif
}

#define PACK_CONVERT(name, T, load, load_n, store, store_n, f)                                                         \
    static void name(T *d, const void *sv, size_t n)                                                                   \
    {                                                                                                                  \
        const char *s = sv;                                                                                            \
        size_t i = 0;                                                                                                  \
        for (; i + CPU_VW <= n; i += CPU_VW)                                                                           \
            store(d + i, f(load(s + i * (6 - sizeof(T)))));                                                            \
        if (i < n)                                                                                                     \
            store_n(d + i, f(load_n(s + i * (6 - sizeof(T)), n - i)), n - i);                                          \
    }
PACK_CONVERT(pack_from_bf16, float, v_loadh, v_loadh_n, v_store, v_store_n, v_from_bf16)
PACK_CONVERT(pack_from_f16, float, v_loadh, v_loadh_n, v_store, v_store_n, v_from_f16)
PACK_CONVERT(pack_to_f16, uint16_t, v_load, v_load_n, v_storeh, v_storeh_n, v_to_f16)

static void pack_to_bf16(uint16_t *d, const float *s, size_t n)
{
    size_t i = 0;
    for (; i + 2 * CPU_VW <= n; i += 2 * CPU_VW)
        pack_store_next(d + i, v_load(s + i), v_load(s + i + CPU_VW));
    for (; i < n; i += CPU_VW)
        if (n - i < CPU_VW)
            v_storeh_n(d + i, v_to_bf16(v_load_n(s + i, n - i)), n - i);
        else
            v_storeh(d + i, v_to_bf16(v_load(s + i)));
}

static void pack_to_f32(float *d, const void *s, int dtype, size_t n)
{
    if (dtype == YK_BF16)
        pack_from_bf16(d, s, n);
    else if (dtype == YK_F16)
        pack_from_f16(d, s, n);
    else
        memmove(d, s, n * 4);
}

static void pack_from_f32(void *d, const float *s, int dtype, size_t n)
{
    if (dtype == YK_BF16)
        pack_to_bf16(d, s, n);
    else if (dtype == YK_F16)
        pack_to_f16(d, s, n);
    else if (d != s)
        memmove(d, s, n * 4);
}

V_INLINE void pack_words_out(uint16_t *p, vu x, size_t n)
{
    if (n >= 2 * CPU_VW) {
        v_store(p, (vf)x);
        return;
    }
#if CPU_VW == 16
    _mm512_mask_storeu_epi16(p, (1u << n) - 1, (__m512i)x);
#else
    memcpy(p, &x, n * 2);
#endif
}

static void pack_split_pairs(uint32_t *even, uint32_t *odd, const uint16_t *r0, const uint16_t *r1, size_t n)
{
    for (size_t i = 0; i < n; i += 2 * CPU_VW, even += CPU_VW, odd += CPU_VW) {
        size_t left = n - i;
        vu a = pack_words_in(r0 + i, left), b = r1 ? pack_words_in(r1 + i, left) : (vu){0};
        vf x = (vf)((a & 0xffff) | (b << 16)), y = (vf)((a >> 16) | (b & 0xffff0000u));
        if (left >= 2 * CPU_VW) {
            v_store(even, x);
            v_store(odd, y);
            continue;
        }
        memcpy(even, &x, (left + 1) / 2 * 4);
        memcpy(odd, &y, left / 2 * 4);
    }
}

/* Planes of bf16, `apart` numbers from each other, to pixels of a vector of f32, a plane (at most vw) in each lane: words of
 * two pixels are transposed. */
static void pack_planes_in(float *to, const uint16_t *from, size_t apart, size_t planes, size_t pixels)
{
    for (size_t c = 0; c < pixels; c += 2 * CPU_VW) {
        size_t n = pixels - c < 2 * CPU_VW ? pixels - c : 2 * CPU_VW;
        vu t[CPU_VW];
        if (planes == CPU_VW && n == 2 * CPU_VW) {
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++)
                t[i] = (vu)v_load(from + i * apart + c);
            pack_square(t);
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++) {
                v_store(to + (c + 2 * i) * CPU_VW, (vf)(t[i] << 16));
                v_store(to + (c + 2 * i + 1) * CPU_VW, (vf)(t[i] & 0xffff0000u));
            }
            continue;
        }
        for (size_t i = 0; i < CPU_VW; i++)
            t[i] = i < planes ? pack_words_in(from + i * apart + c, n) : (vu){0};
        pack_square(t);
        for (size_t i = 0; 2 * i < n; i++) {
            v_store(to + (c + 2 * i) * CPU_VW, (vf)(t[i] << 16));
            if (2 * i + 1 < n)
                v_store(to + (c + 2 * i + 1) * CPU_VW, (vf)(t[i] & 0xffff0000u));
        }
    }
}

/* the way back, rounded */
static void pack_planes_out(uint16_t *to, size_t apart, const float *from, size_t pixels, size_t planes)
{
    for (size_t c = 0; c < pixels; c += 2 * CPU_VW, from += 2 * CPU_VW * CPU_VW) {
        size_t n = pixels - c < 2 * CPU_VW ? pixels - c : 2 * CPU_VW;
        vu t[CPU_VW];
        if (planes == CPU_VW && n == 2 * CPU_VW) {
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++)
                t[i] = pack_both(v_load(from + 2 * i * CPU_VW), v_load(from + (2 * i + 1) * CPU_VW));
            pack_square(t);
#pragma GCC unroll 16
            for (size_t i = 0; i < CPU_VW; i++)
                v_store(to + i * apart + c, (vf)t[i]);
            continue;
        }
        for (size_t i = 0; i < CPU_VW; i++)
            t[i] = 2 * i >= n ? (vu){0}
                              : pack_both(v_load(from + 2 * i * CPU_VW),
                                          2 * i + 1 < n ? v_load(from + (2 * i + 1) * CPU_VW) : (vf){0});
        pack_square(t);
        for (size_t i = 0; i < planes; i++)
            pack_words_out(to + i * apart + c, t[i], n);
    }
}

/* n vectors, `step` and `from_step` words apart */
static void pack_spread(float *to, size_t step, const float *from, size_t from_step, size_t n)
{
    for (; n; n--, to += step, from += from_step)
        v_store(to, v_load(from));
}

static void pack_fill32(void *dv, uint32_t v, size_t n)
{
    uint32_t *d = dv;
    vf x = (vf)v_seti((int32_t)v);
    size_t i = 0;
    for (; i + CPU_VW <= n; i += CPU_VW)
        v_store(d + i, x);
    for (; i < n; i++)
        d[i] = v;
}
