/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BERT (Devlin et al. 2018) as a sequence classifier ("bert") and a masked language model ("bert-mlm"), with the names of
 * Hugging Face's BertForSequenceClassification and BertForMaskedLM.
 * Keys: vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_act,
 * max_position_embeddings, type_vocab_size, layer_norm_eps, hidden_dropout_prob, attention_probs_dropout_prob,
 * classifier_dropout, initializer_range, num_labels, seq_len (for benchmarks).
 */
#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bert_layer {
    model_linear q, k, v, attn_out, inter, out;
    model_norm attn_norm, out_norm;
} bert_layer;

typedef struct bert {
    yk_t words, positions, types, mlm_bias;
    model_norm norm, mlm_norm;
    bert_layer *layer;
    model_linear pooler, classifier, transform;
    int64_t vocab, width, layers, heads, inner, context, classes;
    float drop, attn_drop, head_drop;
    model_activation *act;
    yk_init init;
} bert;

static float read_settings(yk_model *m, bert *p, const yk_data *data)
{
    yk_settings *s = m->settings;
    p->vocab = yk_settings_int(s, "vocab_size", data && yk_data_vocab(data) ? yk_data_vocab(data) : 30522);
    p->width = yk_settings_int(s, "hidden_size", 768);
    p->layers = yk_settings_int(s, "num_hidden_layers", 12);
    p->heads = yk_settings_int(s, "num_attention_heads", 12);
    p->inner = yk_settings_int(s, "intermediate_size", 4 * p->width);
    p->context = yk_settings_int(s, "max_position_embeddings", 512);
    p->drop = (float)yk_settings_real(s, "hidden_dropout_prob", 0.1);
    p->attn_drop = (float)yk_settings_real(s, "attention_probs_dropout_prob", 0.1);
    p->head_drop = (float)yk_settings_real(s, "classifier_dropout", (double)p->drop);
    p->act = model_activation_of(m, yk_settings_text(s, "hidden_act", "gelu"));
    p->init = model_normal(yk_settings_real(s, "initializer_range", 0.02));
    p->classes = model_classes(m, data, 2);
    yk_settings_int(s, "seq_len", 0);
    model_put_int(m, "vocab_size", p->vocab);
    model_put_int(m, "hidden_size", p->width);
    model_put_int(m, "num_hidden_layers", p->layers);
    model_put_int(m, "num_attention_heads", p->heads);
    model_put_int(m, "intermediate_size", p->inner);
    model_put_int(m, "max_position_embeddings", p->context);
    return (float)yk_settings_real(s, "layer_norm_eps", 1e-12);
}

static model_linear dense(yk_model *m, const bert *p, int64_t layer, const char *name, int64_t in, int64_t out)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "bert.encoder.layer.%lld.%s", (long long)layer, name);
    return model_linear_new(m, prefix, in, out, true, &p->init);
}

static model_norm layer_norm(yk_model *m, const bert *p, int64_t layer, const char *name, float eps)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "bert.encoder.layer.%lld.%s", (long long)layer, name);
    return model_norm_new(m, prefix, p->width, true, eps);
}

static void layer_new(yk_model *m, bert *p, int64_t i, float eps)
{
    bert_layer *l = &p->layer[i];
    const int64_t w = p->width;
    l->q = dense(m, p, i, "attention.self.query", w, w);
    l->k = dense(m, p, i, "attention.self.key", w, w);
    l->v = dense(m, p, i, "attention.self.value", w, w);
    l->attn_out = dense(m, p, i, "attention.output.dense", w, w);
    l->attn_norm = layer_norm(m, p, i, "attention.output.LayerNorm", eps);
    l->inter = dense(m, p, i, "intermediate.dense", w, p->inner);
    l->out = dense(m, p, i, "output.dense", p->inner, w);
    l->out_norm = layer_norm(m, p, i, "output.LayerNorm", eps);
}

static void free_layers(void *layer)
{
    free(layer);
}

/* Embeddings and encoder; false when the settings are impossible. */
static bool build_encoder(yk_model *m, bert *p, const yk_data *data)
{
    const float eps = read_settings(m, p, data);
    const int64_t types = yk_settings_int(m->settings, "type_vocab_size", 2);
    model_put_int(m, "type_vocab_size", types);
    if (!yk_ok(m->job) || p->layers < 1 || p->layers > 1000 || p->heads < 1 || p->width % p->heads) {
        yk_fail(m->job, YK_E_ARG, "bert: num_hidden_layers must be 1 to 1000 and hidden_size a multiple of num_attention_heads");
        return false;
    }
    p->layer = calloc((size_t)p->layers, sizeof *p->layer);
    if (!p->layer) {
        yk_fail(m->job, YK_E_MEM, "out of memory for bert");
        return false;
    }
    yk_owns(m->job, p->layer, free_layers);
    if (!yk_ok(m->job))
        return false;
    p->words = model_param(m, p->init, 2, (int64_t[]){p->vocab, p->width}, "bert.embeddings.word_embeddings.weight");
    p->positions = model_param(m, p->init, 2, (int64_t[]){p->context, p->width}, "bert.embeddings.position_embeddings.weight");
    p->types = model_param(m, p->init, 2, (int64_t[]){types, p->width}, "bert.embeddings.token_type_embeddings.weight");
    p->norm = model_norm_new(m, "bert.embeddings.LayerNorm", p->width, true, eps);
    for (int64_t i = 0; i < p->layers; i++)
        layer_new(m, p, i, eps);
    return true;
}

