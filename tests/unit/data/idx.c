/* SPDX-License-Identifier: Apache-2.0 */
/* core/data/idx, cifar, tokens: whole suites, pairs, failing allocations. */
#include <check.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/read/cifar.h"
#include "core/read/idx.h"
#include "core/read/tokens.h"
#include "tests/support/suite.h"

/* The suite's reject entries include sound files that do not fit as a pair; this is the whole check of one file. */
static yk_status file_check(const char *name, yk_error *err)
{
    const char *path = suite_path("idx-suite", name);
    const char *images_path = suite_path("idx-suite", "good/images-20.idx3-ubyte");
    yk__idx *x = NULL, *images = NULL;
    yk_status s = yk__idx_open(path, &x, err);
    if (s)
        return s;
    if (strstr(name, "label-") || strstr(name, "labels-19")) {
        s = yk__idx_open(images_path, &images, err);
        ck_assert_msg(s == YK_OK, "%s", err->text);
        s = yk__idx_check_pair(images, images_path, x, path, 10, err);
    } else if (strstr(name, "swapped")) {
        s = yk__idx_check_pair(x, path, x, path, 10, err);
    }
    yk__idx_close(images);
    yk__idx_close(x);
    return s;
}

START_TEST(idx_suite_files_are_taken_or_refused)
{
    suite_index *x = suite_open("idx-suite");
    for (int i = 0; i < x->count; i++) {
        yk_error err = YK_ERROR_INIT;
        yk_status s = file_check(x->cell[i][0], &err);
        if (!strcmp(x->cell[i][1], "accept"))
            ck_assert_msg(s == YK_OK, "%s", err.text);
        else
            ck_assert_msg(s == YK_E_FORMAT && strstr(err.text, x->cell[i][0]), "%s: status %d", x->cell[i][0], s);
    }
    ck_assert(x->count == 0 || x->count == 24);
    suite_close(x);
}
END_TEST

