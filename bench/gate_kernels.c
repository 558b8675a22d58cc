/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kernels of the CPU plugin at small fixed shapes, each once, on one thread; bench/gate counts their instructions.
 * usage: gate_kernels NAME...; without argument prints the names
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/cpu_kit.h"

static const int64_t none[1];

static uint32_t value_random(kit *k, int dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const uint32_t v = kit_value(k, dtype, (const int64_t[]){a, b, c, d, -1}); /* -1 ends the sizes */
    kit_random(k, v, 0.1, 1);
    return v;
}

/* 96 x 200 x 256: full and partial strips of every register block. */
static void make_dot(kit *k, int dtype)
{
    const uint32_t a = value_random(k, dtype, 96, 256, -1, -1), b = value_random(k, dtype, 256, 200, -1, -1);
    k->value[b].stride[0] = 1; /* weights are stored as [out, in] */
    k->value[b].stride[1] = 256;
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(value_random(k, dtype, 96, 200, -1, -1)), none, 0);
}

static void gemm_f32(kit *k)
{
    make_dot(k, YK_F32);
}

static void gemm_bf16(kit *k)
{
    make_dot(k, YK_BF16);
}

static void make_conv(kit *k, int op, int64_t channels, int64_t side)
{
    const int64_t attr[] = {1, 1, 1, 1, 1, 1, 1};
    const uint32_t x = value_random(k, YK_F32, 4, channels, side, side), y = value_random(k, YK_F32, 4, channels, side, side);
    const uint32_t w = value_random(k, YK_F32, channels, channels, 3, 3);
    kit_node(k, op, op == YK_OP_CONV2D ? KIT_IDS(x, w) : op == YK_OP_CONV2D_DX ? KIT_IDS(y, w) : KIT_IDS(y, x),
             op == YK_OP_CONV2D ? KIT_IDS(y) : op == YK_OP_CONV2D_DX ? KIT_IDS(x) : KIT_IDS(w), attr, 7);
}

static void conv_fwd(kit *k)
{
    make_conv(k, YK_OP_CONV2D, 16, 32);
}

static void conv_dgrad(kit *k)
{
    make_conv(k, YK_OP_CONV2D_DX, 16, 32);
}

static void conv_wgrad(kit *k)
{
    make_conv(k, YK_OP_CONV2D_DW, 16, 32);
}

static void conv_wide(kit *k)
{
    make_conv(k, YK_OP_CONV2D, 64, 8);
}

static void attention_any(kit *k, int bwd)
{
    const int64_t attr[] = {1, yk_attr_of_f64(0.125), yk_attr_of_f64(0), 0, 0};
    uint32_t v[8], lse = value_random(k, YK_F32, 1, 2, 128, -1);
    for (int i = 0; i < 8; i++)
        v[i] = value_random(k, YK_F32, 1, 2, 128, 64);
    if (bwd)
        kit_node(k, YK_OP_ATTENTION_BWD, KIT_IDS(v[0], v[1], lse, v[2], v[3], v[4]), KIT_IDS(v[5], v[6], v[7]), attr, 5);
    else
        kit_node(k, YK_OP_ATTENTION, KIT_IDS(v[2], v[3], v[4]), KIT_IDS(v[5], lse), attr, 5);
}

static void make_attention(kit *k)
{
    attention_any(k, 0);
}

static void attention_bwd(kit *k)
{
    attention_any(k, 1);
}

static void layer_norm_any(kit *k, int bwd)
{
    const int64_t attr[] = {yk_attr_of_f64(1e-5)};
    const uint32_t x = value_random(k, YK_F32, 128, 768, -1, -1), y = value_random(k, YK_F32, 128, 768, -1, -1);
    const uint32_t g = value_random(k, YK_F32, 768, -1, -1, -1), b = value_random(k, YK_F32, 768, -1, -1, -1);
    const uint32_t m = value_random(k, YK_F32, 128, -1, -1, -1), s = value_random(k, YK_F32, 128, -1, -1, -1);
    const uint32_t z = value_random(k, YK_F32, 128, 768, -1, -1), gg = value_random(k, YK_F32, 768, -1, -1, -1);
    if (bwd)
        kit_node(k, YK_OP_LAYER_NORM_BWD, KIT_IDS(y, x, m, s, g), KIT_IDS(z, gg, b), attr, 1);
    else
        kit_node(k, YK_OP_LAYER_NORM, KIT_IDS(x, g, b), KIT_IDS(y, m, s), attr, 1);
}

static void layer_norm(kit *k)
{
    layer_norm_any(k, 0);
}

