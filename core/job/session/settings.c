/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yk_settings: key=value pairs from a string or a JSON object, as models and `yoke train` read them. Each getter checks kind and range.
 * yk_settings_check finds keys that nobody asked for, with the nearest known one.
 *
 * Models, tools and a user's program call it in the step thread. The settings own their texts until yk_settings_free.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YK_NO_HERE
#include <yoke/yoke.h>

#include "core/base/advance.h"
#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/base/number.h"
#include "core/io/folder.h"
#include "core/io/labels.h"

typedef struct pair {
    char *key, *value;  /* value is NULL for JSON null, and for JSON other than a text, number or list of them */
    json_t *own;        /* JSON of the file, to be saved as it was; NULL for a pair of the user's string or a later one */
    bool given, asked;  /* given: set by the user's string */
} pair;

struct yk_settings {
    yk_job *job;
    pair *pair;
    size_t n, cap;
    char **asked; /* names that the model asked for: all its settings */
    size_t n_asked, cap_asked;
    char source[256];
    yk__labels labels; /* class names; empty if unknown */
};

static void settings_fail(const yk_settings *s, yk_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void settings_fail(const yk_settings *s, yk_status status, const char *fmt, ...)
{
    char text[YK_ERROR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yk_fail(s->job, status, text);
}

static pair *pair_find(const yk_settings *s, const char *key)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->pair[i].key, key))
            return &s->pair[i];
    return NULL;
}

static void pair_put(yk_settings *s, const char *key, size_t n_key, const char *value, bool given)
{
    char *k = yk__strndup(key, n_key), *v = value ? yk__strdup(value) : NULL;
    pair *p = k ? pair_find(s, k) : NULL;
    if (!k || (value && !v) || (!p && yk__grow(&s->pair, &s->cap, s->n + 1, sizeof *s->pair))) {
        yk__free(k);
        yk__free(v);
        settings_fail(s, YK_E_MEM, "out of memory for settings");
        return;
    }
    if (p) {
        yk__free(k);
        yk__free(p->value);
        json_decref(p->own);
        p->value = v;
        p->own = NULL;
        return;
    }
    s->pair[s->n++] = (pair){.key = k, .value = v, .given = given};
}

/* "a=1,b=x" */
static void pairs_parse(yk_settings *s, const char *text)
{
    while (*text && yk_ok(s->job)) {
        const char *eq = strchr(text, '='), *end = eq ? strchr(eq, ',') : NULL;
        char value[512];
        size_t n;
        if (!eq || eq == text) {
            settings_fail(s, YK_E_ARG, "model configuration \"%s\": expected key=value,key=value", text);
            return;
        }
        n = end ? (size_t)(end - eq - 1) : strlen(eq + 1);
        if (n >= sizeof value) {
            settings_fail(s, YK_E_ARG, "model configuration: the value of \"%.*s\" is longer than 511 bytes", (int)(eq - text), text);
            return;
        }
        memcpy(value, eq + 1, n);
        value[n] = 0;
        pair_put(s, text, (size_t)(eq - text), value, true);
        text = end ? end + 1 : "";
    }
}

yk_settings *yk_settings_new(yk_job *job, const char *pairs)
{
    yk_settings *s = yk__calloc(1, sizeof *s);
    if (!s) {
        yk_fail(job, YK_E_MEM, "out of memory for settings");
        return NULL;
    }
    s->job = job;
    if (pairs)
        pairs_parse(s, pairs);
    return s;
}

