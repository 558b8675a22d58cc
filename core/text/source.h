/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a tokenizer's folder while they are read; only the readers of core/text include this header. */
#ifndef YOKE_CORE_TEXT_SOURCE_H
#define YOKE_CORE_TEXT_SOURCE_H

#include <jansson.h>
#include <stdbool.h>

#include "core/text/text_internal.h"

#define TOK_MAX_ID (1 << 28)

/* Rules that turn the files into a tokenizer: transformers takes them from the class that a file names. */
enum tok_class {
    TOK_CLASS_NONE,  /* no file names one */
    TOK_CLASS_PLAIN, /* tokenizer.json as it stands (PreTrainedTokenizerFast) */
    TOK_CLASS_BERT,  /* vocabulary of the files, the rest by tokenizer_config.json (BertTokenizer) */
    TOK_CLASS_GPT2,  /* vocabulary and merges of the files, the rest by tokenizer_config.json (GPT2Tokenizer) */
    TOK_CLASS_OTHER  /* a class that is not built here: tokenizer.json as it stands; a key with another value is refused */
};

struct tok_source {
    yk__tokenizer *t;
    const char *dir;    /* NULL for one tokenizer.json by itself */
    char *path;         /* path of the file being read */
    int lowercase;      /* an option: 1, 0, or -1 if not given */
    const char *prefix; /* WordPiece: "##" */
    enum tok_class class;
    char *class_name;                 /* as the file has it; NULL if no file names one */
    const char *class_file;           /* the file that names it */
    json_t *config, *map, *added; /* tokenizer_config.json, special_tokens_map.json, added_tokens.json; NULL if absent */
    bool ours;                        /* the folder was saved by Yoke */
    bool unended;                     /* the last line of the file of tokens or merges has no end */
    int64_t vocab_size;               /* config.json's; 0 if it has none */
    bool cut_left, pad_left;          /* tokenizer.json's directions, which count where tokenizer_config.json names no side */
};

/* Sets path to DIR/NAME. */
yk_status yk__tok_path(struct tok_source *src, const char *name, int *there, yk_error *err);
/* Refuses a value that is not built here; the message names the current file and the key. */
yk_status yk__tok_refuse(const struct tok_source *src, const char *key, const char *value, yk_error *err);
/* Adds a line for the user, which the tokenizer keeps until it is printed. */
yk_status yk__tok_note(const struct tok_source *src, yk_error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json, and the class that config.json implies. */
yk_status yk__tok_settings_read(struct tok_source *src, yk_error *err);
void yk__tok_settings_free(struct tok_source *src);
bool yk__tok_setting_given(const struct tok_source *src, const char *key); /* present, and not null */
int yk__tok_setting_flag(const struct tok_source *src, const char *key, int preset);
/* The token that a key such as "cls_token" names; preset if no file has the key, NULL if its value is null. */
const char *yk__tok_setting_token(const struct tok_source *src, const char *key, const char *preset);
/* Sets casing and accents as BertTokenizer has them, by option, key, and its presets. */
void yk__tok_bert_settings(const struct tok_source *src);
/* True if transformers has rules of its own for a class that is TOK_CLASS_OTHER. */
bool yk__tok_class_has_rules(const char *name);
/* Sets everything that depends on the class: padding, masks, sides. */
yk_status yk__tok_settings_apply(struct tok_source *src, yk_error *err);

/* ---- Added tokens ---- */
yk_status yk__tok_vocab_add(const struct tok_source *src, const char *key, size_t n, long long id, yk_error *err);
int32_t yk__tok_token_id(const struct tok_source *src, const char *token); /* -1 if not in the vocabulary */
/* Adds the tokens of tokenizer.json (list may be NULL), as it stands. */
yk_status yk__tok_added_list(const struct tok_source *src, const json_t *list, yk_error *err);
/* Adds the tokens of the other files, in transformers' order; a class that builds the tokenizer anew begins without added tokens. */
yk_status yk__tok_added_read(struct tok_source *src, const json_t *list, yk_error *err);
void yk__tok_added_free(yk__tokenizer *tok);
/* Prepares the search for normalized tokens, once the model is ready. */
yk_status yk__tok_added_ready(yk__tokenizer *tok, yk_error *err);

/* ---- Files ---- */
yk_status yk__tok_from_json(struct tok_source *src, yk_error *err);
yk_status yk__tok_vocab_object(const struct tok_source *src, json_t *v, yk_error *err);
/* Prepares the model that has been read. */
yk_status yk__tok_model_ready(struct tok_source *src, yk_error *err);
void yk__tok_bert_template(yk__tokenizer *tok, int32_t cls, int32_t sep);
/* Sets BertTokenizer's template, from the cls_token and the sep_token. */
yk_status yk__tok_bert_tokens(struct tok_source *src, yk_error *err);

#endif
