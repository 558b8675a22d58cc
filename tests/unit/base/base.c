/* SPDX-License-Identifier: Apache-2.0 */
/* core/base: errors, allocations that fail on demand, Philox, hash, 16-bit formats, nearest names, environment variables, exact sums. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/dtype.h>

#include "core/base/byte_order.h"
#include "core/base/clock.h"
#include "core/base/convert.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/base/number.h"
#include "core/base/option.h"
#include "core/base/option_names.h"
#include "core/base/philox.h"
#include "core/base/round.h"
#include "core/base/word.h"
#include "core/coll/exact.h"
#include "tests/support/run.h"

START_TEST(error_keeps_one_clean_line)
{
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(yk__fail(&err, YK_E_IO, "%s: a\nb", "file"), YK_E_IO);
    ck_assert_str_eq(err.text, "file: a?b");
    ck_assert_int_eq(yk__fail_in(&err, "reading %d", 7), YK_E_IO);
    ck_assert_str_eq(err.text, "reading 7: file: a?b");
    ck_assert_int_eq(yk__fail(&err, YK_OK, "x"), YK_E_INTERNAL);
    ck_assert_str_eq(yk__status_name(YK_E_FORMAT), "YK_E_FORMAT");
    ck_assert_str_eq(yk__status_name((yk_status)99), "YK_E_?");
}
END_TEST

START_TEST(long_errors_are_cut)
{
    yk_error err = YK_ERROR_INIT;
    char big[4000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    yk__fail(&err, YK_E_ARG, "%s", big);
    yk__fail_in(&err, "%s", big);
    ck_assert_uint_lt(strlen(err.text), sizeof err.text);
}
END_TEST

START_TEST(allocations_fail_on_demand)
{
    char *p = NULL;
    size_t cap = 0;
    yk__mem_fail_after(1);
    void *first = yk__malloc(8);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(yk__malloc(8));
    ck_assert_int_eq(yk__grow(&p, &cap, 10, 4), -1);
    yk__mem_fail_after(-1);
    ck_assert_int_eq(yk__grow(&p, &cap, 10, 4), 0);
    ck_assert_uint_ge(cap, 10);
    ck_assert_ptr_null(yk__realloc(NULL, SIZE_MAX / 2, 4));
    yk__free(p);
    yk__free(first);
    yk__mem_fail_once(1);
    for (int i = 0; i < 3; i++) {
        p = yk__malloc(8);
        ck_assert(!p == (i == 1));
        yk__free(p);
    }
}
END_TEST

START_TEST(a_byte_is_two_digits)
{
    static const char *const wrong[] = {"", "a", " 1", "+1", "-1", "0x", "1g", "1 "};
    uint8_t byte = 7;
    ck_assert(yk__number_byte("0fz", &byte) && byte == 15);
    ck_assert(yk__number_byte("Ab", &byte) && byte == 0xab);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(!yk__number_byte(wrong[i], &byte), "'%s'", wrong[i]);
}
END_TEST

START_TEST(bytes_of_whole_elements_turn_round)
{
    static const unsigned char in[7] = {1, 2, 3, 4, 5, 6, 7}, by_two[7] = {2, 1, 4, 3, 6, 5, 7}, by_four[7] = {4, 3, 2, 1, 5, 6, 7};
    unsigned char x[7];
    memcpy(x, in, sizeof x);
    yk__bytes_swap(x, sizeof x, 1);
    ck_assert_mem_eq(x, in, sizeof x);
    yk__bytes_swap(x, sizeof x, 2);
    ck_assert_mem_eq(x, by_two, sizeof x);
    yk__bytes_swap(x, sizeof x, 2);
    yk__bytes_swap(x, sizeof x, 4);
    ck_assert_mem_eq(x, by_four, sizeof x);
    yk__bytes_swap(x, sizeof x, 0);
    ck_assert_mem_eq(x, by_four, sizeof x);
}
END_TEST

/* The known answers of Random123's kat_vectors for philox4x32-10. */
START_TEST(philox_known_answers)
{
    uint32_t out[4];
    yk__philox((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0}, out);
    ck_assert_uint_eq(out[0], 0x6627e8d5u);
    ck_assert_uint_eq(out[1], 0xe169c58du);
    ck_assert_uint_eq(out[2], 0xbc57ac4cu);
    ck_assert_uint_eq(out[3], 0x9b00dbd8u);
    yk__philox((uint32_t[]){~0u, ~0u, ~0u, ~0u}, (uint32_t[]){~0u, ~0u}, out);
    ck_assert_uint_eq(out[0], 0x408f276du);
    ck_assert_uint_eq(out[3], 0x6d5451fdu);
}
END_TEST

