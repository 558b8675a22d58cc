/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of data sets share; nobody else includes this. */
#ifndef YOKE_CORE_DATA_INTERNAL_H
#define YOKE_CORE_DATA_INTERNAL_H

#include "core/data/dataset.h"
#include "core/data/mask.h"
#include "core/read/rows.h"
#include "core/data/spec.h"
#include "core/read/tokens.h"

#define IMAGE_CHANNELS 16
#define YK__NO_LABEL (-100) /* of a token: it counts in no loss */

struct data_kind {
    const char *name;
    const char *const *keys;
    int n_keys;
    yk_status (*open)(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err);
    int64_t (*width)(const yk__dataset *set, const int64_t *rows, int64_t n);
    void (*fill)(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers);
    bool ragged; /* its rows differ in width */
};

struct yk__dataset {
    const struct data_kind *kind;
    bool eval;
    char *path;
    int64_t rows;
    int classes, vocab, n_fields;
    yk__field field[YK__FIELDS];
    yk__tokenizer *tokenizer;
    char *tokenizer_dir;
    yk__mask *mask; /* NULL: no token is hidden */
    /* images */
    uint8_t *pixels;       /* image i at pixels + i * record + skip */
    const uint8_t *labels; /* label i at labels[i * label_step] */
    uint8_t *labels_memory;
    size_t record, skip, label_step;
    int64_t chw[3];
    int64_t first; /* image of row 0 */
    float value[IMAGE_CHANNELS][256];
    /* labelled texts */
    yk__rows *text;
    int64_t *row_map; /* row -> row of text, or NULL: the same */
    int32_t *ids;  /* ids of text row r: ids[at[r]..at[r + 1]) */
    size_t *at;
    /* running text */
    yk__tokens running;
    int64_t from, len, stride, seq_len; /* the part in run */
};

extern const struct data_kind yk__data_idx, yk__data_cifar10, yk__data_csv, yk__data_jsonl, yk__data_lines,
    yk__data_text, yk__data_tokens;

void yk__data_field(yk__dataset *set, const char *name, uint32_t dtype, int rank, const int64_t *shape);
/* Sets tokenizer (and its folder) from the spec or the options; chars over text[0..bytes). */
yk_status yk__data_tokenizer(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options,
                             const char *text, size_t bytes, yk_error *err);
/* Masks where the options ask for it; the tokenizer is there. */
yk_status yk__data_mask(yk__dataset *set, const yk__dataset_options *options, yk_error *err);

#endif
