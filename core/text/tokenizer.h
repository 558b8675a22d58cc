/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenizers: text to ids.
 *
 * Sources are folders in Hugging Face's form: tokenizer.json (models WordPiece, BPE on bytes, WordLevel on characters), or vocab.txt
 * (WordPiece), or vocab.json + merges.txt (byte-level BPE). tokenizer_config.json, special_tokens_map.json, added_tokens.json, and the
 * model_type of config.json are read with them, as transformers 5.24 does. A key of those files that changes ids and is not built here is
 * refused by file and key. Two more kinds are the characters of a text in sorted order, and bytes.
 *
 * A tokenizer is immutable and threads may share it; an encoder holds the scratch memory and the cache of one thread.
 */
#ifndef YOKE_CORE_TEXT_TOKENIZER_H
#define YOKE_CORE_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/text/ids.h"

typedef struct yk__tokenizer yk__tokenizer;
typedef struct yk__encoder yk__encoder;

/* lowercase: 1 or 0 override the files; -1 does not. If no file sets it, BertTokenizer's default holds (1) for any name of the folder,
 * and a note tells the user. */
yk_status yk__tokenizer_open(const char *dir, int lowercase, yk__tokenizer **out, yk_error *err);
/* One id per distinct character of the text, in code point order. */
yk_status yk__tokenizer_chars(const char *name, const char *text, size_t bytes, yk__tokenizer **out, yk_error *err);
yk_status yk__tokenizer_bytes(yk__tokenizer **out, yk_error *err);
yk__tokenizer *yk__tokenizer_share(yk__tokenizer *tok); /* a further reference; each is closed by itself */
void yk__tokenizer_close(yk__tokenizer *tok);

/* Lines for the user about choices that the files leave open, or NULL: the opener logs them once. */
const char *yk__tokenizer_notes(const yk__tokenizer *tok);
void yk__tokenizer_notes_log(const yk__tokenizer *tok);
/* Largest id + 1. Tokens that files name without an id (GPT-2's padding) count only if a text holds them. */
int yk__tokenizer_vocab(const yk__tokenizer *tok);
int yk__encoder_vocab(const yk__encoder *enc); /* the same, with the texts encoded so far */
const char *yk__tokenizer_kind(const yk__tokenizer *tok);          /* "wordpiece", "bpe", "char", "bytes" */
int yk__tokenizer_pad(const yk__tokenizer *tok);                   /* id of padding; 0 if absent */
int yk__tokenizer_mask(const yk__tokenizer *tok);                  /* id of the mask token; -1 if absent */
int yk__tokenizer_id(const yk__tokenizer *tok, const char *token); /* -1 if not in the vocabulary */
/* special[id] = 1 for each id below yk__tokenizer_vocab that is marked special: added tokens with that flag, the template's, padding. */
void yk__tokenizer_mark_special(const yk__tokenizer *tok, uint8_t *special);
/* Writes the tokenizer into a folder that has none of these files yet. It copies the files it was opened from, with a
 * tokenizer_config.json that holds the casing, accents and class in use. For characters or bytes it writes a tokenizer.json. The folder
 * gives the same ids at any place, here and in transformers. */
yk_status yk__tokenizer_save(const yk__tokenizer *tok, const char *dir, yk_error *err);

yk_status yk__encoder_new(const yk__tokenizer *tok, yk__encoder **out, yk_error *err);
void yk__encoder_free(yk__encoder *enc);

/* Replaces the content of *ids. pair: the second text, or NULL. special: adds the template's tokens ([CLS] ... [SEP]). max_length: 0, or
 * the most ids, reached by cutting the texts (the longer one first) before the template's tokens are added. Text that is not UTF-8 is
 * refused. */
yk_status yk__encoder_encode(yk__encoder *enc, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                             int special, size_t max_length, yk__ids *ids, yk_error *err);

#endif
