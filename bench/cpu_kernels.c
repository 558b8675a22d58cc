/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the CPU plugin's kernels one by one at the shapes of GPT-2 124M (1024 tokens), BERT and the ResNets.
 * usage: cpu_kernels [threads [isa [parts of names, with commas between them]]]
 *        cpu_kernels --pairs [threads [isa [parts]]]: every kernel in fp32 and bf16 in turn, the ratio of the least times;
 *        exits with 1 when a kernel is slower in bf16
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cpu_kit.h"

static int threads = 1;
static const cpu_isa *isa;
static const char *only = ""; /* words separated by commas; times only names with one of them */

/* Random operands of a kernel, drawn only if the kernel is timed. */
static int n_fill;
static struct fill {
    kit *k;
    uint32_t v;
    double lo, hi;
} fills[64];

static void later_random(kit *k, uint32_t v, double lo, double hi)
{
    fills[n_fill++] = (struct fill){k, v, lo, hi};
}

static bool name_wanted(const char *name)
{
    char words[256];
    if (!*only)
        return true;
    snprintf(words, sizeof words, "%s", only);
    for (char *w = strtok(words, ","); w; w = strtok(NULL, ","))
        if (strstr(name, w))
            return true;
    return false;
}

/* True if the kernel of this name is timed; fills its operands then. */
static bool case_begin(const char *name)
{
    const bool want = name_wanted(name);
    for (int i = 0; i < n_fill && want; i++)
        kit_random(fills[i].k, fills[i].v, fills[i].lo, fills[i].hi);
    n_fill = 0;
    return want;
}

#define kit_random later_random
#define MOST_HELD 8
#define ROUNDS 9     /* least rounds of a pair; doubled for one that seems slower */
#define MARGIN 1.05  /* allowed ratio of the least times, for noise */

/* --pairs: fp32 kernels of one call are held until their bf16 twins exist */
static bool in_pairs;
static int n_held, n_slow;
static struct held {
    kit *k;
    char name[80];
} held[MOST_HELD];

/* Times both in turn and updates their least times. */
static void time_both(kit *const k[2], int times, double best[2])
{
    for (int i = 0; i < times; i++)
        for (int d = 0; d < 2; d++) {
            double t = kit_time(k[d], isa, threads, 2);
            best[d] = t < best[d] ? t : best[d];
        }
}

static void case_compare(const char *name, kit *f32, kit *bf16)
{
    kit *const k[2] = {f32, bf16};
    double t[2] = {1e30, 1e30};
    time_both(k, 1, t);
    int times = t[0] > 0.1 ? 3 : ROUNDS;
    time_both(k, times, t);
    for (int i = 0; i < 4 && t[1] > MARGIN * t[0]; i++)
        time_both(k, times, t);
    bool slow = t[1] > MARGIN * t[0];
    printf("%-36s %9.3f %9.3f ms  %.2f%s\n", name, t[0] * 1e3, t[1] * 1e3, t[1] / t[0], slow ? "  slower in bf16" : "");
    n_slow += slow;
}

static void case_hold(kit *k, const char *name)
{
    if (!case_begin(name)) {
        kit_free(k);
        return;
    }
    size_t n = strlen(name);
    bool bf16 = n > 5 && strcmp(name + n - 5, " bf16") == 0;
    if (!bf16 && n_held < MOST_HELD && strcmp(name + n - 4, " f32") == 0) {
        held[n_held].k = k;
        snprintf(held[n_held++].name, sizeof held->name, "%.*s", (int)n - 4, name);
        return;
    }
    for (int i = 0; bf16 && i < n_held; i++)
        if (held[i].k && strlen(held[i].name) == n - 5 && strncmp(held[i].name, name, n - 5) == 0) {
            case_compare(held[i].name, held[i].k, k);
            kit_free(held[i].k);
            held[i].k = NULL;
        }
    kit_free(k);
}

/* Frees the kernels held by one call. */
static void held_done(void)
{
    for (int i = 0; i < n_held; i++)
        if (held[i].k)
            kit_free(held[i].k);
    n_held = 0;
}

#define BOTH(call)                                                                                                     \
    for (int t = YK_F32, d = 0; d < 2; d++, t = YK_BF16)                                                               \
        call;                                                                                                          \
    held_done()

