/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets of text: labelled rows (csv, jsonl), padded to the longest of the batch; windows of running text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/internal.h"
#include "core/text/text.h"
#include "core/text/utf8.h"

/* ---- labelled rows ---- */

static int64_t text_row(const yk__dataset *set, int64_t row)
{
    return set->row_map ? set->row_map[row] : row;
}

static int64_t width_rows(const yk__dataset *set, const int64_t *rows, int64_t n)
{
    size_t most = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t r = text_row(set, rows[i]);
        if (set->at[r + 1] - set->at[r] > most)
            most = set->at[r + 1] - set->at[r];
    }
    return (int64_t)most;
}

static void fill_rows(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    int32_t *ids = buffers[0], *mask = buffers[1], *types = buffers[2];
    int32_t *labels = set->n_fields > 3 && !set->mask ? buffers[3] : NULL;
    int32_t pad = yk__tokenizer_pad(set->tokenizer);
    memset(types, 0, (size_t)(n * width) * sizeof *types);
    for (int64_t i = 0; i < n; i++, ids += width, mask += width) {
        int64_t r = text_row(set, rows[i]), len = (int64_t)(set->at[r + 1] - set->at[r]);
        memcpy(ids, set->ids + set->at[r], (size_t)len * sizeof *ids);
        for (int64_t k = 0; k < width; k++) {
            mask[k] = k < len;
            if (k >= len)
                ids[k] = pad;
        }
        if (labels && set->text->number)
            ((float *)buffers[3])[i] = set->text->number[r];
        else if (labels)
            labels[i] = set->text->label[r];
    }
}

static yk_status encode_rows(yk__dataset *set, const char *path, int64_t max_length, yk_error *err)
{
    const yk__rows *text_rows = set->text;
    size_t cap = 0;
    yk__ids ids = {0};
    yk__encoder *enc;
    yk_status st = yk__encoder_new(set->tokenizer, &enc, err);
    if (st)
        return st;
    set->at = yk__calloc((size_t)text_rows->count + 1, sizeof *set->at);
    if (!set->at)
        st = yk__fail_mem(err, (size_t)text_rows->count * sizeof *set->at, "rows");
    for (int64_t i = 0; i < text_rows->count && !st; i++) {
        st = yk__encoder_encode(enc, text_rows->text + text_rows->at[i], text_rows->at[i + 1] - text_rows->at[i], NULL,
                                0, 1, (size_t)max_length, &ids, err);
        if (st == YK_E_FORMAT)
            yk__fail_in(err, "%s: line %" PRId64, path, text_rows->line[i]);
        if (!st && yk__grow(&set->ids, &cap, set->at[i] + ids.count, sizeof *set->ids))
            st = yk__fail_mem(err, (set->at[i] + ids.count) * sizeof *set->ids, "token ids");
        if (st)
            break;
        if (ids.count)
            memcpy(set->ids + set->at[i], ids.id, ids.count * sizeof *set->ids);
        set->at[i + 1] = set->at[i] + ids.count;
    }
    yk__ids_free(&ids);
    yk__encoder_free(enc);
    return st;
}

/* ---- which rows evaluate ---- */

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

static yk_status pick_rows(yk__dataset *set, const char *eval_rows, const char *data, yk_error *err)
{
    const yk__rows *text_rows = set->text;
    uint8_t *marked = yk__calloc((size_t)text_rows->count, 1);
    yk_status st;
    set->row_map = yk__calloc((size_t)text_rows->count, sizeof *set->row_map);
    if (!marked || !set->row_map) {
        yk__free(marked);
        return yk__fail_mem(err, (size_t)text_rows->count * 9, "the rows of a split");
    }
    st = mark_rows(text_rows, eval_rows, data, marked, err);
    set->rows = 0;
    for (int64_t i = 0; i < text_rows->count && !st; i++)
        if (marked[i] == set->eval)
            set->row_map[set->rows++] = i;
    if (!st && !set->rows)
        st = yk__fail(err, YK_E_FORMAT, "%s: leaves no row of %s to %s", eval_rows, data,
                      set->eval ? "evaluate" : "train");
    yk__free(marked);
    return st;
}

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
    rows_options->names_of = options->like ? options->like->text : NULL;
    rows_options->model = options->model;
    rows_options->trains = !options->eval;
    rows_options->delimiter = k < 0 ? 0 : ",\t;|"[k];
    rows_options->json = !strcmp(spec->kind, "jsonl");
    rows_options->lines = !strcmp(spec->kind, "lines");
    rows_options->unlabelled = options->unlabelled || options->mask != 0;
    rows_options->numbers = options->numbers;
    return yk__spec_word(spec, "quotes", quotes, 2, 0, &rows_options->no_quotes, err);
}

