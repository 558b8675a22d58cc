/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels on one row of bf16 in one pass: widened, computed and rounded in registers, two vectors at a time. Where f32
 * operands lie beside the row, vectors follow each other; else one has the even, one the odd numbers, which costs half the
 * instructions. Exponentials are those of kern_half.h: relative error 3e-6. Included after kern_half.h and kern_rows.h.
 */

#if CPU_VW == 16
#define HALF_WORDS(name) _mm512_##name##_epi16
typedef __m512i half_words;
#elif CPU_VW == 8
#define HALF_WORDS(name) _mm256_##name##_epi16
typedef __m256i half_words;
#endif

/* Numbers [i, i + l) of a row, l at most a vector: i is a multiple of it, so that what ends a longer row can be had by
 * reading back from the end. */
V_INLINE vf half_get(const uint16_t *x, size_t i, size_t l)
{
#if CPU_VW == 8
    static const uint64_t turn[4] = {0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x8080808080808080, 0x8080808080808080};
    if (l < CPU_VW && i) {
        __m128i t = _mm_loadu_si128((const __m128i_u *)(const void *)(x + i + l - CPU_VW));
        const char *by = (const char *)turn + 2 * (CPU_VW - l);
        return v_from_bf16((vh)_mm_shuffle_epi8(t, _mm_loadu_si128((const __m128i_u *)(const void *)by)));
    }
#endif
    return l < CPU_VW ? v_from_bf16(v_loadh_n(x + i, l)) : v_load_bf16(x + i);
}

V_INLINE void half_put(uint16_t *p, vf x, size_t l)
{
    if (l < CPU_VW)
        v_storeh_n(p, v_to_bf16(x), l);
    else
        v_storeh(p, v_to_bf16(x));
}

V_INLINE vf half_f32(const float *p, size_t l)
{
    return l < CPU_VW ? v_load_n(p, l) : v_load(p);
}

/* PAIR sees `i`, two vectors from there on; REST sees `l`, at most one. */
#define HALF_ROW(n, PAIR, REST)                                                                                        \
    size_t i = 0;                                                                                                      \
    for (; i + 2 * CPU_VW <= (n); i += 2 * CPU_VW) {                                                                   \
        PAIR                                                                                                           \
    }                                                                                                                  \
    for (; i < (n); i += CPU_VW) {                                                                                     \
        size_t l = (n) - i < CPU_VW ? (n) - i : CPU_VW;                                                                \
        REST                                                                                                           \
    }

static float half_sum(const void *xv, size_t n)
{
    const uint16_t *x = xv;
    vf s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, a, b;
    size_t at = 0;
    for (; at + 4 * CPU_VW <= n; at += 4 * CPU_VW) {
        half_load(x + at, &a, &b);
        s0 += a;
        s1 += b;
        half_load(x + at + 2 * CPU_VW, &a, &b);
        s2 += a;
        s3 += b;
    }
    x += at, n -= at;
    HALF_ROW(n, half_load(x + i, &a, &b); s0 += a; s1 += b;, s2 += half_get(x, i, l);)
    return v_sum((s0 + s1) + (s2 + s3));
}

static float half_dot(const void *av, const void *bv, size_t n)
{
    const uint16_t *a = av, *b = bv;
    vf s = {0}, t = {0}, a0, a1, b0, b1;
    HALF_ROW(n, half_load(a + i, &a0, &a1); half_load(b + i, &b0, &b1); s = v_fma(a0, b0, s); t = v_fma(a1, b1, t);
             , s = v_fma(half_get(a, i, l), half_get(b, i, l), s);)
    return v_sum(s + t);
}

static float half_weigh(const void *xv, const float *w, size_t n)
{
    const uint16_t *x = xv;
    vf s = {0}, t = {0};
    HALF_ROW(n, s = v_fma(v_load_bf16(x + i), v_load(w + i), s);
             t = v_fma(v_load_bf16(x + i + CPU_VW), v_load(w + i + CPU_VW), t);
             , s = v_fma(half_get(x, i, l), half_f32(w + i, l), s);)
    return v_sum(s + t);
}

#define HALF_FOLD(name, F)                                                                                             \
    static void name(float *d, const void *xv, size_t n)                                                              \
    {                                                                                                                  \
        const uint16_t *x = xv;                                                                                        \
        size_t i = 0;                                                                                                  \
        for (; i + CPU_VW <= n; i += CPU_VW)                                                                           \
            v_store(d + i, F(v_load(d + i), v_load_bf16(x + i)));                                             \
        if (i < n)                                                                                                     \
            v_store_n(d + i, F(v_load_n(d + i, n - i), half_get(x, i, n - i)), n - i);                                 \
    }
