/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The single layers of golden/layers, forward and backward in float64: what the ops and their rules must give, computed
 * by PyTorch. Layers are written here as the compositions that core/nn makes of them. Prints how many cases were run.
 */
#include "core/grad/grad.h"
#include "tests/support/graph_file.h"

static file_lab f;

static yk__vid in(const char *name)
{
    char key[64];
    const yk__safetensor *t;
    snprintf(key, sizeof key, "in.%s", name);
    t = yk__safetensors_find(f.st, key);
    for (uint32_t i = 1; t && i < f.l.n; i++)
        if (f.l.g.slot[i].key == (uint32_t)t->begin + 1000)
            return f.l.leaf[i];
    if (!t)
        return YK_NONE;
    file_leaf(&f, t, YK_F32);
    f.l.g.slot[f.l.n - 1].key = (uint32_t)t->begin + 1000;
    return f.l.leaf[f.l.n - 1];
}

static yk__graph *g(void)
{
    return &f.l.g;
}

static yk__vid add(yk__vid a, yk__vid b)
{
    return yk__bin(g(), YK_OP_ADD, a, b);
}

static yk__vid mul(yk__vid a, yk__vid b)
{
    return yk__bin(g(), YK_OP_MUL, a, b);
}

static yk__vid number(double x)
{
    return yk__const(g(), x, YK_F32);
}

static yk__vid one(yk_op op, uint32_t n, const yk__vid *x, uint32_t n_attr, const int64_t *attr, uint32_t dims,
                   const int64_t *dim)
{
    yk__vid out[4];
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == YK_NONE)
            return YK_NONE;
    return yk__apply(g(), op, n, x, n_attr, attr, YK_DTYPE_COUNT, dims, dim, out, 4) ? out[0] : YK_NONE;
}

static yk_value shape(yk__vid x)
{
    return g()->value[x];
}

/* A vector over the channels, axis 1. */
static yk__vid channels(yk__vid v, uint32_t dims)
{
    int64_t dim[YK_MAX_DIMS] = {1, shape(v).dim[0], 1, 1, 1, 1, 1, 1};
    return yk__reshape(g(), v, dims, dim);
}

static yk__vid linear(bool in_out)
{
    yk__vid x = in("x"), y = yk__dot(g(), x, in("weight"), false, !in_out);
    return in("bias") == YK_NONE ? y : add(y, in("bias"));
}

/* [N, C, L] as [N, C, 1, L] */
static yk__vid flat_image(yk__vid x)
{
    yk_value v = shape(x);
    return v.dims == 4 ? x : yk__reshape(g(), x, 4, (int64_t[]){v.dim[0], v.dim[1], 1, v.dim[2]});
}

static yk__vid conv(bool two)
{
    int64_t a[7];
    yk__vid x[2] = {flat_image(in("x")), flat_image(in("weight"))}, y;
    for (size_t i = 0; i < 2; i++) {
        a[i] = two || i ? attr_at(&f, "stride", i, 1) : 1;
        a[2 + i] = two || i ? attr_at(&f, "padding", i, 0) : 0;
        a[4 + i] = two || i ? attr_at(&f, "dilation", i, 1) : 1;
    }
    a[6] = attr_int(&f, "groups", 1);
    y = one(YK_OP_CONV2D, 2, x, 7, a, 0, NULL);
    if (in("bias") != YK_NONE)
        y = add(y, channels(in("bias"), 4));
    return two ? y : yk__reshape(g(), y, 3, (int64_t[]){shape(y).dim[0], shape(y).dim[1], shape(y).dim[3]});
}

