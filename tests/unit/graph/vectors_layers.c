/* SPDX-License-Identifier: Apache-2.0 */
/* Operator vectors: convolutions, pools, normalisations, attention, losses, casts, optimizers. */
#include "tests/support/graph_vectors.h"

#define IN (v->in)
#define OUT (v->out[0])

/* ---- Windows ---- */

typedef struct window {
    int64_t k[2], stride[2], pad[2], more[2], dil[2]; /* more: additional padding behind */
    bool flat;                                        /* one dimension */
    bool good;
} window;

/* Kernel, stride, padding, dilation of a 1-D or 2-D window; `k` where the node does not say. */
static window window_of(vec *v, const int64_t *k)
{
    yk_value x = vec_shape(v, IN[0]);
    window w = {.flat = x.dims == 3, .good = x.dims == 3 || x.dims == 4};
    const char *pad = attr_text(&v->file, "auto_pad", "NOTSET");
    const size_t n = w.flat ? 1 : 2;
    for (size_t i = 0; i < 2; i++) {
        const bool real = !w.flat || i == 1;
        const size_t j = w.flat ? 0 : i;
        int64_t total, out;
        w.k[i] = real ? attr_at(&v->file, "kernel_shape", j, k ? k[j] : 1) : 1;
        w.stride[i] = real ? attr_at(&v->file, "strides", j, 1) : 1;
        w.dil[i] = real ? attr_at(&v->file, "dilations", j, 1) : 1;
        w.pad[i] = real ? attr_at(&v->file, "pads", j, 0) : 0;
        w.more[i] = real ? attr_at(&v->file, "pads", n + j, 0) - w.pad[i] : 0;
        if (!real || strncmp(pad, "SAME", 4))
            continue;
        out = (x.dim[2 + j] + w.stride[i] - 1) / w.stride[i];
        total = (out - 1) * w.stride[i] + (w.k[i] - 1) * w.dil[i] + 1 - x.dim[2 + j];
        total = total < 0 ? 0 : total;
        w.pad[i] = !strcmp(pad, "SAME_LOWER") ? (total + 1) / 2 : total / 2;
        w.more[i] = total - 2 * w.pad[i];
    }
    if (attr_int(&v->file, "ceil_mode", 0) || attr_int(&v->file, "storage_order", 0))
        w.good = false;
    return w;
}

static yk__vid image_of(vec *v, yk__vid x, const window *w)
{
    yk_value s = vec_shape(v, x);
    return w->flat ? yk__reshape(v->graph, x, 4, (int64_t[]){s.dim[0], s.dim[1], 1, s.dim[2]}) : x;
}

static yk__vid image_back(vec *v, yk__vid y, const window *w)
{
    yk_value s;
    if (y == YK_NONE)
        return y;
    s = vec_shape(v, y);
    return w->flat ? yk__reshape(v->graph, y, 3, (int64_t[]){s.dim[0], s.dim[1], s.dim[3]}) : y;
}

/* Unequal padding: the difference is put around x. */
static yk__vid padding_evened(vec *v, yk__vid x, window *w, double value)
{
    yk_value s = vec_shape(v, x);
    int64_t begin[4] = {0};
    if (!w->more[0] && !w->more[1])
        return x;
    for (int i = 0; i < 2; i++) {
        int64_t front = w->more[i] < 0 ? -w->more[i] : 0, rear = w->more[i] > 0 ? w->more[i] : 0;
        w->pad[i] -= front;
        begin[2 + i] = front;
        s.dim[2 + i] += front + rear;
    }
    return yk__pad(v->graph, x, 4, s.dim, begin, NULL, value);
}

static void op_conv(vec *v)
{
    window w = window_of(v, v->tensor[1]->shape + 2);
    int64_t a[7];
    yk__vid x[2];
    if (!w.good)
        return;
    x[0] = padding_evened(v, image_of(v, IN[0], &w), &w, 0), x[1] = image_of(v, IN[1], &w);
    for (int i = 0; i < 2; i++)
        a[i] = w.stride[i], a[2 + i] = w.pad[i], a[4 + i] = w.dil[i];
    a[6] = attr_int(&v->file, "group", 1);
    OUT = image_back(v, vec_one(v, YK_OP_CONV2D, 2, x, 7, a), &w);
}

