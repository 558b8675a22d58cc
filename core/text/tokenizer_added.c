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

struct tok_added *yk__tok_added_find(const yk__tokenizer *tok, const char *content)
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

static yk_status added_append(const struct tok_source *src, const struct tok_named *token, int32_t id, yk_error *err)
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
yk_status yk__tok_token_add(const struct tok_source *src, const char *key, const struct tok_named *token, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    struct tok_added *there = yk__tok_added_find(tok, token->content);
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
    there->special |= token->flags.special; /* it stays one in the tokenizers library, too */
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
yk_status yk__tok_token_read(const struct tok_source *src, const char *key, const json_t *v, int special, struct tok_named *out,
                            yk_error *err)
{
    const json_t *content = json_is_object(v) ? json_object_get(v, "content") : v;
    *out = (struct tok_named){.content = json_string_value(content), .id = -1, .flags.special = special};
    if (!out->content || strlen(out->content) != json_string_length(content))
        return yk__fail(err, YK_E_FORMAT, "%s: %s: expected a token, as text or as an object with a content", src->path, key);
    if (!json_is_object(v))
        return YK_OK;
    if (flags_check(src, v, key, err) || flag_read(src, v, key, "special", &out->flags.special, err))
        return err->status;
    out->flags.normalized = !out->flags.special;
    out->follows = !json_object_get(v, "normalized");
    if (flag_read(src, v, key, "lstrip", &out->flags.lstrip, err) || flag_read(src, v, key, "rstrip", &out->flags.rstrip, err) ||
        flag_read(src, v, key, "single_word", &out->flags.single_word, err))
        return err->status;
    return flag_read(src, v, key, "normalized", &out->flags.normalized, err);
}

/* Reads element i of tokenizer.json's list. */
static yk_status element_read(const struct tok_source *src, const json_t *list, size_t i, struct tok_named *token, yk_error *err)
{
    const json_t *v = json_array_get(list, i), *id = json_object_get(v, "id");
    if (!json_is_object(v) || !json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > TOK_MAX_ID)
        return yk__fail(err, YK_E_FORMAT, "%s: added_tokens, element %zu: expected a content and an id", src->path, i);
    if (yk__tok_token_read(src, "added_tokens", v, 0, token, err))
        return err->status;
    token->id = json_integer_value(id);
    return YK_OK;
}

yk_status yk__tok_added_list(const struct tok_source *src, const json_t *list, yk_error *err)
{
    struct tok_named token;
    if (list && !json_is_array(list))
        return yk__fail(err, YK_E_FORMAT, "%s: added_tokens: expected a list, found %s", src->path, yk__json_type(list));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (element_read(src, list, i, &token, err) || yk__tok_token_add(src, "added_tokens", &token, err))
            return err->status;
    return YK_OK;
}

/* ---- Numbered tokens of the files beside tokenizer.json ---- */

struct numbered {
    struct tok_named *token;
    size_t count, cap;
};

static yk_status numbered_push(struct numbered *list, const struct tok_named *token, yk_error *err)
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
    const struct tok_named *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static yk_status decoder_collect(const struct tok_source *src, json_t *decoder, struct numbered *list, yk_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(decoder, key, v)
    {
        struct tok_named token;
        char *end;
        if (!json_is_object(v))
            return yk__fail(err, YK_E_FORMAT, "%s: added_tokens_decoder: '%.60s': expected an object, found %s", src->path, key,
                            yk__json_type(v));
        if (yk__tok_token_read(src, "added_tokens_decoder", v, 0, &token, err))
            return err->status;
        token.id = strtoll(key, &end, 10);
        if (end == key || *end || token.id < 0 || token.id > TOK_MAX_ID)
            return yk__fail(err, YK_E_FORMAT, "%s: added_tokens_decoder: expected an id, found '%.60s'", src->path, key);
        if (numbered_push(list, &token, err))
            return err->status;
    }
    return YK_OK;
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
        const int special = yk__tok_is_special(src, key);
        const struct tok_named token = {
            .content = key, .id = json_integer_value(v), .flags = {.special = special, .normalized = !special}};
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
    struct tok_named token;
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
        const char *content = yk__tok_content(json_array_get(json, i));
        if (!content || yk__tok_added_find(src->t, content))
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

static yk_status numbered_add(struct tok_source *src, const json_t *json, const struct tok_wants *wants, yk_error *err)
{
    struct numbered list = {0};
    yk_status s = numbered_collect(src, json, &list, err);
    if (list.count)
        qsort(list.token, list.count, sizeof *list.token, numbered_before);
    for (size_t i = 0; i < list.count && !s; i++) {
        yk__tok_wants_mark(wants, &list.token[i]);
        s = yk__tok_token_add(src, "added tokens", &list.token[i], err);
    }
    yk__free(list.token);
    return s;
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
    struct tok_wants wants = {0};
    yk_status s = yk__tok_wants_collect(src, &wants, err);
    if (!s)
        s = numbered_add(src, json, &wants, err);
    if (!s)
        s = yk__tok_wants_add(src, &wants, err);
    yk__tok_wants_free(&wants);
    if (s)
        return s;
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

/* Two tokens with one text are found by the order of a hash table in the tokenizers library: in each run another one. */
static yk_status alike_refuse(const struct tok_source *src, const struct tok_added *a, const struct tok_added *b, yk_error *err)
{
    if (src->ours) /* such a folder has been read so before */
        return yk__tok_note(src, err, "%s: added tokens '%.60s' and '%.60s' are one text once it is normalized: the first counts", src->dir,
                            a->content, b->content);
    return yk__fail(err, YK_E_FORMAT, "%s: added tokens '%.60s' and '%.60s' are one text once it is normalized (lower case, accents), and "
                    "transformers finds either of them by chance: leave one of them out, or give them \"normalized\": false",
                    src->dir ? src->dir : src->path, a->content, b->content);
}

static yk_status alike_check(const struct tok_source *src, yk_error *err)
{
    const yk__tokenizer *tok = src->t;
    for (int i = 0; i < tok->n_added; i++)
        for (int k = 0; k < i && tok->added[i].normalized && tok->added[i].bytes; k++) {
            const struct tok_added *a = &tok->added[k], *b = &tok->added[i];
            if (a->normalized && a->bytes == b->bytes && a->id != b->id && !memcmp(a->text, b->text, a->bytes))
                return alike_refuse(src, a, b, err);
        }
    return YK_OK;
}

yk_status yk__tok_added_ready(const struct tok_source *src, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    memset(tok->added_first, 0, sizeof tok->added_first);
    for (int i = 0; i < tok->n_added; i++)
        if (token_ready(tok, &tok->added[i], err))
            return err->status;
    return tok->kind == TOK_WORDPIECE ? alike_check(src, err) : YK_OK;
}
