/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BERT (Devlin et al. 2018) as a sequence classifier or, with num_labels=1, a regression ("bert") and a masked language model
 * ("bert-mlm"), with the names of Hugging Face's BertForSequenceClassification and BertForMaskedLM.
 * registry.c builds it, and model.c traces it, in the step thread.
 *
 * Keys: vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_act,
 * max_position_embeddings, type_vocab_size, layer_norm_eps, hidden_dropout_prob, attention_probs_dropout_prob,
 * classifier_dropout, initializer_range, num_labels, pad_token_id, problem_type, seq_len (for benchmarks).
 */
#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bert_layer {
    model_linear q, k, v, attention_output, intermediate, output;
    model_norm attention_norm, output_norm;
} bert_layer;

typedef struct bert {
    yk_t word_embeddings, position_embeddings, token_type_embeddings, mlm_bias;
    model_norm norm, mlm_norm;
    bert_layer *layer;
    model_linear pooler, classifier, transform;
    int64_t vocab_size, hidden_size, n_layers, n_heads, intermediate_size, max_positions, n_classes;
    int32_t padding; /* the token that embeddings learn nothing of; -1: none */
    float hidden_dropout, attention_dropout, classifier_dropout, norm_eps;
    model_activation *activation;
    yk_init init;
} bert;

/* transformers' BertConfig has 0 where the key is absent. */
static void read_padding(yk_model *m, bert *net)
{
    net->padding = yk_settings_is_null(m->settings, "pad_token_id") ? -1 : (int32_t)yk_settings_int(m->settings, "pad_token_id", 0);
    if (net->vocab_size && net->padding >= net->vocab_size) {
        char text[128];
        snprintf(text, sizeof text, "bert: pad_token_id=%d: expected a token of the vocabulary, 0 to %lld, or null", (int)net->padding,
                 (long long)net->vocab_size - 1);
        yk_fail(m->job, YK_E_ARG, text);
    }
}

static void read_settings(yk_model *m, bert *net, const yk_data *data)
{
    yk_settings *s = m->settings;
    net->vocab_size = yk_settings_int(s, "vocab_size", data && yk_data_vocab(data) ? yk_data_vocab(data) : 30522);
    read_padding(m, net);
    net->hidden_size = yk_settings_int(s, "hidden_size", 768);
    net->n_layers = yk_settings_int(s, "num_hidden_layers", 12);
    net->n_heads = yk_settings_int(s, "num_attention_heads", 12);
    net->intermediate_size = yk_settings_int(s, "intermediate_size", 4 * net->hidden_size);
    net->max_positions = yk_settings_int(s, "max_position_embeddings", 512);
    net->hidden_dropout = (float)yk_settings_real(s, "hidden_dropout_prob", 0.1);
    net->attention_dropout = (float)yk_settings_real(s, "attention_probs_dropout_prob", 0.1);
    net->classifier_dropout = (float)yk_settings_real(s, "classifier_dropout", (double)net->hidden_dropout);
    net->activation = model_activation_of(m, "hidden_act", "gelu");
    net->init = model_normal(yk_settings_real(s, "initializer_range", 0.02));
    net->n_classes = model_classes(m, data, 2);
    net->norm_eps = model_eps(m, "layer_norm_eps", 1e-12);
    yk_settings_int(s, "seq_len", 0); /* read by benchmarks */
    model_put_int(m, "vocab_size", net->vocab_size);
    model_put_int(m, "hidden_size", net->hidden_size);
    model_put_int(m, "num_hidden_layers", net->n_layers);
    model_put_int(m, "num_attention_heads", net->n_heads);
    model_put_int(m, "intermediate_size", net->intermediate_size);
    model_put_int(m, "max_position_embeddings", net->max_positions);
}

static model_linear encoder_linear(yk_model *m, const bert *net, int64_t layer, const char *name, int64_t in,
                                   int64_t out)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "bert.encoder.layer.%lld.%s", (long long)layer, name);
    return model_linear_new(m, prefix, in, out, true, &net->init);
}

static model_norm encoder_norm(yk_model *m, const bert *net, int64_t layer, const char *name)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "bert.encoder.layer.%lld.%s", (long long)layer, name);
    return model_norm_new(m, prefix, net->hidden_size, true, net->norm_eps);
}

static void layer_new(yk_model *m, bert *net, int64_t i)
{
    bert_layer *l = &net->layer[i];
    const int64_t w = net->hidden_size;
    l->q = encoder_linear(m, net, i, "attention.self.query", w, w);
    l->k = encoder_linear(m, net, i, "attention.self.key", w, w);
    l->v = encoder_linear(m, net, i, "attention.self.value", w, w);
    l->attention_output = encoder_linear(m, net, i, "attention.output.dense", w, w);
    l->attention_norm = encoder_norm(m, net, i, "attention.output.LayerNorm");
    l->intermediate = encoder_linear(m, net, i, "intermediate.dense", w, net->intermediate_size);
    l->output = encoder_linear(m, net, i, "output.dense", net->intermediate_size, w);
    l->output_norm = encoder_norm(m, net, i, "output.LayerNorm");
}