static void layer_norm_bwd(kit *k)
{
    layer_norm_any(k, 1);
}

/* y = bf16(gelu(x + b) * x), b along the rows */
static void map_chain(kit *k)
{
    const int64_t dim[] = {128, 1000, -1};
    const uint32_t x = value_random(k, YK_F32, 128, 1000, -1, -1), b = kit_broadcast(k, YK_F32, dim, 1);
    const uint32_t s = kit_value(k, YK_F32, dim), g = kit_value(k, YK_F32, dim), m = kit_value(k, YK_F32, dim);
    const uint32_t y = kit_value(k, YK_BF16, dim);
    kit_random(k, b, -1, 1);
    kit_node(k, YK_OP_ADD, KIT_IDS(x, b), KIT_IDS(s), none, 0);
    kit_node(k, YK_OP_GELU_TANH, KIT_IDS(s), KIT_IDS(g), none, 0);
    kit_node(k, YK_OP_MUL, KIT_IDS(g, x), KIT_IDS(m), none, 0);
    kit_node(k, YK_OP_CAST, KIT_IDS(m), KIT_IDS(y), none, 0);
    kit_wrap(k, YK_OP_MAP, 4, KIT_IDS(x, b), KIT_IDS(y));
}

static void cross_entropy(kit *k)
{
    const int64_t attr[] = {-100, yk_attr_of_f64(0)};
    const uint32_t logits = value_random(k, YK_F32, 32, 5000, -1, -1), labels = value_random(k, YK_I32, 32, -1, -1, -1);
    kit_node(k, YK_OP_CROSS_ENTROPY, KIT_IDS(logits, labels),
             KIT_IDS(value_random(k, YK_F32, 32, -1, -1, -1), value_random(k, YK_F32, 32, -1, -1, -1)), attr, 2);
}

/* A sum over rows: wide rows are summed one at a time, short rows many together. */
static void make_sum(kit *k, int dtype, int64_t rows, int64_t columns)
{
    const uint32_t x = value_random(k, dtype, rows, columns, -1, -1), y = value_random(k, YK_F32, 1, columns, -1, -1);
    kit_node(k, YK_OP_SUM, KIT_IDS(x), KIT_IDS(y), (int64_t[]){1}, 1);
}

static void sum_rows(kit *k)
{
    make_sum(k, YK_F32, 512, 3072);
}

static void bias_gradient(kit *k)
{
    make_sum(k, YK_F32, 16384, 64);
}

static void make_adam(kit *k)
{
    uint32_t v[4], hyper = value_random(k, YK_F32, 16, -1, -1, -1);
    for (int i = 0; i < 4; i++)
        v[i] = value_random(k, YK_F32, 100000, -1, -1, -1);
    kit_node(k, YK_OP_ADAM_STEP, KIT_IDS(v[0], v[1], v[2], v[3], hyper), KIT_IDS(v[1], v[2], v[3]), (int64_t[]){1}, 1);
}

static const struct {
    const char *name;
    void (*make)(kit *k);
} cases[] = {
    {"gemm-f32", gemm_f32},           {"gemm-bf16", gemm_bf16},         {"conv", conv_fwd},
    {"conv-dgrad", conv_dgrad},       {"conv-wgrad", conv_wgrad},       {"conv-wide", conv_wide},
    {"attention", make_attention},         {"attention-bwd", attention_bwd}, {"layer-norm", layer_norm},
    {"layer-norm-bwd", layer_norm_bwd}, {"map-chain", map_chain},       {"cross-entropy", cross_entropy},
    {"adam", make_adam},                   {"sum-rows", sum_rows},          {"bias-gradient", bias_gradient},
};

static int run_case(const cpu_isa *isa, const char *name)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(name, cases[i].name)) {
            kit *k = kit_new();
            int bad;
            cases[i].make(k);
            bad = kit_run(k, isa, 1) != YK_OK;
            if (bad)
                fprintf(stderr, "%s: the plugin does not run it\n", name);
            kit_free(k);
            return bad;
        }
    }
    fprintf(stderr, "%s: there is no such kernel\n", name);
    return 1;
}

int main(int argc, char **argv)
{
    const char *why = NULL;
    const cpu_isa *isa = cpu_isa_choose("avx2", &why);
    int bad = 0;
    for (size_t i = 0; argc < 2 && i < sizeof cases / sizeof *cases; i++)
        puts(cases[i].name);
    if (!isa)
        fprintf(stderr, "%s\n", why);
    for (int i = 1; isa && !bad && i < argc; i++)
        bad = run_case(isa, argv[i]);
    return bad || (argc > 1 && !isa);
}
