/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tokenizer.json into a tokenizer, component by component, as the tokenizers library 0.23 runs it. tokenizer_load.c calls it once, in
 * the thread that opens the tokenizer.
 *
 * A component, a key or a value that is not built here is refused by file and key. A class of transformers that builds its tokenizer anew
 * (source.h) takes settings of tokenizer_config.json instead. If the file differs and no key there settles it, the contradiction is refused
 * too.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "core/text/source.h"
#include "core/io/utf8.h"

/* ---- Components ---- */

static bool word_in(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = strstr(list, word); n && p; p = strstr(p + 1, word))
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

/* Checks that every key of an object is in a list of words. */
static yk_status keys_check(const struct tok_source *src, const char *what, const json_t *v, const char *known, yk_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)v, key, value)
        if (!word_in(known, key))
            return yk__fail(err, YK_E_UNSUPPORTED, "%s: %s: the key '%.60s' is not supported", src->path, what, key);
    return YK_OK;
}

/* Reads a boolean; null and a missing key give the preset. */
static yk_status flag_read(const struct tok_source *src, const char *what, const json_t *v, const char *key, int preset, int *out,
                           yk_error *err)
{
    *out = preset;
    return yk__json_flag(&(yk__json_part){v, src->path, what}, key, out, err);
}

static const char *type_of(const json_t *v)
{
    return json_string_value(json_object_get(v, "type"));
}

static bool is_none(const json_t *v)
{
    return !v || json_is_null(v);
}

static yk_status type_expect(const struct tok_source *src, const json_t *root, const char *key, const char *type, yk_error *err)
{
    const char *found = type_of(json_object_get(root, key));
    return found && !strcmp(found, type) ? YK_OK : yk__tok_refuse(src, key, found, err);
}

/* ---- Templates ---- */

static yk_status piece_put(const struct tok_source *src, struct tok_template *p, int32_t id, int32_t type, yk_error *err)
{
    if (p->count == TOK_PIECES)
        return yk__fail(err, YK_E_FORMAT, "%s: post_processor: expected at most %d pieces", src->path, TOK_PIECES);
    p->piece[p->count++] = (struct tok_piece){id, type};
    return YK_OK;
}

void yk__tok_bert_template(yk__tokenizer *tok, int32_t cls, int32_t sep)
{
    tok->single = (struct tok_template){3, {{cls, 0}, {TOK_A, 0}, {sep, 0}}};
    tok->pair = (struct tok_template){5, {{cls, 0}, {TOK_A, 0}, {sep, 0}, {TOK_B, 1}, {sep, 1}}};
}

static yk_status special_put(const struct tok_source *src, const json_t *tokens, const char *name, int32_t type, struct tok_template *p,
                             yk_error *err)
{
    const json_t *ids = NULL;
    if (yk__json_list(&(yk__json_part){json_object_get(tokens, name), src->path, "post_processor: special_tokens"}, "ids", &ids, err))
        return err->status;
    if (!ids && yk__tok_token_id(src, name) >= 0)
        return piece_put(src, p, yk__tok_token_id(src, name), type, err);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_int_t id = json_is_integer(json_array_get(ids, i)) ? json_integer_value(json_array_get(ids, i)) : -1;
        if (id < 0 || id >= src->t->size)
            return yk__fail(err, YK_E_FORMAT, "%s: post_processor: '%.60s': expected ids of the vocabulary", src->path, name);
        if (piece_put(src, p, (int32_t)id, type, err))
            return err->status;
    }
    return json_array_size(ids) ? YK_OK
                                : yk__fail(err, YK_E_FORMAT, "%s: post_processor: '%.60s' is not in the vocabulary", src->path, name);
}

