/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labelled rows from CSV, JSON lines and plain lines, as texts and label numbers in memory. kind_rows.c and `yoke inspect` open files with
 * it, in the opening thread; errors name file and line. Texts and label names are collected while reading; names are numbered at the end,
 * when all are known, by the rule of rows.h.
 */
#include "core/read/rows.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/read/csv.h"
#include "core/read/jsonl.h"
#include "core/read/row_layouts.h"
#include "core/text/strmap.h"
#include "core/io/text.h"
#include "core/io/json.h"
#include "core/io/labels.h"

struct rows_reader {
    const char *path;
    const yk__rows_options *options;
    yk__rows *rows;
    size_t text_len, text_cap, at_cap, label_cap, number_cap, line_cap;
    yk__strmap *names; /* label names in order of appearance, when labels are names */
    yk__labels model;  /* names of the model's classes, empty if absent */
    int64_t first_line;
};

static yk_status fail_label(const struct rows_reader *reader, int64_t line, const char *label, const char *expected,
                            yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": label '%.40s', expected %s", reader->path, line, label,
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

/* " 1": a number for pandas; as a name it would be numbered by its order among the names. */
static bool is_padded_number(const char *s)
{
    const size_t before = strspn(s, " \t"), n = strlen(s + before);
    char number[32];
    size_t kept = n;
    while (kept && strchr(" \t", s[before + kept - 1]))
        kept--;
    if (kept == strlen(s) || kept >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)kept, s + before);
    return is_integer(number) || is_fraction(number);
}

/* True if other whole numbers than their own name the model's classes, as "1" to "5" of stars: then whole numbers are names. */
static bool model_names_numbers(const struct rows_reader *reader)
{
    char own[16];
    for (int i = 0; i < reader->model.count && !reader->options->names_of; i++) {
        snprintf(own, sizeof own, "%d", i);
        if (is_integer(reader->model.name[i]) && strcmp(reader->model.name[i], own) != 0)
            return true;
    }
    return false;
}

/* How many classes integers may name; 0: as many as there are. An evaluation is held to the model's. */
static int classes_bound(const struct rows_reader *reader)
{
    const yk__rows_options *options = reader->options;
    const int model = options->trains ? 0 : reader->model.count;
    return options->names_of ? options->names_of->classes : options->classes ? options->classes : model;
}

static yk_status integer_label(const struct rows_reader *reader, const char *label, int64_t line, int32_t *id,
                               yk_error *err)
{
    long long v;
    char range[64];
    const int classes = classes_bound(reader);
    if (!is_integer(label))
        return fail_label(reader, line, label, "an integer as in the rows before", err);
    errno = 0;
    v = strtoll(label, NULL, 10);
    snprintf(range, sizeof range, "an integer from 0 to %d", classes ? classes - 1 : INT32_MAX - 1);
    if (errno || v < 0 || v > (classes ? classes - 1 : INT32_MAX - 1))
        return fail_label(reader, line, label, range, err);
    *id = (int32_t)v;
    if (*id >= reader->rows->classes)
        reader->rows->classes = *id + 1;
    return YK_OK;
}

static yk_status name_label(struct rows_reader *reader, const char *label, int64_t line, int32_t *id, yk_error *err)
{
    if (!*label)
        return fail_label(reader, line, label, "an integer or a name", err);
    if (is_integer(label) && !model_names_numbers(reader))
        return fail_label(reader, line, label, "a name as in the rows before", err);
    if (is_fraction(label) && !reader->options->categories && !model_names_numbers(reader))
        return fail_label(
            reader, line, label,
            "an integer or a name: a number with a fraction is no class (categories=FILE lists such names)", err);
    if (is_padded_number(label) && !reader->options->categories && !model_names_numbers(reader))
        return fail_label(reader, line, label, "an integer or a name: take the blanks beside the number out", err);
    *id = yk__strmap_get(reader->names, label, strlen(label));
    if (*id >= 0)
        return YK_OK;
    *id = yk__strmap_count(reader->names);
    return yk__strmap_put(reader->names, label, strlen(label), *id) ? yk__fail_mem(err, strlen(label), "a label")
                                                                    : YK_OK;
}

