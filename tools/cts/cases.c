/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts's test cases of composites: activations, norms, softmax, losses, optimizers. Each makes a graph with random inputs. The groups
 * composite, body and guard (groups.c) run it in their child process, and compare with the reference.
 */
#include <string.h>

#include "tools/cts/cts.h"

#define F64(x) yk_attr_of_f64(x)

cts_case_fn *const cts_composites[] = {
    cts_case_activation, cts_case_norm, cts_case_stats, cts_case_softmax, cts_case_conv,  cts_case_pool,
    cts_case_attention,  cts_case_loss, cts_case_optim,   cts_case_round8, cts_case_map,
};
const uint32_t cts_n_composite = sizeof cts_composites / sizeof *cts_composites;

/* Applies an op with outputs by its inputs, and wants every output. */
static uint32_t case_apply(cts_check *k, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_attr, const int64_t *attr, yk__vid *out)
{
    return yk__apply(&k->g, op, n_in, in, n_attr, attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 8);
}

static void want_all(cts_check *k, uint32_t n, const yk__vid *out)
{
    for (uint32_t i = 0; i < n; i++)
        cts_want(k, out[i]);
}

static void sums_of(cts_check *k, yk_dtype dtype, double n, double low)
{
    k->tol = CTS_LARGEST;
    k->in_type = dtype;
    k->n = n;
    k->low = dtype == YK_F32 ? 0 : low;
}

/* ---- Activations ---------------------------------------------------------------------------------------------------------- */

/* Elementwise composite number i; YK_OP_COUNT beyond the last. */
static uint32_t activation_at(uint32_t i)
{
    uint32_t op = 0;
    while (op < YK_OP_COUNT && (yk__op_info_of(op)->kind != YK_KIND_COMP || !yk__op_is_map(op) || i-- > 0))
        op++;
    return op;
}

bool cts_case_activation(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const int64_t dims[3][2] = {{33, 65}, {1, 7}, {3, 20011}};
    const uint32_t op = activation_at(number / 3);
    const int64_t *dim = dims[number % 3];
    yk__vid in[2], out[8];
    if (op == YK_OP_COUNT)
        return false;
    snprintf(name, n, "%s.%lldx%lld", yk__op_info_of(op)->name, (long long)dim[0], (long long)dim[1]);
    in[0] = cts_leaf(&k->g, dtype, op == YK_OP_TANH_BWD || op == YK_OP_SIGMOID_BWD ? CTS_UNIT : CTS_WIDE, 0, 2, dim);
    in[1] = cts_leaf(&k->g, dtype, CTS_WIDE, 1, 2, dim);
    sums_of(k, dtype, 1, 1);
    if (yk__op_info_of(op)->tol == YK_TOL_EXACT)
        k->tol = CTS_EXACT;
    want_all(k, case_apply(k, op, yk__op_info_of(op)->in_min, in, 0, NULL, out), out);
    return true;
}

/* ---- Norms ----------------------------------------------------------------------------------------------------------------- */

/* Numbers up to a thousandth, if `small`: their variance is less than eps, which beside a variance of five is lost in the allowed error. */
static void layer_norm(cts_check *k, yk_dtype dtype, int64_t rows, int64_t cols, uint32_t n_in, bool backward, bool small, char *name,
                       size_t n)
{
    const int64_t dim[] = {rows, cols};
    int64_t attr = F64(1e-5);
    yk__vid x[3], y[8], in[5], out[8];
    uint32_t n_out;
    snprintf(name, n, "layer_norm%s.%lldx%lld.in%u%s", backward ? "_bwd" : "", (long long)rows, (long long)cols, n_in,
             small ? ".small" : "");
    sums_of(k, dtype, (double)(backward ? rows + cols : cols), 2);
    x[0] = cts_leaf(&k->g, dtype, small ? CTS_SMALL : CTS_WIDE, small ? 10 : 0, 2, dim);
    x[1] = cts_leaf(&k->g, YK_F32, CTS_WIDE, 1, 1, dim + 1);
    x[2] = cts_leaf(&k->g, YK_F32, CTS_WIDE, 2, 1, dim + 1);
    n_out = case_apply(k, YK_OP_LAYER_NORM, n_in, x, 1, &attr, y);
    if (backward && n_out == 3) {
        in[0] = cts_leaf(&k->g, dtype, CTS_UNIT, 0, 2, dim);
        in[1] = x[0], in[2] = y[1], in[3] = y[2], in[4] = x[1];
        want_all(k, case_apply(k, YK_OP_LAYER_NORM_BWD, n_in > 1 ? 5 : 4, in, 1, &attr, out), out);
    } else {
        want_all(k, n_out, y);
    }
}