#define HALF_SUM(a, b) ((a) + (b))
HALF_FOLD(half_add, HALF_SUM)
HALF_FOLD(half_vmax, v_max)

V_INLINE float half_float(int16_t bits)
{
    uint32_t u = (uint32_t)(uint16_t)bits << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

#if CPU_VW >= 8
/* Integers in the order of the numbers: NaN lies beyond the infinities, by its sign. Its own inverse. */
V_INLINE half_words half_key(half_words x)
{
    half_words low = HALF_WORDS(set1)(0x7fff);
#if CPU_VW == 16
    return _mm512_ternarylogic_epi64(x, HALF_WORDS(srai)(x, 15), low, 0x78); /* x ^ (sign & low) */
#else
    return _mm256_xor_si256(x, _mm256_and_si256(HALF_WORDS(srai)(x, 15), low));
#endif
}

/* the largest and the least of eight lanes */
V_INLINE void half_ends(__m128i most, __m128i least, int *max, int *min)
{
    most = _mm_minpos_epu16(_mm_xor_si128(most, _mm_set1_epi16(0x7fff)));
    least = _mm_minpos_epu16(_mm_xor_si128(least, _mm_set1_epi16(-0x8000)));
    *max = (int16_t)(_mm_cvtsi128_si32(most) ^ 0x7fff);
    *min = (int16_t)(_mm_cvtsi128_si32(least) ^ 0x8000);
}

/* A row shorter than two vectors of words: eight at a time, the last ones again where they are fewer. */
V_INLINE void half_range_short(const uint16_t *x, size_t n, int *max, int *min)
{
    const __m128i low = _mm_set1_epi16(0x7fff);
    __m128i most, least;
    if (n >= 8) {
        most = least = _mm_set1_epi16(0);
        for (size_t i = 0;; i = i + 16 <= n ? i + 8 : n - 8) {
            __m128i v = _mm_loadu_si128((const __m128i_u *)(const void *)(x + i));
            v = _mm_xor_si128(v, _mm_and_si128(_mm_srai_epi16(v, 15), low));
            most = i ? _mm_max_epi16(most, v) : v;
            least = i ? _mm_min_epi16(least, v) : v;
            if (i + 8 == n)
                break;
        }
    } else {
        int16_t t[8];
        for (size_t i = 0; i < 8; i++)
            t[i] = (int16_t)x[i < n ? i : 0];
        most = _mm_loadu_si128((const __m128i_u *)(const void *)t);
        most = least = _mm_xor_si128(most, _mm_and_si128(_mm_srai_epi16(most, 15), low));
    }
    half_ends(most, least, max, min);
}

V_INLINE void half_range(const uint16_t *x, size_t n, int *max, int *min)
{
    if (n < 2 * CPU_VW) {
        half_range_short(x, n, max, min);
        return;
    }
    half_words most = half_key((half_words)v_load(x)), least = most, most1 = most, least1 = most;
    size_t i = 0;
    for (; i + 4 * CPU_VW <= n; i += 4 * CPU_VW) {
        half_words a = half_key((half_words)v_load(x + i)), b = half_key((half_words)v_load(x + i + 2 * CPU_VW));
        most = HALF_WORDS(max)(most, a), most1 = HALF_WORDS(max)(most1, b);
        least = HALF_WORDS(min)(least, a), least1 = HALF_WORDS(min)(least1, b);
    }
    for (; i < n; i += 2 * CPU_VW) {
        half_words a = half_key((half_words)v_load(x + (i + 2 * CPU_VW <= n ? i : n - 2 * CPU_VW)));
        most = HALF_WORDS(max)(most, a);
        least = HALF_WORDS(min)(least, a);
    }
    most = HALF_WORDS(max)(most, most1), least = HALF_WORDS(min)(least, least1);
#if CPU_VW == 16
    __m256i m = _mm256_max_epi16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
    __m256i k = _mm256_min_epi16(_mm512_castsi512_si256(least), _mm512_extracti64x4_epi64(least, 1));
#else
    __m256i m = most, k = least;
#endif
    half_ends(_mm_max_epi16(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1)),
              _mm_min_epi16(_mm256_castsi256_si128(k), _mm256_extracti128_si256(k, 1)), max, min);
}
#else
V_INLINE void half_range(const uint16_t *x, size_t n, int *max, int *min)
{
    *max = INT16_MIN, *min = INT16_MAX;
    for (size_t i = 0; i < n; i++) {
        int v = (int16_t)x[i];
        v = v < 0 ? (int16_t)(v ^ 0x7fff) : v;
        *max = v > *max ? v : *max;
        *min = v < *min ? v : *min;
    }
}
#endif