static yk_status number_label(const struct rows_reader *reader, const char *label, int64_t line, float *number, yk_error *err)
{
    char *end;
    *number = (float)yk__number_read(label, &end);
    return end == label || *end || !isfinite(*number) ? fail_label(reader, line, label, "a number, as num_labels=1 makes a "
                                                              "regression (for classes: --model-config num_labels=N, with --new-head for a "
                                                              "trained model)", err) : YK_OK;
}

static yk_status first_label(struct rows_reader *reader, const char *label, int64_t line, yk_error *err)
{
    reader->first_line = line;
    if (is_integer(label) && !model_names_numbers(reader))
        return YK_OK;
    reader->names = yk__strmap_new();
    return reader->names ? YK_OK : yk__fail_mem(err, 64, "label names");
}

/* ---- rows ---- */

/* The label of a row, as the class *id or as a number. */
static yk_status read_label(struct rows_reader *reader, const char *label, int64_t line, int32_t *id, float *number, yk_error *err)
{
    if (reader->options->unlabelled)
        return YK_OK;
    if (reader->options->numbers)
        return number_label(reader, label, line, number, err);
    if (!reader->first_line && first_label(reader, label, line, err))
        return err->status;
    return reader->names ? name_label(reader, label, line, id, err) : integer_label(reader, label, line, id, err);
}

static yk_status add_row(struct rows_reader *reader, const char *label, const char *text, size_t bytes, int64_t line,
                         yk_error *err)
{
    yk__rows *rows = reader->rows;
    size_t n = (size_t)rows->count;
    int32_t id = 0;
    float number = 0;
    if (read_label(reader, label, line, &id, &number, err))
        return err->status;
    if (bytes == 0) {
        rows->dropped++;
        return YK_OK;
    }
    if (yk__grow(&rows->text, &reader->text_cap, reader->text_len + bytes, 1) ||
        yk__grow(&rows->at, &reader->at_cap, n + 2, sizeof *rows->at) ||
        yk__grow(&rows->label, &reader->label_cap, n + 1, sizeof *rows->label) ||
        (reader->options->numbers && yk__grow(&rows->number, &reader->number_cap, n + 1, sizeof *rows->number)) ||
        yk__grow(&rows->line, &reader->line_cap, n + 1, sizeof *rows->line))
        return yk__fail_mem(err, reader->text_len + bytes, "rows");
    memcpy(rows->text + reader->text_len, text, bytes);
    rows->at[n] = reader->text_len;
    reader->text_len += bytes;
    rows->at[n + 1] = reader->text_len;
    rows->label[n] = id;
    if (rows->number)
        rows->number[n] = number;
    rows->line[n] = line;
    rows->count++;
    return YK_OK;
}

/* ---- columns and keys ---- */

static bool csv_has(const void *csv, const char *name)
{
    return yk__csv_find(csv, name) >= 0;
}

static bool json_has(const void *row, const char *key)
{
    return json_object_get(row, key);
}

