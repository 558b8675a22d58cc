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

static yk_status find_kind(const yk__spec *s, const struct data_kind **out, yk_error *err)
{
    const char *names[NKINDS], *near;
    for (size_t i = 0; i < NKINDS; i++) {
        names[i] = kinds[i]->name;
        if (!strcmp(names[i], s->kind)) {
            *out = kinds[i];
            return YK_OK;
        }
    }
    near = yk__nearest_word(s->kind, names, NKINDS);
    return yk__fail(err, YK_E_ARG,
                    "data '%.40s:%.100s': unknown kind%s%s%s (there are: idx, cifar10, csv, jsonl, lines, text, tokens)",
                    s->kind, s->path, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

void yk__data_field(yk__dataset *d, const char *name, uint32_t dtype, int rank, const int64_t *shape)
{
    yk__field *f = &d->field[d->n_fields++];
    f->name = name;
    f->dtype = dtype;
    f->rank = rank;
    for (int i = 0; i < rank; i++)
        f->shape[i] = shape[i];
}

yk_status yk__data_tokenizer(yk__dataset *d, const yk__spec *s, const yk__dataset_options *o, const char *text,
                             size_t bytes, yk_error *err)
{
    static const char *const yes_no[] = {"no", "yes"};
    const char *name = yk__spec_get(s, "tokenizer");
    int lowercase = -1;
    yk_status st = yk__spec_word(s, "lowercase", yes_no, 2, -1, &lowercase, err);
    if (st)
        return st;
    name = name ? name : o->tokenizer;
    if (!name)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': needs a tokenizer (tokenizer=DIR, char or bytes)", s->kind,
                        s->path);
    if (!strcmp(name, "bytes")) {
        st = yk__tokenizer_bytes(&d->tokenizer, err);
    } else if (strcmp(name, "char")) {
        st = yk__tokenizer_open(name, lowercase, &d->tokenizer, err);
        d->tokenizer_dir = st ? NULL : yk__strdup(name);
        if (!st && !d->tokenizer_dir)
            st = yk__fail_mem(err, strlen(name), "a path");
    } else if (o->like && o->like->tokenizer && !strcmp(yk__tokenizer_kind(o->like->tokenizer), "char")) {
        d->tokenizer = yk__tokenizer_share(o->like->tokenizer);
    } else {
        st = yk__tokenizer_chars(s->path, text, bytes, &d->tokenizer, err);
    }
    if (!st)
        d->vocab = yk__tokenizer_vocab(d->tokenizer);
    return st;
}

yk_status yk__dataset_open(const char *spec, const yk__dataset_options *o, yk__dataset **out, yk_error *err)
{
    yk__dataset *d = NULL;
    const struct data_kind *kind = NULL;
    yk__spec s;
    yk_status st = yk__spec_parse(spec, &s, err);
    if (st)
        return st;
    st = find_kind(&s, &kind, err);
    if (!st)
        st = yk__spec_check(&s, kind->keys, kind->n_keys, err);
    if (!st && o->eval_rows && kind != &yk__data_csv && kind != &yk__data_jsonl)
        st = yk__fail(err, YK_E_ARG, "data '%s:%.100s': a file of evaluation rows goes with csv and jsonl only", s.kind,
                      s.path);
    if (!st) {
        d = yk__calloc(1, sizeof *d);
        st = d ? YK_OK : yk__fail_mem(err, sizeof *d, "a data set");
    }
    if (!st) {
        d->kind = kind;
        d->eval = o->eval;
        d->path = yk__strdup(s.path);
        st = d->path ? kind->open(d, &s, o, err) : yk__fail_mem(err, strlen(s.path), "a path");
    }
    if (!st && o->max_rows && (uint64_t)d->rows > o->max_rows)
        d->rows = (int64_t)o->max_rows;
    yk__spec_free(&s);
    if (st)
        yk__dataset_close(d);
    else
        *out = d;
    return st;
}

void yk__dataset_close(yk__dataset *d)
{
    if (!d)
        return;
    yk__tokenizer_close(d->tokenizer);
    yk__free(d->tokenizer_dir);
    yk__free(d->path);
    yk__free(d->pixels);
    yk__free(d->labels_memory);
    yk__rows_close(d->text);
    yk__free(d->row_map);
    yk__free(d->ids);
    yk__free(d->at);
    yk__tokens_close(&d->running);
    yk__free(d);
}

int64_t yk__dataset_rows(const yk__dataset *d)
{
    return d->rows;
}

int64_t yk__dataset_line(const yk__dataset *d, int64_t row)
{
    return d->text ? d->text->line[d->row_map ? d->row_map[row] : row] : row + 1;
}

int yk__dataset_classes(const yk__dataset *d)
{
    return d->classes;
}

const char *yk__dataset_class_name(const yk__dataset *d, int i)
{
    return d->text && d->text->names && i >= 0 && i < d->text->classes ? d->text->names[i] : NULL;
}

int yk__dataset_vocab(const yk__dataset *d)
{
    return d->vocab;
}

const char *yk__dataset_kind(const yk__dataset *d)
{
    return d->kind->name;
}

int yk__dataset_fields(const yk__dataset *d, const yk__field **fields)
{
    *fields = d->field;
    return d->n_fields;
}

const char *yk__dataset_tokenizer_dir(const yk__dataset *d)
{
    return d->tokenizer_dir;
}

const yk__tokenizer *yk__dataset_tokenizer(const yk__dataset *d)
{
    return d->tokenizer;
}

void yk__dataset_where(const yk__dataset *d, int64_t row, char *buf, size_t n)
{
    const int64_t from = d->from + row * d->stride;
    if (d->pixels)
        snprintf(buf, n, "%.200s: image %lld (from 0)", d->path, (long long)(d->first + row));
    else if (d->text)
        snprintf(buf, n, "%.200s: line %lld", d->path, (long long)d->text->line[d->row_map ? d->row_map[row] : row]);
    else
        snprintf(buf, n, "%.200s: ids %lld to %lld", d->path, (long long)from, (long long)(from + d->seq_len));
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

static uint64_t hash_images(const yk__dataset *d, uint64_t h)
{
    h = hash_spread(h, d->pixels + (size_t)d->first * d->record, (size_t)d->rows * d->record);
    h = yk__hash_bytes(h, d->value, sizeof d->value); /* mean and deviation */
    for (int64_t i = 0; i < d->rows; i++)
        h = yk__hash_u64(h, d->labels[(size_t)(d->first + i) * d->label_step]);
    return h;
}

static uint64_t hash_texts(const yk__dataset *d, uint64_t h)
{
    for (int64_t i = 0; i < d->rows; i++) {
        const int64_t r = d->row_map ? d->row_map[i] : i;
        h = yk__hash_u64(h, (uint64_t)d->text->label[r]);
        h = yk__hash_bytes(h, d->ids + d->at[r], (d->at[r + 1] - d->at[r]) * sizeof *d->ids);
    }
    return h;
}

static uint64_t hash_running(const yk__dataset *d, uint64_t h)
{
    h = yk__hash_u64(yk__hash_u64(h, (uint64_t)d->stride), (uint64_t)d->seq_len);
    return hash_spread(h, (const char *)d->running.ids + d->from * d->running.width,
                       (size_t)(d->len * d->running.width));
}

uint64_t yk__dataset_hash(const yk__dataset *d)
{
    uint64_t h = yk__hash_bytes(YK_HASH_SEED, d->kind->name, strlen(d->kind->name));
    h = yk__hash_u64(h, (uint64_t)d->rows);
    h = yk__hash_u64(h, (uint64_t)d->classes << 32 | (uint32_t)d->vocab);
    return d->pixels ? hash_images(d, h) : d->text ? hash_texts(d, h) : hash_running(d, h);
}

int64_t yk__dataset_width(const yk__dataset *d, const int64_t *rows, int64_t n)
{
    return d->kind->width(d, rows, n);
}

bool yk__dataset_ragged(const yk__dataset *d)
{
    return d->kind->ragged;
}

size_t yk__dataset_row_bytes(const yk__dataset *d, int k, int64_t width)
{
    const yk__field *f = &d->field[k];
    size_t n = yk_dtype_bytes(f->dtype);
    for (int i = 0; i < f->rank; i++)
        n *= (size_t)(f->shape[i] < 0 ? width : f->shape[i]);
    return n;
}

void yk__dataset_fill(const yk__dataset *d, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    d->kind->fill(d, rows, n, width, buffers);
}
