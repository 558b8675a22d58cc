/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON from outside, through jansson: strict RFC 8259, valid UTF-8 only, at most 2,048 levels deep, memory in
 * proportion to the text. Whole numbers beyond 64 bits (at most 16 of a text) are doubles. Errors name the file and the line and
 * column. The caller json_decref()s what it gets.
 */
#ifndef YOKE_CORE_IO_JSON_H
#define YOKE_CORE_IO_JSON_H

#include <jansson.h>

#include "core/io/file.h"

enum {
    YK__JSON_ANY = 1,        /* a text that is not an object or array, and U+0000 in strings (U+FFFD in keys) */
    YK__JSON_UNIQUE_KEYS = 2 /* refuse an object that holds a key twice (else the last one counts) */
};

yk_status yk__json_parse(const char *name, const char *text, size_t bytes, int flags, json_t **out, yk_error *err);
yk_status yk__json_load(const char *path, int flags, json_t **out, yk_error *err);
yk_status yk__json_read(yk__file *file, int flags, json_t **out, yk_error *err);

/* Members of an object, with the path of the file for the message; a missing or wrong one is refused. */
yk_status yk__json_object(const json_t *o, const char *path, const char *key, json_t **out, yk_error *err);
const char *yk__json_type(const json_t *v); /* "a string", "an integer" ... */

#endif