/* The adjoint of a convolution whose output x would be. */
static yk__vid conv_transpose(void)
{
    int64_t a[7], dim[4];
    yk__vid x[2] = {in("x"), in("weight")}, y;
    dim[0] = shape(x[0]).dim[0];
    a[6] = attr_int(&f, "groups", 1);
    dim[1] = shape(x[1]).dim[1] * a[6];
    for (size_t i = 0; i < 2; i++) {
        a[i] = attr_at(&f, "stride", i, 1), a[2 + i] = attr_at(&f, "padding", i, 0),
        a[4 + i] = attr_at(&f, "dilation", i, 1);
        dim[2 + i] = (shape(x[0]).dim[2 + i] - 1) * a[i] - 2 * a[2 + i] + a[4 + i] * (shape(x[1]).dim[2 + i] - 1) +
                     attr_at(&f, "output_padding", i, 0) + 1;
    }
    y = one(YK_OP_CONV2D_DX, 2, x, 7, a, 4, dim);
    return in("bias") == YK_NONE ? y : add(y, channels(in("bias"), 4));
}

static yk__vid pool(bool max, bool two)
{
    int64_t a[8];
    yk__vid x = flat_image(in("x")), y;
    if (attr_int(&f, "ceil_mode", 0))
        return YK_NONE;
    for (size_t i = 0; i < 2; i++) {
        bool real = two || i;
        a[i] = real ? attr_at(&f, "kernel", i, 1) : 1, a[2 + i] = real ? attr_at(&f, "stride", i, 1) : 1;
        a[4 + i] = real ? attr_at(&f, "padding", i, 0) : 0, a[6 + i] = real ? attr_at(&f, "dilation", i, 1) : 1;
    }
    if (!max)
        a[6] = attr_int(&f, "count_include_pad", 1);
    y = one(max ? YK_OP_MAX_POOL : YK_OP_AVG_POOL, 1, &x, max ? 8 : 7, a, 0, NULL);
    return two ? y : yk__reshape(g(), y, 3, (int64_t[]){shape(y).dim[0], shape(y).dim[1], shape(y).dim[3]});
}

static yk__vid affine(yk__vid y, uint32_t dims)
{
    if (in("weight") != YK_NONE)
        y = mul(y, channels(in("weight"), dims));
    return in("bias") == YK_NONE ? y : add(y, channels(in("bias"), dims));
}

/* The numbers of x as a leaf of its own, which nobody differentiates. */
static yk__vid copy_of(const char *tensor)
{
    return yk__cast(g(), file_leaf(&f, yk__safetensors_find(f.st, tensor), YK_F64), YK_F32);
}

/* The shift is one pixel of each channel, near enough to the mean for the
 * difference to lose nothing; it has no influence otherwise, and gets no gradient. */
static yk__vid batch_norm(void)
{
    yk__vid x = in("x"), mean = in("running_mean"), var = in("running_var"), y;
    yk_value v = shape(x);
    if (attr_int(&f, "training", 1)) {
        yk__vid two[2] = {yk__reshape(g(), x, 3, (int64_t[]){v.dim[0], v.dim[1], -1})}, s;
        mean = yk__reshape(g(), copy_of("in.x"), 3, (int64_t[]){v.dim[0], v.dim[1], -1});
        mean = yk__slice(g(), yk__slice(g(), mean, 0, 0, 1, 1), 2, 0, 1, 1);
        two[1] = yk__dense(g(), yk__reshape(g(), mean, 1, &v.dim[1]));
        s = one(YK_OP_BN_STATS, 2, two, 0, NULL, 0, NULL);
        mean = yk__reshape(g(), yk__slice(g(), s, 0, 0, 1, 1), 1, &v.dim[1]);
        var = yk__bin(g(), YK_OP_DIV, yk__slice(g(), s, 0, 1, 2, 1), yk__slice(g(), s, 0, 2, 3, 1));
        var = yk__reshape(g(), var, 1, &v.dim[1]);
    }
    y = yk__bin(g(), YK_OP_SUB, x, channels(mean, v.dims));
    y = mul(y, channels(yk__un(g(), YK_OP_RSQRT, add(var, number(attr_real(&f, "eps", 1e-5)))), v.dims));
    return affine(y, v.dims);
}