/* A layer norm of f32 that gives 16 bits. */
static void narrow_norm(cts_check *k, yk_dtype to, int64_t rows, int64_t cols, char *name, size_t n)
{
    const int64_t dim[] = {rows, cols};
    int64_t attr = F64(1e-5);
    yk__vid x[3], y[3];
    snprintf(name, n, "layer_norm.%lldx%lld.to_%s", (long long)rows, (long long)cols, yk__dtype_name(to));
    sums_of(k, to, (double)cols, 2);
    k->claims = YK_CLAIM_NARROW_OUT;
    k->in_type = YK_F32;
    x[0] = cts_leaf(&k->g, YK_F32, CTS_WIDE, 0, 2, dim);
    x[1] = cts_leaf(&k->g, YK_F32, CTS_WIDE, 1, 1, dim + 1);
    x[2] = cts_leaf(&k->g, YK_F32, CTS_WIDE, 2, 1, dim + 1);
    want_all(k, yk__apply(&k->g, YK_OP_LAYER_NORM, 3, x, 1, &attr, to, YK_NONE, NULL, y, 3), y);
}

bool cts_case_norm(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const int64_t dims[4][2] = {{5, 33}, {17, 768}, {1, 8}, {300, 3}}, large[2][2] = {{2, 70001}, {70001, 6}};
    if (number < 24) {
        layer_norm(k, dtype, dims[number % 4][0], dims[number % 4][1], 3 - number / 4 % 3, number >= 12, false, name, n);
        return true;
    }
    if (number < 26) { /* rows that several warps of a GPU have, the last lanes with less of them */
        layer_norm(k, dtype, 35, 1608, 3, number == 25, false, name, n);
        return true;
    }
    if (number < 30 && dtype == YK_F32) { /* more columns, or rows, than 16 bits count */
        layer_norm(k, dtype, large[number % 2][0], large[number % 2][1], 3, number >= 28, false, name, n);
        return true;
    }
    if (number < 30) {
        narrow_norm(k, dtype, dims[number % 4][0], dims[number % 4][1], name, n);
        return true;
    }
    if (number < 32) {
        layer_norm(k, dtype, 17, 768, 3, number == 31, true, name, n);
        return true;
    }
    return false;
}

/* Each row of the result is checked alone, as a large count would hide an error of the mean. Besides moderate numbers there are some
 * with a mean of 1000 times their spread, whose squares tell nothing about it; and few elements, one image, one channel. */
bool cts_case_stats(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const int64_t dims[][3] = {
        {8, 3, 49}, {64, 17, 1}, {1, 4, 3001}, {4, 5, 9}, {2, 16, 49}, {8, 3, 1},   {3, 1, 3001},
        {1, 1, 1},  {2, 1, 1},   {1, 2, 2},    {1, 3, 1}, {1, 5, 49},  {5, 2, 1},   {1, 1, 700},
    };
    const uint32_t shifted = 3, all = sizeof dims / sizeof *dims; /* the first ones in f32: 16 bits do not hold such numbers */
    const uint32_t at = number + (dtype == YK_F32 ? 0 : shifted); /* --quick has the first and the eleventh */
    const bool far = at < shifted;
    yk__vid in[2], out[8];
    if (at >= all)
        return false;
    const int64_t *dim = dims[at];
    snprintf(name, n, "bn_stats.%lldx%lldx%lld%s", (long long)dim[0], (long long)dim[1], (long long)dim[2], far ? ".mean1000" : "");
    sums_of(k, dtype, (double)(dim[0] * dim[2]), 0);
    k->least = 4;
    in[0] = cts_leaf(&k->g, dtype, far ? CTS_SHIFTED : CTS_WIDE, 0, 3, dim);
    in[1] = cts_leaf(&k->g, YK_F32, far ? CTS_SHIFTED : CTS_UNIT, 0, 1, dim + 1);
    case_apply(k, YK_OP_BN_STATS, 2, in, 0, NULL, out);
    for (int64_t row = 0; row < 3; row++)
        cts_want(k, yk__dense(&k->g, yk__slice(&k->g, out[0], 0, row, row + 1, 1)));
    return true;
}

