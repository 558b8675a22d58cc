/* SPDX-License-Identifier: Apache-2.0 */
/* core/data/order, spec, dataset, loader: permutations, windows, padding, splits, shares, rewinding. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/philox.h"
#include "core/data/dataset.h"
#include "core/data/loader.h"
#include "core/data/order.h"
#include "core/data/spec.h"
#include "tests/support/sanitize.h"
#include "tests/support/suite.h"

static yk_error err;

static int64_t row_at(uint64_t seed, uint64_t epoch, int64_t i, int64_t n)
{
    int64_t row;
    yk__order_rows(seed, epoch, i, 1, n, &row);
    return row;
}

/* order.h's order, one place at a time. */
static int64_t plain_order(uint64_t seed, uint64_t epoch, int64_t i, int64_t n)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ 0x6f726465u};
    uint64_t x = (uint64_t)i;
    int half = 1;
    while (half < 32 && (uint64_t)n > (uint64_t)1 << (2 * half))
        half++;
    const uint32_t mask = half == 32 ? UINT32_MAX : ((uint32_t)1 << half) - 1;
    do {
        uint32_t l = (uint32_t)(x >> half) & mask, r = (uint32_t)x & mask;
        for (uint32_t k = 0; k < 10; k++) {
            const uint32_t counter[4] = {r, k, (uint32_t)epoch, (uint32_t)(epoch >> 32)};
            uint32_t out[4], t;
            yk__philox(counter, key, out);
            t = l ^ (out[0] & mask);
            l = r;
            r = t;
        }
        x = (uint64_t)l << half | r;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

START_TEST(order_by_lanes)
{
    static const int64_t sizes[] = {1, 2, 5, 17, 4096, 60000, (int64_t)1 << 40};
    int64_t row[100];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k], count = n < 100 ? n : 100, first = n > 300 ? 123 : 0;
        yk__order_rows(7 + (k << 35), k << 31, first, count, n, row);
        for (int64_t i = 0; i < count; i++)
            ck_assert_int_eq(row[i], plain_order(7 + (k << 35), k << 31, first + i, n));
    }
}
END_TEST

static void check_permutation(int64_t n, uint64_t seed, uint64_t epoch)
{
    uint8_t *seen = calloc((size_t)n, 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t r = row_at(seed, epoch, i, n);
        ck_assert_msg(r >= 0 && r < n && !seen[r], "n %ld, i %ld: %ld", (long)n, (long)i, (long)r);
        seen[r] = 1;
    }
    free(seen);
}

START_TEST(order_is_a_permutation)
{
    for (int64_t n = 1; n <= 700; n++)
        check_permutation(n, 42, (uint64_t)n % 5);
    for (int64_t n = 701; n <= 5000; n += 97)
        check_permutation(n, 7, 3);
    check_permutation(65536, 1, 0);
    check_permutation(65537, (uint64_t)1 << 40, (uint64_t)1 << 40);
    check_permutation(200003, 2, 1);
    for (int64_t i = 0; i < 1000; i++) { /* huge: in range and not the identity */
        int64_t n = (int64_t)1 << 62, r = row_at(5, 6, i, n);
        ck_assert(r >= 0 && r < n && r != i);
    }
}
END_TEST

/* A permutation of the batch that depends on its lengths alone, in which any run of a quarter of the rows or more has the
 * mean length of all to a twelfth; equal lengths stay. */
