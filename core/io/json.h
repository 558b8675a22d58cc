/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON from outside, as jansson's values: strict RFC 8259, valid UTF-8 only, at most 2,048 levels deep, memory in proportion to the text.
 * Whole numbers beyond 64 bits are doubles. If memory runs out, a text is refused, and never read in part. Errors name the file and the
 * line and column. The caller json_decref()s the results.
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

/* A member of an object, with the path of the file for the message; a missing member or one of another type is refused. */
yk_status yk__json_object(const json_t *o, const char *path, const char *key, json_t **out, yk_error *err);
const char *yk__json_type(const json_t *v); /* "a string", "an integer" ... */

/* An object of a file, with its names for messages. Its members are read by the functions below, which refuse a value of another type. An
 * absent value, object or member, leaves *out as it is; so does null, but for numbers and lists. */
typedef struct yk__json_part {
    const json_t *value;
    const char *file, *name; /* name: "model", say; NULL for the whole file */
} yk__json_part;

yk_status yk__json_whole(const yk__json_part *part, const char *key, int64_t least, int64_t most, int64_t *out, yk_error *err);
yk_status yk__json_flag(const yk__json_part *part, const char *key, int *out, yk_error *err);
yk_status yk__json_string(const yk__json_part *part, const char *key, const char **out, yk_error *err); /* without U+0000 */
yk_status yk__json_list(const yk__json_part *part, const char *key, const json_t **out, yk_error *err);

/* As json_dumps; yk__free it. NULL if memory ran out; jansson's own would skip the key for which memory was missing. */
char *yk__json_dump(const json_t *v, size_t flags);

/* An object or a list under construction, which remembers that memory ran out: its maker checks once, at the end. A NULL value counts as
 * such a failure too, so a nested failure reaches the outermost builder. The builder takes values over, as jansson's .._new functions
 * do. */
typedef struct yk__json_builder {
    json_t *value;
    bool failed;
} yk__json_builder;

yk__json_builder yk__json_begin(json_t *value);
void yk__json_put(yk__json_builder *builder, const char *key, json_t *v);
void yk__json_append(yk__json_builder *builder, json_t *v);
json_t *yk__json_end(yk__json_builder *builder); /* NULL if a part is missing */

#endif
