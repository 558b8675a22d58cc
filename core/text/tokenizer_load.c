/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizer folders: tokenizer.json, or vocab.txt, or vocab.json with merges.txt. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/text/text.h"
#include "core/text/internal.h"
#include "core/text/utf8.h"
#include "core/io/json.h"

#define MAX_ID (1 << 28)

struct source {
    yk__tokenizer *t;
    const char *dir;
    char *path; /* of the file being read */
    int lowercase;
    const char *prefix; /* WordPiece: "##" */
};

static yk_status not_built(const struct source *src, const char *key, const char *value, yk_error *err)
{
    return yk__fail(err, YK_E_UNSUPPORTED, "%s: %s '%.60s' is not supported", src->path, key, value ? value : "(none)");
}

static yk_status set_path(struct source *src, const char *name, int *there, yk_error *err)
{
    yk__free(src->path);
    src->path = yk__format("%s/%s", src->dir, name);
    if (!src->path)
        return yk__fail_mem(err, strlen(src->dir), "a path");
    *there = access(src->path, R_OK) == 0;
    return YK_OK;
}

/* ---- vocabulary ---- */

static yk_status add_token(const struct source *src, const char *key, size_t n, long long id, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    if (id < 0 || id > MAX_ID)
        return yk__fail(err, YK_E_FORMAT, "%s: token '%.60s': id %lld, expected 0 to %d", src->path, key, id, MAX_ID);
    if (yk__strmap_put(tok->vocab, key, n, (int32_t)id))
        return yk__fail_mem(err, n, "a vocabulary");
    if (id >= tok->size)
        tok->size = (int32_t)id + 1;
    return YK_OK;
}

static yk_status vocab_object(const struct source *src, json_t *v, yk_error *err)
{
    const char *key;
    json_t *id;
    if (!json_is_object(v) || !json_object_size(v))
        return yk__fail(err, YK_E_FORMAT, "%s: vocab: expected an object of tokens and ids, found %s", src->path,
                        yk__json_type(v));
    json_object_foreach(v, key, id)
    {
        yk_status st;
        if (!json_is_integer(id))
            return yk__fail(err, YK_E_FORMAT, "%s: token '%.60s': expected an integer id, found %s", src->path, key,
                            yk__json_type(id));
        st = add_token(src, key, strlen(key), json_integer_value(id), err);
        if (st)
            return st;
    }
    return YK_OK;
}

static yk_status vocab_lines(const struct source *src, yk_error *err)
{
    char *text, *p;
    size_t n;
    long long id = 0;
    yk_status st = yk__text_open(src->path, 0, &text, &n, err);
    if (st)
        return st;
    for (p = text; p < text + n && !st; id++) {
        char *end = memchr(p, '\n', (size_t)(text + n - p));
        size_t len = (size_t)((end ? end : text + n) - p);
        st = add_token(src, p, len && p[len - 1] == '\r' ? len - 1 : len, id, err);
        p += len + 1;
    }
    if (!st && id == 0)
        st = yk__fail(err, YK_E_FORMAT, "%s: expected one token per line, found an empty file", src->path);
    yk__free(text);
    return st;
}

static int32_t token_id(const struct source *src, const char *token)
{
    return token ? yk__strmap_get(src->t->vocab, token, strlen(token)) : -1;
}

/* ---- added tokens ---- */

static yk_status add_added(const struct source *src, struct tok_added a, const char *text, size_t n, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    struct tok_added *p;
    yk_status st;
    if (!n)
        return YK_OK;
    st = add_token(src, text, n, a.id, err);
    if (st)
        return st;
    p = yk__realloc(tok->added, (size_t)tok->n_added + 1, sizeof *p);
    if (!p)
        return yk__fail_mem(err, sizeof *p, "an added token");
    tok->added = p;
    a.text = yk__strndup(text, n);
    a.bytes = n;
    if (!a.text)
        return yk__fail_mem(err, n, "an added token");
    tok->added[tok->n_added++] = a;
    tok->added_first[(unsigned char)*text] = 1;
    if (a.fold)
        tok->added_first[(unsigned char)*text ^ 32] = 1;
    return YK_OK;
}

