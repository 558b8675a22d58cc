/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON text into jansson's values: yk__json_parse, through which every file and line of JSON comes.
 *
 * jansson's own lexer is not used. It drops a letter without an error, or aborts the process, if its buffer of a token cannot grow. Here a
 * text is read whole, or there is an error: each token's memory is asked for before the token is decoded. Values are jansson's, and a
 * failed one of them ends the reading too. No state; any thread.
 */
#include "core/io/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/io/utf8.h"

#define DEPTH 2048 /* levels of values */
#define SHOWN 20   /* bytes of a token that an error repeats */

typedef struct reader {
    const char *name, *begin, *at, *end;
    const char *token; /* the beginning of the last one */
    char *buffer;      /* the decoded token */
    size_t capacity;
    int flags, depth;
    yk_error *err;
} reader;

/* ---- Errors: the place is the end of the token that does not fit ---- */

static void reader_fail(reader *r, const char *what)
{
    size_t line = 1, column = 0;
    const size_t n = (size_t)(r->at - r->token);
    for (const char *p = r->begin; p < r->at; p++) {
        line += *p == '\n';
        column = *p == '\n' ? 0 : column + ((*p & 0xc0) != 0x80); /* characters, not bytes */
    }
    if (!n && r->at == r->end)
        yk__fail(r->err, YK_E_FORMAT, "%s: line %zu, column %zu: not JSON: %s near end of file", r->name, line, column, what);
    else if (n && n <= SHOWN)
        yk__fail(r->err, YK_E_FORMAT, "%s: line %zu, column %zu: not JSON: %s near '%.*s'", r->name, line, column, what, (int)n, r->token);
    else
        yk__fail(r->err, YK_E_FORMAT, "%s: line %zu, column %zu: not JSON: %s", r->name, line, column, what);
}

static void byte_fail(reader *r, const char *at)
{
    char what[40];
    snprintf(what, sizeof what, "unable to decode byte 0x%x", (unsigned char)*at);
    r->at = r->token = at;
    reader_fail(r, what);
}

static json_t *value_or_fail(reader *r, json_t *v)
{
    if (!v)
        yk__fail_mem(r->err, 0, "a JSON value");
    return v;
}

static bool in_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.' || c == '_';
}

/* The token at hand is not the one that the grammar wants. */
static void token_refuse(reader *r, const char *what)
{
    const char *p = r->token;
    if (p < r->end && *p == '"')
        for (p++; p < r->end && *p != '"' && *p != '\n';)
            p += *p == '\\' && p + 1 < r->end && p[1] != '\n' ? 2 : 1;
    const char *word = p;
    while (p < r->end && in_word(*p))
        p++;
    if (p == word && p < r->end) {
        int n;
        if (yk__utf8_get(p, (size_t)(r->end - p), &n) < 0) {
            byte_fail(r, p);
            return;
        }
        p += *p == '\n' ? 0 : n;
    }
    r->at = p;
    reader_fail(r, what);
}

/* ---- Tokens ---- */

/* The first character of the next token; 0 at the end. */
static char token_next(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
    r->token = r->at;
    return r->at < r->end ? *r->at : 0;
}

/* Space for a token of so many bytes, and a 0 behind it. */
static bool buffer_grow(reader *r, size_t bytes)
{
    if (!yk__grow(&r->buffer, &r->capacity, bytes + 1, 1))
        return true;
    yk__fail_mem(r->err, bytes, "a JSON value");
    return false;
}

/* The number of four hexadecimal digits; -1 without them. */
static int32_t hex_read(const char *p, const char *end)
{
    uint8_t high, low;
    if (end - p < 4 || !yk__number_byte(p, &high) || !yk__number_byte(p + 2, &low))
        return -1;
    return high << 8 | low;
}

/* The character of \uXXXX, or of two of them if it has more than 16 bits; -1 if invalid. *p stands behind the `u`, and moves behind the
 * digits. */
static int32_t character_read(const char **p, const char *end)
{
    const int32_t one = hex_read(*p, end);
    if (one < 0 || (one >= 0xdc00 && one <= 0xdfff))
        return -1;
    *p += 4;
    if (one < 0xd800 || one > 0xdbff)
        return one;
    const int32_t two = end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u' ? hex_read(*p + 2, end) : -1;
    if (two < 0xdc00 || two > 0xdfff)
        return -1;
    *p += 6;
    return 0x10000 + ((one - 0xd800) << 10) + (two - 0xdc00);
}

