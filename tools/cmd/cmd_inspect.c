/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke inspect: the contents of a data, model or token file, or one line with the reason of its refusal. yoke.c calls it by its
 * table of commands, in the main thread. It opens files by the readers that training uses.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/read/cifar.h"
#include "core/read/csv.h"
#include "core/read/idx.h"
#include "core/read/jsonl.h"
#include "core/read/rows.h"
#include "core/data/spec.h"
#include "core/io/text.h"
#include "core/text/tokenizer.h"
#include "core/read/tokens.h"
#include "core/io/utf8.h"
#include "core/io/foreign.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "tools/cli.h"

static const yk__cli_option options[] = {
    {"as", "KIND[,KEY=VALUE..]", NULL,
     "idx, cifar10, csv, tsv, json, jsonl, text, tokens, safetensors or gzip (default: by content and name)", NULL},
    {"json", NULL, NULL, "one JSON object", NULL},
};

static const yk__cli_command command = {
    .name = "inspect",
    .usage = "FILE [--as KIND] [--json]",
    .summary = "show the contents of a data, model or token file",
    .text =
        "Reads the whole file with the reader that training uses. It refuses what training refuses: one line on\n"
        "standard error with the file, the place and what was expected, and exit code 2.\n\n"
        "csv, tsv and jsonl take text=COLUMN, label=COLUMN and classes=N, which check the rows as labelled texts;\n"
        "csv and tsv also delimiter=comma|tab|semicolon|pipe; tokens takes dtype=u16|u32; idx takes\n"
        "labels=FILE and classes=N, the labels that go with these images. Plain and gzip files are\n"
        "read alike. FILE may be - (standard input) or, for a model, a folder.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least = 1,
    .most = 1,
};

struct look {
    const char *path;
    const yk__spec *spec; /* keys of --as */
    json_t *facts;
};

static void fact_json(const struct look *l, const char *key, json_t *v)
{
    json_object_set_new(l->facts, key, v);
}

static void fact_count(const struct look *l, const char *key, int64_t n)
{
    fact_json(l, key, json_integer(n));
}

static json_t *shape_of(const int64_t *shape, int rank)
{
    json_t *a = json_array();
    for (int i = 0; i < rank; i++)
        json_array_append_new(a, json_integer(shape[i]));
    return a;
}

/* ---- one function per kind; each reads all of the file ---- */

/* Refuses images whose labels (labels=FILE) do not belong to them. */
static yk_status check_pair(const struct look *l, const yk__idx *images, yk_error *err)
{
    const char *path = yk__spec_get(l->spec, "labels");
    int64_t classes;
    yk__idx *labels;
    yk_status s = yk__spec_int(l->spec, "classes", 10, 1, 256, &classes, err);
    if (s || !path)
        return s;
    s = yk__idx_open(path, &labels, err);
    if (s)
        return s;
    s = yk__idx_check_pair(images, l->path, labels, path, (int)classes, err);
    yk__idx_close(labels);
    return s;
}

static yk_status look_idx(const struct look *l, yk__file *f, yk_error *err)
{
    yk__idx *x;
    yk_status s = yk__idx_read(f, &x, err);
    if (s)
        return s;
    s = check_pair(l, x, err);
    if (s) {
        yk__idx_close(x);
        return s;
    }
    fact_json(l, "type", json_string(yk__idx_type_name(x)));
    fact_json(l, "shape", shape_of(yk__idx_shape(x), yk__idx_rank(x)));
    yk__idx_close(x);
    return YK_OK;
}

static yk_status look_cifar(const struct look *l, yk__file *f, yk_error *err)
{
    int64_t count[YK__CIFAR_CLASSES] = {0};
    yk__cifar cifar;
    yk_status s = yk__cifar_read(f, 0, &cifar, err);
    if (s)
        return s;
    for (int64_t i = 0; i < cifar.count; i++)
        count[cifar.labels[i]]++;
    fact_count(l, "images", cifar.count);
    fact_json(l, "rows of each class", shape_of(count, YK__CIFAR_CLASSES));
    yk__cifar_free(&cifar);
    return YK_OK;
}

static yk_status look_tokens(const struct look *l, yk__file *f, yk_error *err)
{
    static const char *const dtypes[] = {"u16", "u32"};
    int k;
    yk__tokens t;
    yk_status s = yk__spec_word(l->spec, "dtype", dtypes, 2, -1, &k, err);
    if (s)
        return s;
    const int width = k < 0 ? 0 : 2 << k;
    s = strcmp(l->path, "-") ? yk__tokens_open(l->path, width, &t, err) : yk__tokens_read(f, width, &t, err);
    if (s)
        return s;
    s = yk__tokens_check(&t, err);
    if (s) {
        yk__tokens_close(&t);
        return s;
    }
    fact_count(l, "tokens", t.count);
    fact_json(l, "type", json_string(dtypes[t.width == 4]));
    fact_json(l, "header", json_boolean(t.header));
    fact_count(l, "vocabulary", t.vocab);
    yk__tokens_close(&t);
    return YK_OK;
}

