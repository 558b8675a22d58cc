/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labelled rows from CSV, JSON lines and plain lines. Texts and label names are collected while reading; names are numbered at the
 * end, when all are known, by the rule of rows.h.
 */
#include "core/read/rows.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/read/csv.h"
#include "core/read/jsonl.h"
#include "core/text/strmap.h"
#include "core/text/text.h"
#include "core/io/json.h"
#include "core/io/labels.h"

struct rows_reader {
    const char *path;
    const yk__rows_options *options;
    yk__rows *rows;
    size_t text_len, text_cap, at_cap, label_cap, line_cap;
    yk__strmap *names; /* label names in order of appearance, when labels are names */
    yk__labels model;  /* names of the model's classes, where it has any */
    int64_t first_line;
};

static yk_status fail_label(const struct rows_reader *l, int64_t line, const char *label, const char *expected,
                            yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": label '%.40s', expected %s", l->path, line, label,
                    expected);
}

/* ---- labels ---- */

static int is_integer(const char *s)
{
    s += *s == '-' || *s == '+';
    return *s && s[strspn(s, "0123456789")] == 0;
}

/* "0.1", "1e-3", "nan": a measured number, which would become the name of a class. */
static int is_fraction(const char *s)
{
    const size_t n = strspn(s + (*s == '-' || *s == '+'), "0123456789.eE+-") + (*s == '-' || *s == '+');
    return !strcasecmp(s, "nan") || !strcasecmp(s, "inf") || !strcasecmp(s, "-inf") ||
           (!s[n] && strpbrk(s, "0123456789") && !isalpha((unsigned char)*s));
}

static yk_status integer_label(const struct rows_reader *l, const char *label, int64_t line, int32_t *id, yk_error *err)
{
    long long v;
    char range[64];
    int classes = l->options->names_of ? l->options->names_of->classes : l->options->classes;
    if (!is_integer(label))
        return fail_label(l, line, label, "an integer as in the rows before", err);
    errno = 0;
    v = strtoll(label, NULL, 10);
    snprintf(range, sizeof range, "an integer from 0 to %d", classes ? classes - 1 : INT32_MAX - 1);
    if (errno || v < 0 || v > (classes ? classes - 1 : INT32_MAX - 1))
        return fail_label(l, line, label, range, err);
    *id = (int32_t)v;
    if (*id >= l->rows->classes)
        l->rows->classes = *id + 1;
    return YK_OK;
}

static yk_status name_label(struct rows_reader *l, const char *label, int64_t line, int32_t *id, yk_error *err)
{
    if (!*label)
        return fail_label(l, line, label, "an integer or a name", err);
    if (is_integer(label))
        return fail_label(l, line, label, "a name as in the rows before", err);
    if (is_fraction(label) && !l->options->categories)
        return fail_label(l, line, label, "an integer or a name: a number with a fraction is no class (categories=FILE lists such names)",
                          err);
    *id = yk__strmap_get(l->names, label, strlen(label));
    if (*id >= 0)
        return YK_OK;
    *id = yk__strmap_count(l->names);
    return yk__strmap_put(l->names, label, strlen(label), *id) ? yk__fail_mem(err, strlen(label), "a label") : YK_OK;
}

static yk_status first_label(struct rows_reader *l, const char *label, int64_t line, yk_error *err)
{
    l->first_line = line;
    if (is_integer(label))
        return YK_OK;
    l->names = yk__strmap_new();
    return l->names ? YK_OK : yk__fail_mem(err, 64, "label names");
}

/* ---- rows ---- */

static yk_status add_row(struct rows_reader *l, const char *label, const char *text, size_t bytes, int64_t line,
                         yk_error *err)
{
    yk__rows *r = l->rows;
    size_t n = (size_t)r->count;
    int32_t id = 0;
    yk_status s = l->first_line || l->options->unlabelled ? YK_OK : first_label(l, label, line, err);
    if (!s && !l->options->unlabelled)
        s = l->names ? name_label(l, label, line, &id, err) : integer_label(l, label, line, &id, err);
    if (s)
        return s;
    if (bytes == 0) {
        r->dropped++;
        return YK_OK;
    }
    if (yk__grow(&r->text, &l->text_cap, l->text_len + bytes, 1) ||
        yk__grow(&r->at, &l->at_cap, n + 2, sizeof *r->at) ||
        yk__grow(&r->label, &l->label_cap, n + 1, sizeof *r->label) ||
        yk__grow(&r->line, &l->line_cap, n + 1, sizeof *r->line))
        return yk__fail_mem(err, l->text_len + bytes, "rows");
    memcpy(r->text + l->text_len, text, bytes);
    r->at[n] = l->text_len;
    l->text_len += bytes;
    r->at[n + 1] = l->text_len;
    r->label[n] = id;
    r->line[n] = line;
    r->count++;
    return YK_OK;
}

