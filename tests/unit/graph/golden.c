/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The single layers of golden/layers, forward and backward in float64: PyTorch's results for the ops and their rules. Layers are written
 * here as core/nn composes them. Prints the number of cases run.
 */
#include "core/grad/grad.h"
#include "tests/support/graph_file.h"
#include "tests/support/run.h"

static file_lab f;
static yk__graph *const graph = &f.lab.graph;

static yk__vid input_named(const char *name)
{
    char key[64];
    const yk__safetensor *t;
    snprintf(key, sizeof key, "in.%s", name);
    t = yk__safetensors_find(f.tensors, key);
    for (uint32_t i = 1; t && i < f.lab.n_slot; i++)
        if (f.lab.graph.slot[i].key == (uint32_t)t->begin + 1000)
            return f.lab.leaf[i];
    if (!t)
        return YK_NONE;
    file_leaf(&f, t, YK_F32);
    f.lab.graph.slot[f.lab.n_slot - 1].key = (uint32_t)t->begin + 1000;
    return f.lab.leaf[f.lab.n_slot - 1];
}

static yk__vid vec_add(yk__vid a, yk__vid b)
{
    return yk__bin(graph, YK_OP_ADD, a, b);
}

static yk__vid vec_mul(yk__vid a, yk__vid b)
{
    return yk__bin(graph, YK_OP_MUL, a, b);
}

static yk__vid const_number(double x)
{
    return yk__const(graph, x, YK_F32);
}

static yk__vid op_one(yk_op op, uint32_t n, const yk__vid *x, uint32_t n_attr, const int64_t *attr, uint32_t dims, const int64_t *dim)
{
    yk__vid out[4];
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == YK_NONE)
            return YK_NONE;
    return yk__apply(graph, op, n, x, n_attr, attr, YK_DTYPE_COUNT, dims, dim, out, 4) ? out[0] : YK_NONE;
}

static yk_value value_of(yk__vid x)
{
    return graph->value[x];
}

/* A vector over the channels, axis 1. */
static yk__vid over_channels(yk__vid v, uint32_t dims)
{
    int64_t dim[YK_MAX_DIMS] = {1, value_of(v).dim[0], 1, 1, 1, 1, 1, 1};
    return yk__reshape(graph, v, dims, dim);
}

static yk__vid layer_linear(bool in_out)
{
    yk__vid x = input_named("x"), y = yk__dot(graph, x, input_named("weight"), false, !in_out);
    return input_named("bias") == YK_NONE ? y : vec_add(y, input_named("bias"));
}

/* [N, C, L] as [N, C, 1, L] */
static yk__vid flat_image(yk__vid x)
{
    yk_value v = value_of(x);
    return v.dims == 4 ? x : yk__reshape(graph, x, 4, (int64_t[]){v.dim[0], v.dim[1], 1, v.dim[2]});
}

static yk__vid layer_conv(bool two)
{
    int64_t a[7];
    yk__vid x[2] = {flat_image(input_named("x")), flat_image(input_named("weight"))}, y;
    for (size_t i = 0; i < 2; i++) {
        a[i] = two || i ? attr_at(&f, "stride", i, 1) : 1;
        a[2 + i] = two || i ? attr_at(&f, "padding", i, 0) : 0;
        a[4 + i] = two || i ? attr_at(&f, "dilation", i, 1) : 1;
    }
    a[6] = attr_int(&f, "groups", 1);
    y = op_one(YK_OP_CONV2D, 2, x, 7, a, 0, NULL);
    if (input_named("bias") != YK_NONE)
        y = vec_add(y, over_channels(input_named("bias"), 4));
    return two ? y : yk__reshape(graph, y, 3, (int64_t[]){value_of(y).dim[0], value_of(y).dim[1], value_of(y).dim[3]});
}

/* The adjoint of a convolution whose output x would be. */
static yk__vid conv_transpose(void)
{
    int64_t a[7], dim[4];
    yk__vid x[2] = {input_named("x"), input_named("weight")}, y;
    dim[0] = value_of(x[0]).dim[0];
    a[6] = attr_int(&f, "groups", 1);
    dim[1] = value_of(x[1]).dim[1] * a[6];
    for (size_t i = 0; i < 2; i++) {
        a[i] = attr_at(&f, "stride", i, 1), a[2 + i] = attr_at(&f, "padding", i, 0),
        a[4 + i] = attr_at(&f, "dilation", i, 1);
        dim[2 + i] = (value_of(x[0]).dim[2 + i] - 1) * a[i] - 2 * a[2 + i] + a[4 + i] * (value_of(x[1]).dim[2 + i] - 1) +
                     attr_at(&f, "output_padding", i, 0) + 1;
    }
    y = op_one(YK_OP_CONV2D_DX, 2, x, 7, a, 4, dim);
    return input_named("bias") == YK_NONE ? y : vec_add(y, over_channels(input_named("bias"), 4));
}

