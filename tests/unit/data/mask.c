/* SPDX-License-Identifier: Apache-2.0 */
/* core/data/mask: which tokens of a masked language model are hidden, at what rates, and that nothing but row and epoch matters. */
#define _GNU_SOURCE /* mkdtemp */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/dataset.h"
#include "core/data/loader.h"
#include "tests/support/suite.h"

enum { ROWS = 3000, WIDTH = 24, BATCH = 50, WORDS = 195, VOCAB = WORDS + 5, SPECIALS = 5, MASK = 4, NONE = -100 };

static char dir[64];
static yk_error err;

/* A model's view of every row, and its labels; -1 after a row's end. */
typedef struct view {
    int32_t id[ROWS][WIDTH], label[ROWS][WIDTH];
} view;

static void write_files(void)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    char path[128];
    FILE *f;
    strcpy(dir, "/tmp/yoke-mask-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/vocab.txt", dir);
    f = fopen(path, "w");
    for (int i = 0; i < VOCAB; i++)
        i < SPECIALS ? fprintf(f, "%s\n", specials[i]) : fprintf(f, "w%d\n", i);
    fclose(f);
    snprintf(path, sizeof path, "%s/lines", dir);
    f = fopen(path, "w");
    for (int i = 0; i < ROWS; i++) /* 1 to 21 words, one of which may be unknown */
        for (int k = 0, n = 1 + i * 8 % 21; k < n; k++)
            fprintf(f, "%s%d%c", k == 3 ? "x" : "w", SPECIALS + (i * 31 + k * 17) % WORDS, k + 1 < n ? ' ' : '\n');
    fclose(f);
}

static void remove_files(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static yk__dataset *open_lines(double probability, bool eval)
{
    char spec[128];
    yk__dataset *set = NULL;
    snprintf(spec, sizeof spec, "lines:%s/lines", dir);
    const yk__dataset_options o = {.tokenizer = dir, .eval = eval, .unlabelled = true, .mask = probability, .max_length = WIDTH};
    ck_assert_msg(!yk__dataset_open(spec, &o, &set, &err), "%s", err.text);
    return set;
}

static int rank, ranks;

static void share_of(void *user, int64_t n, int64_t *first, int64_t *count)
{
    (void)user;
    *first = rank * n / ranks;
    *count = (rank + 1) * n / ranks - *first;
}

/* Adds this rank's rows of an epoch, from a batch on, to v. */
static void read_rows(const yk__dataset *set, uint64_t seed, uint64_t epoch, int64_t from, view *v)
{
    const yk__field *field;
    const int labels = yk__dataset_fields(set, &field) - 1;
    const yk__loader_batch *b;
    yk__loader *l = NULL;
    const yk__loader_options o = {.global_batch = BATCH, .seed = seed, .epoch = epoch, .start = from, .shuffle = true, .share = share_of};
    ck_assert_msg(!yk__loader_open(set, &o, &l, &err), "%s", err.text);
    while (!yk__loader_next(l, &b, &err) && b)
        for (int64_t i = 0; i < b->rows; i++)
            for (int64_t k = 0; k < b->width; k++) {
                const int64_t at = i * b->width + k, row = b->row[b->first + i];
                const bool counts = ((int32_t *)b->field[1])[at] != 0;
                if (!counts && labels == 3) /* padding */
                    ck_assert_int_eq(((int32_t *)b->field[labels])[at], NONE);
                v->id[row][k] = counts ? ((int32_t *)b->field[0])[at] : -1;
                v->label[row][k] = counts ? ((int32_t *)b->field[labels])[at] : -1;
            }
    yk__loader_close(l);
}

static view *view_of(double probability, bool eval, uint64_t seed, uint64_t epoch, int parts)
{
    view *v = malloc(sizeof *v);
    yk__dataset *set = open_lines(probability, eval);
    memset(v, 0xff, sizeof *v);
    ranks = parts;
    for (rank = 0; rank < ranks; rank++)
        read_rows(set, seed, epoch, 0, v);
    yk__dataset_close(set);
    return v;
}

static void within_3_sigma(const char *what, double got, double n, double p)
{
    ck_assert_msg(fabs(got - n * p) <= 3 * sqrt(n * p * (1 - p)), "%s: %g of %g, expected %g", what, got, n, n * p);
}

START_TEST(rates_are_those_of_bert)
{
    view *was = view_of(0, false, 1, 0, 1), *v = view_of(0.15, false, 1, 0, 1);
    double tokens = 0, chosen = 0, hidden = 0, same = 0;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < WIDTH; k++) {
            const int32_t id = was->id[i][k];
            if (id < SPECIALS || v->label[i][k] == NONE) { /* special, padding, or not chosen: as it was */
                ck_assert_int_eq(v->id[i][k], id);
                ck_assert_int_eq(v->label[i][k], id < 0 ? -1 : NONE);
            } else {
                ck_assert_int_eq(v->label[i][k], id);
                chosen++;
                hidden += v->id[i][k] == MASK;
                same += v->id[i][k] == id;
            }
            tokens += id >= SPECIALS;
        }
    ck_assert(tokens > 25000);
    within_3_sigma("chosen", chosen, tokens, 0.15);
    within_3_sigma("hidden", hidden, chosen, 0.8 + 0.1 / VOCAB);
    within_3_sigma("left as they were", same, chosen, 0.1 + 0.1 / VOCAB);
    free(was);
    free(v);
}
END_TEST

