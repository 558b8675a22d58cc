/* SPDX-License-Identifier: Apache-2.0 */
/* core/io/safetensors: safetensors-suite, real models, writing and reading back, several files, failing allocations. */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>

#include "core/base/mem.h"
#include "core/io/safetensors.h"
#include "tests/support/suite.h"

static char dir[] = "/tmp/yoke-st-XXXXXX";

static const char *in_dir(const char *name)
{
    static char p[256];
    snprintf(p, sizeof p, "%s/%s", dir, name);
    return p;
}

START_TEST(safetensors_suite_files_are_taken_or_refused)
{
    suite_index *x = suite_open("safetensors-suite");
    for (int i = 0; i < x->count; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__safetensors *st = NULL;
        yk_status s = yk__safetensors_open(suite_path("safetensors-suite", x->cell[i][0]), &st, &err);
        const void *p;
        if (!strcmp(x->cell[i][1], "accept"))
            ck_assert_msg(s == YK_OK, "%s", err.text);
        if (!strcmp(x->cell[i][1], "reject"))
            ck_assert_msg(s == YK_E_FORMAT && strstr(err.text, x->cell[i][0]), "%s: %d", x->cell[i][0], s);
        for (int64_t k = 0; !s && k < yk__safetensors_count(st); k++)
            ck_assert_int_eq(yk__safetensors_data(st, yk__safetensors_at(st, k), &p, &err), YK_OK);
        yk__safetensors_close(st);
    }
    ck_assert(x->count == 0 || x->count == 77);
    suite_close(x);
}
END_TEST

START_TEST(real_model)
{
    yk_error err = YK_ERROR_INIT;
    yk__safetensors *st;
    const yk__safetensor *t;
    if (!suite_there("models"))
        return;
    ck_assert_msg(yk__safetensors_open(suite_path("models", "all-minilm-l6-v2"), &st, &err) == YK_OK, "%s", err.text);
    t = yk__safetensors_find(st, "embeddings.word_embeddings.weight");
    ck_assert(t && t->dtype == YK_F32 && t->rank == 2 && t->shape[0] == 30522 && t->shape[1] == 384);
    t = yk__safetensors_find(st, "embeddings.position_ids");
    ck_assert(t && t->dtype == YK_I64);
    ck_assert_ptr_null(yk__safetensors_find(st, "nothing"));
    yk__safetensors_close(st);
}
END_TEST

static yk_status bytes_piece(void *user, int64_t i, uint64_t from, void *buf, size_t bytes, yk_error *err)
{
    (void)i, (void)err;
    memcpy(buf, (char *)user + from, bytes);
    return YK_OK;
}

static const int64_t shape23[] = {2, 3}, shape_big[] = {600000};
static const float six[] = {1, 2, 3, 4, 5, 6};

static void write_file(const char *path, const char *a, const char *b, char *big)
{
    static const char *const meta[] = {"format", "pt", "quote\"\\\n", "\xe4\xb8\xad"};
    yk__safetensors_out t[] = {{a, YK_F32, 2, shape23, six}, {b, YK_I32, 1, shape_big, NULL}};
    yk_error err = YK_ERROR_INIT;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(yk__safetensors_write(fd, path, t, 2, meta, 2, bytes_piece, big, &err) == YK_OK, "%s", err.text);
    close(fd);
}

START_TEST(write_and_read)
{
    yk_error err = YK_ERROR_INIT;
    yk__safetensors *st;
    const void *p;
    float two[2];
    char *big = malloc(4 * 600000);
    for (int i = 0; i < 4 * 600000; i++)
        big[i] = (char)(i * 7 % 251);
    write_file(in_dir("a.safetensors"), "w.\"x\"", "big", big);
    ck_assert_msg(yk__safetensors_open(in_dir("a.safetensors"), &st, &err) == YK_OK, "%s", err.text);
    ck_assert_str_eq(yk__safetensors_at(st, 0)->name, "w.\"x\"");
    ck_assert_str_eq(yk__safetensors_meta(st, "quote\"\\\n"), "\xe4\xb8\xad");
    ck_assert_int_eq(yk__safetensors_meta_count(st), 2);
    ck_assert_int_eq(yk__safetensors_data(st, yk__safetensors_at(st, 1), &p, &err), YK_OK);
    ck_assert(!memcmp(p, big, 4 * 600000));
    ck_assert_int_eq(yk__safetensors_load(st, yk__safetensors_at(st, 0), 8, 8, two, &err), YK_OK);
    ck_assert(two[0] == 3 && two[1] == 4);
    ck_assert_int_eq(yk__safetensors_load(st, yk__safetensors_at(st, 0), 20, 8, two, &err), YK_E_ARG);
    yk__safetensors_close(st);
    free(big);
}
END_TEST

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

/* A dimension of 0 does not hide that the others multiply to more than 64 bits, wherever it stands. */
START_TEST(a_zero_hides_no_overflow)
{
    static const struct {
        const char *shape;
        yk_status expected;
    } cases[] = {{"0,4611686018427387904,4611686018427387904", YK_E_FORMAT},
                 {"4611686018427387904,4611686018427387904,0", YK_E_FORMAT},
                 {"3,0,5", YK_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__safetensors *st = NULL;
        FILE *f = fopen(in_dir("zero.safetensors"), "w");
        char header[160];
        const int n = snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,0]}}", cases[i].shape);
        for (int k = 0; k < 8; k++)
            fputc(k ? 0 : n, f);
        fputs(header, f);
        fclose(f);
        const yk_status s = yk__safetensors_open(in_dir("zero.safetensors"), &st, &err);
        ck_assert_msg(s == cases[i].expected, "[%s]: %s", cases[i].shape, err.text);
        yk__safetensors_close(st);
    }
}
END_TEST