static yk_status column_find(const struct rows_reader *l, const yk__csv *c, const char *name, int *column,
                             yk_error *err)
{
    char names[256] = "";
    size_t n = 0;
    *column = yk__csv_find(c, name);
    if (*column >= 0)
        return YK_OK;
    for (int i = 0; i < yk__csv_columns(c) && n < sizeof names - 60; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s'%.40s'", i ? ", " : "", yk__csv_column(c, i));
    return yk__fail(err, YK_E_FORMAT, "%s: line 1: no column '%s' in the header (it has %s)", l->path, name, names);
}

static yk_status csv_rows(struct rows_reader *l, yk__csv *c, yk_error *err)
{
    int text = 0, label = 0, more = 1;
    yk_status s = l->options->unlabelled
                      ? YK_OK
                      : column_find(l, c, l->options->label ? l->options->label : "label", &label, err);
    if (!s)
        s = column_find(l, c, l->options->text ? l->options->text : "text", &text, err);
    while (!s) {
        const char *t;
        size_t bytes;
        s = yk__csv_next(c, &more, err);
        if (s || !more)
            break;
        t = yk__csv_field(c, text, &bytes);
        s = add_row(l, l->options->unlabelled ? NULL : yk__csv_field(c, label, NULL), t, bytes, yk__csv_line(c), err);
    }
    return s;
}

static yk_status from_csv(struct rows_reader *l, yk__file *f, yk_error *err)
{
    yk__csv_options o = {.delimiter = l->options->delimiter, .no_quotes = l->options->no_quotes};
    yk__csv *c;
    yk_status s = yk__csv_read(f, &o, &c, err);
    if (s)
        return s;
    s = csv_rows(l, c, err);
    yk__csv_close(c);
    return s;
}

static yk_status json_row(struct rows_reader *l, const yk__jsonl *j, yk_error *err)
{
    const char *tkey = l->options->text ? l->options->text : "text",
               *lkey = l->options->label ? l->options->label : "label";
    const json_t *t = json_object_get(yk__jsonl_value(j), tkey), *v = json_object_get(yk__jsonl_value(j), lkey);
    char number[32];
    const char *label = json_string_value(v);
    if (!json_is_string(t))
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": key '%s': expected a string, found %s", l->path,
                        yk__jsonl_line(j), tkey, yk__json_type(t));
    if (json_is_integer(v)) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        label = number;
    }
    if (!label && !l->options->unlabelled)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": key '%s': expected an integer or a string, found %s",
                        l->path, yk__jsonl_line(j), lkey, yk__json_type(v));
    return add_row(l, label, json_string_value(t), json_string_length(t), yk__jsonl_line(j), err);
}

static yk_status from_json(struct rows_reader *l, yk__file *f, yk_error *err)
{
    yk__jsonl *j;
    int more = 1;
    yk_status s = yk__jsonl_read(f, &j, err);
    if (s)
        return s;
    while (!s) {
        s = yk__jsonl_next(j, &more, err);
        if (s || !more)
            break;
        s = json_row(l, j, err);
    }
    yk__jsonl_close(j);
    return s;
}

static yk_status from_lines(struct rows_reader *l, yk__file *f, yk_error *err)
{
    char *text;
    size_t bytes, end = 0;
    int64_t line = 1;
    yk_status s = yk__text_read(f, 0, &text, &bytes, err);
    if (s)
        return s;
    for (size_t at = 0; at < bytes && !s; at = end + 1, line++) {
        const char *stop = memchr(text + at, '\n', bytes - at);
        end = stop ? (size_t)(stop - text) : bytes;
        const size_t n = end - at - (end > at && text[end - 1] == '\r');
        s = add_row(l, NULL, text + at, n, line, err);
    }
    yk__free(text);
    return s;
}

