/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenizers: text to ids.
 *
 * From a folder in Hugging Face's form: tokenizer.json (models WordPiece, BPE on bytes, WordLevel on characters), or
 * vocab.txt (WordPiece), or vocab.json + merges.txt (byte-level BPE), with tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json, and the model_type of config.json, read as transformers 5.24 reads them. A key of those files that changes
 * ids and is not built here is refused by file and key. Also the characters of a text in sorted order, and bytes.
 *
 * A tokenizer is immutable and may be shared by threads; an encoder holds the scratch memory and the cache of one
 * thread.
 */
#ifndef YOKE_CORE_TEXT_TOKENIZER_H
#define YOKE_CORE_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/text/ids.h"

typedef struct yk__tokenizer yk__tokenizer;
typedef struct yk__encoder yk__encoder;

/* lowercase: 1 or 0 override what the files say; -1 does not. Where no file says it, BertTokenizer's default holds (1), whatever the
 * folder is called, and a note says so. */
yk_status yk__tokenizer_open(const char *dir, int lowercase, yk__tokenizer **out, yk_error *err);
/* One id per distinct character of the text, in code point order. */
yk_status yk__tokenizer_chars(const char *name, const char *text, size_t bytes, yk__tokenizer **out, yk_error *err);
yk_status yk__tokenizer_bytes(yk__tokenizer **out, yk_error *err);
yk__tokenizer *yk__tokenizer_share(yk__tokenizer *tok); /* the same once more; each is closed by itself */
void yk__tokenizer_close(yk__tokenizer *tok);

/* Lines for the user about what the files leave open, or NULL: whoever opens the tokenizer logs them once. */
const char *yk__tokenizer_notes(const yk__tokenizer *tok);
void yk__tokenizer_notes_log(const yk__tokenizer *tok);
/* Largest id + 1, but for tokens that files name and give no id (GPT-2's padding): those count where a text holds them. */
int yk__tokenizer_vocab(const yk__tokenizer *tok);
int yk__encoder_vocab(const yk__encoder *enc); /* the same with the texts that were encoded */
const char *yk__tokenizer_kind(const yk__tokenizer *tok);          /* "wordpiece", "bpe", "char", "bytes" */
int yk__tokenizer_pad(const yk__tokenizer *tok);                   /* id of padding; 0 where there is none */
int yk__tokenizer_mask(const yk__tokenizer *tok);                  /* id of the mask token; -1: none */
int yk__tokenizer_id(const yk__tokenizer *tok, const char *token); /* -1: not in the vocabulary */
/* special[id] = 1 for each id below yk__tokenizer_vocab that is marked special: added tokens that say so, the template's, padding. */
void yk__tokenizer_mark_special(const yk__tokenizer *tok, uint8_t *special);
/* Writes what turned text into ids into a folder that has none of these files yet: copies of the files it was opened from, with a
 * tokenizer_config.json that says casing, accents and class as they were used; a tokenizer.json of characters or bytes. The folder
 * gives the same ids wherever it lies, here and in transformers. */
yk_status yk__tokenizer_save(const yk__tokenizer *tok, const char *dir, yk_error *err);

yk_status yk__encoder_new(const yk__tokenizer *tok, yk__encoder **out, yk_error *err);
void yk__encoder_free(yk__encoder *enc);

/* Replaces what is in *ids. pair: the second text, or NULL. special: the template's tokens ([CLS] ... [SEP]) are added.
 * max_length: 0, or the most ids, reached by cutting the texts (the longer one first) before the template's tokens are
 * added. Text that is not UTF-8 is refused. */
yk_status yk__encoder_encode(yk__encoder *enc, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                             int special, size_t max_length, yk__ids *ids, yk_error *err);

#endif