static void layers_free(void *layer)
{
    free(layer);
}

/* Makes embeddings and encoder; false if the settings are impossible. */
static bool build_encoder(yk_model *m, bert *net, const yk_data *data)
{
    read_settings(m, net, data);
    const int64_t types = yk_settings_int(m->settings, "type_vocab_size", 2);
    model_put_int(m, "type_vocab_size", types);
    if (!yk_ok(m->job) || net->n_layers < 1 || net->n_layers > 1000 || net->n_heads < 1 ||
        net->hidden_size % net->n_heads) {
        yk_fail(m->job, YK_E_ARG, "bert: expected num_hidden_layers of 1 to 1000 and a hidden_size that num_attention_heads divides: "
                "change these keys");
        return false;
    }
    net->layer = calloc((size_t)net->n_layers, sizeof *net->layer);
    if (!net->layer) {
        yk_fail(m->job, YK_E_MEM, "out of memory for bert");
        return false;
    }
    yk_on_close(m->job, net->layer, layers_free);
    if (!yk_ok(m->job))
        return false;
    net->word_embeddings = model_param(m, net->init, 2, (int64_t[]){net->vocab_size, net->hidden_size},
                                       "bert.embeddings.word_embeddings.weight");
    net->position_embeddings = model_param(m, net->init, 2, (int64_t[]){net->max_positions, net->hidden_size},
                                           "bert.embeddings.position_embeddings.weight");
    net->token_type_embeddings = model_param(m, net->init, 2, (int64_t[]){types, net->hidden_size},
                                             "bert.embeddings.token_type_embeddings.weight");
    net->norm = model_norm_new(m, "bert.embeddings.LayerNorm", net->hidden_size, true, net->norm_eps);
    for (int64_t i = 0; i < net->n_layers; i++)
        layer_new(m, net, i);
    return true;
}

/* transformers' problem_type: one label means a number, several labels mean classes. */
static void read_problem(yk_model *m, const bert *net)
{
    const char *type = model_word(m->settings, "problem_type", net->n_classes == 1 ? "regression" : "single_label_classification");
    char text[256];
    m->regression = net->n_classes == 1;
    if (!strcmp(type, m->regression ? "regression" : "single_label_classification")) {
        if (m->regression)
            yk_settings_put(m->settings, "problem_type", type);
        return;
    }
    snprintf(text, sizeof text, "bert: problem_type=%.100s with num_labels=%lld: expected regression with 1, single_label_classification "
             "with more", type, (long long)net->n_classes);
    yk_fail(m->job, YK_E_ARG, text);
}

static void build_classifier(yk_model *m, void *object, const yk_data *data)
{
    bert *net = object;
    if (!build_encoder(m, net, data))
        return;
    read_problem(m, net);
    yk_settings_put(m->settings, "architectures", "BertForSequenceClassification");
    net->pooler = model_linear_new(m, "bert.pooler.dense", net->hidden_size, net->hidden_size, true, &net->init);
    net->classifier = model_head_new(m, "classifier", net->hidden_size, net->n_classes, &net->init);
}

static void build_mlm(yk_model *m, void *object, const yk_data *data)
{
    bert *net = object;
    if (!build_encoder(m, net, data))
        return;
    yk_settings_put(m->settings, "architectures", "BertForMaskedLM");
    net->transform =
        model_linear_new(m, "cls.predictions.transform.dense", net->hidden_size, net->hidden_size, true, &net->init);
    net->mlm_norm = model_norm_new(m, "cls.predictions.transform.LayerNorm", net->hidden_size, true, net->norm_eps);
    net->mlm_bias = model_param(m, (yk_init){YK_INIT_ZEROS, 0, 0}, 1, &net->vocab_size, "cls.predictions.bias");
}

/* [B, T, W] to [B, heads, T, D]. */
static yk_t heads_of(const bert *net, yk_t x)
{
    const int64_t b = yk_dim(x, 0), t = yk_dim(x, 1);
    x = yk_reshape(x, 4, (int64_t[]){b, t, net->n_heads, net->hidden_size / net->n_heads});
    return yk_permute(x, (uint32_t[]){0, 2, 1, 3});
}

/* The tokens of a batch and their layout between the layers: [rows, width, ..], or packed. */
typedef struct token_layout {
    int64_t rows, width;
    yk_t keep; /* tokens that serve as keys; YK_NO: all */
    yk_t pack; /* tokens that are packed; YK_NO if not packed */
} token_layout;