static yk_status look_text(const struct look *l, yk__file *f, yk_error *err)
{
    char *text;
    size_t n;
    int64_t lines = 0, chars = 0;
    yk__tokenizer *t;
    yk_status s = yk__text_read(f, 0, &text, &n, err);
    if (s)
        return s;
    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
        chars += (text[i] & 0xc0) != 0x80;
    }
    fact_count(l, "bytes", (int64_t)n);
    fact_count(l, "lines", lines + (n && text[n - 1] != '\n'));
    fact_count(l, "characters", chars);
    if (n) {
        s = yk__tokenizer_chars(l->path, text, n, &t, err);
        if (!s)
            fact_count(l, "distinct characters", yk__tokenizer_vocab(t));
        if (!s)
            yk__tokenizer_close(t);
    }
    yk__free(text);
    return s;
}

static yk_status look_gzip(const struct look *l, yk__file *f, yk_error *err)
{
    char *buf = yk__malloc(1 << 16);
    size_t got = 1;
    yk_status s = buf ? YK_OK : yk__fail_mem(err, 1 << 16, "a buffer");
    while (!s && got)
        s = yk__file_read(f, buf, 1 << 16, &got, err);
    yk__free(buf);
    if (!s)
        fact_count(l, "unpacked bytes", (int64_t)yk__file_offset(f));
    return s;
}

static yk_status look_json(const struct look *l, yk__file *f, yk_error *err)
{
    json_t *v;
    yk_status s = yk__json_read(f, YK__JSON_ANY, &v, err);
    if (s)
        return s;
    fact_json(l, "value", json_string(yk__json_type(v)));
    if (json_is_object(v))
        fact_count(l, "members", (int64_t)json_object_size(v));
    if (json_is_array(v))
        fact_count(l, "elements", (int64_t)json_array_size(v));
    json_decref(v);
    return YK_OK;
}

static void fact_rows(const struct look *l, const yk__rows *r)
{
    fact_count(l, "rows", r->count);
    if (r->dropped)
        fact_count(l, "rows without text", r->dropped);
    fact_count(l, "classes", r->classes);
    if (r->names) {
        json_t *a = json_array();
        for (int i = 0; i < r->classes; i++)
            json_array_append_new(a, json_string(r->names[i]));
        fact_json(l, "class names", a);
    }
}

static yk_status delimiter_of(const struct look *l, const char *kind, char *out, yk_error *err)
{
    static const char *const words[] = {"comma", "tab", "semicolon", "pipe"};
    int k;
    yk_status s = yk__spec_word(l->spec, "delimiter", words, 4, strcmp(kind, "tsv") ? -1 : 1, &k, err);
    *out = k < 0 ? 0 : ",\t;|"[k];
    return s;
}

/* Opens the file again, and reads its rows as labelled texts. */
static yk_status look_rows(const struct look *l, const char *text, const char *label, int json, char delimiter,
                           yk_error *err)
{
    yk__rows_options o = {.text = text, .label = label, .json = json, .delimiter = delimiter};
    int64_t classes;
    yk__rows *r;
    yk_status s = yk__spec_int(l->spec, "classes", 0, 1, INT32_MAX - 1, &classes, err);
    o.classes = (int)classes;
    if (!s)
        s = yk__rows_open(l->path, &o, &r, err);
    if (s)
        return s;
    fact_rows(l, r);
    yk__rows_close(r);
    return YK_OK;
}

static int is_number(const char *s)
{
    s += *s == '-';
    return *s && s[strspn(s, "0123456789")] == 0;
}

static yk_status csv_header(const struct look *l, const yk__csv *c, yk_error *err)
{
    json_t *a = json_array();
    for (int i = 0; i < yk__csv_columns(c); i++)
        json_array_append_new(a, json_string(yk__csv_column(c, i)));
    fact_json(l, "columns", a);
    for (int i = 0; i < yk__csv_columns(c); i++)
        if (is_number(yk__csv_column(c, i)))
            return yk__fail(err, YK_E_FORMAT, "%s: line 1: expected a header with column names, found the number %.40s",
                            l->path, yk__csv_column(c, i));
    return YK_OK;
}