/* ---- Softmax --------------------------------------------------------------------------------------------------------------- */

bool cts_case_softmax(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const int64_t dims[4][2] = {{5, 33}, {16, 1000}, {3, 1}, {130, 10}}, larges[2][2] = {{2, 70001}, {70001, 2}};
    const bool large = number >= 16; /* more columns, or rows, than 16 bits count */
    const int64_t *dim = large ? larges[number % 2] : dims[number % 4];
    int64_t log = number / 4 % 2;
    bool backward = large ? number >= 18 : number >= 8;
    yk__vid x, y[8], in[2], out[8];
    if (number >= (dtype == YK_F32 ? 20u : 16u))
        return false;
    snprintf(name, n, "softmax%s.%lldx%lld%s", backward ? "_bwd" : "", (long long)dim[0], (long long)dim[1], log ? ".log" : "");
    sums_of(k, dtype, (double)dim[1], 4);
    x = cts_leaf(&k->g, dtype, CTS_WIDE, 0, 2, dim);
    if (!case_apply(k, YK_OP_SOFTMAX, 1, &x, 1, &log, y))
        return true;
    in[0] = cts_leaf(&k->g, dtype, CTS_UNIT, 0, 2, dim);
    in[1] = y[0];
    want_all(k, backward ? case_apply(k, YK_OP_SOFTMAX_BWD, 2, in, 1, &log, out) : 1, backward ? out : y);
    return true;
}

/* ---- Losses and dropout ------------------------------------------------------------------------------------------------------ */

static void case_dropout(cts_check *k, yk_dtype dtype, double p, char *name, size_t n)
{
    static const int64_t dim[] = {12, 35}, four[] = {4};
    int64_t attr[] = {F64(p), 5};
    yk__vid in[3], out[8];
    snprintf(name, n, "dropout.%g", p);
    k->tol = CTS_ULP;
    in[0] = cts_leaf(&k->g, dtype, CTS_WIDE, 0, 2, dim);
    in[1] = cts_leaf(&k->g, YK_I32, CTS_KEY, 0, 1, four);
    in[2] = cts_leaf(&k->g, YK_I32, CTS_ROWS, 0, 1, dim);
    want_all(k, case_apply(k, YK_OP_DROPOUT, 3, in, 2, attr, out), out);
}

/* The matrix y, which a node writes, gets rows that are `more` elements further apart, in all that stands in the graph. */
static yk__vid pad_rows(yk__graph *g, yk__vid y, int64_t more)
{
    yk_value v = g->value[y];
    const int64_t dim[] = {v.dim[0], v.dim[1] + more};
    const yk__vid root = yk__value_new(g, (yk_dtype)v.dtype, 2, dim);
    if (root == YK_NONE)
        return YK_NONE;
    for (yk__vid i = 0; i < g->n_value; i++)
        if (g->value[i].base == y && i != y) { /* transposed */
            g->value[i].base = root;
            g->value[i].stride[1] = dim[1];
        }
    v.stride[0] = dim[1];
    const yk__vid padded = yk__alias_new(g, root, &v);
    for (size_t at = 0; at < g->n_index; at++)
        g->index[at] = g->index[at] == y ? padded : g->index[at];
    return padded;
}

