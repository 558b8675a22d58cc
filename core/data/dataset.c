/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all kinds of data sets have in common: choosing the kind, the tokenizer, where a row stands in its file, and the hash by
 * which ranks see that they read the same. A kind is a row of functions (core/data/internal.h).
 */
#include "core/data/dataset.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/data/internal.h"

static const struct data_kind *const kinds[] = {&yk__data_idx,   &yk__data_cifar10, &yk__data_csv,
                                                &yk__data_jsonl, &yk__data_lines,   &yk__data_text, &yk__data_tokens};
#define NKINDS (sizeof kinds / sizeof kinds[0])

static yk_status find_kind(const yk__spec *spec, const struct data_kind **out, yk_error *err)
{
    const char *names[NKINDS], *near;
    for (size_t i = 0; i < NKINDS; i++) {
        names[i] = kinds[i]->name;
        if (!strcmp(names[i], spec->kind)) {
            *out = kinds[i];
            return YK_OK;
        }
    }
    near = yk__nearest_word(spec->kind, names, NKINDS);
    return yk__fail(
        err, YK_E_ARG,
        "data '%.40s:%.100s': unknown kind%s%s%s (there are: idx, cifar10, csv, jsonl, lines, text, tokens)",
        spec->kind, spec->path, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

void yk__data_field(yk__dataset *set, const char *name, uint32_t dtype, int rank, const int64_t *shape)
{
    yk__field *f = &set->field[set->n_fields++];
    f->name = name;
    f->dtype = dtype;
    f->rank = rank;
    for (int i = 0; i < rank; i++)
        f->shape[i] = shape[i];
}

yk_status yk__data_tokenizer(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options,
                             const char *text, size_t bytes, yk_error *err)
{
    static const char *const yes_no[] = {"no", "yes"};
    const char *name = yk__spec_get(spec, "tokenizer");
    int lowercase = -1;
    yk_status st = yk__spec_word(spec, "lowercase", yes_no, 2, -1, &lowercase, err);
    if (st)
        return st;
    name = name ? name : options->tokenizer;
    if (!name)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': needs a tokenizer (tokenizer=DIR, char or bytes)", spec->kind,
                        spec->path);
    if (!strcmp(name, "bytes")) {
        st = yk__tokenizer_bytes(&set->tokenizer, err);
    } else if (strcmp(name, "char")) {
        st = yk__tokenizer_open(name, lowercase, &set->tokenizer, err);
        set->tokenizer_dir = st ? NULL : yk__strdup(name);
        if (!st && !set->tokenizer_dir)
            st = yk__fail_mem(err, strlen(name), "a path");
    } else if (options->like && options->like->tokenizer &&
               !strcmp(yk__tokenizer_kind(options->like->tokenizer), "char")) {
        set->tokenizer = yk__tokenizer_share(options->like->tokenizer);
    } else {
        st = yk__tokenizer_chars(spec->path, text, bytes, &set->tokenizer, err);
    }
    if (!st)
        set->vocab = yk__tokenizer_vocab(set->tokenizer);
    return st;
}

yk_status yk__data_mask(yk__dataset *set, const yk__dataset_options *options, yk_error *err)
{
    yk_status st = options->mask != 0 ? yk__mask_new(set->tokenizer, options->mask, &set->mask, err) : YK_OK;
    return st == YK_E_ARG ? yk__fail_in(err, "data '%s:%.100s'", set->kind->name, set->path) : st;
}

static yk_status check_label_options(const yk__spec *spec, const yk__dataset_options *options, const struct data_kind *kind,
                                     yk_error *err)
{
    const bool table = kind == &yk__data_csv || kind == &yk__data_jsonl;
    if (options->eval_rows && !table)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': a file of evaluation rows goes with csv and jsonl only", spec->kind, spec->path);
    if (options->numbers && !table)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': labels that are numbers go with csv and jsonl only", spec->kind, spec->path);
    if (options->numbers && (yk__spec_get(spec, "classes") || yk__spec_get(spec, "categories")))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': classes= and categories= are of classes, and the labels are numbers "
                        "(num_labels=1)", spec->kind, spec->path);
    if (options->mask != 0 && !table && kind != &yk__data_lines && kind != &yk__data_text)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': tokens are masked in csv, jsonl, lines and text only, which have a tokenizer",
                        spec->kind, spec->path);
    return YK_OK;
}

