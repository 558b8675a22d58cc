/* SPDX-License-Identifier: Apache-2.0 */
/* core/data/tokenizer: every golden id, whole files by their sums, pairs, cutting, faulty folders, failing allocations.
 */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/read/csv.h"
#include "core/read/rows.h"
#include "core/io/text.h"
#include "core/text/tokenizer.h"
#include "core/io/json.h"
#include "tests/support/sha256.h"
#include "tests/support/suite.h"

static yk_error err;
static yk__ids ids;

static yk__encoder *open_encoder(const char *dir, int lowercase, yk__tokenizer **t)
{
    yk__encoder *e;
    ck_assert_msg(yk__tokenizer_open(dir, lowercase, t, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(yk__encoder_new(*t, &e, &err), YK_OK);
    return e;
}

static void close_encoder(yk__encoder *e, yk__tokenizer *t)
{
    yk__encoder_free(e);
    yk__tokenizer_close(t);
    yk__ids_free(&ids);
}

static void text_encode(yk__encoder *e, const char *s, size_t n, int special)
{
    ck_assert_msg(yk__encoder_encode(e, s, n, NULL, 0, special, 0, &ids, &err) == YK_OK, "%s", err.text);
}

/* ids as "1 2 3" against a text that ends at a line end or 0. */
static int same_line(const char *want)
{
    for (size_t i = 0; i < ids.count; i++) {
        char *end;
        if (strtol(want, &end, 10) != ids.id[i] || end == want)
            return 0;
        want = end;
    }
    return *want == '\n' || *want == 0;
}

static void corpus_of(const char *model, const char *dir, int lowercase)
{
    yk__tokenizer *t;
    yk__encoder *e = open_encoder(dir, lowercase, &t);
    json_t *root, *test;
    size_t i, k;
    ck_assert_int_eq(yk__json_load(suite_path("tokenizers", "golden/corpus.json"), 0, &root, &err), YK_OK);
    json_t *tests = json_object_get(json_object_get(json_object_get(root, "models"), model), "tests");
    ck_assert_uint_gt(json_array_size(tests), 3);
    json_array_foreach(tests, i, test)
    {
        const json_t *in = json_object_get(test, "input"), *want = json_object_get(test, "golden_ids");
        text_encode(e, json_string_value(in), json_string_length(in), !json_is_false(json_object_get(test, "add_special_tokens")));
        ck_assert_msg(ids.count == json_array_size(want), "%s: %s: %zu ids", model,
                      json_string_value(json_object_get(test, "name")), ids.count);
        for (k = 0; k < ids.count; k++)
            ck_assert_msg(ids.id[k] == json_integer_value(json_array_get(want, k)), "%s: %s: id %zu is %d", model,
                          json_string_value(json_object_get(test, "name")), k, ids.id[k]);
    }
    json_decref(root);
    close_encoder(e, t);
}

START_TEST(corpus_has_the_recorded_ids)
{
    if (!suite_there("tokenizers") || !suite_there("models"))
        return;
    corpus_of("bert-base-uncased", suite_path("tokenizers", "bert-base-uncased"), -1);
    corpus_of("bert-base-uncased", suite_path("models", "bert-tiniest"), -1);
    corpus_of("bert-base-uncased", suite_path("models", "all-minilm-l6-v2"), -1);
    corpus_of("distilbert/distilbert-base-uncased", suite_path("tokenizers", "bert-base-uncased"), -1);
    corpus_of("google-bert/bert-base-chinese", suite_path("tokenizers", "bert-base-chinese"), 0);
    corpus_of("uer/gpt2-chinese-cluecorpussmall", suite_path("tokenizers", "bert-base-chinese"), 0);
    corpus_of("gpt2", suite_path("models", "fake-gpt2"), -1);
    corpus_of("distilbert/distilgpt2", suite_path("models", "fake-gpt2"), -1);
}
END_TEST

START_TEST(vocab_and_merges)
{
    char dir[] = "/tmp/yoke-bpe-XXXXXX", from[2048], to[256];
    static const char *const names[] = {"vocab.json", "merges.txt"};
    if (!suite_there("models"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(realpath(suite_path("models/fake-gpt2", names[i]), from));
        snprintf(to, sizeof to, "%s/%s", dir, names[i]);
        ck_assert_int_eq(symlink(from, to), 0);
    }
    corpus_of("gpt2", dir, -1);
    for (int i = 0; i < 2; i++) {
        snprintf(to, sizeof to, "%s/%s", dir, names[i]);
        unlink(to);
    }
    rmdir(dir);
}
END_TEST

static char *file_text(const char *path, size_t *n)
{
    char *text;
    ck_assert_msg(yk__text_open(path, 0, &text, n, &err) == YK_OK, "%s", err.text);
    return text;
}

START_TEST(squad_has_the_recorded_ids)
{
    yk__tokenizer *t;
    yk__encoder *e;
    size_t n;
    int rows = 0;
    char *text, *p, *tab;
    if (!suite_there("tokenizers"))
        return;
    e = open_encoder(suite_path("tokenizers", "bert-base-uncased"), -1, &t);
    text = file_text(suite_path("tokenizers", "golden/squad-questions-a.tsv.gz"), &n);
    for (p = text; p && *p; p = strchr(tab, '\n'), p += p != NULL, rows++) {
        tab = strchr(p, '\t');
        text_encode(e, p, (size_t)(tab - p), 0);
        ck_assert_msg(same_line(tab + 1), "row %d: %.*s", rows, (int)(tab - p), p);
    }
    ck_assert_int_eq(rows, 5285);
    yk__free(text);
    close_encoder(e, t);
}
END_TEST

/* Texts of a CSV column against a file of "row ids" lines; lines: the row number is the CSV line. */
static void rows_of(const char *csv, const char *column, const char *golden, const char *dir, int lowercase, int lines, int want)
{
    yk__tokenizer *t;
    yk__encoder *e = open_encoder(dir, lowercase, &t);
    size_t n;
    char *text = file_text(golden, &n), *p = text;
    yk__file *f;
    yk__csv *c;
    int more = 1, found = 0;
    ck_assert_int_eq(yk__file_open(csv, YK__FILE_AUTO, &f, &err), YK_OK);
    ck_assert_int_eq(yk__csv_read(f, NULL, &c, &err), YK_OK);
    for (long row = 1; p && *p; row++) {
        const char *s;
        ck_assert_int_eq(yk__csv_next(c, &more, &err), YK_OK);
        ck_assert(more);
        if (strtol(p, NULL, 10) != (lines ? yk__csv_line(c) : row))
            continue;
        s = yk__csv_field(c, yk__csv_find(c, column), &n);
        text_encode(e, s, n, 0);
        p = strchr(p, '\t') + 1;
        if (lines)
            p = strchr(p, '\t') + 1;
        ck_assert_msg(same_line(p), "row %ld: %s", row, s);
        p = strchr(p, '\n');
        p += p != NULL;
        found++;
    }
    ck_assert_int_eq(found, want);
    yk__csv_close(c);
    yk__file_close(f);
    yk__free(text);
    close_encoder(e, t);
}

START_TEST(chnsenticorp_every8th)
{
    if (suite_there("tokenizers") && suite_there("chnsenticorp"))
        rows_of(suite_path("chnsenticorp", "ChnSentiCorp_htl_all.csv"), "review",
                suite_path("tokenizers", "golden/chnsenticorp-every8th.tsv.gz"),
                suite_path("tokenizers", "bert-base-chinese"), 0, 1, 971);
}
END_TEST

START_TEST(banking77_has_the_recorded_ids)
{
    if (!suite_there("tokenizers") || !suite_there("banking77"))
        return;
    rows_of(suite_path("banking77", "test.csv"), "text",
            suite_path("tokenizers", "golden/banking77-test-bert-uncased.tsv.gz"),
            suite_path("tokenizers", "bert-base-uncased"), -1, 0, 3080);
    rows_of(suite_path("banking77", "test.csv"), "text", suite_path("tokenizers", "golden/banking77-test-gpt2.tsv.gz"),
            suite_path("models", "fake-gpt2"), -1, 0, 3080);
}
END_TEST

static void add_u16(sha256 *sum, int id)
{
    const unsigned char b[2] = {(unsigned char)id, (unsigned char)(id >> 8)};
    sha256_add(sum, b, 2);
}

START_TEST(whole_files)
{
    yk__tokenizer *t;
    yk__encoder *e;
    yk__rows *r;
    yk__rows_options o = {.text = "review"};
    sha256 sum;
    char hex[65], *text;
    size_t n;
    if (!suite_there("tokenizers") || !suite_there("tinyshakespeare") || !suite_there("chnsenticorp"))
        return;
    text = file_text(suite_path("tinyshakespeare", "input.txt"), &n);
    e = open_encoder(suite_path("models", "fake-gpt2"), -1, &t);
    text_encode(e, text, n, 1);
    ck_assert_uint_eq(ids.count, 338025);
    sha256_begin(&sum);
    for (size_t i = 0; i < ids.count; i++)
        add_u16(&sum, ids.id[i]);
    ck_assert_str_eq(sha256_end(&sum, hex), "25c01b32b32f41897a6359dd222ec114992dc30c357bcafbfe6c56672f76cd31");
    yk__free(text);
    close_encoder(e, t);
    e = open_encoder(suite_path("tokenizers", "bert-base-chinese"), 0, &t);
    ck_assert_int_eq(yk__rows_open(suite_path("chnsenticorp", "ChnSentiCorp_htl_all.csv"), &o, &r, &err), YK_OK);
    sha256_begin(&sum);
    for (int64_t i = 0; i < r->count; i++) {
        ck_assert_int_eq(yk__encoder_encode(e, r->text + r->at[i], r->at[i + 1] - r->at[i], NULL, 0, 1, 128, &ids, &err),
                         YK_OK);
        ck_assert_uint_le(ids.count, 128);
        for (size_t k = 0; k < 128; k++)
            add_u16(&sum, k < ids.count ? ids.id[k] : 0);
    }
    ck_assert_str_eq(sha256_end(&sum, hex), "5ed1f7304f4c652b16c6357f0c7f4bb3150707f547a7c68a57335380c8201d94");
    yk__rows_close(r);
    close_encoder(e, t);
}
END_TEST

static void expect_pair(const int32_t *id, const int32_t *type, size_t n)
{
    ck_assert_uint_eq(ids.count, n);
    for (size_t i = 0; i < n; i++)
        ck_assert(ids.id[i] == id[i] && ids.type[i] == type[i]);
}

START_TEST(pairs_are_joined_and_cut)
{
    static const int32_t both[] = {101, 7592, 2088, 102, 2003, 102}, types[] = {0, 0, 0, 0, 1, 1};
    static const int32_t cut[] = {101, 7592, 102, 2003, 102}, cut_types[] = {0, 0, 0, 1, 1};
    yk__tokenizer *t;
    yk__encoder *e;
    const char *dirs[] = {"tokenizers/bert-base-uncased", "tokenizers/minimal/wordpiece_bert_pair_minimal.json"};
    if (!suite_there("tokenizers"))
        return;
    for (int i = 0; i < 2; i++) {
        e = open_encoder(suite_path(dirs[i], ""), -1, &t);
        ck_assert_int_eq(yk__encoder_encode(e, "Hello world", 11, "is", 2, 1, 0, &ids, &err), YK_OK);
        expect_pair(both, types, 6);
        ck_assert_int_eq(yk__encoder_encode(e, "Hello world", 11, "is", 2, 1, 5, &ids, &err), YK_OK);
        expect_pair(cut, cut_types, 5);
        ck_assert_int_eq(yk__encoder_encode(e, "Hello world", 11, "is", 2, 1, 2, &ids, &err), YK_E_ARG);
        ck_assert_int_eq(yk__encoder_encode(e, "a\xff", 2, NULL, 0, 1, 0, &ids, &err), YK_E_FORMAT);
        close_encoder(e, t);
    }
}
END_TEST

START_TEST(minimal_bpe)
{
    static const int32_t hello[] = {98, 105, 110, 111}, types[4] = {0};
    yk__tokenizer *t;
    yk__encoder *e;
    if (!suite_there("tokenizers"))
        return;
    e = open_encoder(suite_path("tokenizers", "minimal/bpe_bytelevel_minimal.json"), -1, &t);
    text_encode(e, "hello world<|endoftext|>", 24, 1);
    expect_pair(hello, types, 4);
    ck_assert_int_eq(yk__encoder_encode(e, "\n", 1, NULL, 0, 1, 0, &ids, &err), YK_E_FORMAT); /* no id for that byte */
    close_encoder(e, t);
    /* without ByteLevel a vocabulary is of characters: tokenizers gives 104 233 for "h\u00e9" */
    ck_assert_int_eq(yk__tokenizer_open(suite_path("tokenizers", "minimal/bpe_bytelevel_unicode.json"), -1, &t, &err), YK_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "without the pre_tokenizer ByteLevel"));
}
END_TEST

/* Long words take another way than short ones: both must agree with each other where they meet. */
START_TEST(long_words)
{
    yk__tokenizer *t;
    yk__encoder *e;
    char *a = malloc(300001);
    if (!suite_there("models"))
        return;
    e = open_encoder(suite_path("models", "fake-gpt2"), -1, &t);
    memset(a, 'a', 300000);
    text_encode(e, a, 40, 1);
    ck_assert_uint_eq(ids.count, 10);
    text_encode(e, a, 48, 1);
    ck_assert_uint_eq(ids.count, 12);
    text_encode(e, a, 52, 1);
    ck_assert_uint_eq(ids.count, 13);
    text_encode(e, a, 300000, 1); /* seconds, not hours */
    ck_assert_uint_eq(ids.count, 75000);
    for (size_t i = 0; i < ids.count; i++)
        ck_assert_int_eq(ids.id[i], 24794);
    free(a);
    close_encoder(e, t);
}
END_TEST

/* A split expression of Hugging Face's tokenizers must be Oniguruma's, which lacks (?s:.). */
static void expect_any_character(int fd)
{
    char text[512] = "";
    ck_assert_int_gt(pread(fd, text, sizeof text - 1, 0), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"Regex\":\"[\\\\s\\\\S]\""));
}

START_TEST(chars_and_bytes)
{
    char dir[] = "/tmp/yoke-chars-XXXXXX", path[64], config[64];
    yk__tokenizer *t, *u;
    yk__encoder *e;
    int fd;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    snprintf(config, sizeof config, "%s/tokenizer_config.json", dir);
    ck_assert_int_eq(yk__tokenizer_chars("t", "b\xe4\xb8\xad\"\na\xf0\x9f\x9a\x80\\", 12, &t, &err), YK_OK);
    ck_assert_int_eq(yk__tokenizer_vocab(t), 7);
    ck_assert_int_eq(yk__tokenizer_save(t, dir, &err), YK_OK);
    fd = open(path, O_RDONLY);
    expect_any_character(fd);
    yk__tokenizer_close(t);
    e = open_encoder(path, -1, &u);
    text_encode(e, "\n\"\\ab\xe4\xb8\xad\xf0\x9f\x9a\x80", 12, 1);
    ck_assert_uint_eq(ids.count, 7);
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(ids.id[i], i);
    ck_assert_int_eq(yk__encoder_encode(e, "ac", 2, NULL, 0, 1, 0, &ids, &err), YK_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "byte 1: the character 'c'"));
    close_encoder(e, u);
    close(fd);
    ck_assert(!unlink(path) && !unlink(config) && !rmdir(dir));
    ck_assert_int_eq(yk__tokenizer_chars("t", "a\xff", 2, &t, &err), YK_E_FORMAT);
    ck_assert_int_eq(yk__tokenizer_bytes(&t, &err), YK_OK);
    ck_assert_int_eq(yk__encoder_new(t, &e, &err), YK_OK);
    text_encode(e, "\xff\0", 2, 1);
    ck_assert(ids.count == 2 && ids.id[0] == 255 && ids.id[1] == 0);
    close_encoder(e, t);
}
END_TEST

