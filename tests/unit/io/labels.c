/* SPDX-License-Identifier: Apache-2.0 */
/* core/io/labels: id2label, label2id and num_labels of config.json agree, or the file is refused. */
#include <check.h>
#include <string.h>

#include "core/io/labels.h"
#include "tests/support/run.h"

/* The status for id2label {"0": "no", "1": "yes"} beside this label2id; the error's text in said. */
static yk_status numbers_read(const char *numbers, char said[YK_ERROR_TEXT])
{
    char text[256];
    yk_error err = YK_ERROR_INIT;
    yk__labels labels = {0};
    json_t *config;
    snprintf(text, sizeof text, "{\"id2label\": {\"0\": \"no\", \"1\": \"yes\"}, \"label2id\": %s}", numbers);
    ck_assert_int_eq(yk__json_parse("t", text, strlen(text), 0, &config, &err), YK_OK);
    const yk_status s = yk__labels_of(config, "t", &labels, &err);
    ck_assert_int_eq(labels.count, s ? 0 : 2);
    yk__labels_free(&labels);
    json_decref(config);
    snprintf(said, YK_ERROR_TEXT, "%s", err.text);
    return s;
}

START_TEST(agreeing_numbers_are_taken)
{
    static const char *const good[] = {"{\"no\": 0, \"yes\": 1}", "{\"no\": \"0\", \"yes\": \"1\"}", "{\"yes\": 1}", "{}", "null"};
    char said[YK_ERROR_TEXT];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(numbers_read(good[i], said) == YK_OK, "%s: %s", good[i], said);
}
END_TEST

START_TEST(another_number_or_none_is_refused)
{
    static const char *const bad[][2] = {
        {"{\"no\": 1, \"yes\": 0}", "another number"},   {"{\"yes\": 2}", "another number"},
        {"{\"yes\": \"0\"}", "another number"},          {"{\"no\": -1}", "found a negative one"},
        {"{\"no\": 0.0}", "found a number"},             {"{\"yes\": 1.5}", "found a number"},
        {"{\"no\": \"-1\"}", "found a string"},          {"{\"no\": \"none\"}", "found a string"},
        {"{\"no\": \"\"}", "found a string"},            {"{\"yes\": \"99999999999\"}", "found a string"},
        {"{\"no\": null}", "found null"},                {"{\"no\": false, \"yes\": true}", "found false"},
        {"{\"no\": [0]}", "found an array"},             {"[\"no\", \"yes\"]", "label2id: expected an object, found an array"},
        {"\"no\"", "label2id: expected an object"},
    };
    char said[YK_ERROR_TEXT];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(numbers_read(bad[i][0], said) == YK_E_FORMAT, "%s is taken", bad[i][0]);
        ck_assert_msg(strstr(said, bad[i][1]) && strstr(said, "label2id"), "%s: %s", bad[i][0], said);
    }
}
END_TEST

/* The names that a configuration gives, joined by blanks; "" if none. */
static yk_status names_of(const char *text, char names[64], char said[YK_ERROR_TEXT])
{
    yk_error err = YK_ERROR_INIT;
    yk__labels labels = {0};
    json_t *config;
    ck_assert_int_eq(yk__json_parse("t", text, strlen(text), 0, &config, &err), YK_OK);
    const yk_status s = yk__labels_of(config, "t", &labels, &err);
    *names = 0;
    for (int i = 0; i < labels.count; i++)
        snprintf(names + strlen(names), 64 - strlen(names), "%s%s", i ? " " : "", labels.name[i]);
    yk__labels_free(&labels);
    json_decref(config);
    snprintf(said, YK_ERROR_TEXT, "%s", err.text);
    return s;
}

/* transformers' scripts number data by it, whatever its preset for id2label says. */
START_TEST(label2id_names_the_classes_if_nothing_else_does)
{
    static const char *const good[][2] = {
        {"{\"label2id\": {\"no\": 1, \"yes\": 0}}", "yes no"},
        {"{\"label2id\": {\"no\": \"1\", \"yes\": \"0\"}, \"num_labels\": 2}", "yes no"},
        {"{\"id2label\": null, \"label2id\": {\"yes\": 0, \"no\": 1}}", "yes no"},
        {"{\"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"label2id\": {\"no\": 1, \"yes\": 0}}", "yes no"},
        {"{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}, \"label2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}}", "a b"},
        {"{\"id2label\": {\"0\": \"LABEL_0\"}, \"label2id\": {\"LABEL_0\": 0}}", "LABEL_0"},
        {"{\"label2id\": {}}", ""}, {"{\"num_labels\": 3}", ""},
    };
    char names[64], said[YK_ERROR_TEXT];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(names_of(good[i][0], names, said) == YK_OK, "%s: %s", good[i][0], said);
        ck_assert_msg(!strcmp(names, good[i][1]), "%s: %s", good[i][0], names);
    }
}
END_TEST

START_TEST(names_that_contradict_each_other_or_their_number_are_refused)
{
    static const char *const bad[][2] = {
        {"{\"label2id\": {\"no\": 1, \"yes\": 1}}", "label2id has 2 names"},
        {"{\"label2id\": {\"no\": 0, \"yes\": 2}}", "a number from 0 to 1 that no other name has"},
        {"{\"label2id\": {\"no\": 0, \"yes\": true}}", "label2id has 2 names: \"yes\""},
        {"{\"label2id\": [\"no\"]}", "label2id: expected an object, found an array"},
        {"{\"id2label\": {\"0\": \"LABEL_0\"}, \"label2id\": {\"no\": 0, \"yes\": 1}}", "label2id has 2 names, and id2label 1"},
        {"{\"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"a\"}}", "id2label names class 0 and another one \"a\""},
        {"{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}, \"num_labels\": 3}", "num_labels is not the number of names"},
        {"{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}, \"num_labels\": true}", "num_labels is not the number of names"},
        {"{\"label2id\": {\"a\": 0, \"b\": 1}, \"num_labels\": 3}", "num_labels is not the number of names"},
    };
    char names[64], said[YK_ERROR_TEXT];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(names_of(bad[i][0], names, said) == YK_E_FORMAT, "%s is taken: %s", bad[i][0], names);
        ck_assert_msg(strstr(said, bad[i][1]), "%s: %s", bad[i][0], said);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("labels");
    tcase_add_test(t, agreeing_numbers_are_taken);
    tcase_add_test(t, another_number_or_none_is_refused);
    tcase_add_test(t, label2id_names_the_classes_if_nothing_else_does);
    tcase_add_test(t, names_that_contradict_each_other_or_their_number_are_refused);
    return suite_run("labels", t);
}
