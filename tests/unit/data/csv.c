/* SPDX-License-Identifier: Apache-2.0 */
/* core/data/csv, jsonl, rows: csv-suite, csv-spectrum, labels, line numbers, failing allocations. */
#include <check.h>
#include <dirent.h>
#include <jansson.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/read/csv.h"
#include "core/read/jsonl.h"
#include "core/read/rows.h"
#include "core/io/json.h"
#include "tests/support/sha256.h"
#include "tests/support/suite.h"

static yk_status sum_rows(const char *path, char hex[65], int *rows, yk_error *err)
{
    sha256 sum;
    yk__csv *c = NULL;
    yk__file *f;
    int more = 1;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &f, err);
    ck_assert_msg(s == YK_OK, "%s", err->text);
    s = yk__csv_read(f, NULL, &c, err);
    sha256_begin(&sum);
    *rows = 0;
    while (!s && !(s = yk__csv_next(c, &more, err)) && more) {
        size_t nl, nr;
        const char *label = yk__csv_field(c, yk__csv_find(c, "label"), &nl);
        const char *review = yk__csv_field(c, yk__csv_find(c, "review"), &nr);
        sha256_add(&sum, label, nl + 1);
        sha256_add(&sum, review, nr + 1);
        ++*rows;
    }
    yk__csv_close(c);
    yk__file_close(f);
    sha256_end(&sum, hex);
    return s;
}

static const yk__rows_options reviews = {.text = "review", .label = "label", .classes = 2};

START_TEST(csv_suite_rows_are_as_listed)
{
    suite_index *x = suite_open("csv-suite");
    for (int i = 0; i < x->count; i++) {
        const char *path = suite_path("csv-suite", x->cell[i][0]);
        yk_error err = YK_ERROR_INIT;
        yk__rows *rows = NULL;
        char hex[65];
        int n;
        yk_status s = yk__rows_open(path, &reviews, &rows, &err);
        if (!strcmp(x->cell[i][1], "accept")) {
            ck_assert_msg(s == YK_OK, "%s", err.text);
            ck_assert_msg(sum_rows(path, hex, &n, &err) == YK_OK, "%s", err.text);
            ck_assert_int_eq(n, atoi(x->cell[i][2]));
            ck_assert_int_eq(rows->count + rows->dropped, n);
            ck_assert_msg(!strcmp(hex, x->cell[i][3]), "%s: other contents", path);
        } else {
            ck_assert_msg(s == YK_E_FORMAT, "%s: accepted", path);
            ck_assert_msg(strstr(err.text, x->cell[i][0]) && strstr(err.text, "line "), "%s", err.text);
        }
        yk__rows_close(rows);
    }
    ck_assert(x->count == 0 || x->count == 31);
    suite_close(x);
}
END_TEST

/* Equal but for CR: csv-spectrum's newlines_crlf.csv lost its CRs on its way through git, its JSON did not. */
static int same_text(const char *a, const char *b)
{
    while (*a || *b) {
        b += *b == '\r';
        if (*a++ != *b++)
            return 0;
    }
    return 1;
}

static void same_as_json(const char *csv, const char *json)
{
    yk_error err = YK_ERROR_INIT;
    yk__file *f;
    yk__csv *c;
    json_t *want;
    int more;
    size_t row = 0;
    ck_assert_msg(yk__json_load(json, 0, &want, &err) == YK_OK, "%s", err.text);
    ck_assert_msg(yk__file_open(csv, YK__FILE_AUTO, &f, &err) == YK_OK, "%s", err.text);
    ck_assert_msg(yk__csv_read(f, NULL, &c, &err) == YK_OK, "%s", err.text);
    for (;; row++) {
        ck_assert_msg(yk__csv_next(c, &more, &err) == YK_OK, "%s", err.text);
        if (!more)
            break;
        for (int i = 0; i < yk__csv_columns(c); i++)
            ck_assert(same_text(yk__csv_field(c, i, NULL),
                                json_string_value(json_object_get(json_array_get(want, row), yk__csv_column(c, i)))));
    }
    ck_assert_uint_eq(row, json_array_size(want));
    json_decref(want);
    yk__csv_close(c);
    yk__file_close(f);
}

