/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a config.json may say that these models do not compute. Of all keys of transformers' GPT2Config and BertConfig those that change
 * the forward pass are either read by the builders or stand here; the rest (summary_*, use_cache, token ids, reorder_and_upcast_attn,
 * chunk_size_feed_forward, ..) changes nothing in it.
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

/* The only value of a key that a kind of model has, or a model_type. */
typedef struct config_rule {
    const char *model, *key, *only;
} config_rule;

static const config_rule rules[] = {
    {"gpt2", "tie_word_embeddings", "true"},
    {"gpt2", "scale_attn_weights", "true"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false"},
    {"gpt2", "add_cross_attention", "false"},
    {"gpt2", "is_encoder_decoder", "false"},
    {"bert-mlm", "tie_word_embeddings", "true"},
    {"bert", "is_decoder", "false"},
    {"bert", "add_cross_attention", "false"},
    {"bert", "is_encoder_decoder", "false"},
    {"bert", "position_embedding_type", "absolute"},
};

static bool rule_is_for(const config_rule *r, const model_kind *kind)
{
    return !strcmp(r->model, kind->name) || !strcmp(r->model, kind->model_type);
}

/* A key that is not there has that value. */
static bool rule_holds(const config_rule *r, yk_settings *s)
{
    const bool yes = !strcmp(r->only, "true");
    if (yes || !strcmp(r->only, "false"))
        return yk_settings_bool(s, r->key, yes) == yes;
    return !strcmp(yk_settings_text(s, r->key, r->only), r->only);
}

bool model_config_check(yk_job *job, const model_kind *kind, yk_settings *s)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0] && yk_ok(job); i++)
        if (rule_is_for(&rules[i], kind) && !rule_holds(&rules[i], s))
            model_fail(job, YK_E_ARG, "model %s has %s=%.100s only, and the configuration says %.100s: it would compute something "
                       "else", kind->name, rules[i].key, rules[i].only, yk_settings_text(s, rules[i].key, ""));
    return yk_ok(job);
}

/* Whose weights a model of that type takes whole, or begins from with a head of its own. */
static const struct head_rule {
    const char *model_type, *heads;
} heads[] = {
    {"gpt2", "GPT2LMHeadModel, GPT2Model"},
    {"bert", "BertForSequenceClassification, BertForMaskedLM, BertLMHeadModel, BertForPreTraining, BertModel"},
};

static bool is_in_list(const char *list, const char *word, size_t n)
{
    for (const char *p = strstr(list, word); n && p; p = strstr(p + 1, word))
        if ((p == list || p[-1] == ' ') && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

bool model_head_check(yk_job *job, const char *path, yk_settings *s)
{
    const char *type = yk_settings_text(s, "model_type", ""), *head = yk_settings_text(s, "architectures", "");
    for (size_t i = 0; *head && i < sizeof heads / sizeof heads[0]; i++) {
        if (strcmp(heads[i].model_type, type) != 0 || is_in_list(heads[i].heads, head, strlen(head)))
            continue;
        model_fail(job, YK_E_ARG, "%.200s: architectures \"%.100s\" is a head that Yoke has not: of model_type %s it opens %s; the "
                   "folder of a base (%sModel, save_pretrained) opens without the head", path, head, type, heads[i].heads,
                   strcmp(type, "gpt2") ? "Bert" : "GPT2");
        return false;
    }
    return true;
}
