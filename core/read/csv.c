/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parser of CSV by hand, byte by byte with runs in between: fields go into one growing text, each ending in 0, and offsets say
 * where they begin. Streaming, so that a file is never in memory twice.
 */
#include "core/read/csv.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/utf8.h"

#define CHUNK 65536u
#define RECORD_LIMIT ((size_t)1 << 28) /* bytes of one record */

struct yk__csv {
    yk__file *file;
    char delimiter;
    int quotes;
    char *buf; /* bytes read but not parsed: buf[pos..len) */
    size_t pos, len;
    int end;      /* the source has ended */
    int64_t line; /* of the next byte */
    int64_t start;
    char *text; /* the record's fields, each ending in 0 */
    size_t text_len, text_cap;
    size_t *fields; /* offset of each in text */
    size_t fields_len, fields_cap;
    char **columns;
    int n_columns;
};

static yk_status line_fail(const yk__csv *c, int64_t line, const char *what, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": %s", yk__file_path(c->file), line, what);
}

static yk_status buffer_refill(yk__csv *c, yk_error *err)
{
    size_t got;
    yk_status s = yk__file_read(c->file, c->buf, CHUNK, &got, err);
    if (s)
        return s;
    c->pos = 0;
    c->len = got;
    c->end = got == 0;
    return YK_OK;
}

/* The next byte without taking it, or -1 at the end; -2 on an error. */
static int byte_peek(yk__csv *c, yk_error *err)
{
    if (c->pos == c->len && !c->end && buffer_refill(c, err))
        return -2;
    return c->pos == c->len ? -1 : (unsigned char)c->buf[c->pos];
}

static yk_status text_put(yk__csv *c, const char *s, size_t n, yk_error *err)
{
    if (!n)
        return YK_OK;
    if (c->text_len + n >= RECORD_LIMIT)
        return line_fail(c, c->start, "a record longer than 256 MiB", err);
    if (yk__grow(&c->text, &c->text_cap, c->text_len + n, 1))
        return yk__fail_mem(err, c->text_len + n, "a CSV record");
    memcpy(c->text + c->text_len, s, n);
    c->text_len += n;
    return YK_OK;
}

static yk_status begin_field(yk__csv *c, yk_error *err)
{
    if (yk__grow(&c->fields, &c->fields_cap, c->fields_len + 1, sizeof *c->fields))
        return yk__fail_mem(err, (c->fields_len + 1) * sizeof *c->fields, "CSV fields");
    c->fields[c->fields_len++] = c->text_len;
    return YK_OK;
}

/* Takes bytes up to the first of a, b, CR, LF, NUL into the field. */
static yk_status field_copy_run(yk__csv *c, char a, char b, int *next, yk_error *err)
{
    for (;;) {
        size_t i;
        yk_status s;
        *next = byte_peek(c, err);
        if (*next == -2)
            return err->status;
        for (i = c->pos; i < c->len; i++) {
            char x = c->buf[i];
            if (x == a || x == b || x == '\n' || x == '\r' || x == 0)
                break;
        }
        s = text_put(c, c->buf + c->pos, i - c->pos, err);
        c->pos = i;
        if (s || i < c->len || *next == -1) {
            *next = i < c->len ? (unsigned char)c->buf[i] : *next;
            return s;
        }
    }
}

/* CR must be followed by LF; both are taken. */
static yk_status line_end_skip(yk__csv *c, yk_error *err)
{
    if (c->buf[c->pos] == '\r') {
        int64_t line = c->line;
        c->pos++;
        if (byte_peek(c, err) == -2)
            return err->status;
        if (byte_peek(c, err) != '\n')
            return line_fail(c, line, "a CR without LF (expected lines that end in LF or CRLF)", err);
    }
    c->pos++;
    c->line++;
    return YK_OK;
}