/* Logits that a product makes, and their gradient, which two products read, with rows further apart than they are long. */
static void case_padded(cts_check *k, yk_dtype dtype, bool backward, char *name, size_t n)
{
    static const int64_t one[] = {9, 1}, words[] = {1, 1001}, left[] = {1001, 24}, right[] = {9, 24};
    const int64_t attr[] = {-100, F64(0)};
    yk__graph *g = &k->g;
    yk__vid x[2], b[4], y[8], out[8], gx[2] = {YK_NONE, YK_NONE};
    snprintf(name, n, "cross_entropy%s.padded", backward ? "_bwd" : "");
    sums_of(k, dtype, (double)words[1], 8);
    k->least = backward ? 0.1 : 4;
    k->claims = YK_CLAIM_STRIDED_OUT;
    x[0] = cts_leaf(g, dtype, CTS_UNIT, 0, 2, one), x[1] = cts_leaf(g, dtype, CTS_UNIT, 1, 2, words);
    const yk__vid z = yk__dot(g, x[0], x[1], false, false);
    b[1] = z, b[2] = cts_leaf(g, YK_I32, CTS_LABEL, (uint32_t)words[1], 1, one);
    if (!case_apply(k, YK_OP_CROSS_ENTROPY, 2, b + 1, 2, attr, y))
        return;
    b[0] = cts_leaf(g, YK_F32, CTS_UNIT, 2, 1, one), b[3] = y[1];
    if (backward && case_apply(k, YK_OP_CROSS_ENTROPY_BWD, 4, b, 2, attr, out)) {
        gx[0] = yk__dot(g, out[0], cts_leaf(g, dtype, CTS_UNIT, 3, 2, left), false, false);
        gx[1] = yk__dot(g, out[0], cts_leaf(g, dtype, CTS_UNIT, 4, 2, right), true, false);
        want_all(k, 2, gx);
        cts_want(k, yk__dense(g, pad_rows(g, out[0], 23)));
    } else {
        want_all(k, 2, y);
    }
    const yk__vid padded = pad_rows(g, z, 20); /* to be read and written in different pieces */
    if (!backward)
        cts_want(k, yk__dense(g, padded));
}

bool cts_case_loss(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const int64_t dims[6][2] = {{9, 10}, {64, 1001}, {1, 2}, {5, 20011}, {70001, 2}, {2, 70001}};
    /* rows that a group reads in several rounds; more of them than 16 bits count */
    const bool plain = number == 26 || number == 27 || (number >= 28 && number < 32 && dtype == YK_F32);
    const int64_t *dim = dims[plain ? number / 2 - 10 : number % 3];
    bool smooth = !plain && number / 3 & 1, weighted = !plain && number / 6 & 1, backward = plain ? number & 1 : number / 12 & 1;
    int64_t attr[] = {-100, F64(smooth ? 0.1 : 0)};
    yk__vid in[3], y[8], b[5], out[8];
    if (number == 24 || number == 25) {
        case_dropout(k, dtype, number == 24 ? 0.25 : 0.5, name, n);
        return true;
    }
    if (number >= 28 && !plain) {
        if (number < 30 && dtype != YK_F32)
            case_padded(k, dtype, number == 29, name, n);
        return number < 30 && dtype != YK_F32;
    }
    snprintf(name, n, "cross_entropy%s.%lldx%lld%s%s", backward ? "_bwd" : "", (long long)dim[0], (long long)dim[1],
             smooth ? ".smoothing" : "", weighted ? ".weight" : "");
    sums_of(k, dtype, (double)dim[1], 4);
    k->least = backward ? 0.1 : 4; /* size of the numbers whose difference is lse - z */
    in[0] = cts_leaf(&k->g, dtype, CTS_WIDE, 0, 2, dim);
    in[1] = cts_leaf(&k->g, YK_I32, CTS_LABEL, (uint32_t)dim[1], 1, dim);
    in[2] = cts_leaf(&k->g, YK_F32, CTS_POSITIVE, 0, 1, dim + 1);
    if (!case_apply(k, YK_OP_CROSS_ENTROPY, weighted ? 3 : 2, in, 2, attr, y))
        return true;
    b[0] = cts_leaf(&k->g, YK_F32, CTS_UNIT, 0, 1, dim);
    b[1] = in[0], b[2] = in[1], b[3] = y[1], b[4] = in[2];
    if (backward)
        want_all(k, case_apply(k, YK_OP_CROSS_ENTROPY_BWD, weighted ? 5 : 4, b, 2, attr, out), out);
    else
        want_all(k, 2, y);
    return true;
}

/* ---- Rounding to 8 bits ----------------------------------------------------------------------------------------------------------- */

/* Every number of bf16: with the scale 1, as some are not finite; then below the largest one, near 1, around the least factor, and all
 * zero or nearly. Then numbers of the type itself. */
