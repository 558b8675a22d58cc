/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens that tokenizer_config.json and special_tokens_map.json name: a class's own ("mask_token"), a model's ("image_token"), and lists of
 * further ones. tokenizer_added.c adds them behind the numbered tokens, in the thread that opens the folder.
 *
 * Order and repeats are those of transformers 5.24. special_tokens_map.json counts only without added_tokens_decoder, and then before the
 * other file. A list in additional_special_tokens counts only without extra_special_tokens, be that one empty.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "core/text/source.h"

#define EXTRA "extra_special_tokens"
#define OLDER "additional_special_tokens"

static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
enum { N_NAMES = sizeof names / sizeof names[0] };

/* ---- Values of the two files ---- */

/* map_of returns special_tokens_map.json, or NULL if the file does not count. */
static const json_t *map_of(const struct tok_source *src)
{
    return json_object_get(src->config, "added_tokens_decoder") ? NULL : src->map;
}

static const json_t *named_value(const struct tok_source *src, const char *key)
{
    const json_t *older = json_object_get(map_of(src), key);
    return older ? older : json_object_get(src->config, key);
}

const char *yk__tok_content(const json_t *v)
{
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

const char *yk__tok_setting_token(const struct tok_source *src, const char *key, const char *preset)
{
    const json_t *v = named_value(src, key);
    return v ? yk__tok_content(v) : preset;
}

/* The name that a class gives if no file does. */
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

/* True for a token of a model: its key ends so, and no class has it. */
static bool is_own_key(const char *key, const json_t *v)
{
    const size_t n = strlen(key);
    bool own = n >= 6 && !strcmp(key + n - 6, "_token") && (json_is_string(v) || json_is_object(v));
    for (int i = 0; i < N_NAMES; i++)
        own &= strcmp(names[i], key) != 0;
    return own;
}

/* ---- Lists of further tokens ---- */

/* The values of both files that count. map: of special_tokens_map.json; list and map may both be there, in this order. */
struct extras {
    const json_t *list, *map; /* arrays; NULL if absent */
    const json_t *own[2];     /* objects, tokens of the model by their keys: config's, map's */
};

static bool is_filled(const json_t *v)
{
    return json_array_size(v) || json_object_size(v);
}

static struct extras extras_find(const struct tok_source *src)
{
    const json_t *extra = json_object_get(src->config, EXTRA), *older = json_object_get(src->config, OLDER), *map = map_of(src);
    struct extras x = {0};
    if (older && !is_filled(extra)) {
        extra = older;
        older = NULL;
    }
    bool there = extra && !json_is_object(extra);
    x.own[0] = json_is_object(extra) ? extra : NULL;
    x.list = json_is_array(extra) ? extra : NULL;
    extra = json_object_get(map, EXTRA);
    if (extra && !json_is_array(extra)) /* it replaces the list */
        x.list = NULL;
    x.map = json_is_array(extra) ? extra : NULL;
    x.own[1] = json_is_object(extra) ? extra : NULL;
    there = extra ? !json_is_object(extra) : there;
    if (json_object_get(map, OLDER))
        older = json_object_get(map, OLDER);
    if (!there && json_is_array(older)) {
        x.list = older;
        x.map = NULL;
    }
    return x;
}

/* True for a token that added_tokens.json has as a special one: its text is named, not its flags, but for those of the older file. */
bool yk__tok_is_special(const struct tok_source *src, const char *content)
{
    const struct extras x = extras_find(src);
    const json_t *older[] = {json_object_get(src->config, OLDER), json_object_get(map_of(src), OLDER)};
    const bool counted = x.list && x.list != older[1] && (x.list != older[0] || !is_filled(json_object_get(src->config, EXTRA)));
    for (int i = 0; i < N_NAMES; i++) {
        const json_t *map = json_object_get(map_of(src), names[i]), *v = map ? map : json_object_get(src->config, names[i]);
        const char *name = map ? yk__tok_content(v) : json_string_value(v);
        if (name && !strcmp(name, content))
            return true;
    }
    for (size_t i = 0; i < (counted ? json_array_size(x.list) : 0); i++)
        if (json_is_string(json_array_get(x.list, i)) && !strcmp(json_string_value(json_array_get(x.list, i)), content))
            return true;
    for (size_t i = 0; i < json_array_size(x.map); i++) {
        const char *name = yk__tok_content(json_array_get(x.map, i));
        if (name && !strcmp(name, content))
            return true;
    }
    return false;
}

/* ---- Collecting ---- */

/* Reads a token's flags. An object of the older file is special, whatever it says. */
static yk_status want_read(const struct tok_source *src, const char *key, const json_t *v, bool map, struct tok_named *out, yk_error *err)
{
    if (yk__tok_token_read(src, key, v, map || json_is_string(v), out, err))
        return err->status;
    out->flags.special |= map;
    return YK_OK;
}

static bool is_same(const struct tok_want *want, const struct tok_named *token, bool text)
{
    const struct tok_added *a = &want->token.flags, *b = &token->flags;
    return want->text == text && !strcmp(want->token.content, token->content) && a->lstrip == b->lstrip && a->rstrip == b->rstrip &&
           a->single_word == b->single_word && a->normalized == b->normalized && a->special == b->special;
}

/* Appends a token. Repeats are dropped as transformers finds them: equal texts, and tokens with equal flags. */
static yk_status want_put(struct tok_wants *wants, const struct tok_named *token, const char *key, bool text, yk_error *err)
{
    for (size_t i = 0; i < wants->count; i++)
        if (is_same(&wants->want[i], token, text))
            return YK_OK;
    if (yk__grow(&wants->want, &wants->cap, wants->count + 1, sizeof *wants->want))
        return yk__fail_mem(err, sizeof *wants->want, "added tokens");
    wants->want[wants->count++] = (struct tok_want){.token = *token, .key = key, .text = text};
    return YK_OK;
}

static yk_status value_put(struct tok_source *src, struct tok_wants *wants, const char *key, const json_t *v, bool map, yk_error *err)
{
    struct tok_named token;
    if (json_is_null(v))
        return YK_OK;
    if (yk__tok_path(src, map ? "special_tokens_map.json" : "tokenizer_config.json", &(int){0}, err) ||
        want_read(src, key, v, map && json_is_object(v), &token, err))
        return err->status;
    return want_put(wants, &token, key, json_is_string(v), err);
}

/* Appends the token that a class gives. A text that begins and ends with tokens which the vocabulary lacks is refused elsewhere. */
static yk_status preset_put(const struct tok_source *src, struct tok_wants *wants, const char *key, const char *content, yk_error *err)
{
    const size_t before = wants->count;
    if ((!strcmp(key, "cls_token") || !strcmp(key, "sep_token")) && yk__tok_token_id(src, content) < 0)
        return YK_OK;
    if (want_put(wants, &(struct tok_named){.content = content, .id = -1, .flags.special = 1}, key, true, err))
        return err->status;
    for (size_t i = before; i < wants->count; i++)
        wants->want[i].preset = true;
    return YK_OK;
}

/* The seven names of every class. */
static yk_status names_put(struct tok_source *src, struct tok_wants *wants, yk_error *err)
{
    for (int i = 0; i < N_NAMES; i++) {
        const json_t *map = json_object_get(map_of(src), names[i]), *v = map ? map : json_object_get(src->config, names[i]);
        const char *preset = v ? NULL : preset_of(src, names[i]);
        if (v && value_put(src, wants, names[i], v, map != NULL, err))
            return err->status;
        if (preset && preset_put(src, wants, names[i], preset, err))
            return err->status;
    }
    return YK_OK;
}

/* Sets a key of a model's token, in the place of an earlier one. */
static yk_status own_set(json_t *list, const char *key, const json_t *v, bool map, yk_error *err)
{
    json_t *entry = json_pack("[O, b]", v, map);
    return entry && !json_object_set_new(list, key, entry) ? YK_OK : yk__fail_mem(err, 64, "added tokens");
}

static yk_status own_collect(const struct tok_source *src, const struct extras *x, json_t *list, yk_error *err)
{
    const json_t *map = map_of(src), *parts[] = {src->config, map, src->config, x->own[0]};
    const json_t *own = json_object_get(src->config, "model_specific_special_tokens");
    bool replaced = json_object_size(x->own[0]) > 0;
    const char *key;
    json_t *v;
    for (int i = 0; i < 4; i++) /* objects of the config, the map, texts of the config, extra tokens by their keys */
        json_object_foreach((json_t *)parts[i], key, v)
        {
            const bool counts = i == 3 || (is_own_key(key, v) && (i == 1 || json_is_object(v) == (i == 0)));
            replaced |= counts && i == 2;
            if (counts && own_set(list, key, v, i == 1, err))
                return err->status;
        }
    json_object_foreach(replaced ? NULL : (json_t *)own, key, v)
        if (own_set(list, key, v, false, err))
            return err->status;
    json_object_foreach((json_t *)x->own[1], key, v)
        if (own_set(list, key, v, true, err))
            return err->status;
    return YK_OK;
}

static yk_status own_put(struct tok_source *src, const struct extras *x, struct tok_wants *wants, yk_error *err)
{
    const char *key;
    json_t *v;
    wants->own = json_object();
    if (!wants->own)
        return yk__fail_mem(err, 64, "added tokens");
    if (own_collect(src, x, wants->own, err))
        return err->status;
    json_object_foreach(wants->own, key, v)
        if (value_put(src, wants, key, json_array_get(v, 0), json_is_true(json_array_get(v, 1)), err))
            return err->status;
    return YK_OK;
}

static yk_status list_put(struct tok_source *src, struct tok_wants *wants, const json_t *list, bool map, yk_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (value_put(src, wants, EXTRA, json_array_get(list, i), map, err))
            return err->status;
    return YK_OK;
}

yk_status yk__tok_wants_collect(struct tok_source *src, struct tok_wants *wants, yk_error *err)
{
    const struct extras x = extras_find(src);
    if (names_put(src, wants, err) || own_put(src, &x, wants, err))
        return err->status;
    wants->named = wants->count;
    return list_put(src, wants, x.list, false, err) || list_put(src, wants, x.map, true, err) ? err->status : YK_OK;
}

void yk__tok_wants_mark(const struct tok_wants *wants, struct tok_named *token)
{
    for (size_t i = 0; i < wants->named; i++)
        token->flags.special |= !strcmp(wants->want[i].token.content, token->content);
    if (token->follows)
        token->flags.normalized = !token->flags.special;
}

void yk__tok_wants_free(struct tok_wants *wants)
{
    json_decref(wants->own);
    yk__free(wants->want);
}

/* True for a class's token that the vocabulary lacks, if a folder of ours does without: it names those that it has. */
static bool want_skip(const struct tok_source *src, const struct tok_want *want)
{
    yk__tokenizer *tok = src->t;
    if (!want->preset || yk__tok_token_id(src, want->token.content) >= 0)
        return false;
    for (int i = 0; i < N_NAMES && tok->n_presets < (int)(sizeof tok->presets / sizeof tok->presets[0]); i++) {
        const char *preset = named_value(src, names[i]) ? NULL : preset_of(src, names[i]);
        if (!preset || strcmp(preset, want->token.content) != 0)
            continue;
        tok->presets[tok->n_presets].key = names[i];
        tok->presets[tok->n_presets++].token = src->ours ? NULL : preset;
    }
    return src->ours;
}

/* Adds the tokens that were no added tokens when there were `before` of them; later flags of a repeated text count. New ones count in the
 * size of the vocabulary only if a text holds them. Models often have no row for such a token, which is padding. */
yk_status yk__tok_wants_add(const struct tok_source *src, const struct tok_wants *wants, yk_error *err)
{
    const int before = src->t->n_added;
    for (size_t i = 0; i < wants->count; i++) {
        struct tok_named token = wants->want[i].token;
        const struct tok_added *there = yk__tok_added_find(src->t, token.content);
        yk__tok_wants_mark(wants, &token);
        if (want_skip(src, &wants->want[i]))
            continue;
        if (!(there && there - src->t->added < before) && yk__tok_token_add(src, wants->want[i].key, &token, err))
            return err->status;
    }
    return YK_OK;
}
