/* SPDX-License-Identifier: Apache-2.0 */
/* core/io/json: JSONTestSuite; y_ accepted, n_ refused, i_ and the transform files either, none crashes. */
#include <check.h>
#include <dirent.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "tests/support/suite.h"

static int folder_run(const char *dir, int *accepted)
{
    DIR *d = opendir(suite_path("json-suite", dir));
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d))) {
        yk_error err = YK_ERROR_INIT;
        char name[600];
        json_t *v = NULL;
        yk_status s;
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
        s = yk__json_load(suite_path("json-suite", name), YK__JSON_ANY, &v, &err);
        ck_assert_msg(e->d_name[0] != 'y' || e->d_name[1] != '_' || s == YK_OK, "%s", err.text);
        ck_assert_msg(e->d_name[0] != 'n' || e->d_name[1] != '_' || s == YK_E_FORMAT, "%s: accepted", name);
        ck_assert_msg(!s || (strstr(err.text, e->d_name) && !strchr(err.text, '\n')), "%s", err.text);
        *accepted += s == YK_OK;
        n++;
        json_decref(v);
    }
    if (d)
        closedir(d);
    return n;
}

START_TEST(json_suite_files_are_taken_or_refused)
{
    int accepted = 0;
    if (!suite_there("json-suite"))
        return;
    ck_assert_int_eq(folder_run("test_parsing", &accepted), 318);
    ck_assert_int_ge(accepted, 95);
    ck_assert_int_eq(folder_run("test_transform", &accepted), 22);
}
END_TEST

START_TEST(duplicate_keys_are_refused_where_asked)
{
    static const char text[] = "{\"a\": 1, \"a\": 2}";
    yk_error err = YK_ERROR_INIT;
    json_t *v;
    ck_assert_int_eq(yk__json_parse("t", text, sizeof text - 1, 0, &v, &err), YK_OK);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "a")), 2);
    json_decref(v);
    ck_assert_int_eq(yk__json_parse("t", text, sizeof text - 1, YK__JSON_UNIQUE_KEYS, &v, &err), YK_E_FORMAT);
}
END_TEST

/* As transformers writes the longest text of a tokenizer that has none. */
START_TEST(whole_numbers_beyond_64_bits_are_doubles)
{
    static const char text[] = "{\"a\": 1000000000000000019884624838656, \"b\": [-18446744073709551616,7], "
                               "\"c\": \"18446744073709551616\"}";
    static const char *const refused[] = {"[1e999]", "[1.0e999, 99999999999999999999]", "[99999999999999999999x]"};
    char many[600] = "[1";
    yk_error err = YK_ERROR_INIT;
    json_t *v;
    ck_assert_msg(!yk__json_parse("t", text, sizeof text - 1, 0, &v, &err), "%s", err.text);
    ck_assert(json_real_value(json_object_get(v, "a")) == 1e30);
    ck_assert(json_real_value(json_array_get(json_object_get(v, "b"), 0)) == -0x1p64);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(v, "b"), 1)), 7);
    ck_assert_str_eq(json_string_value(json_object_get(v, "c")), "18446744073709551616");
    json_decref(v);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        ck_assert_int_eq(yk__json_parse("t", refused[i], strlen(refused[i]), 0, &v, &err), YK_E_FORMAT);
    for (int i = 0; i < 17; i++)
        strcat(many, ",99999999999999999999");
    strcat(many, "]");
    ck_assert_int_eq(yk__json_parse("t", many, strlen(many), 0, &v, &err), YK_E_FORMAT);
}
END_TEST

START_TEST(failing_allocations)
{
    static const char text[] =
        "{\"a\": [1, 2.5, \"x\\u00e9\", {\"b\": null}], \"long\": \"0123456789012345678901234567\"}";
    yk_status s = YK_E_MEM;
    json_set_alloc_funcs(yk__malloc, yk__free);
    for (long n = 0; s; n++) {
        yk_error err = YK_ERROR_INIT;
        json_t *v = NULL;
        yk__mem_fail_after(n);
        s = yk__json_parse("t", text, sizeof text - 1, YK__JSON_UNIQUE_KEYS, &v, &err);
        yk__mem_fail_after(-1);
        ck_assert_msg(s == YK_OK || s == YK_E_MEM, "allocation %ld: %s", n, err.text);
        json_decref(v);
    }
    json_set_alloc_funcs(malloc, free);
}
END_TEST

static char *write_list(void)
{
    yk__json_builder o = yk__json_begin(json_object()), list = yk__json_begin(json_array());
    for (int i = 0; i < 40; i++)
        yk__json_append(&list, json_integer(i));
    yk__json_put(&o, "list", yk__json_end(&list));
    yk__json_put(&o, "a name that a buffer has to grow for", json_true());
    json_t *v = yk__json_end(&o);
    char *text = v ? yk__json_dump(v, JSON_COMPACT) : NULL;
    json_decref(v);
    return text;
}

/* With jansson's own calls alone a value, or a key, would be missing. */
START_TEST(what_is_written_is_whole_or_nothing)
{
    json_set_alloc_funcs(yk__malloc, yk__free);
    const unsigned long before = yk__mem_count();
    char *whole = write_list();
    const unsigned long asked = yk__mem_count() - before;
    ck_assert(whole && asked > 10);
    for (unsigned long n = 0; n < asked; n++) {
        yk__mem_fail_once((long)n);
        char *text = write_list();
        yk__mem_fail_after(-1);
        ck_assert_msg(!text || !strcmp(text, whole), "allocation %lu: %s", n, text);
        yk__free(text);
    }
    yk__free(whole);
    json_set_alloc_funcs(malloc, free);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("json");
    suite_there("json-suite");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, json_suite_files_are_taken_or_refused);
    tcase_add_test(t, duplicate_keys_are_refused_where_asked);
    tcase_add_test(t, whole_numbers_beyond_64_bits_are_doubles);
    tcase_add_test(t, failing_allocations);
    tcase_add_test(t, what_is_written_is_whole_or_nothing);
    return suite_run("json", t);
}