START_TEST(spectrum_files_read_as_its_json)
{
    DIR *d = suite_there("csv-suite") ? opendir(suite_path("csv-suite", "csvs")) : NULL;
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d))) {
        char csv[600], json[600];
        size_t k = strlen(e->d_name);
        if (k < 5 || strcmp(e->d_name + k - 4, ".csv"))
            continue;
        snprintf(csv, sizeof csv, "csvs/%s", e->d_name);
        snprintf(json, sizeof json, "json/%.*s.json", (int)k - 4, e->d_name);
        same_as_json(suite_path("csv-suite", csv), suite_path("csv-suite", json));
        n++;
    }
    if (d)
        closedir(d);
    ck_assert(!d || n == 11);
}
END_TEST

static yk_status rows_of(const char *text, const yk__rows_options *o, yk__rows **r, yk_error *err)
{
    yk__file *f;
    yk_status s = yk__file_from_memory("m", text, strlen(text), YK__FILE_AUTO, &f, err);
    if (s)
        return s;
    s = yk__rows_read(f, o, r, err);
    yk__file_close(f);
    return s;
}

START_TEST(lines_and_names)
{
    yk_error err = YK_ERROR_INIT;
    yk__rows *r, *e;
    yk__rows_options o = {0};
    ck_assert_msg(rows_of("text,label\n\"a\nb\",dog\n\n,cat\r\nz,ape\n", &o, &r, &err) == YK_OK, "%s", err.text);
    ck_assert(r->count == 2 && r->dropped == 1 && r->classes == 3);
    ck_assert(r->line[0] == 2 && r->line[1] == 6);
    ck_assert_str_eq(r->names[0], "ape");
    ck_assert(r->label[0] == 2 && r->label[1] == 0);
    o.names_of = r;
    ck_assert_int_eq(rows_of("text,label\nx,cat\n", &o, &e, &err), YK_OK);
    ck_assert(e->label[0] == 1 && e->classes == 3);
    yk__rows_close(e);
    ck_assert_int_eq(rows_of("text,label\nx,cow\n", &o, &e, &err), YK_E_FORMAT);
    ck_assert_int_eq(rows_of("text,label\nx,1\n", &o, &e, &err), YK_OK); /* an id within the three classes */
    yk__rows_close(e);
    yk__rows_close(r);
}
END_TEST

/* Rows that other trainers' users have: the message has their keys, their kind and the remedy. */
START_TEST(rows_of_other_trainers)
{
    static const struct {
        const char *row, *words[3];
    } cases[] = {
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
         {"no key 'text' (it has 'messages'): chats", "apply_chat_template", "text:FILE"}},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"}]}", {"'conversations'): chats", "ShareGPT", "text:FILE"}},
        {"{\"prompt\":\"a\",\"completion\":\"b\"}", {"'prompt', 'completion'", "prompts with completions", "text:FILE"}},
        {"{\"prompt\":[{\"role\":\"user\"}],\"chosen\":[],\"rejected\":[]}", {"preferences", "not built", "text:FILE"}},
        {"{\"instruction\":\"a\",\"input\":\"\",\"output\":\"b\"}", {"instructions", "Alpaca", "text:FILE"}},
        {"{\"tokens\":[\"a\"],\"ner_tags\":[0]}", {"words with tags", "not built", "no key 'text'"}},
        {"{\"text\":\"a\"}", {"no key 'label' (it has 'text')", "texts without labels", "text:FILE"}},
        {"{\"text\":\"a\",\"category\":\"b\"}", {"no key 'label' (it has 'text', 'category')", "label=NAME behind the file's name", ""}},
        {"{\"review\":\"a\",\"stars\":1}", {"'review', 'stars'", "text=NAME", "label=NAME"}},
        {"{}", {"no key 'text' (it has none)", "text=NAME", "label=NAME"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__rows_options o = {.json = 1};
        yk__rows *r;
        ck_assert_int_eq(rows_of(cases[i].row, &o, &r, &err), YK_E_FORMAT);
        for (int k = 0; k < 3; k++)
            ck_assert_msg(!!strstr(err.text, cases[i].words[k]), "%s in: %s", cases[i].words[k], err.text);
        ck_assert_msg(!strchr(err.text, '\n') && strlen(err.text) < sizeof err.text - 1, "%s", err.text);
    }
    yk_error err = YK_ERROR_INIT;
    yk__rows_options o = {0};
    yk__rows *r;
    ck_assert_int_eq(rows_of("instruction,output\na,b\n", &o, &r, &err), YK_E_FORMAT);
    ck_assert_msg(strstr(err.text, "it has 'instruction', 'output'") && strstr(err.text, "Alpaca"), "%s", err.text);
}
END_TEST

