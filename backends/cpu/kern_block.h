/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Register kernels on blocked operands, [block of CPU_VW words of k][position][CPU_VW words]: positions are rows whose
 * words lie at fixed distances, so no strip is packed and one pointer addresses them all.
 *   rows   C[mr positions, nv vectors] (+)= sum over parts s: A[off[s] + position, word] B[s, word, nv vectors],
 *          where a block has so many words; the vectors of C are `apart` words from each other, its positions CPU_VW.
 *   outer  C[rows of A's words, nv vectors] (+)= sum over positions: A[position, word] B[vector, position]
 * Included from kern_gemm.h, on its macros.
 */

#define B_STEP1(i) c##i##0 = G_MAC(G_BCAST(a + k + (i)*CPU_VW), b0, c##i##0);
#define B_STEP2(i)                                                                                                     \
    {                                                                                                                  \
        vf t = G_BCAST(a + k + (i)*CPU_VW);                                                                            \
        c##i##0 = G_MAC(t, b0, c##i##0);                                                                               \
        c##i##1 = G_MAC(t, b1, c##i##1);                                                                               \
    }
#define B_ADD1(i) c##i##0 += v_load(c + (i)*CPU_VW);
#define B_ADD2(i)                                                                                                      \
    c##i##0 += v_load(c + (i)*CPU_VW);                                                                                 \
    c##i##1 += v_load(c + apart + (i)*CPU_VW);
#define B_SET1(i) v_store(c + (i)*CPU_VW, c##i##0);
#define B_SET2(i)                                                                                                      \
    v_store(c + (i)*CPU_VW, c##i##0);                                                                                  \
    v_store(c + apart + (i)*CPU_VW, c##i##1);
#define B_ROWS(mr, nv)                                                                                                 \
    static void G_NAME(b##mr##_##nv)(size_t parts, size_t words, const void *av, const int32_t *off, const void *bv,   \
                                     float *c, size_t apart, int add)                                                  \
    {                                                                                                                  \
        const G_PAIR *b = bv;                                                                                          \
        (void)apart;                                                                                                   \
        R##mr(G_DECL##nv) for (size_t s = 0; s < parts; s++)                                                           \
        {                                                                                                              \
            const G_PAIR *a = (const G_PAIR *)av + off[s];                                                             \
            for (size_t k = 0; k < words; k++, b += nv * CPU_VW) {                                                     \
                vf b0 = v_load(b), b1 = nv == 2 ? v_load(b + (nv - 1) * CPU_VW) : b0;                                  \
                (void)b1;                                                                                              \
                R##mr(B_STEP##nv)                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        if (add) {                                                                                                     \
            R##mr(B_ADD##nv)                                                                                           \
        }                                                                                                              \
        R##mr(B_SET##nv)                                                                                               \
    }
#define B_BOTH(mr) B_ROWS(mr, 1) B_ROWS(mr, 2)
#define B_ROW(mr) [mr] = {NULL, G_NAME(b##mr##_1), G_NAME(b##mr##_2)},

/* a block of A's words, half of them at a time so that the sums stay in registers */
#define B_HALF (CPU_VW / 2)
#define B_OUTER(nv)                                                                                                    \
    static void G_NAME(outer##nv)(size_t lines, size_t n, const float *a, size_t al, const float *b, size_t bl,        \
                                  size_t bs, float *c, size_t ldc, int add)                                            \
    {                                                                                                                  \
        for (int h = 0; h < CPU_VW; h += B_HALF, a += B_HALF, c += B_HALF * ldc) {                                     \
            vf s[B_HALF][nv];                                                                                          \
            _Pragma("GCC unroll 8") for (int i = 0; i < B_HALF; i++)                                                   \
                _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++)                                                   \
                    s[i][j] = add ? v_load(c + (size_t)i * ldc + j * CPU_VW) : (vf){0};                                \
            const G_PAIR *x = (const G_PAIR *)(const void *)a, *y = (const G_PAIR *)(const void *)b;                   \
            for (size_t l = 0; l < lines; l++, x += al, y += bl)                                                       \
                for (size_t k = 0; k < n * CPU_VW; k += CPU_VW) {                                                      \
                    vf b0 = v_load(y + k), b1 = nv == 2 ? v_load(y + (nv - 1) * bs + k) : b0;                          \
                    _Pragma("GCC unroll 8") for (int i = 0; i < B_HALF; i++)                                           \
                    {                                                                                                  \
                        vf t = G_BCAST(x + k + i);                                                                     \
                        s[i][0] = G_MAC(t, b0, s[i][0]);                                                               \
                        if (nv == 2)                                                                                   \
                            s[i][nv - 1] = G_MAC(t, b1, s[i][nv - 1]);                                                 \
                    }                                                                                                  \
                }                                                                                                      \
            _Pragma("GCC unroll 8") for (int i = 0; i < B_HALF; i++)                                                   \
                _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++)                                                   \
                    v_store(c + (size_t)i * ldc + j * CPU_VW, s[i][j]);                                                \
        }                                                                                                              \
    }
#ifdef G_OUTER_TABLE
B_OUTER(1)
B_OUTER(2)
G_OUTER_TABLE[3] = {NULL, G_NAME(outer1), G_NAME(outer2)};
#endif

B_BOTH(1) B_BOTH(2) B_BOTH(3) B_BOTH(4) B_BOTH(5) B_BOTH(6)
#if CPU_VW == 16
B_BOTH(7) B_BOTH(8) B_BOTH(9) B_BOTH(10) B_BOTH(11) B_BOTH(12) B_BOTH(13) B_BOTH(14)
#endif

G_ROWS_TABLE[15][3] = {
    B_ROW(1) B_ROW(2) B_ROW(3) B_ROW(4) B_ROW(5) B_ROW(6)
#if CPU_VW == 16
    B_ROW(7) B_ROW(8) B_ROW(9) B_ROW(10) B_ROW(11) B_ROW(12) B_ROW(13) B_ROW(14)
#endif
};