static yk__vid layer_pool(bool max, bool two)
{
    int64_t a[8];
    yk__vid x = flat_image(input_named("x")), y;
    if (attr_int(&f, "ceil_mode", 0))
        return YK_NONE;
    for (size_t i = 0; i < 2; i++) {
        bool real = two || i;
        a[i] = real ? attr_at(&f, "kernel", i, 1) : 1, a[2 + i] = real ? attr_at(&f, "stride", i, 1) : 1;
        a[4 + i] = real ? attr_at(&f, "padding", i, 0) : 0, a[6 + i] = real ? attr_at(&f, "dilation", i, 1) : 1;
    }
    if (!max)
        a[6] = attr_int(&f, "count_include_pad", 1);
    y = op_one(max ? YK_OP_MAX_POOL : YK_OP_AVG_POOL, 1, &x, max ? 8 : 7, a, 0, NULL);
    return two ? y : yk__reshape(graph, y, 3, (int64_t[]){value_of(y).dim[0], value_of(y).dim[1], value_of(y).dim[3]});
}

static yk__vid layer_affine(yk__vid y, uint32_t dims)
{
    if (input_named("weight") != YK_NONE)
        y = vec_mul(y, over_channels(input_named("weight"), dims));
    return input_named("bias") == YK_NONE ? y : vec_add(y, over_channels(input_named("bias"), dims));
}

/* The numbers of x as a leaf of its own, which nobody differentiates. */
static yk__vid copy_of(const char *tensor)
{
    return yk__cast(graph, file_leaf(&f, yk__safetensors_find(f.tensors, tensor), YK_F64), YK_F32);
}

/* The shift is one pixel of each channel, near enough to the mean for the
 * difference to lose nothing; it has no influence otherwise, and gets no gradient. */
static yk__vid batch_norm(void)
{
    yk__vid x = input_named("x"), mean = input_named("running_mean"), var = input_named("running_var"), y;
    yk_value v = value_of(x);
    if (attr_int(&f, "training", 1)) {
        yk__vid two[2] = {yk__reshape(graph, x, 3, (int64_t[]){v.dim[0], v.dim[1], -1})}, s;
        mean = yk__reshape(graph, copy_of("in.x"), 3, (int64_t[]){v.dim[0], v.dim[1], -1});
        mean = yk__slice(graph, yk__slice(graph, mean, 0, 0, 1, 1), 2, 0, 1, 1);
        two[1] = yk__dense(graph, yk__reshape(graph, mean, 1, &v.dim[1]));
        s = op_one(YK_OP_BN_STATS, 2, two, 0, NULL, 0, NULL);
        mean = yk__reshape(graph, yk__slice(graph, s, 0, 0, 1, 1), 1, &v.dim[1]);
        var = yk__bin(graph, YK_OP_DIV, yk__slice(graph, s, 0, 1, 2, 1), yk__slice(graph, s, 0, 2, 3, 1));
        var = yk__reshape(graph, var, 1, &v.dim[1]);
    }
    y = yk__bin(graph, YK_OP_SUB, x, over_channels(mean, v.dims));
    y = vec_mul(y, over_channels(yk__un(graph, YK_OP_RSQRT, vec_add(var, const_number(attr_real(&f, "eps", 1e-5)))), v.dims));
    return layer_affine(y, v.dims);
}

static yk__vid layer_norm(void)
{
    yk_value v = value_of(input_named("x"));
    int64_t eps = yk_attr_of_f64(attr_real(&f, "eps", 1e-5)), n = 1;
    yk__vid x[3];
    uint32_t k = 1;
    for (size_t i = 0; i < json_array_size(json_object_get(f.attrs, "normalized_shape")); i++)
        n *= attr_at(&f, "normalized_shape", i, 1);
    x[0] = yk__reshape(graph, input_named("x"), 2, (int64_t[]){-1, n});
    if (input_named("weight") != YK_NONE)
        x[k++] = yk__reshape(graph, input_named("weight"), 1, &n), x[k++] = yk__reshape(graph, input_named("bias"), 1, &n);
    return yk__reshape(graph, op_one(YK_OP_LAYER_NORM, k, x, 1, &eps, 0, NULL), v.dims, v.dim);
}