START_TEST(json_lines)
{
    yk_error err = YK_ERROR_INIT;
    yk__rows *r;
    yk__rows_options o = {.json = 1};
    ck_assert_msg(rows_of("{\"text\":\"a\",\"label\":3}\n\n{\"label\":0,\"text\":\"b\"}", &o, &r, &err) == YK_OK, "%s",
                  err.text);
    ck_assert(r->count == 2 && r->classes == 4 && r->line[1] == 3);
    yk__rows_close(r);
    ck_assert_int_eq(rows_of(" [{\"text\":\"a\",\"label\":\"x\"},\n{\"text\":\"a\",\"label\":\"y\"}]", &o, &r, &err),
                     YK_OK);
    ck_assert(r->count == 2 && r->label[1] == 1);
    yk__rows_close(r);
    ck_assert_int_eq(rows_of("{\"text\":\"a\",\"label\":1}\n{\"text\":1,\"label\":1}\n", &o, &r, &err), YK_E_FORMAT);
    ck_assert_msg(!!strstr(err.text, "line 2: key 'text': expected a string, found an integer"), "%s", err.text);
    ck_assert_int_eq(rows_of("{\"text\":\"a\",\"label\":1}\n{\"text\"\n", &o, &r, &err), YK_E_FORMAT);
    ck_assert_msg(!!strstr(err.text, "m: line 2"), "%s", err.text);
    ck_assert_int_eq(rows_of("[1]", &o, &r, &err), YK_E_FORMAT);
    ck_assert_int_eq(rows_of("", &o, &r, &err), YK_E_FORMAT);
    ck_assert_int_eq(rows_of("{\"text\":\"a\",\"label\":1.5}", &o, &r, &err), YK_E_FORMAT);
    ck_assert_int_eq(rows_of("{\"text\":\"a\",\"label\":\"a\\u0000b\"}\n{\"text\":\"a\",\"label\":\"a\\u0000c\"}", &o, &r, &err),
                     YK_E_FORMAT); /* two names, of which C sees one */
    ck_assert_msg(!!strstr(err.text, "line 1: key 'label': expected a string without U+0000"), "%s", err.text);
}
END_TEST

