/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of a data set when it is opened, and what a field of its batches is; dataset.h says which there are. Plain data. */
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
    int64_t shape[3]; /* of one row; -1: the batch's width */
} yk__field;

/* Keys of the spec win over these. */
typedef struct yk__dataset_options {
    bool eval;               /* the evaluation part */
    const char *tokenizer;   /* "char", "bytes" or a folder */
    uint32_t max_length;     /* of csv and jsonl rows; 0: 128 */
    uint32_t seq_len;        /* of text and tokens; 0: 128 */
    const char *eval_rows;   /* csv, jsonl: file of line numbers (as yk__rows.line) that evaluate instead of train */
    double eval_split;       /* csv, jsonl, lines: this part evaluates instead of training; text: its end; 0: none */
    uint64_t eval_seed;      /* which rows they are */
    const char *model;       /* csv, jsonl: a model's config.json, whose id2label numbers the label names */
    bool new_head;           /* training: only where the file has all of these names, and no others */
    bool unlabelled;         /* csv, jsonl: labels are neither needed nor looked at; lines have none */
    bool numbers;            /* csv, jsonl: labels are numbers, of a regression */
    double mask;             /* probability that a token is hidden, for a masked language model; 0: none is */
    bool whole;              /* text, tokens: no split, all of the file */
    uint64_t max_rows;       /* only the first so many; 0: all */
    const yk__dataset *like; /* number label names and characters as there (the training data) */
} yk__dataset_options;

/* Bytes of a data set that its hash reads: all of so many, evenly spread parts of more. */
#define YK__DATASET_HASHED (256u << 20)

#endif