static void case_report(kit *k, const char *name, double flop, double bytes)
{
    if (in_pairs) {
        case_hold(k, name);
        return;
    }
    if (case_begin(name)) {
        double t = kit_time(k, isa, threads, flop > 2e10 ? 3 : 12);
        printf("%-36s %9.3f ms", name, t * 1e3);
        if (flop > 0)
            printf("  %7.1f GFLOP/s", flop / t * 1e-9);
        if (bytes > 0)
            printf("  %6.1f GB/s", bytes / t * 1e-9);
        putchar('\n');
    }
    kit_free(k);
}

static const int64_t none[1];

static void bench_dot(const char *what, int64_t m, int64_t n, int64_t kk, int ta, int tb, int dtype)
{
    char name[80];
    kit *k = kit_new();
    uint32_t a = KIT(k, dtype, m, kk), b = KIT(k, dtype, kk, n), c = KIT(k, dtype, m, n);
    if (ta)
        k->value[a].stride[0] = 1, k->value[a].stride[1] = m;
    if (tb)
        k->value[b].stride[0] = 1, k->value[b].stride[1] = kk;
    memset(k->data[a], 0, (size_t)k->slot[a].bytes);
    memset(k->data[b], 0, (size_t)k->slot[b].bytes);
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), none, 0);
    snprintf(name, sizeof name, "dot %s %lldx%lldx%lld %s", what, (long long)m, (long long)n, (long long)kk,
             dtype == YK_F32 ? "f32" : "bf16");
    case_report(k, name, 2.0 * (double)m * (double)n * (double)kk, 0);
}

/* Products with the transformers' epilogues: bias and gelu; bias, dropout and residual; gelu's backward with gelu
 * recomputed. */
static void bench_epilogue(int which, int64_t m, int64_t n, int64_t kk, int dtype)
{
    static const char *const what[] = {"bias gelu", "dropout residual", "gelu backward"};
    const int64_t dim[] = {m, n, -1}, drop[] = {yk_attr_of_f64(0.1), 1};
    char name[80];
    kit *k = kit_new();
    uint32_t a = KIT(k, dtype, m, kk), b = KIT(k, dtype, kk, n), c = KIT(k, dtype, m, n), x = KIT(k, dtype, m, n);
    uint32_t y = KIT(k, dtype, m, n), z = KIT(k, dtype, m, n), bias = kit_broadcast(k, YK_F32, dim, 1), f[5], key = KIT(k, YK_I32, 3);
    uint32_t row = KIT(k, YK_I32, m);
    for (int i = 0; i < 5; i++)
        f[i] = kit_value(k, YK_F32, dim);
    kit_random(k, a, -0.1, 0.1);
    kit_random(k, b, -1, 1);
    kit_random(k, x, -3, 3);
    kit_random(k, bias, -1, 1);
    kit_random(k, f[4], -1, 1);
    memset(k->data[key], 1, 12);
    memset(k->data[row], 0, (size_t)m * 4);
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), none, 0);
    if (which == 2) {
        kit_node(k, YK_OP_GELU_TANH_BWD, KIT_IDS(x, c), KIT_IDS(y), none, 0);
        kit_node(k, YK_OP_GELU_TANH, KIT_IDS(x), KIT_IDS(z), none, 0);
        kit_wrap(k, YK_OP_DOT_MAP, 3, KIT_IDS(a, b, x), KIT_IDS(y, z));
    } else {
        kit_node(k, YK_OP_CAST, KIT_IDS(c), KIT_IDS(f[0]), none, 0);
        kit_node(k, YK_OP_ADD, KIT_IDS(f[0], bias), KIT_IDS(f[1]), none, 0);
    }
    if (which == 0) {
        kit_node(k, YK_OP_CAST, KIT_IDS(f[1]), KIT_IDS(x), none, 0);
        kit_node(k, YK_OP_GELU_TANH, KIT_IDS(x), KIT_IDS(y), none, 0);
        kit_wrap(k, YK_OP_DOT_MAP, 5, KIT_IDS(a, b, bias), KIT_IDS(x, y));
    } else if (which == 1) {
        kit_node(k, YK_OP_DROPOUT, KIT_IDS(f[1], key, row), KIT_IDS(f[2]), drop, 2);
        kit_node(k, YK_OP_ADD, KIT_IDS(f[2], f[4]), KIT_IDS(f[3]), none, 0);
        kit_wrap(k, YK_OP_DOT_MAP, 5, KIT_IDS(a, b, bias, key, row, f[4]), KIT_IDS(f[3]));
    }
    snprintf(name, sizeof name, "dot %s %lldx%lldx%lld %s", what[which], (long long)m, (long long)n, (long long)kk,
             dtype == YK_F32 ? "f32" : "bf16");
    case_report(k, name, 2.0 * (double)m * (double)n * (double)kk, 0);
}