static void check_even(int64_t n)
{
    yk__row_length v[300];
    int64_t row[300], length[300];
    double all = 0;
    for (int64_t i = 0; i < n; i++) {
        length[i] = 64 + i * i * 37 % 65;
        v[i] = (yk__row_length){length[i], 1000 + i, 0};
        all += (double)length[i] / (double)n;
    }
    yk__order_even_out(v, n, row);
    for (int64_t i = 0; i < n; i++) {
        int64_t twice = 0;
        for (int64_t k = 0; k < n; k++)
            twice += row[k] == 1000 + i;
        ck_assert_int_eq(twice, 1);
    }
    for (int64_t from = 0; from < n; from++) {
        double sum = 0;
        for (int64_t to = from; to < n; to++) {
            sum += (double)length[row[to] - 1000];
            if (to - from + 1 >= n / 4 && n >= 16)
                ck_assert_msg(fabs(sum / (double)(to - from + 1) - all) <= all / 12, "%ld rows, %ld to %ld", (long)n, (long)from,
                              (long)to);
        }
    }
}

START_TEST(lengths_are_spread)
{
    yk__row_length v[5];
    int64_t row[5];
    check_even(1);
    check_even(2);
    check_even(7);
    check_even(32);
    check_even(100);
    check_even(128);
    check_even(300);
    for (int i = 0; i < 5; i++)
        v[i] = (yk__row_length){9, 4 - i, 0};
    yk__order_even_out(v, 5, row);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(row[i], 4 - i);
}
END_TEST

/* Small ones: each of the 120 permutations of five things comes about equally often. */
START_TEST(order_is_uniform)
{
    static int count[3125];
    int seen = 0;
    for (uint64_t epoch = 0; epoch < 120 * 400; epoch++) {
        int64_t code = 0;
        for (int64_t i = 0; i < 5; i++)
            code = code * 5 + row_at(42, epoch, i, 5);
        count[code]++;
    }
    for (int i = 0; i < 3125; i++) {
        seen += count[i] != 0;
        ck_assert_msg(!count[i] || (count[i] > 300 && count[i] < 500), "%d", count[i]); /* 5 standard deviations */
    }
    ck_assert_int_eq(seen, 120);
}
END_TEST

/* Places and rows do not correlate, and seeds and epochs differ. */
START_TEST(order_mixes)
{
    const int64_t n = 10000;
    double sum = 0;
    int same_seed = 0, same_epoch = 0, neighbours = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t r = row_at(42, 0, i, n);
        sum += ((double)i - 4999.5) * ((double)r - 4999.5);
        same_seed += r == row_at(43, 0, i, n);
        same_epoch += r == row_at(42, 1, i, n);
        neighbours += i && llabs(r - row_at(42, 0, i - 1, n)) == 1;
    }
    ck_assert(fabs(sum / ((double)n * (double)n * (double)n / 12)) < 0.05); /* 5 standard deviations */
    ck_assert(same_seed < 10 && same_epoch < 10 && neighbours < 15);
}
END_TEST

START_TEST(specs_are_parsed_or_refused)
{
    static const char *const keys[] = {"label", "text"}, *const words[] = {"u16", "u32"};
    static const char *const bad[] = {"idx", ":x", "idx:", "csv:a,b", "csv:a,=3", "csv:a,text=1,text=2", "csv:a,b,c=1"};
    const double one[] = {0.5};
    yk__spec s;
    int64_t v;
    int k;
    double m[3];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(yk__spec_parse(bad[i], &s, &err) == YK_E_ARG, "%s", bad[i]);
    ck_assert_int_eq(yk__spec_parse("csv:/a b:c.csv,text=t=1,lable=x,n=12,f=1+2.5+-3,d=u23", &s, &err), YK_OK);
    ck_assert_str_eq(s.path, "/a b:c.csv");
    ck_assert_str_eq(yk__spec_get(&s, "text"), "t=1");
    ck_assert_int_eq(yk__spec_check(&s, keys, 2, &err), YK_E_ARG);
    ck_assert_msg(strstr(err.text, "unknown key 'lable', did you mean 'label'?") != NULL, "%s", err.text);
    ck_assert(yk__spec_int(&s, "n", 0, 1, 12, &v, &err) == YK_OK && v == 12);
    ck_assert_int_eq(yk__spec_int(&s, "n", 0, 1, 11, &v, &err), YK_E_ARG);
    ck_assert_int_eq(yk__spec_int(&s, "text", 0, 1, 11, &v, &err), YK_E_ARG);
    ck_assert(yk__spec_reals(&s, "f", one, 3, m, &err) == YK_OK && m[1] == 2.5 && m[2] == -3);
    ck_assert_int_eq(yk__spec_reals(&s, "f", one, 2, m, &err), YK_E_ARG);
    ck_assert_int_eq(yk__spec_word(&s, "d", words, 2, 0, &k, &err), YK_E_ARG);
    yk__spec_free(&s);
}
END_TEST