START_TEST(any_split_masks_alike)
{
    view *one = view_of(0.15, false, 5, 3, 1), *three = view_of(0.15, false, 5, 3, 3), *other = view_of(0.15, false, 5, 4, 1),
         *seed = view_of(0.15, false, 6, 3, 1);
    ck_assert(!memcmp(one, three, sizeof *one));
    ck_assert(memcmp(one, other, sizeof *one));
    ck_assert(memcmp(one, seed, sizeof *one));
    free(one);
    free(three);
    free(other);
    free(seed);
}
END_TEST

START_TEST(a_resumed_epoch_masks_alike)
{
    view *whole = view_of(0.15, false, 5, 3, 1), *rest = malloc(sizeof *rest);
    yk__dataset *set = open_lines(0.15, false);
    int rows = 0;
    memset(rest, 0xff, sizeof *rest);
    ranks = 1;
    rank = 0;
    read_rows(set, 5, 3, 20, rest);
    for (int i = 0; i < ROWS; i++)
        if (rest->id[i][0] >= 0) {
            ck_assert(!memcmp(rest->id[i], whole->id[i], sizeof rest->id[i]));
            ck_assert(!memcmp(rest->label[i], whole->label[i], sizeof rest->label[i]));
            rows++;
        }
    ck_assert_int_eq(rows, ROWS - 20 * BATCH);
    yk__dataset_close(set);
    free(whole);
    free(rest);
}
END_TEST

START_TEST(evaluation_masks_always_alike)
{
    view *a = view_of(0.15, true, 5, 3, 1), *b = view_of(0.15, true, 6, 0, 2), *train = view_of(0.15, false, 5, 3, 1);
    ck_assert(!memcmp(a, b, sizeof *a));
    ck_assert(memcmp(a, train, sizeof *a));
    free(a);
    free(b);
    free(train);
}
END_TEST

START_TEST(what_cannot_be_masked_is_refused)
{
    char spec[128];
    yk__dataset *set = NULL;
    snprintf(spec, sizeof spec, "lines:%s/lines", dir);
    ck_assert_int_eq(yk__dataset_open(spec, &(yk__dataset_options){.tokenizer = "bytes", .mask = 0.15}, &set, &err), YK_E_ARG);
    ck_assert_msg(strstr(err.text, "[MASK]") && strstr(err.text, "bytes"), "%s", err.text);
    ck_assert_int_eq(yk__dataset_open(spec, &(yk__dataset_options){.tokenizer = dir, .mask = 1.5}, &set, &err), YK_E_ARG);
    ck_assert_msg(strstr(err.text, "1.5"), "%s", err.text);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("mask");
    tcase_add_unchecked_fixture(t, write_files, remove_files);
    tcase_add_test(t, rates_are_those_of_bert);
    tcase_add_test(t, any_split_masks_alike);
    tcase_add_test(t, a_resumed_epoch_masks_alike);
    tcase_add_test(t, evaluation_masks_always_alike);
    tcase_add_test(t, what_cannot_be_masked_is_refused);
    return suite_run("mask", t);
}