static void bench_conv(const char *what, int64_t n, int64_t c, int64_t h, int64_t o, int64_t kk, int64_t s, int dtype)
{
    int64_t oh = (h + kk / 2 * 2 - kk) / s + 1;
    const int64_t attr[] = {s, s, kk / 2, kk / 2, 1, 1, 1};
    double flop = 2.0 * (double)(n * o * oh * oh * kk * kk) * (double)c;
    for (int op = YK_OP_CONV2D; op <= YK_OP_CONV2D_DW; op++) {
        char name[80];
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, n, c, h, h), w = KIT(k, dtype, o, c, kk, kk), y = KIT(k, dtype, n, o, oh, oh);
        uint32_t gw = KIT(k, YK_F32, o, c, kk, kk);
        kit_random(k, x, -1, 1);
        kit_random(k, w, -1, 1);
        kit_random(k, y, -1, 1);
        kit_node(k, op, op == YK_OP_CONV2D ? KIT_IDS(x, w) : op == YK_OP_CONV2D_DX ? KIT_IDS(y, w) : KIT_IDS(y, x),
                 op == YK_OP_CONV2D ? KIT_IDS(y) : op == YK_OP_CONV2D_DX ? KIT_IDS(x) : KIT_IDS(gw), attr, 7);
        snprintf(name, sizeof name, "conv%s %s %s", op == YK_OP_CONV2D ? "" : op == YK_OP_CONV2D_DX ? "_dx" : "_dw", what,
                 dtype == YK_F32 ? "f32" : "bf16");
        case_report(k, name, flop, 0);
    }
}

/*
 * The shapes of ResNet-20 and of ResNet-18 with the CIFAR stem, batch 128. Floors: operations over the peak for direct
 * sums (steps of 2 reach 86 % of it forward and dx, 70-94 % for the weights). A 3x3 kernel at step 1 has a quarter of
 * that, as its products are Winograd's: it reaches 69 % at 64 channels and 38 % at 16. There the transforms take as long
 * as the products. bench/notes/cpu-speed-conv.md has the figures.
 */
static void bench_convs(void)
{
    static const struct {
        int64_t c, h, o, k, s;
    } net[] = {
        {3, 32, 16, 3, 1},  {16, 32, 16, 3, 1},   {16, 32, 32, 3, 2},   {32, 16, 32, 3, 1},   {32, 16, 64, 3, 2},
        {64, 8, 64, 3, 1},  {3, 32, 64, 3, 1},    {64, 32, 64, 3, 1},   {64, 32, 128, 3, 2},  {64, 32, 128, 1, 2},
        {128, 16, 128, 3, 1}, {128, 16, 256, 3, 2}, {256, 8, 256, 3, 1}, {256, 8, 512, 3, 2}, {512, 4, 512, 3, 1},
    };
    for (size_t i = 0; i < sizeof net / sizeof *net; i++) {
        char name[64];
        snprintf(name, sizeof name, "%lldx%lldx%lld -> %lld %lldx%lld%s", (long long)net[i].c, (long long)net[i].h,
                 (long long)net[i].h, (long long)net[i].o, (long long)net[i].k, (long long)net[i].k, net[i].s == 2 ? " /2" : "");
        BOTH(bench_conv(name, 128, net[i].c, net[i].h, net[i].o, net[i].k, net[i].s, t));
    }
}

