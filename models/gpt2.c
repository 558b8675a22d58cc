/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019), any size, names and weight layout of Hugging Face's GPT2LMHeadModel: linear weights are
 * [in, out], the head is tied to the token embedding.
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
    yk_t wte, wpe;
    gpt2_block *block;
    model_norm ln_f;
    int64_t vocab, positions, width, inner, layers, heads;
    float embd_drop, attn_drop, resid_drop;
    model_activation *act;
} gpt2;

static model_linear linear_io(yk_model *m, const char *prefix, int64_t in, int64_t out, bool bias, double std)
{
    model_linear l = {YK_NO, YK_NO};
    l.weight = model_param(m, model_normal(std), 2, (int64_t[]){in, out}, "%s.weight", prefix);
    if (bias)
        l.bias = model_param(m, (yk_init){YK_INIT_ZEROS, 0, 0}, 1, &out, "%s.bias", prefix);
    return l;
}

static void block_new(yk_model *m, gpt2 *p, int64_t i, bool bias, float eps, double std)
{
    gpt2_block *b = &p->block[i];
    const double residual = std / sqrt(2.0 * (double)p->layers); /* GPT-2's rule for what adds into the stream */
    const int64_t w = p->width;
    char name[80];
    int n = snprintf(name, sizeof name, "transformer.h.%lld.", (long long)i);
    char *tail = name + n;
    const size_t room = sizeof name - (size_t)n;
    snprintf(tail, room, "ln_1");
    b->ln_1 = model_norm_new(m, name, w, bias, eps);
    snprintf(tail, room, "attn.c_attn");
    b->attn = linear_io(m, name, w, 3 * w, bias, std);
    snprintf(tail, room, "attn.c_proj");
    b->attn_proj = linear_io(m, name, w, w, bias, residual);
    snprintf(tail, room, "ln_2");
    b->ln_2 = model_norm_new(m, name, w, bias, eps);
    snprintf(tail, room, "mlp.c_fc");
    b->fc = linear_io(m, name, w, p->inner, bias, std);
    snprintf(tail, room, "mlp.c_proj");
    b->proj = linear_io(m, name, p->inner, w, bias, residual);
}

static void read_settings(yk_model *m, gpt2 *p, const yk_data *data)
{
    yk_settings *s = m->settings;
    p->vocab = yk_settings_int(s, "vocab_size", data && yk_data_vocab(data) ? yk_data_vocab(data) : 50257);
    p->positions = yk_settings_int(s, "n_positions", 1024);
    p->width = yk_settings_int(s, "n_embd", 768);
    p->layers = yk_settings_int(s, "n_layer", 12);
    p->heads = yk_settings_int(s, "n_head", 12);
    p->inner = yk_settings_int(s, "n_inner", 4 * p->width);
    p->embd_drop = (float)yk_settings_real(s, "embd_pdrop", 0.1);
    p->attn_drop = (float)yk_settings_real(s, "attn_pdrop", 0.1);
    p->resid_drop = (float)yk_settings_real(s, "resid_pdrop", 0.1);
    p->act = model_activation_of(m, yk_settings_text(s, "activation_function", "gelu_new"));
    model_put_int(m, "vocab_size", p->vocab);
    model_put_int(m, "n_positions", p->positions);
    model_put_int(m, "n_embd", p->width);
    model_put_int(m, "n_layer", p->layers);
    model_put_int(m, "n_head", p->heads);
}

static void free_blocks(void *block)
{
    free(block);
}

static void build(yk_model *m, void *net, const yk_data *data)
{
    gpt2 *p = net;
    double std = yk_settings_real(m->settings, "initializer_range", 0.02);
    float eps = (float)yk_settings_real(m->settings, "layer_norm_epsilon", 1e-5);
    bool bias = yk_settings_bool(m->settings, "bias", true);
    yk_settings_int(m->settings, "seq_len", 0);
    read_settings(m, p, data);
    if (!yk_ok(m->job) || p->layers < 1 || p->layers > 1000 || p->heads < 1 || p->width % p->heads) {
        yk_fail(m->job, YK_E_ARG, "gpt2: n_layer must be 1 to 1000 and n_embd a multiple of n_head");
        return;
    }
    p->block = calloc((size_t)p->layers, sizeof *p->block);
    if (!p->block) {
        yk_fail(m->job, YK_E_MEM, "out of memory for gpt2");
        return;
    }
    yk_owns(m->job, p->block, free_blocks);
    if (!yk_ok(m->job))
        return;
    p->wte = model_param(m, model_normal(std), 2, (int64_t[]){p->vocab, p->width}, "transformer.wte.weight");
    p->wpe = model_param(m, model_normal(std), 2, (int64_t[]){p->positions, p->width}, "transformer.wpe.weight");
    for (int64_t i = 0; i < p->layers; i++)
        block_new(m, p, i, bias, eps, std);
    p->ln_f = model_norm_new(m, "transformer.ln_f", p->width, bias, eps);
}