static yk_t tokens_unpack(const token_layout *t, yk_t x)
{
    return t->pack.id ? yk_unpack_tokens(x, t->pack) : x;
}

static yk_t tokens_dropout(const token_layout *t, yk_t x, float p)
{
    return t->pack.id ? yk_dropout_packed(x, p, t->pack) : yk_dropout(x, p);
}

/* Attention of the query tokens on all counting tokens. [B, H, n, D] -> [B, n, W] */
static yk_t attention_on(const bert *net, const bert_layer *l, yk_t q, yk_t x, const token_layout *t)
{
    yk_t y = yk_attention(heads_of(net, q), heads_of(net, tokens_unpack(t, model_linear_on(l->k, x))),
                          heads_of(net, tokens_unpack(t, model_linear_on(l->v, x))),
                          &(yk_attention_config){.dropout = net->attention_dropout, .key_keep = t->keep});
    return yk_reshape(yk_permute(y, (uint32_t[]){0, 2, 1, 3}), 3, (int64_t[]){t->rows, yk_dim(q, 1), net->hidden_size});
}

/* The rest of the layer after attention, from the layer's input and attention's result. */
static yk_t feed_forward_on(const bert *net, const bert_layer *l, yk_t x, yk_t y, const token_layout *t)
{
    x = model_norm_on(l->attention_norm,
                      yk_add(x, tokens_dropout(t, model_linear_on(l->attention_output, y), net->hidden_dropout)));
    y = model_linear_on(l->output, net->activation(model_linear_on(l->intermediate, x)));
    return model_norm_on(l->output_norm, yk_add(x, tokens_dropout(t, y, net->hidden_dropout)));
}

static yk_t layer_on(const bert *net, const bert_layer *l, yk_t x, const token_layout *t)
{
    yk_t y = attention_on(net, l, tokens_unpack(t, model_linear_on(l->q, x)), x, t);
    return feed_forward_on(net, l, x, t->pack.id ? yk_pack_tokens(y, t->pack) : y, t);
}

/* The layer's result for the first n tokens of each row only. */
static yk_t layer_on_first(const bert *net, const bert_layer *l, yk_t x, int64_t n, const token_layout *t)
{
    const token_layout few = {.rows = t->rows, .width = n, .keep = YK_NO, .pack = YK_NO};
    yk_t first = yk_slice(tokens_unpack(t, x), 1, 0, n, 1);
    return feed_forward_on(net, l, first, attention_on(net, l, model_linear_on(l->q, first), x, t), &few);
}

/* Sum of the embeddings of tokens, positions and token types (0 if the batch has none): [B, T, W]. */
static yk_t embeddings_on(const bert *net, const yk_batch *batch)
{
    const int64_t t = yk_dim(batch->input_ids, 1);
    yk_t x = yk_add(yk_embedding(batch->input_ids, net->word_embeddings, net->padding),
                    yk_slice(net->position_embeddings, 0, 0, t, 1));
    yk_t types = batch->token_type_ids.id ? yk_embedding(batch->token_type_ids, net->token_type_embeddings, -1)
                                          : yk_slice(net->token_type_embeddings, 0, 0, 1, 1);
    return yk_dropout(model_norm_on(net->norm, yk_add(x, types)), net->hidden_dropout);
}

/* Mask of tokens that count or are among the first n of their row. */
static yk_t kept_or_first(const yk_batch *batch, const token_layout *t, int64_t n)
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

/* Packs the tokens if only the first n of each row are needed, as padding is never read then, and if packing removes at least an
 * eighth of them. Packing itself costs about 3 % of a layer. */
static token_layout tokens_of(const bert *net, const yk_batch *batch, int64_t n)
{
    token_layout t = {yk_dim(batch->input_ids, 0), yk_dim(batch->input_ids, 1), batch->attention_mask, YK_NO};
    yk_t pack;
    if (!t.keep.id || n >= t.width || net->n_layers < 2)
        return t;
    pack = kept_or_first(batch, &t, n);
    if (yk_packed_count(pack) * 8 < t.rows * t.width * 7)
        t.pack = pack;
    return t;
}

/* The last hidden state of the first n tokens of each row; the last layer computes no other tokens. */
static yk_t hidden_states(const yk_model *m, const bert *net, const yk_batch *batch, int64_t n)
{
    const int64_t width = yk_dim(batch->input_ids, 1);
    token_layout t;
    yk_t x;
    if (width > net->max_positions) {
        char text[128];
        snprintf(text, sizeof text, "bert: %lld tokens in a row, but max_position_embeddings is %lld", (long long)width,
                 (long long)net->max_positions);
        yk_fail(m->job, YK_E_ARG, text);
        return YK_NO;
    }
    t = tokens_of(net, batch, n);
    x = embeddings_on(net, batch);
    if (t.pack.id)
        x = yk_pack_tokens(x, t.pack);
    for (int64_t i = 0; i + (n < width) < net->n_layers; i++)
        model_block_begin(m), x = layer_on(net, &net->layer[i], x, &t), model_block_end(m);
    return n < width ? layer_on_first(net, &net->layer[net->n_layers - 1], x, n, &t) : x;
}