/* One step inside quotes, at a byte that is special there; *open becomes 0 at the closing quote. */
static yk_status quoted_special(yk__csv *c, int next, int64_t from, int *open, yk_error *err)
{
    char x = (char)next;
    if (next == -1)
        return line_fail(c, from, "a quote that opens here is never closed", err);
    if (next == 0)
        return line_fail(c, c->line, "a NUL byte (expected text)", err);
    c->pos++;
    c->line += next == '\n';
    if (next != '"')
        return text_put(c, &x, 1, err);
    next = byte_peek(c, err);
    if (next == -2)
        return err->status;
    *open = next == '"';
    c->pos += (size_t)*open;
    return *open ? text_put(c, &x, 1, err) : YK_OK;
}

static yk_status quoted_field(yk__csv *c, yk_error *err)
{
    int64_t from = c->line;
    int open = 1, next = 0;
    c->pos++;
    while (open) {
        yk_status s = field_copy_run(c, '"', '"', &next, err);
        if (!s)
            s = quoted_special(c, next, from, &open, err);
        if (s)
            return s;
    }
    next = byte_peek(c, err);
    if (next == -2)
        return err->status;
    if (next != -1 && next != c->delimiter && next != '\n' && next != '\r')
        return line_fail(c, c->line, "text after a closing quote (expected the delimiter or the end of the line)", err);
    return YK_OK;
}

static yk_status plain_field(yk__csv *c, yk_error *err)
{
    int next = 0;
    yk_status s = field_copy_run(c, c->delimiter, c->delimiter, &next, err);
    if (!s && next == 0)
        return line_fail(c, c->line, "a NUL byte (expected text; is the file UTF-16?)", err);
    return s;
}

/* One field and what ends it; *last when that was the end of the record. */
static yk_status field_read(yk__csv *c, int *last, yk_error *err)
{
    int next;
    yk_status s = begin_field(c, err);
    if (s)
        return s;
    next = byte_peek(c, err);
    if (next == -2)
        return err->status;
    s = next == '"' && c->quotes ? quoted_field(c, err) : plain_field(c, err);
    if (!s)
        s = text_put(c, "", 1, err);
    if (s)
        return s;
    next = byte_peek(c, err);
    if (next == -2)
        return err->status;
    *last = next == -1 || next == '\n' || next == '\r';
    if (next == -1)
        return YK_OK;
    if (*last)
        return line_end_skip(c, err);
    c->pos++;
    return YK_OK;
}

static yk_status check_utf8(const yk__csv *c, yk_error *err)
{
    size_t at = yk__utf8_check(c->text, c->text_len);
    int64_t line = c->start;
    if (at == c->text_len)
        return YK_OK;
    for (size_t i = 0; i < at; i++)
        line += c->text[i] == '\n';
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": byte 0x%02x is not UTF-8 (convert the file to UTF-8)",
                    yk__file_path(c->file), line, (unsigned char)c->text[at]);
}

static yk_status skip_blank(yk__csv *c, int *more, yk_error *err)
{
    for (;;) {
        yk_status s;
        int next = byte_peek(c, err);
        if (next == -2)
            return err->status;
        *more = next != -1;
        if (next != '\n' && next != '\r')
            return YK_OK;
        s = line_end_skip(c, err);
        if (s)
            return s;
    }
}

static yk_status record_read(yk__csv *c, int *more, yk_error *err)
{
    int last = 0;
    yk_status s = skip_blank(c, more, err);
    if (s || !*more)
        return s;
    c->text_len = c->fields_len = 0;
    c->start = c->line;
    while (!last) {
        s = field_read(c, &last, err);
        if (s)
            return s;
    }
    return check_utf8(c, err);
}

/* ---- opening ---- */

static yk_status byte_order_mark(yk__csv *c, yk_error *err)
{
    const unsigned char *b = (unsigned char *)c->buf;
    if (c->len >= 3 && b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf)
        c->pos = 3;
    if (c->len >= 2 && ((b[0] == 0xff && b[1] == 0xfe) || (b[0] == 0xfe && b[1] == 0xff)))
        return line_fail(c, 1, "a UTF-16 byte order mark (convert the file to UTF-8)", err);
    if (c->len == 0)
        return line_fail(c, 1, "expected a header line, found an empty file", err);
    return YK_OK;
}

