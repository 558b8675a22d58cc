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
struct tok_added *yk__tok_added_find(const yk__tokenizer *tok, const char *content); /* NULL if there is none */

/* A token as a file writes it, before it has its id. */
struct tok_named {
    const char *content;
    long long id; /* given by the file; -1 if absent */
    struct tok_added flags;
    bool follows; /* flags.normalized is not given: it is the opposite of flags.special */
};

/* Reads a token with its flags, as an object; or as its text alone. special: the value of a key that is absent, or of a text. */
yk_status yk__tok_token_read(const struct tok_source *src, const char *key, const json_t *v, int special, struct tok_named *out,
                             yk_error *err);
/* Adds a token, or gives an existing one other flags. */
yk_status yk__tok_token_add(const struct tok_source *src, const char *key, const struct tok_named *token, yk_error *err);

/* Tokens that keys of the files name (tokenizer_named.c). The first `named` have a key of their own, the rest is of a list. */
struct tok_wants {
    struct tok_want {
        struct tok_named token;
        const char *key;
        bool text;   /* no flags are given */
        bool preset; /* the class gives it, no file */
    } *want;
    size_t count, cap, named;
    json_t *own; /* a model's tokens: the owner of their keys and texts */
};

yk_status yk__tok_wants_collect(struct tok_source *src, struct tok_wants *wants, yk_error *err);
yk_status yk__tok_wants_add(const struct tok_source *src, const struct tok_wants *wants, yk_error *err);
/* Makes a token special if a key names it. */
void yk__tok_wants_mark(const struct tok_wants *wants, struct tok_named *token);
void yk__tok_wants_free(struct tok_wants *wants);
bool yk__tok_is_special(const struct tok_source *src, const char *content);
const char *yk__tok_content(const json_t *v); /* the text of a token, with flags or without; NULL if it is none */
/* Prepares the search for normalized tokens, once the model is ready. */
yk_status yk__tok_added_ready(const struct tok_source *src, yk_error *err);

/* ---- Files ---- */
yk_status yk__tok_from_json(struct tok_source *src, yk_error *err);
yk_status yk__tok_vocab_object(const struct tok_source *src, json_t *v, yk_error *err);
/* Prepares the model that has been read. */
yk_status yk__tok_model_ready(struct tok_source *src, yk_error *err);
void yk__tok_bert_template(yk__tokenizer *tok, int32_t cls, int32_t sep);
/* Sets BertTokenizer's template, from the cls_token and the sep_token. */
yk_status yk__tok_bert_tokens(struct tok_source *src, yk_error *err);

#endif
