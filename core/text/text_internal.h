/* SPDX-License-Identifier: Apache-2.0 */
/* The shared part of the tokenizers' files; only they include this header. */
#ifndef YOKE_CORE_TEXT_TEXT_INTERNAL_H
#define YOKE_CORE_TEXT_TEXT_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdatomic.h>

#include "core/base/error.h"
#include "core/text/ids.h"
#include "core/text/strmap.h"

typedef struct yk__tokenizer yk__tokenizer; /* as in tokenizer.h */
typedef struct yk__encoder yk__encoder;

enum tok_kind { TOK_WORDPIECE, TOK_BPE, TOK_CHAR, TOK_BYTES };

struct tok_added {
    char *content; /* as in the files */
    char *text;    /* the text to find */
    size_t bytes;
    int32_t id;
    int lstrip, rstrip, single_word,
        special,    /* has no text of its own: it is never masked */
        normalized; /* found in the normalized text, between the other added tokens */
};

enum { TOK_A = -1, TOK_B = -2 };
struct tok_piece {
    int32_t id; /* TOK_A, TOK_B or a special token */
    int32_t type;
};
#define TOK_PIECES 16
struct tok_template {
    int count;
    struct tok_piece piece[TOK_PIECES];
};

struct tok_merge {
    uint64_t pair; /* left << 32 | right, UINT64_MAX if empty */
    uint32_t rank;
    int32_t id;
};

struct yk__tokenizer {
    enum tok_kind kind;
    atomic_int shared; /* further owners */
    yk__strmap *vocab; /* all tokens, as in the files */
    int32_t size;      /* largest id in the files + 1 */
    int n_model;       /* tokens of the model: the first ones in vocab */
    int32_t pad, unk, mask; /* ids; unk and mask are -1 if absent */
    struct tok_added *added;
    int n_added;
    uint8_t added_first[2][256]; /* a normalized ([1]) or other ([0]) token begins with this byte */
    int split_special;           /* special tokens within a text count as plain text */
    int cut_left;                /* a text over the limit loses its beginning */
    /* the opening's facts, for saving it */
    char *dir;         /* the folder or the tokenizer.json; NULL without a file */
    char *notes;       /* lines for the user, or NULL */
    const char *class_name; /* the class for tokenizer_config.json of a saved folder, */
    int class_wins;         /* which also overrides a class named there now */
    struct {
        const char *key, *token;
    } presets[3]; /* tokens that no file names and the vocabulary lacks, which the class adds; NULL if it adds none */
    int n_presets;
    struct tok_template single, pair;
    /* WordPiece */
    int lowercase, strip_accents, chinese, clean;
    int max_chars;
    size_t max_piece;         /* bytes of the longest piece */
    yk__strmap *first, *more; /* pieces that begin a word; pieces that continue one, without their prefix */
    uint8_t *class;           /* for the characters below 0x10000 */
    /* byte-level BPE */
    pcre2_code *pattern; /* NULL if the text is one word */
    int prefix_space, ignore_merges;
    int32_t byte_id[256];    /* -1 if there is no such token */
    struct tok_merge *merge; /* open addressing */
    size_t merge_slots;
    /* characters */
    int32_t *chars; /* sorted code points; the index is the id */
    int32_t n_chars;
};

struct tok_word { /* cached result of one word */
    uint64_t hash;
    uint32_t text, bytes; /* in text */
    uint32_t ids, count;  /* in ids */
};

struct tok_node { /* a symbol of the word being merged */
    int32_t id, prev, next;
};
struct tok_cand { /* a possible merge */
    uint32_t rank;
    int32_t left, id;
    uint64_t pair;
};

struct yk__encoder {
    const yk__tokenizer *tokenizer;
    pcre2_match_data *match;
    /* word being built, or bytes of the segment */
    char *word;
    size_t word_len, word_cap;
    int word_chars;
    struct tok_node *node;
    size_t node_cap;
    struct tok_cand *heap;
    size_t heap_len, heap_cap;
    /* cache */
    struct tok_word *slot;
    size_t slots, used;
    char *text;
    size_t text_len, text_cap;
    int32_t *ids;
    size_t ids_len, ids_cap;
    yk__ids a, b; /* texts before the template */
    char *normal; /* a segment, normalized */
    size_t normal_cap;
    int32_t largest; /* largest id so far */
};

/* Encodes one piece of text without added tokens. */
yk_status yk__tok_wordpiece(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err);
yk_status yk__tok_bpe(yk__encoder *enc, const char *s, size_t n, yk__ids *out, yk_error *err);

/* Writes the text as BertNormalizer makes it to *out (grown); its length to *len. -1 if memory ran out. */
int yk__tok_wordpiece_normal(const yk__tokenizer *tok, const char *s, size_t n, char **out, size_t *cap, size_t *len);

/* The character that stands for a byte in the vocabulary of a byte-level BPE. */
int32_t yk__tok_byte_char(int b);

/* Prepare tables derived from the vocabulary. */
yk_status yk__tok_wordpiece_ready(yk__tokenizer *tok, const char *prefix, yk_error *err);
yk_status yk__tok_bpe_ready(yk__tokenizer *tok, yk_error *err);
yk_status yk__tok_bpe_pattern(yk__tokenizer *tok, const char *path, const char *pattern, yk_error *err);
yk_status yk__tok_bpe_merges(yk__tokenizer *tok, size_t count, yk_error *err);
/* Adds the merge of two tokens; -1 if one of them or their product is not in the vocabulary. */
int yk__tok_bpe_merge(yk__tokenizer *tok, const char *left, size_t nl, const char *right, size_t nr, uint32_t rank);

#define TOK_GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Reads the files of a folder into an empty tokenizer. */
yk_status yk__tok_load(yk__tokenizer *tok, const char *dir, int lowercase, yk_error *err);

#endif
