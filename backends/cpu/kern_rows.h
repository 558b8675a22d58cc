/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels on one row of f32: sums, softmax, normalisation, optimizer steps. Included after vec.h and vmath.h; those of
 * cpu_rows are in kern_half_rows.h for bf16.
 */

/* for every vector of x[0..n): BODY sees `i` and `l` lanes; the tail's missing lanes are 0 */
#define ROW_LOOP(n, FULL, TAIL)                                                                                        \
    size_t i = 0;                                                                                                      \
    for (; i + CPU_VW <= (n); i += CPU_VW) {                                                                           \
        FULL                                                                                                           \
    }                                                                                                                  \
    if (i < (n)) {                                                                                                     \
        size_t l = (n) - i;                                                                                            \
        TAIL                                                                                                           \
    }

static float row_sum(const void *xv, size_t n)
{
    const float *x = xv;
    vf s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    size_t i = 0;
    for (; i + 4 * CPU_VW <= n; i += 4 * CPU_VW) {
        s0 += v_load(x + i);
        s1 += v_load(x + i + CPU_VW);
        s2 += v_load(x + i + 2 * CPU_VW);
        s3 += v_load(x + i + 3 * CPU_VW);
    }
    for (; i + CPU_VW <= n; i += CPU_VW)
        s0 += v_load(x + i);
    if (i < n)
        s1 += v_load_n(x + i, n - i);
    return v_sum((s0 + s1) + (s2 + s3));
}

static float row_max(const void *xv, size_t n)
{
    const float *x = xv;
    vf m = v_set1(x[0]), m1 = m, m2 = m, m3 = m;
    size_t i = 0;
    if (n < CPU_VW) /* the lanes too many get the first number */
        return v_hmax((vf)((vi)v_load_n(x, n) | ((vi)m ^ (vi)v_keep(m, n))));
    for (; i + 4 * CPU_VW <= n; i += 4 * CPU_VW) {
        m = v_max(m, v_load(x + i));
        m1 = v_max(m1, v_load(x + i + CPU_VW));
        m2 = v_max(m2, v_load(x + i + 2 * CPU_VW));
        m3 = v_max(m3, v_load(x + i + 3 * CPU_VW));
    }
    for (; i + CPU_VW <= n; i += CPU_VW)
        m = v_max(m, v_load(x + i));
    m1 = v_max(m1, v_load(x + n - CPU_VW)); /* what is left, and some once more */
    return v_hmax(v_max(v_max(m, m1), v_max(m2, m3)));
}

static void row_add(float *d, const void *xv, size_t n)
{
    const float *x = xv;
    ROW_LOOP(n, v_store(d + i, v_load(d + i) + v_load(x + i));
             , v_store_n(d + i, v_load_n(d + i, l) + v_load_n(x + i, l), l);)
}

static void row_vmax(float *d, const void *xv, size_t n)
{
    const float *x = xv;
    ROW_LOOP(n, v_store(d + i, v_max(v_load(d + i), v_load(x + i)));
             , v_store_n(d + i, v_max(v_load_n(d + i, l), v_load_n(x + i, l)), l);)
}

static void row_scale(float *d, const float *x, float a, size_t n)
{
    vf va = v_set1(a);
    ROW_LOOP(n, v_store(d + i, va * v_load(x + i));, v_store_n(d + i, va * v_load_n(x + i, l), l);)
}

static float row_dot(const void *av, const void *bv, size_t n)
{
    const float *a = av, *b = bv;
    vf s = {0}, t = {0};
    size_t i = 0;
    for (; i + 2 * CPU_VW <= n; i += 2 * CPU_VW) {
        s = v_fma(v_load(a + i), v_load(b + i), s);
        t = v_fma(v_load(a + i + CPU_VW), v_load(b + i + CPU_VW), t);
    }
    for (; i < n; i += CPU_VW) {
        size_t l = n - i;
        s = l < CPU_VW ? v_fma(v_load_n(a + i, l), v_load_n(b + i, l), s) : v_fma(v_load(a + i), v_load(b + i), s);
    }
    return v_sum(s + t);
}

static float row_weigh(const void *x, const float *w, size_t n)
{
    return row_dot(x, w, n);
}

