/* SPDX-License-Identifier: Apache-2.0 */
/* core/io/file: gzip-suite, plain files, sizes that lie. */
#include <check.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/io/file.h"
#include "tests/support/sha256.h"
#include "tests/support/suite.h"

static yk_status sum_file(const char *path, char hex[65], uint64_t *bytes, yk_error *err)
{
    static char buf[100003];
    size_t got = 1;
    sha256 sum;
    yk__file *f;
    yk_status s = yk__file_open(path, YK__FILE_GZIP, &f, err);
    if (s)
        return s;
    sha256_begin(&sum);
    while (!s && got) {
        s = yk__file_read(f, buf, sizeof buf, &got, err);
        if (!s)
            sha256_add(&sum, buf, got);
    }
    *bytes = yk__file_offset(f);
    yk__file_close(f);
    sha256_end(&sum, hex);
    return s;
}

START_TEST(gzip_suite_files_are_taken_or_refused)
{
    suite_index *x = suite_open("gzip-suite");
    for (int i = 0; i < x->count; i++) {
        yk_error err = YK_ERROR_INIT;
        char hex[65];
        uint64_t bytes = 0;
        yk_status s = sum_file(suite_path("gzip-suite", x->cell[i][0]), hex, &bytes, &err);
        if (!strcmp(x->cell[i][1], "accept")) {
            ck_assert_msg(s == YK_OK, "%s", err.text);
            ck_assert_uint_eq(bytes, strtoull(x->cell[i][2], NULL, 10));
            ck_assert_str_eq(hex, x->cell[i][3]);
        } else {
            ck_assert_msg(s == YK_E_FORMAT, "%s: accepted", x->cell[i][0]);
            ck_assert_ptr_nonnull(strstr(err.text, x->cell[i][0]));
        }
    }
    ck_assert(x->count == 0 || x->count >= 44);
    suite_close(x);
}
END_TEST

START_TEST(memory_is_bounded_by_what_is_there)
{
    static const uint8_t five[] = "12345";
    yk_error err = YK_ERROR_INIT;
    yk__file *f;
    void *p;
    ck_assert_int_eq(yk__file_from_memory("five", five, 5, YK__FILE_AUTO, &f, &err), YK_OK);
    ck_assert_int_eq(yk__file_read_exact(f, (uint64_t)1 << 62, "elements", &p, &err), YK_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "five: byte 0: expected 4611686018427387904 bytes of elements, found 5"));
    ck_assert_int_eq(yk__file_read_exact(f, 5, "elements", &p, &err), YK_OK);
    ck_assert_str_eq(p, "12345");
    ck_assert_int_eq(yk__file_expect_end(f, "elements", &err), YK_OK);
    yk__free(p);
    yk__file_close(f);
}
END_TEST

START_TEST(missing_files_and_directories)
{
    yk_error err = YK_ERROR_INIT;
    yk__file *f;
    ck_assert_int_eq(yk__file_open("/nonexistent/file", YK__FILE_AUTO, &f, &err), YK_E_ARG);
    ck_assert_int_eq(yk__file_open("/", YK__FILE_AUTO, &f, &err), YK_E_ARG);
}
END_TEST

START_TEST(failing_allocations)
{
    const char *path = suite_path("gzip-suite", "good/many-blocks.gz");
    yk_status s = YK_E_MEM;
    long n = 0;
    if (!suite_there("gzip-suite"))
        return;
    for (; s; n++) {
        yk_error err = YK_ERROR_INIT;
        yk__file *f = NULL;
        char *p = NULL;
        size_t bytes;
        yk__mem_fail_after(n);
        s = yk__file_open(path, YK__FILE_AUTO, &f, &err);
        if (!s)
            s = yk__file_read_rest(f, 1 << 20, &p, &bytes, &err);
        yk__mem_fail_after(-1);
        ck_assert_msg(s == YK_OK || s == YK_E_MEM, "%s", err.text);
        yk__free(p);
        yk__file_close(f);
    }
    ck_assert_int_gt(n, 4);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("gzip");
    suite_there("gzip-suite");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, gzip_suite_files_are_taken_or_refused);
    tcase_add_test(t, memory_is_bounded_by_what_is_there);
    tcase_add_test(t, missing_files_and_directories);
    tcase_add_test(t, failing_allocations);
    return suite_run("gzip", t);
}