static yk_t linear_on(model_linear l, yk_t x)
{
    return yk_linear_io(x, l.weight, l.bias);
}

/* [B, T, W] from column `at` of the joint projection to [B, heads, T, D]. */
static yk_t heads_of(const gpt2 *p, yk_t qkv, int64_t at)
{
    const int64_t b = yk_dim(qkv, 0), t = yk_dim(qkv, 1), w = p->width;
    yk_t x = yk_slice(qkv, 2, at * w, (at + 1) * w, 1);
    x = yk_reshape(x, 4, (int64_t[]){b, t, p->heads, w / p->heads});
    return yk_permute(x, (uint32_t[]){0, 2, 1, 3});
}

static yk_t attention(const gpt2 *p, const gpt2_block *b, yk_t x, yk_t keep)
{
    const int64_t rows = yk_dim(x, 0), t = yk_dim(x, 1);
    yk_t qkv = linear_on(b->attn, x), y;
    y = yk_attention(heads_of(p, qkv, 0), heads_of(p, qkv, 1), heads_of(p, qkv, 2),
                     &(yk_attention_config){.causal = true, .dropout = p->attn_drop, .key_keep = keep});
    y = yk_permute(y, (uint32_t[]){0, 2, 1, 3});
    y = yk_reshape(y, 3, (int64_t[]){rows, t, p->width});
    return yk_dropout(linear_on(b->attn_proj, y), p->resid_drop);
}

static yk_t block_on(const gpt2 *p, const gpt2_block *b, yk_t x, yk_t keep)
{
    yk_t h;
    x = yk_add(x, attention(p, b, model_norm_on(b->ln_1, x), keep));
    h = p->act(linear_on(b->fc, model_norm_on(b->ln_2, x)));
    return yk_add(x, yk_dropout(linear_on(b->proj, h), p->resid_drop));
}

static yk_t hidden(const yk_model *m, const gpt2 *p, const yk_batch *batch)
{
    const int64_t t = yk_dim(batch->input_ids, 1);
    yk_t x;
    if (t > p->positions) {
        char text[128];
        snprintf(text, sizeof text, "gpt2: %lld tokens in a row, but n_positions is %lld", (long long)t, (long long)p->positions);
        yk_fail(m->job, YK_E_ARG, text);
        return YK_NO;
    }
    x = yk_add(yk_embedding(batch->input_ids, p->wte, -1), yk_slice(p->wpe, 0, 0, t, 1));
    x = yk_dropout(x, p->embd_drop);
    for (int64_t i = 0; i < p->layers; i++)
        model_block_begin(m), x = block_on(p, &p->block[i], x, batch->attention_mask), model_block_end(m);
    return model_norm_on(p->ln_f, x);
}

static yk_t part(yk_model *m, void *net, const yk_batch *batch, const char *name)
{
    const gpt2 *p = net;
    if (!strcmp(name, "last_hidden_state"))
        return hidden(m, p, batch);
    if (strcmp(name, "logits"))
        return YK_NO;
    return yk_linear(hidden(m, p, batch), p->wte, YK_NO);
}

static double flops(const void *net, int64_t t)
{
    const gpt2 *p = net;
    double w = (double)p->width, n = (double)t;
    double layer = 2 * n * (4 * w * w + 2 * w * (double)p->inner) + 2 * n * n * w; /* half of the scores are masked */
    return 3 * (layer * (double)p->layers + 2 * n * w * (double)p->vocab);
}

const model_kind model_gpt2 = {"gpt2", "GPT-2, any size", "gpt2", "transformer.", MODEL_RUNNING_TEXT, sizeof(gpt2), build, part, flops};