static yk_status column_find(const struct rows_reader *reader, const yk__csv *csv, const char *name, int *column,
                             yk_error *err)
{
    char names[256] = "";
    size_t n = 0;
    *column = yk__csv_find(csv, name);
    if (*column >= 0)
        return YK_OK;
    for (int i = 0; i < yk__csv_columns(csv) && n < sizeof names - 60; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s'%.40s'", i ? ", " : "", yk__csv_column(csv, i));
    return yk__fail(err, YK_E_FORMAT, "%s: line 1: no column '%s' in the header (it has %s)%s", reader->path, name, names,
                    yk__row_layout_advice(csv_has, csv, (size_t)yk__csv_columns(csv), name));
}

static yk_status csv_rows(struct rows_reader *reader, yk__csv *csv, yk_error *err)
{
    int text = 0, label = 0, more = 1;
    yk_status s =
        reader->options->unlabelled
            ? YK_OK
            : column_find(reader, csv, reader->options->label ? reader->options->label : "label", &label, err);
    if (!s)
        s = column_find(reader, csv, reader->options->text ? reader->options->text : "text", &text, err);
    while (!s) {
        const char *t;
        size_t bytes;
        s = yk__csv_next(csv, &more, err);
        if (s || !more)
            break;
        t = yk__csv_field(csv, text, &bytes);
        s = add_row(reader, reader->options->unlabelled ? NULL : yk__csv_field(csv, label, NULL), t, bytes,
                    yk__csv_line(csv), err);
    }
    return s;
}

static yk_status from_csv(struct rows_reader *reader, yk__file *file, yk_error *err)
{
    yk__csv_options options = {.delimiter = reader->options->delimiter, .no_quotes = reader->options->no_quotes};
    yk__csv *csv;
    yk_status s = yk__csv_read(file, &options, &csv, err);
    if (s)
        return s;
    s = csv_rows(reader, csv, err);
    yk__csv_close(csv);
    return s;
}

static yk_status key_absent(const struct rows_reader *reader, int64_t line, json_t *row, const char *name, yk_error *err)
{
    char names[200] = "";
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(row, key, value)
        if (n < sizeof names - 60)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s'%.40s'", n ? ", " : "", key);
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": no key '%s' (it has %s)%s", reader->path, line, name, n ? names : "none",
                    yk__row_layout_advice(json_has, row, json_object_size(row), name));
}

static yk_status json_row(struct rows_reader *reader, const yk__jsonl *jsonl, yk_error *err)
{
    const char *tkey = reader->options->text ? reader->options->text : "text",
               *lkey = reader->options->label ? reader->options->label : "label";
    const json_t *t = json_object_get(yk__jsonl_value(jsonl), tkey), *v = json_object_get(yk__jsonl_value(jsonl), lkey);
    const char *label = json_string_value(v);
    yk__number number;
    if (!t || (!v && !reader->options->unlabelled))
        return key_absent(reader, yk__jsonl_line(jsonl), yk__jsonl_value(jsonl), t ? lkey : tkey, err);
    if (!json_is_string(t))
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": key '%s': expected a string, found %s", reader->path,
                        yk__jsonl_line(jsonl), tkey, yk__json_type(t));
    if (label && strlen(label) != json_string_length(v))
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": key '%s': expected a string without U+0000", reader->path,
                        yk__jsonl_line(jsonl), lkey);
    if (json_is_integer(v)) {
        snprintf(number.text, sizeof number.text, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        label = number.text;
    } else if (json_is_real(v) && reader->options->numbers) {
        number = yk__number_text(json_real_value(v), 17);
        label = number.text;
    }
    if (!label && !reader->options->unlabelled)
        return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ": key '%s': expected %s, found %s", reader->path,
                        yk__jsonl_line(jsonl), lkey, reader->options->numbers ? "a number" : "an integer or a string",
                        yk__json_type(v));
    return add_row(reader, label, json_string_value(t), json_string_length(t), yk__jsonl_line(jsonl), err);
}

static yk_status from_json(struct rows_reader *reader, yk__file *file, yk_error *err)
{
    yk__jsonl *jsonl;
    int more = 1;
    yk_status s = yk__jsonl_read(file, &jsonl, err);
    if (s)
        return s;
    while (!s) {
        s = yk__jsonl_next(jsonl, &more, err);
        if (s || !more)
            break;
        s = json_row(reader, jsonl, err);
    }
    yk__jsonl_close(jsonl);
    return s;
}

static yk_status from_lines(struct rows_reader *reader, yk__file *file, yk_error *err)
{
    char *text;
    size_t bytes, end = 0;
    int64_t line = 1;
    yk_status s = yk__text_read(file, 0, &text, &bytes, err);
    if (s)
        return s;
    for (size_t at = 0; at < bytes && !s; at = end + 1, line++) {
        const char *stop = memchr(text + at, '\n', bytes - at);
        end = stop ? (size_t)(stop - text) : bytes;
        const size_t n = end - at - (end > at && text[end - 1] == '\r');
        s = add_row(reader, NULL, text + at, n, line, err);
    }
    yk__free(text);
    return s;
}

