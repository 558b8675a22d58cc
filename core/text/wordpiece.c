/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BERT's tokenizer: clean, set Chinese characters apart, decompose (NFD), drop accents, lower case, split at spaces and punctuation, then
 * the longest piece first. tokenizer.c encodes texts with it, in any thread with an encoder of its own; tokenizer_load.c prepares the
 * vocabulary. Source: Wu et al. 2016; rules as in Hugging Face's BertNormalizer and BertPreTokenizer.
 */
#include <string.h>
#include <utf8proc.h>

#include "core/base/mem.h"
#include "core/text/text_internal.h"
#include "core/io/utf8.h"

/* Classes of characters, as bits. MARK: an accent, which goes with its letter's decomposition; CHANGES: it is not copied as it is (lower
 * case, accents). */
enum { PLAIN = 0, CONTROL = 1, SPACE = 2, PUNCT = 4, CJK = 8, MARK = 16, CHANGES = 32 };

static int is_cjk(int32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Non-spacing marks that Unicode 15 added: the tables of the published tokenizers do not have them. */
static int is_new_mark(int32_t c)
{
    return c == 0xece || (c >= 0x10efd && c <= 0x10eff) || c == 0x11241 || (c >= 0x11f00 && c <= 0x11f42) ||
           (c >= 0x13440 && c <= 0x13455) || c == 0x1e08f || (c >= 0x1e4ec && c <= 0x1e4ef);
}

static int compute_class(int32_t c)
{
    int k = 0;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
        k |= c == '\t' || c == '\n' || c == '\r' ? 0 : CONTROL;
        break;
    case UTF8PROC_CATEGORY_MN:
        k |= is_new_mark(c) ? 0 : MARK;
        break;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        k |= PUNCT;
        break;
    default:
        break;
    }
    if ((c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126))
        k |= PUNCT;
    if (c == 0 || c == 0xfffd)
        k |= CONTROL;
    if (yk__utf8_is_space(c))
        k |= SPACE;
    if (is_cjk(c))
        k |= CJK;
    return k;
}

/* Maps a character to at most 4 characters. Returns their number, without the marks that are dropped. */
static int map_char(const yk__tokenizer *tok, int32_t c, int32_t out[8])
{
    utf8proc_int32_t d[8] = {c};
    utf8proc_ssize_t n = 1;
    int bound = 0, k = 0;
    if (tok->strip_accents) {
        n = utf8proc_decompose_char(c, d, 8, UTF8PROC_DECOMPOSE, &bound);
        if (n < 1 || n > 4) {
            d[0] = c;
            n = 1;
        }
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        if (tok->strip_accents && (compute_class(d[i]) & MARK))
            continue;
        out[k++] = tok->lowercase ? utf8proc_tolower(d[i]) : d[i];
        if (tok->lowercase && d[i] == 0x130) { /* the one character with a lower case of two */
            out[k - 1] = 'i';
            out[k++] = 0x307;
        }
    }
    return k;
}

static int full_class(const yk__tokenizer *tok, int32_t c)
{
    int32_t m[8];
    int k = compute_class(c);
    if (map_char(tok, c, m) != 1 || m[0] != c)
        k |= CHANGES;
    if (!tok->clean)
        k &= ~CONTROL;
    if (!tok->chinese)
        k &= ~CJK;
    return k;
}

static int class_of(const yk__tokenizer *tok, int32_t c)
{
    return c < 0x10000 ? tok->class[c] : full_class(tok, c);
}

yk_status yk__tok_wordpiece_ready(yk__tokenizer *tok, const char *prefix, yk_error *err)
{
    size_t np = strlen(prefix);
    tok->class = yk__malloc(0x10000);
    tok->first = yk__strmap_new();
    tok->more = yk__strmap_new();
    if (!tok->class || !tok->first || !tok->more)
        return yk__fail_mem(err, 0x10000, "a tokenizer");
    for (int32_t c = 0; c < 0x10000; c++)
        tok->class[c] = (uint8_t)full_class(tok, c);
    for (int i = 0; i < tok->n_model; i++) {
        const char *key = yk__strmap_key(tok->vocab, i);
        size_t n;
        int32_t id = yk__strmap_value(tok->vocab, i, &n);
        int more = n > np && !memcmp(key, prefix, np);
        if (n > tok->max_piece)
            tok->max_piece = n;
        if (yk__strmap_put(tok->first, key, n, id) || (more && yk__strmap_put(tok->more, key + np, n - np, id)))
            return yk__fail_mem(err, n, "a vocabulary");
    }
    return YK_OK;
}

/* ---- Words: `first` holds first pieces; `more` holds later ones, which a vocabulary has with "##" in front ---- */