START_TEST(values_of_every_type_are_read)
{
    static const uint8_t f32[] = {0, 0, 0x0d, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0x40, 0, 0};
    yk_error err = YK_ERROR_INIT;
    yk__file *f;
    yk__idx *x;
    ck_assert_int_eq(yk__file_from_memory("m", f32, sizeof f32, YK__FILE_AUTO, &f, &err), YK_OK);
    ck_assert_msg(yk__idx_read(f, &x, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(yk__idx_shape(x)[0], 2);
    ck_assert(((const float *)yk__idx_data(x))[0] == 1.0f && ((const float *)yk__idx_data(x))[1] == -3.0f);
    yk__idx_close(x);
    yk__file_close(f);
}
END_TEST

/* A dimension of 0 does not hide that the others multiply to more than 64 bits: images are asked for the size of one. */
START_TEST(a_zero_hides_no_overflow)
{
    static const uint8_t most[] = {0xff, 0xff, 0xff, 0xff}, none[4] = {0};
    for (int zero = 0; zero < 4; zero++) {
        uint8_t text[20] = {0, 0, 8, 4};
        yk_error err = YK_ERROR_INIT;
        yk__file *f;
        yk__idx *x;
        for (int i = 0; i < 4; i++)
            memcpy(text + 4 + 4 * i, i == zero ? none : most, 4);
        ck_assert_int_eq(yk__file_from_memory("m", text, sizeof text, YK__FILE_PLAIN, &f, &err), YK_OK);
        ck_assert_int_eq(yk__idx_read(f, &x, &err), YK_E_FORMAT);
        ck_assert_msg(strstr(err.text, "overflows"), "%s", err.text);
        yk__file_close(f);
    }
}
END_TEST

START_TEST(fashion_mnist)
{
    const char *pi = suite_path("fashion-mnist", "t10k-images-idx3-ubyte.gz");
    const char *pl = suite_path("fashion-mnist", "t10k-labels-idx1-ubyte.gz");
    yk_error err = YK_ERROR_INIT;
    yk__idx *images, *labels;
    if (!suite_there("fashion-mnist"))
        return;
    ck_assert_msg(yk__idx_open(pi, &images, &err) == YK_OK, "%s", err.text);
    ck_assert_msg(yk__idx_open(pl, &labels, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(yk__idx_shape(images)[0], 10000);
    ck_assert_int_eq(yk__idx_shape(images)[2], 28);
    ck_assert_msg(yk__idx_check_pair(images, pi, labels, pl, 10, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(yk__idx_check_pair(labels, pl, images, pi, 10, &err), YK_E_FORMAT);
    yk__idx_close(images);
    yk__idx_close(labels);
}
END_TEST

START_TEST(cifar10_batches_are_read)
{
    yk_error err = YK_ERROR_INIT;
    static const uint8_t first[] = {6, 9, 9, 4, 1, 1, 2, 7, 8, 3};
    yk__cifar cifar, bad;
    uint8_t record[2 * YK__CIFAR_RECORD];
    yk__file *f;
    if (!suite_there("cifar10-part"))
        return;
    ck_assert_msg(yk__cifar_open(suite_path("cifar10-part", "cifar10-train-0000-1999.bin.gz"), 0, &cifar, &err) == YK_OK, "%s",
                  err.text);
    ck_assert_int_eq(cifar.count, 2000);
    ck_assert_int_eq(memcmp(cifar.labels, first, sizeof first), 0);
    ck_assert_msg(yk__blob_read(cifar.records, 0, record, sizeof record, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(record[YK__CIFAR_RECORD], first[1]);
    record[YK__CIFAR_RECORD] = 10;
    for (size_t cut = 0; cut < 2; cut++) { /* a label of 10; a byte missing */
        ck_assert_int_eq(yk__file_from_memory("m", record, sizeof record - cut, YK__FILE_PLAIN, &f, &err), YK_OK);
        ck_assert_int_eq(yk__cifar_read(f, UINT64_MAX, &bad, &err), YK_E_FORMAT);
        yk__file_close(f);
    }
    yk__cifar_free(&cifar);
}
END_TEST

static yk_status tokens_read(const void *data, size_t bytes, int width, yk__tokens *t, yk_error *err)
{
    yk__file *f;
    yk_status s = yk__file_from_memory("t", data, bytes, YK__FILE_AUTO, &f, err);
    if (s)
        return s;
    s = yk__tokens_read(f, width, t, err);
    yk__file_close(f);
    if (!s && yk__tokens_check(t, err)) {
        yk__tokens_close(t);
        return err->status;
    }
    return s;
}

static int32_t token_at(const yk__tokens *t, int64_t i)
{
    yk_error err = YK_ERROR_INIT;
    int32_t id = -1;
    ck_assert_msg(yk__tokens_get(t, i, 1, &id, &err) == YK_OK, "%s", err.text);
    return id;
}

START_TEST(token_files)
{
    static uint8_t h[40] = "YKTOKENS\1\0\0\0\4\0\0\0\2\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\7\0\0\0\x09";
    yk_error err = YK_ERROR_INIT;
    yk__tokens t;
    ck_assert_int_eq(tokens_read("\1\0\xff\xff\2\0", 6, 0, &t, &err), YK_OK);
    ck_assert(t.count == 3 && t.vocab == 65536 && token_at(&t, 1) == 65535 && token_at(&t, 2) == 2);
    yk__tokens_close(&t);
    ck_assert_int_eq(tokens_read("\1\0\0", 3, 0, &t, &err), YK_E_FORMAT);
    ck_assert_int_eq(tokens_read("", 0, 0, &t, &err), YK_E_FORMAT);
    ck_assert_int_eq(tokens_read("\1\0\0\xff", 4, 4, &t, &err), YK_E_FORMAT); /* over int32 */
    ck_assert_msg(tokens_read(h, 40, 0, &t, &err) == YK_OK, "%s", err.text);
    ck_assert(t.header && t.width == 4 && t.count == 2 && t.vocab == 10 && token_at(&t, 0) == 7);
    yk__tokens_close(&t);
    ck_assert_int_eq(tokens_read(h, 40, 2, &t, &err), YK_E_FORMAT); /* another width */
    ck_assert_int_eq(tokens_read(h, 36, 0, &t, &err), YK_E_FORMAT); /* cut */
    h[36] = 10;                                                /* not below the vocabulary */
    ck_assert_int_eq(tokens_read(h, 40, 0, &t, &err), YK_E_FORMAT);
}
END_TEST

START_TEST(failing_allocations)
{
    yk_status s = YK_E_MEM;
    if (!suite_there("idx-suite"))
        return;
    for (long n = 0; s; n++) {
        yk_error err = YK_ERROR_INIT;
        yk__idx *x = NULL;
        yk__mem_fail_after(n);
        s = yk__idx_open(suite_path("idx-suite", "good/images-20.idx3-ubyte.gz"), &x, &err);
        yk__mem_fail_after(-1);
        ck_assert_msg(s == YK_OK || s == YK_E_MEM, "%s", err.text);
        yk__idx_close(x);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("idx");
    suite_there("idx-suite");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, idx_suite_files_are_taken_or_refused);
    tcase_add_test(t, values_of_every_type_are_read);
    tcase_add_test(t, a_zero_hides_no_overflow);
    tcase_add_test(t, fashion_mnist);
    tcase_add_test(t, cifar10_batches_are_read);
    tcase_add_test(t, token_files);
    tcase_add_test(t, failing_allocations);
    return suite_run("idx", t);
}
