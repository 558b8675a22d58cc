/* SPDX-License-Identifier: Apache-2.0 */
/* core/io/tree: yaml-test-suite (an accepted text equals the suite's JSON), JSONTestSuite, lines, and refusals with their reasons. */
#include "config.h"

#include <check.h>
#include <dirent.h>

#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/io/json.h"
#include "core/io/tree.h"
#include "tests/support/suite.h"

/* YAML 1.2's core schema of a plain scalar, for the suite's JSON. */
static bool text_equals(const yk__tree *t, const json_t *v)
{
    char *end;
    if (t->quoted || json_is_string(v))
        return json_is_string(v) && !strcmp(t->text, json_string_value(v));
    if (json_is_null(v))
        return !strcmp(t->text, "null");
    if (json_is_boolean(v))
        return !strcasecmp(t->text, json_is_true(v) ? "true" : "false");
    if (json_is_integer(v) && !strncmp(t->text, "0x", 2))
        return strtoll(t->text + 2, NULL, 16) == json_integer_value(v);
    if (json_is_integer(v) && !strncmp(t->text, "0o", 2))
        return strtoll(t->text + 2, NULL, 8) == json_integer_value(v);
    return yk__number_read(t->text, &end) == json_number_value(v) && !*end;
}

static bool tree_equals(const yk__tree *t, const json_t *v)
{
    size_t n = 0;
    if (t->kind == YK__TREE_TEXT)
        return text_equals(t, v);
    if (t->kind == YK__TREE_MAP ? !json_is_object(v) : !json_is_array(v))
        return false;
    for (const yk__tree *c = t->child; c; c = c->next, n++)
        if (!tree_equals(c, c->key ? json_object_get(v, c->key) : json_array_get(v, n)))
            return false;
    return n == (t->kind == YK__TREE_MAP ? json_object_size(v) : json_array_size(v));
}

static char *file_text(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "re");
    char *text = calloc(1, 1 << 20);
    ck_assert_ptr_nonnull(f);
    *bytes = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

/* 1: taken, as its JSON. An invalid text is refused, and a valid one may be. */
static int case_run(const char *name, bool valid, bool has_json)
{
    char file[96];
    size_t bytes;
    yk_error err = YK_ERROR_INIT, none = YK_ERROR_INIT;
    yk__tree *tree;
    json_t *v = NULL;
    snprintf(file, sizeof file, "%s.yaml", name);
    char *text = file_text(suite_path("yaml-suite", file), &bytes);
    const bool taken = !yk__tree_yaml(file, text, bytes, &tree, &err);
    free(text);
    ck_assert_msg(taken || (err.status == YK_E_FORMAT && strstr(err.text, file)), "%s: %s", file, err.text);
    ck_assert_msg(!taken || valid, "%s: taken, and is no YAML", file);
    if (taken && has_json) {
        snprintf(file, sizeof file, "%s.json", name);
        text = file_text(suite_path("yaml-suite", file), &bytes); /* without a byte where the YAML is comments alone */
        ck_assert_msg(!bytes || !yk__json_parse(file, text, bytes, YK__JSON_ANY, &v, &none), "%s", none.text);
        ck_assert_msg(v ? tree_equals(tree, v) : !tree->child && tree->kind == YK__TREE_MAP, "%s: read as something else", file);
        json_decref(v);
        free(text);
    }
    yk__tree_free(tree);
    return taken;
}

START_TEST(yaml_suite_files_are_refused_or_read_as_their_json)
{
    int taken = 0, n = 0;
    yk_error err = YK_ERROR_INIT;
    yk__tree *tree;
    if (!suite_there("yaml-suite") || (yk__tree_yaml("t", "a: 1", 4, &tree, &err) == YK_E_UNSUPPORTED && printf("# skipped: no libyaml\n")))
        return;
    yk__tree_free(tree);
    FILE *f = fopen(suite_path("yaml-suite", "index.tsv"), "re");
    char line[256], name[64], valid[8], json[8];
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%63s %7s %7s", name, valid, json) == 3 && strcmp(name, "case")) {
            taken += case_run(name, *valid == 'y', *json == 'y');
            n++;
        }
    fclose(f);
    ck_assert_int_eq(n, 402);
    ck_assert_int_ge(taken, 60); /* a reader that refuses all would pass the rest */
}
END_TEST

