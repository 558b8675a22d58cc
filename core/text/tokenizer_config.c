/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files beside a tokenizer's vocabulary: tokenizer_config.json, special_tokens_map.json, added_tokens.json, and the model_type of
 * config.json. The class that a file names gives the rules for them, as in transformers 5.24. BertTokenizer and GPT2Tokenizer take only the
 * vocabulary of tokenizer.json, PreTrainedTokenizerFast takes the file as it stands.
 *
 * tokenizer_load.c calls yk__tok_settings_read before it reads a vocabulary, and yk__tok_settings_apply behind it. Both run in the
 * thread that opens the tokenizer. A tokenizer.json by itself gets yk__tok_settings_apply alone.
 */
#define _GNU_SOURCE /* strcasestr */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "core/text/source.h"

/* ---- Known keys ---- */

enum key_kind {
    KEY_FLAG,  /* honoured: true or false */
    KEY_TOKEN, /* honoured: a token, or null */
    KEY_NAME,  /* honoured: a name, read by its own function */
    KEY_LIST,  /* honoured: a list, read by its own function */
    KEY_MAP,   /* honoured: an object, read by its own function */
    KEY_EXTRA, /* honoured: a list of tokens, or an object of them */
    KEY_FREE,  /* changes no id */
    KEY_ONLY   /* one value is built; the text is its JSON */
};

static const struct config_key {
    const char *key;
    enum key_kind kind;
    const char *only;
} known_keys[] = {
    {"tokenizer_class", KEY_NAME, NULL},
    {"do_lower_case", KEY_FLAG, NULL},
    {"strip_accents", KEY_FLAG, NULL},
    {"tokenize_chinese_chars", KEY_FLAG, NULL},
    {"add_prefix_space", KEY_FLAG, NULL},
    {"add_bos_token", KEY_FLAG, NULL},
    {"add_eos_token", KEY_FLAG, NULL},
    {"split_special_tokens", KEY_FLAG, NULL},
    {"bos_token", KEY_TOKEN, NULL},
    {"eos_token", KEY_TOKEN, NULL},
    {"unk_token", KEY_TOKEN, NULL},
    {"sep_token", KEY_TOKEN, NULL},
    {"pad_token", KEY_TOKEN, NULL},
    {"cls_token", KEY_TOKEN, NULL},
    {"mask_token", KEY_TOKEN, NULL},
    {"additional_special_tokens", KEY_EXTRA, NULL},
    {"extra_special_tokens", KEY_EXTRA, NULL},
    {"model_specific_special_tokens", KEY_MAP, NULL},
    {"added_tokens_decoder", KEY_MAP, NULL},
    {"truncation_side", KEY_NAME, NULL},
    {"padding_side", KEY_NAME, NULL},
    {"model_input_names", KEY_LIST, NULL},
    /* transformers 4 had these, 5 does not */
    {"clean_text", KEY_ONLY, "true"},
    {"wordpieces_prefix", KEY_ONLY, "\"##\""},
    {"never_split", KEY_FREE, NULL},
    {"do_basic_tokenize", KEY_FREE, NULL},
    /* another file, or arguments by place */
    {"fast_tokenizer_files", KEY_ONLY, "[]"},
    {"init_inputs", KEY_ONLY, "[]"},
    /* lengths belong to the data (max-length) */
    {"model_max_length", KEY_FREE, NULL},
    {"max_len", KEY_FREE, NULL},
    {"max_length", KEY_FREE, NULL},
    {"stride", KEY_FREE, NULL},
    {"truncation_strategy", KEY_FREE, NULL},
    {"truncation", KEY_FREE, NULL},
    {"padding", KEY_FREE, NULL},
    {"pad_to_multiple_of", KEY_FREE, NULL},
    {"pad_token_type_id", KEY_ONLY, "0"},
    /* ids to text, chats, names */
    {"clean_up_tokenization_spaces", KEY_FREE, NULL},
    {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", KEY_FREE, NULL},
    {"errors", KEY_FREE, NULL},
    {"trim_offsets", KEY_FREE, NULL},
    {"spaces_between_special_tokens", KEY_FREE, NULL},
    {"chat_template", KEY_FREE, NULL},
    {"chat_control_tokens", KEY_FREE, NULL},
    {"response_schema", KEY_FREE, NULL},
    {"response_template", KEY_FREE, NULL},
    {"use_fast", KEY_FREE, NULL},
    {"from_slow", KEY_FREE, NULL},
    {"legacy", KEY_FREE, NULL},
    {"backend", KEY_FREE, NULL},
    {"verbose", KEY_FREE, NULL},
    {"is_local", KEY_FREE, NULL},
    {"local_files_only", KEY_FREE, NULL},
    {"name_or_path", KEY_FREE, NULL},
    {"processor_class", KEY_FREE, NULL},
    {"image_processor_type", KEY_FREE, NULL},
    {"feature_extractor_type", KEY_FREE, NULL},
    {"tokenizer_file", KEY_FREE, NULL},
    {"vocab_file", KEY_FREE, NULL},
    {"merges_file", KEY_FREE, NULL},
    {"full_tokenizer_file", KEY_FREE, NULL},
    {"special_tokens_map_file", KEY_FREE, NULL},
    {"files_loaded", KEY_FREE, NULL},
    {"auto_map", KEY_FREE, NULL},
    {"transformers_version", KEY_FREE, NULL},
    {"tokenizer_type", KEY_FREE, NULL},
    {"device_map", KEY_FREE, NULL},
    {"trust_remote_code", KEY_FREE, NULL},
    {"_commit_hash", KEY_FREE, NULL},
};

static const struct config_key *key_find(const char *key)
{
    for (size_t i = 0; i < sizeof known_keys / sizeof known_keys[0]; i++)
        if (!strcmp(known_keys[i].key, key))
            return &known_keys[i];
    return NULL;
}

static yk_status only_check(const struct tok_source *src, const struct config_key *known, const json_t *v, yk_error *err)
{
    char *text = yk__json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT);
    yk_status s = YK_OK;
    if (!text)
        return yk__fail_mem(err, 64, "a value");
    if (!json_is_null(v) && strcmp(text, known->only) != 0)
        s = yk__tok_refuse(src, known->key, text, err);
    yk__free(text);
    return s;
}

