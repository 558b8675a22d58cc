/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of data set is: a table of functions and a state of its own. The kinds include this, nobody else.
 *
 * A new kind is one file, kind_NAME.c, that defines `const yk__dataset_kind yk__kind_NAME`, and one line in the list of
 * dataset.c. What kinds have in common is in kind.c.
 */
#ifndef YOKE_CORE_DATA_KIND_H
#define YOKE_CORE_DATA_KIND_H

#include "core/data/mask.h"
#include "core/data/options.h"
#include "core/data/spec.h"
#include "core/text/tokenizer.h"

#define YK__NO_LABEL (-100) /* of a token: it counts in no loss */

typedef struct yk__dataset_kind {
    const char *name;        /* of the spec, before the ':' */
    const char *const *keys; /* that its spec may have; ends in NULL */
    /* Sets what `struct yk__dataset` says the kind sets. When it fails, close() is called if there is a state. */
    yk_status (*open)(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err);
    void (*close)(void *state);
    int64_t (*width)(const yk__dataset *set, const int64_t *rows, int64_t n);
    /* Any thread, several at once. */
    yk_status (*fill)(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers, yk_error *err);
    void (*where)(const yk__dataset *set, int64_t row, char *buf, size_t n);
    yk_status (*hash)(const yk__dataset *set, uint64_t *hash, yk_error *err); /* mixes its rows into *hash */
    int64_t (*line)(const yk__dataset *set, int64_t row);                     /* NULL: row + 1 */
    const char *(*class_name)(const yk__dataset *set, int i);                 /* NULL: labels are numbers */
    bool ragged;    /* its rows differ in width */
    bool eval_split; /* a part of the rows may evaluate, by eval_split */
    bool eval_rows; /* a file of line numbers may say which rows evaluate */
    bool numbers;   /* labels may be numbers */
    bool masks;     /* tokens may be hidden: it has a tokenizer */
    bool padded;    /* with masks: its second field says which tokens are no padding; else its labels do */
} yk__dataset_kind;

struct yk__dataset {
    const yk__dataset_kind *kind;
    bool eval, may_be_empty; /* the latter: no rows are no error (predictions) */
    char *path;
    /* the kind sets these in open() */
    void *state;
    int64_t rows;
    int classes, vocab, n_fields;
    yk__field field[YK__FIELDS];
    yk__tokenizer *tokenizer; /* NULL: it needs none */
    char *tokenizer_dir;
    yk__mask *mask; /* NULL: no token is hidden */
};

void yk__kind_field(yk__dataset *set, const char *name, uint32_t dtype, int rank, const int64_t *shape);
/* Sets tokenizer (and its folder) and vocab from the spec or the options; chars over text[0..bytes). */
yk_status yk__kind_tokenizer(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, const char *text,
                             size_t bytes, yk_error *err);

/* Masks where the options ask for it; the tokenizer is there. */
yk_status yk__kind_mask(yk__dataset *set, const yk__dataset_options *options, yk_error *err);

/* Hashes bytes [0, bytes) of something that `read` hands over in pieces: all of up to YK__DATASET_HASHED, evenly spread
 * parts of more. Where read() fails, it has filled err. */
typedef yk_status (*yk__kind_read)(const void *user, uint64_t at, void *to, size_t n, yk_error *err);
yk_status yk__kind_hash(yk__kind_read read, const void *user, uint64_t bytes, uint64_t *hash, yk_error *err);

#endif