static yk_status added_tokens(const struct source *src, const json_t *list, yk_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i), *text = json_object_get(v, "content");
        const json_t *id = json_object_get(v, "id");
        struct tok_added a = {.id = -1,
                              .lstrip = json_is_true(json_object_get(v, "lstrip")),
                              .rstrip = json_is_true(json_object_get(v, "rstrip")),
                              .single_word = json_is_true(json_object_get(v, "single_word")),
                              .special = json_is_true(json_object_get(v, "special")),
                              .fold = src->t->lowercase && json_is_true(json_object_get(v, "normalized"))};
        yk_status st;
        if (!json_is_string(text) || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > MAX_ID)
            return yk__fail(err, YK_E_FORMAT, "%s: added_tokens, element %zu: expected a content and an id", src->path,
                            i);
        a.id = (int32_t)json_integer_value(id);
        st = add_added(src, a, json_string_value(text), json_string_length(text), err);
        if (st)
            return st;
    }
    return YK_OK;
}

/* ---- templates ---- */

static void put_piece(struct tok_template *p, int32_t id, int32_t type)
{
    p->piece[p->count++] = (struct tok_piece){id, type};
}

static void bert_template(yk__tokenizer *tok, int32_t cls, int32_t sep)
{
    tok->single = (struct tok_template){3, {{cls, 0}, {TOK_A, 0}, {sep, 0}}};
    tok->pair = (struct tok_template){5, {{cls, 0}, {TOK_A, 0}, {sep, 0}, {TOK_B, 1}, {sep, 1}}};
}

static yk_status template_piece(const struct source *src, const json_t *v, struct tok_template *p, yk_error *err)
{
    const json_t *special = json_object_get(v, "SpecialToken"), *text = json_object_get(v, "Sequence");
    const json_t *x = special ? special : text;
    const char *name = json_string_value(json_object_get(x, "id"));
    json_int_t type = json_integer_value(json_object_get(x, "type_id"));
    int32_t id;
    if (!name || p->count == TOK_PIECES || type < 0 || type > 1)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: post_processor: expected at most %d pieces with an id and a type_id of 0 or 1", src->path,
                        TOK_PIECES);
    id = special ? token_id(src, name) : !strcmp(name, "A") ? TOK_A : !strcmp(name, "B") ? TOK_B : -3;
    if (id == -3 || (special && id < 0))
        return yk__fail(err, YK_E_FORMAT, "%s: post_processor: '%.60s' is not in the vocabulary", src->path, name);
    put_piece(p, id, (int32_t)type);
    return YK_OK;
}

static yk_status template_of(const struct source *src, const json_t *list, struct tok_template *p, yk_error *err)
{
    p->count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        yk_status st = template_piece(src, json_array_get(list, i), p, err);
        if (st)
            return st;
    }
    return YK_OK;
}

static int32_t bert_id(const struct source *src, const json_t *v, const char *key)
{
    return token_id(src, json_string_value(json_array_get(json_object_get(v, key), 0)));
}

static yk_status post_processor(const struct source *src, const json_t *v, yk_error *err)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    yk_status st;
    if (!v || json_is_null(v) || (type && !strcmp(type, "ByteLevel")))
        return YK_OK;
    if (type && !strcmp(type, "TemplateProcessing")) {
        st = template_of(src, json_object_get(v, "single"), &src->t->single, err);
        if (!st)
            st = template_of(src, json_object_get(v, "pair"), &src->t->pair, err);
        return st;
    }
    if (type && !strcmp(type, "BertProcessing")) {
        int32_t cls = bert_id(src, v, "cls"), sep = bert_id(src, v, "sep");
        if (cls < 0 || sep < 0)
            return yk__fail(err, YK_E_FORMAT, "%s: post_processor: cls or sep is not in the vocabulary", src->path);
        bert_template(src->t, cls, sep);
        return YK_OK;
    }
    return not_built(src, "post_processor type", type, err);
}

/* ---- tokenizer.json ---- */

static int json_flag(const json_t *o, const char *key, int preset)
{
    const json_t *v = json_object_get(o, key);
    return json_is_boolean(v) ? json_is_true(v) : preset;
}

static void set_normalizer(const struct source *src, const json_t *v)
{
    yk__tokenizer *tok = src->t;
    tok->lowercase = src->lowercase >= 0 ? src->lowercase : json_flag(v, "lowercase", 1);
    tok->strip_accents = json_flag(v, "strip_accents", tok->lowercase);
    tok->chinese = json_flag(v, "handle_chinese_chars", 1);
    tok->clean = json_flag(v, "clean_text", 1);
}

