/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a data set at its opening, and the fields of its batches; dataset.h lists them. Plain data. */
#ifndef YOKE_CORE_DATA_OPTIONS_H
#define YOKE_CORE_DATA_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/dtype.h>

typedef struct yk__dataset yk__dataset;

#define YK__FIELDS 4

typedef struct yk__field {
    const char *name;
    uint32_t dtype; /* YK_F32 or YK_I32 */
    int rank;
    int64_t shape[3]; /* shape of one row; -1 for the batch's width */
} yk__field;

/* Keys of the spec win over these. */
typedef struct yk__dataset_options {
    bool eval;               /* the evaluation part */
    const char *tokenizer;   /* "char", "bytes" or a folder */
    uint32_t max_length;     /* for csv and jsonl rows; 0 for 128 */
    uint32_t seq_len;        /* for text and tokens; 0 for 128 */
    const char *eval_rows;   /* csv, jsonl: file of line numbers (as yk__rows.line) that evaluate instead of train */
    double eval_split;       /* csv, jsonl, lines: this part evaluates instead of training; text: its end; 0 for none */
    uint64_t eval_seed;      /* chooses those rows */
    const char *model;       /* csv, jsonl: a model's config.json, whose id2label numbers the label names */
    bool new_head;           /* training: only if the file has exactly these names */
    bool unlabelled;         /* csv, jsonl: labels are neither needed nor read; lines have none */
    bool numbers;            /* csv, jsonl: labels are numbers, of a regression */
    double mask;             /* probability that a token is hidden, for a masked language model; 0 hides none */
    bool whole;              /* text, tokens: the whole file, without a split */
    uint64_t max_rows;       /* number of first rows to use; 0 for all */
    bool silent;             /* another rank logs the lines on this set */
    const yk__dataset *like; /* number label names and characters as in this set (the training data) */
} yk__dataset_options;

/* Bytes of a data set that its hash reads: a set up to this size is read whole, a larger one in evenly spread parts. */
#define YK__DATASET_HASHED (256u << 20)

#endif