/* ---- numbering the names ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static yk_status set_names(yk__rows *r, int count, yk_error *err)
{
    r->names = yk__calloc((size_t)count, sizeof *r->names);
    if (!r->names)
        return yk__fail_mem(err, (size_t)count * sizeof *r->names, "label names");
    r->classes = count;
    return YK_OK;
}

static yk_status names_sorted(struct rows_reader *l, yk_error *err)
{
    int n = yk__strmap_count(l->names);
    yk_status s = set_names(l->rows, n, err);
    for (int i = 0; i < n && !s; i++) {
        l->rows->names[i] = yk__strdup(yk__strmap_key(l->names, i));
        if (!l->rows->names[i])
            s = yk__fail_mem(err, 64, "a label name");
    }
    if (!s)
        qsort(l->rows->names, (size_t)n, sizeof *l->rows->names, by_text);
    return s;
}

static yk_status names_copied(struct rows_reader *l, char *const *name, int count, yk_error *err)
{
    yk__labels copy;
    yk_status s = yk__labels_copy(name, count, &copy, err);
    if (s)
        return s;
    l->rows->names = copy.name;
    l->rows->classes = copy.count;
    return YK_OK;
}

static yk_status names_like(struct rows_reader *l, const yk__rows *like, yk_error *err)
{
    if (!like->names)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: line %" PRId64 ": labels are names, expected integers as in the training rows", l->path,
                        l->first_line);
    return names_copied(l, like->names, like->classes, err);
}

static int names_known(const struct rows_reader *l, char *const *name, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n += yk__strmap_get(l->names, name[i], strlen(name[i])) >= 0;
    return n;
}

/* Evaluation goes by the model's names, whatever is in the file; training only if the file has no others. */
static bool by_model(const struct rows_reader *l)
{
    const yk__labels *m = &l->model;
    if (!m->count || yk__labels_preset(m))
        return false;
    return !l->options->trains || names_known(l, m->name, m->count) == yk__strmap_count(l->names);
}

static yk_status names_listed(struct rows_reader *l, const char *path, yk_error *err)
{
    json_t *list;
    yk_status s = yk__json_load(path, 0, &list, err);
    if (s)
        return s;
    if (!json_is_array(list) || json_array_size(list) < 2 || json_array_size(list) > INT32_MAX)
        s = yk__fail(err, YK_E_FORMAT, "%s: expected an array of at least two label names", path);
    else
        s = set_names(l->rows, (int)json_array_size(list), err);
    for (int i = 0; !s && i < l->rows->classes; i++) {
        const char *name = json_string_value(json_array_get(list, (size_t)i));
        if (!name)
            s = yk__fail(err, YK_E_FORMAT, "%s: element %d: expected a string", path, i);
        else if (!(l->rows->names[i] = yk__strdup(name)))
            s = yk__fail_mem(err, strlen(name), "a label name");
    }
    json_decref(list);
    return s;
}

/* Every row's name gets its place in r->names. */
static yk_status labels_renumber(struct rows_reader *l, yk_error *err)
{
    int n = yk__strmap_count(l->names);
    const char *expected = by_model(l) ? "one of the names in the model's id2label" : "one of the known label names";
    int32_t *to = yk__malloc((size_t)n * sizeof *to);
    if (!to)
        return yk__fail_mem(err, (size_t)n * sizeof *to, "label numbers");
    for (int i = 0; i < n; i++)
        to[i] = -1;
    for (int i = 0; i < l->rows->classes; i++) {
        int k = yk__strmap_get(l->names, l->rows->names[i], strlen(l->rows->names[i]));
        if (k >= 0)
            to[k] = i;
    }
    for (int64_t i = 0; i < l->rows->count; i++) {
        int32_t k = l->rows->label[i];
        if (to[k] < 0) {
            fail_label(l, l->rows->line[i], yk__strmap_key(l->names, k), expected, err);
            yk__free(to);
            return err->status;
        }
        l->rows->label[i] = to[k];
    }
    yk__free(to);
    return YK_OK;
}