/* Points *p to the text of a scalar. */
static bool scalar_text(const json_t *v, const char **p, char number[64])
{
    *p = number;
    if (json_is_string(v))
        *p = json_string_value(v);
    else if (json_is_integer(v))
        snprintf(number, 64, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(number, 64, "%s", yk__number_text(json_real_value(v), 17).text);
    else if (json_is_boolean(v))
        snprintf(number, 64, "%s", json_is_true(v) ? "true" : "false");
    else
        return false;
    return true;
}

/* Text of a scalar, or of a list's scalars joined by '+'; NULL for other JSON. False if memory is out. */
static bool json_text(const json_t *v, char **text)
{
    const char *one;
    char number[64];
    *text = NULL;
    if (!json_is_array(v))
        return !scalar_text(v, &one, number) || (*text = yk__strdup(one));
    *text = yk__strdup("");
    for (size_t i = 0; *text && i < json_array_size(v); i++) {
        const bool scalar = scalar_text(json_array_get(v, i), &one, number);
        char *longer = scalar ? yk__format("%s%s%s", *text, i ? "+" : "", one) : NULL;
        yk__free(*text);
        *text = longer;
        if (!scalar)
            return true;
    }
    return *text != NULL;
}

static void take_labels(yk_settings *s, const yk__labels *l)
{
    char number[16];
    const pair *p = pair_find(s, "num_labels");
    yk__labels_free(&s->labels);
    s->labels = *l;
    snprintf(number, sizeof number, "%d", l->count);
    if (l->count && !(p && p->given))
        pair_put(s, "num_labels", strlen("num_labels"), number, false);
}

const char *yk_settings_label(const yk_settings *s, uint32_t i)
{
    return s && (int64_t)i < s->labels.count ? s->labels.name[i] : NULL;
}

void yk_settings_labels(yk_settings *s, uint32_t n, const char *const *name)
{
    yk_error err = YK_ERROR_INIT;
    yk__labels l;
    if (!s || !yk_ok(s->job))
        return;
    if (yk__labels_copy((char *const *)(uintptr_t)name, (int)n, &l, &err))
        yk_fail(s->job, err.status, err.text);
    else
        take_labels(s, &l);
}

/* Sets the pairs that are unset; class names are no pairs. */
static void take_pairs(yk_settings *s, json_t *o)
{
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v)
    {
        if (pair_find(s, key) || !strcmp(key, "id2label") || !strcmp(key, "label2id"))
            continue;
        char *text;
        if (!json_text(v, &text))
            settings_fail(s, YK_E_MEM, "out of memory for settings");
        else
            pair_put(s, key, strlen(key), text, false);
        yk__free(text);
        if (!yk_ok(s->job))
            return;
        s->pair[s->n - 1].own = json_incref(v);
    }
}

void yk_settings_json(yk_settings *s, const char *file)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    yk__labels l = {0};
    json_t *o = NULL;
    if (!s || !yk_ok(s->job))
        return;
    if (yk__json_load(file, YK__JSON_UNIQUE_KEYS, &o, &err)) {
        yk_fail(s->job, err.status, err.text);
        return;
    }
    snprintf(s->source, sizeof s->source, "%s", file);
    if (!json_is_object(o))
        settings_fail(s, YK_E_FORMAT, "%s: expected a JSON object, found %s", file, yk__json_type(o));
    else if (yk__labels_of(o, file, &l, &err))
        yk_fail(s->job, err.status, err.text);
    take_pairs(s, o);
    if (l.count && !s->labels.count)
        take_labels(s, &l);
    else
        yk__labels_free(&l);
    json_decref(o);
}

void yk_settings_put(yk_settings *s, const char *key, const char *value)
{
    if (s)
        pair_put(s, key, strlen(key), value, false);
}

static void asked_add(yk_settings *s, const char *key)
{
    for (size_t i = 0; i < s->n_asked; i++)
        if (!strcmp(s->asked[i], key))
            return;
    if (!yk__grow(&s->asked, &s->cap_asked, s->n_asked + 1, sizeof *s->asked)) {
        s->asked[s->n_asked] = yk__strdup(key);
        s->n_asked += s->asked[s->n_asked] != NULL;
    }
}

static const char *value_of(yk_settings *s, const char *key)
{
    pair *p = pair_find(s, key);
    asked_add(s, key);
    if (p)
        p->asked = true;
    return p ? p->value : NULL;
}

bool yk_settings_has(yk_settings *s, const char *key)
{
    const pair *p = s ? pair_find(s, key) : NULL;
    return s && (value_of(s, key) != NULL || (p && p->own && !json_is_null(p->own)));
}

bool yk_settings_is_null(yk_settings *s, const char *key)
{
    const pair *p = s ? pair_find(s, key) : NULL;
    return p && !value_of(s, key) && json_is_null(p->own);
}

static void fail_value(const yk_settings *s, const char *key, const char *value, const char *expected)
{
    settings_fail(s, YK_E_ARG, "%s%ssetting %s=%s: expected %s", s->source, s->source[0] ? ": " : "", key, value, expected);
}