bool cts_case_round8(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const uint32_t largest[] = {0, 254, 127, 45, 36};
    static const int64_t all[] = {256, 256}, some[] = {3, 20011}, none[] = {5, 7};
    const int64_t format = number % 2;
    const uint32_t which = number / 2;
    yk__vid x, out[8];
    if (dtype == YK_F16 || which > 6)
        return false;
    snprintf(name, n, "round8.%s.case%u", format ? "e5m2" : "e4m3", which);
    if (which < 5)
        x = cts_leaf(&k->g, dtype, CTS_PATTERN, largest[which], 2, all);
    else if (which == 5)
        x = cts_leaf(&k->g, dtype, CTS_WIDE, 0, 2, some);
    else
        x = yk__fill(&k->g, 0, dtype, 2, none);
    k->tol = CTS_EXACT;
    k->any_zero = true;
    k->in_type = dtype;
    case_apply(k, YK_OP_ROUND8, 1, &x, 1, &format, out);
    cts_want(k, out[0]);
    return true;
}

/* ---- Optimizers ---------------------------------------------------------------------------------------------------------------- */

static void grad_stats(cts_check *k, bool special, char *name, size_t n)
{
    static const int64_t dim[] = {5003}, one[] = {1};
    yk__vid in[2], out[8];
    snprintf(name, n, "grad_stats%s", special ? ".not_finite" : "");
    in[0] = cts_leaf(&k->g, YK_F32, special ? CTS_SPECIAL : CTS_UNIT, 0, 1, dim);
    in[1] = cts_leaf(&k->g, YK_F32, CTS_POSITIVE, 0, 1, one);
    k->n = 5003;
    case_apply(k, YK_OP_GRAD_STATS, 2, in, 0, NULL, out);
    if (special) /* the sum depends on the order of numbers that are not finite; their count is exact */
        out[0] = yk__dense(&k->g, yk__slice(&k->g, out[0], 0, 1, 2, 1));
    cts_want(k, out[0]);
}

/* A part of the slot that a leaf was made for, as parameters are parts of their bucket. */
static yk__vid part_of(yk__graph *g, yk__vid all, int64_t from, int64_t n)
{
    return all == YK_NONE ? YK_NONE : yk__leaf(g, g->value[all].slot, g->value[all].offset + (uint64_t)from * 4, YK_F32, 1, &n);
}

/* Steps of neighbours, with copies in 16 bits for products, as in an update; number: flags, and the copies' type. */
static void adam_steps(cts_check *k, uint32_t number, char *name, size_t n)
{
    static const int64_t total[] = {6001}, hypers[] = {2 * YK_HYPER_COUNT};
    static const int64_t any[] = {16, 40, 1203, 3300, 6001}, aligned[] = {256, 512, 1280, 3328, 6001};
    const int64_t *begin = k->align > 4 ? aligned : any;
    const int64_t flags = number & 3;
    const yk_dtype narrow = number & 4 ? YK_F16 : YK_BF16;
    yk__vid all[6], in[6], out[8];
    snprintf(name, n, "adam_steps.%s.flags%lld", number & 4 ? "f16" : "bf16", (long long)flags);
    all[0] = cts_leaf(&k->g, YK_F32, CTS_UNIT, 0, 1, total);
    for (uint32_t i = 1; i < 6; i++)
        all[i] = i == 4 ? cts_leaf(&k->g, YK_F32, CTS_HYPER, 0, 1, hypers)
                        : cts_state(&k->g, YK_F32, i < 3 ? CTS_UNIT : CTS_POSITIVE, 0, 1, total);
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t i = 0; i < 6; i++)
            in[i] = i == 4 ? part_of(&k->g, all[4], t & 1 ? YK_HYPER_COUNT : 0, YK_HYPER_COUNT)
                           : part_of(&k->g, all[i], begin[t], begin[t + 1] - begin[t]);
        want_all(k, case_apply(k, YK_OP_ADAM_STEP, flags & YK_OPT_AMSGRAD ? 6 : 5, in, 1, &flags, out), out);
        if (t != 2)
            cts_want(k, yk__cast(&k->g, out[0], narrow));
    }
}