static yk__vid group_norm(void)
{
    yk_value v = value_of(input_named("x"));
    int64_t eps = yk_attr_of_f64(attr_real(&f, "eps", 1e-5));
    yk__vid x = yk__reshape(graph, input_named("x"), 2, (int64_t[]){v.dim[0] * attr_int(&f, "groups", 1), -1});
    return layer_affine(yk__reshape(graph, op_one(YK_OP_LAYER_NORM, 1, &x, 1, &eps, 0, NULL), v.dims, v.dim), v.dims);
}

static yk__vid rms_norm(void)
{
    yk__vid x = input_named("x"), m;
    yk_value v = value_of(x);
    m = yk__scale(graph, yk__sum(graph, vec_mul(x, x), 1u << (v.dims - 1)), 1 / (double)v.dim[v.dims - 1]);
    return vec_mul(vec_mul(x, yk__un(graph, YK_OP_RSQRT, vec_add(m, const_number(attr_real(&f, "eps", 1e-6))))),
                   input_named("weight"));
}

static yk__vid layer_embedding(void)
{
    yk__vid ids = input_named("ids"), table = input_named("weight");
    int64_t pad = attr_int(&f, "padding_idx", -1), dim[2];
    if (pad >= 0) { /* row `pad` comes from a copy that nobody differentiates */
        dim[0] = value_of(table).dim[0], dim[1] = 1;
        yk__vid hit =
            yk__bin(graph, YK_OP_EQ, yk__iota(graph, 0, YK_I32, 2, dim), yk__const(graph, (double)pad, YK_I32));
        table = yk__select(graph, hit, copy_of("in.weight"), table);
    }
    return yk__gather(graph, table, ids);
}

static yk__vid layer_attention(void)
{
    int64_t a[5] = {attr_int(&f, "causal", 0), yk_attr_of_f64(attr_real(&f, "scale", 1)), 0, 0, 0};
    yk__vid x[5] = {input_named("q"), input_named("k"), input_named("v")};
    uint32_t n = 3;
    if (input_named("key_keep") != YK_NONE)
        x[n++] = yk__cast(graph, input_named("key_keep"), YK_F32), a[4] |= YK_ATT_KEEP;
    if (input_named("bias") != YK_NONE) {
        int64_t dim[4] = {value_of(x[0]).dim[0], value_of(x[0]).dim[1], value_of(x[0]).dim[2], value_of(x[1]).dim[2]};
        x[n++] = yk__expand(graph, input_named("bias"), 4, dim), a[4] |= YK_ATT_BIAS;
    }
    return op_one(YK_OP_ATTENTION, n, x, 5, a, 0, NULL);
}

/* With its dimension brought to the end. */
static yk__vid layer_softmax(int64_t log)
{
    yk__vid x = input_named("x");
    yk_value v = value_of(x);
    uint32_t axis[YK_MAX_DIMS], back[YK_MAX_DIMS], d;
    int64_t at = attr_int(&f, "dim", -1);
    d = (uint32_t)(at < 0 ? at + v.dims : at);
    for (uint32_t i = 0; i < v.dims; i++)
        axis[i] = i + 1 == v.dims ? d : i < d ? i : i + 1;
    for (uint32_t i = 0; i < v.dims; i++)
        back[axis[i]] = i;
    x = yk__permute(graph, x, axis);
    v = value_of(x);
    x = yk__reshape(graph, x, 2, (int64_t[]){-1, v.dim[v.dims - 1]});
    x = yk__reshape(graph, op_one(YK_OP_SOFTMAX, 1, &x, 1, &log, 0, NULL), v.dims, v.dim);
    return yk__permute(graph, x, back);
}

/* sum, mean over `count` (or over all), or none */
static yk__vid loss_reduce(yk__vid x, yk__vid count)
{
    const char *how = attr_text(&f, "reduction", "mean");
    yk_value v = value_of(x);
    yk__vid s;
    if (!strcmp(how, "none"))
        return x;
    s = yk__reshape(graph, yk__sum(graph, x, (1u << v.dims) - 1), 0, NULL);
    if (!strcmp(how, "sum"))
        return s;
    return count == YK_NONE ? yk__scale(graph, s, 1 / (double)yk__value_count(&v)) : yk__bin(graph, YK_OP_DIV, s, count);
}

