/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gelu at the end of a product v, in registers, 16-bit numbers read and written in place. HALF: the results, and backward's
 * x, are bf16. The arithmetic is that of kern_map.h, operation by operation. Included after kern_chain.h.
 */

/* y0 = v + x, y1 = gelu(y0), x being the bias in f32 */
V_INLINE void gelu_forward(void *const y[2], const float *v, const void *x, size_t i, size_t l, bool tanh, bool half)
{
    const vf s = chain_get(v, i, l, false) + chain_get(x, i, l, false);
    if (y[0])
        chain_put(y[0], i, l, half, s);
    chain_put(y[1], i, l, half, s * (tanh ? map_gelu_gate(s) : map_cdf(s, map_bell(s))));
}

/* y0 = gelu'(x) v, y1 = gelu(x) */
V_INLINE void gelu_backward(void *const y[2], const float *v, const void *xv, size_t i, size_t l, bool tanh, bool half)
{
    const vf x = chain_get(xv, i, l, half), e = tanh ? x : map_bell(x);
    const vf gate = tanh ? map_gelu_gate(x) : map_cdf(x, e);
    const vf slope = tanh ? map_gelu_tanh_grad(x, gate) : map_slope(x, e, gate);
    chain_put(y[0], i, l, half, slope * chain_get(v, i, l, false));
    if (y[1])
        chain_put(y[1], i, l, half, x * gate);
}

#define GELU_KERNEL(way, tanh, half)                                                                                   \
    static void gelu_##way##_##tanh##half(void *const out[2], const float *v, const void *x, size_t n)                 \
    {                                                                                                                  \
        void *const y[2] = {out[0], out[1]};                                                                           \
        size_t i = 0;                                                                                                  \
        for (; i + CPU_VW <= n; i += CPU_VW)                                                                           \
            gelu_##way(y, v, x, i, CPU_VW, tanh, half);                                                                \
        if (i < n)                                                                                                     \
            gelu_##way(y, v, x, i, n - i, tanh, half);                                                                 \
    }
#define GELU_KERNELS(way) GELU_KERNEL(way, 0, 0) GELU_KERNEL(way, 0, 1) GELU_KERNEL(way, 1, 0) GELU_KERNEL(way, 1, 1)
GELU_KERNELS(forward)
GELU_KERNELS(backward)

/* [backward][tanh][half] */
static const cpu_gelu_kernel gelu_kernels[2][2][2] = {
    {{gelu_forward_00, gelu_forward_01}, {gelu_forward_10, gelu_forward_11}},
    {{gelu_backward_00, gelu_backward_01}, {gelu_backward_10, gelu_backward_11}},
};