/* The input's gradient of a convolution; the shape is the file's. */
static void conv_transpose(vec *v)
{
    window w = window_of(v, v->tensor[1]->shape + 2);
    const yk__safetensor *t = yk__safetensors_find(v->file.tensors, "out.0.Y");
    int64_t a[7], dim[4];
    yk__vid x[2], y;
    if (!w.good || !t)
        return;
    x[0] = image_of(v, IN[0], &w), x[1] = image_of(v, IN[1], &w);
    dim[0] = t->shape[0], dim[1] = t->shape[1];
    for (int i = 0; i < 2; i++) {
        dim[2 + i] = w.flat ? (i ? t->shape[2] : 1) : t->shape[2 + i];
        a[i] = w.stride[i], a[2 + i] = w.pad[i], a[4 + i] = w.dil[i];
    }
    a[6] = attr_int(&v->file, "group", 1);
    if (strcmp(attr_text(&v->file, "auto_pad", "NOTSET"), "NOTSET") || w.more[0] || w.more[1])
        return;
    if (yk__apply(v->graph, YK_OP_CONV2D_DX, 2, x, 7, a, YK_DTYPE_COUNT, 4, dim, &y, 1))
        OUT = image_back(v, y, &w);
}

static void op_pool(vec *v)
{
    const bool max = !strcmp(v->op, "MaxPool"), counted = attr_int(&v->file, "count_include_pad", 0);
    window w = window_of(v, NULL);
    int64_t a[8];
    yk__vid x;
    if (!w.good || !yk__dtype_is_float(vec_shape(v, IN[0]).dtype))
        return;
    if (!max && ((w.more[0] | w.more[1]) || w.dil[0] * w.dil[1] > 1))
        return; /* the divisor would not know which zeros are padding */
    x = padding_evened(v, image_of(v, IN[0], &w), &w, -INFINITY);
    for (int i = 0; i < 2; i++)
        a[i] = w.k[i], a[2 + i] = w.stride[i], a[4 + i] = w.pad[i], a[6 + i] = w.dil[i];
    if (!max)
        a[6] = counted;
    OUT = image_back(v, vec_one(v, max ? YK_OP_MAX_POOL : YK_OP_AVG_POOL, 1, &x, max ? 8 : 7, a), &w);
}

static void global_pool(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    const uint32_t axes = ((1u << x.dims) - 1) & ~3u;
    double n = 1;
    for (uint32_t i = 2; i < x.dims; i++)
        n *= (double)x.dim[i];
    OUT = !strcmp(v->op, "GlobalMaxPool") ? yk__rmax(v->graph, IN[0], axes) : yk__scale(v->graph, yk__sum(v->graph, IN[0], axes), 1 / n);
}

/* ---- Normalisation ---- */

static yk__vid over_channels(vec *v, yk__vid x, uint32_t dims)
{
    int64_t dim[YK_MAX_DIMS] = {1, vec_shape(v, x).dim[0], 1, 1, 1, 1, 1, 1};
    return yk__reshape(v->graph, x, dims, dim);
}

static yk__vid scale_and_shift(vec *v, yk__vid y, yk__vid scale, yk__vid bias)
{
    const uint32_t dims = vec_shape(v, y).dims;
    return vec_bin(v, YK_OP_ADD, vec_bin(v, YK_OP_MUL, y, over_channels(v, scale, dims)), over_channels(v, bias, dims));
}

static yk__vid running_mean(vec *v, yk__vid old, yk__vid now)
{
    const double keep = attr_real(&v->file, "momentum", 0.9);
    return vec_bin(v, YK_OP_ADD, yk__scale(v->graph, old, keep), yk__scale(v->graph, now, 1 - keep));
}

static void batch_norm(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    yk__vid mean = IN[3], var = IN[4], y;
    if (attr_int(&v->file, "training_mode", 0)) {
        yk__vid two[2] = {yk__reshape(v->graph, IN[0], 3, (int64_t[]){x.dim[0], x.dim[1], -1}), mean}, s;
        s = vec_one(v, YK_OP_BN_STATS, 2, two, 0, NULL);
        var = vec_bin(v, YK_OP_DIV, yk__slice(v->graph, s, 0, 1, 2, 1), yk__slice(v->graph, s, 0, 2, 3, 1));
        var = yk__reshape(v->graph, var, 1, &x.dim[1]);
        mean = yk__reshape(v->graph, yk__slice(v->graph, s, 0, 0, 1, 1), 1, &x.dim[1]);
        v->out[1] = running_mean(v, IN[3], mean), v->out[2] = running_mean(v, IN[4], var);
    }
    y = vec_bin(v, YK_OP_ADD, var, vec_number(v, attr_real(&v->file, "epsilon", 1e-5)));
    y = vec_bin(v, YK_OP_MUL, vec_bin(v, YK_OP_SUB, IN[0], over_channels(v, mean, x.dims)),
                over_channels(v, yk__un(v->graph, YK_OP_RSQRT, y), x.dims));
    OUT = scale_and_shift(v, y, IN[1], IN[2]);
}