/* A list of classes with one name for two of them. */
START_TEST(listed_names_differ)
{
    static const struct {
        const char *list, *wanted;
    } cases[] = {{"[\"high\",\"low\",\"high\"]", "elements 0 and 2 are both 'high'"},
                 {"[\"low\",7]", "element 1: expected a string"},
                 {"[\"low\",\"high\"]", NULL}};
    char path[] = "/tmp/yoke-names-XXXXXX";
    const int fd = mkstemp(path);
    ck_assert(fd >= 0 && !close(fd));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__rows *r = NULL;
        FILE *f = fopen(path, "w");
        fputs(cases[i].list, f);
        fclose(f);
        const yk_status s = rows_of("text,label\na,low\nb,high\n", &(yk__rows_options){.categories = path}, &r, &err);
        ck_assert_msg(s == (cases[i].wanted ? YK_E_FORMAT : YK_OK), "%zu: %s", i, err.text);
        ck_assert_msg(!cases[i].wanted || strstr(err.text, cases[i].wanted), "%s", err.text);
        yk__rows_close(r);
    }
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* A measured number is no class, and a huge one would make a huge model: both name the line. */
START_TEST(labels_that_are_no_classes)
{
    static const struct {
        const char *text, *wanted;
        int classes;
    } bad[] = {
        {"text,label\na,0.1\nb,0.10\n", "line 2: label '0.1', expected an integer or a name: a number with a fraction is no class", 0},
        {"text,label\na,yes\nb,2.5\n", "line 3: label '2.5'", 0},
        {"text,label\na,-1e-3\nb,1e3\n", "line 2: label '-1e-3'", 0},
        {"text,label\na,nan\nb,x\n", "line 2: label 'nan'", 0},
        {"text,label\na, 1\nb, 2\n", "line 2: label ' 1', expected an integer or a name: take the blanks beside the number out", 0},
        {"text,label\na,x\nb,3\t\n", "line 3: label '3?', expected an integer or a name", 0},
        {"text,label\na,0\nb,100000\nc,1\n", "line 3: label '100000', expected the number of a class: it would make 100001 classes, 3", 0},
        {"text,label\na,0\nb,100000\nc,1\n", "expected an integer from 0 to 9", 10},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__rows *r = NULL;
        const yk__rows_options o = {.classes = bad[i].classes};
        ck_assert_int_eq(rows_of(bad[i].text, &o, &r, &err), YK_E_FORMAT);
        ck_assert_msg(strstr(err.text, bad[i].wanted), "%s", err.text);
    }
    yk_error err = YK_ERROR_INIT;
    yk__rows *r = NULL;
    ck_assert_msg(!rows_of("text,label\na,0\nb,100000\n", &(yk__rows_options){.classes = 100001}, &r, &err), "%s", err.text);
    ck_assert_int_eq(r->classes, 100001);
    yk__rows_close(r);
    ck_assert_msg(!rows_of("text,label\na,e\nb,3d\nc,v1.2\n", &(yk__rows_options){0}, &r, &err), "%s", err.text);
    yk__rows_close(r);
}
END_TEST

START_TEST(real_files)
{
    yk_error err = YK_ERROR_INIT;
    yk__rows_options o = {.text = "text", .label = "category"};
    yk__rows *r;
    if (!suite_there("banking77") || !suite_there("chnsenticorp"))
        return;
    ck_assert_msg(yk__rows_open(suite_path("banking77", "train.csv"), &o, &r, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(r->count, 10003);
    ck_assert_int_eq(r->classes, 77);
    ck_assert_str_eq(r->names[r->label[0]], "card_arrival");
    ck_assert_str_eq(r->names[0], "card_arrival"); /* the order of categories.json, not of the alphabet */
    yk__rows_close(r);
    ck_assert_msg(yk__rows_open(suite_path("chnsenticorp", "ChnSentiCorp_htl_all.csv"), &reviews, &r, &err) == YK_OK,
                  "%s", err.text);
    ck_assert(r->count == 7765 && r->dropped == 1 && r->line[6374] == 6377);
    yk__rows_close(r);
}
END_TEST

START_TEST(failing_allocations)
{
    static const char *const texts[] = {"text,label\n\"a\nb\",dog\n\n,cat\r\nz,ape\n",
                                        "{\"text\":\"a\",\"label\":3}\n{\"text\":\"a\",\"label\":3}\n"};
    json_set_alloc_funcs(yk__malloc, yk__free);
    for (int k = 0; k < 2; k++) {
        yk__rows_options o = {.json = k};
        yk_status s = YK_E_MEM;
        for (long n = 0; s; n++) {
            yk_error err = YK_ERROR_INIT;
            yk__rows *r = NULL;
            yk__mem_fail_after(n);
            s = rows_of(texts[k], &o, &r, &err);
            yk__mem_fail_after(-1);
            ck_assert_msg(s == YK_OK || s == YK_E_MEM, "%s", err.text);
            yk__rows_close(r);
        }
    }
    json_set_alloc_funcs(malloc, free);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("csv");
    suite_there("csv-suite");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, labels_that_are_no_classes);
    tcase_add_test(t, listed_names_differ);
    tcase_add_test(t, csv_suite_rows_are_as_listed);
    tcase_add_test(t, spectrum_files_read_as_its_json);
    tcase_add_test(t, lines_and_names);
    tcase_add_test(t, json_lines);
    tcase_add_test(t, rows_of_other_trainers);
    tcase_add_test(t, real_files);
    tcase_add_test(t, failing_allocations);
    return suite_run("csv", t);
}
