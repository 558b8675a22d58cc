/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Added tokens of a tokenizer: the ones of tokenizer.json, and tokens that tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json name. The other tokenizer_*.c files fill the list while a folder is opened, in the thread that opens it. Order and ids
 * are transformers'. A token of the vocabulary keeps its id; a new one gets the next.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "core/text/source.h"

/* A token that a file names, before it has its id. */
struct named_token {
    const char *content;
    long long id; /* given by the file; -1 if absent */
    struct tok_added flags;
};

yk_status yk__tok_vocab_add(const struct tok_source *src, const char *key, size_t n, long long id, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    if (id < 0 || id > TOK_MAX_ID)
        return yk__fail(err, YK_E_FORMAT, "%s: token '%.60s': id %lld, expected 0 to %d", src->path, key, id, TOK_MAX_ID);
    if (yk__strmap_put(tok->vocab, key, n, (int32_t)id))
        return yk__fail_mem(err, n, "a vocabulary");
    if (id >= tok->size)
        tok->size = (int32_t)id + 1;
    return YK_OK;
}

int32_t yk__tok_token_id(const struct tok_source *src, const char *token)
{
    return token ? yk__strmap_get(src->t->vocab, token, strlen(token)) : -1;
}

static struct tok_added *added_find(const yk__tokenizer *tok, const char *content)
{
    for (int i = 0; i < tok->n_added; i++)
        if (!strcmp(tok->added[i].content, content))
            return &tok->added[i];
    return NULL;
}

/* The id of a new token: tokenizers count from the size of the model's vocabulary. */
static int32_t next_id(const yk__tokenizer *tok)
{
    int32_t id = tok->n_model;
    for (int i = 0; i < tok->n_added; i++)
        if (tok->added[i].id >= id)
            id = tok->added[i].id + 1;
    return id;
}

static yk_status added_append(const struct tok_source *src, const struct named_token *token, int32_t id, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    const size_t n = strlen(token->content);
    struct tok_added *list = yk__realloc(tok->added, (size_t)tok->n_added + 1, sizeof *list);
    if (!list)
        return yk__fail_mem(err, sizeof *list, "an added token");
    tok->added = list;
    list[tok->n_added] = token->flags;
    list[tok->n_added].id = id;
    list[tok->n_added].content = yk__strndup(token->content, n);
    if (!list[tok->n_added].content)
        return yk__fail_mem(err, n, "an added token");
    tok->n_added++;
    return yk__strmap_put(tok->vocab, token->content, n, id) ? yk__fail_mem(err, n, "an added token") : YK_OK;
}

/* Adds a token, or gives an existing one other flags. */
static yk_status token_add(const struct tok_source *src, const char *key, const struct named_token *token, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    struct tok_added *there = added_find(tok, token->content);
    int32_t id = yk__tok_token_id(src, token->content);
    if (!*token->content)
        return YK_OK;
    if (id < 0)
        id = next_id(tok);
    if (token->id >= 0 && token->id != id)
        return yk__fail(err, YK_E_FORMAT, "%s: %s: '%.60s' has id %lld, expected %d, which the vocabulary and the tokens before it give it",
                        src->path, key, token->content, token->id, id);
    if (token->id >= tok->size)
        tok->size = (int32_t)token->id + 1;
    if (!there)
        return added_append(src, token, id, err);
    there->lstrip = token->flags.lstrip;
    there->rstrip = token->flags.rstrip;
    there->single_word = token->flags.single_word;
    there->normalized = token->flags.normalized;
    there->special = token->flags.special;
    return YK_OK;
}

/* ---- Tokens as the files write them ---- */

static yk_status flag_read(const struct tok_source *src, const json_t *v, const char *key, const char *name, int *out, yk_error *err)
{
    const json_t *flag = json_object_get(v, name);
    if (flag && !json_is_boolean(flag))
        return yk__fail(err, YK_E_FORMAT, "%s: %s: %s: expected true or false, found %s", src->path, key, name, yk__json_type(flag));
    if (flag)
        *out = json_is_true(flag);
    return YK_OK;
}

static yk_status flags_check(const struct tok_source *src, const json_t *v, const char *key, yk_error *err)
{
    static const char *const known[] = {"id", "content", "lstrip", "rstrip", "single_word", "normalized", "special", "__type"};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)v, name, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            found |= !strcmp(known[i], name);
        if (!found)
            return yk__tok_refuse(src, key, name, err);
    }
    return YK_OK;
}