/* ---- numbering the names ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static yk_status set_names(yk__rows *rows, int count, yk_error *err)
{
    rows->names = yk__calloc((size_t)count, sizeof *rows->names);
    if (!rows->names)
        return yk__fail_mem(err, (size_t)count * sizeof *rows->names, "label names");
    rows->classes = count;
    return YK_OK;
}

static yk_status names_sorted(struct rows_reader *reader, yk_error *err)
{
    int n = yk__strmap_count(reader->names);
    yk_status s = set_names(reader->rows, n, err);
    for (int i = 0; i < n && !s; i++) {
        reader->rows->names[i] = yk__strdup(yk__strmap_key(reader->names, i));
        if (!reader->rows->names[i])
            s = yk__fail_mem(err, 64, "a label name");
    }
    if (!s)
        qsort(reader->rows->names, (size_t)n, sizeof *reader->rows->names, by_text);
    return s;
}

static yk_status names_copied(struct rows_reader *reader, char *const *name, int count, yk_error *err)
{
    yk__labels copy;
    yk_status s = yk__labels_copy(name, count, &copy, err);
    if (s)
        return s;
    reader->rows->names = copy.name;
    reader->rows->classes = copy.count;
    return YK_OK;
}

static yk_status names_like(struct rows_reader *reader, const yk__rows *like, yk_error *err)
{
    if (!like->names)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: line %" PRId64 ": labels are names, expected integers as in the training rows",
                        reader->path, reader->first_line);
    return names_copied(reader, like->names, like->classes, err);
}

static int names_known(const struct rows_reader *reader, char *const *name, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n += yk__strmap_get(reader->names, name[i], strlen(name[i])) >= 0;
    return n;
}

/*
 * Evaluation goes by the model's names, whatever is in the file; training only if the file has no other ones. LABEL_0, LABEL_1, .. stand
 * for no names, unless the file has them too. A whole number that is a class's name is never that class's number.
 */
static bool by_model(const struct rows_reader *reader)
{
    const yk__labels *m = &reader->model;
    const int known = m->count ? names_known(reader, m->name, m->count) : 0, named = yk__strmap_count(reader->names);
    if (reader->options->new_head && (known != m->count || named != m->count))
        return false;
    if (!m->count || model_names_numbers(reader))
        return m->count > 0;
    return known == named || !(reader->options->trains || yk__labels_preset(m));
}

/* An evaluation of a model without names, or with transformers' own, takes the file's in the order of their bytes, which is a guess. */
static void say_guess(const struct rows_reader *reader)
{
    if (!reader->options->trains && reader->options->model)
        yk__log(YK_LOG_WARN, "data", "%s: the model names no classes: '%s' is taken for class 0, as the first name in sorted order "
                "(categories=FILE gives the order)", reader->path, reader->rows->names[0]);
}

/* Element i of the list, a name that no element before it has. */
static yk_status name_listed(struct rows_reader *reader, const char *path, const json_t *list, int i, yk__strmap *before, yk_error *err)
{
    const char *name = json_string_value(json_array_get(list, (size_t)i));
    const size_t length = name ? strlen(name) : 0;
    if (!name)
        return yk__fail(err, YK_E_FORMAT, "%s: element %d: expected a string", path, i);
    if (yk__strmap_get(before, name, length) >= 0)
        return yk__fail(err, YK_E_FORMAT, "%s: elements %d and %d are both '%.60s': expected a name for each class", path,
                        (int)yk__strmap_get(before, name, length), i, name);
    if (yk__strmap_put(before, name, length, i) || !(reader->rows->names[i] = yk__strdup(name)))
        return yk__fail_mem(err, length, "a label name");
    return YK_OK;
}

