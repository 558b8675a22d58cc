/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parser of CSV and TSV by hand, byte by byte with runs in between. rows.c and `yoke inspect` read records with it, one at a time, in the
 * opening thread. Fields go into one growing text, each ending in 0, with a list of offsets. Streaming, so that a file is never in memory
 * twice.
 */
#include "core/read/csv.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/foreign.h"
#include "core/io/utf8.h"

#define CHUNK 65536u
#define RECORD_LIMIT ((size_t)1 << 28) /* bytes of one record */

struct yk__csv {
    yk__file *file;
    char delimiter;
    int quotes;
    char *buf; /* bytes read but not parsed: buf[pos..len) */
    size_t pos, len;
    int end;      /* the source has ended */
    int64_t line; /* line of the next byte */
    int64_t start;
    char *text; /* the record's fields, each ending in 0 */
    size_t text_len, text_cap;
    size_t *fields; /* offset of each in text */
    size_t fields_len, fields_cap;
    char **columns;
    int n_columns;
};

static yk_status line_fail(const yk__csv *csv, int64_t line, const char *what, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": %s", yk__file_path(csv->file), line, what);
}

static yk_status buffer_refill(yk__csv *csv, yk_error *err)
{
    size_t got;
    yk_status s = yk__file_read(csv->file, csv->buf, CHUNK, &got, err);
    if (s)
        return s;
    csv->pos = 0;
    csv->len = got;
    csv->end = got == 0;
    return YK_OK;
}

/* The next byte without taking it, or -1 at the end; -2 on an error. */
static int byte_peek(yk__csv *csv, yk_error *err)
{
    if (csv->pos == csv->len && !csv->end && buffer_refill(csv, err))
        return -2;
    return csv->pos == csv->len ? -1 : (unsigned char)csv->buf[csv->pos];
}

static yk_status text_put(yk__csv *csv, const char *s, size_t n, yk_error *err)
{
    if (!n)
        return YK_OK;
    if (csv->text_len + n >= RECORD_LIMIT)
        return line_fail(csv, csv->start, "a record longer than 256 MiB", err);
    if (yk__grow(&csv->text, &csv->text_cap, csv->text_len + n, 1))
        return yk__fail_mem(err, csv->text_len + n, "a CSV record");
    memcpy(csv->text + csv->text_len, s, n);
    csv->text_len += n;
    return YK_OK;
}

static yk_status begin_field(yk__csv *csv, yk_error *err)
{
    if (yk__grow(&csv->fields, &csv->fields_cap, csv->fields_len + 1, sizeof *csv->fields))
        return yk__fail_mem(err, (csv->fields_len + 1) * sizeof *csv->fields, "CSV fields");
    csv->fields[csv->fields_len++] = csv->text_len;
    return YK_OK;
}

/* Takes bytes up to the first of a, b, CR, LF, NUL into the field. */
static yk_status field_copy_run(yk__csv *csv, char a, char b, int *next, yk_error *err)
{
    for (;;) {
        size_t i;
        yk_status s;
        *next = byte_peek(csv, err);
        if (*next == -2)
            return err->status;
        for (i = csv->pos; i < csv->len; i++) {
            char x = csv->buf[i];
            if (x == a || x == b || x == '\n' || x == '\r' || x == 0)
                break;
        }
        s = text_put(csv, csv->buf + csv->pos, i - csv->pos, err);
        csv->pos = i;
        if (s || i < csv->len || *next == -1) {
            *next = i < csv->len ? (unsigned char)csv->buf[i] : *next;
            return s;
        }
    }
}

/* CR must be followed by LF; both are taken. */
static yk_status line_end_skip(yk__csv *csv, yk_error *err)
{
    if (csv->buf[csv->pos] == '\r') {
        int64_t line = csv->line;
        csv->pos++;
        if (byte_peek(csv, err) == -2)
            return err->status;
        if (byte_peek(csv, err) != '\n')
            return line_fail(csv, line, "a CR without LF (expected lines that end in LF or CRLF)", err);
    }
    csv->pos++;
    csv->line++;
    return YK_OK;
}

