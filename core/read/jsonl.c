/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON lines by way of jansson, a line at a time from a buffer that grows to the longest one. rows.c and `yoke inspect` take lines,
 * in the opening thread. An error names the file and the line.
 */
#include "core/read/jsonl.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/foreign.h"
#include "core/io/json.h"

#define CHUNK 65536u
#define LINE_LIMIT ((size_t)1 << 28)
#define FILE_LIMIT ((uint64_t)1 << 32)
#define KEYS (YK__JSON_ANY | YK__JSON_UNIQUE_KEYS) /* a key that is there twice is refused, as a column of CSV is */

struct yk__jsonl {
    yk__file *file;
    char *buf; /* buf[pos..len) is read but not parsed */
    size_t pos, len, cap;
    int end;
    int64_t line;
    json_t *value; /* value of the current line */
    json_t *array;
    size_t at; /* next element of the array */
};

/* Makes sure that a whole line, or all that is left, is in the buffer; *n is its length without the line end. */
static yk_status whole_line(yk__jsonl *jsonl, size_t *n, yk_error *err)
{
    size_t seen = jsonl->pos;
    for (;;) {
        char *nl = jsonl->len > seen ? memchr(jsonl->buf + seen, '\n', jsonl->len - seen) : NULL;
        size_t got;
        yk_status s;
        *n = nl ? (size_t)(nl - jsonl->buf) - jsonl->pos : jsonl->len - jsonl->pos;
        if (nl || jsonl->end)
            return YK_OK;
        if (*n >= LINE_LIMIT)
            return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": longer than 256 MiB", yk__file_path(jsonl->file),
                            jsonl->line + 1);
        if (jsonl->pos)
            memmove(jsonl->buf, jsonl->buf + jsonl->pos, jsonl->len - jsonl->pos);
        jsonl->len -= jsonl->pos;
        jsonl->pos = 0;
        seen = jsonl->len;
        if (yk__grow(&jsonl->buf, &jsonl->cap, jsonl->len + CHUNK, 1))
            return yk__fail_mem(err, jsonl->len + CHUNK, "a line");
        s = yk__file_read(jsonl->file, jsonl->buf + jsonl->len, jsonl->cap - jsonl->len, &got, err);
        if (s)
            return s;
        jsonl->end = got == 0;
        jsonl->len += got;
    }
}

static int is_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r')
            return 0;
    return 1;
}

/* True if an object or array that opens in the text goes on behind it, and no bracket or quote is wrong so far. */
static bool is_open(const char *text, size_t n)
{
    uint64_t lists = 0; /* a bit each level, the innermost lowest: it is a list */
    size_t depth = 0;
    bool quoted = false, right = true;
    for (size_t i = 0; i < n && right; i++) {
        const bool list = text[i] == '[' || text[i] == ']';
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted)
            i += text[i] == '\\';
        else if (text[i] == '{' || text[i] == '[') {
            lists = lists << 1 | list;
            right = ++depth <= 64;
        } else if (text[i] == '}' || text[i] == ']') {
            right = depth && (lists & 1) == list;
            lists >>= 1;
            depth--;
        }
    }
    return right && depth && !quoted;
}

/* A lone CR ends a line for some programs and is a blank in JSON: it is refused, as in CSV. */
static yk_status parse_line(yk__jsonl *jsonl, size_t n, yk_error *err)
{
    const char *line = jsonl->buf + jsonl->pos, *cr = memchr(line, '\r', n);
    if (cr && (cr + 1 < line + n || jsonl->pos + n == jsonl->len))
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": a CR without LF (expected lines that end in LF or CRLF)",
                        yk__file_path(jsonl->file), jsonl->line);
    yk_status s = yk__json_parse("JSON", jsonl->buf + jsonl->pos, n, KEYS, &jsonl->value, err);
    if (s == YK_E_FORMAT && jsonl->pos + n + 1 < jsonl->len && is_open(jsonl->buf + jsonl->pos, n)) {
        *err = (yk_error)YK_ERROR_INIT;
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": expected one object per line, got one that goes on behind the line: write "
                        "each into one line, or all into one array", yk__file_path(jsonl->file), jsonl->line);
    }
    if (s == YK_E_FORMAT) /* the line within the line is always 1 */
        return yk__fail_in(err, "%s: line %" PRId64, yk__file_path(jsonl->file), jsonl->line);
    if (!s && !json_is_object(jsonl->value))
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": expected a JSON object, found %s",
                        yk__file_path(jsonl->file), jsonl->line, yk__json_type(jsonl->value));
    return s;
}

