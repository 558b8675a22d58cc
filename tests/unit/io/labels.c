/* SPDX-License-Identifier: Apache-2.0 */
/* core/io/labels: id2label and label2id of config.json agree, or the file is refused. */
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

int main(void)
{
    TCase *t = tcase_create("labels");
    tcase_add_test(t, agreeing_numbers_are_taken);
    tcase_add_test(t, another_number_or_none_is_refused);
    return suite_run("labels", t);
}