static bool escape_refuse(reader *r, const char *at, const char *what)
{
    r->at = r->token = at;
    while (r->at < r->end && r->at < at + 6 && (r->at == at || in_word(*r->at)))
        r->at++;
    reader_fail(r, what);
    return false;
}

/* Decodes the escape at *from to *to. Never longer than its text. */
static bool escape_decode(reader *r, const char **from, const char *end, char **to, bool is_key)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *p = *from + 1, *name = p < end && *p ? strchr(names, *p) : NULL;
    if (name) {
        *(*to)++ = values[name - names];
        *from = p + 1;
        return true;
    }
    if (p >= end || *p++ != 'u')
        return escape_refuse(r, *from, "invalid escape");
    int32_t c = character_read(&p, end);
    if (c < 0)
        return escape_refuse(r, *from, "invalid Unicode escape");
    if (!c && !(r->flags & YK__JSON_ANY))
        return escape_refuse(r, *from, "\\u0000 is not allowed");
    *to += yk__utf8_put(!c && is_key ? 0xfffd : c, *to);
    *from = p;
    return true;
}

/* Decodes a string into the buffer. False with an error. */
static bool string_read(reader *r, bool is_key, size_t *bytes)
{
    const char *from = r->at + 1, *end = from;
    while (end < r->end && *end != '"' && (unsigned char)*end >= 0x20)
        end += *end == '\\' && end + 1 < r->end ? 2 : 1;
    r->at = end;
    if (end == r->end || *end != '"') {
        char what[40];
        snprintf(what, sizeof what, "control character 0x%x", end == r->end ? 0 : (unsigned char)*end);
        reader_fail(r, end == r->end ? "premature end of input" : *end == '\n' ? "unexpected newline" : what);
        return false;
    }
    const size_t n = (size_t)(end - from), valid = yk__utf8_check(from, n);
    if (valid < n) {
        byte_fail(r, from + valid);
        return false;
    }
    if (!buffer_grow(r, n))
        return false;
    char *to = r->buffer;
    while (from < end) {
        const char *escape = memchr(from, '\\', (size_t)(end - from)), *stop = escape ? escape : end;
        memcpy(to, from, (size_t)(stop - from));
        to += stop - from;
        from = stop;
        if (escape && !escape_decode(r, &from, end, &to, is_key))
            return false;
    }
    *to = 0;
    *bytes = (size_t)(to - r->buffer);
    r->at = end + 1;
    return true;
}

static const char *digits_skip(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* The end of the number at the token; NULL if it is none. *whole: it has neither a fraction nor an exponent. */
static const char *number_end(const reader *r, bool *whole)
{
    const char *p = r->token + (*r->token == '-'), *digits = p;
    p = digits_skip(p, r->end);
    bool right = p > digits && (*digits != '0' || p == digits + 1);
    *whole = true;
    if (p < r->end && *p == '.') {
        digits = p + 1;
        p = digits_skip(digits, r->end);
        right = right && p > digits;
        *whole = false;
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        digits = p + 1;
        digits += digits < r->end && (*digits == '+' || *digits == '-');
        p = digits_skip(digits, r->end);
        right = right && p > digits;
        *whole = false;
    }
    return right ? p : NULL;
}

/* ---- Values ---- */

static json_t *value_read(reader *r);

/* A whole number beyond 64 bits becomes a double: transformers writes 10^30 for a tokenizer without a longest text. */
static json_t *number_read(reader *r)
{
    bool whole;
    const char *end = number_end(r, &whole);
    if (!end) {
        token_refuse(r, "invalid token");
        return NULL;
    }
    const size_t n = (size_t)(end - r->token);
    if (!buffer_grow(r, n))
        return NULL;
    memcpy(r->buffer, r->token, n);
    r->buffer[n] = 0;
    r->at = end;
    errno = 0;
    const long long v = whole ? strtoll(r->buffer, NULL, 10) : 0;
    if (whole && !errno)
        return value_or_fail(r, json_integer(v));
    const double real = yk__number_read(r->buffer, NULL);
    if (isfinite(real))
        return value_or_fail(r, json_real(real));
    reader_fail(r, "real number overflow");
    return NULL;
}

static json_t *word_read(reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= n && !memcmp(r->at, words[i], n) && (r->at + n == r->end || !in_word(r->at[n]))) {
            r->at += n;
            return i == 0 ? json_true() : i == 1 ? json_false() : json_null();
        }
    }
    token_refuse(r, "invalid token");
    return NULL;
}

