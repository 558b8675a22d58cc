/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds csv:FILE, jsonl:FILE and lines:FILE: texts in memory as token ids (core/read/rows.h), padded to the longest of the batch.
 * dataset.c calls its functions through a table (kind.h): opening in the step thread, rows in the loader's. Opening refuses a file of line
 * numbers with a wrong or repeated number, and a set without a row.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/data/kind.h"
#include "core/data/order.h"
#include "core/read/rows.h"
#include "core/io/text.h"

struct text_rows {
    yk__rows *rows;
    int64_t *row_map; /* row -> row of the file; NULL if they are the same */
    int32_t *ids;     /* ids of file row r: ids[at[r]..at[r + 1]) */
    int32_t *types;   /* their segments; NULL: each is 0 */
    size_t *at;
};

static int64_t text_row(const struct text_rows *state, int64_t row)
{
    return state->row_map ? state->row_map[row] : row;
}

static int64_t width_rows(const yk__dataset *set, const int64_t *rows, int64_t n)
{
    const struct text_rows *state = set->state;
    size_t most = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t r = text_row(state, rows[i]);
        if (state->at[r + 1] - state->at[r] > most)
            most = state->at[r + 1] - state->at[r];
    }
    return (int64_t)most;
}

static yk_status fill_rows(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                           yk_error *err)
{
    const struct text_rows *state = set->state;
    int32_t *ids = buffers[0], *mask = buffers[1], *types = buffers[2];
    int32_t *labels = set->n_fields > 3 && !set->mask ? buffers[3] : NULL;
    int32_t pad = yk__tokenizer_pad(set->tokenizer);
    (void)err;
    memset(types, 0, (size_t)(n * width) * sizeof *types);
    for (int64_t i = 0; i < n; i++, ids += width, mask += width) {
        int64_t r = text_row(state, rows[i]), len = (int64_t)(state->at[r + 1] - state->at[r]);
        memcpy(ids, state->ids + state->at[r], (size_t)len * sizeof *ids);
        if (state->types)
            memcpy(types + i * width, state->types + state->at[r], (size_t)len * sizeof *types);
        for (int64_t k = 0; k < width; k++) {
            mask[k] = k < len;
            if (k >= len)
                ids[k] = pad;
        }
        if (labels && state->rows->number)
            ((float *)buffers[3])[i] = state->rows->number[r];
        else if (labels)
            labels[i] = state->rows->label[r];
    }
    return YK_OK;
}

/* Keeps the segments of a row's ids, which begin at `at`, from the first row on that has one besides 0; false without memory. */
static bool types_keep(struct text_rows *state, size_t *capacity, size_t at, const yk__ids *ids)
{
    const bool first = !state->types;
    size_t k = 0;
    while (first && k < ids->count && !ids->type[k])
        k++;
    if (k == ids->count)
        return true;
    if (yk__grow(&state->types, capacity, at + ids->count, sizeof *state->types))
        return false;
    if (first)
        memset(state->types, 0, at * sizeof *state->types);
    memcpy(state->types + at, ids->type, ids->count * sizeof *state->types);
    return true;
}