static yk_status number_names(struct rows_reader *l, yk_error *err)
{
    const char *slash = strrchr(l->path, '/');
    char *beside =
        slash ? yk__format("%.*s/categories.json", (int)(slash - l->path), l->path) : yk__strdup("categories.json");
    yk_status s;
    if (!beside)
        return yk__fail_mem(err, strlen(l->path), "a path");
    if (l->options->names_of)
        s = names_like(l, l->options->names_of, err);
    else if (by_model(l))
        s = names_copied(l, l->model.name, l->model.count, err);
    else if (l->options->categories || !access(beside, R_OK))
        s = names_listed(l, l->options->categories ? l->options->categories : beside, err);
    else if (yk__strmap_count(l->names) < 2)
        s = fail_label(l, l->first_line, yk__strmap_key(l->names, 0), "an integer, or at least two different names",
                       err);
    else
        s = names_sorted(l, err);
    yk__free(beside);
    if (!s)
        s = labels_renumber(l, err);
    return s;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static yk_status count_different(const yk__rows *r, int64_t *different, yk_error *err)
{
    int32_t *sorted = yk__malloc((size_t)r->count * sizeof *sorted);
    if (!sorted)
        return yk__fail_mem(err, (size_t)r->count * sizeof *sorted, "labels");
    memcpy(sorted, r->label, (size_t)r->count * sizeof *sorted);
    qsort(sorted, (size_t)r->count, sizeof *sorted, by_number);
    *different = 1;
    for (int64_t i = 1; i < r->count; i++)
        *different += sorted[i] != sorted[i - 1];
    yk__free(sorted);
    return YK_OK;
}

/* The largest integer makes the classes: where most of very many would have no row, the column is hardly one of labels. */
static yk_status check_classes(const struct rows_reader *l, yk_error *err)
{
    const yk__rows *r = l->rows;
    int64_t different = 0, i = 0;
    char expected[160], label[16];
    if (r->classes <= 1000)
        return YK_OK;
    if (count_different(r, &different, err) || r->classes <= 10 * different)
        return err->status;
    while (i + 1 < r->count && r->label[i] + 1 != r->classes) /* it may have had no text: then the last */
        i++;
    snprintf(expected, sizeof expected, "the number of a class: it would make %d classes, %" PRId64 " of which have rows "
             "(classes=%d says that this is meant)", r->classes, different, r->classes);
    snprintf(label, sizeof label, "%d", r->classes - 1);
    return fail_label(l, r->line[i], label, expected, err);
}

static yk_status rows_finish(struct rows_reader *l, yk_error *err)
{
    yk__rows *r = l->rows;
    yk_status s;
    if (r->count == 0)
        return yk__fail(err, YK_E_FORMAT, "%s: expected rows%s, found none%s", l->path,
                        l->options->lines ? "" : " after the header", r->dropped ? " with a text" : "");
    if (l->options->unlabelled) {
        r->classes = l->model.count;
        return l->model.count && !yk__labels_preset(&l->model) ? names_copied(l, l->model.name, l->model.count, err) : YK_OK;
    }
    if (l->names) {
        s = number_names(l, err);
        if (!s && l->options->classes && r->classes > l->options->classes)
            s = yk__fail(err, YK_E_FORMAT, "%s: %d different labels, expected at most %d", l->path, r->classes,
                         l->options->classes);
        return s;
    }
    if (!l->options->classes && !l->options->names_of)
        return check_classes(l, err);
    r->classes = l->options->names_of ? l->options->names_of->classes : l->options->classes;
    return YK_OK;
}

yk_status yk__rows_read(yk__file *f, const yk__rows_options *o, yk__rows **out, yk_error *err)
{
    struct rows_reader l = {.path = yk__file_path(f), .options = o, .rows = yk__calloc(1, sizeof(yk__rows))};
    yk_status s;
    if (!l.rows)
        return yk__fail_mem(err, sizeof *l.rows, "rows");
    s = o->model ? yk__labels_load(o->model, &l.model, err) : YK_OK;
    if (!s)
        s = o->lines ? from_lines(&l, f, err) : o->json ? from_json(&l, f, err) : from_csv(&l, f, err);
    if (!s)
        s = rows_finish(&l, err);
    yk__strmap_free(l.names);
    yk__labels_free(&l.model);
    if (s)
        yk__rows_close(l.rows);
    else
        *out = l.rows;
    return s;
}

yk_status yk__rows_open(const char *path, const yk__rows_options *o, yk__rows **out, yk_error *err)
{
    yk__file *f;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &f, err);
    if (s)
        return s;
    s = yk__rows_read(f, o, out, err);
    yk__file_close(f);
    return s;
}

void yk__rows_close(yk__rows *r)
{
    if (!r)
        return;
    for (int i = 0; r->names && i < r->classes; i++)
        yk__free(r->names[i]);
    yk__free(r->names);
    yk__free(r->text);
    yk__free(r->at);
    yk__free(r->label);
    yk__free(r->line);
    yk__free(r);
}