/* By integers, exact; a NaN if there is one. */
static float half_max(const void *x, size_t n)
{
    int max, min;
    half_range(x, n, &max, &min);
    return min < ~0x7f80 ? NAN : half_float((int16_t)(max < 0 ? max ^ 0x7fff : max));
}

/* e^x; what is below the normal numbers becomes 0 */
V_INLINE vf half_row_exp(vf x)
{
#if CPU_VW == 16
    return half_exp(x);
#else /* 2^128 has the bits of infinity */
    x = v_clamp(x * v_set1(1.44269504f), -126.5f, 128.0f);
    vf n = x + v_set1(HALF_MAGIC), p = half_poly2(x - (n - v_set1(HALF_MAGIC)));
    return (vf)(((vu)p + ((vu)n << 23)) & (vu)~(vi)(x < v_set1(-126.0f)));
#endif
}

/* y, unless it is NULL, gets the exponentials, each two vectors' even numbers before the odd ones */
V_INLINE float half_exps(float *y, const uint16_t *x, float m, size_t n)
{
    vf s = {0}, t = {0}, vm = v_set1(m), a, b;
    HALF_ROW(
        n, half_load(x + i, &a, &b); a = half_row_exp(a - vm); b = half_row_exp(b - vm); s += a; t += b;
        if (y) v_store(y + i, a); if (y) v_store(y + i + CPU_VW, b);
        , a = half_row_exp(half_get(x, i, l) - vm); if (y && l < CPU_VW) v_store_n(y + i, a, l); else if (y) v_store(y + i, a);
        s += l < CPU_VW ? v_keep(a, l) : a;)
    return v_sum(s + t);
}

static float half_exp_sum(const void *x, float m, size_t n)
{
    return half_exps(NULL, x, m, n);
}

static void half_moments(const void *xv, float shift, size_t n, float *s1, float *s2)
{
    const uint16_t *x = xv;
    vf s = {0}, t = {0}, q = {0}, r = {0}, vs = v_set1(shift), a, b;
    HALF_ROW(
        n, half_load(x + i, &a, &b); a -= vs; b -= vs; s += a; t += b; q = v_fma(a, a, q); r = v_fma(b, b, r);
        , a = half_get(x, i, l) - vs; a = l < CPU_VW ? v_keep(a, l) : a; s += a; q = v_fma(a, a, q);)
    *s1 = v_sum(s + t);
    *s2 = v_sum(q + r);
}

V_INLINE vf half_scaled(vf x, vf mean, vf rstd, const float *g, const float *b, size_t l)
{
    return v_fma((x - mean) * rstd, g ? half_f32(g, l) : v_set1(1.0f), b ? half_f32(b, l) : (vf){0});
}

#define HALF_AT(p, i) ((p) ? (p) + (i) : NULL)

static void half_norm(void *yv, const void *xv, float mean, float rstd, const float *g, const float *b, size_t n)
{
    uint16_t *y = yv;
    const uint16_t *x = xv;
    vf m = v_set1(mean), r = v_set1(rstd), x0, x1;
    HALF_ROW(n, x0 = v_load_bf16(x + i); x1 = v_load_bf16(x + i + CPU_VW);
             pack_store_next(y + i, half_scaled(x0, m, r, HALF_AT(g, i), HALF_AT(b, i), CPU_VW),
                             half_scaled(x1, m, r, HALF_AT(g, i + CPU_VW), HALF_AT(b, i + CPU_VW), CPU_VW));
             , half_put(y + i, half_scaled(half_get(x, i, l), m, r, HALF_AT(g, i), HALF_AT(b, i), l), l);)
}

/* two vectors' worth of half_norm_sums' sums */
V_INLINE void half_norm_add(vf s[4], const uint16_t *gy, const uint16_t *x, const float *g, vf mean)
{
    vf d = v_load_bf16(gy), f = v_load_bf16(gy + CPU_VW);
    if (g) {
        d *= v_load(g);
        f *= v_load(g + CPU_VW);
    }
    s[0] += d;
    s[1] += f;
    s[2] = v_fma(d, v_load_bf16(x) - mean, s[2]);
    s[3] = v_fma(f, v_load_bf16(x + CPU_VW) - mean, s[3]);
}

