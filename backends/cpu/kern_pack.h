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
                r[i] = __builtin_shuffle(a, b, lo);
                r[i | s] = __builtin_shuffle(a, b, hi);
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
            vu t[CPU_VW];
            if (nr == CPU_VW && nc == CPU_VW) {
#pragma GCC unroll 16
                for (size_t i = 0; i < CPU_VW; i++)
                    t[i] = (vu)v_load(src + (r + i) * apart + c * 4);
            } else {
                for (size_t i = 0; i < CPU_VW; i++)
                    t[i] = i >= nr ? (vu){0}
                                   : nc == CPU_VW ? (vu)v_load(src + (r + i) * apart + c * 4)
                                                  : (vu)v_load_n(src + (r + i) * apart + c * 4, nc);
            }
            pack_square(t);
            for (size_t i = 0; i < nc; i++)
                if (r && nr < CPU_VW) /* the start of the next row is written already */
                    v_store_n(dst + (c + i) * ldd + r, (vf)t[i], nr);
                else
                    v_store(dst + (c + i) * ldd + r, (vf)t[i]);
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
    vh x = full ? v_loadh(a) : v_loadh_n(a, left);
    if (!b)
        return (vf)__builtin_convertvector(x, vu);
    vh y = full ? v_loadh(b) : v_loadh_n(b, left);
    return (vf)(__builtin_convertvector(x, vu) | (__builtin_convertvector(y, vu) << 16));
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
PACK_CONVERT(pack_to_bf16, uint16_t, v_load, v_load_n, v_storeh, v_storeh_n, v_to_bf16)
PACK_CONVERT(pack_to_f16, uint16_t, v_load, v_load_n, v_storeh, v_storeh_n, v_to_f16)

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