START_TEST(json_suite_objects_are_read_as_jansson_reads_them)
{
    int taken = 0;
    struct dirent *e;
    DIR *d = suite_there("json-suite") ? opendir(suite_path("json-suite", "test_parsing")) : NULL;
    while (d && (e = readdir(d))) {
        yk_error err = YK_ERROR_INIT, other = YK_ERROR_INIT;
        char name[600];
        size_t bytes;
        yk__tree *tree;
        json_t *v = NULL;
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "test_parsing/%s", e->d_name);
        char *text = file_text(suite_path("json-suite", name), &bytes);
        const bool good = !yk__tree_json(name, text, bytes, &tree, &err);
        ck_assert_msg(!good || e->d_name[0] != 'n', "%s: taken", name);
        if (good && !yk__json_parse(name, text, bytes, YK__JSON_UNIQUE_KEYS, &v, &other)) {
            ck_assert_msg(tree_equals(tree, v), "%s: read as something else", name);
            taken++;
        }
        free(text);
        yk__tree_free(tree);
        json_decref(v);
    }
    if (d)
        closedir(d);
    ck_assert(!d || taken >= 60);
}
END_TEST

START_TEST(keys_know_their_lines)
{
    static const char json[] = "{\n \"a\": {\"b\\u00e9\": 1,\n\n\"c\": [1e3, true,\n null]}}";
    static const char yaml[] = "# a comment\na:\n  b: 1\n\n  c: [x, 'y']\n";
    yk_error err = YK_ERROR_INIT;
    yk__tree *tree;
    ck_assert_msg(!yk__tree_json("t", json, sizeof json - 1, &tree, &err), "%s", err.text);
    const yk__tree *a = yk__tree_get(tree, "a"), *c = yk__tree_get(a, "c");
    ck_assert_uint_eq(a->line, 2);
    ck_assert_str_eq(yk__tree_get(a, "b\xc3\xa9")->text, "1");
    ck_assert_uint_eq(c->line, 4);
    ck_assert_str_eq(c->child->text, "1e3");
    ck_assert_uint_eq(c->child->next->next->line, 5);
    yk__tree_free(tree);
    if (yk__tree_yaml("t", yaml, sizeof yaml - 1, &tree, &err) == YK_E_UNSUPPORTED)
        return;
    ck_assert_msg(!err.status, "%s", err.text);
    a = yk__tree_get(tree, "a"), c = yk__tree_get(a, "c");
    ck_assert_uint_eq(a->line, 2);
    ck_assert_uint_eq(c->line, 5);
    ck_assert(!c->child->quoted && c->child->next->quoted);
    yk__tree_free(tree);
}
END_TEST

START_TEST(what_settings_do_without_is_refused_with_line_and_reason)
{
    static const struct {
        const char *text, *line, *says;
    } cases[] = {
        {"a: 1\nb: &x 2\n", "line 2", "anchor"},     {"a: 1\nb: *x\n", "line 2", "alias"},
        {"a: !!int 2\n", "line 1", "tag"},           {"a: 1\n\tb: 2\n", "line 2", "tab"},
        {"a: 1\na: 2\n", "line 2", "stands twice"},  {"a: |\n  x\n", "line 1", "block of text"},
        {"a: 'x\n  y'\n", "line 1", "several lines"}, {"a: [1,\n  2]\n", "line 1", "several lines"},
        {"a: 1\n---\nb: 2\n", "line 2", "second document"}, {"%YAML 1.2\n---\na: 1\n", "line 1", "directive"},
        {"a: 'x'#y\n", "line 1", ""},                {"? [a]\n: 1\n", "line 1", "before a key"},
        {"[a]: 1\n", "line 1", "a key is a map or a list"}, {"a: 1\rb: 2\r", "line 1", "a carriage return without"},
        {"a: 1\r\nb: 2\r", "line 2", "a carriage return without"}, {"a: 1\r\r\nb: 2\n", "line 1", "a carriage return without"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__tree *tree;
        if (yk__tree_yaml("t.yaml", cases[i].text, strlen(cases[i].text), &tree, &err) == YK_E_UNSUPPORTED)
            return;
        ck_assert_msg(err.status == YK_E_FORMAT && strstr(err.text, cases[i].line) && strstr(err.text, cases[i].says), "%s: %s",
                      cases[i].text, err.text);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {yaml_suite_files_are_refused_or_read_as_their_json, json_suite_objects_are_read_as_jansson_reads_them,
                                  keys_know_their_lines, what_settings_do_without_is_refused_with_line_and_reason};
    return suite_run_all("tree", tests, 4, NULL, NULL);
}
