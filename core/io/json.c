/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes JSON as jansson's values, with our errors: settings, checkpoints, tokenizers, JSON lines, headers of safetensors, and
 * the commands' --json. json_parse.c reads the text itself. No state; any thread.
 */
#include "core/io/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/foreign.h"

#define LIMIT ((uint64_t)1 << 32) /* bytes of a file's text */

size_t yk__json_mark(const char *text, size_t bytes)
{
    return bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

yk_status yk__json_read(yk__file *file, int flags, json_t **out, yk_error *err)
{
    char *text;
    size_t bytes;
    yk_status s = yk__file_read_rest(file, LIMIT, &text, &bytes, err);
    if (s)
        return s;
    const size_t mark = yk__json_mark(text, bytes);
    s = yk__foreign_refuse(yk__file_path(file), YK__FOREIGN_TEXT, text, bytes, bytes, err);
    if (!s)
        s = yk__json_parse(yk__file_path(file), text + mark, bytes - mark, flags, out, err);
    yk__free(text);
    return s;
}

yk_status yk__json_load(const char *path, int flags, json_t **out, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    s = yk__json_read(file, flags, out, err);
    yk__file_close(file);
    return s;
}

const char *yk__json_type(const json_t *v)
{
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return v ? names[json_typeof(v)] : "nothing";
}

yk_status yk__json_object(const json_t *o, const char *path, const char *key, json_t **out, yk_error *err)
{
    json_t *v = json_object_get(o, key);
    if (!json_is_object(v))
        return yk__fail(err, YK_E_FORMAT, "%s: key '%s': expected an object, found %s", path, key, yk__json_type(v));
    *out = v;
    return YK_OK;
}

/* The member of a part; NULL if absent. A part that is no object is an error. */
static yk_status member_find(const yk__json_part *part, const char *key, const json_t **out, yk_error *err)
{
    *out = json_object_get(part->value, key);
    if (!part->value || json_is_null(part->value) || json_is_object(part->value))
        return YK_OK;
    return yk__fail(err, YK_E_FORMAT, "%s: %s: expected an object, found %s", part->file, part->name ? part->name : "the file",
                    yk__json_type(part->value));
}

static yk_status member_fail(const yk__json_part *part, const char *key, const char *expected, const json_t *v, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: %s%s%s: expected %s, found %s", part->file, part->name ? part->name : "",
                    part->name ? ": " : "", key, expected, yk__json_type(v));
}

yk_status yk__json_whole(const yk__json_part *part, const char *key, int64_t least, int64_t most, int64_t *out, yk_error *err)
{
    const json_t *v;
    char expected[80];
    if (member_find(part, key, &v, err))
        return err->status;
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, least, most);
    if (v && (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most))
        return member_fail(part, key, expected, v, err);
    if (v)
        *out = json_integer_value(v);
    return YK_OK;
}

yk_status yk__json_flag(const yk__json_part *part, const char *key, int *out, yk_error *err)
{
    const json_t *v;
    if (member_find(part, key, &v, err))
        return err->status;
    if (v && !json_is_boolean(v) && !json_is_null(v))
        return member_fail(part, key, "true or false", v, err);
    if (json_is_boolean(v))
        *out = json_is_true(v);
    return YK_OK;
}

yk_status yk__json_string(const yk__json_part *part, const char *key, const char **out, yk_error *err)
{
    const json_t *v;
    if (member_find(part, key, &v, err))
        return err->status;
    if (v && !json_is_string(v) && !json_is_null(v))
        return member_fail(part, key, "a text", v, err);
    if (json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v))
        return member_fail(part, key, "a text without U+0000", v, err);
    if (json_is_string(v))
        *out = json_string_value(v);
    return YK_OK;
}

yk_status yk__json_list(const yk__json_part *part, const char *key, const json_t **out, yk_error *err)
{
    const json_t *v;
    if (member_find(part, key, &v, err))
        return err->status;
    if (v && !json_is_array(v))
        return member_fail(part, key, "a list", v, err);
    if (v)
        *out = v;
    return YK_OK;
}

/* `value` is a new object or array, which the builder owns; NULL if jansson had no memory for it. */
yk__json_builder yk__json_begin(json_t *value)
{
    return (yk__json_builder){value, !value};
}

void yk__json_put(yk__json_builder *builder, const char *key, json_t *v)
{
    if (json_object_set_new(builder->value, key, v))
        builder->failed = true;
}

void yk__json_append(yk__json_builder *builder, json_t *v)
{
    if (json_array_append_new(builder->value, v))
        builder->failed = true;
}

json_t *yk__json_end(yk__json_builder *builder)
{
    if (builder->failed)
        json_decref(builder->value);
    return builder->failed ? NULL : builder->value;
}

/* Text under construction, in memory that yk__free releases. */
typedef struct text_buffer {
    char *text;
    size_t length, capacity; /* bytes; length does not count the NUL */
    bool failed;
} text_buffer;

static int append_text(const char *text, size_t bytes, void *user)
{
    text_buffer *buffer = user;
    if (buffer->failed || yk__grow(&buffer->text, &buffer->capacity, buffer->length + bytes + 1, 1)) {
        buffer->failed = true;
        return -1;
    }
    memcpy(buffer->text + buffer->length, text, bytes);
    buffer->length += bytes;
    buffer->text[buffer->length] = 0;
    return 0;
}

char *yk__json_dump(const json_t *v, size_t flags)
{
    text_buffer buffer = {.text = NULL};
    if (!json_dump_callback(v, append_text, &buffer, flags) && !buffer.failed)
        return buffer.text;
    yk__free(buffer.text);
    return NULL;
}