static void half_norm_sums(const void *gyv, const void *xv, const float *g, float mean, float rstd, size_t n, float *s1,
                           float *s2)
{
    const uint16_t *gy = gyv, *x = xv;
    const size_t next = 2 * CPU_VW;
    vf s[4] = {{0}}, t[4] = {{0}}, m = v_set1(mean), d;
    for (; n >= 2 * next; n -= 2 * next, gy += 2 * next, x += 2 * next, g = HALF_AT(g, 2 * next)) {
        half_norm_add(s, gy, x, g, m);
        half_norm_add(t, gy + next, x + next, HALF_AT(g, next), m);
    }
    HALF_ROW(n, half_norm_add(s, gy + i, x + i, HALF_AT(g, i), m);
             , d = half_get(gy, i, l); if (g) d *= half_f32(g + i, l); t[0] += d; t[2] = v_fma(d, half_get(x, i, l) - m, t[2]);)
    *s1 = v_sum((s[0] + s[1]) + (t[0] + t[1]));
    *s2 = v_sum((s[2] + s[3]) + (t[2] + t[3])) * rstd;
}

static void half_norm_bwd(void *gxv, const void *gyv, const void *xv, const float *g, float mean, float rstd, float m1,
                          float m2, float *gg, float *gb, size_t n)
{
    uint16_t *gx = gxv;
    const uint16_t *gy = gyv, *x = xv;
    const row_norms a = row_norms_of(mean, rstd, m1, m2, g, gg, gb);
    vf y0, y1, x0, x1;
    HALF_ROW(n, y0 = v_load_bf16(gy + i); y1 = v_load_bf16(gy + i + CPU_VW); x0 = v_load_bf16(x + i);
             x1 = v_load_bf16(x + i + CPU_VW); y0 = row_norm_grad(&a, y0, x0, i, CPU_VW);
             pack_store_next(gx + i, y0, row_norm_grad(&a, y1, x1, i + CPU_VW, CPU_VW));
             , half_put(gx + i, row_norm_grad(&a, half_get(gy, i, l), half_get(x, i, l), i, l), l);)
}

static void half_softmax(void *yv, const void *xv, float *e, int log, size_t n)
{
    uint16_t *y = yv;
    const uint16_t *x = xv;
    float m = half_max(x, n), s = half_exps(log ? NULL : e, x, m, n);
    vf a, b, vm = v_set1(m), f = v_set1(log ? logf(s) : 1.0f / s);
    if (log) {
        HALF_ROW(n, half_load(x + i, &a, &b); half_store(y + i, a - vm - f, b - vm - f);
                 , half_put(y + i, half_get(x, i, l) - vm - f, l);)
        return;
    }
    HALF_ROW(n, half_store(y + i, v_load(e + i) * f, v_load(e + i + CPU_VW) * f);
             , half_put(y + i, half_f32(e + i, l) * f, l);)
}

V_INLINE vf half_softmax_grad(vf gy, vf y, vf s, int log)
{
    return log ? gy - half_row_exp(y) * s : y * (gy - s);
}

/* Two vectors of a row, the second one from `second` on; what both have is the same in both. */
V_INLINE void half_put_two(uint16_t *y, vf x0, vf x1, size_t second)
{
#if CPU_VW == 8
    const __m256i t = (__m256i)pack_next(x0, x1);
    v_storeh(y, (vh)_mm256_castsi256_si128(t));
    v_storeh(y + second, (vh)_mm256_extracti128_si256(t, 1));
#else
    v_storeh(y, v_to_bf16(x0));
    v_storeh(y + second, v_to_bf16(x1));
#endif
}

/* A row of at most two vectors stays in registers; the second one ends where the row does. */
V_INLINE void half_softmax_bwd_short(uint16_t *gx, const uint16_t *gy, const uint16_t *y, int log, size_t n)
{
    size_t l = n < CPU_VW ? n : CPU_VW, second = n - l;
    vf a = half_get(gy, 0, l), c = half_get(y, 0, l);
    if (!second) {
        half_put(gx, half_softmax_grad(a, c, v_set1(v_sum(log ? a : (vf)(a * c))), log), l);
        return;
    }
    vf b = half_get(gy, second, CPU_VW), d = half_get(y, second, CPU_VW), rest = v_drop(log ? b : (vf)(b * d), 2 * CPU_VW - n);
    vf s = v_set1(v_sum((log ? a : (vf)(a * c)) + rest));
    half_put_two(gx, half_softmax_grad(a, c, s, log), half_softmax_grad(b, d, s, log), second);
}