/* The text of a key's only value. NULL if the key is unset or null, and after an error for a list or an object. */
static const char *one_value(yk_settings *s, const char *key, const char *expected)
{
    const pair *p = s ? pair_find(s, key) : NULL;
    const char *v = s ? value_of(s, key) : NULL;
    if (!p || !(json_is_object(p->own) || json_is_array(p->own)))
        return v;
    settings_fail(s, YK_E_ARG, "%s: setting %s: expected %s, found %s", s->source, key, expected, yk__json_type(p->own));
    return NULL;
}

static const char whole_number[] = "a whole number from 0 to 2147483647";

int64_t yk_settings_int(yk_settings *s, const char *key, int64_t preset)
{
    const char *v = one_value(s, key, whole_number);
    char *end;
    long long n;
    if (!v)
        return preset;
    errno = 0;
    n = strtoll(v, &end, 10);
    if (errno || end == v || *end || n < 0 || n > INT32_MAX) {
        fail_value(s, key, v, whole_number);
        return preset;
    }
    return n;
}

double yk_settings_real(yk_settings *s, const char *key, double preset)
{
    const char *v = one_value(s, key, "a number");
    char *end;
    double n;
    if (!v)
        return preset;
    n = yk__number_read(v, &end);
    if (end == v || *end || !(n == n)) {
        fail_value(s, key, v, "a number");
        return preset;
    }
    return n;
}

bool yk_settings_bool(yk_settings *s, const char *key, bool preset)
{
    const char *v = one_value(s, key, "true or false");
    if (!v)
        return preset;
    if (json_is_string(pair_find(s, key)->own)) { /* transformers takes "false" for true */
        fail_value(s, key, v, "true or false, found a string");
        return preset;
    }
    if (!strcmp(v, "true") || !strcmp(v, "1"))
        return true;
    if (strcmp(v, "false") && strcmp(v, "0"))
        fail_value(s, key, v, "true or false");
    return false;
}

const char *yk_settings_text(yk_settings *s, const char *key, const char *preset)
{
    const char *v = s ? value_of(s, key) : NULL;
    return v ? v : preset;
}

uint32_t yk_settings_ints(yk_settings *s, const char *key, int64_t *out, uint32_t most)
{
    const char *v = s ? value_of(s, key) : NULL;
    uint32_t n = 0;
    if (!v && yk_settings_has(s, key)) /* an object, or a list of other things */
        fail_value(s, key, yk__json_type(pair_find(s, key)->own), "whole numbers joined by +, as in 512+256");
    while (v && *v) {
        char *end;
        long long one = strtoll(v, &end, 10);
        if (end == v || (*end && (*end != '+' || !end[1])) || one < 1 || one > INT32_MAX || n == most) {
            fail_value(s, key, v, "whole numbers joined by +, as in 512+256");
            return 0;
        }
        out[n++] = one;
        v = *end ? end + 1 : end;
    }
    return n;
}

static int names_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes "; there are a, b, .." with every key that the model asked for, set or not. */
static void write_known(const yk_settings *s, char *text, size_t size)
{
    const char **name = yk__calloc(s->n_asked + 1, sizeof *name);
    size_t used = 0;
    *text = 0;
    if (!name)
        return;
    memcpy(name, s->asked, s->n_asked * sizeof *name);
    qsort(name, s->n_asked, sizeof *name, names_order);
    for (size_t i = 0; i < s->n_asked && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "; there are ", name[i]);
    if (used >= size)
        memcpy(text + size - sizeof ", ..", ", ..", sizeof ", ..");
    yk__free(name);
}

/* True for a setting of the data, which the commands keep in config.json and read there. */
static bool is_of_data(const char *key)
{
    return !strcmp(key, "yoke_max_length") || !strcmp(key, "yoke_seq_len") || !strcmp(key, "yoke_mean") || !strcmp(key, "yoke_std");
}

void yk_settings_check(yk_settings *s)
{
    char known[500]; /* a GPT-2 has 17 keys in 200 bytes */
    if (!s || !yk_ok(s->job))
        return;
    for (size_t i = 0; i < s->n; i++) {
        const char *near;
        if (!s->pair[i].given || s->pair[i].asked || is_of_data(s->pair[i].key))
            continue;
        near = yk__nearest_word(s->pair[i].key, (const char *const *)s->asked, s->n_asked);
        write_known(s, known, sizeof known);
        settings_fail(s, YK_E_ARG, "this model has no setting \"%.100s\"%s%s%s%s", s->pair[i].key, near ? " (did you mean \"" : "",
                      near ? near : "", near ? "\"?)" : "", known);
        return;
    }
}

