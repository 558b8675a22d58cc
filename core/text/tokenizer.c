/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared part of all tokenizers: opening a folder, finding added tokens, cutting to a length, the template of special tokens. Also the
 * two small kinds, characters and bytes; WordPiece and BPE have files of their own.
 *
 * core/data, yk_tokenizer_open, yoke tokenize and yoke inspect use it: opening in the step thread, encoding in any thread that has its own
 * encoder.
 */
#include "core/text/tokenizer.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/text/source.h"
#include "core/io/utf8.h"

/* ---- opening ---- */

static yk__tokenizer *tokenizer_new(enum tok_kind kind)
{
    yk__tokenizer *tok = yk__calloc(1, sizeof *tok);
    if (!tok)
        return NULL;
    tok->kind = kind;
    tok->unk = tok->mask = -1;
    tok->max_chars = 100;
    tok->single = (struct tok_template){1, {{TOK_A, 0}}};
    tok->pair = (struct tok_template){2, {{TOK_A, 0}, {TOK_B, 1}}};
    return tok;
}

yk__tokenizer *yk__tokenizer_share(yk__tokenizer *tok)
{
    atomic_fetch_add(&tok->shared, 1);
    return tok;
}

void yk__tokenizer_close(yk__tokenizer *tok)
{
    if (!tok || atomic_fetch_sub(&tok->shared, 1) > 0)
        return;
    yk__tok_added_free(tok);
    yk__free(tok->dir);
    yk__free(tok->notes);
    yk__strmap_free(tok->vocab);
    yk__strmap_free(tok->first);
    yk__strmap_free(tok->more);
    yk__free(tok->class);
    yk__free(tok->merge);
    yk__free(tok->chars);
    pcre2_code_free(tok->pattern);
    yk__free(tok);
}

yk_status yk__tokenizer_open(const char *dir, int lowercase, yk__tokenizer **out, yk_error *err)
{
    yk__tokenizer *tok = tokenizer_new(TOK_WORDPIECE);
    yk_status s;
    if (!tok)
        return yk__fail_mem(err, sizeof *tok, "a tokenizer");
    s = yk__tok_load(tok, dir, lowercase, err);
    if (s)
        yk__tokenizer_close(tok);
    else
        *out = tok;
    return s;
}

yk_status yk__tokenizer_bytes(yk__tokenizer **out, yk_error *err)
{
    yk__tokenizer *tok = tokenizer_new(TOK_BYTES);
    if (!tok)
        return yk__fail_mem(err, sizeof *tok, "a tokenizer");
    tok->size = 256;
    *out = tok;
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

static yk_status collect_chars(yk__tokenizer *tok, const char *text, size_t bytes, yk_error *err)
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
    tok->chars = s ? NULL : yk__calloc((size_t)count_bits(seen), sizeof *tok->chars);
    if (!s && !tok->chars)
        s = yk__fail_mem(err, bytes, "the characters of a text");
    for (int32_t c = 0; !s && c < 0x110000; c++)
        if (seen[c / 64] >> (c % 64) & 1)
            tok->chars[tok->n_chars++] = c;
    tok->size = tok->n_chars;
    yk__free(seen);
    return s;
}

yk_status yk__tokenizer_chars(const char *name, const char *text, size_t bytes, yk__tokenizer **out, yk_error *err)
{
    yk__tokenizer *tok = tokenizer_new(TOK_CHAR);
    yk_status s;
    if (!tok)
        return yk__fail_mem(err, sizeof *tok, "a tokenizer");
    s = bytes ? collect_chars(tok, text, bytes, err) : yk__fail(err, YK_E_FORMAT, "expected text, found an empty file");
    if (s) {
        yk__tokenizer_close(tok);
        return s == YK_E_FORMAT ? yk__fail_in(err, "%s", name) : s;
    }
    *out = tok;
    return YK_OK;
}

int yk__tokenizer_vocab(const yk__tokenizer *tok)
{
    return tok->size;
}

