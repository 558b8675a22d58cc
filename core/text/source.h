/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a tokenizer's folder while they are read; the readers of core/text include this, nobody else. */
#ifndef YOKE_CORE_TEXT_SOURCE_H
#define YOKE_CORE_TEXT_SOURCE_H

#include <jansson.h>
#include <stdbool.h>

#include "core/text/internal.h"

#define TOK_MAX_ID (1 << 28)

/* Which rules turn the files into a tokenizer: transformers takes them from the class that a file names. */
enum tok_class {
    TOK_CLASS_NONE,  /* no file names one */
    TOK_CLASS_PLAIN, /* tokenizer.json as it stands (PreTrainedTokenizerFast) */
    TOK_CLASS_BERT,  /* vocabulary of the files, the rest by tokenizer_config.json (BertTokenizer) */
    TOK_CLASS_GPT2,  /* vocabulary and merges of the files, the rest by tokenizer_config.json (GPT2Tokenizer) */
    TOK_CLASS_OTHER  /* a class that is not built here: tokenizer.json as it stands, and no key may say something else */
};

struct tok_source {
    yk__tokenizer *t;
    const char *dir;    /* NULL: one tokenizer.json by itself */
    char *path;         /* of the file being read */
    int lowercase;      /* an option: 1, 0, or -1 where there is none */
    const char *prefix; /* WordPiece: "##" */
    enum tok_class class;
    char *class_name;                 /* as the file has it; NULL where no file names one */
    const char *class_file;           /* which one */
    json_t *config, *map, *added; /* tokenizer_config.json, special_tokens_map.json, added_tokens.json; NULL where absent */
    bool ours;                        /* the folder was saved by Yoke */
};

/* Sets path to DIR/NAME. */
yk_status yk__tok_path(struct tok_source *src, const char *name, int *there, yk_error *err);
/* A value that is not built here, named by the file that is being read and its key. */
yk_status yk__tok_refuse(const struct tok_source *src, const char *key, const char *value, yk_error *err);
/* A line for the user, which the tokenizer keeps until somebody prints it. */
yk_status yk__tok_note(const struct tok_source *src, yk_error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* tokenizer_config.json, special_tokens_map.json, added_tokens.json, and the class that config.json implies. */
yk_status yk__tok_settings_read(struct tok_source *src, yk_error *err);
void yk__tok_settings_free(struct tok_source *src);
bool yk__tok_setting_given(const struct tok_source *src, const char *key); /* there, and not null */
int yk__tok_setting_flag(const struct tok_source *src, const char *key, int preset);
/* The token that a key such as "cls_token" names; preset where no file has the key, NULL where it says null. */
const char *yk__tok_setting_token(const struct tok_source *src, const char *key, const char *preset);
/* Casing and accents as BertTokenizer has them, by option, key, and its presets. */
void yk__tok_bert_settings(const struct tok_source *src);
/* Whether transformers has rules of its own for a class that is TOK_CLASS_OTHER. */
bool yk__tok_class_has_rules(const char *name);
/* Whatever depends on the class is set: padding, masks, sides. */
yk_status yk__tok_settings_apply(struct tok_source *src, yk_error *err);

/* ---- Added tokens ---- */
yk_status yk__tok_vocab_add(const struct tok_source *src, const char *key, size_t n, long long id, yk_error *err);
int32_t yk__tok_token_id(const struct tok_source *src, const char *token); /* -1: not in the vocabulary */
/* Those of tokenizer.json (list may be NULL), as it stands. */
yk_status yk__tok_added_list(const struct tok_source *src, const json_t *list, yk_error *err);
/* What the other files add, in transformers' order; a class that builds the tokenizer anew begins without added tokens. */
yk_status yk__tok_added_read(struct tok_source *src, const json_t *list, yk_error *err);
void yk__tok_added_free(yk__tokenizer *tok);
/* What normalized tokens are found by, once the model is ready. */
yk_status yk__tok_added_ready(yk__tokenizer *tok, yk_error *err);

/* ---- Files ---- */
yk_status yk__tok_from_json(struct tok_source *src, yk_error *err);
yk_status yk__tok_vocab_object(const struct tok_source *src, json_t *v, yk_error *err);
/* Prepares the model that has been read. */
yk_status yk__tok_model_ready(struct tok_source *src, yk_error *err);
void yk__tok_bert_template(yk__tokenizer *tok, int32_t cls, int32_t sep);
/* BertTokenizer's template, of the cls_token and the sep_token. */
yk_status yk__tok_bert_tokens(struct tok_source *src, yk_error *err);

#endif
