/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch norm's chains in registers, 16-bit numbers read and written in place. HALF: x, r, g, h, y are bf16. ROWS: the
 * numbers m, s, b, d differ from element to element, else they are one each, and 16-bit numbers are taken two vectors at a
 * time, the even ones and the odd ones. Included after kern_half.h.
 */

/* l, instead of how many numbers there are: the first, third ... of two vectors from i on, or the others */
enum { CHAIN_EVEN = CPU_VW + 1, CHAIN_ODD };

V_INLINE vf chain_get(const void *p, size_t i, size_t l, bool half)
{
    if (half) {
        const uint16_t *h = (const uint16_t *)p + i;
        if (l == CHAIN_EVEN)
            return (vf)((vu)v_load(h) << 16);
        if (l == CHAIN_ODD)
            return (vf)((vu)v_load(h) & 0xffff0000u);
        return l < CPU_VW ? v_from_bf16(v_loadh_n(h, l)) : v_load_bf16(h);
    }
    return l < CPU_VW ? v_load_n((const float *)p + i, l) : v_load((const float *)p + i);
}

V_INLINE void chain_put(void *p, size_t i, size_t l, bool half, vf x)
{
    if (half && l < CPU_VW)
        v_storeh_n((uint16_t *)p + i, v_to_bf16(x), l);
    else if (half)
        v_storeh((uint16_t *)p + i, v_to_bf16(x));
    else if (l < CPU_VW)
        v_store_n((float *)p + i, x, l);
    else
        v_store((float *)p + i, x);
}

V_INLINE vf chain_number(const cpu_chain *a, int k, size_t i, size_t l, bool rows)
{
    return rows ? chain_get(a->number[k], i, l, false) : v_set1(a->number[k][0]);
}

/* y = (x - m) s + b [+ r], [not below 0] */
V_INLINE vf chain_forward(const cpu_chain *a, size_t i, size_t l, bool half, bool rows, int form)
{
    vf t = chain_get(a->x, i, l, half) - chain_number(a, 0, i, l, rows);
    t = v_fma(t, chain_number(a, 1, i, l, rows), chain_number(a, 2, i, l, rows));
    if (form & CPU_CHAIN_ADD)
        t += chain_get(a->r, i, l, half);
    return form & CPU_CHAIN_RELU ? v_relu(t) : t;
}

/* g where relu let it through, h being relu's result */
V_INLINE vf chain_masked(const cpu_chain *a, size_t i, size_t l, bool half, int form)
{
    vf g = chain_get(a->r, i, l, half);
    return form & CPU_CHAIN_RELU ? v_positive(chain_get(a->h, i, l, half), g) : g;
}

/* y = g s + ((x - m) b + d) */
V_INLINE vf chain_backward(const cpu_chain *a, size_t i, size_t l, bool half, bool rows, int form)
{
    vf t = chain_get(a->x, i, l, half) - chain_number(a, 0, i, l, rows);
    t = v_fma(t, chain_number(a, 2, i, l, rows), chain_number(a, 3, i, l, rows));
    return v_fma(chain_masked(a, i, l, half, form), chain_number(a, 1, i, l, rows), t);
}

#define CHAIN_LOOP(name, F, HALF, ROWS, FORM)                                                                          \
    static void name(const cpu_chain *a, size_t n)                                                                     \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; HALF && ROWS && i + 2 * CPU_VW <= n; i += 2 * CPU_VW)                                                   \
            pack_store_next((uint16_t *)a->y + i, F(a, i, CPU_VW, HALF, ROWS, FORM),                                   \
                            F(a, i + CPU_VW, CPU_VW, HALF, ROWS, FORM));                                               \
        for (; HALF && !ROWS && i + 2 * CPU_VW <= n; i += 2 * CPU_VW)                                                  \
            v_store((uint16_t *)a->y + i,                                                                              \
                    (vf)pack_both(F(a, i, CHAIN_EVEN, HALF, ROWS, FORM), F(a, i, CHAIN_ODD, HALF, ROWS, FORM)));       \
        for (; i + CPU_VW <= n; i += CPU_VW)                                                                           \
            chain_put(a->y, i, CPU_VW, HALF, F(a, i, CPU_VW, HALF, ROWS, FORM));                                       \
        if (i < n)                                                                                                     \
            chain_put(a->y, i, n - i, HALF, F(a, i, n - i, HALF, ROWS, FORM));                                         \
    }

