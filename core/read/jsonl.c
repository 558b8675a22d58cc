/* SPDX-License-Identifier: Apache-2.0 */
/* JSON lines by way of jansson, a line at a time from a buffer that grows to the longest one. */
#include "core/read/jsonl.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/json.h"

#define CHUNK 65536u
#define LINE_LIMIT ((size_t)1 << 28)
#define FILE_LIMIT ((uint64_t)1 << 32)

struct yk__jsonl {
    yk__file *file;
    char *buf; /* buf[pos..len) is read but not parsed */
    size_t pos, len, cap;
    int end;
    int64_t line;
    json_t *value; /* of the current line */
    json_t *array;
    size_t at; /* next element of the array */
};

/* Makes sure that a whole line, or all that is left, is in the buffer; *n is its length without the line end. */
static yk_status whole_line(yk__jsonl *j, size_t *n, yk_error *err)
{
    size_t seen = j->pos;
    for (;;) {
        char *nl = j->len > seen ? memchr(j->buf + seen, '\n', j->len - seen) : NULL;
        size_t got;
        yk_status s;
        *n = nl ? (size_t)(nl - j->buf) - j->pos : j->len - j->pos;
        if (nl || j->end)
            return YK_OK;
        if (*n >= LINE_LIMIT)
            return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": longer than 256 MiB", yk__file_path(j->file),
                            j->line + 1);
        if (j->pos)
            memmove(j->buf, j->buf + j->pos, j->len - j->pos);
        j->len -= j->pos;
        j->pos = 0;
        seen = j->len;
        if (yk__grow(&j->buf, &j->cap, j->len + CHUNK, 1))
            return yk__fail_mem(err, j->len + CHUNK, "a line");
        s = yk__file_read(j->file, j->buf + j->len, j->cap - j->len, &got, err);
        if (s)
            return s;
        j->end = got == 0;
        j->len += got;
    }
}

static int is_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r')
            return 0;
    return 1;
}

static yk_status parse_line(yk__jsonl *j, size_t n, yk_error *err)
{
    yk_status s = yk__json_parse("JSON", j->buf + j->pos, n, YK__JSON_ANY, &j->value, err);
    if (s == YK_E_FORMAT) /* the line within the line is always 1 */
        return yk__fail_in(err, "%s: line %" PRId64, yk__file_path(j->file), j->line);
    if (!s && !json_is_object(j->value))
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": expected a JSON object, found %s",
                        yk__file_path(j->file), j->line, yk__json_type(j->value));
    return s;
}

static yk_status next_line(yk__jsonl *j, int *more, yk_error *err)
{
    for (;;) {
        size_t n;
        yk_status s = whole_line(j, &n, err);
        if (s)
            return s;
        *more = n > 0 || j->pos < j->len;
        if (!*more)
            return YK_OK;
        j->line++;
        if (!is_blank(j->buf + j->pos, n)) {
            s = parse_line(j, n, err);
            j->pos += n + (j->pos + n < j->len);
            return s;
        }
        j->pos += n + (j->pos + n < j->len);
    }
}

static yk_status next_element(yk__jsonl *j, int *more, yk_error *err)
{
    *more = j->at < json_array_size(j->array);
    if (!*more)
        return YK_OK;
    j->value = json_incref(json_array_get(j->array, j->at++));
    j->line++;
    if (!json_is_object(j->value))
        return yk__fail(err, YK_E_FORMAT, "%s: element %" PRId64 ": expected a JSON object, found %s",
                        yk__file_path(j->file), j->line, yk__json_type(j->value));
    return YK_OK;
}

yk_status yk__jsonl_next(yk__jsonl *j, int *more, yk_error *err)
{
    json_decref(j->value);
    j->value = NULL;
    return j->array ? next_element(j, more, err) : next_line(j, more, err);
}

/* The file begins with '[': it is one array. The buffer holds its first bytes. */
static yk_status read_array(yk__jsonl *j, yk_error *err)
{
    char *rest;
    size_t n;
    yk_status s = yk__file_read_rest(j->file, FILE_LIMIT, &rest, &n, err);
    if (s)
        return s;
    if (yk__grow(&j->buf, &j->cap, j->len + n, 1)) {
        s = yk__fail_mem(err, j->len + n, "a JSON file");
    } else {
        memcpy(j->buf + j->len, rest, n);
        s = yk__json_parse(yk__file_path(j->file), j->buf, j->len + n, YK__JSON_ANY, &j->array, err);
    }
    yk__free(rest);
    return s;
}

static yk_status jsonl_begin(yk__jsonl *j, yk_error *err)
{
    size_t n, i = 0;
    yk_status s = whole_line(j, &n, err);
    if (s)
        return s;
    while (i < j->len && strchr(" \t\r\n", j->buf[i]) && j->buf[i])
        i++;
    if (i < j->len && j->buf[i] == '[')
        return read_array(j, err);
    if (j->len == 0)
        return yk__fail(err, YK_E_FORMAT, "%s: line 1: expected a JSON object, found an empty file",
                        yk__file_path(j->file));
    return YK_OK;
}

yk_status yk__jsonl_read(yk__file *f, yk__jsonl **out, yk_error *err)
{
    yk__jsonl *j = yk__calloc(1, sizeof *j);
    yk_status s;
    if (!j)
        return yk__fail_mem(err, sizeof *j, "a JSON lines reader");
    j->file = f;
    s = jsonl_begin(j, err);
    if (s)
        yk__jsonl_close(j);
    else
        *out = j;
    return s;
}

void yk__jsonl_close(yk__jsonl *j)
{
    if (!j)
        return;
    json_decref(j->value);
    json_decref(j->array);
    yk__free(j->buf);
    yk__free(j);
}

json_t *yk__jsonl_value(const yk__jsonl *j)
{
    return j->value;
}

int64_t yk__jsonl_line(const yk__jsonl *j)
{
    return j->line;
}

int yk__jsonl_is_array(const yk__jsonl *j)
{
    return j->array != NULL;
}