static yk_status template_piece(const struct tok_source *src, const json_t *v, const json_t *tokens, struct tok_template *p, yk_error *err)
{
    const json_t *special = json_object_get(v, "SpecialToken"), *text = json_object_get(v, "Sequence"), *x = special ? special : text;
    const yk__json_part part = {x, src->path, "post_processor"};
    const char *name = NULL;
    int64_t type = -1;
    if (yk__json_string(&part, "id", &name, err) || yk__json_whole(&part, "type_id", 0, 1, &type, err))
        return err->status;
    if (!name || type < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: post_processor: expected pieces with an id and a type_id of 0 or 1", src->path);
    if (special)
        return special_put(src, tokens, name, (int32_t)type, p, err);
    if (strcmp(name, "A") != 0 && strcmp(name, "B") != 0)
        return yk__fail(err, YK_E_FORMAT, "%s: post_processor: expected a Sequence A or B, found '%.60s'", src->path, name);
    return piece_put(src, p, *name == 'A' ? TOK_A : TOK_B, (int32_t)type, err);
}

/* v: the post_processor, whose member `key` is the template. */
static yk_status template_read(const struct tok_source *src, const json_t *v, const char *key, struct tok_template *p, yk_error *err)
{
    const json_t *tokens = json_object_get(v, "special_tokens"), *list = NULL;
    if (yk__json_list(&(yk__json_part){v, src->path, "post_processor"}, key, &list, err))
        return err->status;
    if (!list)
        return yk__fail(err, YK_E_FORMAT, "%s: post_processor: %s: expected a list, found nothing", src->path, key);
    p->count = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (template_piece(src, json_array_get(list, i), tokens, p, err))
            return err->status;
    return YK_OK;
}

/* ["[CLS]", 101]; -1 if it is something else */
static int32_t bert_id(const struct tok_source *src, const json_t *v, const char *key)
{
    const json_t *id = json_array_get(json_object_get(v, key), 1);
    const bool good = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < src->t->size;
    return good ? (int32_t)json_integer_value(id) : -1;
}

static yk_status post_processor_read(const struct tok_source *src, const json_t *v, yk_error *err)
{
    const char *type = type_of(v);
    if (is_none(v) || (type && !strcmp(type, "ByteLevel")))
        return YK_OK;
    if (type && !strcmp(type, "TemplateProcessing")) {
        if (keys_check(src, "post_processor", v, "type single pair special_tokens", err) ||
            template_read(src, v, "single", &src->t->single, err))
            return err->status;
        return template_read(src, v, "pair", &src->t->pair, err);
    }
    if (type && !strcmp(type, "BertProcessing")) {
        const int32_t cls = bert_id(src, v, "cls"), sep = bert_id(src, v, "sep");
        if (cls < 0 || sep < 0)
            return yk__fail(err, YK_E_FORMAT, "%s: post_processor: cls or sep: expected a token and its id in the vocabulary",
                            src->path);
        yk__tok_bert_template(src->t, cls, sep);
        return keys_check(src, "post_processor", v, "type cls sep", err);
    }
    return yk__tok_refuse(src, "post_processor type", type, err);
}

/* ---- WordPiece ---- */

static yk_status normalizer_read(const struct tok_source *src, const json_t *v, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    if (keys_check(src, "normalizer", v, "type clean_text handle_chinese_chars strip_accents lowercase", err) ||
        flag_read(src, "normalizer", v, "lowercase", 1, &tok->lowercase, err))
        return err->status;
    if (src->lowercase >= 0)
        tok->lowercase = src->lowercase;
    if (flag_read(src, "normalizer", v, "strip_accents", tok->lowercase, &tok->strip_accents, err) ||
        flag_read(src, "normalizer", v, "handle_chinese_chars", 1, &tok->chinese, err))
        return err->status;
    return flag_read(src, "normalizer", v, "clean_text", 1, &tok->clean, err);
}

static yk_status wordpiece_read(struct tok_source *src, const json_t *root, const json_t *model, yk_error *err)
{
    const yk__json_part part = {model, src->path, "model"};
    const char *unk = "[UNK]";
    int64_t max = src->t->max_chars;
    src->prefix = "##";
    if (keys_check(src, "model", model, "type unk_token continuing_subword_prefix max_input_chars_per_word vocab", err) ||
        type_expect(src, root, "normalizer", "BertNormalizer", err) || type_expect(src, root, "pre_tokenizer", "BertPreTokenizer", err) ||
        keys_check(src, "pre_tokenizer", json_object_get(root, "pre_tokenizer"), "type", err) ||
        normalizer_read(src, json_object_get(root, "normalizer"), err))
        return err->status;
    if (yk__json_whole(&part, "max_input_chars_per_word", 1, 99999, &max, err) || yk__json_string(&part, "unk_token", &unk, err) ||
        yk__json_string(&part, "continuing_subword_prefix", &src->prefix, err))
        return err->status;
    src->t->max_chars = (int)max;
    src->t->unk = yk__tok_token_id(src, unk);
    return YK_OK;
}

/* ---- BPE ---- */

static yk_status merge_read(const struct tok_source *src, const json_t *v, uint32_t rank, yk_error *err)
{
    const char *a = json_string_value(v), *space = a ? strchr(a + (*a != 0), ' ') : NULL;
    const char *l = json_string_value(json_array_get(v, 0)), *r = json_string_value(json_array_get(v, 1));
    int bad;
    if (space)
        bad = yk__tok_bpe_merge(src->t, a, (size_t)(space - a), space + 1, strlen(space + 1), rank);
    else
        bad = !l || !r || yk__tok_bpe_merge(src->t, l, strlen(l), r, strlen(r), rank);
    return bad ? yk__fail(err, YK_E_FORMAT, "%s: merge %u: expected two tokens of the vocabulary that join to a third", src->path, rank)
               : YK_OK;
}

static yk_status merges_read(const struct tok_source *src, const json_t *model, yk_error *err)
{
    const json_t *list = NULL;
    yk_status st = yk__json_list(&(yk__json_part){model, src->path, "model"}, "merges", &list, err);
    if (!st && !list)
        st = yk__fail(err, YK_E_FORMAT, "%s: model: merges: expected a list, found nothing", src->path);
    if (!st)
        st = yk__tok_bpe_merges(src->t, json_array_size(list), err);
    for (size_t i = 0; i < json_array_size(list) && !st; i++)
        st = merge_read(src, json_array_get(list, i), (uint32_t)i, err);
    return st;
}

/* Reads ByteLevel, after a Split that may come before it. */
static yk_status byte_level_read(const struct tok_source *src, const json_t *v, yk_error *err)
{
    int regex;
    if (keys_check(src, "pre_tokenizer", v, "type add_prefix_space trim_offsets use_regex", err) ||
        flag_read(src, "pre_tokenizer", v, "add_prefix_space", 1, &src->t->prefix_space, err) ||
        flag_read(src, "pre_tokenizer", v, "use_regex", 1, &regex, err))
        return err->status;
    if (src->t->pattern && (regex || src->t->prefix_space)) /* each would work on every part of the split text */
        return yk__tok_refuse(src, "pre_tokenizer ByteLevel after a Split with", regex ? "use_regex" : "add_prefix_space", err);
    return regex ? yk__tok_bpe_pattern(src->t, src->path, TOK_GPT2_PATTERN, err) : YK_OK;
}

static yk_status split_read(const struct tok_source *src, const json_t *v, yk_error *err)
{
    const char *regex = json_string_value(json_object_get(json_object_get(v, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(v, "behavior"));
    int invert;
    if (keys_check(src, "pre_tokenizer", v, "type pattern behavior invert", err) ||
        flag_read(src, "pre_tokenizer", v, "invert", 0, &invert, err))
        return err->status;
    if (!regex || src->t->pattern || !behavior || strcmp(behavior, "Isolated") != 0 || invert)
        return yk__tok_refuse(src, "pre_tokenizer", "Split (but one, by a Regex, Isolated, not inverted)", err);
    return yk__tok_bpe_pattern(src->t, src->path, regex, err);
}

/* Reads [Split,] ByteLevel: without the latter the vocabulary is one of characters, not of bytes. */
static yk_status pre_tokenizer_read(const struct tok_source *src, const json_t *pre, yk_error *err)
{
    const json_t *list = json_object_get(pre, "pretokenizers");
    const size_t n = list ? json_array_size(list) : is_none(pre) ? 0 : 1;
    bool bytes = false;
    if (list && keys_check(src, "pre_tokenizer", pre, "type pretokenizers", err))
        return err->status;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = list ? json_array_get(list, i) : pre;
        const char *type = type_of(v);
        if (bytes || !type || (strcmp(type, "ByteLevel") != 0 && strcmp(type, "Split") != 0))
            return yk__tok_refuse(src, bytes ? "pre_tokenizer, after ByteLevel," : "pre_tokenizer", type, err);
        bytes = !strcmp(type, "ByteLevel");
        if (bytes ? byte_level_read(src, v, err) : split_read(src, v, err))
            return err->status;
    }
    return bytes ? YK_OK : yk__tok_refuse(src, "a BPE without the pre_tokenizer ByteLevel, pre_tokenizer", type_of(pre), err);
}

static yk_status bpe_read(struct tok_source *src, const json_t *root, const json_t *model, yk_error *err)
{
    const json_t *norm = json_object_get(root, "normalizer"), *dropout = json_object_get(model, "dropout");
    const yk__json_part part = {model, src->path, "model"};
    const char *suffix = "", *prefix = "";
    int fallback, whole, fuse;
    src->t->kind = TOK_BPE;
    if (keys_check(src, "model", model, "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
                   "ignore_merges vocab merges", err) ||
        flag_read(src, "model", model, "byte_fallback", 0, &fallback, err) || flag_read(src, "model", model, "fuse_unk", 0, &fuse, err) ||
        flag_read(src, "model", model, "ignore_merges", 0, &whole, err) || yk__json_string(&part, "end_of_word_suffix", &suffix, err) ||
        yk__json_string(&part, "continuing_subword_prefix", &prefix, err))
        return err->status;
    if (!is_none(norm))
        return yk__tok_refuse(src, "normalizer", type_of(norm), err);
    if (*suffix || *prefix || fallback)
        return yk__tok_refuse(src, "BPE with", "a prefix, a suffix or byte_fallback", err);
    if (whole)
        return yk__tok_refuse(src, "BPE with", "ignore_merges", err);
    if (!is_none(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return yk__tok_refuse(src, "BPE with", "dropout", err);
    return pre_tokenizer_read(src, json_object_get(root, "pre_tokenizer"), err) ||
                   merges_read(src, model, err)
               ? err->status
               : YK_OK;
}

/* ---- Characters ---- */

/* Reads a file that yk__tokenizer_save wrote for a tokenizer of characters. */
static yk_status chars_read(struct tok_source *src, const json_t *root, const json_t *vocab, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    const char *key;
    json_t *v;
    if (!is_none(json_object_get(root, "normalizer")) || !is_none(json_object_get(root, "post_processor")) ||
        json_array_size(json_object_get(root, "added_tokens")))
        return yk__tok_refuse(src, "WordLevel with", "a normalizer, a post_processor or added_tokens", err);
    tok->kind = TOK_CHAR;
    tok->chars = yk__calloc(json_object_size(vocab), sizeof *tok->chars);
    if (!tok->chars)
        return yk__fail_mem(err, json_object_size(vocab) * sizeof *tok->chars, "characters");
    json_object_foreach((json_t *)vocab, key, v)
    {
        int len;
        int32_t c = *key ? yk__utf8_get(key, strlen(key), &len) : -1;
        if (c < 0 || key[len] || json_integer_value(v) != tok->n_chars || (tok->n_chars && c <= tok->chars[tok->n_chars - 1]))
            return yk__fail(err, YK_E_FORMAT, "%s: WordLevel: expected single characters, sorted and numbered from 0", src->path);
        tok->chars[tok->n_chars++] = c;
    }
    yk__strmap_free(tok->vocab);
    tok->vocab = NULL;
    tok->size = tok->n_chars;
    return YK_OK;
}

/* ---- A class that builds the tokenizer anew ---- */

struct conflict {
    const char *what, *found; /* in tokenizer.json; NULL if none */
    const char *key;          /* key of tokenizer_config.json that would settle it */
};

/* Compares the file's casing and accents with BertTokenizer's; given keys, and an option, settle a difference. */
static struct conflict normalizer_conflict(const struct tok_source *src, const json_t *v)
{
    const json_t *lower = json_object_get(v, "lowercase"), *accents = json_object_get(v, "strip_accents");
    const int folds = src->lowercase >= 0 ? src->lowercase : yk__tok_setting_flag(src, "do_lower_case", 1);
    if (src->lowercase < 0 && !yk__tok_setting_given(src, "do_lower_case") && json_is_false(lower))
        return (struct conflict){"normalizer.lowercase", "false", "do_lower_case"};
    if (!json_object_get(src->config, "strip_accents") && json_is_boolean(accents) && json_is_true(accents) != folds)
        return (struct conflict){"normalizer.strip_accents", json_is_true(accents) ? "true" : "false", "strip_accents"};
    if (!yk__tok_setting_given(src, "tokenize_chinese_chars") && json_is_false(json_object_get(v, "handle_chinese_chars")))
        return (struct conflict){"normalizer.handle_chinese_chars", "false", "tokenize_chinese_chars"};
    if (json_is_false(json_object_get(v, "clean_text")))
        return (struct conflict){"normalizer.clean_text", "false", NULL};
    return (struct conflict){NULL, NULL, NULL};
}

static bool template_is(const struct tok_template *p, const struct tok_template *q)
{
    bool same = p->count == q->count;
    for (int i = 0; i < p->count && same; i++)
        same = p->piece[i].id == q->piece[i].id && p->piece[i].type == q->piece[i].type;
    return same;
}

/* The tokenizer already holds the file's own template. */
static struct conflict bert_conflict(const struct tok_source *src, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    const struct conflict c = normalizer_conflict(src, json_object_get(root, "normalizer"));
    yk__tokenizer plain = {0};
    if (c.what)
        return c;
    if (strcmp(src->prefix, "##") != 0)
        return (struct conflict){"model.continuing_subword_prefix", src->prefix, NULL};
    if (src->t->max_chars != 100)
        return (struct conflict){"model.max_input_chars_per_word", "another number than 100", NULL};
    if (unk && !yk__tok_setting_token(src, "unk_token", NULL) && strcmp(unk, "[UNK]") != 0)
        return (struct conflict){"model.unk_token", unk, "unk_token"};
    if (yk__tok_setting_token(src, "cls_token", NULL) || yk__tok_setting_token(src, "sep_token", NULL))
        return (struct conflict){NULL, NULL, NULL};
    yk__tok_bert_template(&plain, yk__tok_token_id(src, "[CLS]"), yk__tok_token_id(src, "[SEP]"));
    if (!template_is(&plain.single, &src->t->single) || !template_is(&plain.pair, &src->t->pair))
        return (struct conflict){"post_processor", "another template than [CLS] A [SEP] B [SEP]", "cls_token and sep_token"};
    return (struct conflict){NULL, NULL, NULL};
}

static struct conflict gpt2_conflict(const struct tok_source *src, const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    const char *type = type_of(pre);
    if (!type || strcmp(type, "ByteLevel") != 0)
        return (struct conflict){"pre_tokenizer", type ? type : "(none)", NULL};
    if (json_is_false(json_object_get(pre, "use_regex")))
        return (struct conflict){"pre_tokenizer.use_regex", "false", NULL};
    if (!yk__tok_setting_given(src, "add_prefix_space") && src->t->prefix_space)
        return (struct conflict){"pre_tokenizer.add_prefix_space", "true", "add_prefix_space"};
    return (struct conflict){NULL, NULL, NULL};
}

static struct conflict class_conflict(const struct tok_source *src, const json_t *root, enum tok_class class)
{
    if ((class == TOK_CLASS_BERT) != (src->t->kind == TOK_WORDPIECE) || (class == TOK_CLASS_GPT2) != (src->t->kind == TOK_BPE))
        return (struct conflict){"model.type", type_of(json_object_get(root, "model")), NULL};
    return class == TOK_CLASS_BERT ? bert_conflict(src, root) : gpt2_conflict(src, root);
}

static yk_status conflict_refuse(const struct tok_source *src, struct conflict c, yk_error *err)
{
    if (c.key)
        return yk__fail(err, YK_E_UNSUPPORTED, "%s: %s is %.60s, but %s names %s, by which transformers ignores that: write %s into "
                        "tokenizer_config.json%s", src->path, c.what, c.found, src->class_file, src->class_name, c.key,
                        strcmp(c.key, "do_lower_case") ? "" : ", or give lowercase=yes or no");
    return yk__fail(err, YK_E_UNSUPPORTED, "%s: %s is %.60s, but %s names %s, by which transformers ignores that: to read tokenizer.json "
                    "as it stands, write \"tokenizer_class\": \"PreTrainedTokenizerFast\" into tokenizer_config.json", src->path, c.what,
                    c.found ? c.found : "(none)", src->class_file, src->class_name);
}

/* Checks a class that is not built here: tokenizer.json as it stands, if no key differs from it. */
static yk_status other_check(struct tok_source *src, yk_error *err)
{
    const yk__tokenizer *tok = src->t;
    const bool words = tok->kind == TOK_WORDPIECE;
    /* transformers reads a Llama of bytes as it stands, too */
    const bool bytes = tok->kind == TOK_BPE && word_in("LlamaTokenizer LlamaTokenizerFast", src->class_name);
    const struct {
        const char *key;
        int value;
    } said[] = {{"do_lower_case", words && tok->lowercase},
                {"strip_accents", words && tok->strip_accents},
                {"tokenize_chinese_chars", words && tok->chinese},
                {"add_prefix_space", tok->prefix_space}};
    if (yk__tok_class_has_rules(src->class_name) && !bytes)
        return yk__fail(err, YK_E_UNSUPPORTED, "%s/%s: tokenizer_class '%.60s' is not supported: to read tokenizer.json as it stands, "
                        "write \"tokenizer_class\": \"PreTrainedTokenizerFast\" into tokenizer_config.json", src->dir, src->class_file,
                        src->class_name);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (yk__tok_setting_given(src, said[i].key) && yk__tok_setting_flag(src, said[i].key, 0) != said[i].value &&
            !(i < 3 && src->lowercase >= 0))
            return yk__fail(err, YK_E_UNSUPPORTED, "%s/tokenizer_config.json: %s is %s, and tokenizer.json says something else: the rules "
                            "of %s are not supported", src->dir, said[i].key, said[i].value ? "false" : "true", src->class_name);
    return yk__tok_note(src, err, "%s: the rules of %s, which %s names, are not known: tokenizer.json is read as it stands", src->dir,
                        src->class_name, src->class_file);
}

/* The class, BertTokenizer or GPT2Tokenizer, whose rules equal the file's: a saved folder then names it. Else TOK_CLASS_PLAIN. */
static enum tok_class class_alike(struct tok_source *src, const json_t *root)
{
    static const char *const bert[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", NULL}, *const gpt2[] = {"<|endoftext|>", NULL};
    const enum tok_class class = src->t->kind == TOK_WORDPIECE ? TOK_CLASS_BERT : TOK_CLASS_GPT2;
    if (src->config || src->map || src->added || src->lowercase >= 0 || class_conflict(src, root, class).what)
        return TOK_CLASS_PLAIN;
    for (const char *const *special = class == TOK_CLASS_BERT ? bert : gpt2; *special; special++)
        if (!yk__tok_added_find(src->t, *special)) /* the class would make it an added token */
            return TOK_CLASS_PLAIN;
    return class;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static yk_status model_read(struct tok_source *src, const json_t *root, yk_error *err)
{
    const json_t *model = json_object_get(root, "model");
    const char *type = type_of(model);
    if (yk__tok_vocab_object(src, json_object_get(model, "vocab"), err))
        return err->status;
    if (!json_object_get(model, "type") && json_object_get(model, "merges"))
        type = "BPE"; /* early files do not name it */
    if (type && !strcmp(type, "WordLevel"))
        return chars_read(src, root, json_object_get(model, "vocab"), err);
    if (type && !strcmp(type, "WordPiece"))
        return wordpiece_read(src, root, model, err);
    if (type && !strcmp(type, "BPE"))
        return bpe_read(src, root, model, err);
    return yk__tok_refuse(src, "model", type, err);
}

static yk_status head_check(const struct tok_source *src, const json_t *root, yk_error *err)
{
    const char *version = "1.0";
    if (yk__json_string(&(yk__json_part){root, src->path, NULL}, "version", &version, err))
        return err->status;
    if (strcmp(version, "1.0") != 0)
        return yk__tok_refuse(src, "version", version, err);
    return keys_check(src, "tokenizer", root,
                      "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model", err);
}

/* The lengths belong to the data; the side does not. */
static yk_status direction_read(const struct tok_source *src, const json_t *root, const char *key, bool *left, yk_error *err)
{
    const char *side = "Right";
    if (yk__json_string(&(yk__json_part){json_object_get(root, key), src->path, key}, "direction", &side, err))
        return err->status;
    *left = !strcmp(side, "Left");
    return *left || !strcmp(side, "Right")
               ? YK_OK
               : yk__fail(err, YK_E_UNSUPPORTED, "%s: %s: direction '%.60s' is not supported", src->path, key, side);
}

/* Completes the tokenizer by its class; vocabulary, merges and the file's own template are there. */
static yk_status anew_read(struct tok_source *src, const json_t *added, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    if (src->class == TOK_CLASS_BERT) {
        yk__tok_bert_settings(src);
        tok->unk = yk__tok_token_id(src, yk__tok_setting_token(src, "unk_token", "[UNK]"));
    } else {
        tok->prefix_space = yk__tok_setting_flag(src, "add_prefix_space", 0);
    }
    if (yk__tok_model_ready(src, err) || yk__tok_added_read(src, added, err))
        return err->status;
    return src->class == TOK_CLASS_BERT ? yk__tok_bert_tokens(src, err) : YK_OK;
}

static yk_status plain_read(struct tok_source *src, const json_t *root, yk_error *err)
{
    const bool none = src->class == TOK_CLASS_NONE;
    if (yk__tok_model_ready(src, err) || yk__tok_added_read(src, json_object_get(root, "added_tokens"), err))
        return err->status;
    src->class = none ? class_alike(src, root) : src->class;
    return src->class == TOK_CLASS_OTHER ? other_check(src, err) : YK_OK;
}

static yk_status root_read(struct tok_source *src, const json_t *root, yk_error *err)
{
    const json_t *added = json_object_get(root, "added_tokens");
    const bool anew = src->class == TOK_CLASS_BERT || src->class == TOK_CLASS_GPT2;
    struct conflict c = {NULL, NULL, NULL};
    if (head_check(src, root, err) || direction_read(src, root, "truncation", &src->cut_left, err) ||
        direction_read(src, root, "padding", &src->pad_left, err) || model_read(src, root, err))
        return err->status;
    if (src->lowercase > 0 && src->t->kind != TOK_WORDPIECE)
        return yk__fail(err, YK_E_ARG, "%s: lowercase=yes has no effect on a tokenizer of kind %s", src->path,
                        type_of(json_object_get(root, "model")));
    if (src->t->kind != TOK_CHAR &&
        (yk__tok_added_list(src, added, err) || post_processor_read(src, json_object_get(root, "post_processor"), err)))
        return err->status;
    if (anew)
        c = class_conflict(src, root, src->class);
    if (c.what && !src->ours)
        return conflict_refuse(src, c, err);
    if (c.what || src->t->kind == TOK_CHAR)
        src->class = TOK_CLASS_PLAIN; /* Yoke saved the folder, and has read it so before */
    src->t->class_wins = c.what != NULL;
    if (src->t->kind == TOK_CHAR)
        return YK_OK;
    return anew && !c.what ? anew_read(src, added, err) : plain_read(src, root, err);
}

yk_status yk__tok_from_json(struct tok_source *src, yk_error *err)
{
    json_t *root;
    yk_status s = yk__json_load(src->path, YK__JSON_ANY, &root, err);
    if (s)
        return s;
    s = root_read(src, root, err);
    json_decref(root);
    return s;
}