static void layer_norms(int dtype)
{
    const int64_t attr[] = {yk_attr_of_f64(1e-5)};
    for (int bwd = 0; bwd < 2; bwd++) {
        char name[80];
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, 4096, 768), y = KIT(k, dtype, 4096, 768), g = KIT(k, YK_F32, 768);
        uint32_t b = KIT(k, YK_F32, 768), m = KIT(k, YK_F32, 4096), s = KIT(k, YK_F32, 4096);
        uint32_t z = KIT(k, dtype, 4096, 768), gg = KIT(k, YK_F32, 768);
        kit_random(k, x, -1, 1);
        kit_random(k, y, -1, 1);
        kit_random(k, g, -1, 1);
        kit_random(k, b, -1, 1);
        kit_random(k, m, -1, 1);
        kit_random(k, s, 1, 2);
        if (bwd)
            kit_node(k, YK_OP_LAYER_NORM_BWD, KIT_IDS(y, x, m, s, g), KIT_IDS(z, gg, b), attr, 1);
        else
            kit_node(k, YK_OP_LAYER_NORM, KIT_IDS(x, g, b), KIT_IDS(y, m, s), attr, 1);
        snprintf(name, sizeof name, "layer_norm%s 4096x768 %s", bwd ? "_bwd" : "", dtype == YK_F32 ? "f32" : "bf16");
        case_report(k, name, 0, 4096.0 * 768 * (dtype == YK_F32 ? 4 : 2) * (bwd ? 3 : 2));
    }
}

static const struct {
    int op, operands;
    const char *name;
} ops[] = {
    {YK_OP_ADD, 2, "add"}, {YK_OP_MUL, 2, "mul"}, {YK_OP_DIV, 2, "div"}, {YK_OP_MAX, 2, "max"}, {YK_OP_EXP, 1, "exp"},
    {YK_OP_LOG, 1, "log"}, {YK_OP_SQRT, 1, "sqrt"}, {YK_OP_RSQRT, 1, "rsqrt"}, {YK_OP_TANH, 1, "tanh"},
    {YK_OP_ERF, 1, "erf"}, {YK_OP_RELU, 1, "relu"}, {YK_OP_RELU_BWD, 2, "relu_bwd"}, {YK_OP_GELU, 1, "gelu"},
    {YK_OP_GELU_BWD, 2, "gelu_bwd"}, {YK_OP_GELU_TANH, 1, "gelu_tanh"}, {YK_OP_GELU_TANH_BWD, 2, "gelu_tanh_bwd"},
    {YK_OP_SILU, 1, "silu"}, {YK_OP_SILU_BWD, 2, "silu_bwd"}, {YK_OP_SIGMOID, 1, "sigmoid"},
    {YK_OP_SIGMOID_BWD, 2, "sigmoid_bwd"}, {YK_OP_TANH_BWD, 2, "tanh_bwd"},
};

static void bench_elementwise(size_t i, int64_t r, int64_t c, int dtype)
{
    char name[80];
    kit *k = kit_new();
    uint32_t x = KIT(k, dtype, r, c), y = KIT(k, dtype, r, c), z = KIT(k, dtype, r, c);
    kit_random(k, x, 0.1, 1);
    kit_random(k, y, 0.1, 1);
    kit_node(k, ops[i].op, ops[i].operands == 2 ? KIT_IDS(x, y) : KIT_IDS(x), KIT_IDS(z), none, 0);
    snprintf(name, sizeof name, "%s %lldx%lld %s", ops[i].name, (long long)r, (long long)c, dtype == YK_F32 ? "f32" : "bf16");
    case_report(k, name, 0, (double)(r * c) * (dtype == YK_F32 ? 4 : 2) * (ops[i].operands + 1));
}

/* Batch norm of a ResNet-20 as planned: y = relu((x-m)s+b+r); the sums of g and g(x-m), g = relu'(y) gy;
 * gx = g s + (x-m) c + d. */