/* The weights of the labels that count, summed. */
static yk__vid label_weights(yk__vid labels, int64_t ignore)
{
    yk__vid keep = yk__bin(graph, YK_OP_EQ, labels, yk__const(graph, (double)ignore, YK_I32)), w;
    w = input_named("weight") == YK_NONE ? yk__fill(graph, 1, YK_F32, 1, value_of(labels).dim)
                                         : yk__gather(graph, input_named("weight"), labels);
    w = yk__select(graph, keep, const_number(0), w);
    return yk__reshape(graph, yk__sum(graph, w, 1), 0, NULL);
}

static yk__vid cross_entropy(void)
{
    int64_t a[2] = {attr_int(&f, "ignore_index", -100), yk_attr_of_f64(attr_real(&f, "label_smoothing", 0))};
    yk_value v = value_of(input_named("x"));
    yk__vid x[3] = {input_named("x"), input_named("target"), input_named("weight")};
    if (v.dims > 2) { /* [N, C, ..] */
        uint32_t axis[YK_MAX_DIMS] = {0};
        for (uint32_t i = 1; i < v.dims; i++)
            axis[i] = i + 1 == v.dims ? 1 : i + 1;
        x[0] = yk__reshape(graph, yk__permute(graph, x[0], axis), 2, (int64_t[]){-1, v.dim[1]});
        x[1] = yk__reshape(graph, x[1], 1, (int64_t[]){-1});
    }
    return loss_reduce(op_one(YK_OP_CROSS_ENTROPY, x[2] == YK_NONE ? 2 : 3, x, 2, a, 0, NULL), label_weights(x[1], a[0]));
}

/* max(x, 0) - x t + log(1 + e^-|x|), the positive part weighted by pos_weight */
static yk__vid loss_bce(void)
{
    yk__vid x = input_named("x"), t = input_named("target"), n, soft, w = const_number(1), l;
    n = yk__un(graph, YK_OP_NEG, x);
    soft = yk__un(
        graph, YK_OP_LOG,
        vec_add(yk__un(graph, YK_OP_EXP, yk__un(graph, YK_OP_NEG, yk__un(graph, YK_OP_ABS, x))), const_number(1)));
    soft =
        vec_add(soft, yk__bin(graph, YK_OP_MAX, n, const_number(0))); /* -log sigmoid(x); at 0 max gives the right half, relu not */
    if (input_named("pos_weight") != YK_NONE)
        w = vec_add(vec_mul(yk__bin(graph, YK_OP_SUB, input_named("pos_weight"), const_number(1)), t), const_number(1));
    l = vec_add(vec_mul(yk__bin(graph, YK_OP_SUB, const_number(1), t), x), vec_mul(w, soft));
    return loss_reduce(input_named("weight") == YK_NONE ? l : vec_mul(l, input_named("weight")), YK_NONE);
}

static yk__vid loss_mse(void)
{
    yk__vid d = yk__bin(graph, YK_OP_SUB, input_named("x"), input_named("target"));
    return loss_reduce(vec_mul(d, d), YK_NONE);
}

static yk__vid loss_l1(void)
{
    return loss_reduce(yk__un(graph, YK_OP_ABS, yk__bin(graph, YK_OP_SUB, input_named("x"), input_named("target"))), YK_NONE);
}

static yk__vid layer_swiglu(void)
{
    yk__vid gate = yk__un(graph, YK_OP_SILU, yk__dot(graph, input_named("x"), input_named("gate_proj"), false, true));
    return yk__dot(graph, vec_mul(gate, yk__dot(graph, input_named("x"), input_named("up_proj"), false, true)),
                   input_named("down_proj"), false, true);
}

/* x where it is above 0, else the slope or curve of the negative side */
static yk__vid two_sided(const char *op)
{
    yk__vid x = input_named("x"), zero = const_number(0), low;
    if (!strcmp(op, "elu")) { /* e^x only of what is not above 0: an infinity times a gradient of 0 would be NaN */
        low = yk__un(graph, YK_OP_EXP, yk__select(graph, yk__bin(graph, YK_OP_LT, zero, x), zero, x));
        low = yk__scale(graph, yk__bin(graph, YK_OP_SUB, low, const_number(1)), attr_real(&f, "alpha", 1));
    } else {
        low = yk__scale(graph, x, 0.01);
    }
    return yk__select(graph, yk__bin(graph, YK_OP_LT, zero, x), x, low);
}

