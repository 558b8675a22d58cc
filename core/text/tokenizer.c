/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all tokenizers have in common: finding added tokens, cutting to a length, the template of special tokens; and the two small
 * kinds, characters and bytes. WordPiece and BPE have files of their own.
 */
#include "core/text/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/internal.h"
#include "core/text/utf8.h"

/* ---- ids ---- */

int yk__tok_push(yk__ids *ids, int32_t id)
{
    if (ids->count == ids->id_cap && yk__grow(&ids->id, &ids->id_cap, ids->count + 1, sizeof *ids->id))
        return -1;
    ids->id[ids->count++] = id;
    return 0;
}

void yk__ids_free(yk__ids *ids)
{
    yk__free(ids->id);
    yk__free(ids->type);
    memset(ids, 0, sizeof *ids);
}

/* ---- opening ---- */

static yk__tokenizer *tokenizer_new(enum tok_kind kind)
{
    yk__tokenizer *t = yk__calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->kind = kind;
    t->unk = -1;
    t->max_chars = 100;
    t->single = (struct tok_template){1, {{TOK_A, 0}}};
    t->pair = (struct tok_template){2, {{TOK_A, 0}, {TOK_B, 1}}};
    return t;
}

yk__tokenizer *yk__tokenizer_share(yk__tokenizer *t)
{
    atomic_fetch_add(&t->shared, 1);
    return t;
}

void yk__tokenizer_close(yk__tokenizer *t)
{
    if (!t || atomic_fetch_sub(&t->shared, 1) > 0)
        return;
    for (int i = 0; i < t->n_added; i++)
        yk__free(t->added[i].text);
    yk__free(t->added);
    yk__strmap_free(t->vocab);
    yk__strmap_free(t->first);
    yk__strmap_free(t->more);
    yk__free(t->class);
    yk__free(t->merge);
    yk__free(t->chars);
    pcre2_code_free(t->pattern);
    yk__free(t);
}

yk_status yk__tokenizer_open(const char *dir, int lowercase, yk__tokenizer **out, yk_error *err)
{
    yk__tokenizer *t = tokenizer_new(TOK_WORDPIECE);
    yk_status s;
    if (!t)
        return yk__fail_mem(err, sizeof *t, "a tokenizer");
    s = yk__tok_load(t, dir, lowercase, err);
    if (s)
        yk__tokenizer_close(t);
    else
        *out = t;
    return s;
}

yk_status yk__tokenizer_bytes(yk__tokenizer **out, yk_error *err)
{
    yk__tokenizer *t = tokenizer_new(TOK_BYTES);
    if (!t)
        return yk__fail_mem(err, sizeof *t, "a tokenizer");
    t->size = 256;
    *out = t;
    return YK_OK;
}

static yk_status not_utf8(const char *text, size_t at, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "byte %zu: 0x%02x is not UTF-8", at, (unsigned char)text[at]);
}

static int32_t count_bits(const uint64_t *seen)
{
    int32_t n = 0;
    for (int i = 0; i < 0x110000 / 64; i++)
        n += __builtin_popcountll(seen[i]);
    return n;
}

static yk_status collect_chars(yk__tokenizer *t, const char *text, size_t bytes, yk_error *err)
{
    uint64_t *seen = yk__calloc(0x110000 / 64, sizeof *seen);
    yk_status s = YK_OK;
    if (!seen)
        return yk__fail_mem(err, 0x110000 / 8, "a set of characters");
    for (size_t i = 0; i < bytes && !s;) {
        int len;
        int32_t c = yk__utf8_get(text + i, bytes - i, &len);
        if (c < 0)
            s = not_utf8(text, i, err);
        else
            seen[c / 64] |= (uint64_t)1 << (c % 64);
        i += (size_t)len;
    }
    t->chars = s ? NULL : yk__calloc((size_t)count_bits(seen), sizeof *t->chars);
    if (!s && !t->chars)
        s = yk__fail_mem(err, bytes, "the characters of a text");
    for (int32_t c = 0; !s && c < 0x110000; c++)
        if (seen[c / 64] >> (c % 64) & 1)
            t->chars[t->n_chars++] = c;
    t->size = t->n_chars;
    yk__free(seen);
    return s;
}

yk_status yk__tokenizer_chars(const char *name, const char *text, size_t bytes, yk__tokenizer **out, yk_error *err)
{
    yk__tokenizer *t = tokenizer_new(TOK_CHAR);
    yk_status s;
    if (!t)
        return yk__fail_mem(err, sizeof *t, "a tokenizer");
    s = bytes ? collect_chars(t, text, bytes, err) : yk__fail(err, YK_E_FORMAT, "expected text, found an empty file");
    if (s) {
        yk__tokenizer_close(t);
        return s == YK_E_FORMAT ? yk__fail_in(err, "%s", name) : s;
    }
    *out = t;
    return YK_OK;
}

int yk__tokenizer_vocab(const yk__tokenizer *t)
{
    return t->size;
}