static void batch_norm(int64_t c, int64_t h, int dtype)
{
    const char *t = dtype == YK_F32 ? "f32" : "bf16";
    const int64_t dim[] = {128, c, h, h, -1}, one[] = {1, c, 1, 1, -1};
    double n = 128.0 * (double)(c * h * h) * (dtype == YK_F32 ? 4 : 2);
    for (int pass = 0; pass < 4; pass++) {
        static const char *const what[] = {"forward", "sums", "backward", "stats"};
        char name[80];
        kit *k = kit_new();
        uint32_t big[5], mid[6], small[4], sum[2] = {kit_value(k, YK_F32, one), kit_value(k, YK_F32, one)};
        for (int i = 0; i < 4; i++) {
            big[i] = kit_value(k, dtype, dim);
            small[i] = kit_broadcast(k, YK_F32, dim, 13);
            kit_random(k, big[i], -1, 1);
            kit_random(k, small[i], -1, 1);
        }
        for (int i = 0; i < 6; i++)
            mid[i] = kit_value(k, YK_F32, dim);
        if (pass < 3)
            kit_node(k, YK_OP_CAST, KIT_IDS(big[0]), KIT_IDS(mid[0]), none, 0);
        if (pass < 3)
            kit_node(k, YK_OP_SUB, KIT_IDS(mid[0], small[0]), KIT_IDS(mid[1]), none, 0);
        if (pass == 0) {
            kit_node(k, YK_OP_MUL, KIT_IDS(mid[1], small[1]), KIT_IDS(mid[2]), none, 0);
            kit_node(k, YK_OP_ADD, KIT_IDS(mid[2], small[2]), KIT_IDS(mid[3]), none, 0);
            kit_node(k, YK_OP_CAST, KIT_IDS(big[1]), KIT_IDS(mid[4]), none, 0);
            kit_node(k, YK_OP_ADD, KIT_IDS(mid[3], mid[4]), KIT_IDS(mid[5]), none, 0);
            kit_node(k, YK_OP_RELU, KIT_IDS(mid[5]), KIT_IDS(big[3]), none, 0);
            kit_wrap(k, YK_OP_MAP, 7, KIT_IDS(big[0], small[0], small[1], small[2], big[1]), KIT_IDS(big[3]));
        } else if (pass == 1) {
            kit_node(k, YK_OP_RELU_BWD, KIT_IDS(big[1], big[2]), KIT_IDS(mid[2]), none, 0);
            kit_node(k, YK_OP_MUL, KIT_IDS(mid[1], mid[2]), KIT_IDS(mid[3]), none, 0);
            kit_node(k, YK_OP_SUM, KIT_IDS(mid[2]), KIT_IDS(sum[0]), (int64_t[]){13}, 1);
            kit_node(k, YK_OP_SUM, KIT_IDS(mid[3]), KIT_IDS(sum[1]), (int64_t[]){13}, 1);
            kit_wrap(k, YK_OP_MAP_SUM, 6, KIT_IDS(big[0], small[0], big[1], big[2]), KIT_IDS(sum[0], sum[1]));
        } else if (pass == 2) {
            kit_node(k, YK_OP_RELU_BWD, KIT_IDS(big[1], big[2]), KIT_IDS(mid[2]), none, 0);
            kit_node(k, YK_OP_MUL, KIT_IDS(mid[2], small[1]), KIT_IDS(mid[3]), none, 0);
            kit_node(k, YK_OP_MUL, KIT_IDS(mid[1], small[2]), KIT_IDS(mid[4]), none, 0);
            kit_node(k, YK_OP_ADD, KIT_IDS(mid[4], small[3]), KIT_IDS(mid[5]), none, 0);
            kit_node(k, YK_OP_ADD, KIT_IDS(mid[3], mid[5]), KIT_IDS(big[3]), none, 0);
            kit_wrap(k, YK_OP_MAP, 7, KIT_IDS(big[0], small[0], small[1], small[2], small[3], big[1], big[2]), KIT_IDS(big[3]));
        } else {
            uint32_t x = KIT(k, dtype, 128, c, h * h), m = KIT(k, YK_F32, c), y = KIT(k, YK_F32, 3, c);
            kit_random(k, x, -1, 1);
            kit_random(k, m, -1, 1);
            kit_node(k, YK_OP_BN_STATS, KIT_IDS(x, m), KIT_IDS(y), none, 0);
        }
        snprintf(name, sizeof name, "batch_norm %s %lldx%lldx%lld %s", what[pass], (long long)c, (long long)h, (long long)h, t);
        case_report(k, name, 0, n * (pass == 2 ? 4 : pass == 3 ? 1 : 3));
    }
}