static void build_classifier(yk_model *m, void *net, const yk_data *data)
{
    bert *p = net;
    if (!build_encoder(m, p, data))
        return;
    yk_settings_put(m->settings, "architectures", "BertForSequenceClassification");
    p->pooler = model_linear_new(m, "bert.pooler.dense", p->width, p->width, true, &p->init);
    p->classifier = model_linear_new(m, "classifier", p->width, p->classes, true, &p->init);
}

static void build_mlm(yk_model *m, void *net, const yk_data *data)
{
    bert *p = net;
    if (!build_encoder(m, p, data))
        return;
    yk_settings_put(m->settings, "architectures", "BertForMaskedLM");
    p->transform = model_linear_new(m, "cls.predictions.transform.dense", p->width, p->width, true, &p->init);
    p->mlm_norm = model_norm_new(m, "cls.predictions.transform.LayerNorm", p->width, true, p->norm.eps);
    p->mlm_bias = model_param(m, (yk_init){YK_INIT_ZEROS, 0, 0}, 1, &p->vocab, "cls.predictions.bias");
}

static yk_t heads_of(const bert *p, yk_t x)
{
    const int64_t b = yk_dim(x, 0), t = yk_dim(x, 1);
    x = yk_reshape(x, 4, (int64_t[]){b, t, p->heads, p->width / p->heads});
    return yk_permute(x, (uint32_t[]){0, 2, 1, 3});
}

/* The tokens of a batch, and how they lie between the layers: [rows, width, ..], or packed. */
typedef struct tokens {
    int64_t rows, width;
    yk_t keep; /* those that others look at; YK_NO: all */
    yk_t pack; /* those that are packed; YK_NO: none is */
} tokens;

static yk_t spread(const tokens *t, yk_t x)
{
    return t->pack.id ? yk_unpack(x, t->pack) : x;
}

static yk_t drop(const tokens *t, yk_t x, float p)
{
    return t->pack.id ? yk_dropout_packed(x, p, t->pack) : yk_dropout(x, p);
}

/* q of the tokens that ask; all that count answer. [B, H, n, D] -> [B, n, W] */
static yk_t attend(const bert *p, const bert_layer *l, yk_t q, yk_t x, const tokens *t)
{
    yk_t y = yk_attention(heads_of(p, q), heads_of(p, spread(t, model_linear_on(l->k, x))),
                          heads_of(p, spread(t, model_linear_on(l->v, x))),
                          &(yk_attention_config){.dropout = p->attn_drop, .key_keep = t->keep});
    return yk_reshape(yk_permute(y, (uint32_t[]){0, 2, 1, 3}), 3, (int64_t[]){t->rows, yk_dim(q, 1), p->width});
}

/* The rest of the layer, from its input and attention's result. */
static yk_t after_attention(const bert *p, const bert_layer *l, yk_t x, yk_t y, const tokens *t)
{
    x = model_norm_on(l->attn_norm, yk_add(x, drop(t, model_linear_on(l->attn_out, y), p->drop)));
    y = model_linear_on(l->out, p->act(model_linear_on(l->inter, x)));
    return model_norm_on(l->out_norm, yk_add(x, drop(t, y, p->drop)));
}

static yk_t layer_on(const bert *p, const bert_layer *l, yk_t x, const tokens *t)
{
    yk_t y = attend(p, l, spread(t, model_linear_on(l->q, x)), x, t);
    return after_attention(p, l, x, t->pack.id ? yk_pack(y, t->pack) : y, t);
}

/* The same for the first n tokens of each row alone. */
static yk_t layer_on_first(const bert *p, const bert_layer *l, yk_t x, int64_t n, const tokens *t)
{
    const tokens few = {.rows = t->rows, .width = n, .keep = YK_NO, .pack = YK_NO};
    yk_t first = yk_slice(spread(t, x), 1, 0, n, 1);
    return after_attention(p, l, first, attend(p, l, model_linear_on(l->q, first), x, t), &few);
}

static yk_t embed(const bert *p, const yk_batch *batch)
{
    const int64_t t = yk_dim(batch->input_ids, 1);
    yk_t x = yk_add(yk_embedding(batch->input_ids, p->words, -1), yk_slice(p->positions, 0, 0, t, 1));
    yk_t types = batch->token_type_ids.id ? yk_embedding(batch->token_type_ids, p->types, -1) : yk_slice(p->types, 0, 0, 1, 1);
    return yk_dropout(model_norm_on(p->norm, yk_add(x, types)), p->drop);
}