START_TEST(faulty_files)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}",
        "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[7]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u4e2d\":0},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":\"NFC\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Split\","
        "\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":-1,\"content\":"
        "\"b\"}]}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\",\"type_id\":0}}]}}"};
    char path[] = "/tmp/yoke-tok-XXXXXX.json";
    int fd = mkstemps(path, 5);
    yk__tokenizer *t;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FILE *f = fopen(path, "w");
        yk_status s;
        fputs(bad[i], f);
        fclose(f);
        s = yk__tokenizer_open(path, -1, &t, &err);
        ck_assert_msg(s == YK_E_FORMAT || s == YK_E_UNSUPPORTED, "%s: %d", bad[i], s);
        ck_assert_msg(strstr(err.text, path) != NULL, "%s", err.text);
    }
    close(fd);
    unlink(path);
    ck_assert_int_eq(yk__tokenizer_open("/nonexistent", -1, &t, &err), YK_E_ARG);
}
END_TEST

START_TEST(failing_allocations)
{
    static const char *const files[] = {"minimal/bpe_bytelevel_minimal.json",
                                        "minimal/wordpiece_bert_pair_minimal.json"};
    if (!suite_there("tokenizers"))
        return;
    json_set_alloc_funcs(yk__malloc, yk__free);
    for (int k = 0; k < 2; k++) {
        yk_status s = YK_E_MEM;
        for (long n = 0; s; n += n < 40 ? 1 : 7) {
            yk__tokenizer *t = NULL;
            yk__encoder *e = NULL;
            yk__mem_fail_after(n);
            s = yk__tokenizer_open(suite_path("tokenizers", files[k]), -1, &t, &err);
            if (!s)
                s = yk__encoder_new(t, &e, &err);
            if (!s)
                s = yk__encoder_encode(e, "hello world", 11, "hello", 5, 1, 0, &ids, &err);
            yk__mem_fail_after(-1);
            ck_assert_msg(s == YK_OK || s == YK_E_MEM || s == YK_E_FORMAT, "%s", err.text);
            close_encoder(e, t);
        }
    }
    json_set_alloc_funcs(malloc, free);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("tokenizer");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, corpus_has_the_recorded_ids);
    tcase_add_test(t, vocab_and_merges);
    tcase_add_test(t, squad_has_the_recorded_ids);
    tcase_add_test(t, chnsenticorp_every8th);
    tcase_add_test(t, banking77_has_the_recorded_ids);
    tcase_add_test(t, whole_files);
    tcase_add_test(t, pairs_are_joined_and_cut);
    tcase_add_test(t, minimal_bpe);
    tcase_add_test(t, long_words);
    tcase_add_test(t, chars_and_bytes);
    tcase_add_test(t, faulty_files);
    tcase_add_test(t, failing_allocations);
    return suite_run("tokenizer", t);
}