static char guess_delimiter(const yk__csv *c)
{
    static const char tried[] = {',', '\t', ';'};
    for (size_t k = 0; k < sizeof tried; k++) {
        int open = 0;
        for (size_t i = c->pos; i < c->len && (open || c->buf[i] != '\n'); i++) {
            if (c->buf[i] == '"')
                open = !open;
            if (c->buf[i] == tried[k] && !open)
                return tried[k];
        }
    }
    return ',';
}

static yk_status keep_columns(yk__csv *c, yk_error *err)
{
    c->columns = yk__calloc(c->fields_len, sizeof *c->columns);
    if (!c->columns)
        return yk__fail_mem(err, c->fields_len * sizeof *c->columns, "CSV columns");
    for (size_t i = 0; i < c->fields_len; i++) {
        const char *name = c->text + c->fields[i];
        if (c->fields_len <= 4096 && yk__csv_find(c, name) >= 0)
            return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": column '%s' appears twice in the header",
                            yk__file_path(c->file), c->start, name);
        c->columns[i] = yk__strdup(name);
        if (!c->columns[i])
            return yk__fail_mem(err, strlen(name), "a column name");
        c->n_columns++;
    }
    return YK_OK;
}

static yk_status open_at(yk__csv *c, const yk__csv_options *o, yk_error *err)
{
    int more;
    yk_status s = buffer_refill(c, err);
    if (!s)
        s = byte_order_mark(c, err);
    if (s)
        return s;
    c->delimiter = o && o->delimiter ? o->delimiter : guess_delimiter(c);
    c->quotes = !(o && o->no_quotes);
    s = record_read(c, &more, err);
    if (!s && !more)
        return line_fail(c, c->line, "expected a header line, found only blank lines", err);
    if (!s)
        s = keep_columns(c, err);
    return s;
}

yk_status yk__csv_read(yk__file *f, const yk__csv_options *o, yk__csv **out, yk_error *err)
{
    yk__csv *c = yk__calloc(1, sizeof *c);
    yk_status s;
    if (!c)
        return yk__fail_mem(err, sizeof *c, "a CSV reader");
    c->file = f;
    c->line = c->start = 1;
    c->buf = yk__malloc(CHUNK);
    s = c->buf ? open_at(c, o, err) : yk__fail_mem(err, CHUNK, "a CSV buffer");
    if (s)
        yk__csv_close(c);
    else
        *out = c;
    return s;
}

void yk__csv_close(yk__csv *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_columns; i++)
        yk__free(c->columns[i]);
    yk__free(c->columns);
    yk__free(c->fields);
    yk__free(c->text);
    yk__free(c->buf);
    yk__free(c);
}

int yk__csv_columns(const yk__csv *c)
{
    return c->n_columns;
}

const char *yk__csv_column(const yk__csv *c, int i)
{
    return c->columns[i];
}

int yk__csv_find(const yk__csv *c, const char *name)
{
    for (int i = 0; i < c->n_columns; i++)
        if (!strcmp(c->columns[i], name))
            return i;
    return -1;
}

char yk__csv_delimiter(const yk__csv *c)
{
    return c->delimiter;
}

yk_status yk__csv_next(yk__csv *c, int *more, yk_error *err)
{
    yk_status s = record_read(c, more, err);
    if (s || !*more)
        return s;
    if (c->fields_len != (size_t)c->n_columns)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": expected %d fields as in the header, found %zu",
                        yk__file_path(c->file), c->start, c->n_columns, c->fields_len);
    return YK_OK;
}

const char *yk__csv_field(const yk__csv *c, int i, size_t *bytes)
{
    size_t end = (size_t)i + 1 < c->fields_len ? c->fields[i + 1] : c->text_len;
    if (bytes)
        *bytes = end - c->fields[i] - 1;
    return c->text + c->fields[i];
}

int64_t yk__csv_line(const yk__csv *c)
{
    return c->start;
}