static yk_status encode_rows(struct text_rows *state, const yk__tokenizer *tokenizer, const char *path, int64_t max_length, bool silent,
                             int *vocab, yk_error *err)
{
    const yk__rows *text_rows = state->rows;
    size_t cap = 0, types_cap = 0;
    int64_t cut = 0;
    yk__ids ids = {0};
    yk__encoder *enc;
    yk_status st = yk__encoder_new(tokenizer, &enc, err);
    if (st)
        return st;
    state->at = yk__calloc((size_t)text_rows->count + 1, sizeof *state->at);
    if (!state->at)
        st = yk__fail_mem(err, (size_t)text_rows->count * sizeof *state->at, "rows");
    for (int64_t i = 0; i < text_rows->count && !st; i++) {
        st = yk__encoder_encode(enc, text_rows->text + text_rows->at[i], text_rows->at[i + 1] - text_rows->at[i], NULL,
                                0, 1, (size_t)max_length, &ids, err);
        if (st == YK_E_FORMAT)
            yk__fail_in(err, "%s: line %" PRId64, path, text_rows->line[i]);
        if (!st && (yk__grow(&state->ids, &cap, state->at[i] + ids.count, sizeof *state->ids) ||
                    !types_keep(state, &types_cap, state->at[i], &ids)))
            st = yk__fail_mem(err, (state->at[i] + ids.count) * sizeof *state->ids, "token ids");
        if (st)
            break;
        if (ids.count)
            memcpy(state->ids + state->at[i], ids.id, ids.count * sizeof *state->ids);
        state->at[i + 1] = state->at[i] + ids.count;
        cut += ids.cut;
    }
    if (!st && cut && !silent)
        yk__log(YK_LOG_WARN, "data", "%s: %" PRId64 " of %" PRId64 " texts are cut to %" PRId64 " tokens (max-length)", path, cut,
                text_rows->count, max_length);
    if (!st && text_rows->dropped && !silent)
        yk__log(YK_LOG_WARN, "data", "%s: %" PRId64 " of %" PRId64 " rows have no text and are dropped", path, text_rows->dropped,
                text_rows->dropped + text_rows->count);
    *vocab = yk__encoder_vocab(enc);
    yk__ids_free(&ids);
    yk__encoder_free(enc);
    return st;
}

/* ---- rows for evaluation ---- */

static int64_t row_at_line(const yk__rows *text_rows, int64_t line)
{
    int64_t a = 0, b = text_rows->count;
    while (a < b) {
        int64_t m = a + (b - a) / 2;
        if (text_rows->line[m] < line)
            a = m + 1;
        else
            b = m;
    }
    return a < text_rows->count && text_rows->line[a] == line ? a : -1;
}

static yk_status mark_line(const yk__rows *text_rows, const char *path, const char *data, const char *word, int64_t at,
                           uint8_t *marked, yk_error *err)
{
    char *end;
    long long line;
    int64_t row;
    errno = 0;
    line = strtoll(word, &end, 10);
    if (errno || end == word || *end)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": '%.40s', expected a line number", path, at, word);
    row = row_at_line(text_rows, line);
    if (row < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": no row with a text starts on line %lld of %s", path,
                        at, line, data);
    if (marked[row])
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": line %lld is there twice", path, at, line);
    marked[row] = 1;
    return YK_OK;
}

/* marked[row] = 1 for each row whose line the file names. */
static yk_status mark_rows(const yk__rows *text_rows, const char *path, const char *data, uint8_t *marked,
                           yk_error *err)
{
    char *text, *p, *next;
    size_t n;
    int64_t at = 1;
    yk_status st = yk__text_open(path, 0, &text, &n, err);
    if (st)
        return st;
    if (strlen(text) < n)
        st = yk__fail(err, YK_E_FORMAT, "%s: byte %zu: a NUL byte, expected line numbers", path, strlen(text));
    for (p = text; p && *p && !st; p = next, at++) {
        next = strchr(p, '\n');
        if (next)
            *next++ = 0;
        p[strcspn(p, "\r")] = 0;
        if (*p)
            st = mark_line(text_rows, path, data, p, at, marked, err);
    }
    yk__free(text);
    return st;
}

/* marked[row] = 1 for a part of the rows, rounded up: the first of an order that the seed gives. */
static void mark_part(int64_t rows, double part, uint64_t seed, uint8_t *marked)
{
    const int64_t count = (int64_t)ceil(part * (double)rows);
    for (int64_t i = 0; i < count && i < rows; i++) {
        int64_t row;
        yk__order_rows(seed, 0, i, 1, rows, &row);
        marked[row] = 1;
    }
}