static yk__vid layer_norm(void)
{
    yk_value v = shape(in("x"));
    int64_t eps = yk_attr_of_f64(attr_real(&f, "eps", 1e-5)), n = 1;
    yk__vid x[3];
    uint32_t k = 1;
    for (size_t i = 0; i < json_array_size(json_object_get(f.attrs, "normalized_shape")); i++)
        n *= attr_at(&f, "normalized_shape", i, 1);
    x[0] = yk__reshape(g(), in("x"), 2, (int64_t[]){-1, n});
    if (in("weight") != YK_NONE)
        x[k++] = yk__reshape(g(), in("weight"), 1, &n), x[k++] = yk__reshape(g(), in("bias"), 1, &n);
    return yk__reshape(g(), one(YK_OP_LAYER_NORM, k, x, 1, &eps, 0, NULL), v.dims, v.dim);
}

static yk__vid group_norm(void)
{
    yk_value v = shape(in("x"));
    int64_t eps = yk_attr_of_f64(attr_real(&f, "eps", 1e-5));
    yk__vid x = yk__reshape(g(), in("x"), 2, (int64_t[]){v.dim[0] * attr_int(&f, "groups", 1), -1});
    return affine(yk__reshape(g(), one(YK_OP_LAYER_NORM, 1, &x, 1, &eps, 0, NULL), v.dims, v.dim), v.dims);
}

static yk__vid rms_norm(void)
{
    yk__vid x = in("x"), m;
    yk_value v = shape(x);
    m = yk__scale(g(), yk__sum(g(), mul(x, x), 1u << (v.dims - 1)), 1 / (double)v.dim[v.dims - 1]);
    return mul(mul(x, yk__un(g(), YK_OP_RSQRT, add(m, number(attr_real(&f, "eps", 1e-6))))), in("weight"));
}

static yk__vid embedding(void)
{
    yk__vid ids = in("ids"), table = in("weight");
    int64_t pad = attr_int(&f, "padding_idx", -1), dim[2];
    if (pad >= 0) { /* row `pad` comes from a copy that nobody differentiates */
        dim[0] = shape(table).dim[0], dim[1] = 1;
        yk__vid hit = yk__bin(g(), YK_OP_EQ, yk__iota(g(), 0, YK_I32, 2, dim), yk__const(g(), (double)pad, YK_I32));
        table = yk__select(g(), hit, copy_of("in.weight"), table);
    }
    return yk__gather(g(), table, ids);
}

static yk__vid attention(void)
{
    int64_t a[5] = {attr_int(&f, "causal", 0), yk_attr_of_f64(attr_real(&f, "scale", 1)), 0, 0, 0};
    yk__vid x[5] = {in("q"), in("k"), in("v")};
    uint32_t n = 3;
    if (in("key_keep") != YK_NONE)
        x[n++] = yk__cast(g(), in("key_keep"), YK_F32), a[4] |= YK_ATT_KEEP;
    if (in("bias") != YK_NONE) {
        int64_t dim[4] = {shape(x[0]).dim[0], shape(x[0]).dim[1], shape(x[0]).dim[2], shape(x[1]).dim[2]};
        x[n++] = yk__expand(g(), in("bias"), 4, dim), a[4] |= YK_ATT_BIAS;
    }
    return one(YK_OP_ATTENTION, n, x, 5, a, 0, NULL);
}

/* With its dimension brought to the end. */
static yk__vid softmax(int64_t log)
{
    yk__vid x = in("x");
    yk_value v = shape(x);
    uint32_t axis[YK_MAX_DIMS], back[YK_MAX_DIMS], d;
    int64_t at = attr_int(&f, "dim", -1);
    d = (uint32_t)(at < 0 ? at + v.dims : at);
    for (uint32_t i = 0; i < v.dims; i++)
        axis[i] = i + 1 == v.dims ? d : i < d ? i : i + 1;
    for (uint32_t i = 0; i < v.dims; i++)
        back[axis[i]] = i;
    x = yk__permute(g(), x, axis);
    v = shape(x);
    x = yk__reshape(g(), x, 2, (int64_t[]){-1, v.dim[v.dims - 1]});
    x = yk__reshape(g(), one(YK_OP_SOFTMAX, 1, &x, 1, &log, 0, NULL), v.dims, v.dim);
    return yk__permute(g(), x, back);
}