/* The columns of labelled texts: from --as, or "label" with the one that is certainly text. NULL if the file is not of that kind. */
static yk_status csv_columns(const struct look *l, const yk__csv *c, char **text, char **label, yk_error *err)
{
    static const char *const usual[] = {"text", "review", "sentence", "content"};
    const char *t = yk__spec_get(l->spec, "text"), *b = yk__spec_get(l->spec, "label");
    if (!b && yk__csv_find(c, "label") >= 0)
        b = "label";
    if (!b && !t)
        return YK_OK;
    b = b ? b : "label";
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && !t; i++)
        t = yk__csv_find(c, usual[i]) >= 0 ? usual[i] : NULL;
    if (!t && yk__csv_columns(c) == 2)
        t = yk__csv_column(c, !yk__csv_find(c, b));
    if (!t && yk__csv_columns(c) == 1)
        return yk__fail(err, YK_E_FORMAT, "%s: line 1: expected a column of texts beside '%s'", l->path, b);
    if (!t)
        return YK_OK;
    *text = yk__strdup(t);
    *label = yk__strdup(b);
    return *text && *label ? YK_OK : yk__fail_mem(err, 64, "a column name");
}

static yk_status csv_count(const struct look *l, yk__csv *c, yk_error *err)
{
    int64_t n = 0;
    int more = 1;
    yk_status s = YK_OK;
    while (!s && more) {
        s = yk__csv_next(c, &more, err);
        n += !s && more;
    }
    if (!s)
        fact_count(l, "rows", n);
    return s;
}

static yk_status look_csv_as(const struct look *l, yk__file *f, const char *kind, yk_error *err)
{
    char *text = NULL, *label = NULL;
    yk__csv_options o = {0};
    yk__csv *c;
    yk_status s = delimiter_of(l, kind, &o.delimiter, err);
    if (!s)
        s = yk__csv_read(f, &o, &c, err);
    if (s)
        return s;
    o.delimiter = yk__csv_delimiter(c);
    s = csv_header(l, c, err);
    if (!s)
        s = csv_columns(l, c, &text, &label, err);
    if (!s)
        s = csv_count(l, c, err);
    yk__csv_close(c);
    if (!s && text && strcmp(l->path, "-"))
        s = look_rows(l, text, label, 0, o.delimiter, err);
    yk__free(text);
    yk__free(label);
    return s;
}

static yk_status look_csv(const struct look *l, yk__file *f, yk_error *err)
{
    return look_csv_as(l, f, "csv", err);
}

static yk_status look_tsv(const struct look *l, yk__file *f, yk_error *err)
{
    return look_csv_as(l, f, "tsv", err);
}

static yk_status look_jsonl(const struct look *l, yk__file *f, yk_error *err)
{
    const char *text = yk__spec_get(l->spec, "text"), *label = yk__spec_get(l->spec, "label");
    yk__jsonl *j;
    int64_t n = 0;
    int more = 1;
    yk_status s = yk__jsonl_read(f, &j, err);
    if (s)
        return s;
    while (!s && more) {
        s = yk__jsonl_next(j, &more, err);
        n += !s && more;
        if (!s && n == 1 && more) {
            json_t *keys = json_array();
            const char *key;
            json_t *v;
            json_object_foreach(yk__jsonl_value(j), key, v) json_array_append_new(keys, json_string(key));
            fact_json(l, "keys of the first row", keys);
        }
    }
    yk__jsonl_close(j);
    fact_count(l, "rows", n);
    return s || !(text || label) ? s : look_rows(l, text, label, 1, 0, err);
}

static void fact_tensors(const struct look *l, yk__safetensors *st)
{
    json_t *list = json_array(), *meta = json_object();
    int64_t bytes = 0;
    for (int64_t i = 0; i < yk__safetensors_count(st); i++) {
        const yk__safetensor *t = yk__safetensors_at(st, i);
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(t->name));
        json_object_set_new(o, "dtype", json_string(t->dtype_name));
        json_object_set_new(o, "shape", shape_of(t->shape, t->rank));
        json_array_append_new(list, o);
        bytes += (int64_t)t->bytes;
    }
    for (int64_t i = 0; i < yk__safetensors_meta_count(st); i++) {
        const char *k, *v;
        yk__safetensors_meta_at(st, i, &k, &v);
        json_object_set_new(meta, k, json_string(v));
    }
    fact_json(l, "metadata", meta);
    fact_count(l, "tensors", yk__safetensors_count(st));
    fact_count(l, "data bytes", bytes);
    fact_json(l, "tensor", list);
}