START_TEST(hash_sees_every_byte)
{
    unsigned char data[100] = {0};
    const uint64_t h = yk__hash_bytes(YK_HASH_SEED, data, sizeof data);
    ck_assert(h == yk__hash_bytes(YK_HASH_SEED, data, sizeof data));
    ck_assert(h != yk__hash_bytes(YK_HASH_SEED, data, sizeof data - 1));
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = 1;
        ck_assert(h != yk__hash_bytes(YK_HASH_SEED, data, sizeof data));
        data[i] = 0;
    }
}
END_TEST

START_TEST(sixteen_bits_round_trip)
{
    for (uint32_t u = 0; u < 65536; u++) {
        const float b = yk__bf16_to_f32((uint16_t)u), h = yk__f16_to_f32((uint16_t)u);
        if (!isnan(b))
            ck_assert_uint_eq(yk__f32_to_bf16(b), u);
        else
            ck_assert(isnan(yk__bf16_to_f32(yk__f32_to_bf16(b))));
        if (!isnan(h))
            ck_assert_uint_eq(yk__f32_to_f16(h), u);
        else
            ck_assert(isnan(yk__f16_to_f32(yk__f32_to_f16(h))));
    }
}
END_TEST

/* Halfway between two neighbours goes to the even one; a little more or less to the nearer. */
START_TEST(sixteen_bits_round_to_nearest_even)
{
    for (uint32_t u = 0; u < 0x7bff; u++) {
        const float a = yk__f16_to_f32((uint16_t)u), b = yk__f16_to_f32((uint16_t)(u + 1)), mid = (a + b) / 2;
        ck_assert_uint_eq(yk__f32_to_f16(mid), u & 1 ? u + 1 : u);
        ck_assert_uint_eq(yk__f32_to_f16(nextafterf(mid, b)), u + 1);
        ck_assert_uint_eq(yk__f32_to_f16(nextafterf(mid, a)), u);
    }
    ck_assert_uint_eq(yk__f32_to_f16(65520.0f), 0x7c00);
    ck_assert_uint_eq(yk__f32_to_f16(65519.996f), 0x7bff);
    ck_assert_uint_eq(yk__f32_to_bf16(1.00390625f), 0x3f80);
    ck_assert_uint_eq(yk__f32_to_bf16(1.01171875f), 0x3f82);
}
END_TEST

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Arrays are done in blocks and a rest; each upper half beside lower ones below, at and above the middle, NaN among them. */
START_TEST(arrays_of_bf16_are_as_single_numbers)
{
    static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { N = 65536 + 77 };
    float *v = malloc(N * sizeof *v), *was = malloc(N * sizeof *v), *rest = malloc(N * sizeof *v);
    uint16_t *narrow = malloc(N * sizeof *narrow);
    for (size_t k = 0; k < sizeof lower / sizeof *lower; k++) {
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t u = i << 16 | lower[k];
            memcpy(&was[i], &u, sizeof u);
        }
        memcpy(v, was, N * sizeof *v);
        yk__f32_to_bf16s(was, N, narrow);
        yk__split_bf16s(v, N, rest);
        for (uint32_t i = 0; i < N; i++) {
            ck_assert_uint_eq(narrow[i], yk__f32_to_bf16(was[i]));
            ck_assert_uint_eq(bits_of(v[i]), (uint32_t)narrow[i] << 16);
            if (isfinite(v[i]))
                ck_assert_msg(v[i] + rest[i] == was[i], "%08x", bits_of(was[i]));
        }
        ck_assert_int_eq(yk__array_to_f32(YK_BF16, narrow, N, rest), 0);
        for (uint32_t i = 0; i < N; i++)
            ck_assert_uint_eq(bits_of(rest[i]), (uint32_t)narrow[i] << 16);
    }
    free(v), free(was), free(rest), free(narrow);
}
END_TEST