yk_status yk__dataset_open(const char *text, const yk__dataset_options *options, yk__dataset **out, yk_error *err)
{
    yk__dataset *set = NULL;
    const struct data_kind *kind = NULL;
    yk__spec spec;
    yk_status st = yk__spec_parse(text, &spec, err);
    if (st)
        return st;
    st = find_kind(&spec, &kind, err);
    if (!st)
        st = yk__spec_check(&spec, kind->keys, kind->n_keys, err);
    if (!st)
        st = check_label_options(&spec, options, kind, err);
    if (!st) {
        set = yk__calloc(1, sizeof *set);
        st = set ? YK_OK : yk__fail_mem(err, sizeof *set, "a data set");
    }
    if (!st) {
        set->kind = kind;
        set->eval = options->eval;
        set->path = yk__strdup(spec.path);
        st = set->path ? kind->open(set, &spec, options, err) : yk__fail_mem(err, strlen(spec.path), "a path");
    }
    if (!st && options->max_rows && (uint64_t)set->rows > options->max_rows)
        set->rows = (int64_t)options->max_rows;
    yk__spec_free(&spec);
    if (st)
        yk__dataset_close(set);
    else
        *out = set;
    return st;
}

void yk__dataset_close(yk__dataset *set)
{
    if (!set)
        return;
    yk__tokenizer_close(set->tokenizer);
    yk__mask_free(set->mask);
    yk__free(set->tokenizer_dir);
    yk__free(set->path);
    yk__free(set->pixels);
    yk__free(set->labels_memory);
    yk__rows_close(set->text);
    yk__free(set->row_map);
    yk__free(set->ids);
    yk__free(set->at);
    yk__tokens_close(&set->running);
    yk__free(set);
}

int64_t yk__dataset_rows(const yk__dataset *set)
{
    return set->rows;
}

int64_t yk__dataset_line(const yk__dataset *set, int64_t row)
{
    return set->text ? set->text->line[set->row_map ? set->row_map[row] : row] : row + 1;
}

int yk__dataset_classes(const yk__dataset *set)
{
    return set->classes;
}

const char *yk__dataset_class_name(const yk__dataset *set, int i)
{
    return set->text && set->text->names && i >= 0 && i < set->text->classes ? set->text->names[i] : NULL;
}

int yk__dataset_vocab(const yk__dataset *set)
{
    return set->vocab;
}

const char *yk__dataset_kind(const yk__dataset *set)
{
    return set->kind->name;
}

int yk__dataset_fields(const yk__dataset *set, const yk__field **fields)
{
    *fields = set->field;
    return set->n_fields;
}

const char *yk__dataset_tokenizer_dir(const yk__dataset *set)
{
    return set->tokenizer_dir;
}

const yk__tokenizer *yk__dataset_tokenizer(const yk__dataset *set)
{
    return set->tokenizer;
}

void yk__dataset_where(const yk__dataset *set, int64_t row, char *buf, size_t n)
{
    const int64_t from = set->from + row * set->stride;
    if (set->pixels)
        snprintf(buf, n, "%.200s: image %lld (from 0)", set->path, (long long)(set->first + row));
    else if (set->text)
        snprintf(buf, n, "%.200s: line %lld", set->path,
                 (long long)set->text->line[set->row_map ? set->row_map[row] : row]);
    else
        snprintf(buf, n, "%.200s: ids %lld to %lld", set->path, (long long)from, (long long)(from + set->seq_len));
}

/* ---- A hash of the rows ---- */