static yk_status look_safetensors(const struct look *l, yk__file *f, yk_error *err)
{
    yk__safetensors *st;
    yk_status s;
    (void)f;
    s = yk__safetensors_open(l->path, &st, err);
    if (s)
        return s;
    fact_tensors(l, st);
    yk__safetensors_close(st);
    return YK_OK;
}

static const struct kind {
    const char *name;
    yk_status (*look)(const struct look *l, yk__file *f, yk_error *err);
} kinds[] = {{"idx", look_idx},   {"cifar10", look_cifar},
             {"csv", look_csv},   {"tsv", look_tsv},
             {"json", look_json}, {"jsonl", look_jsonl},
             {"text", look_text}, {"tokens", look_tokens},
             {"gzip", look_gzip}, {"safetensors", look_safetensors}};
#define NKINDS ((int)(sizeof kinds / sizeof kinds[0]))

/* ---- guessing the kind ---- */

static int has_end(const char *name, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n >= k && !memcmp(name + n - k, end, k);
}

static const char *by_name(const char *path)
{
    static const char *const ends[][2] = {
        {".safetensors", "safetensors"},
        {".index.json", "safetensors"},
        {".csv", "csv"},
        {".tsv", "tsv"},
        {".json", "json"},
        {".jsonl", "jsonl"},
        {".ndjson", "jsonl"},
        {".txt", "text"},
        {".md", "text"},
        {".tok", "tokens"},
        {".idx", "idx"},
        {"-ubyte", "idx"},
        {".idx1", "idx"},
        {".idx2", "idx"},
        {".idx3", "idx"},
        {".idx4", "idx"},
    };
    size_t n = strlen(path);
    n -= has_end(path, n, ".gz") ? 3 : 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (has_end(path, n, ends[i][0]))
            return ends[i][1];
    return NULL;
}

/* Text has no NUL and is valid UTF-8; its last character may be cut off. */
static int is_text(const char *p, size_t n)
{
    return !memchr(p, 0, n) && yk__utf8_check(p, n) + 4 > n;
}

static const char *by_content(const uint8_t *p, size_t n, const char *path, yk__file *f)
{
    size_t k = strlen(path), i = 0;
    k -= has_end(path, k, ".gz") ? 3 : 0;
    if (yk__tokens_signed(p, n))
        return "tokens";
    if (n >= 4 && !p[0] && !p[1] && p[2] >= 8 && p[2] <= 14 && p[3] >= 1 && p[3] <= YK__IDX_DIMS)
        return "idx";
    if (n >= 9 && p[8] == '{' && !p[6] && !p[7] && !yk__file_is_gzip(f))
        return "safetensors";
    if (has_end(path, k, ".bin"))
        return yk__file_is_gzip(f) || (yk__file_left(f) + (int64_t)n) % YK__CIFAR_RECORD == 0 ? "cifar10" : "tokens";
    if (!is_text((const char *)p, n))
        return yk__file_is_gzip(f) ? "gzip" : NULL;
    i = yk__json_mark((const char *)p, n);
    while (i < n && strchr(" \t\r\n", p[i]))
        i++;
    return i < n && (p[i] == '{' || p[i] == '[') ? "json" : "text";
}

static yk_status kind_guess(const char *path, const char **kind, yk_error *err)
{
    uint8_t head[4096];
    size_t n;
    yk__file *f;
    yk_status s;
    *kind = by_name(path);
    if (*kind)
        return YK_OK;
    if (!strcmp(path, "-"))
        return yk__fail(err, YK_E_ARG, "standard input: name its kind with --as KIND");
    s = yk__file_open(path, YK__FILE_AUTO, &f, err);
    if (s)
        return s;
    s = yk__file_read(f, head, sizeof head, &n, err);
    if (!s && !n && !yk__file_is_gzip(f))
        s = yk__fail(err, YK_E_FORMAT, "%s: byte 0: expected data, found an empty file", path);
    if (!s && !yk__file_is_gzip(f)) /* a gzip file may hold anything */
        s = yk__foreign_refuse(path, YK__FOREIGN_ANY, head, n, yk__file_whole(f), err);
    if (!s)
        *kind = n ? by_content(head, n, path, f) : "gzip";
    if (!s && !*kind)
        s = yk__fail(err, YK_E_FORMAT, "%s: byte 0: no known format (--as KIND names one)", path);
    yk__file_close(f);
    return s;
}

/* ---- printing ---- */

/* Names and texts come from the file, so characters that control the terminal are replaced. */
static void print_text(const char *text)
{
    char *copy = yk__strdup(text ? text : "");
    if (copy)
        printf("%s", yk__printable(copy));
    yk__free(copy);
}