static yk__dataset *open_data(const char *spec, yk__dataset_options o)
{
    yk__dataset *d;
    ck_assert_msg(yk__dataset_open(spec, &o, &d, &err) == YK_OK, "%s", err.text);
    return d;
}

static void fill_rows(const yk__dataset *d, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    ck_assert_msg(yk__dataset_fill(d, rows, n, width, buffers, &err) == YK_OK, "%s", err.text);
}

static char *spec_of(const char *kind, const char *dir, const char *name, const char *keys)
{
    static char b[2048];
    snprintf(b, sizeof b, "%s:%s%s", kind, suite_path(dir, name), keys);
    return b;
}

START_TEST(image_rows_are_scaled)
{
    yk__dataset *d, *like;
    float x[2 * 784], c[3072];
    int32_t y[2];
    void *buf[] = {x, y}, *cbuf[] = {c, y};
    const int64_t rows[] = {0, 9999}, one[] = {1};
    if (!suite_there("fashion-mnist") || !suite_there("cifar10-part"))
        return;
    d = open_data(spec_of("idx", "fashion-mnist", "", ""), (yk__dataset_options){.eval = true});
    ck_assert(yk__dataset_rows(d) == 10000 && yk__dataset_classes(d) == 10 && yk__dataset_vocab(d) == 0);
    ck_assert_uint_eq(yk__dataset_row_bytes(d, 0, 1), 784 * 4);
    fill_rows(d, rows, 2, yk__dataset_width(d, rows, 2), buf);
    ck_assert(y[0] == 9 && y[1] == 5);
    ck_assert(x[0] == (float)(-0.2860 / 0.3530));
    yk__dataset_close(d);
    d = open_data(spec_of("cifar10", "cifar10-part", "", ",mean=0,std=1"), (yk__dataset_options){0});
    ck_assert(yk__dataset_rows(d) == 2000);
    fill_rows(d, one, 1, 1, cbuf);
    ck_assert(y[0] == 9 && c[0] * 255 == roundf(c[0] * 255));
    like = d; /* an evaluation's mean and deviation are those of the training */
    d = open_data(spec_of("cifar10", "cifar10-part", "", ""), (yk__dataset_options){.eval = true, .like = like});
    fill_rows(d, one, 1, 1, cbuf);
    ck_assert(c[0] > 0 && c[0] * 255 == roundf(c[0] * 255));
    yk__dataset_close(like);
    yk__dataset_close(d);
    ck_assert(yk__dataset_open(spec_of("cifar10", "cifar10-part", "", ",holdout=0"), &(yk__dataset_options){0}, &d, &err) == YK_E_ARG &&
              strstr(err.text, "holdout=0: expected an integer from 1 to 1999"));
    err = (yk_error)YK_ERROR_INIT;
    d = open_data(spec_of("cifar10", "cifar10-part", "", ",holdout=5"), (yk__dataset_options){.eval = true});
    ck_assert(yk__dataset_rows(d) == 5);
    yk__dataset_close(d);
}
END_TEST

