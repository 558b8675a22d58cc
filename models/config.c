/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a config.json. A builder reads the keys that it computes by. Some further keys have only one legal value here (rules). Some
 * change nothing in training (harmless: from transformers' PreTrainedConfig, BertConfig, GPT2Config, and older versions, as published
 * folders have them). A key in no table is named in one line. registry.c checks keys in the step thread.
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

/* The only legal value of a key for a kind of model, or for a model_type. */
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

/* True if the key has the rule's value; an absent key does. */
static bool rule_holds(const config_rule *r, yk_settings *s)
{
    const bool yes = !strcmp(r->only, "true");
    if (yes || !strcmp(r->only, "false"))
        return yk_settings_bool(s, r->key, yes) == yes;
    return !strcmp(model_word(s, r->key, r->only), r->only);
}

/* transformers' aliases of GPT-2's own names. */
static const char *const aliases[][2] = {{"hidden_size", "n_embd"}, {"max_position_embeddings", "n_positions"},
                                         {"num_attention_heads", "n_head"}, {"num_hidden_layers", "n_layer"}};

static void aliases_take(yk_job *job, yk_settings *s)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        const char *const other = aliases[i][0], *const own = aliases[i][1];
        if (!yk_settings_has(s, other))
            continue;
        if (!yk_settings_has(s, own))
            yk_settings_put(s, own, yk_settings_text(s, other, ""));
        else if (strcmp(yk_settings_text(s, own, ""), yk_settings_text(s, other, "")) != 0)
            model_fail(job, YK_E_ARG, "model gpt2: %s=%.40s and %s=%.40s are two names of one setting: expected one of them", own,
                       yk_settings_text(s, own, ""), other, yk_settings_text(s, other, ""));
    }
}

/* Keys by which transformers computes, so that null is an error there. */
static const char *const needed[] = {
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings",
    "type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps", "hidden_act", "n_positions", "n_embd",
    "n_layer", "n_head", "embd_pdrop", "attn_pdrop", "resid_pdrop", "layer_norm_epsilon", "activation_function"};

bool model_config_check(yk_job *job, const model_kind *kind, yk_settings *s)
{
    if (!strcmp(kind->model_type, "gpt2"))
        aliases_take(job, s);
    for (size_t i = 0; i < sizeof needed / sizeof needed[0] && yk_ok(job); i++)
        if (yk_settings_is_null(s, needed[i]))
            model_fail(job, YK_E_ARG, "model %s: config.json: %s: expected a value, found null", kind->name, needed[i]);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0] && yk_ok(job); i++)
        if (rule_is_for(&rules[i], kind) && !rule_holds(&rules[i], s))
            model_fail(job, YK_E_ARG, "model %s has %s=%.100s only, and the configuration says %.100s: it would compute something "
                       "else", kind->name, rules[i].key, rules[i].only, model_word(s, rules[i].key, ""));
    return yk_ok(job);
}

/* Model types: architectures whose weights a model takes completely, or starts from with a new head. */
static const struct head_rule {
    const char *model_type, *heads;
} heads[] = {
    {"gpt2", "GPT2LMHeadModel, GPT2Model"},
    {"bert", "BertForSequenceClassification, BertForMaskedLM, BertLMHeadModel, BertForPreTraining, BertModel"},
};

static bool key_in(const char *const *list, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], key))
            return true;
    return false;
}

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
    if (yk_settings_has(s, "architectures") && !yk_settings_text(s, "architectures", NULL))
        model_fail(job, YK_E_ARG, "%.200s: architectures: expected a list of names", path);
    for (size_t i = 0; *head && i < sizeof heads / sizeof heads[0]; i++) {
        if (strcmp(heads[i].model_type, type) != 0 || is_in_list(heads[i].heads, head, strlen(head)))
            continue;
        model_fail(job, YK_E_ARG, "%.200s: architectures \"%.100s\" is a head that Yoke has not: of model_type %s it opens %s; the "
                   "folder of a base (%sModel, save_pretrained) opens without the head", path, head, type, heads[i].heads,
                   strcmp(type, "gpt2") ? "Bert" : "GPT2");
        return false;
    }
    return yk_ok(job);
}

/* Keys whose value, unless it is empty, makes transformers compute by other layers than any builder here. */
static const char *const emptied[] = {"pruned_heads"};

bool model_keys_check(yk_job *job, const char *path, yk_settings *s)
{
    const char *key;
    for (uint32_t i = 0; yk_ok(job) && (key = yk_settings_unread(s, &i)) != NULL;)
        if (key_in(emptied, sizeof emptied / sizeof emptied[0], key))
            model_fail(job, YK_E_ARG, "%.200s: %s is not empty, which Yoke does not support: take a folder whose layers are whole", path,
                       key);
    return yk_ok(job);
}

/* ---- Keys that no builder reads ---- */

static const char *const harmless[] = {
    /* Yoke's own keys, and names */
    "yoke_model", "model_type", "architectures", "transformers_version", "_name_or_path", "name_or_path", "model_name", "auto_map",
    "_commit_hash", "tokenizer_class", "finetuning_task", "task_specific_params", "id2label", "label2id", "num_labels", "_num_labels",
    "problem_type", "seq_len", "yoke_max_length", "yoke_seq_len", "yoke_mean", "yoke_std",
    /* storage of numbers (quantized.c refuses some) and return values of a call */
    "quantization_config", "compression_config", "quantization",
    "dtype", "torch_dtype", "use_bfloat16", "torchscript", "gradient_checkpointing", "use_cache", "output_past", "output_attentions",
    "output_hidden_states", "return_dict", "chunk_size_feed_forward", "reorder_and_upcast_attn", "attn_implementation",
    "_attn_implementation",
    "_attn_implementation_autoset", "_attn_implementation_internal", "experts_implementation", "tf_legacy_loss",
    "keys_to_ignore_at_inference", "initializer_range", "tie_word_embeddings", "tie_encoder_decoder", "cross_attention_hidden_size",
    "is_decoder", "is_encoder_decoder", "add_cross_attention",
    /* heads that Yoke lacks, and pooler settings of the first BERT files */
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "predict_special_tokens",
    "pruned_heads", "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
    "pooler_type", "n_ctx",
    /* ids of tokens, which the tokenizer has too, and generation */
    "bos_token_id", "eos_token_id", "pad_token_id" /* BERT's is read */, "sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id",
    "decoder_start_token_id", "prefix", "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores", "return_dict_in_generate",
    "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens"};

void model_config_rest(yk_job *job, const model_kind *kind, yk_settings *s)
{
    char unknown[400] = "";
    const char *key;
    for (uint32_t i = 0; (key = yk_settings_unread(s, &i)) != NULL;) {
        if (!key_in(harmless, sizeof harmless / sizeof harmless[0], key) && strlen(unknown) + strlen(key) + 3 < sizeof unknown)
            snprintf(unknown + strlen(unknown), sizeof unknown - strlen(unknown), "%s%s", *unknown ? ", " : "", key);
    }
    if (*unknown)
        yk_warn(job, "config.json: keys that model %s does not know, which change nothing: %s", kind->name, unknown);
}
