/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the map interpreter on blocks of 32-bit elements. Included after vec.h and vmath.h. */

#define MAP_LOOP(T, EXPR)                                                                                              \
    size_t i = 0;                                                                                                      \
    (void)a, (void)b, (void)c;                                                                                         \
    for (; i + CPU_VW <= n; i += CPU_VW) {                                                                             \
        T x = (T)v_load(a + i), y = (T)v_load(b + i), z = (T)v_load(c + i);                                            \
        (void)x, (void)y, (void)z;                                                                                     \
        v_store(d + i, (vf)(EXPR));                                                                                    \
    }                                                                                                                  \
    if (i < n) {                                                                                                       \
        T x = (T)v_load_n(a + i, n - i), y = (T)v_load_n(b + i, n - i), z = (T)v_load_n(c + i, n - i);                 \
        (void)x, (void)y, (void)z;                                                                                     \
        v_store_n(d + i, (vf)(EXPR), n - i);                                                                           \
    }
/* operands that an operation does not use are passed as its first one, so loads of them cost nothing */
#define MAP_OP(name, T, EXPR)                                                                                          \
    static void map_##name(void *dv, const void *av, const void *bv, const void *cv, size_t n)                        \
    {                                                                                                                  \
        float *d = dv;                                                                                                 \
        const float *a = av, *b = bv, *c = cv;                                                                         \
        MAP_LOOP(T, EXPR)                                                                                              \
    }

/* the same with operands that are one element for all: b, or a, or (of three) any of b and c */
#define MAP_ONE_OF(name, EXPR, X, Y, Z)                                                                                \
    static void map_##name(void *dv, const void *av, const void *bv, const void *cv, size_t n)                        \
    {                                                                                                                  \
        float *d = dv;                                                                                                 \
        const float *a = av, *b = bv, *c = cv;                                                                         \
        const vf xs = v_set1(a[0]), ys = v_set1(b[0]), zs = v_set1(c[0]);                                              \
        size_t i = 0;                                                                                                  \
        (void)xs, (void)ys, (void)zs;                                                                                  \
        for (; i + CPU_VW <= n; i += CPU_VW) {                                                                         \
            vf x = X ? xs : v_load(a + i), y = Y ? ys : v_load(b + i), z = Z ? zs : v_load(c + i);                     \
            (void)x, (void)y, (void)z;                                                                                 \
            v_store(d + i, (vf)(EXPR));                                                                                \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            size_t l = n - i;                                                                                          \
            vf x = X ? xs : v_load_n(a + i, l), y = Y ? ys : v_load_n(b + i, l), z = Z ? zs : v_load_n(c + i, l);      \
            (void)x, (void)y, (void)z;                                                                                 \
            v_store_n(d + i, (vf)(EXPR), l);                                                                           \
        }                                                                                                              \
    }