/* sum of exp(x - m); y (may be x, or NULL) gets the exponentials */
static float row_exps(float *y, const float *x, float m, size_t n)
{
    vf s = {0}, vm = v_set1(m);
    ROW_LOOP(
        n, vf e = v_exp(v_load(x + i) - vm); s += e; if (y) v_store(y + i, e);
        , vf e = v_exp(v_load_n(x + i, l) - vm); if (y) v_store_n(y + i, e, l); s += v_keep(e, l);)
    return v_sum(s);
}

static float row_exp_sum(const void *x, float m, size_t n)
{
    return row_exps(NULL, x, m, n);
}

/* y = exp(a x - m) and their sum; y may be x */
static float row_exp_scaled(float *y, const float *x, float a, float m, size_t n)
{
    vf s = {0}, va = v_set1(a), vm = v_set1(-m);
    ROW_LOOP(n, vf e = v_exp(v_fma(va, v_load(x + i), vm)); s += e; v_store(y + i, e);
             , vf e = v_exp(v_fma(va, v_load_n(x + i, l), vm)); v_store_n(y + i, e, l); s += v_keep(e, l);)
    return v_sum(s);
}

static void row_moments(const void *xv, float shift, size_t n, float *s1, float *s2)
{
    const float *x = xv;
    vf a = {0}, b = {0}, vs = v_set1(shift);
    ROW_LOOP(
        n, vf t = v_load(x + i) - vs; a += t; b = v_fma(t, t, b);
        , vf t = v_keep(v_load_n(x + i, l) - vs, l); a += t; b = v_fma(t, t, b);)
    *s1 = v_sum(a);
    *s2 = v_sum(b);
}

static void row_norm(void *yv, const void *xv, float mean, float rstd, const float *g, const float *b, size_t n)
{
    float *y = yv;
    const float *x = xv;
    vf m = v_set1(mean), r = v_set1(rstd), one = v_set1(1.0f), zero = {0};
    ROW_LOOP(n,
             v_store(y + i, v_fma((v_load(x + i) - m) * r, g ? v_load(g + i) : one, b ? v_load(b + i) : zero));
             , v_store_n(y + i,
                         v_fma((v_load_n(x + i, l) - m) * r, g ? v_load_n(g + i, l) : one, b ? v_load_n(b + i, l) : zero),
                         l);)
}

/* e: room for a row of f32 where y is 16 bits wide */
static void row_softmax(void *yv, const void *xv, float *e, int log, size_t n)
{
    float *y = yv, m = row_max(xv, n), s = row_exps(log ? NULL : y, xv, m, n);
    (void)e;
    if (!log) {
        row_scale(y, y, 1.0f / s, n);
        return;
    }
    row_norm(y, xv, m, 1.0f, NULL, NULL, n); /* apart: log(s) would be lost beside a huge m */
    row_norm(y, y, logf(s), 1.0f, NULL, NULL, n);
}

/* y = f exp(x - m) - even w (w NULL: of ones), and `hot` less at y[at] if there is one */
static void row_loss_grad(void *yv, const void *xv, const cpu_loss_row *a, size_t n)
{
    float *y = yv;
    const float *x = xv;
    vf m = v_set1(a->shift), f = v_set1(a->factor), even = v_set1(a->even);
    ROW_LOOP(
        n, vf e = v_exp(v_load(x + i) - m) * f; v_store(y + i, a->w ? v_fma(-even, v_load(a->w + i), e) : (vf)(e - even));
        , vf e = v_exp(v_load_n(x + i, l) - m) * f;
        v_store_n(y + i, a->w ? v_fma(-even, v_load_n(a->w + i, l), e) : (vf)(e - even), l);)
    if (a->at < n)
        y[a->at] -= a->hot;
}

/* With xhat = (x - mean) rstd and d = gy*g: s1 = sum d, s2 = sum d*xhat. */
static void row_norm_sums(const void *gyv, const void *xv, const float *g, float mean, float rstd, size_t n, float *s1,
                          float *s2)
{
    const float *gy = gyv, *x = xv;
    vf a = {0}, b = {0}, c = {0}, e = {0}, m = v_set1(mean);
    for (; n >= 2 * CPU_VW; n -= 2 * CPU_VW, gy += 2 * CPU_VW, x += 2 * CPU_VW, g = g ? g + 2 * CPU_VW : NULL) {
        vf d = v_load(gy), f = v_load(gy + CPU_VW);
        if (g) {
            d *= v_load(g);
            f *= v_load(g + CPU_VW);
        }
        a += d;
        b = v_fma(d, v_load(x) - m, b);
        c += f;
        e = v_fma(f, v_load(x + CPU_VW) - m, e);
    }
    ROW_LOOP(n, vf d = v_load(gy + i); if (g) d *= v_load(g + i); a += d; b = v_fma(d, v_load(x + i) - m, b);
             , vf d = v_load_n(gy + i, l); if (g) d *= v_load_n(g + i, l); a += d; b = v_fma(d, v_load_n(x + i, l) - m, b);)
    *s1 = v_sum(a + c);
    *s2 = v_sum(b + e) * rstd;
}