static yk_status next_line(yk__jsonl *jsonl, int *more, yk_error *err)
{
    for (;;) {
        size_t n;
        yk_status s = whole_line(jsonl, &n, err);
        if (s)
            return s;
        *more = n > 0 || jsonl->pos < jsonl->len;
        if (!*more)
            return YK_OK;
        jsonl->line++;
        if (!is_blank(jsonl->buf + jsonl->pos, n)) {
            s = parse_line(jsonl, n, err);
            jsonl->pos += n + (jsonl->pos + n < jsonl->len);
            return s;
        }
        jsonl->pos += n + (jsonl->pos + n < jsonl->len);
    }
}

static yk_status next_element(yk__jsonl *jsonl, int *more, yk_error *err)
{
    *more = jsonl->at < json_array_size(jsonl->array);
    if (!*more)
        return YK_OK;
    jsonl->value = json_incref(json_array_get(jsonl->array, jsonl->at++));
    jsonl->line++;
    if (!json_is_object(jsonl->value))
        return yk__fail(err, YK_E_FORMAT, "%s: element %" PRId64 ": expected a JSON object, found %s",
                        yk__file_path(jsonl->file), jsonl->line, yk__json_type(jsonl->value));
    return YK_OK;
}

yk_status yk__jsonl_next(yk__jsonl *jsonl, int *more, yk_error *err)
{
    json_decref(jsonl->value);
    jsonl->value = NULL;
    return jsonl->array ? next_element(jsonl, more, err) : next_line(jsonl, more, err);
}

/* The file begins with '[': it is one array. The buffer holds its first bytes. */
static yk_status read_array(yk__jsonl *jsonl, yk_error *err)
{
    char *rest;
    size_t n;
    yk_status s = yk__file_read_rest(jsonl->file, FILE_LIMIT, &rest, &n, err);
    if (s)
        return s;
    if (yk__grow(&jsonl->buf, &jsonl->cap, jsonl->len + n, 1)) {
        s = yk__fail_mem(err, jsonl->len + n, "a JSON file");
    } else {
        memcpy(jsonl->buf + jsonl->len, rest, n);
        s = yk__json_parse(yk__file_path(jsonl->file), jsonl->buf + jsonl->pos, jsonl->len - jsonl->pos + n, KEYS, &jsonl->array,
                           err);
    }
    yk__free(rest);
    return s;
}

static yk_status jsonl_begin(yk__jsonl *jsonl, yk_error *err)
{
    size_t n;
    yk_status s = whole_line(jsonl, &n, err);
    if (!s)
        s = yk__foreign_refuse(yk__file_path(jsonl->file), YK__FOREIGN_TEXT, jsonl->buf, jsonl->len, yk__file_whole(jsonl->file), err);
    if (s)
        return s;
    size_t i = jsonl->pos = yk__json_mark(jsonl->buf, jsonl->len);
    while (i < jsonl->len && strchr(" \t\r\n", jsonl->buf[i]) && jsonl->buf[i])
        i++;
    if (i < jsonl->len && jsonl->buf[i] == '[')
        return read_array(jsonl, err);
    if (jsonl->len == 0)
        return yk__fail(err, YK_E_FORMAT, "%s: line 1: expected a JSON object, found an empty file",
                        yk__file_path(jsonl->file));
    return YK_OK;
}

yk_status yk__jsonl_read(yk__file *file, yk__jsonl **out, yk_error *err)
{
    yk__jsonl *jsonl = yk__calloc(1, sizeof *jsonl);
    yk_status s;
    if (!jsonl)
        return yk__fail_mem(err, sizeof *jsonl, "a JSON lines reader");
    jsonl->file = file;
    s = jsonl_begin(jsonl, err);
    if (s)
        yk__jsonl_close(jsonl);
    else
        *out = jsonl;
    return s;
}

void yk__jsonl_close(yk__jsonl *jsonl)
{
    if (!jsonl)
        return;
    json_decref(jsonl->value);
    json_decref(jsonl->array);
    yk__free(jsonl->buf);
    yk__free(jsonl);
}

json_t *yk__jsonl_value(const yk__jsonl *jsonl)
{
    return jsonl->value;
}

int64_t yk__jsonl_line(const yk__jsonl *jsonl)
{
    return jsonl->line;
}