/* An operand's v_load of an element beyond the one there is does not happen: its arm is not compiled. */
#define MAP_OP_BOTH(name, EXPR)                                                                                        \
    MAP_ONE_OF(name##_s, EXPR, 0, 1, 1)                                                                                \
    MAP_ONE_OF(s_##name, EXPR, 1, 0, 1)

V_INLINE vi map_bool(vi m)
{
    return m & 1;
}

/* (1 + tanh u)/2 = sigmoid(2u) */
V_INLINE vf map_gelu_gate(vf x)
{
    vf u = v_set1(0.7978845608028654f) * v_fma(x * x * x, v_set1(0.044715f), x);
    return v_sigmoid(u + u);
}

V_INLINE vf map_gelu_tanh_grad(vf x, vf s)
{
    vf du = v_set1(0.7978845608028654f) * v_fma(x * x, v_set1(0.134145f), v_set1(1.0f));
    return s + x * v_set1(2.0f) * s * (v_set1(1.0f) - s) * du;
}

/*
 * The normal distribution below x, given e = exp(-x^2/2): beyond a = |x| there is e (1/2 - s R(s)), s = p a / (1 + p a), in
 * the manner of Abramowitz and Stegun 7.1.26, so that the one exponential serves the density too. R is a minimax fit over
 * 0 <= a <= 14.5 of the relative error times 1/(1 + a^2/2), which is how the rounding of x^2 grows in e: 5e-8.
 */
V_INLINE vf map_cdf(vf x, vf e)
{
    vf pa = v_min(v_abs(x), v_set1(16.0f)) * v_set1(0.25f), s = pa / (pa + v_set1(1.0f)); /* an infinity stays one */
    vf r = v_fma(v_set1(-0.09698152542114258f), s, v_set1(0.31111475825309753f));
    r = v_fma(r, s, v_set1(-0.15009936690330505f));
    r = v_fma(r, s, v_set1(-0.8609734773635864f));
    r = v_fma(r, s, v_set1(2.1051230430603027f));
    r = v_fma(r, s, v_set1(-2.4041476249694824f));
    r = v_fma(r, s, v_set1(1.595767617225647f));
    r = v_fma(-r, s, v_set1(0.5f)) * e;
    return v_sel(x > v_set1(0.0f), v_set1(1.0f) - r, r);
}

V_INLINE vf map_bell(vf x)
{
    return v_exp(x * x * v_set1(-0.5f));
}

V_INLINE vf map_slope(vf x, vf e, vf c)
{
    return v_fma(x, v_set1(0.3989422804014327f) * e, c);
}

V_INLINE vf map_gelu_grad(vf x)
{
    vf e = map_bell(x);
    return map_slope(x, e, map_cdf(x, e));
}

V_INLINE vi map_idiv(vi a, vi b)
{
    vi q;
    for (int i = 0; i < CPU_VW; i++)
        q[i] = b[i] == 0 ? 0 : b[i] == -1 ? (int32_t)(0u - (uint32_t)a[i]) : a[i] / b[i];
    return q;
}

/* truncates, clamped to the range of i32 */
V_INLINE vi map_f2i(vf x)
{
    vi y = v_ftoi(x);
    return v_seli(x >= v_set1(2147483648.0f), v_seti(INT32_MAX), y);
}

V_INLINE vf map_round_bf16(vf x)
{
    return v_from_bf16(v_to_bf16(x));
}

#define MAP_ONE v_set1(1.0f)
MAP_OP(neg, vf, (vi)x ^ (int32_t)0x80000000)
MAP_OP(abs, vf, v_abs(x))
MAP_OP(exp, vf, v_exp(x))
MAP_OP(log, vf, v_log(x))
MAP_OP(sqrt, vf, v_sqrt(x))
MAP_OP(rsqrt, vf, MAP_ONE / v_sqrt(x))
MAP_OP(recip, vf, MAP_ONE / x)
MAP_OP(tanh, vf, v_tanh(x))
MAP_OP(erf, vf, v_erf(x))
MAP_OP(add, vf, x + y)
MAP_OP(sub, vf, x - y)
MAP_OP(mul, vf, x *y)
MAP_OP(div, vf, x / y)
MAP_OP(max, vf, v_max(x, y))
MAP_OP(min, vf, v_min(x, y))
MAP_OP(lt, vf, map_bool(x < y))
MAP_OP(eq, vf, map_bool(x == y))
MAP_OP(and, vi, x &y)
MAP_OP(select, vi, v_seli(x != 0, y, z))
MAP_OP(ineg, vu, -x)
MAP_OP(iabs, vi, v_seli(x < 0, (vi)(-(vu)x), x))
MAP_OP(iadd, vu, x + y)
MAP_OP(isub, vu, x - y)
MAP_OP(imul, vu, x *y)
MAP_OP(idiv_op, vi, map_idiv(x, y))
MAP_OP(imax, vi, v_seli(x > y, x, y))
MAP_OP(imin, vi, v_seli(x < y, x, y))
MAP_OP(ilt, vi, map_bool(x < y))
MAP_OP(ieq, vi, map_bool(x == y))
MAP_OP(f2i_op, vf, map_f2i(x))
MAP_OP(i2f, vi, v_itof(x))
MAP_OP(f2b, vf, map_bool(x != v_set1(0.0f)))
MAP_OP(i2b, vi, map_bool(x != 0))
MAP_OP(i2u8, vi, x & 255)
MAP_OP(round_bf16_op, vf, map_round_bf16(x))
MAP_OP(round_f16, vf, v_from_f16(v_to_f16(x)))
MAP_OP(move, vi, x)
MAP_OP(relu, vf, v_relu(x))
MAP_OP(relu_bwd, vf, v_positive(x, y))
MAP_OP(gelu, vf, x *map_cdf(x, map_bell(x)))
MAP_OP(gelu_bwd, vf, map_gelu_grad(x) * y)
MAP_OP(gelu_tanh_op, vf, x *map_gelu_gate(x))
MAP_OP(gelu_tanh_bwd, vf, map_gelu_tanh_grad(x, map_gelu_gate(x)) * y)
MAP_OP(bell_op, vf, map_bell(x))
MAP_OP(cdf_op, vf, map_cdf(x, y))
MAP_OP(gelu_slope, vf, map_slope(x, y, z))
MAP_OP(gelu_gate_op, vf, map_gelu_gate(x))
MAP_OP(gelu_tanh_slope, vf, map_gelu_tanh_grad(x, y))
MAP_OP(silu, vf, x *v_sigmoid(x))
MAP_OP(silu_bwd, vf, y *v_sigmoid(x) * v_fma(x, MAP_ONE - v_sigmoid(x), MAP_ONE))
MAP_OP(sigmoid, vf, v_sigmoid(x))
MAP_OP(sigmoid_bwd, vf, y *x *(MAP_ONE - x))
MAP_OP(tanh_bwd, vf, y *(MAP_ONE - x * x))

MAP_OP(fma, vf, v_fma(x, y, z))
MAP_ONE_OF(fma_b, v_fma(x, y, z), 0, 1, 0)
MAP_ONE_OF(fma_c, v_fma(x, y, z), 0, 0, 1)
MAP_ONE_OF(fma_bc, v_fma(x, y, z), 0, 1, 1)
MAP_OP_BOTH(add, x + y)
MAP_OP_BOTH(sub, x - y)
MAP_OP_BOTH(mul, x *y)
MAP_OP_BOTH(div, x / y)
MAP_OP_BOTH(max, v_max(x, y))
MAP_OP_BOTH(min, v_min(x, y))
MAP_OP_BOTH(lt, map_bool(x < y))
MAP_OP_BOTH(eq, map_bool(x == y))

static void map_spread(void *dv, const void *av, const void *bv, const void *cv, size_t n)
{
    uint32_t bits;
    (void)bv, (void)cv;
    memcpy(&bits, av, 4);
    pack_fill32(dv, bits, n);
}

static const cpu_map_kernel map_kernels[CPU_M_COUNT] = {
    [CPU_M_NEG] = map_neg, [CPU_M_ABS] = map_abs, [CPU_M_EXP] = map_exp, [CPU_M_LOG] = map_log,
    [CPU_M_SQRT] = map_sqrt, [CPU_M_RSQRT] = map_rsqrt, [CPU_M_RECIP] = map_recip, [CPU_M_TANH] = map_tanh,
    [CPU_M_ERF] = map_erf, [CPU_M_ADD] = map_add, [CPU_M_SUB] = map_sub, [CPU_M_MUL] = map_mul,
    [CPU_M_DIV] = map_div, [CPU_M_MAX] = map_max, [CPU_M_MIN] = map_min, [CPU_M_LT] = map_lt, [CPU_M_EQ] = map_eq,
    [CPU_M_AND] = map_and, [CPU_M_SELECT] = map_select, [CPU_M_INEG] = map_ineg, [CPU_M_IABS] = map_iabs, [CPU_M_IADD] = map_iadd,
    [CPU_M_ISUB] = map_isub, [CPU_M_IMUL] = map_imul, [CPU_M_IDIV] = map_idiv_op, [CPU_M_IMAX] = map_imax,
    [CPU_M_IMIN] = map_imin, [CPU_M_ILT] = map_ilt, [CPU_M_IEQ] = map_ieq, [CPU_M_F2I] = map_f2i_op,
    [CPU_M_I2F] = map_i2f, [CPU_M_F2B] = map_f2b, [CPU_M_I2B] = map_i2b, [CPU_M_I2U8] = map_i2u8,
    [CPU_M_ROUND_BF16] = map_round_bf16_op, [CPU_M_ROUND_F16] = map_round_f16, [CPU_M_MOVE] = map_move,
    [CPU_M_RELU] = map_relu, [CPU_M_RELU_BWD] = map_relu_bwd, [CPU_M_GELU] = map_gelu,
    [CPU_M_GELU_BWD] = map_gelu_bwd, [CPU_M_GELU_TANH] = map_gelu_tanh_op,
    [CPU_M_GELU_TANH_BWD] = map_gelu_tanh_bwd, [CPU_M_SILU] = map_silu, [CPU_M_SILU_BWD] = map_silu_bwd,
    [CPU_M_SIGMOID] = map_sigmoid, [CPU_M_SIGMOID_BWD] = map_sigmoid_bwd, [CPU_M_TANH_BWD] = map_tanh_bwd,
    [CPU_M_BELL] = map_bell_op, [CPU_M_CDF] = map_cdf_op, [CPU_M_GELU_SLOPE] = map_gelu_slope,
    [CPU_M_GELU_GATE] = map_gelu_gate_op, [CPU_M_GELU_TANH_SLOPE] = map_gelu_tanh_slope,
    [CPU_M_FMA] = map_fma, [CPU_M_FMA_B] = map_fma_b, [CPU_M_FMA_C] = map_fma_c, [CPU_M_FMA_BC] = map_fma_bc,
    [CPU_M_SPREAD] = map_spread, [CPU_M_ADD_S] = map_add_s, [CPU_M_SUB_S] = map_sub_s, [CPU_M_MUL_S] = map_mul_s,
    [CPU_M_DIV_S] = map_div_s, [CPU_M_MAX_S] = map_max_s, [CPU_M_MIN_S] = map_min_s, [CPU_M_LT_S] = map_lt_s,
    [CPU_M_EQ_S] = map_eq_s, [CPU_M_S_ADD] = map_s_add, [CPU_M_S_SUB] = map_s_sub, [CPU_M_S_MUL] = map_s_mul,
    [CPU_M_S_DIV] = map_s_div, [CPU_M_S_MAX] = map_s_max, [CPU_M_S_MIN] = map_s_min, [CPU_M_S_LT] = map_s_lt,
    [CPU_M_S_EQ] = map_s_eq,
};