static yk_status names_listed(struct rows_reader *reader, const char *path, yk_error *err)
{
    json_t *list;
    yk__strmap *before;
    yk_status s = yk__json_load(path, 0, &list, err);
    if (s)
        return s;
    before = yk__strmap_new();
    if (!before)
        s = yk__fail_mem(err, 1, "label names");
    else if (!json_is_array(list) || json_array_size(list) < 2 || json_array_size(list) > INT32_MAX)
        s = yk__fail(err, YK_E_FORMAT, "%s: expected an array of at least two label names", path);
    else
        s = set_names(reader->rows, (int)json_array_size(list), err);
    for (int i = 0; !s && i < reader->rows->classes; i++)
        s = name_listed(reader, path, list, i, before, err);
    yk__strmap_free(before);
    json_decref(list);
    return s;
}

/* In text: the first names that a label may have. */
static void expected_names(const struct rows_reader *reader, char *text, size_t size)
{
    enum { SHOWN = 4 };
    size_t n = (size_t)snprintf(text, size, "one of the %s", by_model(reader) ? "names in the model's id2label" : "known label names");
    for (int i = 0; i < reader->rows->classes && i <= SHOWN; i++)
        n += (size_t)(i < SHOWN ? snprintf(text + n, size - n, "%s'%.40s'", i ? ", " : ": ", reader->rows->names[i])
                                : snprintf(text + n, size - n, ", .."));
}

/* Every row's name gets its place in reader->rows->names. */
static yk_status labels_renumber(struct rows_reader *reader, yk_error *err)
{
    int n = yk__strmap_count(reader->names);
    char expected[256];
    int32_t *to = yk__malloc((size_t)n * sizeof *to);
    if (!to)
        return yk__fail_mem(err, (size_t)n * sizeof *to, "label numbers");
    for (int i = 0; i < n; i++)
        to[i] = -1;
    for (int i = 0; i < reader->rows->classes; i++) {
        int k = yk__strmap_get(reader->names, reader->rows->names[i], strlen(reader->rows->names[i]));
        if (k >= 0)
            to[k] = i;
    }
    for (int64_t i = 0; i < reader->rows->count; i++) {
        int32_t k = reader->rows->label[i];
        if (to[k] < 0) {
            expected_names(reader, expected, sizeof expected);
            fail_label(reader, reader->rows->line[i], yk__strmap_key(reader->names, k), expected, err);
            yk__free(to);
            return err->status;
        }
        reader->rows->label[i] = to[k];
    }
    yk__free(to);
    return YK_OK;
}

