/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON from outside, through jansson: strict RFC 8259, valid UTF-8 only, at most 2,048 levels deep, memory in
 * proportion to the text. Whole numbers beyond 64 bits (at most 16 of a text) are doubles. Errors name the file and the line and
 * column. The caller json_decref()s what it gets.
 */
#ifndef YOKE_CORE_IO_JSON_H
#define YOKE_CORE_IO_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "core/io/file.h"

enum {
    YK__JSON_ANY = 1,        /* a text that is not an object or array, and U+0000 in strings (U+FFFD in keys) */
    YK__JSON_UNIQUE_KEYS = 2 /* refuse an object that holds a key twice (else the last one counts) */
};

yk_status yk__json_parse(const char *name, const char *text, size_t bytes, int flags, json_t **out, yk_error *err);
/* Bytes of a byte order mark at the beginning of a file's text: 3 or 0. Files are read without it; yk__json_parse refuses one. */
size_t yk__json_mark(const char *text, size_t bytes);
yk_status yk__json_load(const char *path, int flags, json_t **out, yk_error *err);
yk_status yk__json_read(yk__file *file, int flags, json_t **out, yk_error *err);

/* Members of an object, with the path of the file for the message; a missing or wrong one is refused. */
yk_status yk__json_object(const json_t *o, const char *path, const char *key, json_t **out, yk_error *err);
const char *yk__json_type(const json_t *v); /* "a string", "an integer" ... */

/* As json_dumps; yk__free it. NULL: out of memory, where jansson's own would leave out the key that there was no room for. */
char *yk__json_dump(const json_t *v, size_t flags);

/* An object or a list that is being made, which remembers that memory was gone: its maker asks once, at the end. A value that is NULL is
 * such a failure too, so that of what is nested the outermost knows. Values are taken, as by jansson's .._new. */
typedef struct yk__json_builder {
    json_t *value;
    bool failed;
} yk__json_builder;

yk__json_builder yk__json_begin(json_t *value);
void yk__json_put(yk__json_builder *builder, const char *key, json_t *v);
void yk__json_append(yk__json_builder *builder, json_t *v);
json_t *yk__json_end(yk__json_builder *builder); /* NULL: something is missing */

#endif