/* ROWS: adds g and g (x - m) to two rows of numbers; else to the two numbers of `sum`, as trees of vectors. */
V_INLINE void chain_sums(const cpu_chain *a, size_t n, bool half, bool rows, int form)
{
    vf s = {0}, t = {0}, m = v_set1(a->number[0][0]);
    for (size_t i = 0; i < n; i += CPU_VW) {
        size_t l = n - i < CPU_VW ? n - i : CPU_VW;
        vf g = chain_masked(a, i, l, half, form), x = chain_get(a->x, i, l, half);
        if (!rows) {
            s += g;
            t = v_fma(g, x - m, t);
            continue;
        }
        x -= chain_get(a->number[0], i, l, false);
        chain_put(a->sum[0], i, l, false, chain_get(a->sum[0], i, l, false) + g);
        chain_put(a->sum[1], i, l, false, v_fma(g, x, chain_get(a->sum[1], i, l, false)));
    }
    if (!rows) {
        *a->sum[0] += v_sum(s);
        *a->sum[1] += v_sum(t);
    }
}

#define CHAIN_SUMS(name, HALF, ROWS, FORM)                                                                             \
    static void name(const cpu_chain *a, size_t n)                                                                     \
    {                                                                                                                  \
        chain_sums(a, n, HALF, ROWS, FORM);                                                                            \
    }
#define CHAIN_FORMS(H, R)                                                                                              \
    CHAIN_LOOP(chain_forward_##H##R##0, chain_forward, H, R, 0)                                                        \
    CHAIN_LOOP(chain_forward_##H##R##1, chain_forward, H, R, 1)                                                        \
    CHAIN_LOOP(chain_forward_##H##R##2, chain_forward, H, R, 2)                                                        \
    CHAIN_LOOP(chain_forward_##H##R##3, chain_forward, H, R, 3)                                                        \
    CHAIN_LOOP(chain_backward_##H##R##0, chain_backward, H, R, 0)                                                      \
    CHAIN_LOOP(chain_backward_##H##R##1, chain_backward, H, R, CPU_CHAIN_RELU)                                         \
    CHAIN_SUMS(chain_sums_##H##R##0, H, R, 0)                                                                          \
    CHAIN_SUMS(chain_sums_##H##R##1, H, R, CPU_CHAIN_RELU)
CHAIN_FORMS(0, 0)
CHAIN_FORMS(0, 1)
CHAIN_FORMS(1, 0)
CHAIN_FORMS(1, 1)

#define CHAIN_TABLE(kind)                                                                                              \
    {                                                                                                                  \
        {{chain_##kind##_000, chain_##kind##_001}, {chain_##kind##_010, chain_##kind##_011}},                          \
            {{chain_##kind##_100, chain_##kind##_101}, {chain_##kind##_110, chain_##kind##_111}},                      \
    }
/* [kind][half][rows][form] */
static const cpu_chain_kernel chain_kernels[CPU_CHAIN_KINDS][2][2][4] = {
    [CPU_CHAIN_FORWARD] = {{{chain_forward_000, chain_forward_001, chain_forward_002, chain_forward_003},
                            {chain_forward_010, chain_forward_011, chain_forward_012, chain_forward_013}},
                           {{chain_forward_100, chain_forward_101, chain_forward_102, chain_forward_103},
                            {chain_forward_110, chain_forward_111, chain_forward_112, chain_forward_113}}},
    [CPU_CHAIN_BACKWARD] = CHAIN_TABLE(backward),
    [CPU_CHAIN_SUMS] = CHAIN_TABLE(sums),
};