static yk_status number_names(struct rows_reader *reader, yk_error *err)
{
    const char *slash = strrchr(reader->path, '/');
    char *categories_path = slash ? yk__format("%.*s/categories.json", (int)(slash - reader->path), reader->path)
                                  : yk__strdup("categories.json");
    yk_status s;
    if (!categories_path)
        return yk__fail_mem(err, strlen(reader->path), "a path");
    if (reader->options->names_of)
        s = names_like(reader, reader->options->names_of, err);
    else if (by_model(reader))
        s = names_copied(reader, reader->model.name, reader->model.count, err);
    else if (reader->options->categories || !access(categories_path, R_OK))
        s = names_listed(reader, reader->options->categories ? reader->options->categories : categories_path, err);
    else if (yk__strmap_count(reader->names) < 2)
        s = fail_label(reader, reader->first_line, yk__strmap_key(reader->names, 0),
                       "an integer, or at least two different names", err);
    else if (!(s = names_sorted(reader, err)))
        say_guess(reader);
    yk__free(categories_path);
    if (!s)
        s = labels_renumber(reader, err);
    return s;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static yk_status count_different(const yk__rows *rows, int64_t *different, yk_error *err)
{
    int32_t *sorted = yk__malloc((size_t)rows->count * sizeof *sorted);
    if (!sorted)
        return yk__fail_mem(err, (size_t)rows->count * sizeof *sorted, "labels");
    memcpy(sorted, rows->label, (size_t)rows->count * sizeof *sorted);
    qsort(sorted, (size_t)rows->count, sizeof *sorted, by_number);
    *different = 1;
    for (int64_t i = 1; i < rows->count; i++)
        *different += sorted[i] != sorted[i - 1];
    yk__free(sorted);
    return YK_OK;
}

/* The largest integer makes the classes: a column is hardly one of labels if most of very many classes would have no row. */
static yk_status check_classes(const struct rows_reader *reader, yk_error *err)
{
    const yk__rows *rows = reader->rows;
    int64_t different = 0, i = 0;
    char expected[160], label[16];
    if (rows->classes <= 1000)
        return YK_OK;
    if (count_different(rows, &different, err) || rows->classes <= 10 * different)
        return err->status;
    while (i + 1 < rows->count && rows->label[i] + 1 != rows->classes) /* it may have had no text: then the last */
        i++;
    snprintf(expected, sizeof expected,
             "the number of a class: it would make %d classes, %" PRId64 " of which have rows "
             "(classes=%d says that this is meant)",
             rows->classes, different, rows->classes);
    snprintf(label, sizeof label, "%d", rows->classes - 1);
    return fail_label(reader, rows->line[i], label, expected, err);
}

static yk_status rows_finish(struct rows_reader *reader, yk_error *err)
{
    yk__rows *rows = reader->rows;
    yk_status s;
    if (rows->count == 0 && !reader->options->may_be_empty)
        return yk__fail(err, YK_E_FORMAT, "%s: expected rows%s, found none%s", reader->path,
                        reader->options->lines ? "" : " after the header", rows->dropped ? " with a text" : "");
    if (reader->options->unlabelled) {
        rows->classes = reader->model.count;
        return reader->model.count && !yk__labels_preset(&reader->model)
                   ? names_copied(reader, reader->model.name, reader->model.count, err)
                   : YK_OK;
    }
    if (reader->options->numbers)
        return YK_OK;
    if (reader->names) {
        s = number_names(reader, err);
        if (!s && reader->options->classes && rows->classes > reader->options->classes)
            s = yk__fail(err, YK_E_FORMAT, "%s: %d different labels, expected at most %d", reader->path, rows->classes,
                         reader->options->classes);
        return s;
    }
    const int bound = classes_bound(reader);
    if (!bound && reader->model.count >= rows->classes)
        rows->classes = reader->model.count;
    else if (!bound)
        return check_classes(reader, err);
    if (bound)
        rows->classes = bound;
    return YK_OK;
}

static yk_status rows_from(struct rows_reader *reader, yk__file *file, yk_error *err)
{
    if (reader->options->may_be_empty && yk__file_left(file) == 0)
        return YK_OK;
    return reader->options->lines  ? from_lines(reader, file, err)
           : reader->options->json ? from_json(reader, file, err)
                                   : from_csv(reader, file, err);
}

yk_status yk__rows_read(yk__file *file, const yk__rows_options *options, yk__rows **out, yk_error *err)
{
    struct rows_reader reader = {
        .path = yk__file_path(file), .options = options, .rows = yk__calloc(1, sizeof(yk__rows))};
    yk_status s;
    if (!reader.rows)
        return yk__fail_mem(err, sizeof *reader.rows, "rows");
    s = yk__grow(&reader.rows->at, &reader.at_cap, 1, sizeof *reader.rows->at) ? yk__fail_mem(err, sizeof *reader.rows->at, "rows") : YK_OK;
    if (!s)
        reader.rows->at[0] = 0;
    if (!s && options->model)
        s = yk__labels_load(options->model, &reader.model, err);
    if (!s)
        s = rows_from(&reader, file, err);
    if (!s)
        s = rows_finish(&reader, err);
    yk__strmap_free(reader.names);
    yk__labels_free(&reader.model);
    if (s)
        yk__rows_close(reader.rows);
    else
        *out = reader.rows;
    return s;
}

yk_status yk__rows_open(const char *path, const yk__rows_options *options, yk__rows **out, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    s = yk__rows_read(file, options, out, err);
    yk__file_close(file);
    return s;
}

void yk__rows_close(yk__rows *rows)
{
    if (!rows)
        return;
    for (int i = 0; rows->names && i < rows->classes; i++)
        yk__free(rows->names[i]);
    yk__free(rows->names);
    yk__free(rows->text);
    yk__free(rows->at);
    yk__free(rows->label);
    yk__free(rows->number);
    yk__free(rows->line);
    yk__free(rows);
}