START_TEST(several_files)
{
    static const char ok[] = "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\",\"c\":\"2.safetensors\","
                             "\"d\":\"2.safetensors\"}}";
    static const char *const bad[] = {"{}",
                                      "{\"weight_map\":{\"a\":3}}",
                                      "{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
                                      "{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
                                      "{\"weight_map\":{\"a\":\"1.safetensors\",\"c\":\"1.safetensors\"}}",
                                      "{\"weight_map\":{\"a\":\"1.safetensors\",\"c\":\"3.safetensors\"}}"};
    yk_error err = YK_ERROR_INIT;
    yk__safetensors *st;
    char *big = calloc(4, 600000);
    const char *index = strdup(in_dir("model.safetensors.index.json"));
    write_file(in_dir("1.safetensors"), "a", "b", big);
    write_file(in_dir("2.safetensors"), "c", "d", big);
    write_file(in_dir("3.safetensors"), "a", "c", big);
    write_text(index, ok);
    ck_assert_msg(yk__safetensors_open(dir, &st, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(yk__safetensors_count(st), 4);
    ck_assert_int_eq(yk__safetensors_find(st, "d")->file, 1);
    yk__safetensors_close(st);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text(index, bad[i]);
        ck_assert_msg(yk__safetensors_open(index, &st, &err) == YK_E_FORMAT, "%s: accepted", bad[i]);
    }
    free((void *)index);
    free(big);
}
END_TEST

START_TEST(failing_allocations)
{
    yk_status s = YK_E_MEM;
    if (!suite_there("safetensors-suite"))
        return;
    json_set_alloc_funcs(yk__malloc, yk__free);
    for (long n = 0; s; n++) {
        yk_error err = YK_ERROR_INIT;
        yk__safetensors *st = NULL;
        const void *p;
        yk__mem_fail_after(n);
        s = yk__safetensors_open(suite_path("safetensors-suite", "good/metadata.safetensors"), &st, &err);
        if (!s)
            s = yk__safetensors_data(st, yk__safetensors_at(st, 0), &p, &err);
        yk__mem_fail_after(-1);
        ck_assert_msg(s == YK_OK || s == YK_E_MEM, "%s", err.text);
        yk__safetensors_close(st);
    }
    json_set_alloc_funcs(malloc, free);
}
END_TEST

/* One request fails and later ones do not: the header is read whole or not at all. */
START_TEST(a_failed_allocation_loses_no_letter)
{
    static const char head[] = "{\"__metadata__\":{\"a key of many letters\":\"a value of many letters\"},"
                               "\"encoder.layer.0.attention.self.query.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    char path[] = "/tmp/yoke-safetensors-XXXXXX";
    const int fd = mkstemp(path);
    const uint64_t n = sizeof head - 1;
    ck_assert(fd >= 0 && write(fd, &n, 8) == 8 && write(fd, head, n) == (ssize_t)n && write(fd, "\0\0\0", 4) == 4 && !close(fd));
    json_set_alloc_funcs(yk__malloc, yk__free);
    unsigned long asked = 0;
    for (long at = -1; at < (long)asked; at++) { /* first none fails */
        yk_error err = YK_ERROR_INIT;
        yk__safetensors *st = NULL;
        const unsigned long before = yk__mem_count();
        yk__mem_fail_once(at);
        const yk_status s = yk__safetensors_open(path, &st, &err);
        yk__mem_fail_after(-1);
        asked = at < 0 ? yk__mem_count() - before : asked;
        ck_assert(at >= 0 || (!s && asked > 5));
        ck_assert_msg(s == YK_OK || s == YK_E_MEM, "request %ld: %s", at, err.text);
        const char *value = s ? "" : yk__safetensors_meta(st, "a key of many letters");
        ck_assert_msg(s || (value && !strcmp(value, "a value of many letters")), "request %ld: \"%s\"", at, value ? value : "no key");
        ck_assert_msg(s || yk__safetensors_find(st, "encoder.layer.0.attention.self.query.weight"), "request %ld: another name", at);
        yk__safetensors_close(st);
    }
    json_set_alloc_funcs(malloc, free);
    unlink(path);
}
END_TEST

int main(void)
{
    static const char *const made[] = {"a.safetensors", "1.safetensors", "2.safetensors", "3.safetensors", "zero.safetensors",
                                       "model.safetensors.index.json"};
    TCase *t = tcase_create("safetensors");
    suite_there("safetensors-suite");
    if (!mkdtemp(dir))
        return 1;
    tcase_set_timeout(t, 60);
    tcase_add_test(t, safetensors_suite_files_are_taken_or_refused);
    tcase_add_test(t, real_model);
    tcase_add_test(t, write_and_read);
    tcase_add_test(t, a_zero_hides_no_overflow);
    tcase_add_test(t, several_files);
    tcase_add_test(t, failing_allocations);
    tcase_add_test(t, a_failed_allocation_loses_no_letter);
    suite_run("safetensors", t);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        unlink(in_dir(made[i]));
    return rmdir(dir);
}