/* What counts, and the first n tokens of each row. */
static yk_t kept_or_first(const yk_batch *batch, const tokens *t, int64_t n)
{
    yk_job *job = yk_job_of(batch->input_ids);
    float *first = calloc((size_t)t->width + 1, sizeof *first);
    yk_t out;
    if (!first) {
        yk_fail(job, YK_E_MEM, "out of memory for bert");
        return YK_NO;
    }
    for (int64_t i = 0; i < n; i++)
        first[i] = 1;
    out = yk_maximum(yk_cast(t->keep, YK_F32), yk_input(job, YK_F32, 2, (int64_t[]){1, t->width}, first));
    free(first);
    return out;
}

/* Where only the first n tokens of each row are wanted, nobody reads what padding becomes: it is taken out, if this saves an
 * eighth of the tokens at least. What packing moves costs about 3 % of a layer. */
static tokens tokens_of(const bert *p, const yk_batch *batch, int64_t n)
{
    tokens t = {yk_dim(batch->input_ids, 0), yk_dim(batch->input_ids, 1), batch->attention_mask, YK_NO};
    yk_t pack;
    if (!t.keep.id || n >= t.width || p->layers < 2)
        return t;
    pack = kept_or_first(batch, &t, n);
    if (yk_packed(pack) * 8 < t.rows * t.width * 7)
        t.pack = pack;
    return t;
}

/* The last hidden state of the first n tokens of each row: what nobody reads, the last layer does not compute. */
static yk_t hidden(const yk_model *m, const bert *p, const yk_batch *batch, int64_t n)
{
    const int64_t width = yk_dim(batch->input_ids, 1);
    tokens t;
    yk_t x;
    if (width > p->context) {
        char text[128];
        snprintf(text, sizeof text, "bert: %lld tokens in a row, but max_position_embeddings is %lld", (long long)width,
                 (long long)p->context);
        yk_fail(m->job, YK_E_ARG, text);
        return YK_NO;
    }
    t = tokens_of(p, batch, n);
    x = embed(p, batch);
    if (t.pack.id)
        x = yk_pack(x, t.pack);
    for (int64_t i = 0; i + (n < width) < p->layers; i++)
        model_block_begin(m), x = layer_on(p, &p->layer[i], x, &t), model_block_end(m);
    return n < width ? layer_on_first(p, &p->layer[p->layers - 1], x, n, &t) : x;
}

/* tanh of a linear layer on the first token. */
static yk_t pooled(const yk_model *m, const bert *p, const yk_batch *batch)
{
    yk_t first = hidden(m, p, batch, 1);
    return yk_tanh(model_linear_on(p->pooler, yk_reshape(first, 2, (int64_t[]){-1, p->width})));
}

static yk_t classifier_part(yk_model *m, void *net, const yk_batch *batch, const char *name)
{
    const bert *p = net;
    if (!strcmp(name, "embeddings"))
        return embed(p, batch);
    if (!strcmp(name, "last_hidden_state"))
        return hidden(m, p, batch, yk_dim(batch->input_ids, 1));
    if (!strcmp(name, "pooler_output"))
        return pooled(m, p, batch);
    if (strcmp(name, "logits"))
        return YK_NO;
    return model_linear_on(p->classifier, yk_dropout(pooled(m, p, batch), p->head_drop));
}

static yk_t mlm_part(yk_model *m, void *net, const yk_batch *batch, const char *name)
{
    const bert *p = net;
    yk_t x;
    if (!strcmp(name, "embeddings"))
        return embed(p, batch);
    x = hidden(m, p, batch, yk_dim(batch->input_ids, 1));
    if (!strcmp(name, "last_hidden_state"))
        return x;
    if (strcmp(name, "logits"))
        return YK_NO;
    x = model_norm_on(p->mlm_norm, p->act(model_linear_on(p->transform, x)));
    return yk_linear(x, p->words, p->mlm_bias);
}

/* Forward operations for a row of t tokens; the last layer gives n of them. */
static double encoder_flops(const bert *p, int64_t t, int64_t n)
{
    const double w = (double)p->width, all = (double)t, last = (double)n, layers = (double)p->layers;
    const double reading = 2 * 2 * w * w;
    const double rest = reading + 2 * 2 * w * (double)p->inner + 4 * all * w;
    return layers * all * reading + ((layers - 1) * all + last) * rest;
}

static double classifier_flops(const void *net, int64_t t)
{
    const bert *p = net;
    return 3 * (encoder_flops(p, t, 1) + 2.0 * (double)p->width * (double)(p->width + p->classes));
}

static double mlm_flops(const void *net, int64_t t)
{
    const bert *p = net;
    return 3 * (encoder_flops(p, t, t) + 2.0 * (double)t * (double)p->width * (double)(p->width + p->vocab));
}

const model_kind model_bert = {"bert",           "BERT, sequence classifier", "bert", "bert.", MODEL_LABELLED_TEXT,
                               sizeof(bert),     build_classifier,           classifier_part, classifier_flops};
const model_kind model_bert_mlm = {"bert-mlm", "BERT, masked language model", "bert", "bert.", MODEL_MASKED_TEXT,
                                   sizeof(bert), build_mlm,                  mlm_part, mlm_flops};