/* The longest piece at s[0..n): its id, and its bytes in *len. -1 if none. */
static int32_t longest_piece(const yk__tokenizer *tok, const yk__strmap *map, const char *s, size_t n, size_t *len)
{
    uint64_t h[256];
    uint64_t x = YK__STRMAP_HASH;
    size_t most = n < tok->max_piece ? n : tok->max_piece;
    if (most > 255)
        most = 255;
    for (size_t i = 0; i < most; i++)
        h[i] = x = yk__strmap_step(x, s[i]);
    for (size_t k = most; k > 0; k--) {
        int32_t id;
        if (k < n && (s[k] & 0xc0) == 0x80)
            continue;
        id = yk__strmap_get_hashed(map, s, k, h[k - 1]);
        if (id >= 0) {
            *len = k;
            return id;
        }
    }
    return -1;
}

/* Appends the pieces of the word so far, or one [UNK]. */
static int word_flush(yk__encoder *enc, yk__ids *out)
{
    const yk__tokenizer *tok = enc->tokenizer;
    size_t at = 0, n = enc->word_len, from = out->count;
    int chars = enc->word_chars;
    enc->word_len = 0;
    enc->word_chars = 0;
    if (chars == 0)
        return 0;
    while (chars <= tok->max_chars && at < n) {
        size_t len = 0;
        int32_t id = longest_piece(tok, at ? tok->more : tok->first, enc->word + at, n - at, &len);
        if (id < 0)
            break;
        if (yk__ids_push(out, id))
            return -1;
        at += len;
    }
    if (at == n && chars <= tok->max_chars)
        return 0;
    out->count = from;
    return yk__ids_push(out, tok->unk);
}

static int word_append(yk__encoder *enc, int32_t c)
{
    if (enc->word_chars++ > enc->tokenizer->max_chars)
        return 0; /* it will be [UNK] in any case */
    if (yk__grow(&enc->word, &enc->word_cap, enc->word_len + 4, 1))
        return -1;
    enc->word_len += (size_t)yk__utf8_put(c, enc->word + enc->word_len);
    return 0;
}

/* A character after normalisation. */
static int char_accept(yk__encoder *enc, int32_t c, int class, yk__ids *out)
{
    if (class & SPACE)
        return word_flush(enc, out);
    if (class & PUNCT)
        return word_flush(enc, out) || word_append(enc, c) || word_flush(enc, out) ? -1 : 0;
    return word_append(enc, c);
}

static int char_accept_mapped(yk__encoder *enc, int32_t c, yk__ids *out)
{
    int32_t m[8];
    int n = map_char(enc->tokenizer, c, m);
    for (int i = 0; i < n; i++)
        if (char_accept(enc, m[i], class_of(enc->tokenizer, m[i]), out))
            return -1;
    return 0;
}

static int char_encode(yk__encoder *enc, int32_t c, yk__ids *out)
{
    int class = class_of(enc->tokenizer, c), bad;
    if (class & CONTROL)
        return 0;
    if ((class & CJK) && word_flush(enc, out))
        return -1;
    bad = class & CHANGES ? char_accept_mapped(enc, c, out) : char_accept(enc, c, class, out);
    return bad || ((class & CJK) && word_flush(enc, out)) ? -1 : 0;
}

yk_status yk__tok_wordpiece(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    enc->word_len = 0;
    enc->word_chars = 0;
    for (size_t i = 0; i < n;) {
        int len;
        int32_t c = yk__utf8_get(s + i, n - i, &len);
        if (char_encode(enc, c, out))
            return yk__fail_mem(err, n, "token ids");
        i += (size_t)len;
    }
    return word_flush(enc, out) ? yk__fail_mem(err, n, "token ids") : YK_OK;
}

/* ---- The normalized text, in which added tokens are searched ---- */

static size_t normal_put(const yk__tokenizer *tok, int32_t c, char *out)
{
    const int class = class_of(tok, c);
    int32_t m[8] = {c};
    const int k = class & CONTROL ? 0 : class & CHANGES ? map_char(tok, c, m) : 1;
    size_t n = 0;
    if ((class & CJK) && !(class & CONTROL))
        out[n++] = ' ';
    for (int i = 0; i < k; i++)
        n += (size_t)yk__utf8_put(tok->clean && yk__utf8_is_space(m[i]) ? ' ' : m[i], out + n);
    if ((class & CJK) && !(class & CONTROL))
        out[n++] = ' ';
    return n;
}

int yk__tok_wordpiece_normal(const yk__tokenizer *tok, const char *s, size_t n, char **out, size_t *cap, size_t *len)
{
    enum { MOST = 8 * 4 + 2 }; /* bytes of a character */
    *len = 0;
    if (yk__grow(out, cap, MOST, 1))
        return -1;
    for (size_t i = 0; i < n;) {
        int bytes;
        const int32_t c = yk__utf8_get(s + i, n - i, &bytes);
        if (yk__grow(out, cap, *len + MOST, 1))
            return -1;
        *len += normal_put(tok, c, *out + *len);
        i += (size_t)bytes;
    }
    return 0;
}