const char *yk__tokenizer_kind(const yk__tokenizer *t)
{
    static const char *const names[] = {"wordpiece", "bpe", "char", "bytes"};
    return names[t->kind];
}

int yk__tokenizer_pad(const yk__tokenizer *t)
{
    return t->pad;
}

static int32_t char_id(const yk__tokenizer *t, int32_t c)
{
    int32_t a = 0, b = t->n_chars;
    while (a < b) {
        int32_t m = a + (b - a) / 2;
        if (t->chars[m] < c)
            a = m + 1;
        else
            b = m;
    }
    return a < t->n_chars && t->chars[a] == c ? a : -1;
}

int yk__tokenizer_id(const yk__tokenizer *t, const char *token)
{
    int len;
    if (t->vocab)
        return yk__strmap_get(t->vocab, token, strlen(token));
    if (t->kind == TOK_BYTES)
        return token[0] && !token[1] ? (unsigned char)token[0] : -1;
    return *token ? char_id(t, yk__utf8_get(token, strlen(token), &len)) : -1;
}

/* ---- saving characters ---- */

static void put_char(FILE *f, int32_t c)
{
    char u[5] = "";
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
        fprintf(f, "\"\\u%04x\"", (unsigned)c);
    else {
        u[yk__utf8_put(c, u)] = 0;
        fprintf(f, "\"%s\"", u);
    }
}

/* A WordLevel model whose words are single characters: Hugging Face's tokenizers read it too. */
yk_status yk__tokenizer_save_chars(const yk__tokenizer *t, const char *path, yk_error *err)
{
    FILE *f;
    int bad;
    if (t->kind != TOK_CHAR)
        return yk__fail(err, YK_E_ARG, "%s: only a tokenizer of characters is written, this is %s", path,
                        yk__tokenizer_kind(t));
    f = fopen(path, "w");
    if (!f)
        return yk__fail(err, YK_E_IO, "%s: cannot be written", path);
    fputs("{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Split\","
          "\"pattern\":{\"Regex\":\"(?s:.)\"},\"behavior\":\"Isolated\",\"invert\":false},\"post_processor\":null,"
          "\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"<unk>\",\"vocab\":{",
          f);
    for (int32_t i = 0; i < t->n_chars; i++) {
        fputs(i ? "," : "", f);
        put_char(f, t->chars[i]);
        fprintf(f, ":%" PRId32, i);
    }
    fputs("}}}\n", f);
    bad = ferror(f);
    bad |= fclose(f);
    return bad ? yk__fail(err, YK_E_IO, "%s: writing failed", path) : YK_OK;
}

/* ---- encoding ---- */

yk_status yk__encoder_new(const yk__tokenizer *t, yk__encoder **out, yk_error *err)
{
    yk__encoder *e = yk__calloc(1, sizeof *e);
    if (e && t->pattern)
        e->match = pcre2_match_data_create_from_pattern(t->pattern, NULL);
    if (!e || (t->pattern && !e->match)) {
        yk__free(e);
        return yk__fail_mem(err, sizeof *e, "an encoder");
    }
    e->tokenizer = t;
    *out = e;
    return YK_OK;
}

void yk__encoder_free(yk__encoder *e)
{
    if (!e)
        return;
    pcre2_match_data_free(e->match);
    yk__ids_free(&e->a);
    yk__ids_free(&e->b);
    yk__free(e->word);
    yk__free(e->node);
    yk__free(e->heap);
    yk__free(e->slot);
    yk__free(e->text);
    yk__free(e->ids);
    yk__free(e);
}

static yk_status chars_encode(const yk__tokenizer *t, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    for (size_t i = 0; i < n;) {
        int len;
        int32_t id = char_id(t, yk__utf8_get(s + i, n - i, &len));
        if (id < 0)
            return yk__fail(err, YK_E_FORMAT, "byte %zu: the character '%.*s' is not in the vocabulary of %d", i, len,
                            s + i, t->n_chars);
        if (yk__tok_push(out, id))
            return yk__fail_mem(err, n, "token ids");
        i += (size_t)len;
    }
    return YK_OK;
}

static yk_status bytes_encode(const char *s, size_t n, yk__ids *out, yk_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (yk__tok_push(out, (unsigned char)s[i]))
            return yk__fail_mem(err, n, "token ids");
    return YK_OK;
}

static yk_status segment_encode(yk__encoder *e, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    switch (e->tokenizer->kind) {
    case TOK_WORDPIECE:
        return yk__tok_wordpiece(e, s, n, out, err);
    case TOK_BPE:
        return yk__tok_bpe(e, s, n, out, err);
    case TOK_CHAR:
        return chars_encode(e->tokenizer, s, n, out, err);
    default:
        return bytes_encode(s, n, out, err);
    }
}