static yk_status open_rows(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    yk__rows_options rows_options = {0};
    const int64_t width[] = {-1};
    int64_t max_length = 0;
    yk_status st = rows_options_read(spec, options, &rows_options, err);
    if (!st && rows_options.lines && !rows_options.unlabelled)
        st = yk__fail(err, YK_E_ARG,
                      "data 'lines:%.100s': its rows have no labels, so they are for predictions: csv and jsonl have "
                      "labels, text is running text for a language model",
                      spec->path);
    if (!st)
        st = yk__spec_int(spec, "max-length", options->max_length ? options->max_length : 128, 1, 1 << 24, &max_length,
                          err);
    if (!st)
        st = yk__rows_open(spec->path, &rows_options, &set->text, err);
    if (!st)
        st = yk__data_tokenizer(set, spec, options, set->text->text, set->text->at[set->text->count], err);
    if (!st)
        st = yk__data_mask(set, options, err);
    if (!st)
        st = encode_rows(set, spec->path, max_length, err);
    if (st)
        return st;
    set->rows = set->text->count;
    set->classes = set->mask ? 0 : set->text->classes;
    yk__data_field(set, "input_ids", YK_I32, 1, width);
    yk__data_field(set, "attention_mask", YK_I32, 1, width);
    yk__data_field(set, "token_type_ids", YK_I32, 1, width);
    if (set->mask)
        yk__data_field(set, "labels", YK_I32, 1, width);
    else if (!rows_options.unlabelled)
        yk__data_field(set, "labels", rows_options.numbers ? YK_F32 : YK_I32, 0, NULL);
    return options->eval_rows ? pick_rows(set, options->eval_rows, spec->path, err) : YK_OK;
}

/* ---- running text ---- */

static int64_t width_run(const yk__dataset *set, const int64_t *rows, int64_t n)
{
    (void)rows, (void)n;
    return set->seq_len;
}

static void fill_run(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    int32_t *x = buffers[0], *y = buffers[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = rows[i] * set->stride, left = set->len - 1 - at; /* places that have a next id */
        for (int64_t k = 0; k < width; k++) {
            *x++ = k < left ? yk__tokens_at(&set->running, set->from + at + k) : 0;
            *y++ = k < left ? yk__tokens_at(&set->running, set->from + at + k + 1) : YK__NO_LABEL;
        }
    }
}

/* A file of its own beside the training data evaluates whole, and then all of the training data trains. */
static yk_status split_of(const yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, double *out,
                          yk_error *err)
{
    bool own = options->whole || (set->eval && options->like && strcmp(options->like->path, set->path) != 0);
    return yk__spec_real(spec, "split", !own ? 0.9 : set->eval ? 0 : 1, 0, 1, out, err);
}

/* Rows of the part [from, from + len) of d->run. */
static yk_status cut_windows(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    int64_t places = set->len - 1, width[] = {-1};
    yk_status st =
        yk__spec_int(spec, "seq-len", options->seq_len ? options->seq_len : 128, 1, 1 << 24, &set->seq_len, err);
    if (!st)
        st = yk__spec_int(spec, "stride", set->seq_len, 1, INT64_MAX, &set->stride, err);
    if (st)
        return st;
    if (set->eval) {
        set->stride = set->seq_len;
        set->rows = places > 0 ? (places - 1) / set->stride + 1 : 0;
        set->rows -= set->mask && places % set->seq_len; /* padding would be looked at */
    } else {
        set->rows = places >= set->seq_len ? (places - set->seq_len) / set->stride + 1 : 0;
    }
    if (set->rows < 1)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: %" PRId64 " ids to %s: expected at least %" PRId64 " (split= and seq-len= change that)",
                        spec->path, set->len, set->eval ? "evaluate" : "train",
                        set->eval ? (int64_t)2 : set->seq_len + 1);
    yk__data_field(set, "input_ids", YK_I32, 1, width);
    yk__data_field(set, "labels", YK_I32, 1, width);
    return YK_OK;
}

