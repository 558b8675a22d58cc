/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transforms of Winograd's minimal filtering (Lavin and Gray, arXiv:1509.09308) on tiles of 6 x 6, a channel in each
 * lane: F(4x4, 3x3) for the result and F(3x3, 4x4) for the gradient of the weights. Both take the points 0, +-A, +-B and
 * infinity; with m(x) = x (x^2 - A^2) (x^2 - B^2) a row of the input's matrix holds the coefficients of m(x) / (x - p),
 * a row of the filter's the powers of p over m'(p), and a column of the result's the powers of p (infinity: the highest
 * coefficient alone). A = 5/8, B = 3/2 make all entries of the input's and the result's matrices exact and keep them
 * close to 1: the error is a quarter of that with the customary 1 and 2, twice that of a direct sum (docs/cpu-speed-conv.md).
 * Included after vec.h.
 */

#define W_A 0.625f
#define W_B 1.5f
#define W_A2 (W_A * W_A)
#define W_B2 (W_B * W_B)
#define W_0 (1 / (W_A2 * W_B2))                /* 1 / m'(0) */
#define W_NA (1 / (2 * W_A2 * (W_A2 - W_B2)))  /* 1 / m'(+-A) */
#define W_NB (1 / (2 * W_B2 * (W_B2 - W_A2)))

/* y = x * constant + z */
V_INLINE vf w_mac(vf x, float k, vf z)
{
    return v_fma(x, v_set1(k), z);
}

/* 6 pixels */
V_INLINE void w_in6(const vf d[6], vf t[6])
{
    vf ea = w_mac(d[2], -W_B2, d[4]), oa = w_mac(d[1], -W_B2, d[3]);
    vf eb = w_mac(d[2], -W_A2, d[4]), ob = w_mac(d[1], -W_A2, d[3]);
    t[0] = w_mac(d[0], W_A2 * W_B2, w_mac(d[2], -(W_A2 + W_B2), d[4]));
    t[1] = w_mac(oa, W_A, ea);
    t[2] = w_mac(oa, -W_A, ea);
    t[3] = w_mac(ob, W_B, eb);
    t[4] = w_mac(ob, -W_B, eb);
    t[5] = w_mac(d[1], W_A2 * W_B2, w_mac(d[3], -(W_A2 + W_B2), d[5]));
}

/* 3 taps */
V_INLINE void w_taps3(const vf g[3], vf t[6])
{
    vf ea = w_mac(g[2], W_A2, g[0]) * v_set1(W_NA), oa = g[1] * v_set1(W_A * W_NA);
    vf eb = w_mac(g[2], W_B2, g[0]) * v_set1(W_NB), ob = g[1] * v_set1(W_B * W_NB);
    t[0] = g[0] * v_set1(W_0);
    t[1] = ea + oa;
    t[2] = ea - oa;
    t[3] = eb + ob;
    t[4] = eb - ob;
    t[5] = g[2];
}

/* 4 pixels of the result's gradient, in the part of the filter */
V_INLINE void w_grad4(const vf g[4], vf t[6])
{
    vf ea = w_mac(g[2], W_A2, g[0]) * v_set1(W_NA), oa = w_mac(g[3], W_A2, g[1]) * v_set1(W_A * W_NA);
    vf eb = w_mac(g[2], W_B2, g[0]) * v_set1(W_NB), ob = w_mac(g[3], W_B2, g[1]) * v_set1(W_B * W_NB);
    t[0] = g[0] * v_set1(W_0);
    t[1] = ea + oa;
    t[2] = ea - oa;
    t[3] = eb + ob;
    t[4] = eb - ob;
    t[5] = g[3];
}

/* to 4 pixels of the result */
V_INLINE void w_out4(const vf m[6], vf y[4])
{
    vf sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
    y[0] = m[0] + sa + sb;
    y[1] = w_mac(da, W_A, db * v_set1(W_B));
    y[2] = w_mac(sa, W_A2, sb * v_set1(W_B2));
    y[3] = w_mac(da, W_A * W_A2, w_mac(db, W_B * W_B2, m[5]));
}

/* to 3 taps of the weights' gradient */
V_INLINE void w_out3(const vf m[6], vf y[3])
{
    vf sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
    y[0] = m[0] + sa + sb;
    y[1] = w_mac(da, W_A, db * v_set1(W_B));
    y[2] = w_mac(sa, W_A2, w_mac(sb, W_B2, m[5]));
}