static yk_status expect_type(const struct source *src, const json_t *root, const char *key, const char *type,
                             yk_error *err)
{
    const char *found = json_string_value(json_object_get(json_object_get(root, key), "type"));
    return found && !strcmp(found, type) ? YK_OK : not_built(src, key, found, err);
}

static yk_status json_wordpiece(struct source *src, const json_t *root, const json_t *model, yk_error *err)
{
    const json_t *max = json_object_get(model, "max_input_chars_per_word");
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    yk_status st = expect_type(src, root, "normalizer", "BertNormalizer", err);
    if (!st)
        st = expect_type(src, root, "pre_tokenizer", "BertPreTokenizer", err);
    if (st)
        return st;
    set_normalizer(src, json_object_get(root, "normalizer"));
    if (json_is_integer(max) && json_integer_value(max) > 0 && json_integer_value(max) < 100000)
        src->t->max_chars = (int)json_integer_value(max);
    src->prefix = prefix ? prefix : "##";
    src->t->unk = token_id(src, unk ? unk : "[UNK]");
    return YK_OK;
}

static yk_status json_merge(const struct source *src, const json_t *v, uint32_t rank, yk_error *err)
{
    const char *a = json_string_value(v), *space = a ? strchr(a + (*a != 0), ' ') : NULL;
    const char *l = json_string_value(json_array_get(v, 0)), *r = json_string_value(json_array_get(v, 1));
    int bad;
    if (space)
        bad = yk__tok_bpe_merge(src->t, a, (size_t)(space - a), space + 1, strlen(space + 1), rank);
    else
        bad = !l || !r || yk__tok_bpe_merge(src->t, l, strlen(l), r, strlen(r), rank);
    return bad ? yk__fail(err, YK_E_FORMAT, "%s: merge %u: expected two tokens of the vocabulary that join to a third",
                          src->path, rank)
               : YK_OK;
}

static yk_status json_merges(const struct source *src, const json_t *list, yk_error *err)
{
    yk_status st = yk__tok_bpe_merges(src->t, json_array_size(list), err);
    for (size_t i = 0; i < json_array_size(list) && !st; i++)
        st = json_merge(src, json_array_get(list, i), (uint32_t)i, err);
    return st;
}

/* One pre_tokenizer: ByteLevel, or Split by a pattern. */
static yk_status pre_tokenizer(const struct source *src, const json_t *v, yk_error *err)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const char *regex = json_string_value(json_object_get(json_object_get(v, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(v, "behavior"));
    if (type && !strcmp(type, "ByteLevel")) {
        src->t->prefix_space = json_flag(v, "add_prefix_space", 1);
        return json_flag(v, "use_regex", 1) && !src->t->pattern
                   ? yk__tok_bpe_pattern(src->t, src->path, TOK_GPT2_PATTERN, err)
                   : YK_OK;
    }
    if (type && !strcmp(type, "Split") && regex && !src->t->pattern && behavior && !strcmp(behavior, "Isolated") &&
        !json_flag(v, "invert", 0))
        return yk__tok_bpe_pattern(src->t, src->path, regex, err);
    return not_built(src, "pre_tokenizer", type, err);
}

static yk_status json_bpe(struct source *src, const json_t *root, const json_t *model, yk_error *err)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer"), *norm = json_object_get(root, "normalizer");
    const json_t *list = json_object_get(pre, "pretokenizers");
    const char *suffix = json_string_value(json_object_get(model, "end_of_word_suffix"));
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    yk_status st = YK_OK;
    src->t->kind = TOK_BPE;
    if (norm && !json_is_null(norm))
        return not_built(src, "normalizer", json_string_value(json_object_get(norm, "type")), err);
    if ((suffix && *suffix) || (prefix && *prefix) || json_flag(model, "byte_fallback", 0))
        return not_built(src, "BPE with", "a prefix, a suffix or byte_fallback", err);
    src->t->ignore_merges = json_flag(model, "ignore_merges", 0);
    if (src->t->ignore_merges)
        return not_built(src, "BPE with", "ignore_merges", err);
    if (list)
        for (size_t i = 0; i < json_array_size(list) && !st; i++)
            st = pre_tokenizer(src, json_array_get(list, i), err);
    else if (pre && !json_is_null(pre))
        st = pre_tokenizer(src, pre, err);
    if (!st)
        st = json_merges(src, json_object_get(model, "merges"), err);
    return st;
}

