/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a tokenizer folder: tokenizer.json (tokenizer_json.c), or vocab.txt, or vocab.json with merges.txt; the first that is there.
 * Settings come from the files beside them. A name that ends in ".json" is a tokenizer.json by itself.
 *
 * yk__tokenizer_open calls yk__tok_load once: for a data set of text, for yk_tokenizer_open and for yoke tokenize, in the caller's thread.
 * It owns the tokenizer, and frees it after an error. No encoder uses the tokenizer yet.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "core/text/source.h"
#include "core/io/text.h"

/* ---- vocabulary ---- */

yk_status yk__tok_vocab_object(const struct tok_source *src, json_t *v, yk_error *err)
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
        st = yk__tok_vocab_add(src, key, strlen(key), json_integer_value(id), err);
        if (st)
            return st;
    }
    src->t->n_model = yk__strmap_count(src->t->vocab);
    return YK_OK;
}

static yk_status vocab_lines(struct tok_source *src, yk_error *err)
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
        st = yk__tok_vocab_add(src, p, len && p[len - 1] == '\r' ? len - 1 : len, id, err);
        p += len + 1;
    }
    src->unended = n && text[n - 1] != '\n';
    if (!st && id == 0)
        st = yk__fail(err, YK_E_FORMAT, "%s: expected one token per line, found an empty file", src->path);
    src->t->n_model = yk__strmap_count(src->t->vocab);
    yk__free(text);
    return st;
}

yk_status yk__tok_model_ready(struct tok_source *src, yk_error *err)
{
    yk__tokenizer *tok = src->t;
    yk_status st;
    if (tok->kind == TOK_BPE) {
        st = yk__tok_bpe_ready(tok, err);
        return st == YK_E_FORMAT ? yk__fail_in(err, "%s", src->path) : st;
    }
    if (tok->unk < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: expected the unknown token in the vocabulary, got none: add it ([UNK], say) to "
                        "the folder's files", src->path);
    return yk__tok_wordpiece_ready(tok, src->prefix, err);
}

/* ---- Files that are cut ---- */

enum { PADDED_MOST = 128 }; /* models are made wider by fewer rows, for speed, and few tokens come of no merge */

/* True if the model is wider than its tokens up to the next multiple of 8, 16, .. 128. */
static bool is_padded(int64_t size, int64_t vocab_size)
{
    bool is = false;
    for (int64_t step = 8; step <= PADDED_MOST; step *= 2)
        is |= vocab_size % step == 0 && vocab_size - size < step;
    return is;
}

/* A file whose last line has no end is whole as long as all tokens of config.json are there, but for those of a wider model. */
static yk_status vocab_whole(const struct tok_source *src, yk_error *err)
{
    const int have = src->t->n_model;
    if (src->t->size >= src->vocab_size)
        return YK_OK;
    if (src->unended && !is_padded(src->t->size, src->vocab_size))
        return yk__fail(err, YK_E_FORMAT, "%s: expected %lld tokens, the vocab_size of config.json, got %d, and the last line has no end: "
                        "the file is cut: fetch it again, or end that line if the file is whole", src->path, (long long)src->vocab_size,
                        have);
    if (src->ours || src->vocab_size - src->t->size < PADDED_MOST)
        return YK_OK;
    return yk__tok_note(src, err, "%s: it has %d tokens, and config.json says vocab_size %lld: the rows of the rest are never read",
                        src->path, have, (long long)src->vocab_size);
}

/* Each token that is no byte comes of a merge. */
static yk_status merges_whole(const struct tok_source *src, uint32_t merges, yk_error *err)
{
    if (!src->unended || (int64_t)merges + 256 + PADDED_MOST >= src->t->n_model)
        return YK_OK;
    return yk__fail(err, YK_E_FORMAT, "%s: expected a merge for each token of several bytes, of %d tokens in vocab.json, got %u merges, "
                    "and the last line has no end: the file is cut: fetch it again, or end that line if the file is whole", src->path,
                    src->t->n_model, merges);
}

