/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019), any size, names and weight layout of Hugging Face's GPT2LMHeadModel: linear weights are
 * [in, out], the head is tied to the token embedding. registry.c builds it, and model.c traces it, in the step thread.
 *
 * Keys: vocab_size, n_positions, n_embd, n_layer, n_head, n_inner, activation_function (gelu_new), layer_norm_epsilon,
 * embd_pdrop, attn_pdrop, resid_pdrop, initializer_range, bias (true; false: no biases in linear layers and norms),
 * seq_len (for benchmarks).
 */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gpt2_block {
    model_norm ln_1, ln_2;
    model_linear attn, attn_proj, fc, proj;
} gpt2_block;

typedef struct gpt2 {
    yk_t wte, wpe; /* embeddings of tokens [V, W] and positions [n_positions, W] */
    gpt2_block *block;
    model_norm ln_f;
    int64_t vocab_size, n_positions, n_embd, n_inner, n_layers, n_heads;
    float embd_dropout, attn_dropout, resid_dropout, norm_eps;
    double init_std;
    bool bias; /* linear layers and norms have biases */
    model_activation *activation;
} gpt2;

/* A linear layer in GPT-2's layout: weight [in, out]. */
static model_linear linear_io_new(yk_model *m, const char *prefix, int64_t in, int64_t out, bool bias, double std)
{
    model_linear l = {YK_NO, YK_NO};
    l.weight = model_param(m, model_normal(std), 2, (int64_t[]){in, out}, "%s.weight", prefix);
    if (bias)
        l.bias = model_param(m, (yk_init){YK_INIT_ZEROS, 0, 0}, 1, &out, "%s.bias", prefix);
    return l;
}

static void block_new(yk_model *m, gpt2 *net, int64_t i)
{
    gpt2_block *b = &net->block[i];
    /* GPT-2's rule for layers that add to the residual stream */
    const double residual_std = net->init_std / sqrt(2.0 * (double)net->n_layers);
    const int64_t w = net->n_embd;
    char name[80];
    int n = snprintf(name, sizeof name, "transformer.h.%lld.", (long long)i);
    char *tail = name + n;
    const size_t tail_size = sizeof name - (size_t)n;
    snprintf(tail, tail_size, "ln_1");
    b->ln_1 = model_norm_new(m, name, w, net->bias, net->norm_eps);
    snprintf(tail, tail_size, "attn.c_attn");
    b->attn = linear_io_new(m, name, w, 3 * w, net->bias, net->init_std);
    snprintf(tail, tail_size, "attn.c_proj");
    b->attn_proj = linear_io_new(m, name, w, w, net->bias, residual_std);
    snprintf(tail, tail_size, "ln_2");
    b->ln_2 = model_norm_new(m, name, w, net->bias, net->norm_eps);
    snprintf(tail, tail_size, "mlp.c_fc");
    b->fc = linear_io_new(m, name, w, net->n_inner, net->bias, net->init_std);
    snprintf(tail, tail_size, "mlp.c_proj");
    b->proj = linear_io_new(m, name, net->n_inner, w, net->bias, residual_std);
}

static void read_settings(yk_model *m, gpt2 *net, const yk_data *data)
{
    yk_settings *s = m->settings;
    net->init_std = yk_settings_real(s, "initializer_range", 0.02);
    net->norm_eps = model_eps(m, "layer_norm_epsilon", 1e-5);
    net->bias = yk_settings_bool(s, "bias", true);
    yk_settings_put(s, "architectures", "GPT2LMHeadModel");
    yk_settings_int(s, "seq_len", 0); /* read by benchmarks */
    net->vocab_size = yk_settings_int(s, "vocab_size", data && yk_data_vocab(data) ? yk_data_vocab(data) : 50257);
    net->n_positions = yk_settings_int(s, "n_positions", 1024);
    net->n_embd = yk_settings_int(s, "n_embd", 768);
    net->n_layers = yk_settings_int(s, "n_layer", 12);
    net->n_heads = yk_settings_int(s, "n_head", 12);
    net->n_inner = yk_settings_int(s, "n_inner", 4 * net->n_embd);
    net->embd_dropout = (float)yk_settings_real(s, "embd_pdrop", 0.1);
    net->attn_dropout = (float)yk_settings_real(s, "attn_pdrop", 0.1);
    net->resid_dropout = (float)yk_settings_real(s, "resid_pdrop", 0.1);
    net->activation = model_activation_of(m, "activation_function", "gelu_new");
    model_put_int(m, "vocab_size", net->vocab_size);
    model_put_int(m, "n_positions", net->n_positions);
    model_put_int(m, "n_embd", net->n_embd);
    model_put_int(m, "n_layer", net->n_layers);
    model_put_int(m, "n_head", net->n_heads);
}

static void blocks_free(void *block)
{
    free(block);
}

