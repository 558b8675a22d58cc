/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sets of all kinds: the list of kinds (KINDS), and opening by a spec such as "csv:FILE". Calls go to a set's kind, a table of
 * functions (core/data/kind.h).
 *
 * core/job/loop/data.c opens and closes sets in the step thread. A loader's thread reads rows, and so may the caller. An unknown kind is
 * an error with the known ones.
 */
#include "core/data/dataset.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/data/kind.h"

#define KINDS(X) \
    X(idx)       \
    X(cifar10)   \
    X(csv)       \
    X(jsonl)     \
    X(lines)     \
    X(text)      \
    X(tokens)
#define DECLARED(kind) extern const yk__dataset_kind yk__kind_##kind;
#define LISTED(kind) &yk__kind_##kind,
#define NAMED(kind) ", " #kind
KINDS(DECLARED)
static const yk__dataset_kind *const kinds[] = {KINDS(LISTED)};
#define NKINDS (sizeof kinds / sizeof kinds[0])
#define KIND_NAMES (&(KINDS(NAMED))[2]) /* "idx, cifar10, ..." */

static yk_status find_kind(const yk__spec *spec, const yk__dataset_kind **out, yk_error *err)
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
    const bool pictures = !near && (strstr(spec->kind, "image") || strstr(spec->kind, "picture") || strstr(spec->kind, "folder"));
    return yk__fail(err, YK_E_ARG, "data '%.40s:%.100s': unknown kind%s%s%s (there are: %s)%s", spec->kind, spec->path,
                    near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", KIND_NAMES,
                    pictures ? ": write a folder of pictures into one file (idx:DIR), as docs/data.md says" : "");
}

static int keys_count(const char *const *keys)
{
    int n = 0;
    while (keys[n])
        n++;
    return n;
}

static yk_status set_new(const yk__dataset_kind *kind, const yk__spec *spec, bool eval, yk__dataset **out, yk_error *err)
{
    yk__dataset *set = yk__calloc(1, sizeof *set);
    char *path = yk__strdup(spec->path);
    if (!set || !path) {
        yk__free(set);
        yk__free(path);
        return yk__fail_mem(err, sizeof *set, "a data set");
    }
    set->kind = kind;
    set->eval = eval;
    set->path = path;
    *out = set;
    return YK_OK;
}

static yk_status check_label_options(const yk__spec *spec, const yk__dataset_options *options, const yk__dataset_kind *kind,
                                     yk_error *err)
{
    if (options->eval_rows && !kind->eval_rows)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': a file of evaluation rows goes with csv and jsonl only", spec->kind,
                        spec->path);
    if (options->eval_split != 0 && !kind->eval_split)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': a part of the rows evaluates in csv, jsonl, lines, text and tokens only; "
                        "images have evaluation files, or holdout=", spec->kind, spec->path);
    if (!(options->eval_split >= 0 && options->eval_split < 1))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': eval_split %g: expected a part from 0 to below 1", spec->kind, spec->path,
                        options->eval_split);
    if (options->eval_split != 0 && (options->eval_rows || yk__spec_get(spec, "split")))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': eval_split beside %s: give one of them", spec->kind, spec->path,
                        options->eval_rows ? "eval_rows" : "split=");
    if (options->numbers && !kind->numbers)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': labels that are numbers (num_labels=1): expected csv or jsonl, got %s: name "
                        "such a file, or give num_labels above 1", spec->kind, spec->path, spec->kind);
    if (options->numbers && (yk__spec_get(spec, "classes") || yk__spec_get(spec, "categories")))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': classes= and categories= are of classes, and the labels are numbers "
                        "(num_labels=1)", spec->kind, spec->path);
    if (options->mask != 0 && !kind->masks)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': tokens are masked in csv, jsonl, lines and text only, which have a tokenizer",
                        spec->kind, spec->path);
    return YK_OK;
}

static yk_status open_spec(const yk__spec *spec, const yk__dataset_options *options, yk__dataset **out, yk_error *err)
{
    const yk__dataset_kind *kind = NULL;
    yk_status st = find_kind(spec, &kind, err);
    if (!st)
        st = yk__spec_check(spec, kind->keys, keys_count(kind->keys), err);
    if (!st)
        st = check_label_options(spec, options, kind, err);
    if (!st)
        st = set_new(kind, spec, options->eval, out, err);
    if (!st) {
        (*out)->may_be_empty = options->unlabelled && options->mask == 0;
        st = kind->open(*out, spec, options, err);
    }
    return st;
}

yk_status yk__dataset_open(const char *text, const yk__dataset_options *options, yk__dataset **out, yk_error *err)
{
    yk__dataset *set = NULL;
    yk__spec spec;
    yk_status st = yk__spec_parse(text, &spec, err);
    if (st)
        return st;
    st = open_spec(&spec, options, &set, err);
    yk__spec_free(&spec);
    if (st) {
        yk__dataset_close(set);
        return st;
    }
    if (options->max_rows && (uint64_t)set->rows > options->max_rows)
        set->rows = (int64_t)options->max_rows;
    *out = set;
    return YK_OK;
}

void yk__dataset_close(yk__dataset *set)
{
    if (!set)
        return;
    if (set->state)
        set->kind->close(set->state);
    yk__tokenizer_close(set->tokenizer);
    yk__mask_free(set->mask);
    yk__free(set->tokenizer_dir);
    yk__free(set->path);
    yk__free(set);
}

int64_t yk__dataset_rows(const yk__dataset *set)
{
    return set->rows;
}

int64_t yk__dataset_line(const yk__dataset *set, int64_t row)
{
    return set->kind->line ? set->kind->line(set, row) : row + 1;
}

int yk__dataset_classes(const yk__dataset *set)
{
    return set->classes;
}

const char *yk__dataset_class_name(const yk__dataset *set, int i)
{
    return set->kind->class_name && i >= 0 && i < set->classes ? set->kind->class_name(set, i) : NULL;
}

int yk__dataset_vocab(const yk__dataset *set)
{
    return set->vocab;
}

const char *yk__dataset_kind_name(const yk__dataset *set)
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
    set->kind->where(set, row, buf, n);
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

yk_status yk__dataset_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                           yk_error *err)
{
    return set->kind->fill(set, rows, n, width, buffers, err);
}

/* ---- a hash of the rows ---- */

yk_status yk__dataset_hash(const yk__dataset *set, uint64_t *out, yk_error *err)
{
    uint64_t h = yk__hash_bytes(YK_HASH_SEED, set->kind->name, strlen(set->kind->name));
    h = yk__hash_u64(h, (uint64_t)set->rows);
    h = yk__hash_u64(h, (uint64_t)set->classes << 32 | (uint32_t)set->vocab);
    const yk_status st = set->kind->hash(set, &h, err);
    if (!st)
        *out = h;
    return st;
}

bool yk__dataset_masks(const yk__dataset *set)
{
    return set->mask != NULL;
}

/* Tokens of a row that are no padding. */
static int64_t row_tokens(const yk__dataset *set, const int32_t *attention_mask, const int32_t *labels, int64_t width)
{
    int64_t n = 0;
    while (n < width && (set->kind->padded ? attention_mask[n] != 0 : labels[n] != YK__NO_LABEL))
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