/* Keeps the rows of this set's part, by the file of line numbers or by eval_split. */
static yk_status pick_rows(yk__dataset *set, const yk__dataset_options *options, const char *data, yk_error *err)
{
    const char *eval_rows = options->eval_rows;
    struct text_rows *state = set->state;
    const yk__rows *text_rows = state->rows;
    uint8_t *marked = yk__calloc((size_t)text_rows->count, 1);
    yk_status st;
    state->row_map = yk__calloc((size_t)text_rows->count, sizeof *state->row_map);
    if (!marked || !state->row_map) {
        yk__free(marked);
        return yk__fail_mem(err, (size_t)text_rows->count * 9, "the rows of a split");
    }
    st = eval_rows ? mark_rows(text_rows, eval_rows, data, marked, err) : YK_OK;
    if (!eval_rows)
        mark_part(text_rows->count, options->eval_split, options->eval_seed, marked);
    set->rows = 0;
    for (int64_t i = 0; i < text_rows->count && !st; i++)
        if (marked[i] == set->eval)
            state->row_map[set->rows++] = i;
    if (!st && !set->rows && !set->may_be_empty)
        st = yk__fail(err, YK_E_FORMAT, "%s: leaves no row of %s to %s", eval_rows ? eval_rows : "eval_split", data,
                      set->eval ? "evaluate" : "train");
    yk__free(marked);
    return st;
}

/* The texts of another data set of this kind; NULL for a set of another kind. */
static const yk__rows *rows_of(const yk__dataset *set);

static yk_status rows_options_read(const yk__spec *spec, const yk__dataset_options *options,
                                   yk__rows_options *rows_options, yk_error *err)
{
    static const char *const delimiters[] = {"comma", "tab", "semicolon", "pipe"};
    static const char *const quotes[] = {"double", "none"};
    int k;
    int64_t classes;
    yk_status st = yk__spec_int(spec, "classes", 0, 1, INT32_MAX - 1, &classes, err);
    if (!st)
        st = yk__spec_word(spec, "delimiter", delimiters, 4, -1, &k, err);
    if (st)
        return st;
    rows_options->text = yk__spec_get(spec, "text");
    rows_options->label = yk__spec_get(spec, "label");
    rows_options->categories = yk__spec_get(spec, "categories");
    rows_options->classes = (int)classes;
    rows_options->names_of = rows_of(options->like);
    rows_options->model = options->model;
    rows_options->new_head = options->new_head;
    rows_options->trains = !options->eval;
    rows_options->delimiter = k < 0 ? 0 : ",\t;|"[k];
    rows_options->json = !strcmp(spec->kind, "jsonl");
    rows_options->lines = !strcmp(spec->kind, "lines");
    rows_options->unlabelled = options->unlabelled || options->mask != 0;
    rows_options->numbers = options->numbers;
    return yk__spec_word(spec, "quotes", quotes, 2, 0, &rows_options->no_quotes, err);
}

static yk_status open_texts(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options,
                            const yk__rows_options *rows_options, yk_error *err)
{
    struct text_rows *state = yk__calloc(1, sizeof *state);
    int64_t max_length = 0;
    if (!state)
        return yk__fail_mem(err, sizeof *state, "texts");
    set->state = state;
    yk_status st = yk__spec_int(spec, "max-length", options->max_length ? options->max_length : 128, 1, 1 << 24, &max_length, err);
    if (!st)
        st = yk__rows_open(spec->path, rows_options, &state->rows, err);
    if (!st)
        st = yk__kind_tokenizer(set, spec, options, state->rows->text, state->rows->at[state->rows->count], err);
    if (!st)
        st = yk__kind_mask(set, options, err);
    if (!st)
        st = encode_rows(state, set->tokenizer, spec->path, max_length, options->silent, &set->vocab, err);
    if (st)
        return st;
    set->rows = state->rows->count;
    set->classes = set->mask ? 0 : state->rows->classes;
    return options->eval_rows || options->eval_split > 0 ? pick_rows(set, options, spec->path, err) : YK_OK;
}