/* tanh of a linear layer on the first token. */
static yk_t pooler_output(const yk_model *m, const bert *net, const yk_batch *batch)
{
    yk_t first = hidden_states(m, net, batch, 1);
    return yk_tanh(model_linear_on(net->pooler, yk_reshape(first, 2, (int64_t[]){-1, net->hidden_size})));
}

static yk_t classifier_part(yk_model *m, void *object, const yk_batch *batch, const char *name)
{
    const bert *net = object;
    if (!strcmp(name, "embeddings"))
        return embeddings_on(net, batch);
    if (!strcmp(name, "last_hidden_state"))
        return hidden_states(m, net, batch, yk_dim(batch->input_ids, 1));
    if (!strcmp(name, "pooler_output"))
        return pooler_output(m, net, batch);
    if (strcmp(name, "logits"))
        return YK_NO;
    return model_linear_on(net->classifier, yk_dropout(pooler_output(m, net, batch), net->classifier_dropout));
}

static yk_t mlm_part(yk_model *m, void *object, const yk_batch *batch, const char *name)
{
    const bert *net = object;
    yk_t x;
    if (!strcmp(name, "embeddings"))
        return embeddings_on(net, batch);
    x = hidden_states(m, net, batch, yk_dim(batch->input_ids, 1));
    if (!strcmp(name, "last_hidden_state"))
        return x;
    if (strcmp(name, "logits"))
        return YK_NO;
    x = model_norm_on(net->mlm_norm, net->activation(model_linear_on(net->transform, x)));
    return yk_linear(x, net->word_embeddings, net->mlm_bias);
}

/* Forward operations for a row of t tokens, of which the last layer computes n. */
static double encoder_flops(const bert *net, int64_t t, int64_t n)
{
    const double w = (double)net->hidden_size, all = (double)t, last = (double)n, layers = (double)net->n_layers;
    const double reading = 2 * 2 * w * w;
    const double rest = reading + 2 * 2 * w * (double)net->intermediate_size + 4 * all * w;
    return layers * all * reading + ((layers - 1) * all + last) * rest;
}

static double classifier_flops(const void *object, int64_t t)
{
    const bert *net = object;
    return 3 *
           (encoder_flops(net, t, 1) + 2.0 * (double)net->hidden_size * (double)(net->hidden_size + net->n_classes));
}

static double mlm_flops(const void *object, int64_t t)
{
    const bert *net = object;
    return 3 * (encoder_flops(net, t, t) +
                2.0 * (double)t * (double)net->hidden_size * (double)(net->hidden_size + net->vocab_size));
}

static const char *const classifier_layers[] = {"embeddings.", "encoder.", "pooler.", NULL};
static const char *const mlm_layers[] = {"embeddings.", "encoder.", "cls.predictions.", NULL};

static const char *const tied[][2] = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                                      {"cls.predictions.decoder.bias", "cls.predictions.bias"},
                                      {NULL, NULL}};

/* Models with BERT's layers and other positions, embeddings or heads; a head's name tells where the base's prefix is absent. */
static const char *const relatives[] = {"roberta.",    "electra.", "distilbert.",       "albert.",              "deberta.",
                                        "mpnet.",      "lm_head.", "classifier.dense.", "classifier.out_proj.", "vocab_transform.",
                                        "pre_classifier.", NULL};

const model_kind model_bert = {
    .name = "bert",
    .text = "BERT, sequence classifier",
    .model_type = "bert",
    .prefix = "bert.",
    .relatives = relatives,
    .layers = classifier_layers,
    .numbered = "encoder.layer.#.",
    .input = MODEL_LABELLED_TEXT,
    .net_size = sizeof(bert),
    .blocks = true,
    .build = build_classifier,
    .part = classifier_part,
    .flops = classifier_flops,
};
const model_kind model_bert_mlm = {
    .name = "bert-mlm",
    .text = "BERT, masked language model",
    .model_type = "bert",
    .prefix = "bert.",
    .relatives = relatives,
    .tied = tied,
    .layers = mlm_layers,
    .numbered = "encoder.layer.#.",
    .input = MODEL_MASKED_TEXT,
    .net_size = sizeof(bert),
    .blocks = true,
    .build = build_mlm,
    .part = mlm_part,
    .flops = mlm_flops,
};