typedef struct row_norms {
    vf mean, rstd, even, slope; /* the parts of gx that each number has, and in proportion to x - mean */
    const float *g;
    float *gg, *gb;
} row_norms;

V_INLINE row_norms row_norms_of(float mean, float rstd, float m1, float m2, const float *g, float *gg, float *gb)
{
    return (row_norms){v_set1(mean), v_set1(rstd), v_set1(-rstd * m1), v_set1(-rstd * rstd * m2), g, gg, gb};
}

/* gx = rstd (d - m1 - xhat m2) of l numbers from i on; gg += gy*xhat, gb += gy (may be NULL) */
V_INLINE vf row_norm_grad(const row_norms *a, vf y, vf x, size_t i, size_t l)
{
    const bool full = l == CPU_VW;
    const vf t = x - a->mean, scaled = y * a->rstd;
    if (a->gg && full) {
        v_store(a->gg + i, v_fma(scaled, t, v_load(a->gg + i)));
        v_store(a->gb + i, v_load(a->gb + i) + y);
    } else if (a->gg) {
        v_store_n(a->gg + i, v_fma(scaled, t, v_load_n(a->gg + i, l)), l);
        v_store_n(a->gb + i, v_load_n(a->gb + i, l) + y, l);
    }
    const vf rest = v_fma(t, a->slope, a->even);
    if (!a->g)
        return scaled + rest;
    return v_fma(scaled, full ? v_load(a->g + i) : v_load_n(a->g + i, l), rest);
}

/* m1, m2: the means of d and d*xhat */
static void row_norm_bwd(void *gxv, const void *gyv, const void *xv, const float *g, float mean, float rstd, float m1,
                         float m2, float *gg, float *gb, size_t n)
{
    float *gx = gxv;
    const float *gy = gyv, *x = xv;
    const row_norms a = row_norms_of(mean, rstd, m1, m2, g, gg, gb);
    ROW_LOOP(n, v_store(gx + i, row_norm_grad(&a, v_load(gy + i), v_load(x + i), i, CPU_VW));
             , v_store_n(gx + i, row_norm_grad(&a, v_load_n(gy + i, l), v_load_n(x + i, l), i, l), l);)
}

/* gx = y (gy - s), or gy - e^y s */
V_INLINE void row_softmax_any(float *gx, const float *gy, const float *y, float s, int log, size_t n)
{
    vf vs = v_set1(s);
    for (size_t i = 0; i < n; i += CPU_VW) {
        size_t l = n - i;
        vf a = l < CPU_VW ? v_load_n(gy + i, l) : v_load(gy + i), b = l < CPU_VW ? v_load_n(y + i, l) : v_load(y + i);
        vf o = log ? a - v_exp(b) * vs : b * (a - vs);
        if (l < CPU_VW)
            v_store_n(gx + i, o, l);
        else
            v_store(gx + i, o);
    }
}

static void row_softmax_grad(float *gx, const float *gy, const float *y, float s, size_t n)
{
    row_softmax_any(gx, gy, y, s, 0, n);
}

/* softmax: s = sum gy*y; log softmax: s = sum gy */
static void row_softmax_bwd(void *gx, const void *gy, const void *y, int log, size_t n)
{
    row_softmax_any(gx, gy, y, log ? row_sum(gy, n) : row_dot(gy, y, n), log, n);
}

V_INLINE vf row_grad(const struct cpu_adam *h, vf g)
{
    g *= v_set1(h->scale);
    if (h->clip < INFINITY)
        g = v_max(v_min(g, v_set1(h->clip)), v_set1(-h->clip));
    return h->flags & YK_OPT_MAXIMIZE ? -g : g;
}