static void print_value(const json_t *v)
{
    size_t i;
    json_t *x;
    if (json_is_string(v)) {
        print_text(json_string_value(v));
    } else if (json_is_array(v)) {
        json_array_foreach(v, i, x)
        {
            printf(i ? ", " : "");
            print_value(x);
        }
    } else if (json_is_integer(v)) {
        printf("%" JSON_INTEGER_FORMAT, json_integer_value(v));
    } else {
        printf("%s", json_is_true(v) ? "yes" : "no");
    }
}

static void print_object(json_t *v, const char *prefix)
{
    const char *key;
    json_t *x;
    json_object_foreach(v, key, x)
    {
        printf("%s", prefix);
        print_text(key);
        printf(": ");
        print_value(x);
        printf("\n");
    }
}

static void print_tensor(const json_t *t)
{
    printf("  ");
    print_text(json_string_value(json_object_get(t, "name")));
    printf(" %s [", json_string_value(json_object_get(t, "dtype")));
    print_value(json_object_get(t, "shape"));
    printf("]\n");
}

static void print_facts(json_t *facts)
{
    json_t *tensors = json_incref(json_object_get(facts, "tensor")),
           *meta = json_incref(json_object_get(facts, "metadata"));
    size_t i;
    json_t *t;
    json_object_del(facts, "tensor");
    json_object_del(facts, "metadata");
    print_object(facts, "");
    print_object(meta, "metadata ");
    json_array_foreach(tensors, i, t) print_tensor(t);
    json_decref(tensors);
    json_decref(meta);
}

/* ---- */

static yk_status look_as(const struct look *l, const char *name, yk_error *err)
{
    static const char *const keys[] = {"text", "label", "classes", "delimiter", "dtype", "labels"};
    const char *names[NKINDS], *near;
    int k = 0;
    yk__file *f = NULL;
    struct stat st;
    yk_status s = yk__spec_check(l->spec, keys, 6, err);
    while (k < NKINDS && strcmp(kinds[k].name, name)) {
        names[k] = kinds[k].name;
        k++;
    }
    if (s)
        return s;
    if (k == NKINDS) {
        near = yk__nearest_word(name, names, NKINDS);
        return yk__fail(err, YK_E_ARG, "--as %.40s: no such kind%s%s%s", name, near ? ", did you mean '" : "",
                        near ? near : "", near ? "'?" : "");
    }
    if (kinds[k].look != look_safetensors || stat(l->path, &st) || S_ISREG(st.st_mode))
        s = yk__file_open(l->path, !strcmp(name, "gzip") ? YK__FILE_GZIP : YK__FILE_AUTO, &f, err);
    if (s)
        return s;
    fact_json(l, "file", json_string(l->path));
    fact_json(l, "kind", json_string(name));
    fact_json(l, "gzip", json_boolean(f && yk__file_is_gzip(f)));
    s = kinds[k].look(l, f, err);
    yk__file_close(f);
    return s;
}

static yk_status look_at(const char *path, const char *as, json_t *facts, yk_error *err)
{
    yk__spec spec = {0};
    struct look l = {path, &spec, facts};
    struct stat st;
    const char *kind = NULL;
    char word[512];
    yk_status s = YK_OK;
    if (as) { /* "KIND,key=value": the same form as --data's, with a path between */
        size_t n = strcspn(as, ",");
        snprintf(word, sizeof word, "%.*s:FILE%s", (int)n, as, as + n);
        s = yk__spec_parse(word, &spec, err);
        kind = spec.kind;
    } else if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
        kind = "safetensors";
    } else {
        s = kind_guess(path, &kind, err);
    }
    if (!s)
        s = look_as(&l, kind, err);
    yk__spec_free(&spec);
    return s;
}

int yk__cmd_inspect(int argc, char **argv)
{
    yk_error err = YK_ERROR_INIT;
    yk__cli cli;
    json_t *facts;
    int code = yk__cli_parse(&command, argc, argv, &cli);
    yk_status s;
    if (code >= 0)
        return code;
    facts = json_object();
    s = look_at(cli.positional[0], yk__cli_text(&cli, "as"), facts, &err);
    const bool as_json = yk__cli_on(&cli, "json");
    char *text = !s && as_json ? yk__json_dump(facts, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (!s && as_json && !text)
        s = yk__fail_mem(&err, 0, "the facts");
    if (s)
        fprintf(stderr, "yoke inspect: %s\n", err.text);
    else if (text)
        puts(text);
    else
        print_facts(facts);
    yk__free(text);
    json_decref(facts);
    return !s ? YK_EXIT_OK : s == YK_E_MEM || s == YK_E_INTERNAL ? YK_EXIT_FAILED : YK_EXIT_USAGE;
}
