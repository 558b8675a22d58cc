/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over positions with a position in each lane, for few results of many positions each: both operands are read where
 * they lie and nothing is turned, but every sum is a vector, whose lanes are to be added in the end.
 *   span  C[row, result] += sum over lines: X[row, position] G[result, position], a vector each
 * Positions of a line are words (numbers, or pairs of 16-bit ones); behind its last, X has some that G masks.
 * Included from kern_gemm.h, on its macros.
 */
#define S_STEP(mr, nv, load)                                                                                           \
    {                                                                                                                  \
        vf t[mr];                                                                                                      \
        _Pragma("GCC unroll 6") for (int i = 0; i < mr; i++)                                                           \
            t[i] = v_load(x[i] + at_x + 4 * k);                                                                        \
        _Pragma("GCC unroll 4") for (int j = 0; j < nv; j++)                                                           \
        {                                                                                                              \
            vf b = load(g + (size_t)j * a->g_apart + at_g + 4 * k);                                                    \
            _Pragma("GCC unroll 6") for (int i = 0; i < mr; i++)                                                       \
                s[i][j] = G_MAC(t[i], b, s[i][j]);                                                                     \
        }                                                                                                              \
    }
#define S_REST(p) v_load_n(p, a->words % CPU_VW)
#define S_SPAN(mr, nv)                                                                                                 \
    static void G_NAME(s##mr##_##nv)(const cpu_spans *a, const char *const *x, const char *g, float *c, size_t ldc)    \
    {                                                                                                                  \
        vf s[mr][nv];                                                                                                  \
        _Pragma("GCC unroll 6") for (int i = 0; i < mr; i++)                                                           \
            _Pragma("GCC unroll 4") for (int j = 0; j < nv; j++)                                                       \
                s[i][j] = (vf){0};                                                                                     \
        for (size_t l = 0, at_x = 0, at_g = 0; l < a->lines; l++, at_x += a->x_line, at_g += a->g_line) {              \
            size_t k = 0;                                                                                              \
            for (; k + CPU_VW <= a->words; k += CPU_VW)                                                                \
                S_STEP(mr, nv, v_load)                                                                                 \
            if (k < a->words)                                                                                          \
                S_STEP(mr, nv, S_REST)                                                                                 \
        }                                                                                                              \
        _Pragma("GCC unroll 6") for (int i = 0; i < mr; i++)                                                           \
            _Pragma("GCC unroll 4") for (int j = 0; j < nv; j++)                                                       \
        {                                                                                                              \
            float *to = c + (size_t)i * ldc + j * CPU_VW;                                                              \
            v_store(to, v_load(to) + s[i][j]);                                                                         \
        }                                                                                                              \
    }
#define S_BOTH(mr) S_SPAN(mr, 1) S_SPAN(mr, 4)
#define S_ROW(mr) [mr] = {G_NAME(s##mr##_1), G_NAME(s##mr##_4)},

S_BOTH(1) S_BOTH(2) S_BOTH(3)
#if CPU_VW == 16
S_BOTH(4) S_BOTH(5) S_BOTH(6)
#endif

G_SPANS_TABLE[7][2] = {
    S_ROW(1) S_ROW(2) S_ROW(3)
#if CPU_VW == 16
    S_ROW(4) S_ROW(5) S_ROW(6)
#endif
};