/* ---- vocab.txt ---- */

/* Raises the vocabulary's size to include a token that is added to every text. */
static void size_cover(yk__tokenizer *tok, int32_t id)
{
    if (id >= tok->size)
        tok->size = id + 1;
}

yk_status yk__tok_bert_tokens(struct tok_source *src, yk_error *err)
{
    const int32_t cls = yk__tok_token_id(src, yk__tok_setting_token(src, "cls_token", "[CLS]"));
    const int32_t sep = yk__tok_token_id(src, yk__tok_setting_token(src, "sep_token", "[SEP]"));
    if (cls < 0 || sep < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: expected the tokens that begin and end a text, [CLS] and [SEP] (cls_token, sep_token)",
                        src->path);
    size_cover(src->t, cls);
    size_cover(src->t, sep);
    yk__tok_bert_template(src->t, cls, sep);
    return YK_OK;
}

/* Refuses a class that does not fit the file. A known class of config.json gives way, an unknown one does not; folders saved by Yoke
 * pass. */
static yk_status class_expect(struct tok_source *src, enum tok_class class, yk_error *err)
{
    const bool implied = !src->class_name || (!strcmp(src->class_file, "config.json") && src->class != TOK_CLASS_OTHER);
    if (src->class != class && !implied && !src->ours)
        return yk__fail(err, YK_E_UNSUPPORTED, "%s: %s names the tokenizer %s, which Yoke has not for this file: expected %s (or a "
                        "tokenizer.json)", src->path, src->class_file, src->class_name,
                        class == TOK_CLASS_BERT ? "BertTokenizer" : "GPT2Tokenizer");
    src->class = class;
    return YK_OK;
}

static yk_status from_vocab_txt(struct tok_source *src, yk_error *err)
{
    if (class_expect(src, TOK_CLASS_BERT, err) || vocab_lines(src, err))
        return err->status;
    yk__tok_bert_settings(src);
    src->t->unk = yk__tok_token_id(src, yk__tok_setting_token(src, "unk_token", "[UNK]"));
    if (src->lowercase < 0 && !yk__tok_setting_given(src, "do_lower_case") &&
        yk__tok_note(src, err, "%s: no file says whether upper case counts: it is folded, as transformers' BertTokenizer does (lowercase="
                     "no in --data, --no-lowercase of yoke tokenize, or do_lower_case in tokenizer_config.json keeps it)", src->dir))
        return err->status;
    if (yk__tok_model_ready(src, err) || yk__tok_added_read(src, NULL, err) || vocab_whole(src, err))
        return err->status;
    return yk__tok_bert_tokens(src, err);
}

/* ---- vocab.json and merges.txt ---- */

static yk_status merge_line(const struct tok_source *src, const char *p, size_t len, size_t line, uint32_t *rank,
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

static yk_status merge_lines(struct tok_source *src, yk_error *err)
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
    src->unended = n && text[n - 1] != '\n';
    if (!st)
        st = merges_whole(src, rank, err);
    yk__free(text);
    return st;
}

/* Sets the tokens around a text: add_bos_token and add_eos_token turn them on, bos_token and eos_token name them. */
static yk_status gpt2_template(struct tok_source *src, yk_error *err)
{
    const char *bos = yk__tok_setting_token(src, "bos_token", "<|endoftext|>");
    const char *eos = yk__tok_setting_token(src, "eos_token", "<|endoftext|>");
    const int begin = bos && yk__tok_setting_flag(src, "add_bos_token", 0), end = eos && yk__tok_setting_flag(src, "add_eos_token", 0);
    yk__tokenizer *tok = src->t;
    const int32_t first = yk__tok_token_id(src, bos), last = yk__tok_token_id(src, eos);
    if ((begin && first < 0) || (end && last < 0))
        return yk__fail(err, YK_E_FORMAT, "%s: %s: '%.60s' is not in the vocabulary", src->path,
                        begin && first < 0 ? "bos_token" : "eos_token",
                        begin && first < 0 ? bos : eos);
    tok->single.count = tok->pair.count = 0;
    for (int i = 0; i < 2; i++) {
        if (begin)
            tok->pair.piece[tok->pair.count++] = (struct tok_piece){first, i};
        tok->pair.piece[tok->pair.count++] = (struct tok_piece){i ? TOK_B : TOK_A, i};
        if (end)
            tok->pair.piece[tok->pair.count++] = (struct tok_piece){last, i};
        if (!i)
            tok->single = tok->pair;
    }
    size_cover(tok, begin ? first : -1);
    size_cover(tok, end ? last : -1);
    return YK_OK;
}