static bool is_token_key(const char *key, const json_t *v)
{
    const size_t n = strlen(key);
    return n > 6 && !strcmp(key + n - 6, "_token") && (json_is_string(v) || json_is_object(v));
}

/* True if a value that is read has a type that its reader takes. */
static bool is_of_kind(enum key_kind kind, const json_t *v)
{
    switch (kind) {
    case KEY_FLAG: return json_is_boolean(v);
    case KEY_TOKEN: return json_is_string(v) || json_is_object(v);
    case KEY_NAME: return json_is_string(v);
    case KEY_LIST: return json_is_array(v);
    case KEY_MAP: return json_is_object(v);
    case KEY_EXTRA: return json_is_array(v) || json_is_object(v);
    default: return true;
    }
}

static yk_status key_check(const struct tok_source *src, const char *key, const json_t *v, yk_error *err)
{
    static const char *const expected[] = {[KEY_FLAG] = "true or false", [KEY_TOKEN] = "a token", [KEY_NAME] = "a name",
                                           [KEY_LIST] = "a list",        [KEY_MAP] = "an object", [KEY_EXTRA] = "a list or an object"};
    const struct config_key *known = key_find(key);
    if (!known && is_token_key(key, v))
        return YK_OK;
    if (!known)
        return yk__tok_note(src, err, "%s: the key '%.60s' is not known and changes nothing", src->path, key);
    if (known->kind == KEY_ONLY)
        return only_check(src, known, v, err);
    if (!json_is_null(v) && !is_of_kind(known->kind, v))
        return yk__fail(err, YK_E_FORMAT, "%s: %s: expected %s, found %s", src->path, key, expected[known->kind], yk__json_type(v));
    return YK_OK;
}

static yk_status keys_check(struct tok_source *src, yk_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(src->config, key, v)
        if (key_check(src, key, v, err))
            return err->status;
    return YK_OK;
}

