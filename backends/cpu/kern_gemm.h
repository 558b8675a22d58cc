/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Register-blocked inner kernels: C[mr, nb] (+)= A * B, with A packed k-major in strips of mr rows and B packed k-major
 * in panels of nv vectors. One function for each number of rows, so that no row of a strip is computed in vain.
 * bf16 (avx512bf16): the same with k in pairs, a pair in 32 bits. Included after vec.h.
 */

#define R1(X) X(0)
#define R2(X) R1(X) X(1)
#define R3(X) R2(X) X(2)
#define R4(X) R3(X) X(3)
#define R5(X) R4(X) X(4)
#define R6(X) R5(X) X(5)
#define R7(X) R6(X) X(6)
#define R8(X) R7(X) X(7)
#define R9(X) R8(X) X(8)
#define R10(X) R9(X) X(9)
#define R11(X) R10(X) X(10)
#define R12(X) R11(X) X(11)
#define R13(X) R12(X) X(12)
#define R14(X) R13(X) X(13)

#define G_DECL1(i) vf c##i##0 = {0};
#define G_DECL2(i) vf c##i##0 = {0}, c##i##1 = {0};
#define G_STEP1(i)                                                                                                     \
    {                                                                                                                  \
        c##i##0 = G_MAC(G_BCAST(a + i), b0, c##i##0);                                                                  \
    }
#define G_STEP2(i)                                                                                                     \
    {                                                                                                                  \
        vf t = G_BCAST(a + i);                                                                                         \
        c##i##0 = G_MAC(t, b0, c##i##0);                                                                               \
        c##i##1 = G_MAC(t, b1, c##i##1);                                                                               \
    }