/* A row of tiles; row[i]: pixels of line i, CPU_VW words each, width of them; those at x < 0 and x >= width are 0.
 * Element e of tile t goes to v + e * step + t * CPU_VW. */
static void wino_in(float *v, size_t step, const float *const *row, int64_t x, int64_t width, size_t tiles)
{
    vf c[6][6]; /* columns */
    for (size_t t = 0; t < tiles; t++, x += 4, v += CPU_VW) {
        int from = 0;
        if (t) {
            memcpy(c[0], c[4], sizeof c[0]);
            memcpy(c[1], c[5], sizeof c[1]);
            from = 2;
        }
        for (int j = from; j < 6; j++) {
            vf d[6];
            if (x + j < 0 || x + j >= width) {
                memset(c[j], 0, sizeof c[j]);
                continue;
            }
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++)
                d[i] = v_load(row[i] + (x + j) * CPU_VW);
            w_in6(d, c[j]);
        }
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) {
            vf d[6], r[6];
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                d[j] = c[j][i];
            w_in6(d, r);
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                v_store(v + (size_t)(6 * i + j) * step, r[j]);
        }
    }
}

/* The same for tiles of 4 x 4 of the result's gradient. */
static void wino_grad(float *v, size_t step, const float *const *row, int64_t x, int64_t width, size_t tiles)
{
    for (size_t t = 0; t < tiles; t++, x += 4, v += CPU_VW) {
        vf c[4][6];
        for (int j = 0; j < 4; j++) {
            vf d[4];
            if (x + j >= width) {
                memset(c[j], 0, sizeof c[j]);
                continue;
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                d[i] = v_load(row[i] + (x + j) * CPU_VW);
            w_grad4(d, c[j]);
        }
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) {
            vf d[4], r[6];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                d[j] = c[j][i];
            w_grad4(d, r);
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                v_store(v + (size_t)(6 * i + j) * step, r[j]);
        }
    }
}

/* Products back to tiles of 4 x 4 pixels; lines of y are `line` words apart. */
static void wino_out(float *y, size_t line, const float *m, size_t step, size_t tiles)
{
    for (size_t t = 0; t < tiles; t++, m += CPU_VW, y += 4 * CPU_VW) {
        vf c[6][4];
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            vf d[6];
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++)
                d[i] = v_load(m + (size_t)(6 * i + j) * step);
            w_out4(d, c[j]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vf d[6], r[4];
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                d[j] = c[j][i];
            w_out4(d, r);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                v_store(y + (size_t)i * line + j * CPU_VW, r[j]);
        }
    }
}

/* Nine taps, a vector each, to 36 vectors; back: taps in reverse order. */
static void wino_taps(float *u, size_t step, const float *g, bool back)
{
    vf c[3][6];
    for (int j = 0; j < 3; j++) {
        vf d[3];
        for (int i = 0; i < 3; i++)
            d[i] = v_load(g + (back ? 8 - 3 * i - j : 3 * i + j) * CPU_VW);
        w_taps3(d, c[j]);
    }
    for (int i = 0; i < 6; i++) {
        vf d[3], r[6];
        for (int j = 0; j < 3; j++)
            d[j] = c[j][i];
        w_taps3(d, r);
        for (int j = 0; j < 6; j++)
            v_store(u + (size_t)(6 * i + j) * step, r[j]);
    }
}

/* Sums of products back to nine taps. */
static void wino_sums(float *g, const float *m, size_t step)
{
    vf c[6][3];
    for (int j = 0; j < 6; j++) {
        vf d[6];
        for (int i = 0; i < 6; i++)
            d[i] = v_load(m + (size_t)(6 * i + j) * step);
        w_out3(d, c[j]);
    }
    for (int i = 0; i < 3; i++) {
        vf d[6], r[3];
        for (int j = 0; j < 6; j++)
            d[j] = c[j][i];
        w_out3(d, r);
        for (int j = 0; j < 3; j++)
            v_store(g + (3 * i + j) * CPU_VW, r[j]);
    }
}

static const cpu_wino wino_kernels = {wino_in, wino_grad, wino_out, wino_taps, wino_sums};