START_TEST(reviews_are_rows_of_tokens)
{
    yk__dataset *train, *eval;
    yk__dataset_options o = {.max_length = 16};
    char tokenizer[1024], rows_file[1024];
    int32_t ids[3 * 16], mask[3 * 16], types[3 * 16], y[3], positive = 0;
    void *buf[] = {ids, mask, types, y};
    if (!suite_there("chnsenticorp") || !suite_there("tokenizers"))
        return;
    strcpy(tokenizer, suite_path("tokenizers", "bert-base-chinese"));
    strcpy(rows_file, suite_path("chnsenticorp", "split-seed42-valid.txt"));
    o.tokenizer = tokenizer;
    o.eval_rows = rows_file;
    train = open_data(spec_of("csv", "chnsenticorp", "ChnSentiCorp_htl_all.csv", ",text=review,lowercase=no"), o);
    o.eval = true;
    eval = open_data(spec_of("csv", "chnsenticorp", "ChnSentiCorp_htl_all.csv", ",text=review,lowercase=no"), o);
    ck_assert(yk__dataset_rows(train) == 6989 && yk__dataset_rows(eval) == 776 && yk__dataset_classes(eval) == 2);
    ck_assert_int_eq(yk__dataset_vocab(train), 21128);
    for (int64_t i = 0; i < 776; i++) {
        int64_t w = yk__dataset_width(eval, &i, 1);
        ck_assert(w >= 2 && w <= 16);
        fill_rows(eval, &i, 1, 16, buf);
        ck_assert(ids[0] == 101 && ids[w - 1] == 102 && mask[w - 1] == 1 && (w == 16 || (ids[w] == 0 && mask[w] == 0)));
        positive += y[0];
    }
    ck_assert_int_eq(positive, 535);
    yk__dataset_close(train);
    yk__dataset_close(eval);
}
END_TEST

START_TEST(running_text)
{
    yk__dataset *d, *e;
    int32_t x[1024], y[1024];
    void *buf[] = {x, y};
    int64_t r = 0, counted = 0;
    if (!suite_there("tinyshakespeare"))
        return;
    d = open_data(spec_of("text", "tinyshakespeare", "input.txt", ",seq-len=256"),
                  (yk__dataset_options){.tokenizer = "char"});
    ck_assert(yk__dataset_vocab(d) == 65 && yk__dataset_rows(d) == 1003853 / 256 && yk__dataset_classes(d) == 0);
    fill_rows(d, &r, 1, 256, buf);
    ck_assert(x[0] == 18 && y[0] == 47 && x[1] == 47 && y[255] >= 0); /* "Fi" as nanoGPT numbers it */
    e = open_data(spec_of("text", "tinyshakespeare", "input.txt", ",seq-len=256"),
                  (yk__dataset_options){.tokenizer = "char", .eval = true, .like = d});
    ck_assert_int_eq(yk__dataset_rows(e), (111539 + 255) / 256);
    for (r = 0; r < yk__dataset_rows(e); r++) {
        fill_rows(e, &r, 1, 256, buf);
        for (int k = 0; k < 256; k++)
            counted += y[k] != -100;
    }
    ck_assert_int_eq(counted, 111539); /* every place once */
    yk__dataset_close(e);
    e = open_data(
        spec_of("text", "tinyshakespeare", "./input.txt", ",seq-len=256"), /* another name: a file of its own */
        (yk__dataset_options){.tokenizer = "char", .eval = true, .like = d});
    ck_assert_int_eq(yk__dataset_rows(e), (1115393 + 255) / 256);
    yk__dataset_close(d);
    yk__dataset_close(e);
}
END_TEST

static const char *write_tokens(void)
{
    static char path[64];
    int fd;
    strcpy(path, "/tmp/yoke-tokens-XXXXXX");
    fd = mkstemp(path);
    for (int i = 0; i < 1001; i++) {
        unsigned char b[2] = {(unsigned char)i, (unsigned char)(i >> 8)};
        ck_assert_int_eq(write(fd, b, 2), 2);
    }
    close(fd);
    return path;
}

static void part_of_two(void *user, int64_t n, int64_t *first, int64_t *count)
{
    int64_t cut = n / 3;
    *first = *(int *)user ? cut : 0;
    *count = *(int *)user ? n - cut : cut;
}