static void layer_norm(vec *v)
{
    yk_value x = vec_shape(v, IN[0]), stat = x;
    const uint32_t axis = vec_axis(v, IN[0], attr_int(&v->file, "axis", -1));
    int64_t eps = yk_attr_of_f64(attr_real(&v->file, "epsilon", 1e-5)), n = 1;
    yk__vid in[3] = {IN[0], IN[1], v->tensor[2] ? IN[2] : YK_NONE}, out[4];
    for (uint32_t i = axis; i < x.dims; i++)
        n *= x.dim[i], stat.dim[i] = 1;
    in[0] = yk__reshape(v->graph, in[0], 2, (int64_t[]){-1, n});
    for (uint32_t i = 1; i < 3; i++)
        in[i] = yk__reshape(v->graph, in[i], 1, &n);
    if (!yk__apply(v->graph, YK_OP_LAYER_NORM, in[2] == YK_NONE ? 2 : 3, in, 1, &eps, YK_DTYPE_COUNT, 0, NULL, out, 4))
        return;
    OUT = yk__reshape(v->graph, out[0], x.dims, x.dim);
    v->out[1] = yk__reshape(v->graph, out[1], x.dims, stat.dim);
    v->out[2] = yk__reshape(v->graph, out[2], x.dims, stat.dim);
}

static void rms_norm(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    const uint32_t axis = vec_axis(v, IN[0], attr_int(&v->file, "axis", -1));
    const uint32_t axes = ((1u << x.dims) - 1) & ~((1u << axis) - 1);
    double n = 1;
    yk__vid m;
    for (uint32_t i = axis; i < x.dims; i++)
        n *= (double)x.dim[i];
    m = yk__scale(v->graph, yk__sum(v->graph, vec_bin(v, YK_OP_MUL, IN[0], IN[0]), axes), 1 / n);
    m = yk__un(v->graph, YK_OP_RSQRT, vec_bin(v, YK_OP_ADD, m, vec_number(v, attr_real(&v->file, "epsilon", 1e-5))));
    OUT = vec_bin(v, YK_OP_MUL, vec_bin(v, YK_OP_MUL, IN[0], m), IN[1]);
}

/* Group and instance normalisation: plain normalisation of rows, then the channels' own scale. */
static void group_norm(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    const int64_t groups = attr_int(&v->file, "num_groups", x.dim[1]);
    int64_t eps = yk_attr_of_f64(attr_real(&v->file, "epsilon", 1e-5));
    yk__vid y = yk__reshape(v->graph, IN[0], 2, (int64_t[]){x.dim[0] * groups, -1});
    y = yk__reshape(v->graph, vec_one(v, YK_OP_LAYER_NORM, 1, &y, 1, &eps), x.dims, x.dim);
    OUT = scale_and_shift(v, y, IN[1], IN[2]);
}

static void op_softmax(vec *v)
{
    const int64_t log = !strcmp(v->op, "LogSoftmax");
    const uint32_t axis = vec_axis(v, IN[0], attr_int(&v->file, "axis", -1));
    yk__vid y = vec_move(v, IN[0], axis, vec_shape(v, IN[0]).dims - 1u), rows;
    yk_value s = vec_shape(v, y);
    rows = yk__reshape(v->graph, y, 2, (int64_t[]){-1, s.dim[s.dims - 1]});
    y = yk__reshape(v->graph, vec_one(v, YK_OP_SOFTMAX, 1, &rows, 1, &log), s.dims, s.dim);
    OUT = vec_move(v, y, s.dims - 1u, axis);
}

/* ---- Attention ---- */

/* [B, T, H*D] as [B, H, T, D] */
static yk__vid heads_split(vec *v, yk__vid x, const char *attr)
{
    yk_value s = vec_shape(v, x);
    const int64_t h = attr_int(&v->file, attr, 1);
    if (s.dims == 4)
        return x;
    x = yk__reshape(v->graph, x, 4, (int64_t[]){s.dim[0], s.dim[1], h, s.dim[2] / h});
    return yk__permute(v->graph, x, (uint32_t[]){0, 2, 1, 3});
}