static uint64_t hash_spread(uint64_t h, const void *data, size_t bytes)
{
    enum { PARTS = 4096 };
    const size_t part = YK__DATASET_HASHED / PARTS;
    h = yk__hash_u64(h, bytes);
    if (bytes <= YK__DATASET_HASHED)
        return yk__hash_bytes(h, data, bytes);
    for (size_t i = 0; i < PARTS; i++)
        h = yk__hash_bytes(h, (const char *)data + (bytes - part) / (PARTS - 1) * i, part);
    return h;
}

static uint64_t hash_images(const yk__dataset *set, uint64_t h)
{
    h = hash_spread(h, set->pixels + (size_t)set->first * set->record, (size_t)set->rows * set->record);
    h = yk__hash_bytes(h, set->value, sizeof set->value); /* mean and deviation */
    for (int64_t i = 0; i < set->rows; i++)
        h = yk__hash_u64(h, set->labels[(size_t)(set->first + i) * set->label_step]);
    return h;
}

static uint64_t hash_texts(const yk__dataset *set, uint64_t h)
{
    for (int64_t i = 0; i < set->rows; i++) {
        const int64_t r = set->row_map ? set->row_map[i] : i;
        h = set->text->number ? yk__hash_bytes(h, &set->text->number[r], sizeof set->text->number[r])
                              : yk__hash_u64(h, (uint64_t)set->text->label[r]);
        h = yk__hash_bytes(h, set->ids + set->at[r], (set->at[r + 1] - set->at[r]) * sizeof *set->ids);
    }
    return h;
}

static uint64_t hash_running(const yk__dataset *set, uint64_t h)
{
    h = yk__hash_u64(yk__hash_u64(h, (uint64_t)set->stride), (uint64_t)set->seq_len);
    return hash_spread(h, (const char *)set->running.ids + set->from * set->running.width,
                       (size_t)(set->len * set->running.width));
}

uint64_t yk__dataset_hash(const yk__dataset *set)
{
    uint64_t h = yk__hash_bytes(YK_HASH_SEED, set->kind->name, strlen(set->kind->name));
    h = yk__hash_u64(h, (uint64_t)set->rows);
    h = yk__hash_u64(h, (uint64_t)set->classes << 32 | (uint32_t)set->vocab);
    return set->pixels ? hash_images(set, h) : set->text ? hash_texts(set, h) : hash_running(set, h);
}

int64_t yk__dataset_width(const yk__dataset *set, const int64_t *rows, int64_t n)
{
    return set->kind->width(set, rows, n);
}

bool yk__dataset_ragged(const yk__dataset *set)
{
    return set->kind->ragged;
}

size_t yk__dataset_row_bytes(const yk__dataset *set, int k, int64_t width)
{
    const yk__field *f = &set->field[k];
    size_t n = yk_dtype_bytes(f->dtype);
    for (int i = 0; i < f->rank; i++)
        n *= (size_t)(f->shape[i] < 0 ? width : f->shape[i]);
    return n;
}

void yk__dataset_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    set->kind->fill(set, rows, n, width, buffers);
}

bool yk__dataset_masks(const yk__dataset *set)
{
    return set->mask != NULL;
}

/* Tokens of a row that are no padding. */
static int64_t row_tokens(const yk__dataset *set, const int32_t *attention_mask, const int32_t *labels, int64_t width)
{
    int64_t n = 0;
    while (n < width && (set->text ? attention_mask[n] != 0 : labels[n] != YK__NO_LABEL))
        n++;
    return n;
}

void yk__dataset_mask(const yk__dataset *set, uint64_t seed, uint64_t epoch, const int64_t *rows, int64_t n, int64_t width,
                      void *const *buffers)
{
    int32_t *ids = buffers[0], *labels = buffers[set->n_fields - 1];
    const int32_t *attention_mask = buffers[1];
    for (int64_t i = 0; i < n && set->mask; i++, ids += width, labels += width, attention_mask += width) {
        const int64_t tokens = row_tokens(set, attention_mask, labels, width);
        yk__mask_row(set->mask, set->eval ? 0 : seed, set->eval ? 0 : epoch, rows[i], tokens, ids, labels);
        for (int64_t k = tokens; k < width; k++)
            labels[k] = YK__NO_LABEL;
    }
}