/* Reads a token with its flags, as an object; or as its text alone, which makes it special. */
static yk_status token_read(const struct tok_source *src, const char *key, const json_t *v, int special, struct named_token *out,
                            yk_error *err)
{
    const json_t *content = json_is_object(v) ? json_object_get(v, "content") : v;
    *out = (struct named_token){json_string_value(content), -1, {.special = special}};
    if (!out->content || strlen(out->content) != json_string_length(content))
        return yk__fail(err, YK_E_FORMAT, "%s: %s: expected a token, as text or as an object with a content", src->path, key);
    if (!json_is_object(v))
        return YK_OK;
    if (flags_check(src, v, key, err) || flag_read(src, v, key, "special", &out->flags.special, err))
        return err->status;
    out->flags.normalized = !out->flags.special;
    if (flag_read(src, v, key, "lstrip", &out->flags.lstrip, err) || flag_read(src, v, key, "rstrip", &out->flags.rstrip, err) ||
        flag_read(src, v, key, "single_word", &out->flags.single_word, err))
        return err->status;
    return flag_read(src, v, key, "normalized", &out->flags.normalized, err);
}

/* Reads element i of tokenizer.json's list. */
static yk_status element_read(const struct tok_source *src, const json_t *list, size_t i, struct named_token *token, yk_error *err)
{
    const json_t *v = json_array_get(list, i), *id = json_object_get(v, "id");
    if (!json_is_object(v) || !json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > TOK_MAX_ID)
        return yk__fail(err, YK_E_FORMAT, "%s: added_tokens, element %zu: expected a content and an id", src->path, i);
    if (token_read(src, "added_tokens", v, 0, token, err))
        return err->status;
    token->id = json_integer_value(id);
    return YK_OK;
}

yk_status yk__tok_added_list(const struct tok_source *src, const json_t *list, yk_error *err)
{
    struct named_token token;
    if (list && !json_is_array(list))
        return yk__fail(err, YK_E_FORMAT, "%s: added_tokens: expected a list, found %s", src->path, yk__json_type(list));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (element_read(src, list, i, &token, err) || token_add(src, "added_tokens", &token, err))
            return err->status;
    return YK_OK;
}

/* ---- Numbered tokens of the files beside tokenizer.json ---- */

struct numbered {
    struct named_token *token;
    size_t count, cap;
};

static yk_status numbered_push(struct numbered *list, const struct named_token *token, yk_error *err)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->token[i].id == token->id) { /* the later one counts */
            list->token[i] = *token;
            return YK_OK;
        }
    if (yk__grow(&list->token, &list->cap, list->count + 1, sizeof *token))
        return yk__fail_mem(err, sizeof *token, "added tokens");
    list->token[list->count++] = *token;
    return YK_OK;
}