/* Reads a key and its colon, and puts the key into the buffer; yk__free it. NULL with an error. */
static char *key_read(reader *r, const json_t *object)
{
    size_t n;
    char *key;
    if (token_next(r) != '"') {
        token_refuse(r, "string or '}' expected");
        return NULL;
    }
    if (!string_read(r, true, &n))
        return NULL;
    if ((r->flags & YK__JSON_UNIQUE_KEYS) && json_object_get(object, r->buffer)) {
        reader_fail(r, "duplicate object key");
        return NULL;
    }
    key = yk__strndup(r->buffer, n);
    if (!key)
        yk__fail_mem(r->err, n, "a JSON value");
    else if (token_next(r) != ':')
        token_refuse(r, "':' expected");
    else
        r->at++;
    if (r->err->status) {
        yk__free(key);
        return NULL;
    }
    return key;
}

static void member_read(reader *r, json_t *object)
{
    char *key = key_read(r, object);
    json_t *v = key ? value_read(r) : NULL;
    if (v && json_object_set_new_nocheck(object, key, v))
        yk__fail_mem(r->err, 0, "a JSON value");
    yk__free(key);
}

/* A list or an object, at its bracket. */
static json_t *nested_read(reader *r)
{
    const bool is_list = *r->at++ == '[';
    const char close = is_list ? ']' : '}';
    json_t *all = value_or_fail(r, is_list ? json_array() : json_object()), *v;
    char c;
    for (bool first = true; all && !r->err->status && (c = token_next(r)) != close; first = false) {
        r->at += !first && c == ',';
        if (!first && c != ',')
            token_refuse(r, is_list ? "']' expected" : "'}' expected");
        else if (!is_list)
            member_read(r, all);
        else if (!token_next(r))
            token_refuse(r, "']' expected");
        else if ((v = value_read(r)) && json_array_append_new(all, v))
            yk__fail_mem(r->err, 0, "a JSON value");
    }
    r->at++;
    if (!r->err->status)
        return all;
    json_decref(all);
    return NULL;
}

static json_t *value_read(reader *r)
{
    const char c = token_next(r);
    json_t *v = NULL;
    size_t n;
    if (++r->depth > DEPTH)
        token_refuse(r, "maximum parsing depth reached");
    else if (c == '[' || c == '{')
        v = nested_read(r);
    else if (c == '"') {
        v = string_read(r, false, &n) ? value_or_fail(r, json_stringn_nocheck(r->buffer, n)) : NULL;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        v = number_read(r);
    } else
        v = word_read(r);
    r->depth--;
    return v;
}

yk_status yk__json_parse(const char *name, const char *text, size_t bytes, int flags, json_t **out, yk_error *err)
{
    yk_error why = YK_ERROR_INIT; /* the caller's may hold an older error */
    const char *nul = memchr(text, 0, bytes);
    reader r = {.name = name, .begin = text, .at = text, .end = text + bytes, .token = text, .flags = flags, .err = &why};
    if (nul)
        return yk__fail(err, YK_E_FORMAT, "%s: byte %zu: not JSON: a NUL byte", name, (size_t)(nul - text));
    const char c = token_next(&r);
    json_t *v = NULL;
    if (!(flags & YK__JSON_ANY) && c != '[' && c != '{')
        token_refuse(&r, "'[' or '{' expected");
    else
        v = value_read(&r);
    if (v && token_next(&r))
        token_refuse(&r, "end of file expected");
    yk__free(r.buffer);
    if (!why.status) {
        *out = v;
        return YK_OK;
    }
    json_decref(v);
    return yk__fail(err, why.status, "%s", why.text);
}
