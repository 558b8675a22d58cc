/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The networks of the golden runs in curves/: a model of models/ if there is one, with the case's additions. curves.c makes one for each
 * case, and frees it, in the main thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/golden/golden.h"

struct golden_net {
    yk_job *job;
    yk_model *model;
    char kind[32];
    yk_t late_w, late_b, aux_w, aux_b;
    bool branch, shift, has_aux;
    double aux_weight, smoothing;
    char act[16];
};

static long long attr_int(json_t *m, const char *key)
{
    return json_integer_value(json_object_get(m, key));
}

static double attr_real(json_t *m, const char *key)
{
    return json_number_value(json_object_get(m, key));
}

static const char *attr_text(json_t *m, const char *key)
{
    const char *s = json_string_value(json_object_get(m, key));
    return s ? s : "";
}

static void sizes_list(json_t *a, size_t from, size_t to, char *buf, size_t n)
{
    buf[0] = 0;
    for (size_t i = from; i < to; i++)
        snprintf(buf + strlen(buf), n - strlen(buf), "%s%lld", i > from ? "+" : "",
                 (long long)json_integer_value(json_array_get(a, i)));
}

static yk_t param_zeros(yk_job *job, const char *name, uint32_t dims, int64_t a, int64_t b)
{
    return yk_param(job, name, dims, (int64_t[]){a, b}, (yk_init){YK_INIT_ZEROS, 0, 0});
}

static void make_mlp(golden_net *net, json_t *m)
{
    json_t *sizes = json_object_get(m, "sizes"), *unused = json_object_get(m, "unused");
    const size_t n = json_array_size(sizes);
    const int64_t width = json_integer_value(json_array_get(sizes, 1));
    char hidden[256], config[512];
    sizes_list(sizes, 1, n - 1, hidden, sizeof hidden);
    snprintf(net->act, sizeof net->act, "%s", attr_text(m, "activation"));
    snprintf(config, sizeof config, "input_size=%lld,hidden=%s,num_labels=%lld,hidden_act=%s",
             (long long)json_integer_value(json_array_get(sizes, 0)), hidden,
             (long long)json_integer_value(json_array_get(sizes, n - 1)), net->act);
    net->model = yk_model_new(net->job, "mlp", config, NULL);
    net->branch = json_is_true(json_object_get(m, "branch"));
    if (net->branch) {
        net->late_w = param_zeros(net->job, "late.weight", 2, width, width);
        net->late_b = param_zeros(net->job, "late.bias", 1, width, 0);
    }
    if (unused) {
        const int64_t in = json_integer_value(json_array_get(unused, 0)), out = json_integer_value(json_array_get(unused, 1));
        param_zeros(net->job, "unused.weight", 2, out, in);
        param_zeros(net->job, "unused.bias", 1, out, 0);
    }
}

static void make_resnet(golden_net *net, json_t *m)
{
    char widths[128], config[512];
    json_t *w = json_object_get(m, "widths");
    sizes_list(w, 0, json_array_size(w), widths, sizeof widths);
    snprintf(config, sizeof config,
             "widths=%s,blocks_per_stage=%lld,num_labels=%lld,image_size=%lld,batch_norm_eps=%.17g,batch_norm_momentum=%.17g", widths,
             attr_int(m, "blocks_per_stage"), attr_int(m, "classes"), attr_int(m, "image"), attr_real(m, "batch_norm_eps"),
             attr_real(m, "batch_norm_momentum"));
    net->model = yk_model_new(net->job, "resnet20", config, NULL);
}

static void make_gpt2(golden_net *net, json_t *m)
{
    char config[512];
    const int64_t aux = attr_int(m, "aux_out"), width = attr_int(m, "width");
    snprintf(config, sizeof config,
             "vocab_size=%lld,n_embd=%lld,n_layer=%lld,n_head=%lld,n_positions=%lld,layer_norm_epsilon=%.17g,embd_pdrop=0,"
             "attn_pdrop=0,resid_pdrop=0",
             attr_int(m, "vocab"), (long long)width, attr_int(m, "layers"), attr_int(m, "heads"), attr_int(m, "context"),
             attr_real(m, "layer_norm_eps"));
    net->model = yk_model_new(net->job, "gpt2", config, NULL);
    net->has_aux = !strcmp(net->kind, "gpt2_aux");
    if (net->has_aux) {
        net->aux_w = param_zeros(net->job, "aux.weight", 2, aux, width);
        net->aux_b = param_zeros(net->job, "aux.bias", 1, aux, 0);
    }
}

static void make_bert(golden_net *net, json_t *m)
{
    char config[512];
    snprintf(config, sizeof config,
             "vocab_size=%lld,hidden_size=%lld,num_hidden_layers=%lld,num_attention_heads=%lld,intermediate_size=%lld,"
             "max_position_embeddings=%lld,layer_norm_eps=%.17g,hidden_dropout_prob=0,attention_probs_dropout_prob=0%s",
             attr_int(m, "vocab"), attr_int(m, "hidden"), attr_int(m, "layers"), attr_int(m, "heads"), attr_int(m, "intermediate"),
             attr_int(m, "context"), attr_real(m, "layer_norm_eps"), "");
    if (attr_int(m, "classes"))
        snprintf(config + strlen(config), sizeof config - strlen(config), ",num_labels=%lld", attr_int(m, "classes"));
    net->model = yk_model_new(net->job, !strcmp(net->kind, "bert_mlm") ? "bert-mlm" : "bert", config, NULL);
}

