/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sets: rows in any order, from one of
 *
 *   idx:DIR      train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz]; evaluation: t10k-...
 *                mean=0.2860 std=0.3530 classes=10 holdout=N
 *   cifar10:DIR  (or one file) *train*.bin[.gz] or data_batch_*.bin[.gz]; evaluation: *test*.bin[.gz]
 *                mean=0.485+0.456+0.406 std=0.229+0.224+0.225 holdout=N
 *   csv:FILE, jsonl:FILE  one text and one label per row
 *                text=text label=label max-length=128 tokenizer=DIR classes= categories=FILE
 *                delimiter=comma|tab|semicolon quotes=double|none lowercase=yes|no
 *   lines:FILE   one text per line, no label: for predictions
 *                max-length=128 tokenizer=DIR lowercase=yes|no
 *   text:FILE    running text for a language model
 *                tokenizer=char|bytes|DIR seq-len=128 stride=seq-len split=0.9
 *   tokens:FILE  running ids for a language model; or DIR, a glob, A+B: files that are one stream
 *                dtype=u16|u32 vocab= seq-len=128 stride=seq-len split=0.9
 *
 * as KIND:PATH[,key=value...]. The first images (bytes, images.h) and texts (ids) are in memory; tokens and further
 * images stay on disk.
 *
 * Fields of a batch of n rows, in this order:
 *   images          x f32 [n, C, H, W] (pixel / 255 - mean) / std;  labels i32 [n]
 *   csv, jsonl      input_ids, attention_mask, token_type_ids i32 [n, T];  labels i32 [n]
 *   lines, and csv and jsonl with `unlabelled`: the same without labels
 *   text, tokens    input_ids i32 [n, T];  labels i32 [n, T]: the next id at each place
 *   with `numbers`  csv, jsonl: labels f32 [n]
 *   with `mask`     csv, jsonl, lines, text: labels i32 [n, T]: the ids that yk__dataset_mask hides, -100 elsewhere
 *
 * T is the batch's width: for csv, jsonl and lines its longest row, else seq-len. `split` cuts a running text into a part
 * that trains and a part that evaluates. Row r of it starts at id r * stride; in training every row is whole. In
 * evaluation the last row may be short: its rest is id 0 with label -100, so that every id counts once.
 *
 * holdout=N: the last N training images evaluate instead. With `whole`, or if `like` is another file, a whole text
 * trains or evaluates unless split= says otherwise.
 *
 * Immutable after opening: any thread may read it.
 */
#ifndef YOKE_CORE_DATA_DATASET_H
#define YOKE_CORE_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/options.h"
#include "core/text/tokenizer.h"

/* A csv or jsonl without eval_rows trains and evaluates on all its rows. */
yk_status yk__dataset_open(const char *text, const yk__dataset_options *options, yk__dataset **out, yk_error *err);
void yk__dataset_close(yk__dataset *set); /* takes NULL */

int64_t yk__dataset_rows(const yk__dataset *set);
int64_t yk__dataset_line(const yk__dataset *set,
                         int64_t row);           /* a line as in eval_rows; rows of other kinds count from 1 */
int yk__dataset_classes(const yk__dataset *set); /* 0 if there are none (language models) */
const char *yk__dataset_class_name(const yk__dataset *set, int i); /* NULL if the labels are numbers */
int yk__dataset_vocab(const yk__dataset *set);                     /* 0 for images */
const char *yk__dataset_kind_name(const yk__dataset *set);
int yk__dataset_fields(const yk__dataset *set, const yk__field **fields);
const char *yk__dataset_tokenizer_dir(const yk__dataset *set);      /* NULL if absent */
const yk__tokenizer *yk__dataset_tokenizer(const yk__dataset *set); /* NULL if absent */

/* Writes a row's place: "t.csv: line 7", "DIR: image 12 (from 0)", "FILE: ids 640 to 767". */
void yk__dataset_where(const yk__dataset *set, int64_t row, char *buf, size_t n);
/* Hash of the rows: equal on ranks that read the same. It covers up to YK__DATASET_HASHED bytes whole, and evenly spread parts of more. */
yk_status yk__dataset_hash(const yk__dataset *set, uint64_t *out, yk_error *err);

/* Width of a batch of these rows (1 for images). */
int64_t yk__dataset_width(const yk__dataset *set, const int64_t *rows, int64_t n);
bool yk__dataset_masks(const yk__dataset *set);
bool yk__dataset_ragged(const yk__dataset *set); /* rows differ in width */
/* Bytes of one row of field k at that width. */
size_t yk__dataset_row_bytes(const yk__dataset *set, int k, int64_t width);
/* Writes the n rows: buffers[k] takes n * row_bytes(k, width) bytes. */
yk_status yk__dataset_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                           yk_error *err);
/* Takes rows as yk__dataset_fill wrote them: hides tokens of a set that masks. Evaluation hides the same ones for every seed and epoch. */
void yk__dataset_mask(const yk__dataset *set, uint64_t seed, uint64_t epoch, const int64_t *rows, int64_t n, int64_t width,
                      void *const *buffers);

#endif
