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

#define IGNORE (-100)

/* ---- labelled rows ---- */

static int64_t text_row(const yk__dataset *d, int64_t row)
{
    return d->row_map ? d->row_map[row] : row;
}

static int64_t width_rows(const yk__dataset *d, const int64_t *rows, int64_t n)
{
    size_t most = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t r = text_row(d, rows[i]);
        if (d->at[r + 1] - d->at[r] > most)
            most = d->at[r + 1] - d->at[r];
    }
    return (int64_t)most;
}

static void fill_rows(const yk__dataset *d, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    int32_t *ids = buffers[0], *mask = buffers[1], *types = buffers[2], *labels = d->n_fields > 3 ? buffers[3] : NULL;
    int32_t pad = yk__tokenizer_pad(d->tokenizer);
    memset(types, 0, (size_t)(n * width) * sizeof *types);
    for (int64_t i = 0; i < n; i++, ids += width, mask += width) {
        int64_t r = text_row(d, rows[i]), len = (int64_t)(d->at[r + 1] - d->at[r]);
        memcpy(ids, d->ids + d->at[r], (size_t)len * sizeof *ids);
        for (int64_t k = 0; k < width; k++) {
            mask[k] = k < len;
            if (k >= len)
                ids[k] = pad;
        }
        if (labels)
            labels[i] = d->text->label[r];
    }
}

static yk_status encode_rows(yk__dataset *d, const char *path, int64_t max_length, yk_error *err)
{
    const yk__rows *r = d->text;
    size_t cap = 0;
    yk__ids ids = {0};
    yk__encoder *e;
    yk_status st = yk__encoder_new(d->tokenizer, &e, err);
    if (st)
        return st;
    d->at = yk__calloc((size_t)r->count + 1, sizeof *d->at);
    if (!d->at)
        st = yk__fail_mem(err, (size_t)r->count * sizeof *d->at, "rows");
    for (int64_t i = 0; i < r->count && !st; i++) {
        st = yk__encoder_encode(e, r->text + r->at[i], r->at[i + 1] - r->at[i], NULL, 0, 1, (size_t)max_length, &ids,
                                err);
        if (st == YK_E_FORMAT)
            yk__fail_in(err, "%s: line %" PRId64, path, r->line[i]);
        if (!st && yk__grow(&d->ids, &cap, d->at[i] + ids.count, sizeof *d->ids))
            st = yk__fail_mem(err, (d->at[i] + ids.count) * sizeof *d->ids, "token ids");
        if (st)
            break;
        if (ids.count)
            memcpy(d->ids + d->at[i], ids.id, ids.count * sizeof *d->ids);
        d->at[i + 1] = d->at[i] + ids.count;
    }
    yk__ids_free(&ids);
    yk__encoder_free(e);
    return st;
}

/* ---- which rows evaluate ---- */

static int64_t row_at_line(const yk__rows *r, int64_t line)
{
    int64_t a = 0, b = r->count;
    while (a < b) {
        int64_t m = a + (b - a) / 2;
        if (r->line[m] < line)
            a = m + 1;
        else
            b = m;
    }
    return a < r->count && r->line[a] == line ? a : -1;
}

static yk_status mark_line(const yk__rows *r, const char *path, const char *data, const char *word, int64_t at,
                           uint8_t *marked, yk_error *err)
{
    char *end;
    long long line;
    int64_t row;
    errno = 0;
    line = strtoll(word, &end, 10);
    if (errno || end == word || *end)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": '%.40s', expected a line number", path, at, word);
    row = row_at_line(r, line);
    if (row < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": no row with a text starts on line %lld of %s", path,
                        at, line, data);
    if (marked[row])
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": line %lld is there twice", path, at, line);
    marked[row] = 1;
    return YK_OK;
}

/* marked[row] = 1 for each row whose line the file names. */
static yk_status mark_rows(const yk__rows *r, const char *path, const char *data, uint8_t *marked, yk_error *err)
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
            st = mark_line(r, path, data, p, at, marked, err);
    }
    yk__free(text);
    return st;
}