/* What yk__tokenizer_save_chars wrote. */
static yk_status json_chars(struct source *src, const json_t *vocab, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    const char *key;
    json_t *v;
    tok->kind = TOK_CHAR;
    tok->chars = yk__calloc(json_object_size(vocab), sizeof *tok->chars);
    if (!tok->chars)
        return yk__fail_mem(err, json_object_size(vocab) * sizeof *tok->chars, "characters");
    json_object_foreach((json_t *)vocab, key, v)
    {
        int len;
        int32_t c = *key ? yk__utf8_get(key, strlen(key), &len) : -1;
        if (c < 0 || key[len] || json_integer_value(v) != tok->n_chars ||
            (tok->n_chars && c <= tok->chars[tok->n_chars - 1]))
            return yk__fail(err, YK_E_FORMAT, "%s: WordLevel: expected single characters, sorted and numbered from 0",
                            src->path);
        tok->chars[tok->n_chars++] = c;
    }
    yk__strmap_free(tok->vocab);
    tok->vocab = NULL;
    tok->size = tok->n_chars;
    return YK_OK;
}

static yk_status read_root(struct source *src, const json_t *root, yk_error *err)
{
    const json_t *model = json_object_get(root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    yk_status st = vocab_object(src, json_object_get(model, "vocab"), err);
    if (st)
        return st;
    if (!type && json_object_get(model, "merges"))
        type = "BPE"; /* early files do not name it */
    if (type && !strcmp(type, "WordLevel"))
        return json_chars(src, json_object_get(model, "vocab"), err);
    if (type && !strcmp(type, "WordPiece"))
        st = json_wordpiece(src, root, model, err);
    else if (type && !strcmp(type, "BPE"))
        st = json_bpe(src, root, model, err);
    else
        st = not_built(src, "model", type, err);
    if (!st)
        st = added_tokens(src, json_object_get(root, "added_tokens"), err);
    if (!st)
        st = post_processor(src, json_object_get(root, "post_processor"), err);
    return st;
}

static yk_status tokenizer_ready(struct source *src, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    int32_t pad = tok->vocab ? token_id(src, "[PAD]") : -1;
    yk_status st;
    tok->pad = pad > 0 ? pad : 0;
    if (tok->kind == TOK_CHAR)
        return YK_OK;
    if (tok->kind == TOK_BPE) {
        st = yk__tok_bpe_ready(tok, err);
        return st == YK_E_FORMAT ? yk__fail_in(err, "%s", src->path) : st;
    }
    if (tok->unk < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: the unknown token is not in the vocabulary", src->path);
    return yk__tok_wordpiece_ready(tok, src->prefix, err);
}

static yk_status from_json(struct source *src, yk_error *err)
{
    json_t *root;
    yk_status st = yk__json_load(src->path, YK__JSON_ANY, &root, err);
    if (st)
        return st;
    st = read_root(src, root, err);
    if (!st)
        st = tokenizer_ready(src, err);
    json_decref(root);
    return st;
}

/* ---- vocab.txt ---- */

static int cased_name(const char *dir)
{
    static const char *const names[] = {"bert-base-chinese", "bert-base-cased", "bert-large-cased",
                                        "bert-base-multilingual-cased"};
    size_t n = strlen(dir);
    while (n && dir[n - 1] == '/')
        n--;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t k = strlen(names[i]);
        if (n >= k && !strncmp(dir + n - k, names[i], k) && (n == k || dir[n - k - 1] == '/'))
            return 1;
    }
    return 0;
}

static yk_status from_config(struct source *src, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    json_t *c = NULL;
    int there;
    yk_status st = set_path(src, "tokenizer_config.json", &there, err);
    if (!st && there)
        st = yk__json_load(src->path, YK__JSON_ANY, &c, err);
    if (st)
        return st;
    tok->lowercase = src->lowercase >= 0 ? src->lowercase : json_flag(c, "do_lower_case", !cased_name(src->dir));
    tok->strip_accents = json_flag(c, "strip_accents", tok->lowercase);
    tok->chinese = json_flag(c, "tokenize_chinese_chars", 1);
    tok->clean = 1;
    json_decref(c);
    return YK_OK;
}

static yk_status from_vocab_txt(struct source *src, yk_error *err)
{
    static const char *const special[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    int32_t cls, sep;
    yk_status st = vocab_lines(src, err);
    for (size_t i = 0; i < sizeof special / sizeof special[0] && !st; i++) {
        struct tok_added a = {.id = token_id(src, special[i]), .special = 1};
        if (a.id >= 0)
            st = add_added(src, a, special[i], strlen(special[i]), err);
    }
    if (st)
        return st;
    cls = token_id(src, "[CLS]");
    sep = token_id(src, "[SEP]");
    src->t->unk = token_id(src, "[UNK]");
    if (cls < 0 || sep < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: expected [CLS] and [SEP] among the tokens", src->path);
    bert_template(src->t, cls, sep);
    st = from_config(src, err);
    if (!st)
        st = tokenizer_ready(src, err);
    return st;
}

/* ---- vocab.json and merges.txt ---- */

static yk_status merge_line(const struct source *src, const char *p, size_t len, size_t line, uint32_t *rank,
                            yk_error *err)
{
    const char *space;
    if (len && p[len - 1] == '\r')
        len--;
    if (!len || (line == 1 && len > 8 && !memcmp(p, "#version", 8)))
        return YK_OK;
    space = memchr(p, ' ', len);
    if (!space ||
        yk__tok_bpe_merge(src->t, p, (size_t)(space - p), space + 1, len - 1 - (size_t)(space - p), (*rank)++))
        return yk__fail(err, YK_E_FORMAT, "%s: line %zu: expected two tokens of the vocabulary that join to a third",
                        src->path, line);
    return YK_OK;
}

static yk_status merge_lines(const struct source *src, yk_error *err)
{
    char *text, *p;
    size_t n, count = 1, line = 1;
    uint32_t rank = 0;
    yk_status st = yk__text_open(src->path, 0, &text, &n, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        count += text[i] == '\n';
    st = yk__tok_bpe_merges(src->t, count, err);
    for (p = text; p < text + n && !st; line++) {
        char *end = memchr(p, '\n', (size_t)(text + n - p));
        size_t len = (size_t)((end ? end : text + n) - p);
        st = merge_line(src, p, len, line, &rank, err);
        p += len + 1;
    }
    yk__free(text);
    return st;
}

static yk_status from_vocab_json(struct source *src, yk_error *err)
{
    json_t *v;
    int there;
    struct tok_added end = {.id = -1, .special = 1};
    yk_status st = yk__json_load(src->path, YK__JSON_ANY, &v, err);
    if (st)
        return st;
    src->t->kind = TOK_BPE;
    st = vocab_object(src, v, err);
    json_decref(v);
    if (!st)
        st = yk__tok_bpe_pattern(src->t, src->path, TOK_GPT2_PATTERN, err);
    if (!st)
        st = set_path(src, "merges.txt", &there, err);
    if (!st)
        st = merge_lines(src, err);
    if (st)
        return st;
    end.id = token_id(src, "<|endoftext|>");
    if (end.id >= 0)
        st = add_added(src, end, "<|endoftext|>", 13, err);
    if (!st)
        st = tokenizer_ready(src, err);
    return st;
}

/* ---- */

static yk_status folder_load(struct source *src, yk_error *err)
{
    static const struct {
        const char *name;
        yk_status (*read)(struct source *src, yk_error *err);
    } forms[] = {{"tokenizer.json", from_json}, {"vocab.txt", from_vocab_txt}, {"vocab.json", from_vocab_json}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        int there;
        yk_status st = set_path(src, forms[i].name, &there, err);
        if (st)
            return st;
        if (there)
            return forms[i].read(src, err);
    }
    return yk__fail(err, YK_E_ARG, "%s: expected a folder with tokenizer.json, vocab.txt, or vocab.json and merges.txt",
                    src->dir);
}

yk_status yk__tok_load(yk__tokenizer *tok, const char *dir, int lowercase, yk_error *err)
{
    struct source src = {.t = tok, .dir = dir, .lowercase = lowercase, .prefix = "##"};
    size_t n = strlen(dir);
    yk_status st;
    tok->vocab = yk__strmap_new();
    if (!tok->vocab)
        return yk__fail_mem(err, 64, "a vocabulary");
    if (n > 5 && !strcmp(dir + n - 5, ".json")) { /* the file itself */
        src.path = yk__strdup(dir);
        st = src.path ? from_json(&src, err) : yk__fail_mem(err, n, "a path");
    } else {
        st = folder_load(&src, err);
    }
    yk__free(src.path);
    return st;
}
