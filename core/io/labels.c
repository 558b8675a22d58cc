/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of classes, to and from config.json's id2label and label2id (Hugging Face). settings.c reads and writes a model's file with it;
 * core/read/rows.c numbers a data set's labels by the names of a model's file. The caller's thread; yk__labels_free frees the names.
 */
#include "core/io/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void yk__labels_free(yk__labels *labels)
{
    for (int i = 0; i < labels->count; i++)
        yk__free(labels->name[i]);
    yk__free(labels->name);
    *labels = (yk__labels){0};
}

static yk_status labels_new(int count, yk__labels *labels, yk_error *err)
{
    *labels = (yk__labels){.name = yk__calloc((size_t)count + 1, sizeof *labels->name), .count = count};
    if (labels->name)
        return YK_OK;
    labels->count = 0;
    return yk__fail_mem(err, ((size_t)count + 1) * sizeof *labels->name, "label names");
}

static yk_status label_set(yk__labels *labels, int i, const char *name, yk_error *err)
{
    labels->name[i] = yk__strdup(name);
    return labels->name[i] ? YK_OK : yk__fail_mem(err, strlen(name), "a label name");
}

static const char *preset_name(int i, char text[24])
{
    snprintf(text, 24, "LABEL_%d", i);
    return text;
}

bool yk__labels_preset(const yk__labels *labels)
{
    char text[24];
    for (int i = 0; i < labels->count; i++)
        if (strcmp(labels->name[i], preset_name(i, text)) != 0)
            return false;
    return true;
}

yk_status yk__labels_copy(char *const *name, int count, yk__labels *out, yk_error *err)
{
    yk__labels labels;
    yk_status s = labels_new(count, &labels, err);
    for (int i = 0; i < count && !s; i++)
        s = label_set(&labels, i, name[i], err);
    if (s)
        yk__labels_free(&labels);
    else
        *out = labels;
    return s;
}

/* The number that label2id gives a name, which some files have as text: "0"; -1 if the value is no whole number from 0 on. */
static json_int_t number_of(const json_t *v)
{
    const char *text = json_is_string(v) ? json_string_value(v) : "";
    const size_t n = strlen(text);
    if (n && n < 10 && strspn(text, "0123456789") == n)
        return atol(text);
    return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : -1;
}

/* label2id numbers a data set's names in transformers' scripts, and id2label names the results: the two must not contradict each other. */
static yk_status numbers_check(const json_t *numbers, const char *path, const yk__labels *labels, yk_error *err)
{
    if (numbers && !json_is_object(numbers) && !json_is_null(numbers))
        return yk__fail(err, YK_E_FORMAT, "%s: label2id: expected an object, found %s", path, yk__json_type(numbers));
    for (int i = 0; i < labels->count; i++) {
        const json_t *v = json_object_get(numbers, labels->name[i]);
        const json_int_t k = number_of(v);
        if (v && k < 0)
            return yk__fail(err, YK_E_FORMAT, "%s: label2id: \"%.60s\": expected a whole number from 0 on, found %s", path,
                            labels->name[i], json_is_integer(v) ? "a negative one" : yk__json_type(v));
        if (v && (k >= labels->count || strcmp(labels->name[k], labels->name[i]) != 0))
            return yk__fail(err, YK_E_FORMAT, "%s: id2label names class %d \"%.60s\", and label2id gives that name another number: make "
                            "them agree", path, i, labels->name[i]);
    }
    return YK_OK;
}

/* Refuses a name that two classes have, as label2id could not tell them apart. */
static yk_status names_check(const char *path, const yk__labels *labels, yk_error *err)
{
    json_t *last = yk__labels_map(labels, true); /* the last class of each name */
    yk_status s = last ? YK_OK : yk__fail_mem(err, 0, "label names");
    for (int i = 0; i < labels->count && !s; i++)
        if (json_integer_value(json_object_get(last, labels->name[i])) != i)
            s = yk__fail(err, YK_E_FORMAT, "%s: id2label names class %d and another one \"%.60s\": expected different names", path, i,
                         labels->name[i]);
    json_decref(last);
    return s;
}