static void half_softmax_bwd(void *gxv, const void *gyv, const void *yv, int log, size_t n)
{
    uint16_t *gx = gxv;
    const uint16_t *gy = gyv, *y = yv;
    if (n <= 2 * CPU_VW) {
        half_softmax_bwd_short(gx, gy, y, log, n);
        return;
    }
    vf vs = v_set1(log ? half_sum(gy, n) : half_dot(gy, y, n)), a, b, c, d;
    HALF_ROW(n, half_load(gy + i, &a, &b); half_load(y + i, &c, &d);
             half_store(gx + i, half_softmax_grad(a, c, vs, log), half_softmax_grad(b, d, vs, log));
             , half_put(gx + i, half_softmax_grad(half_get(gy, i, l), half_get(y, i, l), vs, log), l);)
}

V_INLINE vf half_loss(const cpu_loss_row *a, vf x, size_t i, size_t l)
{
    vf e = half_row_exp(x - v_set1(a->shift)) * v_set1(a->factor);
    return a->w ? v_fma(v_set1(-a->even), half_f32(a->w + i, l), e) : (vf)(e - v_set1(a->even));
}

/* one vector of a short row: the label's element is looked for in it, which is less than computing it once more */
V_INLINE vf half_loss_lanes(const cpu_loss_row *a, const uint16_t *x, size_t i, size_t l)
{
    vi lane;
    for (int k = 0; k < CPU_VW; k++)
        lane[k] = k;
    vf even = v_set1(a->even), hot = (vf)((vi)v_set1(a->hot) & (lane == v_seti((int32_t)(a->at - i))));
    if (a->w)
        even *= half_f32(a->w + i, l);
    return v_fma(half_row_exp(half_get(x, i, l) - v_set1(a->shift)), v_set1(a->factor), -(even + hot));
}

/* a row of at most two vectors: the second one ends where the row does, and what it shares with the first comes out alike */
V_INLINE void half_loss_short(uint16_t *y, const uint16_t *x, const cpu_loss_row *a, size_t n)
{
    if (n <= CPU_VW) {
        half_put(y, half_loss_lanes(a, x, 0, n), n);
        return;
    }
    const size_t second = n - CPU_VW;
    const vf e = half_loss_lanes(a, x, 0, CPU_VW), f = half_loss_lanes(a, x, second, CPU_VW);
    half_put_two(y, e, f, second);
}

/* a NaN whose lower bits are none, which sums of bits as half_row_exp's and half_store's keep */
V_INLINE float half_plain(float x)
{
    return x == x ? x : NAN;
}

V_INLINE void half_loss_long(void *yv, const void *xv, const cpu_loss_row *args, size_t n)
{
    const cpu_loss_row own = {half_plain(args->shift), half_plain(args->factor), half_plain(args->even), args->hot, args->w, args->at};
    const cpu_loss_row *a = &own;
    uint16_t *y = yv;
    const uint16_t *x = xv;
    uint16_t hot = 0;
    if (a->at < n) { /* y may be x */
        cpu_loss_row one = {a->shift, a->factor, a->w ? a->even * a->w[a->at] : a->even, 0, NULL, n};
        hot = v_to_bf16(half_loss(&one, v_set1(half_float((int16_t)x[a->at])), 0, 1) - v_set1(a->hot))[0];
    }
    if (a->w) {
        HALF_ROW(n, vf e = half_loss(a, half_get(x, i, CPU_VW), i, CPU_VW);
                 pack_store_next(y + i, e, half_loss(a, half_get(x, i + CPU_VW, CPU_VW), i + CPU_VW, CPU_VW));
                 , half_put(y + i, half_loss(a, half_get(x, i, l), i, l), l);)
    } else {
        vf c, d;
        HALF_ROW(n, half_load(x + i, &c, &d); half_store(y + i, half_loss(a, c, i, CPU_VW), half_loss(a, d, i, CPU_VW));
                 , half_put(y + i, half_loss(a, half_get(x, i, l), i, l), l);)
    }
    if (a->at < n)
        y[a->at] = hot;
}

static void half_loss_grad(void *y, const void *x, const cpu_loss_row *a, size_t n)
{
    if (n <= 2 * CPU_VW && a->shift == a->shift)
        half_loss_short(y, x, a, n);
    else
        half_loss_long(y, x, a, n);
}

/* [0]: of f32, [1]: of bf16 */
static const cpu_rows row_kernels[2] = {
    {row_sum, row_max, row_dot, row_add, row_vmax, row_exp_sum, row_moments, row_norm, row_norm_sums, row_norm_bwd, row_softmax,
     row_softmax_bwd, row_loss_grad, row_weigh},
    {half_sum, half_max, half_dot, half_add, half_vmax, half_exp_sum, half_moments, half_norm, half_norm_sums, half_norm_bwd,
     half_softmax, half_softmax_bwd, half_loss_grad, half_weigh},
};