/* special_tokens_map.json holds only tokens. */
static yk_status map_check(struct tok_source *src, yk_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(src->map, key, v)
    {
        const struct config_key *known = key_find(key);
        const bool list = !strcmp(key, "additional_special_tokens") || !strcmp(key, "extra_special_tokens");
        if (!list && !(known && known->kind == KEY_TOKEN) && !is_token_key(key, v))
            return yk__tok_refuse(src, "the key", key, err);
        if (known && key_check(src, key, v, err))
            return err->status;
    }
    return YK_OK;
}

/* ---- Reading ---- */

yk_status yk__tok_path(struct tok_source *src, const char *name, int *there, yk_error *err)
{
    char *path = yk__format("%s/%s", src->dir, name);
    if (!path)
        return yk__fail_mem(err, strlen(src->dir), "a path");
    yk__free(src->path);
    src->path = path;
    *there = access(src->path, F_OK) == 0;
    return YK_OK;
}

yk_status yk__tok_refuse(const struct tok_source *src, const char *key, const char *value, yk_error *err)
{
    return yk__fail(err, YK_E_UNSUPPORTED, "%s: %s '%.60s' is not supported", src->path, key, value ? value : "(none)");
}

yk_status yk__tok_note(const struct tok_source *src, yk_error *err, const char *fmt, ...)
{
    char line[1024], *notes;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    yk__printable(line);
    notes = src->t->notes ? yk__format("%s\n%s", src->t->notes, line) : yk__strdup(line);
    if (!notes)
        return yk__fail_mem(err, sizeof line, "a line");
    yk__free(src->t->notes);
    src->t->notes = notes;
    return YK_OK;
}

static yk_status file_read(struct tok_source *src, const char *name, json_t **out, yk_error *err)
{
    int there;
    if (yk__tok_path(src, name, &there, err) || (there && yk__json_load(src->path, YK__JSON_ANY | YK__JSON_UNIQUE_KEYS, out, err)))
        return err->status;
    return !there || json_is_object(*out) ? YK_OK
                                          : yk__fail(err, YK_E_FORMAT, "%s: expected an object, found %s", src->path, yk__json_type(*out));
}

/* ---- The class ---- */

/* Further names of the same rules in transformers 5.24, and the classes that a model_type implies. */
static const struct class_name {
    const char *name;
    enum tok_class class;
} class_names[] = {
    {"BertTokenizer", TOK_CLASS_BERT},        {"DistilBertTokenizer", TOK_CLASS_BERT},      {"ElectraTokenizer", TOK_CLASS_BERT},
    {"MobileBertTokenizer", TOK_CLASS_BERT},  {"SqueezeBertTokenizer", TOK_CLASS_BERT},     {"ConvBertTokenizer", TOK_CLASS_BERT},
    {"LayoutLMTokenizer", TOK_CLASS_BERT},    {"LxmertTokenizer", TOK_CLASS_BERT},          {"GPT2Tokenizer", TOK_CLASS_GPT2},
    {"PreTrainedTokenizer", TOK_CLASS_PLAIN}, {"TokenizersBackend", TOK_CLASS_PLAIN},       {"PythonBackend", TOK_CLASS_PLAIN}};

static const struct class_name model_types[] = {{"bert", TOK_CLASS_BERT},     {"distilbert", TOK_CLASS_BERT}, {"electra", TOK_CLASS_BERT},
                                                {"convbert", TOK_CLASS_BERT}, {"gpt2", TOK_CLASS_GPT2},       {"gpt_neo", TOK_CLASS_GPT2},
                                                {"gptj", TOK_CLASS_GPT2}};

/* Classes of transformers 5.24 that have rules of their own, without "Tokenizer". For an unknown name tokenizer.json is read as it
 * stands. */
static const char other_rules[] =
    " Albert Bart Barthez Bartpho BertJapanese Bertweet BigBird BioGpt BlenderbotSmall Blenderbot ByT5 CLIP CTRL Camembert Canine Clvp "
    "CodeLlama Cohere CpmAnt Cpm DPRQuestionEncoder Deberta DebertaV2 Dia Esm Esmc FNet FSMT Flaubert Funnel GPTNeoXJapanese GPTNeoX Gemma "
    "Herbert LED Lasr LayoutLMv2 LayoutLMv3 LayoutXLM Llama Luke MBart50 MBart MPNet MarkupLM Mgpstr Mvp MyT5 Nllb Nougat OpenAIGPT PLBart "
    "Parakeet Pegasus Perceiver Phobert ProphetNet Qwen2 Qwen3_5 Rag Reformer RemBert RoCBert RoFormer Roberta SeamlessM4T Siglip2 "
    "Splinter T5 Tapas Udop VideoPrism Vits Wav2Vec2CTC Wav2Vec2PhonemeCTC Whisper XGLM XLMRoberta XLM XLNet ";