static bool says_nothing(const json_t *v)
{
    return json_is_null(v) || (json_is_string(v) && !json_string_length(v)) || (json_is_array(v) && !json_array_size(v)) ||
           (json_is_object(v) && !json_object_size(v));
}

const char *yk_settings_unread(const yk_settings *s, uint32_t *i)
{
    while (s && *i < s->n) {
        const pair *p = &s->pair[(*i)++];
        if (p->own && !p->asked && !says_nothing(p->own))
            return p->key;
    }
    return NULL;
}

/* JSON of a text value: numbers and booleans as such, a list for "architectures". */
static json_t *to_json(const char *key, const char *v)
{
    char *end;
    double real;
    if (!v)
        return json_null();
    if (!strcmp(v, "true") || !strcmp(v, "false"))
        return json_boolean(v[0] == 't');
    if (!strcmp(key, "architectures"))
        return json_pack("[s]", v);
    if (isdigit((unsigned char)v[0]) || v[0] == '-') {
        errno = 0;
        long long n = strtoll(v, &end, 10);
        if (!*end && !errno)
            return json_integer(n);
        real = yk__number_read(v, &end);
        if (!*end)
            return json_real(real);
    }
    return json_string(v);
}

/* Saves the class names, unless there are more than classes. Further classes get transformers' names. */
static void put_labels(const yk_settings *s, yk__json_builder *o)
{
    const json_int_t classes = json_integer_value(json_object_get(o->value, "num_labels"));
    json_t *names = NULL, *ids = NULL;
    if (!s->labels.count || classes < s->labels.count || classes > INT32_MAX)
        return;
    names = yk__labels_map(&s->labels, false);
    ids = yk__labels_map(&s->labels, true);
    for (int i = s->labels.count; i < classes && names && ids; i++) {
        char number[16], name[32];
        snprintf(number, sizeof number, "%d", i);
        snprintf(name, sizeof name, "LABEL_%d", i);
        if (json_object_set_new(names, number, json_string(name)) || json_object_set_new(ids, name, json_integer(i))) {
            json_decref(names);
            names = NULL; /* the builder tells it */
        }
    }
    yk__json_put(o, "id2label", names);
    yk__json_put(o, "label2id", ids);
}

/* True if 15 digits represent every number exactly: 0.1 is then written so, as people and transformers do, and not as
 * 0.10000000000000001. */
static bool are_short(const json_t *v)
{
    const char *key;
    json_t *one;
    if (json_is_real(v)) {
        char text[40];
        snprintf(text, sizeof text, "%s", yk__number_text(json_real_value(v), 15).text);
        return yk__number_read(text, NULL) == json_real_value(v);
    }
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!are_short(json_array_get(v, i)))
            return false;
    json_object_foreach((json_t *)(uintptr_t)v, key, one)
    {
        if (!are_short(one))
            return false;
    }
    return true;
}

void yk_settings_save(yk_settings *s, const char *file)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    if (!s)
        return;
    yk__json_builder o = yk__json_begin(json_object());
    for (size_t i = 0; i < s->n; i++) {
        const pair *p = &s->pair[i];
        yk__json_put(&o, p->key, p->own ? json_incref(p->own) : to_json(p->key, p->value));
    }
    put_labels(s, &o);
    json_t *all = yk__json_end(&o);
    char *text = all ? yk__json_dump(all, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(are_short(all) ? 15 : 17)) : NULL;
    json_decref(all);
    if (!text)
        settings_fail(s, YK_E_MEM, "%s: out of memory for its text", file);
    else if (yk__folder_write_file(file, text, strlen(text), &err))
        yk_fail(s->job, err.status, err.text);
    yk__free(text);
}

void yk_settings_free(yk_settings *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        yk__free(s->pair[i].key);
        yk__free(s->pair[i].value);
        json_decref(s->pair[i].own);
    }
    for (size_t i = 0; i < s->n_asked; i++)
        yk__free(s->asked[i]);
    yk__labels_free(&s->labels);
    yk__free(s->pair);
    yk__free(s->asked);
    yk__free(s);
}