static void check_epoch(yk__loader *l, const yk__dataset *d, int64_t from, int64_t batch, uint64_t epoch)
{
    const yk__loader_batch *b;
    int64_t index = from, n = yk__dataset_rows(d);
    for (;; index++) {
        ck_assert_int_eq(yk__loader_next(l, &b, &err), YK_OK);
        if (!b)
            break;
        ck_assert(b->index == index && b->epoch == epoch && b->width == 10);
        ck_assert(b->global_rows == (n - index * batch < batch ? n - index * batch : batch));
        ck_assert_int_eq(b->last, index + 1 == yk__loader_batches(l));
        for (int64_t i = 0; i < b->global_rows; i++)
            ck_assert_int_eq(b->row[i], row_at(9, epoch, index * batch + i, n));
        for (int64_t i = 0; i < b->rows; i++) /* row r begins with id 10 r */
            ck_assert(((int32_t *)b->field[0])[10 * i] == 10 * b->row[b->first + i] &&
                      ((int32_t *)b->field[1])[10 * i + 9] == 10 * b->row[b->first + i] + 10);
    }
    ck_assert_int_eq(index, yk__loader_batches(l));
}

START_TEST(batches_follow_the_order)
{
    const char *path = write_tokens();
    char spec[256];
    yk__dataset *d;
    snprintf(spec, sizeof spec, "tokens:%s,seq-len=10,split=1", path);
    d = open_data(spec, (yk__dataset_options){0});
    ck_assert_int_eq(yk__dataset_rows(d), 100);
    for (int who = 0; who < 2; who++) {
        yk__loader_options o = {.global_batch = 7, .seed = 9, .shuffle = true, .share = part_of_two, .user = &who, .depth = 3};
        const yk__loader_batch *b;
        yk__loader *l;
        ck_assert_int_eq(yk__loader_open(d, &o, &l, &err), YK_OK);
        ck_assert_int_eq(yk__loader_batches(l), 15);
        check_epoch(l, d, 0, 7, 0);
        for (uint64_t epoch = 1; epoch < 30; epoch++) {
            ck_assert_int_eq(yk__loader_rewind(l, epoch, (int64_t)epoch % 16, &err), YK_OK);
            if (epoch % 3 == 0 && epoch % 16 < 14) {
                ck_assert_int_eq(yk__loader_next(l, &b, &err), YK_OK);
                ck_assert_int_eq(b->index, (int64_t)epoch % 16);
                ck_assert_int_eq(yk__loader_flush(l, &err), YK_OK);
                check_epoch(l, d, (int64_t)epoch % 16 + 1, 7, epoch);
            } else {
                check_epoch(l, d, (int64_t)epoch % 16, 7, epoch);
            }
        }
        ck_assert_int_eq(yk__loader_rewind(l, 0, 16, &err), YK_E_ARG);
        yk__loader_close(l);
    }
    yk__dataset_close(d);
    unlink(path);
}
END_TEST

/* Tokens a row that this rank gets of each batch of the epoch. */
static int tokens_of(const yk__dataset *d, int who, bool shuffle, double *mean)
{
    yk__loader_options o = {.global_batch = 16, .seed = 2, .shuffle = shuffle, .share = part_of_two, .user = &who};
    const yk__loader_batch *b;
    yk__loader *l;
    int batches = 0;
    ck_assert_int_eq(yk__loader_open(d, &o, &l, &err), YK_OK);
    while (yk__loader_next(l, &b, &err) == YK_OK && b) {
        int64_t n = 0;
        for (int64_t i = 0; i < b->rows * b->width; i++)
            n += ((int32_t *)b->field[1])[i];
        mean[batches++] = (double)n / (double)b->rows;
    }
    yk__loader_close(l);
    return batches;
}