/* Steps of more parameters than 16 bits count, and of about a million. */
static void large_step(cts_check *k, bool adam, int64_t many, char *name, size_t n)
{
    static const int64_t sixteen[] = {YK_HYPER_COUNT};
    int64_t flags = adam ? YK_OPT_DECOUPLED : 0;
    yk__vid in[5], out[8];
    uint32_t n_in = 0;
    snprintf(name, n, "%s_step.%lld", adam ? "adam" : "sgd", (long long)many);
    k->claims = many > 100000 ? YK_CLAIM_RUN : 0; /* a body of so many takes long */
    in[n_in++] = cts_leaf(&k->g, YK_F32, CTS_UNIT, 0, 1, &many);
    in[n_in++] = cts_state(&k->g, YK_F32, CTS_UNIT, 0, 1, &many);
    in[n_in++] = cts_state(&k->g, YK_F32, CTS_UNIT, 0, 1, &many);
    if (adam)
        in[n_in++] = cts_state(&k->g, YK_F32, CTS_POSITIVE, 0, 1, &many);
    in[n_in++] = cts_leaf(&k->g, YK_F32, CTS_HYPER, 0, 1, sixteen);
    want_all(k, case_apply(k, adam ? YK_OP_ADAM_STEP : YK_OP_SGD_STEP, n_in, in, 1, &flags, out), out);
}

/* Gradients up to a thousandth, as are eps and the roots of their second moments. */
static void small_step(cts_check *k, char *name, size_t n)
{
    static const int64_t dim[] = {1003}, sixteen[] = {YK_HYPER_COUNT};
    const int64_t flags = YK_OPT_DECOUPLED;
    yk__vid in[5], out[8];
    snprintf(name, n, "adam_step.small");
    in[0] = cts_leaf(&k->g, YK_F32, CTS_SMALL, 10, 1, dim);
    in[1] = cts_state(&k->g, YK_F32, CTS_UNIT, 0, 1, dim);
    in[2] = cts_state(&k->g, YK_F32, CTS_SMALL, 10, 1, dim);
    in[3] = cts_state(&k->g, YK_F32, CTS_SAME, 0, 1, dim);
    in[4] = cts_leaf(&k->g, YK_F32, CTS_HYPER, 0, 1, sixteen);
    want_all(k, case_apply(k, YK_OP_ADAM_STEP, 5, in, 1, &flags, out), out);
}

bool cts_case_optim(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const int64_t dim[] = {1003}, sixteen[] = {YK_HYPER_COUNT};
    int64_t flags = number < 16 ? number : number < 24 ? (number - 16) / 2 * 4 : 0;
    bool adam = number < 16, momentum = (number & 1) == 0;
    yk__vid g, p, m, v, h, in[6], out[8];
    if (dtype != YK_F32 || number >= (k->align > 1024 ? 31u : 39u)) /* steps of neighbours begin at multiples of 1024 bytes at most */
        return false;
    sums_of(k, dtype, 1, 0);
    if (number >= 31) {
        adam_steps(k, number - 31, name, n);
        return true;
    }
    if (number == 30) {
        small_step(k, name, n);
        return true;
    }
    if (number >= 26) {
        large_step(k, number & 1, number < 28 ? 70001 : 1000003, name, n);
        return true;
    }
    if (number >= 24) {
        grad_stats(k, number == 25, name, n);
        return true;
    }
    g = cts_leaf(&k->g, dtype, CTS_UNIT, 0, 1, dim);
    p = cts_state(&k->g, dtype, CTS_UNIT, 0, 1, dim);
    m = cts_state(&k->g, dtype, CTS_UNIT, 0, 1, dim);
    v = cts_state(&k->g, dtype, CTS_POSITIVE, 0, 1, dim);
    h = cts_leaf(&k->g, dtype, CTS_HYPER, 0, 1, sixteen);
    in[0] = g, in[1] = p, in[2] = m, in[3] = adam ? v : h, in[4] = h;
    if (adam) {
        bool amsgrad = flags & YK_OPT_AMSGRAD;
        flags = (flags & 3) | (flags & 8);
        in[5] = cts_state(&k->g, dtype, CTS_POSITIVE, 1, 1, dim);
        snprintf(name, n, "adam_step.case%u.flags%lld", number, (long long)flags);
        want_all(k, case_apply(k, YK_OP_ADAM_STEP, amsgrad ? 6 : 5, in, 1, &flags, out), out);
    } else {
        flags = momentum ? flags : flags & ~(int64_t)YK_OPT_NESTEROV;
        snprintf(name, n, "sgd_step.case%u.flags%lld%s", number, (long long)flags, momentum ? ".momentum" : "");
        in[2] = momentum ? m : h;
        want_all(k, case_apply(k, YK_OP_SGD_STEP, momentum ? 4 : 3, in, 1, &flags, out), out);
    }
    return true;
}