static void bench_pools(int64_t kk, int64_t step, int dtype)
{
    static const char *const what[] = {"max_pool", "max_pool_bwd", "avg_pool", "avg_pool_bwd"};
    int64_t pad = kk == 3 ? 1 : 0, out = (32 + 2 * pad - kk) / step + 1;
    const int64_t attr[2][8] = {{kk, kk, step, step, pad, pad, 1, 1}, {kk, kk, step, step, pad, pad, 0}};
    double n = 128.0 * 64 * (dtype == YK_F32 ? 4 : 2);
    for (int op = 0; op < 4; op++) {
        char name[80];
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, 128, 64, 32, 32), y = KIT(k, dtype, 128, 64, out, out), z = KIT(k, dtype, 128, 64, 32, 32);
        kit_random(k, x, -1, 1);
        kit_random(k, y, -1, 1);
        if (op == 0)
            kit_node(k, YK_OP_MAX_POOL, KIT_IDS(x), KIT_IDS(y), attr[0], 8);
        else if (op == 1)
            kit_node(k, YK_OP_MAX_POOL_BWD, KIT_IDS(x, y), KIT_IDS(z), attr[0], 8);
        else
            kit_node(k, op == 2 ? YK_OP_AVG_POOL : YK_OP_AVG_POOL_BWD, op == 2 ? KIT_IDS(x) : KIT_IDS(y),
                     op == 2 ? KIT_IDS(y) : KIT_IDS(z), attr[1], 7);
        snprintf(name, sizeof name, "%s %lldx%lld/%lld 64x32x32 %s", what[op], (long long)kk, (long long)kk, (long long)step,
                 dtype == YK_F32 ? "f32" : "bf16");
        case_report(k, name, 0, n * (double)((op == 1 ? 2 : 1) * 1024 + out * out));
    }
}

static void bench_softmax(int64_t r, int64_t c, int dtype)
{
    for (int bwd = 0; bwd < 2; bwd++) {
        char name[80];
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, r, c), y = KIT(k, dtype, r, c), z = KIT(k, dtype, r, c);
        kit_random(k, x, -1, 1);
        kit_random(k, y, 0, 1);
        kit_node(k, bwd ? YK_OP_SOFTMAX_BWD : YK_OP_SOFTMAX, bwd ? KIT_IDS(x, y) : KIT_IDS(x), KIT_IDS(z), (int64_t[]){0}, 1);
        snprintf(name, sizeof name, "softmax%s %lldx%lld %s", bwd ? "_bwd" : "", (long long)r, (long long)c,
                 dtype == YK_F32 ? "f32" : "bf16");
        case_report(k, name, 0, (double)(r * c) * (dtype == YK_F32 ? 4 : 2) * (bwd ? 3 : 2));
    }
}

static void cross_entropy(bool weights, int64_t r, int64_t c, int dtype)
{
    const int64_t attr[] = {-100, yk_attr_of_f64(weights ? 0.1 : 0)}; /* weights come with smoothing */
    for (int bwd = 0; bwd < 2; bwd++) {
        char name[80];
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, r, c), z = KIT(k, dtype, r, c), lab = KIT(k, YK_I32, r), loss = KIT(k, YK_F32, r);
        uint32_t lse = KIT(k, YK_F32, r), w = weights ? KIT(k, YK_F32, c) : YK_NONE;
        kit_random(k, x, -1, 1);
        memset(k->data[lab], 0, (size_t)r * 4);
        kit_random(k, loss, 0, 1);
        kit_random(k, lse, 10, 11);
        if (weights)
            kit_random(k, w, 0, 1);
        kit_node(k, bwd ? YK_OP_CROSS_ENTROPY_BWD : YK_OP_CROSS_ENTROPY, bwd ? KIT_IDS(loss, x, lab, lse, w) : KIT_IDS(x, lab, w),
                 bwd ? KIT_IDS(z) : KIT_IDS(loss, lse), attr, 2);
        snprintf(name, sizeof name, "cross_entropy%s%s %lldx%lld %s", bwd ? "_bwd" : "", weights ? " weighted" : "",
                 (long long)r, (long long)c, dtype == YK_F32 ? "f32" : "bf16");
        case_report(k, name, 0, (double)(r * c) * (dtype == YK_F32 ? 4 : 2) * (bwd ? 2 : 1));
    }
}