/* Texts of 1 to 60 letters: whatever a batch has, two ranks get about as many tokens a row. In evaluation rows stay. */
START_TEST(ranks_get_like_lengths)
{
    const char *path = write_tokens();
    double mean[2][10], worst[2] = {0, 0};
    char spec[256];
    yk__dataset *d;
    FILE *f = fopen(path, "w");
    fputs("label,text\n", f);
    for (int i = 0; i < 160; i++)
        fprintf(f, "%d,%.*s\n", i % 2, 1 + i * i * 37 % 60, "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij");
    fclose(f);
    snprintf(spec, sizeof spec, "csv:%s,tokenizer=char", path);
    d = open_data(spec, (yk__dataset_options){0});
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        for (int who = 0; who < 2; who++)
            ck_assert_int_eq(tokens_of(d, who, shuffle, mean[who]), 10);
        for (int i = 0; i < 10; i++)
            worst[shuffle] = fmax(worst[shuffle], fabs(mean[0][i] / mean[1][i] - 1));
    }
    printf("# ranks' tokens a row differ by %.2f at most, as the rows lie by %.2f\n", worst[1], worst[0]);
    ck_assert_msg(worst[1] < 0.15 && worst[0] > 0.3, "%g, as the rows lie %g", worst[1], worst[0]);
    yk__dataset_close(d);
    unlink(path);
}
END_TEST

/* Padding of an epoch: ids of the batches that are none. Every row comes once; the widest batch of a group is its first. */
static int64_t padding_of(const yk__dataset *d, bool by_length, uint64_t epoch)
{
    yk__loader_options o = {.global_batch = 4, .seed = 2, .shuffle = true, .by_length = by_length, .epoch = epoch};
    const yk__loader_batch *b;
    yk__loader *l;
    bool seen[420] = {false};
    int64_t padding = 0, width = 0;
    ck_assert_int_eq(yk__loader_open(d, &o, &l, &err), YK_OK);
    while (yk__loader_next(l, &b, &err) == YK_OK && b) {
        ck_assert_msg(!by_length || b->index % 50 == 0 || b->width <= width, "batch %ld is wider", (long)b->index);
        width = b->width;
        padding += b->rows * b->width;
        for (int64_t i = 0; i < b->rows * b->width; i++)
            padding -= ((int32_t *)b->field[1])[i];
        for (int64_t i = 0; i < b->global_rows; i++) {
            ck_assert(!seen[b->row[i]]);
            seen[b->row[i]] = true;
        }
    }
    for (int64_t i = 0; i < yk__dataset_rows(d); i++)
        ck_assert(seen[i]);
    yk__loader_close(l);
    return padding;
}

START_TEST(rows_of_like_length_together)
{
    const char *path = write_tokens();
    char spec[256];
    yk__dataset *d, *few;
    FILE *f = fopen(path, "w");
    fputs("label,text\n", f);
    for (int i = 0; i < 420; i++)
        fprintf(f, "%d,%.*s\n", i % 2, 1 + i * i * 37 % 60, "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij");
    fclose(f);
    snprintf(spec, sizeof spec, "csv:%s,tokenizer=char", path);
    d = open_data(spec, (yk__dataset_options){0});
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        int64_t without = padding_of(d, false, epoch), with = padding_of(d, true, epoch);
        printf("# ids that pad: %ld, %ld with rows of like length\n", (long)without, (long)with);
        ck_assert_int_lt(5 * with, without);
    }
    few = open_data(spec, (yk__dataset_options){.max_rows = 7});
    ck_assert_int_eq(yk__dataset_rows(few), 7);
    yk__dataset_close(few);
    yk__dataset_close(d);
    unlink(path);
}
END_TEST