/* One step inside quotes, at a byte that is special there; *open becomes 0 at the closing quote. */
static yk_status quoted_special(yk__csv *csv, int next, int64_t from, int *open, yk_error *err)
{
    char x = (char)next;
    if (next == -1)
        return line_fail(csv, from, "a quote that opens here is never closed", err);
    if (next == 0)
        return line_fail(csv, csv->line, "a NUL byte (expected text)", err);
    csv->pos++;
    csv->line += next == '\n';
    if (next != '"')
        return text_put(csv, &x, 1, err);
    next = byte_peek(csv, err);
    if (next == -2)
        return err->status;
    *open = next == '"';
    csv->pos += (size_t)*open;
    return *open ? text_put(csv, &x, 1, err) : YK_OK;
}

static yk_status quoted_field(yk__csv *csv, yk_error *err)
{
    int64_t from = csv->line;
    int open = 1, next = 0;
    csv->pos++;
    while (open) {
        yk_status s = field_copy_run(csv, '"', '"', &next, err);
        if (!s)
            s = quoted_special(csv, next, from, &open, err);
        if (s)
            return s;
    }
    next = byte_peek(csv, err);
    if (next == -2)
        return err->status;
    if (next != -1 && next != csv->delimiter && next != '\n' && next != '\r')
        return line_fail(csv, csv->line, "text after a closing quote (expected the delimiter or the end of the line)",
                         err);
    return YK_OK;
}

static yk_status plain_field(yk__csv *csv, yk_error *err)
{
    int next = 0;
    yk_status s = field_copy_run(csv, csv->delimiter, csv->delimiter, &next, err);
    if (!s && next == 0)
        return line_fail(csv, csv->line, "a NUL byte (expected text; is the file UTF-16?)", err);
    return s;
}

/* One field and what ends it; *last when that was the end of the record. */
static yk_status field_read(yk__csv *csv, int *last, yk_error *err)
{
    int next;
    yk_status s = begin_field(csv, err);
    if (s)
        return s;
    next = byte_peek(csv, err);
    if (next == -2)
        return err->status;
    s = next == '"' && csv->quotes ? quoted_field(csv, err) : plain_field(csv, err);
    if (!s)
        s = text_put(csv, "", 1, err);
    if (s)
        return s;
    next = byte_peek(csv, err);
    if (next == -2)
        return err->status;
    *last = next == -1 || next == '\n' || next == '\r';
    if (next == -1)
        return YK_OK;
    if (*last)
        return line_end_skip(csv, err);
    csv->pos++;
    return YK_OK;
}

static yk_status check_utf8(const yk__csv *csv, yk_error *err)
{
    size_t at = yk__utf8_check(csv->text, csv->text_len);
    int64_t line = csv->start;
    if (at == csv->text_len)
        return YK_OK;
    for (size_t i = 0; i < at; i++)
        line += csv->text[i] == '\n';
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": byte 0x%02x is not UTF-8 (convert the file to UTF-8)",
                    yk__file_path(csv->file), line, (unsigned char)csv->text[at]);
}

static yk_status skip_blank(yk__csv *csv, int *more, yk_error *err)
{
    for (;;) {
        yk_status s;
        int next = byte_peek(csv, err);
        if (next == -2)
            return err->status;
        *more = next != -1;
        if (next != '\n' && next != '\r')
            return YK_OK;
        s = line_end_skip(csv, err);
        if (s)
            return s;
    }
}

static yk_status record_read(yk__csv *csv, int *more, yk_error *err)
{
    int last = 0;
    yk_status s = skip_blank(csv, more, err);
    if (s || !*more)
        return s;
    csv->text_len = csv->fields_len = 0;
    csv->start = csv->line;
    while (!last) {
        s = field_read(csv, &last, err);
        if (s)
            return s;
    }
    return check_utf8(csv, err);
}

/* ---- opening ---- */

static yk_status byte_order_mark(yk__csv *csv, yk_error *err)
{
    const unsigned char *b = (unsigned char *)csv->buf;
    char words[YK__FOREIGN_WORDS];
    if (csv->len >= 3 && b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf)
        csv->pos = 3;
    if (csv->len == 0)
        return line_fail(csv, 1, "expected a header line, found an empty file", err);
    return yk__foreign_words(YK__FOREIGN_TEXT, b, csv->len, yk__file_whole(csv->file), words) ? line_fail(csv, 1, words, err) : YK_OK;
}