static yk__vid layer_build(const char *op)
{
    static const char *const same[] = {"relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(op, same[i]))
            return yk__un(graph, (yk_op)yk__op_find(op), input_named("x"));
#define CASE(name, call)   \
    if (!strcmp(op, name)) \
    return call
    CASE("linear", layer_linear(false));
    CASE("linear_in_out", layer_linear(true));
    CASE("conv2d", layer_conv(true));
    CASE("conv1d", layer_conv(false));
    CASE("conv_transpose2d", conv_transpose());
    CASE("max_pool2d", layer_pool(true, true));
    CASE("max_pool1d", layer_pool(true, false));
    CASE("avg_pool2d", layer_pool(false, true));
    CASE("batch_norm", batch_norm());
    CASE("layer_norm", layer_norm());
    CASE("group_norm", group_norm());
    CASE("rms_norm", rms_norm());
    CASE("embedding", layer_embedding());
    CASE("attention", layer_attention());
    CASE("softmax", layer_softmax(0));
    CASE("log_softmax", layer_softmax(1));
    CASE("cross_entropy", cross_entropy());
    CASE("bce_with_logits", loss_bce());
    CASE("mse", loss_mse());
    CASE("l1", loss_l1());
    CASE("swiglu_mlp", layer_swiglu());
    CASE("leaky_relu", two_sided(op));
    CASE("elu", two_sided(op));
#undef CASE
    return YK_NONE;
}

/* Every grad.* of the file against the rules. */
static double grads_compare(yk__vid y)
{
    yk__vid wrt[16], grad[16], seed = file_leaf(&f, yk__safetensors_find(f.tensors, "gout.y"), YK_F32);
    const yk__safetensor *want[16];
    uint32_t n = 0;
    yk_error err = YK_ERROR_INIT;
    double worst = 0;
    for (int64_t i = 0; i < yk__safetensors_count(f.tensors); i++) {
        const yk__safetensor *t = yk__safetensors_at(f.tensors, i);
        if (!strncmp(t->name, "grad.", 5))
            want[n] = t, wrt[n++] = input_named(t->name + 5);
    }
    yk__grad(graph, y, seed, n, wrt, grad, NULL, NULL, &err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
    for (uint32_t i = 0; i < n; i++)
        worst = fmax(worst, file_worst(&f, grad[i], want[i], 1e-9, 1e-9));
    return worst;
}

/* -1: not run */
static double run_case(const json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name")), *op = json_string_value(json_object_get(c, "op"));
    char path[512], file[160];
    double worst;
    yk__vid y;
    snprintf(file, sizeof file, "golden/layers/%s.safetensors", name);
    ck_assert_msg(file_open(&f, test_data(file, path, sizeof path)), "%s", path);
    f.attrs = json_object_get(c, "attrs");
    y = layer_build(op);
    ck_assert_msg(f.lab.graph.error.status == YK_OK, "%s: %s", name, f.lab.graph.error.text);
    worst = y == YK_NONE ? -1 : file_worst(&f, y, yk__safetensors_find(f.tensors, "out.y"), 1e-9, 1e-9);
    if (y != YK_NONE)
        worst = fmax(worst, grads_compare(y));
    ck_assert_msg(worst <= 1, "%s: error %.3g times the tolerance of 1e-9", name, worst);
    file_close(&f);
    return worst;
}

START_TEST(layers_equal_the_golden_files)
{
    char path[512];
    json_error_t why;
    json_t *index = json_load_file(test_data("golden/layers/index.json", path, sizeof path), 0, &why), *cases;
    size_t run = 0, left = 0;
    double worst = 0;
    if (!index) {
        printf("# skipped: there is no %s\n", path);
        return;
    }
    cases = json_object_get(index, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        double w = run_case(json_array_get(cases, i));
        left += w < 0;
        run += w >= 0;
        worst = fmax(worst, w);
    }
    printf("# golden layers: %zu run, %zu of other layers, worst %.2g of the tolerance\n", run, left, worst);
    fflush(stdout);
    ck_assert_uint_ge(run, 90);
    json_decref(index);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("golden");
    tcase_add_test(t, layers_equal_the_golden_files);
    return suite_run("graph_golden", t);
}