/* Compares the name of the class, or a model_type such as "xlm-roberta". */
bool yk__tok_class_has_rules(const char *name)
{
    const char *end = strstr(name, "Tokenizer");
    const size_t n = end ? (size_t)(end - name) : strlen(name);
    char word[64];
    size_t k = 0;
    for (size_t i = 0; i < n && k < sizeof word - 3; i++)
        if (name[i] != '-' && name[i] != '_')
            word[++k] = name[i];
    word[0] = word[k + 1] = ' ';
    word[k + 2] = 0;
    return k && strcasestr(other_rules, word) != NULL;
}

static enum tok_class class_of_name(const char *name)
{
    const size_t n = strlen(name), cut = n > 4 && !strcmp(name + n - 4, "Fast") ? n - 4 : n;
    for (size_t i = 0; i < sizeof class_names / sizeof class_names[0]; i++)
        if (strlen(class_names[i].name) == cut && !strncmp(class_names[i].name, name, cut))
            return class_names[i].class;
    return TOK_CLASS_OTHER;
}

static enum tok_class class_of_model(const char *type)
{
    for (size_t i = 0; i < sizeof model_types / sizeof model_types[0]; i++)
        if (!strcmp(model_types[i].name, type))
            return model_types[i].class;
    return TOK_CLASS_OTHER;
}

static yk_status class_set(struct tok_source *src, const char *file, const char *name, enum tok_class class, yk_error *err)
{
    src->class = class;
    src->class_file = file;
    src->class_name = yk__strdup(name);
    return src->class_name ? YK_OK : yk__fail_mem(err, strlen(name), "a name");
}

/* Finds the class: tokenizer_config.json's, else config.json's, else the one that the latter's model_type implies. */
static yk_status class_choose(struct tok_source *src, const json_t *model, yk_error *err)
{
    const yk__json_part part = {model, src->path, NULL};
    const char *name = json_string_value(json_object_get(src->config, "tokenizer_class")), *type = NULL, *implied = NULL;
    src->ours = json_object_get(model, "yoke_model") != NULL;
    src->vocab_size = json_integer_value(json_object_get(model, "vocab_size"));
    if (yk__json_string(&part, "model_type", &type, err) || yk__json_string(&part, "tokenizer_class", &implied, err))
        return err->status;
    if (name)
        return class_set(src, "tokenizer_config.json", name, class_of_name(name), err);
    if (implied)
        return class_set(src, "config.json", implied, class_of_name(implied), err);
    const enum tok_class class = type ? class_of_model(type) : TOK_CLASS_NONE;
    if (type && class != TOK_CLASS_OTHER)
        type = class == TOK_CLASS_BERT ? "BertTokenizer" : "GPT2Tokenizer";
    return type ? class_set(src, "config.json", type, class, err) : YK_OK;
}

static yk_status class_read(struct tok_source *src, yk_error *err)
{
    json_t *model = NULL;
    yk_status s = file_read(src, "config.json", &model, err);
    if (!s)
        s = class_choose(src, model, err);
    json_decref(model);
    return s;
}

yk_status yk__tok_settings_read(struct tok_source *src, yk_error *err)
{
    if (file_read(src, "special_tokens_map.json", &src->map, err) || map_check(src, err) ||
        file_read(src, "added_tokens.json", &src->added, err) || file_read(src, "tokenizer_config.json", &src->config, err) ||
        keys_check(src, err))
        return err->status;
    return class_read(src, err);
}

void yk__tok_settings_free(struct tok_source *src)
{
    json_decref(src->config);
    json_decref(src->map);
    json_decref(src->added);
    yk__free(src->class_name);
    yk__free(src->path);
}

/* ---- Using them ---- */

bool yk__tok_setting_given(const struct tok_source *src, const char *key)
{
    const json_t *v = json_object_get(src->config, key);
    return v && !json_is_null(v);
}