/* The mask as a bias; ONNX's causal rule counts from the first key that is not past. */
static yk__vid attention_bias(vec *v, const int64_t dim[4], int64_t past)
{
    yk__vid bias = YK_NONE, never = vec_number(v, -INFINITY), zero = vec_number(v, 0);
    if (v->tensor[3]) {
        bias = IN[3];
        if (vec_shape(v, bias).dtype == YK_BOOL)
            bias = yk__select(v->graph, bias, zero, never);
    }
    if (attr_int(&v->file, "is_causal", 0)) {
        yk__vid i = yk__iota(v->graph, 0, YK_I32, 2, dim + 2), j = yk__iota(v->graph, 1, YK_I32, 2, dim + 2), seen;
        seen = vec_bin(v, YK_OP_LT, j, vec_bin(v, YK_OP_ADD, i, yk__const(v->graph, (double)past + 1, YK_I32)));
        bias = yk__select(v->graph, seen, bias == YK_NONE ? zero : bias, never);
    }
    if (bias == YK_NONE ||
        (vec_shape(v, bias).dims > 0 && vec_shape(v, bias).dim[vec_shape(v, bias).dims - 1] != dim[3]))
        return bias == YK_NONE ? bias : YK_NONE;
    return yk__expand(v->graph, yk__dense(v->graph, bias), 4, dim);
}

static void op_attention(vec *v)
{
    yk__vid x[4] = {heads_split(v, IN[0], "q_num_heads"), heads_split(v, IN[1], "kv_num_heads"), heads_split(v, IN[2], "kv_num_heads")};
    yk_value q = vec_shape(v, x[0]), k = vec_shape(v, x[1]), y;
    int64_t a[5] = {0, 0, 0, 0, 0}, past = 0, dim[4];
    if (attr_real(&v->file, "softcap", 0) > 0 || v->n_in > 6)
        return;
    for (int i = 0; i < 2 && v->tensor[4]; i++) {
        yk__vid both[2] = {IN[4 + i], x[1 + i]};
        past = vec_shape(v, IN[4]).dim[2];
        x[1 + i] = v->out[1 + i] = yk__concat(v->graph, 2, both, 2);
    }
    dim[0] = q.dim[0], dim[1] = q.dim[1], dim[2] = q.dim[2], dim[3] = k.dim[2] + past;
    x[3] = attention_bias(v, dim, past);
    if (x[3] == YK_NONE && v->tensor[3])
        return;
    a[1] = yk_attr_of_f64(attr_real(&v->file, "scale", 1 / sqrt((double)q.dim[3])));
    a[4] = x[3] == YK_NONE ? 0 : YK_ATT_BIAS;
    OUT = vec_one(v, YK_OP_ATTENTION, x[3] == YK_NONE ? 3 : 4, x, 5, a);
    if (OUT == YK_NONE || vec_shape(v, IN[0]).dims == 4)
        return;
    y = vec_shape(v, OUT);
    OUT = yk__reshape(v->graph, yk__permute(v->graph, OUT, (uint32_t[]){0, 2, 1, 3}), 3,
                      (int64_t[]){y.dim[0], y.dim[2], y.dim[1] * y.dim[3]});
}

/* ---- Losses ---- */

static yk__vid loss_reduce(vec *v, yk__vid loss, yk__vid weights)
{
    const char *how = attr_text(&v->file, "reduction", "mean");
    yk_value s = vec_shape(v, IN[1]);
    yk__vid sum;
    if (!strcmp(how, "none"))
        return yk__reshape(v->graph, loss, s.dims, s.dim);
    sum = yk__sum(v->graph, loss, 1);
    if (strcmp(how, "sum"))
        sum = vec_bin(v, YK_OP_DIV, sum, yk__sum(v->graph, weights, 1));
    return yk__reshape(v->graph, sum, 0, NULL);
}