static yk_status pick_rows(yk__dataset *d, const char *eval_rows, const char *data, yk_error *err)
{
    const yk__rows *r = d->text;
    uint8_t *marked = yk__calloc((size_t)r->count, 1);
    yk_status st;
    d->row_map = yk__calloc((size_t)r->count, sizeof *d->row_map);
    if (!marked || !d->row_map) {
        yk__free(marked);
        return yk__fail_mem(err, (size_t)r->count * 9, "the rows of a split");
    }
    st = mark_rows(r, eval_rows, data, marked, err);
    d->rows = 0;
    for (int64_t i = 0; i < r->count && !st; i++)
        if (marked[i] == d->eval)
            d->row_map[d->rows++] = i;
    if (!st && !d->rows)
        st = yk__fail(err, YK_E_FORMAT, "%s: leaves no row of %s to %s", eval_rows, data,
                      d->eval ? "evaluate" : "train");
    yk__free(marked);
    return st;
}

static yk_status rows_options(const yk__spec *s, const yk__dataset_options *o, yk__rows_options *r, yk_error *err)
{
    static const char *const delimiters[] = {"comma", "tab", "semicolon", "pipe"};
    static const char *const quotes[] = {"double", "none"};
    int k;
    int64_t classes;
    yk_status st = yk__spec_int(s, "classes", 0, 1, INT32_MAX - 1, &classes, err);
    if (!st)
        st = yk__spec_word(s, "delimiter", delimiters, 4, -1, &k, err);
    if (st)
        return st;
    r->text = yk__spec_get(s, "text");
    r->label = yk__spec_get(s, "label");
    r->categories = yk__spec_get(s, "categories");
    r->classes = (int)classes;
    r->names_of = o->like ? o->like->text : NULL;
    r->model = o->model;
    r->trains = !o->eval;
    r->delimiter = k < 0 ? 0 : ",\t;|"[k];
    r->json = !strcmp(s->kind, "jsonl");
    r->lines = !strcmp(s->kind, "lines");
    r->unlabelled = o->unlabelled;
    return yk__spec_word(s, "quotes", quotes, 2, 0, &r->no_quotes, err);
}

static yk_status open_rows(yk__dataset *d, const yk__spec *s, const yk__dataset_options *o, yk_error *err)
{
    yk__rows_options r = {0};
    const int64_t width[] = {-1};
    int64_t max_length = 0;
    yk_status st = rows_options(s, o, &r, err);
    if (!st && r.lines && !r.unlabelled)
        st = yk__fail(err, YK_E_ARG, "data 'lines:%.100s': its rows have no labels, so they are for predictions: csv and jsonl have "
                      "labels, text is running text for a language model", s->path);
    if (!st)
        st = yk__spec_int(s, "max-length", o->max_length ? o->max_length : 128, 1, 1 << 24, &max_length, err);
    if (!st)
        st = yk__rows_open(s->path, &r, &d->text, err);
    if (!st)
        st = yk__data_tokenizer(d, s, o, d->text->text, d->text->at[d->text->count], err);
    if (!st)
        st = encode_rows(d, s->path, max_length, err);
    if (st)
        return st;
    d->rows = d->text->count;
    d->classes = d->text->classes;
    yk__data_field(d, "input_ids", YK_I32, 1, width);
    yk__data_field(d, "attention_mask", YK_I32, 1, width);
    yk__data_field(d, "token_type_ids", YK_I32, 1, width);
    if (!r.unlabelled)
        yk__data_field(d, "labels", YK_I32, 0, NULL);
    return o->eval_rows ? pick_rows(d, o->eval_rows, s->path, err) : YK_OK;
}

/* ---- running text ---- */

static int64_t width_run(const yk__dataset *d, const int64_t *rows, int64_t n)
{
    (void)rows, (void)n;
    return d->seq_len;
}

static void fill_run(const yk__dataset *d, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    int32_t *x = buffers[0], *y = buffers[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = rows[i] * d->stride, left = d->len - 1 - at; /* places that have a next id */
        for (int64_t k = 0; k < width; k++) {
            *x++ = k < left ? yk__tokens_at(&d->running, d->from + at + k) : 0;
            *y++ = k < left ? yk__tokens_at(&d->running, d->from + at + k + 1) : IGNORE;
        }
    }
}

/* A file of its own beside the training data evaluates whole, and then all of the training data trains. */
static yk_status split_of(const yk__dataset *d, const yk__spec *s, const yk__dataset_options *o, double *out,
                          yk_error *err)
{
    bool own = o->whole || (d->eval && o->like && strcmp(o->like->path, d->path) != 0);
    return yk__spec_real(s, "split", !own ? 0.9 : d->eval ? 0 : 1, 0, 1, out, err);
}