int yk__tok_setting_flag(const struct tok_source *src, const char *key, int preset)
{
    return yk__tok_setting_given(src, key) ? json_is_true(json_object_get(src->config, key)) : preset;
}

void yk__tok_bert_settings(const struct tok_source *src)
{
    yk__tokenizer *tok = src->t;
    tok->lowercase = src->lowercase >= 0 ? src->lowercase : yk__tok_setting_flag(src, "do_lower_case", 1);
    tok->strip_accents = yk__tok_setting_flag(src, "strip_accents", tok->lowercase);
    tok->chinese = yk__tok_setting_flag(src, "tokenize_chinese_chars", 1);
    tok->clean = 1;
}

/* preset: tokenizer.json's, which counts if the key is absent. */
static yk_status side_read(struct tok_source *src, const char *key, bool preset, int *left, yk_error *err)
{
    const json_t *v = json_object_get(src->config, key);
    const char *side = json_string_value(v);
    *left = v ? side && !strcmp(side, "left") : preset;
    return !v || json_is_null(v) || *left || (side && !strcmp(side, "right")) ? YK_OK : yk__tok_refuse(src, key, side, err);
}

/* Without the mask transformers' models attend to padding too, which no model here does. */
static yk_status inputs_check(const struct tok_source *src, yk_error *err)
{
    const json_t *v = json_object_get(src->config, "model_input_names");
    bool mask = !v || json_is_null(v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        if (!name)
            return yk__tok_refuse(src, "model_input_names", yk__json_type(json_array_get(v, i)), err);
        mask |= !strcmp(name, "attention_mask");
    }
    return mask ? YK_OK : yk__tok_refuse(src, "model_input_names", "without attention_mask", err);
}

/* A token's id by the key of the files, else by one of the usual names. */
static int32_t token_of(const struct tok_source *src, const char *key, const char *usual, const char *other)
{
    const int32_t named = yk__tok_token_id(src, yk__tok_setting_token(src, key, NULL));
    return named >= 0 ? named : yk__tok_token_id(src, usual) >= 0 ? yk__tok_token_id(src, usual) : yk__tok_token_id(src, other);
}

/* add_bos_token and add_eos_token need the tokens that they add. */
static yk_status ends_check(struct tok_source *src, yk_error *err)
{
    static const char *const ends[][2] = {{"add_bos_token", "bos_token"}, {"add_eos_token", "eos_token"}};
    for (size_t i = 0; i < 2; i++) {
        const char *preset = src->class == TOK_CLASS_GPT2 ? "<|endoftext|>" : NULL;
        if (!yk__tok_setting_flag(src, ends[i][0], 0) || yk__tok_setting_token(src, ends[i][1], preset))
            continue;
        return yk__fail(err, YK_E_FORMAT, "%s/tokenizer_config.json: %s is true, and no %s is given: name the token, or write false",
                        src->dir, ends[i][0], ends[i][1]);
    }
    return YK_OK;
}

yk_status yk__tok_settings_apply(struct tok_source *src, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    int pad_left;
    const int32_t pad = tok->vocab ? token_of(src, "pad_token", "[PAD]", NULL) : -1;
    tok->pad = pad > 0 && pad < tok->size ? pad : 0;
    tok->mask = tok->vocab ? token_of(src, "mask_token", "[MASK]", "<mask>") : -1;
    tok->split_special = yk__tok_setting_flag(src, "split_special_tokens", 0);
    if (ends_check(src, err) || (src->config && yk__tok_path(src, "tokenizer_config.json", &(int){0}, err)) ||
        side_read(src, "truncation_side", src->cut_left, &tok->cut_left, err) ||
        side_read(src, "padding_side", src->pad_left, &pad_left, err) || (tok->kind == TOK_WORDPIECE && inputs_check(src, err)))
        return err->status;
    if (!pad_left || tok->kind != TOK_WORDPIECE)
        return YK_OK;
    if (json_object_get(src->config, "padding_side"))
        return yk__tok_refuse(src, "padding_side", "left", err);
    if (src->dir && yk__tok_path(src, "tokenizer.json", &(int){0}, err))
        return err->status;
    return yk__tok_refuse(src, "padding: direction", "Left", err);
}
