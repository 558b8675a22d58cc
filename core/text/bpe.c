/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-level BPE, GPT-2's tokenizer (Radford et al. 2019). tokenizer.c encodes texts with it, in any thread with an encoder of its own;
 * tokenizer_json.c and tokenizer_load.c prepare the merges, in the thread that opens the tokenizer.
 *
 * A pattern splits the text, and each word's bytes are symbols. The pair with the lowest merge rank is joined, the leftmost first, until
 * none is left. Short words are cached per encoder.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/text/text_internal.h"
#include "core/io/utf8.h"

#define CACHE_SLOTS ((size_t)1 << 16)
#define CACHE_WORDS (CACHE_SLOTS / 2)
#define CACHE_BYTES 48u /* longest word that is cached */
#define NO_RANK UINT32_MAX

/* ---- preparing ---- */

/* A printable byte stands for itself, any other for 256 and up in order. */
int32_t yk__tok_byte_char(int b)
{
    int n = 256;
    for (int i = 0; i < 256; i++) {
        int shown = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        if (i == b)
            return shown ? i : n;
        n += !shown;
    }
    return -1;
}

yk_status yk__tok_bpe_ready(yk__tokenizer *tok, yk_error *err)
{
    int found = 0;
    for (int b = 0; b < 256; b++) {
        char s[4];
        tok->byte_id[b] = yk__strmap_get(tok->vocab, s, (size_t)yk__utf8_put(yk__tok_byte_char(b), s));
        found += tok->byte_id[b] >= 0;
    }
    return found ? YK_OK : yk__fail(err, YK_E_FORMAT, "the vocabulary holds no byte as a token: not a byte-level BPE");
}

yk_status yk__tok_bpe_pattern(yk__tokenizer *tok, const char *path, const char *pattern, yk_error *err)
{
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR text[128];
    tok->pattern = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK,
                                 &code, &at, NULL);
    if (!tok->pattern) {
        pcre2_get_error_message(code, text, sizeof text);
        return yk__fail(err, YK_E_FORMAT, "%s: pre_tokenizer pattern, character %zu: %s", path, (size_t)at,
                        (char *)text);
    }
    pcre2_jit_compile(tok->pattern, PCRE2_JIT_COMPLETE); /* without a JIT it is interpreted */
    return YK_OK;
}

static uint64_t pair_hash(uint64_t pair)
{
    pair *= 0x9e3779b97f4a7c15ull;
    return pair ^ pair >> 32;
}

yk_status yk__tok_bpe_merges(yk__tokenizer *tok, size_t count, yk_error *err)
{
    size_t n = 64;
    while (n < 2 * count + 2)
        n *= 2;
    tok->merge = yk__calloc(n, sizeof *tok->merge);
    if (!tok->merge)
        return yk__fail_mem(err, n * sizeof *tok->merge, "BPE merges");
    for (size_t i = 0; i < n; i++)
        tok->merge[i].pair = UINT64_MAX;
    tok->merge_slots = n;
    return YK_OK;
}