static int ascii_lower(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static int bytes_equal(const char *a, const char *b, size_t n, int fold)
{
    if (!fold)
        return !memcmp(a, b, n);
    for (size_t i = 0; i < n; i++)
        if (ascii_lower(a[i]) != ascii_lower(b[i]))
            return 0;
    return 1;
}

static int is_word_byte(char c)
{
    return (c & 0x80) || c == '_' || (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
}

/* The longest added token at s[i], or NULL. */
static const struct tok_added *added_at(const yk__tokenizer *t, const char *s, size_t n, size_t i)
{
    const struct tok_added *best = NULL;
    if (!t->added_first[(unsigned char)s[i]])
        return NULL;
    for (int k = 0; k < t->n_added; k++) {
        const struct tok_added *a = &t->added[k];
        if (n - i < a->bytes || (best && best->bytes >= a->bytes) || !bytes_equal(s + i, a->text, a->bytes, a->fold))
            continue;
        if (a->single_word && ((i && is_word_byte(s[i - 1])) || (i + a->bytes < n && is_word_byte(s[i + a->bytes]))))
            continue;
        best = a;
    }
    return best;
}

static size_t skip_space(const char *s, size_t n, size_t i)
{
    while (i < n) {
        int len;
        if (!yk__tok_is_space(yk__utf8_get(s + i, n - i, &len)))
            break;
        i += (size_t)len;
    }
    return i;
}

/* s[from..to) without the white space at its end. */
static size_t trim_end(const char *s, size_t from, size_t to)
{
    size_t end = from;
    for (size_t i = from; i < to;) {
        int len;
        int space = yk__tok_is_space(yk__utf8_get(s + i, to - i, &len));
        i += (size_t)len;
        if (!space)
            end = i;
    }
    return end;
}

/* One text: added tokens are found first, what lies between them is tokenized. */
static yk_status text_encode(yk__encoder *e, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    const yk__tokenizer *t = e->tokenizer;
    size_t from = 0, bad = t->kind == TOK_BYTES ? n : yk__utf8_check(s, n);
    yk_status st = YK_OK;
    out->count = 0;
    if (bad < n)
        return not_utf8(s, bad, err);
    for (size_t i = 0; i < n && t->n_added && !st;) {
        const struct tok_added *a = added_at(t, s, n, i);
        if (!a) {
            i++;
            continue;
        }
        st = segment_encode(e, s + from, (a->lstrip ? trim_end(s, from, i) : i) - from, out, err);
        if (!st && yk__tok_push(out, a->id))
            st = yk__fail_mem(err, n, "token ids");
        i += a->bytes;
        from = i = a->rstrip ? skip_space(s, n, i) : i;
    }
    if (!st)
        st = segment_encode(e, s + from, n - from, out, err);
    return st;
}

/* Longest first, as transformers' default does: one id at a time off the longer text's end. */
static void truncate_to(yk__ids *a, yk__ids *b, size_t max_ids)
{
    while (a->count + b->count > max_ids) {
        if (a->count > b->count)
            a->count--;
        else
            b->count--;
    }
}

static int put_typed(yk__ids *ids, int32_t id, int32_t type)
{
    if (yk__grow(&ids->type, &ids->type_cap, ids->count + 1, sizeof *ids->type))
        return -1;
    ids->type[ids->count] = type;
    return yk__tok_push(ids, id);
}

static int put_all(yk__ids *ids, const yk__ids *from, int32_t type)
{
    size_t at = ids->count;
    if (yk__grow(&ids->id, &ids->id_cap, at + from->count, sizeof *ids->id) ||
        yk__grow(&ids->type, &ids->type_cap, at + from->count, sizeof *ids->type))
        return -1;
    if (from->count)
        memcpy(ids->id + at, from->id, from->count * sizeof *ids->id);
    for (size_t i = 0; i < from->count; i++)
        ids->type[at + i] = type;
    ids->count = at + from->count;
    return 0;
}

static yk_status template_apply(yk__encoder *e, const struct tok_template *p, int special, size_t max_length,
                                yk__ids *ids, yk_error *err)
{
    size_t fixed = 0;
    int bad = 0;
    for (int i = 0; i < p->count; i++)
        fixed += special && p->piece[i].id >= 0;
    if (max_length && max_length < fixed)
        return yk__fail(err, YK_E_ARG, "a length of %zu is less than the %zu special tokens of each text", max_length,
                        fixed);
    if (max_length)
        truncate_to(&e->a, &e->b, max_length - fixed);
    ids->count = 0;
    for (int i = 0; i < p->count && !bad; i++) {
        const struct tok_piece *x = &p->piece[i];
        if (x->id < 0)
            bad = put_all(ids, x->id == TOK_A ? &e->a : &e->b, x->type);
        else if (special)
            bad = put_typed(ids, x->id, x->type);
    }
    return bad ? yk__fail_mem(err, ids->count, "token ids") : YK_OK;
}

yk_status yk__encoder_encode(yk__encoder *e, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                             int special, size_t max_length, yk__ids *ids, yk_error *err)
{
    yk_status s = text_encode(e, text, bytes, &e->a, err);
    e->b.count = 0;
    if (!s && pair)
        s = text_encode(e, pair, pair_bytes, &e->b, err);
    if (!s)
        s = template_apply(e, pair ? &e->tokenizer->pair : &e->tokenizer->single, special, max_length, ids, err);
    return s;
}