static yk_status open_rows(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    yk__rows_options rows_options = {0};
    const int64_t width[] = {-1};
    yk_status st = rows_options_read(spec, options, &rows_options, err);
    rows_options.may_be_empty = set->may_be_empty;
    if (!st && rows_options.lines && !rows_options.unlabelled)
        st = yk__fail(err, YK_E_ARG,
                      "data 'lines:%.100s': its rows have no labels, so they are for predictions: csv and jsonl have "
                      "labels, text is running text for a language model",
                      spec->path);
    if (!st)
        st = open_texts(set, spec, options, &rows_options, err);
    yk__kind_field(set, "input_ids", YK_I32, 1, width);
    yk__kind_field(set, "attention_mask", YK_I32, 1, width);
    yk__kind_field(set, "token_type_ids", YK_I32, 1, width);
    if (set->mask)
        yk__kind_field(set, "labels", YK_I32, 1, width);
    else if (!rows_options.unlabelled)
        yk__kind_field(set, "labels", rows_options.numbers ? YK_F32 : YK_I32, 0, NULL);
    return st;
}

static void close_rows(void *opened)
{
    struct text_rows *state = opened;
    yk__rows_close(state->rows);
    yk__free(state->row_map);
    yk__free(state->ids);
    yk__free(state->types);
    yk__free(state->at);
    yk__free(state);
}

static const yk__rows *rows_of(const yk__dataset *set)
{
    return set && set->kind->open == open_rows ? ((const struct text_rows *)set->state)->rows : NULL;
}

/* ---- facts about a row ---- */

static int64_t line_of(const yk__dataset *set, int64_t row)
{
    const struct text_rows *state = set->state;
    return state->rows->line[text_row(state, row)];
}

static void where_row(const yk__dataset *set, int64_t row, char *buf, size_t n)
{
    snprintf(buf, n, "%.200s: line %lld", set->path, (long long)line_of(set, row));
}

static const char *class_name(const yk__dataset *set, int i)
{
    const yk__rows *rows = rows_of(set);
    return rows->names ? rows->names[i] : NULL;
}

static yk_status hash_rows(const yk__dataset *set, uint64_t *hash, yk_error *err)
{
    const struct text_rows *state = set->state;
    (void)err;
    for (int64_t i = 0; i < set->rows; i++) {
        const int64_t r = text_row(state, i);
        *hash = state->rows->number ? yk__hash_bytes(*hash, &state->rows->number[r], sizeof state->rows->number[r])
                                    : yk__hash_u64(*hash, (uint64_t)state->rows->label[r]);
        *hash = yk__hash_bytes(*hash, state->ids + state->at[r], (state->at[r + 1] - state->at[r]) * sizeof *state->ids);
    }
    return YK_OK;
}

static const char *const row_keys[] = {"text",       "label",     "max-length", "tokenizer", "classes",
                                       "categories", "delimiter", "quotes",     "lowercase", NULL};
static const char *const line_keys[] = {"max-length", "tokenizer", "lowercase", NULL};

#define TEXT_ROWS                                                                                                         \
    .open = open_rows, .close = close_rows, .width = width_rows, .fill = fill_rows, .where = where_row, .hash = hash_rows, \
    .line = line_of, .class_name = class_name, .ragged = true, .eval_split = true, .masks = true, .padded = true
const yk__dataset_kind yk__kind_csv = {TEXT_ROWS, .name = "csv", .keys = row_keys, .eval_rows = true, .numbers = true};
const yk__dataset_kind yk__kind_jsonl = {TEXT_ROWS, .name = "jsonl", .keys = row_keys, .eval_rows = true, .numbers = true};
const yk__dataset_kind yk__kind_lines = {TEXT_ROWS, .name = "lines", .keys = line_keys};