/* sum, mean over `count` (or over all), or none */
static yk__vid reduction(yk__vid x, yk__vid count)
{
    const char *how = attr_text(&f, "reduction", "mean");
    yk_value v = shape(x);
    yk__vid s;
    if (!strcmp(how, "none"))
        return x;
    s = yk__reshape(g(), yk__sum(g(), x, (1u << v.dims) - 1), 0, NULL);
    if (!strcmp(how, "sum"))
        return s;
    return count == YK_NONE ? yk__scale(g(), s, 1 / (double)yk__value_count(&v)) : yk__bin(g(), YK_OP_DIV, s, count);
}

/* What counts: the labels' weights, summed. */
static yk__vid counted(yk__vid labels, int64_t ignore)
{
    yk__vid keep = yk__bin(g(), YK_OP_EQ, labels, yk__const(g(), (double)ignore, YK_I32)), w;
    w = in("weight") == YK_NONE ? yk__fill(g(), 1, YK_F32, 1, shape(labels).dim)
                                : yk__gather(g(), in("weight"), labels);
    w = yk__select(g(), keep, number(0), w);
    return yk__reshape(g(), yk__sum(g(), w, 1), 0, NULL);
}

static yk__vid cross_entropy(void)
{
    int64_t a[2] = {attr_int(&f, "ignore_index", -100), yk_attr_of_f64(attr_real(&f, "label_smoothing", 0))};
    yk_value v = shape(in("x"));
    yk__vid x[3] = {in("x"), in("target"), in("weight")};
    if (v.dims > 2) { /* [N, C, ..] */
        uint32_t axis[YK_MAX_DIMS] = {0};
        for (uint32_t i = 1; i < v.dims; i++)
            axis[i] = i + 1 == v.dims ? 1 : i + 1;
        x[0] = yk__reshape(g(), yk__permute(g(), x[0], axis), 2, (int64_t[]){-1, v.dim[1]});
        x[1] = yk__reshape(g(), x[1], 1, (int64_t[]){-1});
    }
    return reduction(one(YK_OP_CROSS_ENTROPY, x[2] == YK_NONE ? 2 : 3, x, 2, a, 0, NULL), counted(x[1], a[0]));
}

/* max(x, 0) - x t + log(1 + e^-|x|), the positive part weighted by pos_weight */
static yk__vid bce(void)
{
    yk__vid x = in("x"), t = in("target"), n, soft, w = number(1), l;
    n = yk__un(g(), YK_OP_NEG, x);
    soft = yk__un(g(), YK_OP_LOG,
                  add(yk__un(g(), YK_OP_EXP, yk__un(g(), YK_OP_NEG, yk__un(g(), YK_OP_ABS, x))), number(1)));
    soft =
        add(soft, yk__bin(g(), YK_OP_MAX, n, number(0))); /* -log sigmoid(x); at 0 max gives the right half, relu not */
    if (in("pos_weight") != YK_NONE)
        w = add(mul(yk__bin(g(), YK_OP_SUB, in("pos_weight"), number(1)), t), number(1));
    l = add(mul(yk__bin(g(), YK_OP_SUB, number(1), t), x), mul(w, soft));
    return reduction(in("weight") == YK_NONE ? l : mul(l, in("weight")), YK_NONE);
}

static yk__vid mse(void)
{
    yk__vid d = yk__bin(g(), YK_OP_SUB, in("x"), in("target"));
    return reduction(mul(d, d), YK_NONE);
}

static yk__vid l1(void)
{
    return reduction(yk__un(g(), YK_OP_ABS, yk__bin(g(), YK_OP_SUB, in("x"), in("target"))), YK_NONE);
}