static void gpt2_build(yk_model *m, void *object, const yk_data *data)
{
    gpt2 *net = object;
    read_settings(m, net, data);
    if (!yk_ok(m->job) || net->n_layers < 1 || net->n_layers > 1000 || net->n_heads < 1 || net->n_embd % net->n_heads) {
        yk_fail(m->job, YK_E_ARG, "gpt2: expected n_layer of 1 to 1000 and an n_embd that n_head divides: change these keys");
        return;
    }
    net->block = calloc((size_t)net->n_layers, sizeof *net->block);
    if (!net->block) {
        yk_fail(m->job, YK_E_MEM, "out of memory for gpt2");
        return;
    }
    yk_on_close(m->job, net->block, blocks_free);
    if (!yk_ok(m->job))
        return;
    const yk_init init = model_normal(net->init_std);
    net->wte = model_param(m, init, 2, (int64_t[]){net->vocab_size, net->n_embd}, "transformer.wte.weight");
    net->wpe = model_param(m, init, 2, (int64_t[]){net->n_positions, net->n_embd}, "transformer.wpe.weight");
    for (int64_t i = 0; i < net->n_layers; i++)
        block_new(m, net, i);
    net->ln_f = model_norm_new(m, "transformer.ln_f", net->n_embd, net->bias, net->norm_eps);
}

static yk_t linear_io_on(model_linear l, yk_t x)
{
    return yk_linear_io(x, l.weight, l.bias);
}

/* Heads [B, heads, T, D] from the columns of the joint projection [B, T, ..] that begin at `at`. */
static yk_t heads_of(const gpt2 *net, yk_t qkv, int64_t at)
{
    const int64_t b = yk_dim(qkv, 0), t = yk_dim(qkv, 1), w = net->n_embd;
    yk_t x = yk_slice(qkv, 2, at * w, (at + 1) * w, 1);
    x = yk_reshape(x, 4, (int64_t[]){b, t, net->n_heads, w / net->n_heads});
    return yk_permute(x, (uint32_t[]){0, 2, 1, 3});
}

static yk_t attention_on(const gpt2 *net, const gpt2_block *b, yk_t x, yk_t keep)
{
    const int64_t rows = yk_dim(x, 0), t = yk_dim(x, 1);
    yk_t qkv = linear_io_on(b->attn, x), y;
    y = yk_attention(heads_of(net, qkv, 0), heads_of(net, qkv, 1), heads_of(net, qkv, 2),
                     &(yk_attention_config){.causal = true, .dropout = net->attn_dropout, .key_keep = keep});
    y = yk_permute(y, (uint32_t[]){0, 2, 1, 3});
    y = yk_reshape(y, 3, (int64_t[]){rows, t, net->n_embd});
    return yk_dropout(linear_io_on(b->attn_proj, y), net->resid_dropout);
}

static yk_t block_on(const gpt2 *net, const gpt2_block *b, yk_t x, yk_t keep)
{
    yk_t h;
    x = yk_add(x, attention_on(net, b, model_norm_on(b->ln_1, x), keep));
    h = net->activation(linear_io_on(b->fc, model_norm_on(b->ln_2, x)));
    return yk_add(x, yk_dropout(linear_io_on(b->proj, h), net->resid_dropout));
}

static yk_t hidden_states(const yk_model *m, const gpt2 *net, const yk_batch *batch)
{
    const int64_t t = yk_dim(batch->input_ids, 1);
    yk_t x;
    if (t > net->n_positions) {
        char text[128];
        snprintf(text, sizeof text, "gpt2: %lld tokens in a row, but n_positions is %lld", (long long)t,
                 (long long)net->n_positions);
        yk_fail(m->job, YK_E_ARG, text);
        return YK_NO;
    }
    x = yk_add(yk_embedding(batch->input_ids, net->wte, -1), yk_slice(net->wpe, 0, 0, t, 1));
    x = yk_dropout(x, net->embd_dropout);
    for (int64_t i = 0; i < net->n_layers; i++)
        model_block_begin(m), x = block_on(net, &net->block[i], x, batch->attention_mask), model_block_end(m);
    return model_norm_on(net->ln_f, x);
}

static yk_t gpt2_part(yk_model *m, void *object, const yk_batch *batch, const char *name)
{
    const gpt2 *net = object;
    if (!strcmp(name, "last_hidden_state"))
        return hidden_states(m, net, batch);
    if (strcmp(name, "logits"))
        return YK_NO;
    return yk_linear(hidden_states(m, net, batch), net->wte, YK_NO);
}

static double gpt2_flops(const void *object, int64_t t)
{
    const gpt2 *net = object;
    double w = (double)net->n_embd, n = (double)t;
    double layer =
        2 * n * (4 * w * w + 2 * w * (double)net->n_inner) + 2 * n * n * w; /* half of the scores are masked */
    return 3 * (layer * (double)net->n_layers + 2 * n * w * (double)net->vocab_size);
}

static const char *const tied[][2] = {{"lm_head.weight", "transformer.wte.weight"}, {NULL, NULL}};
static const char *const layers[] = {"wte.", "wpe.", "h.", "ln_f.", "lm_head.", NULL};

const model_kind model_gpt2 = {
    .name = "gpt2",
    .text = "GPT-2, any size",
    .model_type = "gpt2",
    .prefix = "transformer.",
    .tied = tied,
    .layers = layers,
    .numbered = "h.#.",
    .input = MODEL_RUNNING_TEXT,
    .net_size = sizeof(gpt2),
    .blocks = true,
    .build = gpt2_build,
    .part = gpt2_part,
    .flops = gpt2_flops,
};