static yk_status names_read(const json_t *map, const char *path, yk__labels *labels, yk_error *err)
{
    if (!json_is_object(map) || json_object_size(map) > INT32_MAX - 1)
        return yk__fail(err, YK_E_FORMAT, "%s: id2label: expected an object, found %s", path, yk__json_type(map));
    yk_status s = labels_new((int)json_object_size(map), labels, err);
    for (int i = 0; i < labels->count && !s; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        const json_t *v = json_object_get(map, key);
        s = json_is_string(v)
                ? label_set(labels, i, json_string_value(v), err)
                : yk__fail(err, YK_E_FORMAT, "%s: id2label has %d names: key \"%s\": expected a string, found %s", path,
                           labels->count, key, yk__json_type(v));
    }
    if (!s)
        s = names_check(path, labels, err);
    return s;
}

/* Names that label2id numbers, if no id2label names them. The numbers must be 0 to n-1. */
static yk_status numbers_read(const json_t *numbers, const char *path, yk__labels *labels, yk_error *err)
{
    const int named = labels->count; /* LABEL_0, .. */
    const char *name;
    json_t *v;
    yk__labels_free(labels);
    yk_status s = labels_new((int)json_object_size(numbers), labels, err);
    if (!s && named && labels->count != named)
        return yk__fail(err, YK_E_FORMAT, "%s: label2id has %d names, and id2label %d: make them agree", path, labels->count, named);
    json_object_foreach((json_t *)numbers, name, v)
    {
        const json_int_t k = number_of(v);
        if (!s && (k < 0 || k >= labels->count || labels->name[k]))
            s = yk__fail(err, YK_E_FORMAT, "%s: label2id has %d names: \"%.60s\": expected a number from 0 to %d that no other name has",
                         path, labels->count, name, labels->count - 1);
        if (!s)
            s = label_set(labels, (int)k, name, err);
    }
    return s;
}

/* transformers' scripts number data by a label2id with names of its own, while id2label is transformers' preset. */
static bool numbers_name(const json_t *numbers, const yk__labels *labels)
{
    bool other = false;
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)numbers, name, v)
        other |= strncmp(name, "LABEL_", 6) != 0;
    return other && yk__labels_preset(labels);
}

/* num_labels of the same file. */
static yk_status count_check(const json_t *config, const char *path, const yk__labels *labels, yk_error *err)
{
    const json_t *v = json_object_get(config, "num_labels");
    if (!labels->count || !v || json_is_null(v) || number_of(v) == labels->count)
        return YK_OK;
    return yk__fail(err, YK_E_FORMAT, "%s: num_labels is not the number of names in id2label or label2id, %d: make them agree", path,
                    labels->count);
}

yk_status yk__labels_of(const json_t *config, const char *path, yk__labels *out, yk_error *err)
{
    const json_t *map = json_object_get(config, "id2label"), *numbers = json_object_get(config, "label2id");
    yk__labels labels = {0};
    yk_status s = map && !json_is_null(map) ? names_read(map, path, &labels, err) : YK_OK;
    if (!s && numbers_name(numbers, &labels))
        s = numbers_read(numbers, path, &labels, err);
    else if (!s)
        s = numbers_check(numbers, path, &labels, err);
    if (!s)
        s = count_check(config, path, &labels, err);
    if (s)
        yk__labels_free(&labels);
    else
        *out = labels;
    return s;
}

yk_status yk__labels_load(const char *path, yk__labels *out, yk_error *err)
{
    json_t *config;
    yk_status s = yk__json_load(path, YK__JSON_UNIQUE_KEYS, &config, err);
    if (s)
        return s;
    s = yk__labels_of(config, path, out, err);
    json_decref(config);
    return s;
}

json_t *yk__labels_map(const yk__labels *labels, bool by_name)
{
    json_t *o = json_object();
    for (int i = 0; i < labels->count && o; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        if (by_name ? json_object_set_new(o, labels->name[i], json_integer(i))
                    : json_object_set_new(o, key, json_string(labels->name[i]))) {
            json_decref(o);
            o = NULL;
        }
    }
    return o;
}