static yk__vid swiglu(void)
{
    yk__vid gate = yk__un(g(), YK_OP_SILU, yk__dot(g(), in("x"), in("gate_proj"), false, true));
    return yk__dot(g(), mul(gate, yk__dot(g(), in("x"), in("up_proj"), false, true)), in("down_proj"), false, true);
}

/* x where it is above 0, else the slope or curve of the negative side */
static yk__vid two_sided(const char *op)
{
    yk__vid x = in("x"), zero = number(0), low;
    if (!strcmp(op, "elu")) { /* e^x only of what is not above 0: an infinity times a gradient of 0 would be NaN */
        low = yk__un(g(), YK_OP_EXP, yk__select(g(), yk__bin(g(), YK_OP_LT, zero, x), zero, x));
        low = yk__scale(g(), yk__bin(g(), YK_OP_SUB, low, number(1)), attr_real(&f, "alpha", 1));
    } else {
        low = yk__scale(g(), x, 0.01);
    }
    return yk__select(g(), yk__bin(g(), YK_OP_LT, zero, x), x, low);
}

static yk__vid build(const char *op)
{
    static const char *const same[] = {"relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(op, same[i]))
            return yk__un(g(), (yk_op)yk__op_find(op), in("x"));
#define CASE(name, call)   \
    if (!strcmp(op, name)) \
    return call
    CASE("linear", linear(false));
    CASE("linear_in_out", linear(true));
    CASE("conv2d", conv(true));
    CASE("conv1d", conv(false));
    CASE("conv_transpose2d", conv_transpose());
    CASE("max_pool2d", pool(true, true));
    CASE("max_pool1d", pool(true, false));
    CASE("avg_pool2d", pool(false, true));
    CASE("batch_norm", batch_norm());
    CASE("layer_norm", layer_norm());
    CASE("group_norm", group_norm());
    CASE("rms_norm", rms_norm());
    CASE("embedding", embedding());
    CASE("attention", attention());
    CASE("softmax", softmax(0));
    CASE("log_softmax", softmax(1));
    CASE("cross_entropy", cross_entropy());
    CASE("bce_with_logits", bce());
    CASE("mse", mse());
    CASE("l1", l1());
    CASE("swiglu_mlp", swiglu());
    CASE("leaky_relu", two_sided(op));
    CASE("elu", two_sided(op));
#undef CASE
    return YK_NONE;
}

/* Every grad.* of the file against the rules. */
static double backward(yk__vid y)
{
    yk__vid wrt[16], grad[16], seed = file_leaf(&f, yk__safetensors_find(f.st, "gout.y"), YK_F32);
    const yk__safetensor *want[16];
    uint32_t n = 0;
    yk_error err = YK_ERROR_INIT;
    double worst = 0;
    for (int64_t i = 0; i < yk__safetensors_count(f.st); i++) {
        const yk__safetensor *t = yk__safetensors_at(f.st, i);
        if (!strncmp(t->name, "grad.", 5))
            want[n] = t, wrt[n++] = in(t->name + 5);
    }
    yk__grad(g(), y, seed, n, wrt, grad, NULL, NULL, &err);
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
    y = build(op);
    ck_assert_msg(f.l.g.error.status == YK_OK, "%s: %s", name, f.l.g.error.text);
    worst = y == YK_NONE ? -1 : file_worst(&f, y, yk__safetensors_find(f.st, "out.y"), 1e-9, 1e-9);
    if (y != YK_NONE)
        worst = fmax(worst, backward(y));
    ck_assert_msg(worst <= 1, "%s: error %.3g times the tolerance of 1e-9", name, worst);
    file_close(&f);
    return worst;
}

START_TEST(layers)
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
    Suite *s = suite_create("graph_golden");
    TCase *t = tcase_create("golden");
    SRunner *sr = srunner_create(s);
    tcase_add_test(t, layers);
    suite_add_tcase(s, t);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    srunner_free(sr);
    return 0;
}