static yk_status vocab_and_merges(struct tok_source *src, yk_error *err)
{
    json_t *v;
    int there;
    yk_status st = yk__json_load(src->path, YK__JSON_ANY, &v, err);
    if (st)
        return st;
    src->t->kind = TOK_BPE;
    st = yk__tok_vocab_object(src, v, err);
    json_decref(v);
    if (!st)
        st = yk__tok_bpe_pattern(src->t, src->path, TOK_GPT2_PATTERN, err);
    if (!st)
        st = yk__tok_path(src, "merges.txt", &there, err);
    if (!st)
        st = merge_lines(src, err);
    return st;
}

static yk_status from_vocab_json(struct tok_source *src, yk_error *err)
{
    if (src->lowercase > 0)
        return yk__fail(err, YK_E_ARG, "%s: lowercase=yes has no effect on a byte-level BPE", src->path);
    if (class_expect(src, TOK_CLASS_GPT2, err) || vocab_and_merges(src, err))
        return err->status;
    src->t->prefix_space = yk__tok_setting_flag(src, "add_prefix_space", 0);
    if (yk__tok_model_ready(src, err) || yk__tok_added_read(src, NULL, err))
        return err->status;
    return gpt2_template(src, err);
}

/* ---- The folder ---- */

static yk_status folder_load(struct tok_source *src, yk_error *err)
{
    static const struct {
        const char *name;
        yk_status (*read)(struct tok_source *src, yk_error *err);
    } forms[] = {{"tokenizer.json", yk__tok_from_json}, {"vocab.txt", from_vocab_txt}, {"vocab.json", from_vocab_json}};
    if (yk__tok_settings_read(src, err))
        return err->status;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        int there;
        if (yk__tok_path(src, forms[i].name, &there, err))
            return err->status;
        if (there)
            return forms[i].read(src, err);
    }
    return yk__fail(err, YK_E_ARG, "%s: expected a folder with tokenizer.json, vocab.txt, or vocab.json and merges.txt", src->dir);
}

/* The class for tokenizer_config.json in a saved folder. */
static const char *class_saved(enum tok_class class)
{
    return class == TOK_CLASS_BERT ? "BertTokenizer" : class == TOK_CLASS_GPT2 ? "GPT2Tokenizer" : "PreTrainedTokenizerFast";
}

static yk_status source_read(struct tok_source *src, const char *name, yk_error *err)
{
    const size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".json")) { /* the file itself */
        src->path = yk__strdup(name);
        return src->path ? yk__tok_from_json(src, err) : yk__fail_mem(err, n, "a path");
    }
    src->dir = name;
    return folder_load(src, err);
}

/* lowercase: 1 or 0, or -1 for the choice of the files. */
yk_status yk__tok_load(yk__tokenizer *tok, const char *name, int lowercase, yk_error *err)
{
    struct tok_source src = {.t = tok, .lowercase = lowercase, .prefix = "##"};
    yk_status st;
    tok->vocab = yk__strmap_new();
    tok->dir = yk__strdup(name);
    if (!tok->vocab || !tok->dir)
        return yk__fail_mem(err, 64, "a vocabulary");
    st = source_read(&src, name, err);
    tok->class_name = class_saved(src.class);
    if (!st)
        st = yk__tok_settings_apply(&src, err);
    if (!st)
        st = yk__tok_added_ready(&src, err);
    yk__tok_settings_free(&src);
    return st;
}