static struct tok_merge *merge_slot(const yk__tokenizer *tok, uint64_t pair)
{
    size_t i = (size_t)pair_hash(pair) & (tok->merge_slots - 1);
    while (tok->merge[i].pair != UINT64_MAX && tok->merge[i].pair != pair)
        i = (i + 1) & (tok->merge_slots - 1);
    return &tok->merge[i];
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

int yk__tok_bpe_merge(yk__tokenizer *tok, const char *left, size_t nl, const char *right, size_t nr, uint32_t rank)
{
    int32_t a = yk__strmap_get(tok->vocab, left, nl), b = yk__strmap_get(tok->vocab, right, nr), ab;
    char *both = yk__malloc(nl + nr);
    struct tok_merge *m;
    if (!both)
        return -1;
    memcpy(both, left, nl);
    memcpy(both + nl, right, nr);
    ab = yk__strmap_get(tok->vocab, both, nl + nr);
    yk__free(both);
    if (a < 0 || b < 0 || ab < 0)
        return -1;
    m = merge_slot(tok, pair_of(a, b));
    if (m->pair == UINT64_MAX)
        *m = (struct tok_merge){pair_of(a, b), rank, ab};
    return 0;
}

/* ---- one word ---- */

static uint32_t rank_of(const yk__tokenizer *tok, int32_t a, int32_t b, int32_t *id)
{
    const struct tok_merge *m = merge_slot(tok, pair_of(a, b));
    if (m->pair == UINT64_MAX)
        return NO_RANK;
    *id = m->id;
    return m->rank;
}

/* Merges short words: searches all pairs for the best one. Returns the number of symbols left in id[0..n). */
static int merge_short(const yk__tokenizer *tok, int32_t *id, int n)
{
    uint32_t rank[CACHE_BYTES];
    int32_t to[CACHE_BYTES];
    for (int i = 0; i + 1 < n; i++)
        rank[i] = rank_of(tok, id[i], id[i + 1], &to[i]);
    while (n > 1) {
        int best = 0;
        for (int i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == NO_RANK)
            break;
        id[best] = to[best];
        n--;
        for (int i = best + 1; i < n; i++)
            id[i] = id[i + 1];
        for (int i = best + 1; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            to[i] = to[i + 1];
        }
        if (best + 1 < n)
            rank[best] = rank_of(tok, id[best], id[best + 1], &to[best]);
        if (best > 0)
            rank[best - 1] = rank_of(tok, id[best - 1], id[best], &to[best - 1]);
    }
    return n;
}

static int cand_before(const struct tok_cand *a, const struct tok_cand *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static int heap_push(yk__encoder *enc, struct tok_cand c)
{
    size_t i = enc->heap_len;
    if (yk__grow(&enc->heap, &enc->heap_cap, i + 1, sizeof *enc->heap))
        return -1;
    enc->heap_len++;
    for (; i && cand_before(&c, &enc->heap[(i - 1) / 2]); i = (i - 1) / 2)
        enc->heap[i] = enc->heap[(i - 1) / 2];
    enc->heap[i] = c;
    return 0;
}

static struct tok_cand heap_pop(yk__encoder *enc)
{
    struct tok_cand top = enc->heap[0], last = enc->heap[--enc->heap_len];
    size_t i = 0;
    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= enc->heap_len)
            break;
        k += k + 1 < enc->heap_len && cand_before(&enc->heap[k + 1], &enc->heap[k]);
        if (!cand_before(&enc->heap[k], &last))
            break;
        enc->heap[i] = enc->heap[k];
        i = k;
    }
    enc->heap[i] = last;
    return top;
}

static int cand_consider(yk__encoder *enc, int32_t left)
{
    struct tok_cand c = {.left = left};
    int32_t right = left < 0 ? -1 : enc->node[left].next;
    if (right < 0)
        return 0;
    c.rank = rank_of(enc->tokenizer, enc->node[left].id, enc->node[right].id, &c.id);
    c.pair = pair_of(enc->node[left].id, enc->node[right].id);
    return c.rank == NO_RANK ? 0 : heap_push(enc, c);
}