golden_net *golden_net_new(yk_job *job, json_t *spec)
{
    json_t *m = json_object_get(spec, "model"), *loss = json_object_get(spec, "loss");
    golden_net *net = calloc(1, sizeof *net);
    if (!net)
        return NULL;
    net->job = job;
    snprintf(net->kind, sizeof net->kind, "%s", attr_text(m, "kind"));
    net->shift = json_is_true(json_object_get(loss, "shift_labels"));
    net->smoothing = attr_real(loss, "label_smoothing");
    net->aux_weight = attr_real(loss, "aux_weight");
    if (!strcmp(net->kind, "mlp"))
        make_mlp(net, m);
    else if (!strcmp(net->kind, "resnet"))
        make_resnet(net, m);
    else if (!strncmp(net->kind, "gpt2", 4))
        make_gpt2(net, m);
    else if (!strncmp(net->kind, "bert", 4))
        make_bert(net, m);
    if (net->model)
        return net;
    free(net);
    return NULL;
}

void golden_net_free(golden_net *net)
{
    free(net);
}

static yk_t param_named(const golden_net *net, const char *name)
{
    return yk_param_find(net->job, name);
}

static yk_t net_activate(const golden_net *net, yk_t x)
{
    if (!strcmp(net->act, "relu"))
        return yk_relu(x);
    return !strcmp(net->act, "gelu") ? yk_gelu(x) : !strcmp(net->act, "silu") ? yk_silu(x) : yk_tanh(x);
}

/* The branch: h += tanh(late(h)) / 2 after fc1, in micro batches that have it. */
static yk_t net_branch(const golden_net *net, yk_t x, bool branch)
{
    yk_t h = net_activate(net, yk_linear(x, param_named(net, "fc1.weight"), param_named(net, "fc1.bias")));
    if (branch)
        h = yk_add(h, yk_scale(yk_tanh(yk_linear(h, net->late_w, net->late_b)), 0.5f));
    return yk_linear(h, param_named(net, "fc2.weight"), param_named(net, "fc2.bias"));
}

static yk_t ids_input(const golden_net *net, const golden_rows *r, const int32_t *ids)
{
    return ids ? yk_input(net->job, YK_I32, 2, (int64_t[]){r->rows, r->tokens}, ids) : YK_NO;
}

yk_t golden_net_logits(golden_net *net, const golden_rows *r, yk_t *aux)
{
    yk_batch b = {.rows = r->rows, .global_rows = r->global, .width = r->tokens};
    *aux = YK_NO;
    if (!strcmp(net->kind, "mlp") || !strcmp(net->kind, "resnet")) {
        const int64_t in = yk_dim(param_named(net, net->kind[0] == 'm' ? "fc1.weight" : "conv1.weight"), 1);
        const int64_t dim[4] = {r->rows, in, r->tokens, r->tokens}; /* tokens: here the side of the image */
        b.x = yk_input(net->job, YK_F32, net->kind[0] == 'm' ? 2 : 4, dim, r->x);
        return net->branch ? net_branch(net, b.x, r->branch) : yk_forward(net->model, &b);
    }
    b.input_ids = ids_input(net, r, r->ids);
    b.attention_mask = ids_input(net, r, r->mask);
    b.token_type_ids = ids_input(net, r, r->types);
    if (net->has_aux) {
        yk_t hidden = yk_model_part(net->model, &b, "last_hidden_state");
        *aux = yk_linear(hidden, net->aux_w, net->aux_b);
        return yk_linear(hidden, param_named(net, "transformer.wte.weight"), YK_NO);
    }
    return yk_forward(net->model, &b);
}

yk_t golden_net_loss(golden_net *net, const golden_rows *r, yk_t logits, yk_t aux)
{
    const yk_cross_entropy_config c = {.smoothing = (float)net->smoothing};
    const bool per_token = yk_dims(logits) == 3;
    yk_t labels, loss, aux_target;
    if (net->shift) { /* position t predicts token t + 1 */
        yk_t ids = ids_input(net, r, r->ids);
        logits = yk_slice(logits, 1, 0, r->tokens - 1, 1);
        labels = yk_slice(ids, 1, 1, -1, 1);
    } else {
        labels = yk_input(net->job, YK_I32, per_token ? 2 : 1, (int64_t[]){r->rows, r->tokens}, r->labels);
    }
    loss = yk_cross_entropy_with(logits, labels, &c);
    if (!aux.id)
        return loss;
    aux_target = yk_input(net->job, YK_F32, 3, (int64_t[]){r->rows, r->tokens, r->aux_width}, r->aux_target);
    return yk_add(loss, yk_scale(yk_mse_loss(aux, aux_target, NULL), (float)net->aux_weight));
}