const char *yk__tokenizer_kind(const yk__tokenizer *tok)
{
    static const char *const names[] = {"wordpiece", "bpe", "char", "bytes"};
    return names[tok->kind];
}

int yk__tokenizer_pad(const yk__tokenizer *tok)
{
    return tok->pad;
}

int yk__tokenizer_mask(const yk__tokenizer *tok)
{
    return tok->mask;
}

const char *yk__tokenizer_notes(const yk__tokenizer *tok)
{
    return tok->notes;
}

void yk__tokenizer_notes_log(const yk__tokenizer *tok)
{
    for (const char *line = tok->notes; line && *line;) {
        const size_t n = strcspn(line, "\n");
        yk__log(YK_LOG_WARN, "tokenizer", "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static int32_t char_id(const yk__tokenizer *tok, int32_t c)
{
    int32_t a = 0, b = tok->n_chars;
    while (a < b) {
        int32_t m = a + (b - a) / 2;
        if (tok->chars[m] < c)
            a = m + 1;
        else
            b = m;
    }
    return a < tok->n_chars && tok->chars[a] == c ? a : -1;
}

static void id_mark(const yk__tokenizer *tok, int32_t id, uint8_t *special)
{
    if (id >= 0 && id < tok->size)
        special[id] = 1;
}

void yk__tokenizer_mark_special(const yk__tokenizer *tok, uint8_t *special)
{
    for (int i = 0; i < tok->n_added; i++)
        if (tok->added[i].special)
            id_mark(tok, tok->added[i].id, special);
    for (int i = 0; i < tok->single.count; i++)
        id_mark(tok, tok->single.piece[i].id, special);
    for (int i = 0; i < tok->pair.count; i++)
        id_mark(tok, tok->pair.piece[i].id, special);
    if (tok->kind == TOK_WORDPIECE)
        id_mark(tok, tok->pad, special);
}

int yk__tokenizer_id(const yk__tokenizer *tok, const char *token)
{
    int len;
    if (tok->vocab)
        return yk__strmap_get(tok->vocab, token, strlen(token));
    if (tok->kind == TOK_BYTES)
        return token[0] && !token[1] ? (unsigned char)token[0] : -1;
    return *token ? char_id(tok, yk__utf8_get(token, strlen(token), &len)) : -1;
}

/* ---- encoding ---- */

yk_status yk__encoder_new(const yk__tokenizer *tok, yk__encoder **out, yk_error *err)
{
    yk__encoder *enc = yk__calloc(1, sizeof *enc);
    if (enc && tok->pattern)
        enc->match = pcre2_match_data_create_from_pattern(tok->pattern, NULL);
    if (!enc || (tok->pattern && !enc->match)) {
        yk__free(enc);
        return yk__fail_mem(err, sizeof *enc, "an encoder");
    }
    enc->tokenizer = tok;
    *out = enc;
    return YK_OK;
}

void yk__encoder_free(yk__encoder *enc)
{
    if (!enc)
        return;
    pcre2_match_data_free(enc->match);
    yk__ids_free(&enc->a);
    yk__ids_free(&enc->b);
    yk__free(enc->word);
    yk__free(enc->normal);
    yk__free(enc->node);
    yk__free(enc->heap);
    yk__free(enc->slot);
    yk__free(enc->text);
    yk__free(enc->ids);
    yk__free(enc);
}

static yk_status chars_encode(const yk__tokenizer *tok, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    for (size_t i = 0; i < n;) {
        int len;
        int32_t id = char_id(tok, yk__utf8_get(s + i, n - i, &len));
        if (id < 0)
            return yk__fail(err, YK_E_FORMAT, "byte %zu: the character '%.*s' is not in the vocabulary of %d", i, len,
                            s + i, tok->n_chars);
        if (yk__ids_push(out, id))
            return yk__fail_mem(err, n, "token ids");
        i += (size_t)len;
    }
    return YK_OK;
}

static yk_status bytes_encode(const char *s, size_t n, yk__ids *out, yk_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (yk__ids_push(out, (unsigned char)s[i]))
            return yk__fail_mem(err, n, "token ids");
    return YK_OK;
}

static yk_status segment_encode(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    switch (enc->tokenizer->kind) {
    case TOK_WORDPIECE:
        return yk__tok_wordpiece(enc, s, n, out, err);
    case TOK_BPE:
        return yk__tok_bpe(enc, s, n, out, err);
    case TOK_CHAR:
        return chars_encode(enc->tokenizer, s, n, out, err);
    default:
        return bytes_encode(s, n, out, err);
    }
}

/* True if s[0..n) begins with a word character, \w of Unicode (UTS 18): letters, marks, decimal digits, connectors, joiners. */
static bool word_begins(const char *s, size_t n)
{
    int len;
    const int32_t c = n ? yk__utf8_get(s, n, &len) : -1;
    switch (c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9);
    }
}

static bool word_ends(const char *s, size_t n)
{
    size_t at = n;
    while (at && (s[--at] & 0xc0) == 0x80)
        ;
    return n && word_begins(s + at, n - at);
}

/* The longest added token at s[i], of normalized tokens or of the rest; NULL if none. */
static const struct tok_added *added_at(const yk__tokenizer *tok, int normalized, const char *s, size_t n, size_t i)
{
    const struct tok_added *best = NULL;
    if (!tok->added_first[normalized][(unsigned char)s[i]])
        return NULL;
    for (int k = 0; k < tok->n_added; k++) {
        const struct tok_added *a = &tok->added[k];
        if (a->normalized == normalized && a->bytes && n - i >= a->bytes && (!best || best->bytes < a->bytes) &&
            !memcmp(s + i, a->text, a->bytes))
            best = a;
    }
    return best;
}

/* False for a token that must be passed over whole: a part of a word, or a special one if those are text. */
static bool added_counts(const yk__tokenizer *tok, const struct tok_added *a, const char *s, size_t n, size_t i)
{
    const size_t end = i + a->bytes;
    if (a->special && tok->split_special)
        return false;
    return !a->single_word || !(word_ends(s, i) || word_begins(s + end, n - end));
}

static size_t skip_space(const char *s, size_t n, size_t i)
{
    while (i < n) {
        int len;
        if (!yk__utf8_is_space(yk__utf8_get(s + i, n - i, &len)))
            break;
        i += (size_t)len;
    }
    return i;
}

/* The end of s[from..to) without its trailing white space. */
static size_t trim_end(const char *s, size_t from, size_t to)
{
    size_t end = from;
    for (size_t i = from; i < to;) {
        int len;
        int space = yk__utf8_is_space(yk__utf8_get(s + i, to - i, &len));
        i += (size_t)len;
        if (!space)
            end = i;
    }
    return end;
}

static yk_status id_put(yk__encoder *enc, int32_t id, yk__ids *out, yk_error *err)
{
    if (id > enc->largest)
        enc->largest = id;
    return yk__ids_push(out, id) ? yk__fail_mem(err, sizeof id, "token ids") : YK_OK;
}

typedef yk_status split_rest(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err);

/* Finds added tokens of one sort; passes the text between them to `rest`. */
static yk_status added_split(yk__encoder *enc, int normalized, const char *s, size_t n, split_rest *rest, yk__ids *out, yk_error *err)
{
    const yk__tokenizer *tok = enc->tokenizer;
    size_t from = 0;
    for (size_t i = 0; i < n && tok->n_added;) {
        const struct tok_added *a = added_at(tok, normalized, s, n, i);
        if (!a || !added_counts(tok, a, s, n, i)) {
            i += a ? a->bytes : 1;
            continue;
        }
        if (rest(enc, s + from, (a->lstrip ? trim_end(s, from, i) : i) - from, out, err) || id_put(enc, a->id, out, err))
            return err->status;
        i += a->bytes;
        from = i = a->rstrip ? skip_space(s, n, i) : i;
    }
    return rest(enc, s + from, n - from, out, err);
}

static bool has_normalized(const yk__tokenizer *tok)
{
    for (int i = 0; i < tok->n_added; i++)
        if (tok->added[i].normalized)
            return true;
    return false;
}

/* Encodes a text between added tokens that are not normalized: normalized tokens, and the model. */
static yk_status part_encode(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    size_t len = n;
    if (!n || !has_normalized(enc->tokenizer))
        return segment_encode(enc, s, n, out, err);
    if (enc->tokenizer->kind == TOK_WORDPIECE) {
        if (yk__tok_wordpiece_normal(enc->tokenizer, s, n, &enc->normal, &enc->normal_cap, &len))
            return yk__fail_mem(err, n, "a text");
        s = enc->normal;
    }
    return added_split(enc, 1, s, len, segment_encode, out, err);
}

static yk_status text_encode(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    const size_t bad = enc->tokenizer->kind == TOK_BYTES ? n : yk__utf8_check(s, n);
    out->count = 0;
    return bad < n ? not_utf8(s, bad, err) : added_split(enc, 0, s, n, part_encode, out, err);
}

/* Keeps the last ids instead of the first, for a list cut to count. */
static void ids_keep_end(yk__ids *ids, size_t before)
{
    if (before > ids->count)
        memmove(ids->id, ids->id + (before - ids->count), ids->count * sizeof *ids->id);
}

/* Cuts the longest first, as transformers' default does: one id at a time off the longer text's end, or its beginning. */
static void truncate_to(yk__ids *a, yk__ids *b, size_t max_ids, int left)
{
    const size_t a_before = a->count, b_before = b->count;
    while (a->count + b->count > max_ids) {
        if (a->count > b->count)
            a->count--;
        else
            b->count--;
    }
    if (left) {
        ids_keep_end(a, a_before);
        ids_keep_end(b, b_before);
    }
}

static int put_typed(yk__ids *ids, int32_t id, int32_t type)
{
    if (yk__grow(&ids->type, &ids->type_cap, ids->count + 1, sizeof *ids->type))
        return -1;
    ids->type[ids->count] = type;
    return yk__ids_push(ids, id);
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

static yk_status template_apply(yk__encoder *enc, const struct tok_template *p, int special, size_t max_length,
                                yk__ids *ids, yk_error *err)
{
    size_t fixed = 0;
    int bad = 0;
    for (int i = 0; i < p->count; i++)
        fixed += special && p->piece[i].id >= 0;
    if (max_length && max_length < fixed)
        return yk__fail(err, YK_E_ARG, "a length of %zu is less than the %zu special tokens of each text", max_length,
                        fixed);
    ids->cut = max_length && enc->a.count + enc->b.count > max_length - fixed;
    if (max_length)
        truncate_to(&enc->a, &enc->b, max_length - fixed, enc->tokenizer->cut_left);
    ids->count = 0;
    for (int i = 0; i < p->count && !bad; i++) {
        const struct tok_piece *x = &p->piece[i];
        if (x->id < 0)
            bad = put_all(ids, x->id == TOK_A ? &enc->a : &enc->b, x->type);
        else if (special)
            bad = put_typed(ids, x->id, x->type);
    }
    return bad ? yk__fail_mem(err, ids->count, "token ids") : YK_OK;
}

int yk__encoder_vocab(const yk__encoder *enc)
{
    return enc->largest >= enc->tokenizer->size ? enc->largest + 1 : enc->tokenizer->size;
}

yk_status yk__encoder_encode(yk__encoder *enc, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                             int special, size_t max_length, yk__ids *ids, yk_error *err)
{
    yk_status s = text_encode(enc, text, bytes, &enc->a, err);
    enc->b.count = 0;
    if (!s && pair)
        s = text_encode(enc, pair, pair_bytes, &enc->b, err);
    if (!s)
        s = template_apply(enc, pair ? &enc->tokenizer->pair : &enc->tokenizer->single, special, max_length, ids, err);
    return s;
}