V_INLINE void row_adam_vec(const struct cpu_adam *h, vf g, vf *p, vf *m, vf *v, vf *vmax)
{
    g = row_grad(h, g);
    if (h->flags & YK_OPT_DECOUPLED)
        *p *= v_set1(1.0f - h->lr * h->decay);
    else
        g = v_fma(v_set1(h->decay), *p, g);
    *m = v_set1(h->b1) * *m + v_set1(1.0f - h->b1) * g;
    *v = v_set1(h->b2) * *v + v_set1(1.0f - h->b2) * (g * g);
    vf u = *v;
    if (h->flags & YK_OPT_AMSGRAD)
        u = *vmax = v_max(*vmax, u);
    *p -= v_set1(h->lr / h->c1) * (*m / (v_sqrt(u) / v_set1(h->sqrt_c2) + v_set1(h->eps)));
}

static void row_adam(const struct cpu_adam *hp, const float *g, float *p, float *m, float *v, float *vmax, size_t n)
{
    const struct cpu_adam h = *hp;
    vf a, b, c, x = {0};
    ROW_LOOP(
        n, a = v_load(p + i); b = v_load(m + i); c = v_load(v + i); if (vmax) x = v_load(vmax + i);
        row_adam_vec(&h, v_load(g + i), &a, &b, &c, &x); v_store(p + i, a); v_store(m + i, b); v_store(v + i, c);
        if (vmax) v_store(vmax + i, x);
        , a = v_load_n(p + i, l); b = v_load_n(m + i, l); c = v_load_n(v + i, l); if (vmax) x = v_load_n(vmax + i, l);
        row_adam_vec(&h, v_load_n(g + i, l), &a, &b, &c, &x); v_store_n(p + i, a, l); v_store_n(m + i, b, l);
        v_store_n(v + i, c, l); if (vmax) v_store_n(vmax + i, x, l);)
}

V_INLINE void row_sgd_vec(const struct cpu_adam *h, vf g, vf *p, vf *b, bool has)
{
    g = v_fma(v_set1(h->decay), *p, row_grad(h, g));
    if (has) {
        vf next = v_set1(h->b1) * *b + v_set1(1.0f - h->b2) * g;
        *b = h->first != 0.0f ? g : next;
        g = h->flags & YK_OPT_NESTEROV ? v_fma(v_set1(h->b1), *b, g) : *b;
    }
    *p -= v_set1(h->lr) * g;
}

static void row_sgd(const struct cpu_adam *hp, const float *g, float *p, float *b, size_t n)
{
    const struct cpu_adam h = *hp;
    vf x, y = {0};
    ROW_LOOP(
        n, x = v_load(p + i); if (b) y = v_load(b + i); row_sgd_vec(&h, v_load(g + i), &x, &y, b != NULL);
        v_store(p + i, x); if (b) v_store(b + i, y);
        , x = v_load_n(p + i, l); if (b) y = v_load_n(b + i, l);
        row_sgd_vec(&h, v_load_n(g + i, l), &x, &y, b != NULL); v_store_n(p + i, x, l); if (b) v_store_n(b + i, y, l);)
}

/* Adds the sum of squares and the count of elements that are not finite; f32 partial sums of 4096 at most. */
static void row_stats(const float *g, float scale, size_t n, double *sum, double *bad)
{
    vf vs = v_set1(scale);
    for (size_t at = 0; at < n; at += 4096) {
        size_t m = n - at < 4096 ? n - at : 4096;
        const float *x = g + at;
        vf s = {0};
        vi k = {0};
        ROW_LOOP(
            m, vf t = v_load(x + i) * vs; k -= ((vi)t & 0x7f800000) == 0x7f800000; s = v_fma(t, t, s);
            , vf t = v_keep(v_load_n(x + i, l) * vs, l);
            k -= ((vi)t & 0x7f800000) == 0x7f800000; s = v_fma(t, t, s);)
        *sum += (double)v_sum(s);
        *bad += (double)v_sum(v_itof(k));
    }
}

/* ---- Random numbers: two vectors' worth of blocks of Philox at a time, a block to every 64 bits ---- */

typedef uint64_t vl __attribute__((vector_size(V_BYTES), may_alias));

#define ROW_BLOCKS (CPU_VW / 2) /* to a vector */
#define ROW_DRAW (8 * ROW_BLOCKS) /* numbers of a call */

/* the low halves' full products */
V_INLINE vl row_mul(vl a, uint32_t k)
{
#if CPU_VW == 16
    return (vl)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64((long long)k));
#elif CPU_VW == 8
    return (vl)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x((long long)k));