static void bench_move(int dtype)
{
    static const char *const what[] = {"copy", "transpose", "heads", "gather", "scatter_add", "dropout"};
    const char *t = dtype == YK_F32 ? "f32" : "bf16";
    double n = 4096.0 * 768 * (dtype == YK_F32 ? 4 : 2);
    for (int op = 0; op < 6; op++) {
        char name[80];
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, 4096, 768), y = KIT(k, dtype, 4096, 768), at = KIT(k, YK_I32, 4096), key = KIT(k, YK_I32, 3);
        uint32_t transposed = KIT(k, dtype, 768, 4096), h = KIT(k, dtype, 16, 12, 256, 64), g = KIT(k, dtype, 16, 12, 256, 64);
        kit_random(k, x, -1, 1);
        kit_random(k, at, 0, 4095);
        kit_random(k, key, 0, 1e9);
        if (op == 1) {
            k->value[x].dim[0] = 768, k->value[x].dim[1] = 4096, k->value[x].stride[0] = 1, k->value[x].stride[1] = 768;
        } else if (op == 2) {
            kit_random(k, h, -1, 1);
            k->value[h].stride[0] = 256 * 768, k->value[h].stride[1] = 64, k->value[h].stride[2] = 768;
        }
        if (op < 3)
            kit_node(k, YK_OP_COPY, op == 2 ? KIT_IDS(h) : KIT_IDS(x), op == 0 ? KIT_IDS(y) : op == 1 ? KIT_IDS(transposed) : KIT_IDS(g),
                     none, 0);
        else if (op < 5)
            kit_node(k, op == 3 ? YK_OP_GATHER : YK_OP_SCATTER_ADD, KIT_IDS(x, at), KIT_IDS(y), none, 0);
        else
            kit_node(k, YK_OP_DROPOUT, KIT_IDS(x, key, at), KIT_IDS(y), (int64_t[]){yk_attr_of_f64(0.1), 1}, 2);
        snprintf(name, sizeof name, "%s 4096x768 %s", what[op], t);
        case_report(k, name, 0, 2 * n);
    }
}

static void bench_reductions(int dtype)
{
    static const char *const what[] = {"sum of columns", "sum of rows", "max of rows", "cast from f32"};
    for (int op = 0; op < 4; op++) {
        char name[80];
        kit *k = kit_new();
        uint32_t x = KIT(k, op == 3 ? YK_F32 : dtype, 4096, 768), row = KIT(k, YK_F32, 1, 768), y = KIT(k, dtype, 4096, 768);
        uint32_t column = KIT(k, dtype, 4096, 1);
        kit_random(k, x, -1, 1);
        if (op == 3)
            kit_node(k, YK_OP_CAST, KIT_IDS(x), KIT_IDS(y), none, 0);
        else
            kit_node(k, op == 2 ? YK_OP_RMAX : YK_OP_SUM, KIT_IDS(x), op ? KIT_IDS(column) : KIT_IDS(row),
                     (int64_t[]){op ? 2 : 1}, 1);
        snprintf(name, sizeof name, "%s 4096x768 %s", what[op], dtype == YK_F32 ? "f32" : "bf16");
        case_report(k, name, 0, 4096.0 * 768 * (dtype == YK_F32 ? 4 : 2));
    }
}

static void bench_adam(void)
{
    static const int64_t sizes[] = {30000000, 124000000};
    for (int i = 0; i < 2; i++) {
        char name[80];
        snprintf(name, sizeof name, "adamw %dM", (int)(sizes[i] / 1000000));
        if (!name_wanted(name))
            continue;
        kit *k = kit_new();
        uint32_t v[4], hyper = KIT(k, YK_F32, 16);
        memset(k->data[hyper], 0, 64);
        for (int j = 0; j < 4; j++) {
            v[j] = KIT(k, YK_F32, sizes[i]);
            memset(k->data[v[j]], 0, (size_t)sizes[i] * 4);
        }
        kit_node(k, YK_OP_ADAM_STEP, KIT_IDS(v[0], v[1], v[2], v[3], hyper), KIT_IDS(v[1], v[2], v[3]), (int64_t[]){1}, 1);
        case_report(k, name, 0, (double)sizes[i] * 28);
    }
}