/* Where the part that evaluates begins, in bytes: after `split` of the characters. */
static size_t split_at(const yk__dataset *set, const char *text, size_t bytes, double split)
{
    size_t chars = 0, want, at = 0;
    if (!strcmp(yk__tokenizer_kind(set->tokenizer), "bytes"))
        return (size_t)((double)bytes * split);
    for (size_t i = 0; i < bytes; i++)
        chars += (text[i] & 0xc0) != 0x80;
    want = (size_t)((double)chars * split);
    for (chars = 0; at < bytes; at++) {
        chars += (text[at] & 0xc0) != 0x80;
        if (chars > want)
            break;
    }
    return at;
}

static yk_status encode_run(yk__dataset *set, const char *path, const char *text, size_t bytes, yk_error *err)
{
    yk__ids ids = {0};
    yk__encoder *enc;
    yk_status st = yk__encoder_new(set->tokenizer, &enc, err);
    if (st)
        return st;
    st = yk__encoder_encode(enc, text, bytes, NULL, 0, 0, 0, &ids, err);
    yk__encoder_free(enc);
    yk__free(ids.type);
    if (st) {
        yk__free(ids.id);
        return st == YK_E_FORMAT ? yk__fail_in(err, "%s", path) : st;
    }
    set->running =
        (yk__tokens){.width = 4, .count = (int64_t)ids.count, .vocab = set->vocab, .ids = ids.id, .memory = ids.id};
    set->len = set->running.count;
    return YK_OK;
}

static yk_status open_text(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    const char *name = yk__spec_get(spec, "tokenizer") ? yk__spec_get(spec, "tokenizer") : options->tokenizer;
    double split = 0;
    char *text;
    size_t n, at;
    yk_status st = yk__text_open(spec->path, name && !strcmp(name, "bytes"), &text, &n, err);
    if (st)
        return st;
    st = yk__data_tokenizer(set, spec, options, text, n, err);
    if (!st)
        st = yk__data_mask(set, options, err);
    if (!st)
        st = split_of(set, spec, options, &split, err);
    if (!st) {
        at = split_at(set, text, n, split);
        st = encode_run(set, spec->path, set->eval ? text + at : text, set->eval ? n - at : at, err);
    }
    yk__free(text);
    if (!st)
        st = cut_windows(set, spec, options, err);
    return st;
}

static yk_status open_tokens(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    static const char *const dtypes[] = {"u16", "u32"};
    double split = 0;
    int k = -1;
    int64_t vocab, train;
    yk_status st = yk__spec_word(spec, "dtype", dtypes, 2, -1, &k, err);
    if (!st)
        st = split_of(set, spec, options, &split, err);
    if (!st)
        st = yk__tokens_open(spec->path, k < 0 ? 0 : 2 << k, &set->running, err);
    if (!st)
        st = yk__spec_int(spec, "vocab", set->running.vocab, set->running.vocab, INT32_MAX, &vocab, err);
    if (st)
        return st;
    set->vocab = (int)vocab;
    train = (int64_t)((double)set->running.count * split);
    set->from = set->eval ? train : 0;
    set->len = set->eval ? set->running.count - train : train;
    return cut_windows(set, spec, options, err);
}

static const char *const row_keys[] = {"text",       "label",     "max-length", "tokenizer", "classes",
                                       "categories", "delimiter", "quotes",     "lowercase"};
static const char *const line_keys[] = {"max-length", "tokenizer", "lowercase"};
static const char *const text_keys[] = {"tokenizer", "seq-len", "stride", "split", "lowercase"};
static const char *const token_keys[] = {"dtype", "vocab", "seq-len", "stride", "split"};
const struct data_kind yk__data_csv = {"csv", row_keys, 9, open_rows, width_rows, fill_rows, true};
const struct data_kind yk__data_jsonl = {"jsonl", row_keys, 9, open_rows, width_rows, fill_rows, true};
const struct data_kind yk__data_lines = {"lines", line_keys, 3, open_rows, width_rows, fill_rows, true};
const struct data_kind yk__data_text = {"text", text_keys, 5, open_text, width_run, fill_run, false};
const struct data_kind yk__data_tokens = {"tokens", token_keys, 5, open_tokens, width_run, fill_run, false};