#else
    return (a & 0xffffffffu) * k;
#endif
}

/* Words of a block in the low halves of c to a block behind the other; the upper halves hold anything. Even lanes have the
 * first half of the blocks. */
V_INLINE void row_place(const vl c[4], vu out[2])
{
    vl a = (c[0] & 0xffffffffu) | c[1] << 32, b = (c[2] & 0xffffffffu) | c[3] << 32;
#if CPU_VW == 16
    out[0] = (vu)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
    out[1] = (vu)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
#elif CPU_VW == 8
    out[0] = (vu)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
    out[1] = (vu)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
#else
    vl lo, hi;
    for (int i = 0; i < ROW_BLOCKS; i += 2) {
        lo[i] = a[i], lo[i + 1] = b[i];
        hi[i] = a[i + 1], hi[i + 1] = b[i + 1];
    }
    out[0] = (vu)lo;
    out[1] = (vu)hi;
#endif
}

V_INLINE void row_begin(vl c[4], const uint32_t key[3], uint32_t stream, uint64_t block)
{
    vl zero = {0}, lane;
    for (int i = 0; i < ROW_BLOCKS; i++)
        lane[i] = (uint64_t)(i / 2 + i % 2 * (ROW_BLOCKS / 2));
    c[0] = lane + block;
    c[1] = c[0] >> 32;
    c[2] = zero + stream;
    c[3] = zero + key[2];
}

V_INLINE void row_round(vl c[4], vl k0, vl k1)
{
    vl p0 = row_mul(c[0], 0xd2511f53u), p1 = row_mul(c[2], 0xcd9e8d57u);
    c[0] = (p1 >> 32) ^ c[1] ^ k0;
    c[1] = p1;
    c[2] = (p0 >> 32) ^ c[3] ^ k1;
    c[3] = p0;
}

/* The words of blocks [block, block + 2 ROW_BLOCKS). */
V_INLINE void row_philox(const uint32_t key[3], uint32_t stream, uint64_t block, vu out[4])
{
    vl a[4], b[4], zero = {0}, k0 = zero + key[0], k1 = zero + key[1];
    row_begin(a, key, stream, block);
    row_begin(b, key, stream, block + ROW_BLOCKS);
    for (int r = 0; r < 10; r++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) { /* the keys' upper halves are not read */
        row_round(a, k0, k1);
        row_round(b, k0, k1);
    }
    row_place(a, out);
    row_place(b, out + 2);
}

/* Numbers first .. first + n - 1 of one row of the stream, as MAKE says of a vector w of words. */
#define ROW_RANDOM(T, MAKE)                                                                                            \
    vu out[4];                                                                                                         \
    T t[ROW_DRAW];                                                                                                     \
    while (n) {                                                                                                        \
        size_t skip = first % 4, m = ROW_DRAW - skip < n ? ROW_DRAW - skip : n;                                        \
        T *to = m == ROW_DRAW ? d : t;                                                                                 \
        row_philox(key, stream, first / 4, out);                                                                       \
        for (int j = 0; j < 4; j++) {                                                                                  \
            vu w = out[j] >> 8;                                                                                        \
            v_store((float *)(void *)(to + j * CPU_VW), MAKE);                                                         \
        }                                                                                                              \
        if (to == t)                                                                                                   \
            memcpy(d, t + skip, m * 4);                                                                                \
        d += m, first += m, n -= m;                                                                                    \
    }

static void row_uniform(float *d, const uint32_t key[3], uint32_t stream, uint64_t first, size_t n)
{
    ROW_RANDOM(float, v_itof((vi)w) * v_set1(0x1p-24f))
}

static void row_keep(int32_t *d, const uint32_t key[3], uint32_t stream, uint64_t first, int32_t least, size_t n)
{
    ROW_RANDOM(int32_t, (vf)((vi)w >= v_seti(least)))
}

/* dropout: y = u >= p ? x / q : 0, q = 1 - p */
static void row_drop(float *y, const float *x, const float *u, float p, float q, size_t n)
{
    vf vp = v_set1(p), vq = v_set1(q), zero = {0};
    ROW_LOOP(n, v_store(y + i, v_sel(v_load(u + i) >= vp, v_load(x + i) / vq, zero));
             , v_store_n(y + i, v_sel(v_load_n(u + i, l) >= vp, v_load_n(x + i, l) / vq, zero), l);)
}