static int numbered_before(const void *a, const void *b)
{
    const struct named_token *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static yk_status decoder_collect(const struct tok_source *src, json_t *decoder, struct numbered *list, yk_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(decoder, key, v)
    {
        struct named_token token;
        char *end;
        if (!json_is_object(v))
            return yk__fail(err, YK_E_FORMAT, "%s: added_tokens_decoder: '%.60s': expected an object, found %s", src->path, key,
                            yk__json_type(v));
        if (token_read(src, "added_tokens_decoder", v, 0, &token, err))
            return err->status;
        token.id = strtoll(key, &end, 10);
        if (end == key || *end || token.id < 0 || token.id > TOK_MAX_ID)
            return yk__fail(err, YK_E_FORMAT, "%s: added_tokens_decoder: expected an id, found '%.60s'", src->path, key);
        if (numbered_push(list, &token, err))
            return err->status;
    }
    return YK_OK;
}

static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
enum { N_NAMES = sizeof names / sizeof names[0] };

/* The value of a key that names tokens. special_tokens_map.json, an older form, counts before tokenizer_config.json if the latter has no
 * added_tokens_decoder. */
static const json_t *named_value(const struct tok_source *src, const char *key)
{
    const json_t *older = json_object_get(src->config, "added_tokens_decoder") ? NULL : json_object_get(src->map, key);
    return older ? older : json_object_get(src->config, key);
}

static const char *content_of(const json_t *v)
{
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

const char *yk__tok_setting_token(const struct tok_source *src, const char *key, const char *preset)
{
    const json_t *v = named_value(src, key);
    return v ? content_of(v) : preset;
}

static const json_t *extra_list(const struct tok_source *src)
{
    static const char *const keys[] = {"extra_special_tokens", "additional_special_tokens"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *v = named_value(src, keys[i]);
        if (v && (json_array_size(v) || json_object_size(v)))
            return v;
    }
    return NULL;
}

static bool is_name(const struct tok_source *src, const char *content)
{
    for (int i = 0; i < N_NAMES; i++) {
        const char *name = content_of(named_value(src, names[i]));
        if (name && !strcmp(name, content))
            return true;
    }
    return false;
}

/* True for a further token that transformers counts here: any of tokenizer_config.json, and the older file's newer key. */
static bool is_extra(const struct tok_source *src, const char *content)
{
    const json_t *const lists[] = {json_object_get(src->config, "extra_special_tokens"),
                                   json_object_get(src->config, "additional_special_tokens"),
                                   json_object_get(src->map, "extra_special_tokens")};
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
        for (size_t i = 0; i < json_array_size(lists[k]); i++) {
            const char *name = content_of(json_array_get(lists[k], i));
            if (name && !strcmp(name, content))
                return true;
        }
    return false;
}

/* added_tokens.json: {"<new>": 30522}. */
static yk_status older_collect(struct tok_source *src, struct numbered *list, yk_error *err)
{
    const char *key;
    json_t *v;
    if (src->added && yk__tok_path(src, "added_tokens.json", &(int){0}, err))
        return err->status;
    json_object_foreach(src->added, key, v)
    {
        const int special = is_name(src, key) || is_extra(src, key);
        const struct named_token token = {key, json_integer_value(v), {.special = special, .normalized = !special}};
        if (!json_is_integer(v) || token.id < 0 || token.id > TOK_MAX_ID)
            return yk__fail(err, YK_E_FORMAT, "%s: '%.60s': expected an id, found %s", src->path, key, yk__json_type(v));
        if (numbered_push(list, &token, err))
            return err->status;
    }
    return YK_OK;
}

/* Collects tokenizer.json's added tokens, with the older form. A class that builds the tokenizer anew has none of its own. */
static yk_status json_collect(struct tok_source *src, const json_t *json, struct numbered *list, yk_error *err)
{
    struct named_token token;
    for (size_t i = 0; i < json_array_size(json); i++) {
        if (element_read(src, json, i, &token, err) || numbered_push(list, &token, err))
            return err->status;
    }
    return YK_OK;
}

/* The decoder's list is complete: a further token of tokenizer.json would be lost. */
static yk_status json_covered(struct tok_source *src, const json_t *json, yk_error *err)
{
    for (size_t i = 0; i < json_array_size(json); i++) {
        const char *content = content_of(json_array_get(json, i));
        if (!content || added_find(src->t, content))
            continue;
        if (yk__tok_path(src, "tokenizer.json", &(int){0}, err))
            return err->status;
        return yk__fail(err, YK_E_UNSUPPORTED, "%s: added_tokens: '%.60s' is not in added_tokens_decoder of tokenizer_config.json, by "
                        "which transformers' %s goes: add it there", src->path, content, src->class_name);
    }
    return YK_OK;
}

static yk_status numbered_collect(struct tok_source *src, const json_t *json, struct numbered *list, yk_error *err)
{
    json_t *decoder = json_object_get(src->config, "added_tokens_decoder");
    if (decoder && yk__tok_path(src, "tokenizer_config.json", &(int){0}, err))
        return err->status;
    if (decoder)
        return decoder_collect(src, decoder, list, err);
    return older_collect(src, list, err) || json_collect(src, json, list, err) ? err->status : YK_OK;
}

static yk_status numbered_add(struct tok_source *src, const json_t *json, yk_error *err)
{
    struct numbered list = {0};
    yk_status s = numbered_collect(src, json, &list, err);
    if (list.count)
        qsort(list.token, list.count, sizeof *list.token, numbered_before);
    for (size_t i = 0; i < list.count && !s; i++) {
        list.token[i].flags.special |= is_name(src, list.token[i].content);
        s = token_add(src, "added tokens", &list.token[i], err);
    }
    yk__free(list.token);
    return s;
}

/* ---- Tokens that are named ---- */

/* Adds a token unless it was an added token when there were `before` of them; the later flags of a repeated name count. New ones count
 * in the size of the vocabulary only if a text holds them. Models often have no row for such a token, which is padding. */
static yk_status named_add(struct tok_source *src, const char *key, const json_t *v, int before, yk_error *err)
{
    struct named_token token;
    const struct tok_added *there;
    if (json_is_null(v))
        return YK_OK;
    if (yk__tok_path(src, json_object_get(src->config, key) == v ? "tokenizer_config.json" : "special_tokens_map.json", &(int){0}, err) ||
        token_read(src, key, v, 1, &token, err))
        return err->status;
    token.flags.special = 1;
    there = added_find(src->t, token.content);
    return there && there - src->t->added < before ? YK_OK : token_add(src, key, &token, err);
}

/* The name that a class gives if no file does. A vocabulary that lacks such a token does without. */
static const char *preset_of(const struct tok_source *src, const char *key)
{
    static const struct {
        enum tok_class class;
        const char *key, *token;
    } presets[] = {{TOK_CLASS_BERT, "unk_token", "[UNK]"},        {TOK_CLASS_BERT, "sep_token", "[SEP]"},
                   {TOK_CLASS_BERT, "pad_token", "[PAD]"},        {TOK_CLASS_BERT, "cls_token", "[CLS]"},
                   {TOK_CLASS_BERT, "mask_token", "[MASK]"},      {TOK_CLASS_GPT2, "bos_token", "<|endoftext|>"},
                   {TOK_CLASS_GPT2, "eos_token", "<|endoftext|>"}, {TOK_CLASS_GPT2, "unk_token", "<|endoftext|>"}};
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (presets[i].class == src->class && !strcmp(presets[i].key, key))
            return presets[i].token;
    return NULL;
}

/* True if an earlier name has the same text, without flags. */
static bool named_before(const struct tok_source *src, int name, const char *content)
{
    for (int i = 0; i < name; i++) {
        const json_t *v = named_value(src, names[i]);
        const char *other = v ? json_string_value(v) : preset_of(src, names[i]);
        if (other && !strcmp(other, content))
            return true;
    }
    return false;
}

static yk_status names_add(struct tok_source *src, yk_error *err)
{
    const int before = src->t->n_added;
    for (int i = 0; i < N_NAMES; i++) {
        const json_t *v = named_value(src, names[i]);
        const char *preset = v ? NULL : preset_of(src, names[i]), *text = v ? json_string_value(v) : preset;
        if ((preset && yk__tok_token_id(src, preset) < 0) || (text && named_before(src, i, text)))
            continue;
        if (v && named_add(src, names[i], v, before, err))
            return err->status;
        if (preset && (!added_find(src->t, preset) || added_find(src->t, preset) - src->t->added >= before) &&
            token_add(src, names[i], &(struct named_token){preset, -1, {.special = 1}}, err))
            return err->status;
    }
    return YK_OK;
}

/* Adds additional_special_tokens, extra_special_tokens, and keys of the model's own such as "image_token". */
static yk_status extras_add(struct tok_source *src, yk_error *err)
{
    const json_t *extra = extra_list(src), *own = json_object_get(src->config, "model_specific_special_tokens");
    const char *key;
    json_t *v;
    for (size_t i = 0; i < json_array_size(extra); i++)
        if (named_add(src, "additional_special_tokens", json_array_get(extra, i), src->t->n_added, err))
            return err->status;
    json_object_foreach((json_t *)extra, key, v)
        if (named_add(src, key, v, src->t->n_added, err))
            return err->status;
    json_object_foreach((json_t *)own, key, v)
        if (named_add(src, key, v, src->t->n_added, err))
            return err->status;
    json_object_foreach(src->config, key, v)
    {
        const size_t n = strlen(key);
        bool standard = n < 6 || strcmp(key + n - 6, "_token") != 0 || !(json_is_string(v) || json_is_object(v));
        for (int i = 0; i < N_NAMES; i++)
            standard |= !strcmp(names[i], key);
        if (!standard && named_add(src, key, v, src->t->n_added, err))
            return err->status;
    }
    return YK_OK;
}

void yk__tok_added_free(yk__tokenizer *tok)
{
    for (int i = 0; i < tok->n_added; i++) {
        yk__free(tok->added[i].content);
        yk__free(tok->added[i].text);
    }
    yk__free(tok->added);
    tok->added = NULL;
    tok->n_added = 0;
}

yk_status yk__tok_added_read(struct tok_source *src, const json_t *json, yk_error *err)
{
    const bool anew = src->class == TOK_CLASS_BERT || src->class == TOK_CLASS_GPT2;
    if (anew)
        yk__tok_added_free(src->t);
    if (numbered_add(src, json, err) || names_add(src, err) || extras_add(src, err))
        return err->status;
    return anew && json_object_get(src->config, "added_tokens_decoder") ? json_covered(src, json, err) : YK_OK;
}

/* ---- Search texts of tokens -------------------------------------------------------------------------------------- */

static yk_status token_ready(yk__tokenizer *tok, struct tok_added *token, yk_error *err)
{
    size_t cap = 0;
    yk__free(token->text);
    token->text = NULL;
    token->bytes = strlen(token->content);
    if (token->normalized && tok->kind == TOK_WORDPIECE) {
        if (yk__tok_wordpiece_normal(tok, token->content, token->bytes, &token->text, &cap, &token->bytes))
            return yk__fail_mem(err, token->bytes, "an added token");
    } else {
        token->text = yk__strndup(token->content, token->bytes);
        if (!token->text)
            return yk__fail_mem(err, token->bytes, "an added token");
    }
    if (token->bytes)
        tok->added_first[token->normalized != 0][(unsigned char)*token->text] = 1;
    return YK_OK;
}

yk_status yk__tok_added_ready(yk__tokenizer *tok, yk_error *err)
{
    memset(tok->added_first, 0, sizeof tok->added_first);
    for (int i = 0; i < tok->n_added; i++)
        if (token_ready(tok, &tok->added[i], err))
            return err->status;
    return YK_OK;
}