/* Merges long words by a list of symbols and a heap of candidates, n log n. */
static int merge_long(yk__encoder *enc, const uint8_t *s, size_t n, yk__ids *out)
{
    if (yk__grow(&enc->node, &enc->node_cap, n, sizeof *enc->node))
        return -1;
    enc->heap_len = 0;
    for (size_t i = 0; i < n; i++)
        enc->node[i] =
            (struct tok_node){enc->tokenizer->byte_id[s[i]], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
    for (size_t i = 0; i + 1 < n; i++)
        if (cand_consider(enc, (int32_t)i))
            return -1;
    while (enc->heap_len) {
        struct tok_cand c = heap_pop(enc);
        struct tok_node *l = &enc->node[c.left];
        int32_t right = l->id < 0 ? -1 : l->next;
        if (right < 0 || pair_of(l->id, enc->node[right].id) != c.pair)
            continue; /* one of the two symbols has been merged since */
        l->id = c.id;
        l->next = enc->node[right].next;
        enc->node[right].id = -1;
        if (l->next >= 0)
            enc->node[l->next].prev = c.left;
        if (cand_consider(enc, c.left) || cand_consider(enc, l->prev))
            return -1;
    }
    for (int32_t i = 0; i >= 0; i = enc->node[i].next)
        if (yk__ids_push(out, enc->node[i].id))
            return -1;
    return 0;
}

/* ---- the cache ---- */

static uint64_t hash_word(const uint8_t *s, size_t n)
{
    uint64_t h = YK__STRMAP_HASH;
    for (size_t i = 0; i < n; i++)
        h = yk__strmap_step(h, (char)s[i]);
    return h ^ h >> 29;
}

static struct tok_word *cache_slot(const yk__encoder *enc, uint64_t h, const uint8_t *s, size_t n)
{
    size_t i = (size_t)h & (CACHE_SLOTS - 1);
    for (;; i = (i + 1) & (CACHE_SLOTS - 1)) {
        struct tok_word *w = &enc->slot[i];
        if (!w->bytes || (w->hash == h && w->bytes == n && !memcmp(enc->text + w->text, s, n)))
            return w;
    }
}

static int cache_begin(yk__encoder *enc)
{
    if (!enc->slot) {
        enc->slot = yk__calloc(CACHE_SLOTS, sizeof *enc->slot);
        return enc->slot ? 0 : -1;
    }
    if (enc->used < CACHE_WORDS)
        return 0;
    memset(enc->slot, 0, CACHE_SLOTS * sizeof *enc->slot); /* full: restart empty */
    enc->used = enc->text_len = enc->ids_len = 0;
    return 0;
}

static int cache_add(yk__encoder *enc, uint64_t h, const uint8_t *s, size_t n, const int32_t *id, int count)
{
    struct tok_word *w;
    if (yk__grow(&enc->text, &enc->text_cap, enc->text_len + n, 1) ||
        yk__grow(&enc->ids, &enc->ids_cap, enc->ids_len + (size_t)count, sizeof *enc->ids))
        return -1;
    w = cache_slot(enc, h, s, n);
    memcpy(enc->text + enc->text_len, s, n);
    memcpy(enc->ids + enc->ids_len, id, (size_t)count * sizeof *id);
    *w = (struct tok_word){h, (uint32_t)enc->text_len, (uint32_t)n, (uint32_t)enc->ids_len, (uint32_t)count};
    enc->text_len += n;
    enc->ids_len += (size_t)count;
    enc->used++;
    return 0;
}

static int short_word(yk__encoder *enc, const uint8_t *s, size_t n, yk__ids *out)
{
    uint64_t h = hash_word(s, n);
    struct tok_word *w;
    int32_t id[CACHE_BYTES];
    int count = (int)n;
    if (cache_begin(enc))
        return -1;
    w = cache_slot(enc, h, s, n);
    if (!w->bytes) {
        for (size_t i = 0; i < n; i++)
            id[i] = enc->tokenizer->byte_id[s[i]];
        count = merge_short(enc->tokenizer, id, count);
        if (cache_add(enc, h, s, n, id, count))
            return -1;
        w = cache_slot(enc, h, s, n);
    }
    for (uint32_t i = 0; i < w->count; i++)
        if (yk__ids_push(out, enc->ids[w->ids + i]))
            return -1;
    return 0;
}

static yk_status word_encode(yk__encoder *enc, const uint8_t *s, size_t n, yk__ids *out, yk_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (enc->tokenizer->byte_id[s[i]] < 0)
            return yk__fail(err, YK_E_FORMAT, "byte 0x%02x of the text has no id in the vocabulary", s[i]);
    if (n > INT32_MAX)
        return yk__fail(err, YK_E_ARG, "expected words of at most %d bytes, got %zu: split the text", INT32_MAX, n);
    if (n <= CACHE_BYTES ? short_word(enc, s, n, out) : merge_long(enc, s, n, out))
        return yk__fail_mem(err, n, "token ids");
    return YK_OK;
}

/* ---- a segment ---- */

/* Puts a space in front if the model wants one. */
static yk_status with_space(yk__encoder *enc, const char **s, size_t *n, yk_error *err)
{
    if (!enc->tokenizer->prefix_space || !*n || **s == ' ')
        return YK_OK;
    if (yk__grow(&enc->word, &enc->word_cap, *n + 1, 1))
        return yk__fail_mem(err, *n + 1, "a text");
    enc->word[0] = ' ';
    memcpy(enc->word + 1, *s, *n);
    *s = enc->word;
    ++*n;
    return YK_OK;
}

yk_status yk__tok_bpe(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err)
{
    const PCRE2_SIZE *v = enc->match ? pcre2_get_ovector_pointer(enc->match) : NULL;
    size_t at = 0;
    yk_status st = with_space(enc, &s, &n, err);
    if (st || !n)
        return st;
    if (!enc->tokenizer->pattern)
        return word_encode(enc, (const uint8_t *)s, n, out, err);
    while (at < n) {
        int r = pcre2_match(enc->tokenizer->pattern, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK, enc->match, NULL);
        size_t from = r > 0 ? v[0] : n, to = r > 0 ? v[1] : n;
        if (r < 0 && r != PCRE2_ERROR_NOMATCH)
            return yk__fail(err, r == PCRE2_ERROR_NOMEMORY ? YK_E_MEM : YK_E_FORMAT,
                            "the pre_tokenizer pattern failed on this text (PCRE2 error %d)", r);
        if (from > at) /* the text between matches is a word too */
            st = word_encode(enc, (const uint8_t *)s + at, from - at, out, err);
        if (!st && to > from)
            st = word_encode(enc, (const uint8_t *)s + from, to - from, out, err);
        if (st)
            return st;
        if (to <= at) /* an empty match: nothing more can be split off */
            return word_encode(enc, (const uint8_t *)s + at, n - at, out, err);
        at = to;
    }
    return YK_OK;
}