/* Both losses are cross entropy without smoothing; log probabilities are unchanged by another log softmax. */
static void op_losses(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    const int64_t ignore = attr_int(&v->file, "ignore_index", -987654), log = 1;
    int64_t a[2] = {ignore, 0};
    yk__vid in[3], labels, z = vec_move(v, IN[0], 1, x.dims - 1u), w, y;
    yk_value s = vec_shape(v, z);
    in[0] = yk__reshape(v->graph, z, 2, (int64_t[]){-1, x.dim[1]});
    in[1] = labels = yk__reshape(v->graph, IN[1], 1, (int64_t[]){-1});
    in[2] = v->tensor[2] ? IN[2] : YK_NONE;
    w = v->tensor[2] ? yk__gather(v->graph, IN[2], labels) : yk__fill(v->graph, 1, YK_F32, 1, vec_shape(v, labels).dim);
    w = yk__select(v->graph, vec_bin(v, YK_OP_EQ, labels, yk__const(v->graph, (double)ignore, YK_I32)), vec_number(v, 0), w);
    if (!strcmp(v->op, "SoftmaxCrossEntropyLoss")) {
        OUT = loss_reduce(v, vec_one(v, YK_OP_CROSS_ENTROPY, v->tensor[2] ? 3 : 2, in, 2, a), w);
        y = yk__reshape(v->graph, vec_one(v, YK_OP_SOFTMAX, 1, in, 1, &log), s.dims, s.dim);
        v->out[1] = vec_move(v, y, s.dims - 1u, 1);
        return;
    }
    { /* the negative of the chosen element */
        int64_t dim[2] = {vec_shape(v, in[0]).dim[0], x.dim[1]};
        yk__vid hit = vec_bin(v, YK_OP_EQ, yk__iota(v->graph, 1, YK_I32, 2, dim), yk__reshape(v->graph, labels, 2, (int64_t[]){-1, 1}));
        y = yk__sum(v->graph, yk__select(v->graph, hit, yk__un(v->graph, YK_OP_NEG, in[0]), vec_number(v, 0)), 2);
        OUT = loss_reduce(v, vec_bin(v, YK_OP_MUL, yk__reshape(v->graph, y, 1, dim), w), w);
    }
}

/* ---- Dropout of evaluation, or of ratio 0 ---- */

static void op_dropout(vec *v)
{
    if (v->n_in > 2 && vec_real(v, 2, 0) != 0 && vec_real(v, 1, 0.5) != 0)
        return;
    OUT = IN[0];
    v->out[1] = yk__fill(v->graph, 1, YK_BOOL, vec_shape(v, IN[0]).dims, vec_shape(v, IN[0]).dim);
}

/* ---- Cast: in the types' own memory ---- */

static int type_of(int64_t onnx)
{
    switch (onnx) {
    case 1:
        return YK_F32;
    case 10:
        return YK_F16;
    case 11:
        return YK_F64;
    case 16:
        return YK_BF16;
    case 17:
        return YK_F8E4M3;
    case 19:
        return YK_F8E5M2;
    default:
        return -1;
    }
}

/* By eval_node: the result's bytes are the file's, and are put back as a leaf to be compared. */
static void op_cast(vec *v)
{
    const int to = type_of(attr_int(&v->file, "to", 0));
    const yk__safetensor *t = v->tensor[0];
    yk__graph g;
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    const void *from;
    void *slot[3] = {NULL};
    yk__vid x, y;
    if (to < 0 || !attr_int(&v->file, "saturate", 1) || yk__safetensors_data(v->file.tensors, t, &from, &err))
        return;
    yk__graph_init(&g);
    yk__slot_new(&g, YK_SLOT_INPUT, t->bytes, 1), yk__slot_new(&g, YK_SLOT_RESULT, 8 * (uint64_t)t->elements, 2);
    x = yk__leaf(&g, 1, 0, (yk_dtype)t->dtype, (uint32_t)t->rank, t->shape);
    y = yk__cast(&g, x, (yk_dtype)to);
    g.value[y].slot = 2;
    slot[1] = malloc(t->bytes);
    slot[2] = calloc((size_t)t->elements, 8);
    memcpy(slot[1], from, t->bytes);
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    ck_assert_int_eq(yk__eval_node(&s, 0, slot, &err), YK_OK);
    OUT = lab_leaf(&v->file.lab, YK_F32, (uint32_t)t->rank, t->shape);
    for (int64_t i = 0; i < t->elements; i++)
        ((double *)v->file.lab.data[v->file.lab.n_slot - 1])[i] =
            yk__eval_load((uint32_t)to, (char *)slot[2] + i * (int64_t)yk_dtype_bytes((uint32_t)to));
    free(slot[1]);
    free(slot[2]);
    yk__graph_free(&g);
}

/* ---- Optimizers: ONNX's rules are ours with other settings ---- */