static char guess_delimiter(const yk__csv *csv)
{
    static const char tried[] = {',', '\t', ';'};
    for (size_t k = 0; k < sizeof tried; k++) {
        int open = 0;
        for (size_t i = csv->pos; i < csv->len && (open || csv->buf[i] != '\n'); i++) {
            if (csv->buf[i] == '"')
                open = !open;
            if (csv->buf[i] == tried[k] && !open)
                return tried[k];
        }
    }
    return ',';
}

static yk_status keep_columns(yk__csv *csv, yk_error *err)
{
    csv->columns = yk__calloc(csv->fields_len, sizeof *csv->columns);
    if (!csv->columns)
        return yk__fail_mem(err, csv->fields_len * sizeof *csv->columns, "CSV columns");
    for (size_t i = 0; i < csv->fields_len; i++) {
        const char *name = csv->text + csv->fields[i];
        if (csv->fields_len <= 4096 && yk__csv_find(csv, name) >= 0)
            return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": column '%s' appears twice in the header",
                            yk__file_path(csv->file), csv->start, name);
        csv->columns[i] = yk__strdup(name);
        if (!csv->columns[i])
            return yk__fail_mem(err, strlen(name), "a column name");
        csv->n_columns++;
    }
    return YK_OK;
}

static yk_status open_at(yk__csv *csv, const yk__csv_options *options, yk_error *err)
{
    int more;
    yk_status s = buffer_refill(csv, err);
    if (!s)
        s = byte_order_mark(csv, err);
    if (s)
        return s;
    csv->delimiter = options && options->delimiter ? options->delimiter : guess_delimiter(csv);
    csv->quotes = !(options && options->no_quotes);
    s = record_read(csv, &more, err);
    if (!s && !more)
        return line_fail(csv, csv->line, "expected a header line, found only blank lines", err);
    if (!s)
        s = keep_columns(csv, err);
    return s;
}

yk_status yk__csv_read(yk__file *file, const yk__csv_options *options, yk__csv **out, yk_error *err)
{
    yk__csv *csv = yk__calloc(1, sizeof *csv);
    yk_status s;
    if (!csv)
        return yk__fail_mem(err, sizeof *csv, "a CSV reader");
    csv->file = file;
    csv->line = csv->start = 1;
    csv->buf = yk__malloc(CHUNK);
    s = csv->buf ? open_at(csv, options, err) : yk__fail_mem(err, CHUNK, "a CSV buffer");
    if (s)
        yk__csv_close(csv);
    else
        *out = csv;
    return s;
}

void yk__csv_close(yk__csv *csv)
{
    if (!csv)
        return;
    for (int i = 0; i < csv->n_columns; i++)
        yk__free(csv->columns[i]);
    yk__free(csv->columns);
    yk__free(csv->fields);
    yk__free(csv->text);
    yk__free(csv->buf);
    yk__free(csv);
}

int yk__csv_columns(const yk__csv *csv)
{
    return csv->n_columns;
}

const char *yk__csv_column(const yk__csv *csv, int i)
{
    return csv->columns[i];
}

int yk__csv_find(const yk__csv *csv, const char *name)
{
    for (int i = 0; i < csv->n_columns; i++)
        if (!strcmp(csv->columns[i], name))
            return i;
    return -1;
}

char yk__csv_delimiter(const yk__csv *csv)
{
    return csv->delimiter;
}

yk_status yk__csv_next(yk__csv *csv, int *more, yk_error *err)
{
    yk_status s = record_read(csv, more, err);
    if (s || !*more)
        return s;
    if (csv->fields_len != (size_t)csv->n_columns)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": expected %d fields as in the header, found %zu",
                        yk__file_path(csv->file), csv->start, csv->n_columns, csv->fields_len);
    return YK_OK;
}

const char *yk__csv_field(const yk__csv *csv, int i, size_t *bytes)
{
    size_t end = (size_t)i + 1 < csv->fields_len ? csv->fields[i + 1] : csv->text_len;
    if (bytes)
        *bytes = end - csv->fields[i] - 1;
    return csv->text + csv->fields[i];
}

int64_t yk__csv_line(const yk__csv *csv)
{
    return csv->start;
}