START_TEST(bad_data_is_refused_by_name)
{
    static const char *const bad[] = {
        "idxx:/tmp",         "idx:/nonexistent", "cifar10:/nonexistent",     "csv:/nonexistent",
        "text:/nonexistent", "tokens:/dev/null", "tokens:/dev/null,dtype=u8"};
    yk__dataset *d;
    yk__dataset_options o = {.tokenizer = "bytes"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(yk__dataset_open(bad[i], &o, &d, &err) != YK_OK, "%s: accepted", bad[i]);
    ck_assert_int_eq(yk__dataset_open("idx:/tmp,maen=3", &o, &d, &err), YK_E_ARG);
    ck_assert_msg(strstr(err.text, "did you mean 'mean'?") != NULL, "%s", err.text);
    if (!suite_there("idx-suite"))
        return;
    o.eval_rows = "/dev/null";
    ck_assert_int_eq(yk__dataset_open("idx:/tmp", &o, &d, &err), YK_E_ARG);
}
END_TEST

START_TEST(failing_allocations)
{
    const char *path = write_tokens();
    static const char *const kinds[] = {"tokens:%s,seq-len=10", "text:%s,seq-len=10,tokenizer=bytes",
                                        "csv:%s,tokenizer=char"};
    for (int k = 0; k < 3; k++) {
        yk_status s = YK_E_MEM;
        char spec[256];
        snprintf(spec, sizeof spec, kinds[k], path);
        if (k == 2) {
            FILE *f = fopen(path, "w");
            fputs("label,text\nb,1\na,\"2 3\"\n", f);
            fclose(f);
        }
        for (long n = 0; s; n++) {
            yk__dataset *d = NULL;
            yk__mem_fail_after(n);
            s = yk__dataset_open(spec, &(yk__dataset_options){0}, &d, &err);
            yk__mem_fail_after(-1);
            ck_assert_msg(s == YK_OK || s == YK_E_MEM, "%s", err.text);
            yk__dataset_close(d);
        }
    }
    unlink(path);
}
END_TEST

/* A thread that cannot be had is no lack of memory: the reason is the system's. */
START_TEST(no_thread)
{
    const char *path = write_tokens();
    char spec[256];
    yk__dataset *d;
    yk__loader *l = NULL;
    pthread_attr_t own, large;
    snprintf(spec, sizeof spec, "tokens:%s,seq-len=10", path);
    ck_assert_msg(!yk__dataset_open(spec, &(yk__dataset_options){0}, &d, &err), "%s", err.text);
    ck_assert_int_eq(pthread_getattr_default_np(&own), 0);
    ck_assert_int_eq(pthread_attr_init(&large), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&large, (size_t)1 << 47), 0);
    ck_assert_int_eq(pthread_setattr_default_np(&large), 0);
    yk_status s = yk__loader_open(d, &(yk__loader_options){.global_batch = 2}, &l, &err);
    ck_assert_int_eq(pthread_setattr_default_np(&own), 0);
    ck_assert_int_eq(s, YK_E_IO);
    ck_assert_msg(strstr(err.text, "thread cannot be started") && strstr(err.text, strerror(EAGAIN)), "%s", err.text);
    yk__dataset_close(d);
    unlink(path);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("loader");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, order_by_lanes);
    if (!TEST_UNDER_TSAN) { /* these have no threads */
        tcase_add_test(t, order_is_a_permutation);
        tcase_add_test(t, order_is_uniform);
    }
    tcase_add_test(t, lengths_are_spread);
    tcase_add_test(t, order_mixes);
    tcase_add_test(t, specs_are_parsed_or_refused);
    tcase_add_test(t, image_rows_are_scaled);
    tcase_add_test(t, reviews_are_rows_of_tokens);
    tcase_add_test(t, running_text);
    tcase_add_test(t, batches_follow_the_order);
    tcase_add_test(t, ranks_get_like_lengths);
    tcase_add_test(t, rows_of_like_length_together);
    tcase_add_test(t, bad_data_is_refused_by_name);
    tcase_add_test(t, failing_allocations);
    tcase_add_test(t, no_thread);
    return suite_run("loader", t);
}