static yk__vid hyper_leaf(vec *v, const double *x)
{
    yk__vid h = lab_leaf(&v->file.lab, YK_F32, 1, (int64_t[]){YK_HYPER_COUNT});
    memcpy(v->file.lab.data[v->file.lab.n_slot - 1], x, YK_HYPER_COUNT * sizeof *x);
    return h;
}

/* v = alpha v + (1 or beta) g with g += norm x; x -= R v: our momentum, with the dampening that beta asks for. */
static void op_momentum(vec *v)
{
    const uint32_t n = (v->n_in - 2) / 3;
    const double t = vec_real(v, 1, 0), beta = t > 0 ? attr_real(&v->file, "beta", 1) : 1;
    double h[YK_HYPER_COUNT] = {[YK_HYPER_LR] = vec_real(v, 0, 0), [YK_HYPER_B1] = attr_real(&v->file, "alpha", 0),
                                [YK_HYPER_B2] = 1 - beta,          [YK_HYPER_DECAY] = attr_real(&v->file, "norm_coefficient", 0),
                                [YK_HYPER_GRAD_SCALE] = 1,         [YK_HYPER_CLIP] = INFINITY};
    int64_t flags = strcmp(attr_text(&v->file, "mode", ""), "nesterov") ? 0 : YK_OPT_NESTEROV;
    for (uint32_t i = 0; i < n; i++) {
        yk__vid in[4] = {IN[2 + n + i], IN[2 + i], IN[2 + 2 * n + i], hyper_leaf(v, h)}, out[4];
        if (yk__apply(v->graph, YK_OP_SGD_STEP, 4, in, 1, &flags, YK_DTYPE_COUNT, 0, NULL, out, 4) == 2)
            v->out[i] = out[0], v->out[n + i] = out[1];
    }
}

/* R' = R sqrt(1 - b2^T)/(1 - b1^T), x -= R' v/(sqrt h + eps): our step with C1 and sqrt(C2) put into the rate. */
static void op_adam(vec *v)
{
    const uint32_t n = (v->n_in - 2) / 4;
    const double t = vec_real(v, 1, 0), b1 = attr_real(&v->file, "alpha", 0.9), b2 = attr_real(&v->file, "beta", 0.999);
    const double rate = t > 0 ? sqrt(1 - pow(b2, t)) / (1 - pow(b1, t)) : 1;
    double h[YK_HYPER_COUNT] = {[YK_HYPER_LR] = vec_real(v, 0, 0) * rate,
                                [YK_HYPER_B1] = b1,
                                [YK_HYPER_B2] = b2,
                                [YK_HYPER_EPS] = attr_real(&v->file, "epsilon", 0),
                                [YK_HYPER_DECAY] = attr_real(&v->file, "norm_coefficient", 0),
                                [YK_HYPER_GRAD_SCALE] = 1,
                                [YK_HYPER_CLIP] = INFINITY,
                                [YK_HYPER_C1] = 1,
                                [YK_HYPER_SQRT_C2] = 1};
    int64_t flags = 0;
    for (uint32_t i = 0; i < n; i++) {
        yk__vid in[5] = {IN[2 + n + i], IN[2 + i], IN[2 + 2 * n + i], IN[2 + 3 * n + i], hyper_leaf(v, h)}, out[4];
        if (yk__apply(v->graph, YK_OP_ADAM_STEP, 5, in, 1, &flags, YK_DTYPE_COUNT, 0, NULL, out, 4) == 3)
            v->out[i] = out[0], v->out[n + i] = out[1], v->out[2 * n + i] = out[2];
    }
}

const vec_op vec_layers[] = {
    {"Conv", op_conv},
    {"ConvTranspose", conv_transpose},
    {"MaxPool", op_pool},
    {"AveragePool", op_pool},
    {"GlobalMaxPool", global_pool},
    {"GlobalAveragePool", global_pool},
    {"BatchNormalization", batch_norm},
    {"LayerNormalization", layer_norm},
    {"RMSNormalization", rms_norm},
    {"GroupNormalization", group_norm},
    {"InstanceNormalization", group_norm},
    {"Softmax", op_softmax},
    {"LogSoftmax", op_softmax},
    {"Attention", op_attention},
    {"SoftmaxCrossEntropyLoss", op_losses},
    {"NegativeLogLikelihoodLoss", op_losses},
    {"Dropout", op_dropout},
    {"Cast", op_cast},
    {"Momentum", op_momentum},
    {"Adam", op_adam},
    {NULL, NULL},
};