#define G_PUT1(i) v_store(t##0 + (i)*CPU_VW, c##i##0);
#define G_PUT2(i)                                                                                                      \
    v_store(t##0 + (i)*2 * CPU_VW, c##i##0);                                                                           \
    v_store(t##0 + (i)*2 * CPU_VW + CPU_VW, c##i##1);
#define G_ADD1(i) v_store(c + (i)*ldc, v_load(c + (i)*ldc) + c##i##0);
#define G_ADD2(i)                                                                                                      \
    v_store(c + (i)*ldc, v_load(c + (i)*ldc) + c##i##0);                                                               \
    v_store(c + (i)*ldc + CPU_VW, v_load(c + (i)*ldc + CPU_VW) + c##i##1);
#define G_SET1(i) v_store(c + (i)*ldc, c##i##0);
#define G_SET2(i)                                                                                                      \
    v_store(c + (i)*ldc, c##i##0);                                                                                     \
    v_store(c + (i)*ldc + CPU_VW, c##i##1);

/* the last, partial panel: through a full tile on the stack */
static __attribute__((noinline)) void G_NAME(edge)(const float *t, int mr, size_t w, float *c, size_t ldc, size_t nb,
                                                    int add)
{
    for (int i = 0; i < mr; i++)
        for (size_t j = 0; j < nb; j++)
            c[i * ldc + j] = add ? c[i * ldc + j] + t[i * w + j] : t[i * w + j];
}

#define G_WORD(mr, nv)                                                                                                 \
    vf b0 = v_load(b);                                                                                                 \
    vf b1 = nv == 2 ? v_load(b + (nv - 1) * CPU_VW) : b0;                                                              \
    (void)b1;                                                                                                          \
    R##mr(G_STEP##nv)                                                                                                  \
    a += mr, b += bs;
#define G_KERNEL(mr, nv)                                                                                               \
    static void G_NAME(k##mr##_##nv)(size_t kc, const void *av, const void *bv, size_t bs, float *c, size_t ldc,       \
                                     size_t nb, int add, const char *const *soon, size_t n_soon)                       \
    {                                                                                                                  \
        const G_PAIR *a = av, *b = bv;                                                                                 \
        R##mr(G_DECL##nv) for (size_t k = 0; k < n_soon; k++)                                                          \
        {                                                                                                              \
            __builtin_prefetch(soon[k], 1);                                                                            \
            G_WORD(mr, nv)                                                                                             \
        }                                                                                                              \
        for (size_t k = n_soon; k < kc; k++) {                                                                         \
            G_WORD(mr, nv)                                                                                             \
        }                                                                                                              \
        if (nb < nv * CPU_VW) {                                                                                        \
            float t0[mr * nv * CPU_VW];                                                                                \
            R##mr(G_PUT##nv) G_NAME(edge)(t0, mr, nv * CPU_VW, c, ldc, nb, add);                                       \
        } else if (add) {                                                                                              \
            R##mr(G_ADD##nv)                                                                                           \
        } else {                                                                                                       \
            R##mr(G_SET##nv)                                                                                           \
        }                                                                                                              \
    }
/* the same with rows of B wherever off[k] says: an image read through the taps of a convolution; whole panels only, their
 * vectors bs words apart */
#define G_TAPS(mr)                                                                                                     \
    static void G_NAME(t##mr)(size_t kc, const void *av, const void *bv, size_t bs, const int32_t *off, float *c,      \
                              size_t ldc, int add)                                                                     \
    {                                                                                                                  \
        const G_PAIR *a = av, *base = bv;                                                                              \
        R##mr(G_DECL2) for (size_t k = 0; k < kc; k++, a += mr)                                                        \
        {                                                                                                              \
            const G_PAIR *b = base + off[k];                                                                           \
            vf b0 = v_load(b), b1 = v_load(b + bs);                                                                    \
            R##mr(G_STEP2)                                                                                             \
        }                                                                                                              \
        if (add) {                                                                                                     \
            R##mr(G_ADD2)                                                                                              \
        } else {                                                                                                       \
            R##mr(G_SET2)                                                                                              \
        }                                                                                                              \
    }
/*
 * C[mr, nv vectors] += A * B with A's rows read where they lie: row i at line[i], a word (a number, or a pair of 16-bit
 * ones, at any address) for each k. B is packed; C takes whole vectors.
 */
#define G_LINE_DECL(i) const char *p##i = line[i];
#define G_LINE1(i) c##i##0 = G_MAC(G_BCAST((const G_ANY *)(const void *)(p##i + 4 * k)), b0, c##i##0);
#define G_LINE2(i)                                                                                                     \
    {                                                                                                                  \
        vf t = G_BCAST((const G_ANY *)(const void *)(p##i + 4 * k));                                                   \
        c##i##0 = G_MAC(t, b0, c##i##0);                                                                               \
        c##i##1 = G_MAC(t, b1, c##i##1);                                                                               \
    }
#define G_LINES(mr, nv)                                                                                                \
    static void G_NAME(l##mr##_##nv)(size_t kc, const char *const *line, const void *bv, float *c, size_t ldc)         \
    {                                                                                                                  \
        typedef G_PAIR G_ANY __attribute__((aligned(1), may_alias));                                                   \
        const G_PAIR *b = bv;                                                                                          \
        R##mr(G_LINE_DECL) R##mr(G_DECL##nv) for (size_t k = 0; k < kc; k++, b += nv * CPU_VW)                         \
        {                                                                                                              \
            vf b0 = v_load(b), b1 = nv == 2 ? v_load(b + (nv - 1) * CPU_VW) : b0;                                      \
            (void)b1;                                                                                                  \
            R##mr(G_LINE##nv)                                                                                          \
        }                                                                                                              \
        R##mr(G_ADD##nv)                                                                                               \
    }
#define G_LINE_ROW(mr) [mr] = {NULL, G_NAME(l##mr##_1), G_NAME(l##mr##_2)},
#define G_BOTH(mr) G_KERNEL(mr, 1) G_KERNEL(mr, 2) G_TAPS(mr)
#define G_ROW(mr) [mr] = {NULL, G_NAME(k##mr##_1), G_NAME(k##mr##_2)},

G_BOTH(1) G_BOTH(2) G_BOTH(3) G_BOTH(4) G_BOTH(5) G_BOTH(6)
#if CPU_VW == 16
G_BOTH(7) G_BOTH(8) G_BOTH(9) G_BOTH(10) G_BOTH(11) G_BOTH(12) G_BOTH(13) G_BOTH(14)
#endif

G_TABLE[15][3] = {
    G_ROW(1) G_ROW(2) G_ROW(3) G_ROW(4) G_ROW(5) G_ROW(6)
#if CPU_VW == 16
    G_ROW(7) G_ROW(8) G_ROW(9) G_ROW(10) G_ROW(11) G_ROW(12) G_ROW(13) G_ROW(14)
#endif
};

G_TAPS_TABLE[15] = {
    NULL, G_NAME(t1), G_NAME(t2), G_NAME(t3), G_NAME(t4), G_NAME(t5), G_NAME(t6),
#if CPU_VW == 16
    G_NAME(t7), G_NAME(t8), G_NAME(t9), G_NAME(t10), G_NAME(t11), G_NAME(t12), G_NAME(t13), G_NAME(t14),
#endif
};

#define G_LINES_BOTH(mr) G_LINES(mr, 1) G_LINES(mr, 2)
G_LINES_BOTH(1) G_LINES_BOTH(2) G_LINES_BOTH(3) G_LINES_BOTH(4) G_LINES_BOTH(5) G_LINES_BOTH(6)
#if CPU_VW == 16
G_LINES_BOTH(7) G_LINES_BOTH(8) G_LINES_BOTH(9)
#endif

G_LINES_TABLE[10][3] = {
    G_LINE_ROW(1) G_LINE_ROW(2) G_LINE_ROW(3) G_LINE_ROW(4) G_LINE_ROW(5) G_LINE_ROW(6)
#if CPU_VW == 16
    G_LINE_ROW(7) G_LINE_ROW(8) G_LINE_ROW(9)
#endif
};

#include "kern_block.h"
#ifdef G_SPANS_TABLE
#include "kern_span.h"
#endif

#undef G_NAME
#undef G_ROWS_TABLE
#undef G_OUTER_TABLE
#undef G_SPANS_TABLE
#undef G_LINES_TABLE
#undef G_TAPS_TABLE
#undef G_TABLE
#undef G_MAC
#undef G_BCAST
#undef G_PAIR
