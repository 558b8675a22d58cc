/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kind of data set: a table of functions and a state of its own. Only kinds include this header.
 *
 * A new kind is one file, kind_NAME.c, that defines `const yk__dataset_kind yk__kind_NAME`, and one line in the list of dataset.c. Code
 * that kinds share is in kind.c.
 */
#ifndef YOKE_CORE_DATA_KIND_H
#define YOKE_CORE_DATA_KIND_H

#include "core/data/mask.h"
#include "core/data/options.h"
#include "core/data/spec.h"
#include "core/text/tokenizer.h"

#define YK__NO_LABEL (-100) /* label of a token that counts in no loss */

typedef struct yk__dataset_kind {
    const char *name;        /* the spec's word before the ':' */
    const char *const *keys; /* keys that its spec may have; ends in NULL */
    /* Sets the kind's members of `struct yk__dataset`. When it fails, close() is called if there is a state. */
    yk_status (*open)(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err);
    void (*close)(void *state);
    int64_t (*width)(const yk__dataset *set, const int64_t *rows, int64_t n);
    /* Any thread, several at once. */
    yk_status (*fill)(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers, yk_error *err);
    void (*where)(const yk__dataset *set, int64_t row, char *buf, size_t n);
    yk_status (*hash)(const yk__dataset *set, uint64_t *hash, yk_error *err); /* mixes its rows into *hash */
    int64_t (*line)(const yk__dataset *set, int64_t row);                     /* NULL for row + 1 */
    const char *(*class_name)(const yk__dataset *set, int i);                 /* NULL if labels are numbers */
    bool ragged;    /* its rows differ in width */
    bool eval_split; /* a part of the rows may evaluate, by eval_split */
    bool eval_rows; /* a file of line numbers may choose the rows that evaluate */
    bool numbers;   /* labels may be numbers */
    bool masks;     /* tokens may be hidden: it has a tokenizer */
    bool padded;    /* with masks: its second field marks tokens that are no padding; else its labels do */
} yk__dataset_kind;

struct yk__dataset {
    const yk__dataset_kind *kind;
    bool eval, may_be_empty; /* may_be_empty: no rows are no error (predictions) */
    char *path;
    /* the kind sets these in open() */
    void *state;
    int64_t rows;
    int classes, vocab, n_fields;
    yk__field field[YK__FIELDS];
    yk__tokenizer *tokenizer; /* NULL if it needs none */
    char *tokenizer_dir;
    yk__mask *mask; /* NULL if no token is hidden */
};

void yk__kind_field(yk__dataset *set, const char *name, uint32_t dtype, int rank, const int64_t *shape);
/* Sets tokenizer (and its folder) and vocab from the spec or the options; chars over text[0..bytes). */
yk_status yk__kind_tokenizer(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, const char *text,
                             size_t bytes, yk_error *err);

/* Makes the mask if the options ask for it; the tokenizer exists. */
yk_status yk__kind_mask(yk__dataset *set, const yk__dataset_options *options, yk_error *err);

/* Hashes bytes [0, bytes) of a source that `read` hands over in pieces: up to YK__DATASET_HASHED whole, evenly spread parts of more. A
 * read() that fails has filled err. */
typedef yk_status (*yk__kind_read)(const void *user, uint64_t at, void *to, size_t n, yk_error *err);
yk_status yk__kind_hash(yk__kind_read read, const void *user, uint64_t bytes, uint64_t *hash, yk_error *err);

#endif