START_TEST(arrays_become_f32)
{
    const int64_t i64[] = {-3, 1LL << 40};
    const double f64[] = {0.5, -2};
    const uint8_t u8[] = {0, 255};
    float f[2];
    ck_assert_int_eq(yk__array_to_f32(YK_I64, i64, 2, f), 0);
    ck_assert(f[0] == -3 && f[1] == 0x1p40f);
    ck_assert_int_eq(yk__array_to_f32(YK_F64, f64, 2, f), 0);
    ck_assert(f[0] == 0.5f && f[1] == -2);
    ck_assert_int_eq(yk__array_to_f32(YK_U8, u8, 2, f), 0);
    ck_assert(f[1] == 255);
    ck_assert_int_eq(yk__array_to_f32(YK_F8E4M3, u8, 2, f), -1);
}
END_TEST

START_TEST(nearest_names)
{
    const char *const words[] = {"devices", "data", "model"};
    ck_assert_str_eq(yk__nearest_word("divices", words, 3), "devices");
    ck_assert_str_eq(yk__nearest_word("modle", words, 3), "model");
    ck_assert_ptr_null(yk__nearest_word("quantum", words, 3));
}
END_TEST

START_TEST(words_have_one_canonical_spelling)
{
    const char *list = "full_shard=1|no_prefetch|fp16=float16=half";
    const struct {
        const char *given, *canonical;
    } rows[] = {{"FULL_SHARD", "full_shard"}, {"Full-Shard", "full_shard"}, {"1", "full_shard"},   {"NO_PREFETCH", "no_prefetch"},
                {"HALF", "fp16"},             {"Float16", "fp16"},         {"float", ""},          {"full_shard ", ""},
                {"", ""},                     {"full_shard=1", ""},        {"no_prefetch|fp16", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int k = yk__word_find(list, rows[i].given, strlen(rows[i].given));
        ck_assert_str_eq(k < 0 ? "" : yk__word_text(list, k).text, rows[i].canonical);
    }
    ck_assert_str_eq(yk__word_text(list, 3).text, "");
}
END_TEST

/* The text of the error for a value; "" when it is taken. */
static const char *option_refused(yk__option option, const char *value)
{
    static yk_error err;
    memset(&err, 0, sizeof err);
    setenv(yk__option_row_of(option)->name, value, 1);
    const yk_status one = yk__option_check(option, &err);
    const yk_status all = yk__options_check(&err);
    ck_assert_int_eq(one, all);
    ck_assert_int_eq(one, *err.text ? YK_E_ARG : YK_OK);
    unsetenv(yk__option_row_of(option)->name);
    return err.text;
}

/* Every kind of value: the error names variable, value and what is allowed. */
START_TEST(options_refuse_what_they_cannot_read)
{
    static const struct {
        yk__option option;
        const char *value, *wanted;
    } bad[] = {
        {YK__OPTION_LOG, "loud", "YOKE_LOG=loud: expected one of error, warn"},
        {YK__OPTION_LOG, "debg", "did you mean debug?"},
        {YK__OPTION_LOG, "Debug", "expected one of error, warn, info, debug, trace, not \"Debug\""},
        {YK__OPTION_CUT, "nodes", "did you mean node?"},
        {YK__OPTION_PROBE, "no", "expected one of on, off"},
        {YK__OPTION_LAYERS, "trace,validat", "did you mean validate?"},
        {YK__OPTION_BUCKET_BYTES, "16MB", "YOKE_BUCKET_BYTES=16MB: expected bytes"},
        {YK__OPTION_BUCKET_BYTES, "abc", "=abc: expected"},
        {YK__OPTION_BUCKET_BYTES, "-1", "=-1: expected"},
        {YK__OPTION_BUCKET_BYTES, "0", "at least 4096"},
        {YK__OPTION_BUCKET_BYTES, "1M,2M", "=1M,2M: expected"},
        {YK__OPTION_BUCKET_BYTES, "99999999999999999999", "expected"},
        {YK__OPTION_MEMORY_LIMIT, ",", "YOKE_MEMORY_LIMIT=,: expected"},
        {YK__OPTION_MEMORY_LIMIT, "1G,", "one such number for each rank"},
        {YK__OPTION_MEMORY_LIMIT, "1e15T", "expected"},
        {YK__OPTION_MEMORY_LIMIT, "999999999999T", "expected"},
        {YK__OPTION_MEMORY_LIMIT, "nan", "expected"},
        {YK__OPTION_LIVENESS_MS, "soon", "expected a whole number from 0 to 3600000"},
        {YK__OPTION_LIVENESS_MS, "1.5", "expected a whole number"},
        {YK__OPTION_JOIN_MS, "0", "from 1 to"},
        {YK__OPTION_JOIN_MS, "99999999999999999999", "from 1 to 86400000"},
        {YK__OPTION_LAUNCHER, "slurm", "YOKE_LAUNCHER=slurm: expected none"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *text = option_refused(bad[i].option, bad[i].value);
        ck_assert_msg(strstr(text, bad[i].wanted), "%s: %s", bad[i].value, text);
    }
}
END_TEST

/* An unchecked option is a name, or is read (and refused) at its use: a new line of the table belongs to these, or is no text. */
START_TEST(every_other_option_refuses_a_banana)
{
    static const yk__option names[] = {YK__OPTION_DEVICES, YK__OPTION_TRANSPORT, YK__OPTION_OFI_PROVIDER, YK__OPTION_ADDR, YK__OPTION_SSH,
                                       YK__OPTION_SERVICE, YK__OPTION_HOST_ID, YK__OPTION_RUN_ID, YK__OPTION_SHARES,
                                       /* core/control/start/origin.c says more of them than that they are no numbers */
                                       YK__OPTION_JOB_FD, YK__OPTION_RANK, YK__OPTION_RANKS};
    for (yk__option option = 0; option < YK__OPTION_N; option++) {
        const yk__option_row *row = yk__option_row_of(option);
        bool taken = row->kind == YK__OPTION_PATH;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            taken = taken || names[i] == option;
        const char *text = option_refused(option, "banana");
        ck_assert_msg(taken ? !*text : strstr(text, row->name) && strstr(text, "=banana: expected "), "%s: '%s'", row->name, text);
    }
}
END_TEST

START_TEST(options_read_what_they_take)
{
    setenv("YOKE_BUCKET_BYTES", "", 1); /* empty: none */
    ck_assert(yk__option_number(YK__OPTION_BUCKET_BYTES) == 16u << 20);
    setenv("YOKE_BUCKET_BYTES", "1.5M", 1);
    ck_assert(yk__option_number(YK__OPTION_BUCKET_BYTES) == 3u << 19);
    setenv("YOKE_BUCKET_BYTES", "64000", 1);
    ck_assert(yk__option_number(YK__OPTION_BUCKET_BYTES) == 64000);
    setenv("YOKE_MEMORY_LIMIT", "2G,0,1.5K", 1);
    ck_assert(yk__option_size_of(YK__OPTION_MEMORY_LIMIT, 0) == 2ull << 30);
    ck_assert(yk__option_size_of(YK__OPTION_MEMORY_LIMIT, 1) == 0);
    ck_assert(yk__option_size_of(YK__OPTION_MEMORY_LIMIT, 7) == 1536); /* the last goes on */
    setenv("YOKE_LAYERS", "count validate", 1);
    ck_assert_uint_eq(yk__option_words(YK__OPTION_LAYERS), 5);
    ck_assert_uint_eq(yk__option_words(YK__OPTION_PROBE), 0);
    ck_assert_uint_eq(yk__option_words(YK__OPTION_LOG), 1);
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(yk__options_check(&err), YK_OK);
}
END_TEST

static char unknown_names[256];

static void unknown_note(const char *name, const char *nearest)
{
    const size_t n = strlen(unknown_names);
    snprintf(unknown_names + n, sizeof unknown_names - n, "%s>%s;", name, nearest ? nearest : "");
}

START_TEST(options_nobody_knows)
{
    clearenv();
    setenv("YOKE_MEMORY_LIMITS", "1G", 1);
    setenv("YOKE_CPU_ISA", "avx2", 1);
    setenv("YOKE_CPUISA", "avx2", 1);
    setenv("YOKE_TEST_DATA", "x", 1);
    setenv("YOKE_LOG", "warn", 1);
    ck_assert_uint_eq(yk__options_unknown("opencl, cpu", unknown_note), 2);
    ck_assert_ptr_nonnull(strstr(unknown_names, "YOKE_MEMORY_LIMITS>YOKE_MEMORY_LIMIT;"));
    ck_assert_ptr_nonnull(strstr(unknown_names, "YOKE_CPUISA>"));
    ck_assert_uint_eq(yk__options_unknown("opencl", unknown_note), 3);
}
END_TEST

START_TEST(multiples_are_rounded_up)
{
    ck_assert_uint_eq(yk__div_up(0, 8), 0);
    ck_assert_uint_eq(yk__div_up(1, 8), 1);
    ck_assert_uint_eq(yk__div_up(8, 8), 1);
    ck_assert_uint_eq(yk__div_up(9, 8), 2);
    ck_assert_uint_eq(yk__round_up(0, 24), 0);
    ck_assert_uint_eq(yk__round_up(24, 24), 24);
    ck_assert_uint_eq(yk__round_up(25, 24), 48);
}
END_TEST

START_TEST(the_clock_goes_on)
{
    const int64_t ns = yk__clock_ns(), ms = yk__clock_ms();
    ck_assert_int_gt(ns, 0);
    ck_assert_int_ge(ms, ns / 1000000);
    ck_assert_int_ge(yk__clock_ns() / 1000000, ms);
}
END_TEST

static void squares_of(const float *x, uint64_t n, uint64_t cut, double v[YK__EXACT_NUMBERS])
{
    double other[YK__EXACT_NUMBERS];
    yk__exact a = {{0}, 0}, b = {{0}, 0};
    yk__exact_squares(&b, x + cut, n - cut); /* the last part first */
    yk__exact_squares(&a, x, cut);
    yk__exact_get(&a, v);
    yk__exact_get(&b, other);
    for (int i = 0; i < YK__EXACT_NUMBERS; i++)
        v[i] += other[i];
}

START_TEST(squares_in_any_order)
{
    static float x[64 * 41 + 5];
    const uint64_t n = sizeof x / sizeof *x;
    double v[YK__EXACT_NUMBERS], first = 0.0;
    long double sum = 0.0L;
    for (uint64_t i = 0; i < n; i++) {
        x[i] = ldexpf((float)(i * 2654435761u % 16777216) - 8388608.0f, (int)(i / 64 * 53 % 250) - 150);
        sum += (long double)x[i] * (long double)x[i];
    }
    for (uint64_t cut = 0; cut <= n; cut += 64) {
        squares_of(x, n, cut, v);
        first = cut ? first : yk__exact_value(v);
        ck_assert(yk__exact_value(v) == first);
        ck_assert(v[YK__EXACT_WORDS] == 0.0);
    }
    ck_assert_ldouble_le(fabsl((long double)first - sum), 1e-14L * sum);
    x[70] = INFINITY, x[71] = NAN, x[n - 1] = NAN;
    squares_of(x, n, 64, v);
    ck_assert(v[YK__EXACT_WORDS] == 2.0);
    for (uint64_t i = 0; i < n; i++)
        x[i] = i % 2 ? FLT_MAX : FLT_TRUE_MIN;
    squares_of(x, n, 0, v);
    ck_assert(yk__exact_value(v) >= (double)(n / 2) * (double)FLT_MAX * (double)FLT_MAX);
    squares_of((const float[1]){FLT_TRUE_MIN}, 1, 0, v);
    ck_assert(yk__exact_value(v) == 0x1p-298);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("base");
    tcase_add_test(t, error_keeps_one_clean_line);
    tcase_add_test(t, long_errors_are_cut);
    tcase_add_test(t, allocations_fail_on_demand);
    tcase_add_test(t, bytes_of_whole_elements_turn_round);
    tcase_add_test(t, a_byte_is_two_digits);
    tcase_add_test(t, philox_known_answers);
    tcase_add_test(t, hash_sees_every_byte);
    tcase_add_test(t, sixteen_bits_round_trip);
    tcase_add_test(t, sixteen_bits_round_to_nearest_even);
    tcase_add_test(t, arrays_of_bf16_are_as_single_numbers);
    tcase_add_test(t, arrays_become_f32);
    tcase_add_test(t, nearest_names);
    tcase_add_test(t, options_refuse_what_they_cannot_read);
    tcase_add_test(t, every_other_option_refuses_a_banana);
    tcase_add_test(t, options_read_what_they_take);
    tcase_add_test(t, options_nobody_knows);
    tcase_add_test(t, squares_in_any_order);
    tcase_add_test(t, multiples_are_rounded_up);
    tcase_add_test(t, words_have_one_canonical_spelling);
    tcase_add_test(t, the_clock_goes_on);
    return suite_run("base", t);
}