/* Rows of the part [from, from + len) of d->run. */
static yk_status cut_windows(yk__dataset *d, const yk__spec *s, const yk__dataset_options *o, yk_error *err)
{
    int64_t places = d->len - 1, width[] = {-1};
    yk_status st = yk__spec_int(s, "seq-len", o->seq_len ? o->seq_len : 128, 1, 1 << 24, &d->seq_len, err);
    if (!st)
        st = yk__spec_int(s, "stride", d->seq_len, 1, INT64_MAX, &d->stride, err);
    if (st)
        return st;
    if (d->eval) {
        d->stride = d->seq_len;
        d->rows = places > 0 ? (places - 1) / d->stride + 1 : 0;
    } else {
        d->rows = places >= d->seq_len ? (places - d->seq_len) / d->stride + 1 : 0;
    }
    if (d->rows < 1)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: %" PRId64 " ids to %s: expected at least %" PRId64 " (split= and seq-len= change that)",
                        s->path, d->len, d->eval ? "evaluate" : "train", d->eval ? (int64_t)2 : d->seq_len + 1);
    yk__data_field(d, "input_ids", YK_I32, 1, width);
    yk__data_field(d, "labels", YK_I32, 1, width);
    return YK_OK;
}

/* Where the part that evaluates begins, in bytes: after `split` of the characters. */
static size_t split_at(const yk__dataset *d, const char *text, size_t bytes, double split)
{
    size_t chars = 0, want, at = 0;
    if (!strcmp(yk__tokenizer_kind(d->tokenizer), "bytes"))
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

static yk_status encode_run(yk__dataset *d, const char *path, const char *text, size_t bytes, yk_error *err)
{
    yk__ids ids = {0};
    yk__encoder *e;
    yk_status st = yk__encoder_new(d->tokenizer, &e, err);
    if (st)
        return st;
    st = yk__encoder_encode(e, text, bytes, NULL, 0, 0, 0, &ids, err);
    yk__encoder_free(e);
    yk__free(ids.type);
    if (st) {
        yk__free(ids.id);
        return st == YK_E_FORMAT ? yk__fail_in(err, "%s", path) : st;
    }
    d->running =
        (yk__tokens){.width = 4, .count = (int64_t)ids.count, .vocab = d->vocab, .ids = ids.id, .memory = ids.id};
    d->len = d->running.count;
    return YK_OK;
}

static yk_status open_text(yk__dataset *d, const yk__spec *s, const yk__dataset_options *o, yk_error *err)
{
    const char *name = yk__spec_get(s, "tokenizer") ? yk__spec_get(s, "tokenizer") : o->tokenizer;
    double split = 0;
    char *text;
    size_t n, at;
    yk_status st = yk__text_open(s->path, name && !strcmp(name, "bytes"), &text, &n, err);
    if (st)
        return st;
    st = yk__data_tokenizer(d, s, o, text, n, err);
    if (!st)
        st = split_of(d, s, o, &split, err);
    if (!st) {
        at = split_at(d, text, n, split);
        st = encode_run(d, s->path, d->eval ? text + at : text, d->eval ? n - at : at, err);
    }
    yk__free(text);
    if (!st)
        st = cut_windows(d, s, o, err);
    return st;
}

static yk_status open_tokens(yk__dataset *d, const yk__spec *s, const yk__dataset_options *o, yk_error *err)
{
    static const char *const dtypes[] = {"u16", "u32"};
    double split = 0;
    int k = -1;
    int64_t vocab, train;
    yk_status st = yk__spec_word(s, "dtype", dtypes, 2, -1, &k, err);
    if (!st)
        st = split_of(d, s, o, &split, err);
    if (!st)
        st = yk__tokens_open(s->path, k < 0 ? 0 : 2 << k, &d->running, err);
    if (!st)
        st = yk__spec_int(s, "vocab", d->running.vocab, d->running.vocab, INT32_MAX, &vocab, err);
    if (st)
        return st;
    d->vocab = (int)vocab;
    train = (int64_t)((double)d->running.count * split);
    d->from = d->eval ? train : 0;
    d->len = d->eval ? d->running.count - train : train;
    return cut_windows(d, s, o, err);
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