static void bench_attention(int64_t b, int64_t h, int64_t t, int causal, int dtype)
{
    for (int bwd = 0; bwd < 2; bwd++) {
        char name[80];
        kit *k = kit_new();
        uint32_t v[8], lse = KIT(k, YK_F32, b, h, t);
        for (int i = 0; i < 8; i++) {
            v[i] = KIT(k, dtype, b, h, t, 64);
            kit_random(k, v[i], -1, 1);
        }
        memset(k->data[lse], 0, (size_t)k->slot[lse].bytes);
        const int64_t attr[] = {causal, yk_attr_of_f64(0.125), yk_attr_of_f64(0), 0, 0};
        if (bwd)
            kit_node(k, YK_OP_ATTENTION_BWD, KIT_IDS(v[0], v[1], lse, v[2], v[3], v[4]), KIT_IDS(v[5], v[6], v[7]), attr, 5);
        else
            kit_node(k, YK_OP_ATTENTION, KIT_IDS(v[2], v[3], v[4]), KIT_IDS(v[5], lse), attr, 5);
        snprintf(name, sizeof name, "attention%s %lldx%lldx%lld%s %s", bwd ? "_bwd" : "", (long long)b, (long long)h,
                 (long long)t, causal ? " causal" : "", dtype == YK_F32 ? "f32" : "bf16");
        case_report(k, name, (bwd ? 10.0 : 4.0) * 64 * (double)(b * h * t * t) / (causal ? 2 : 1), 0);
    }
}

static void bench_dots(int dtype)
{
    bench_dot("fwd", 1024, 768, 768, 0, 1, dtype);
    bench_dot("fwd", 1024, 3072, 768, 0, 1, dtype);
    bench_dot("fwd", 1024, 768, 3072, 0, 1, dtype);
    bench_dot("out", 1024, 3072, 768, 0, 0, dtype);
    bench_dot("dgrad", 1024, 768, 3072, 0, 0, dtype);
    bench_dot("wgrad", 3072, 768, 1024, 1, 0, dtype);
    bench_dot("small", 16, 64, 64, 0, 1, dtype);
    bench_dot("small", 128, 256, 512, 0, 1, dtype);
    bench_dot("narrow", 128, 10, 256, 0, 1, dtype);
}

static void bench_rows(void)
{
    BOTH(layer_norms(t));
    BOTH(bench_softmax(32768, 256, t));
    BOTH(bench_softmax(128, 10, t));
    BOTH(cross_entropy(false, 1024, 50257, t));
    BOTH(cross_entropy(true, 1024, 50257, t));
    BOTH(cross_entropy(false, 128, 10, t));
    BOTH(cross_entropy(true, 128, 10, t));
    BOTH(bench_move(t));
    BOTH(bench_reductions(t));
}

static void bench_all(void)
{
    BOTH(bench_dots(t));
    BOTH(bench_epilogue(0, 1024, 3072, 768, t));
    BOTH(bench_epilogue(1, 1024, 768, 3072, t));
    BOTH(bench_epilogue(1, 1024, 768, 768, t));
    BOTH(bench_epilogue(2, 1024, 3072, 768, t));
    BOTH(bench_dot("head", 1024, 50304, 768, 0, 1, t));
    BOTH(bench_dot("head wgrad", 50304, 768, 1024, 1, 0, t));
    bench_convs();
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        BOTH(bench_elementwise(i, 4096, 768, t));
        BOTH(bench_elementwise(i, 128, 768, t)); /* fits the second-level cache */
    }
    bench_rows();
    BOTH(batch_norm(16, 32, t));
    BOTH(batch_norm(32, 16, t));
    BOTH(batch_norm(64, 8, t));
    BOTH(bench_pools(3, 2, t));
    BOTH(bench_pools(2, 2, t));
    BOTH(bench_pools(3, 1, t));
    BOTH(bench_pools(8, 8, t));
    BOTH(bench_attention(4, 12, 256, 1, t));
    BOTH(bench_attention(32, 12, 128, 0, t));
    bench_adam();
}

int main(int argc, char **argv)
{
    const char *why = NULL;
    in_pairs = argc > 1 && strcmp(argv[1], "--pairs") == 0;
    argc -= in_pairs;
    argv += in_pairs;
    threads = argc > 1 ? atoi(argv[1]) : 1;
    isa = cpu_isa_choose(argc > 2 ? argv[2] : NULL, &why);
    only = argc > 3 ? argv[3] : "";
    if (!isa || threads < 1 || threads > 64) {
        fprintf(stderr, "%s\n", why ? why : "threads: 1 to 64");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("isa %s, %d threads, least of several runs%s\n", isa->name, threads, in_pairs ? ": f32, bf16, bf16 / f32" : "");
    bench_all();
    if (n_slow)
        printf("%d slower in bf16\n", n_slow);
    return n_slow ? 1 : 0;
}
