/* SPDX-License-Identifier: Apache-2.0 */
/* core/io/json: JSONTestSuite; y_ accepted, n_ refused, i_ and the transform files either, none crashes. */
#include <check.h>
#include <dirent.h>
#include <errno.h>

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
    ck_assert_int_eq(yk__json_parse("t", many, strlen(many), 0, &v, &err), YK_OK);
    ck_assert(json_real_value(json_array_get(v, 17)) == 99999999999999999999.0);
    json_decref(v);
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

/* Texts whose tokens need a longer buffer than the first: names, values, escapes, numbers, and pieces behind each other. */
static const char *const long_tokens[] = {
    "{\"format\": \"yoke-checkpoint\", \"a key of more than sixteen letters\": [\"a\"]}",
    "{\"architectures\": [\"BertForSequenceClassification\"], \"layer_norm_eps\": 1.00000000000000001234e-12, \"hidden_size\": 1234}",
    "[123456789012345678, -1234567890123456, 0.1234567890123456789, \"x\"]",
    "{\"vocab\": {\"\\u0120internationalization\": 1, \"\\\\\\\\\\\"\\\\\\\"\\n\\t\\\"\\\"\\\"\": 2}}",
    (" [\"0123456789012345\", \"01234567890123456789012345678901\", "
     "\"0123456789012345678901234567890123456789012345678901234567890123456\"]"),
    "\"na\303\257vet\303\251, 32 octets and more of a text by itself\"",
};

static json_t *token_text_read(size_t i, const char *how, long n)
{
    yk_error err = YK_ERROR_INIT;
    json_t *v = NULL;
    const yk_status s = yk__json_parse("t", long_tokens[i], strlen(long_tokens[i]), YK__JSON_ANY, &v, &err);
    yk__mem_fail_after(-1);
    ck_assert_msg(s == YK_OK || s == YK_E_MEM, "text %zu, %s %ld: %s", i, how, n, err.text);
    return v;
}

static size_t most_bytes;

static void *malloc_small(size_t bytes)
{
    if (bytes <= most_bytes)
        return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

/* A text is read whole or not at all, if one request fails and if every large one does. */
START_TEST(no_letter_is_lost_without_memory)
{
    for (size_t i = 0; i < sizeof long_tokens / sizeof *long_tokens; i++) {
        json_t *whole = token_text_read(i, "all", 0), *v;
        ck_assert_ptr_nonnull(whole);
        json_set_alloc_funcs(yk__malloc, yk__free);
        const unsigned long before = yk__mem_count();
        json_decref(token_text_read(i, "all", 0));
        const unsigned long asked = yk__mem_count() - before;
        ck_assert_int_gt((int)asked, 2);
        for (unsigned long n = 0; n < asked; n++) {
            yk__mem_fail_once((long)n);
            v = token_text_read(i, "request", (long)n);
            ck_assert_msg(!v || json_equal(v, whole), "text %zu, request %lu: another value", i, n);
            json_decref(v);
        }
        json_set_alloc_funcs(malloc_small, free);
        for (most_bytes = 1; most_bytes < 400; most_bytes++) {
            v = token_text_read(i, "bytes", (long)most_bytes);
            ck_assert_msg(!v || json_equal(v, whole), "text %zu, at most %zu bytes: another value", i, most_bytes);
            json_decref(v);
        }
        json_set_alloc_funcs(malloc, free);
        json_decref(whole);
    }
}
END_TEST

/* Errors in texts of long tokens have the place and the words of those of short ones. */
START_TEST(faults_behind_long_tokens_are_named_in_place)
{
    static const char *const bad[][2] = {
        {"{\"a key of many letters\": tru}", "t: line 1, column 29: not JSON: invalid token near 'tru'"},
        {"[\"a value of many letters\"", "t: line 1, column 26: not JSON: ']' expected near end of file"},
        {"[\"a value of many letters\"], [\"another one\"]", "t: line 1, column 28: not JSON: end of file expected near ','"},
        {"[\"a value of many letters\"]]", "t: line 1, column 28: not JSON: end of file expected near ']'"},
        {"[\"a value of many letters\",\n\"and of many more of them]", "t: line 2, column 26: not JSON: premature end of input"},
        {"{\"a key of many letters\": 1,\n \"a key of many letters\": 2}", "t: line 2, column 24: not JSON: duplicate object key"},
        {"{\"a key of many letters\": 1e999}", "t: line 1, column 31: not JSON: real number overflow near '1e999'"},
        {"[", "t: line 1, column 1: not JSON: ']' expected near end of file"},
        {"{\"a key of many letters\": [1, ", "t: line 1, column 30: not JSON: ']' expected near end of file"},
        {"\"a text of many letters\"", "t: line 1, column 24: not JSON: '[' or '{' expected"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        yk_error err = YK_ERROR_INIT;
        json_t *v;
        ck_assert_int_eq(yk__json_parse("t", bad[i][0], strlen(bad[i][0]), YK__JSON_UNIQUE_KEYS, &v, &err), YK_E_FORMAT);
        ck_assert_msg(!strncmp(err.text, bad[i][1], strlen(bad[i][1])), "%s: %s", bad[i][0], err.text);
    }
}
END_TEST

/* A value in the lists is a level too. */
START_TEST(lists_are_as_deep_as_promised)
{
    enum { DEEP = 2047 };
    for (int deep = DEEP; deep <= DEEP + 1; deep++) {
        char text[2 * DEEP + 64];
        yk_error err = YK_ERROR_INIT;
        json_t *v = NULL;
        memset(text, '[', (size_t)deep);
        snprintf(text + deep, sizeof text - (size_t)deep, "\"a value of many letters\"");
        const size_t n = strlen(text);
        memset(text + n, ']', (size_t)deep);
        const yk_status s = yk__json_parse("t", text, n + (size_t)deep, 0, &v, &err);
        ck_assert_msg(deep == DEEP ? !s : s == YK_E_FORMAT && strstr(err.text, "line 1, column 2073: not JSON: maximum parsing depth"),
                      "%d: %s", deep, err.text);
        json_decref(v);
    }
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
    tcase_add_test(t, no_letter_is_lost_without_memory);
    tcase_add_test(t, faults_behind_long_tokens_are_named_in_place);
    tcase_add_test(t, lists_are_as_deep_as_promised);
    tcase_add_test(t, what_is_written_is_whole_or_nothing);
    return suite_run("json", t);
}
