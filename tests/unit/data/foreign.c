/* SPDX-License-Identifier: Apache-2.0 */
/* Every reader of outside files tells other programs' files by their signatures; byte order marks and carriage returns follow one rule. */
#include <check.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "core/read/cifar.h"
#include "core/read/csv.h"
#include "core/read/jsonl.h"
#include "core/read/rows.h"
#include "core/read/tokens.h"
#include "core/text/text.h"
#include "tests/support/run.h"

#define BYTES 6146u /* two records of CIFAR-10, and a multiple of an id's bytes */

static yk_status read_tokens(yk__file *file, yk_error *err)
{
    yk__tokens tokens;
    yk_status s = yk__tokens_read(file, 0, &tokens, err);
    if (!s)
        yk__tokens_close(&tokens);
    return s;
}

static yk_status read_cifar(yk__file *file, yk_error *err)
{
    yk__cifar cifar;
    yk_status s = yk__cifar_read(file, 1 << 20, &cifar, err);
    if (!s)
        yk__cifar_free(&cifar);
    return s;
}

static yk_status read_text(yk__file *file, yk_error *err)
{
    char *text;
    size_t n;
    yk_status s = yk__text_read(file, 0, &text, &n, err);
    if (!s)
        yk__free(text);
    return s;
}

static yk_status read_bytes(yk__file *file, yk_error *err)
{
    char *text;
    size_t n;
    yk_status s = yk__text_read(file, 1, &text, &n, err);
    if (!s)
        yk__free(text);
    return s;
}

static yk_status read_csv(yk__file *file, yk_error *err)
{
    yk__csv *csv;
    yk_status s = yk__csv_read(file, NULL, &csv, err);
    if (!s)
        yk__csv_close(csv);
    return s;
}

static yk_status read_jsonl(yk__file *file, yk_error *err)
{
    yk__jsonl *jsonl;
    yk_status s = yk__jsonl_read(file, &jsonl, err);
    if (!s)
        yk__jsonl_close(jsonl);
    return s;
}

static yk_status read_json(yk__file *file, yk_error *err)
{
    json_t *v;
    yk_status s = yk__json_read(file, YK__JSON_ANY, &v, err);
    if (!s)
        json_decref(v);
    return s;
}

static const struct reader {
    const char *name;
    yk_status (*read)(yk__file *file, yk_error *err);
    bool text;
} readers[] = {{"tokens", read_tokens, false}, {"cifar", read_cifar, false}, {"text", read_text, true}, {"bytes", read_bytes, true},
               {"csv", read_csv, true},        {"jsonl", read_jsonl, true},  {"json", read_json, true}};
#define READERS (sizeof readers / sizeof readers[0])

static yk_status read_memory(const struct reader *reader, const void *data, size_t n, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_from_memory("m", data, n, YK__FILE_PLAIN, &file, err);
    ck_assert_msg(!s, "%s", err->text);
    s = reader->read(file, err);
    yk__file_close(file);
    return s;
}

/* First bytes as the formats' own pages give them, written down here a second time. */
static const struct sample {
    const char *format;
    int at, n;
    const char *bytes;
    bool text_only;
} samples[] = {
    {"NumPy", 0, 10, "\x93NUMPY\1\0\x76\0", false},
    {"Parquet", 0, 8, "PAR1\x15\x04\x15\x1c", false},
    {"Arrow file", 0, 8, "ARROW1\0\0", false},
    {"Arrow stream", 0, 8, "\xff\xff\xff\xff\x10\1\0\0", false},
    {"Feather", 0, 8, "FEA1\0\0\0\0", false},
    {"Avro", 0, 6, "Obj\1\4\x14", false},
    {"ORC", 0, 5, "ORC\x08\3", false},
    {"HDF5", 0, 8, "\x89HDF\r\n\x1a\n", false},
    {"SQLite", 0, 16, "SQLite format 3\0", false},
    {"GGUF", 0, 8, "GGUF\3\0\0\0", false},
    {"zip", 0, 6, "PK\3\4\x14\0", false},
    {"a gzip file within", 0, 10, "\x1f\x8b\x08\0\0\0\0\0\0\3", false},
    {"Zstandard", 0, 6, "\x28\xb5\x2f\xfd\4\0", false},
    {"xz", 0, 6, "\xfd\x37zXZ\0", false},
    {"bzip2", 0, 10, "BZh91AY&SY", false},
    {"tar", 257, 6, "ustar\0", false},
    {"pickle", 0, 4, "\x80\4\x95\1", false},
    {"Megatron", 0, 9, "MMIDIDX\0\0", false},
    {"PNG", 0, 8, "\x89PNG\r\n\x1a\n", false},
    {"Git LFS", 0, 60, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214", false},
    {"safetensors", 0, 12, "\x40\1\0\0\0\0\0\0{\"a\"", false},
    {"llm.c", 0, 8, "\x88\xd8\x34\x01\1\0\0\0", true},
    {"llm.c", 0, 8, "\xa1\xd9\x34\x01\7\0\0\0", true},
    {"UTF-16", 0, 4, "\xff\xfet\0", true},
    {"UTF-16", 0, 4, "\xfe\xff\0t", true},
    {"UTF-32", 0, 8, "\xff\xfe\0\0t\0\0\0", true},
};

START_TEST(every_reader_refuses_every_signature_by_name)
{
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        for (size_t k = 0; k < READERS; k++) {
            static char file[BYTES];
            yk_error err = YK_ERROR_INIT;
            if (samples[i].text_only && !readers[k].text)
                continue;
            memset(file, 0, sizeof file);
            memcpy(file + samples[i].at, samples[i].bytes, (size_t)samples[i].n);
            const yk_status s = read_memory(&readers[k], file, sizeof file, &err);
            ck_assert_msg(s == YK_E_FORMAT && strstr(err.text, "this is ") && strstr(err.text, samples[i].format),
                          "%s by the reader of %s: %d, %s", samples[i].format, readers[k].name, (int)s, err.text);
        }
}
END_TEST

START_TEST(words_that_a_signature_begins_with_are_text)
{
    static const char *const texts[] = {"GGUF is a format\n", "PAR1,label\nx,0\n", "ORC\n", "PK\n", "BZh9\n", "Obj\n",
                                        "%PDFs\n", "ARROW1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        ck_assert_msg(!read_memory(&readers[2], texts[i], strlen(texts[i]), &err), "%s", err.text);
        ck_assert_msg(!read_memory(&readers[4], texts[i], strlen(texts[i]), &err), "%s", err.text);
    }
}
END_TEST

static void word_put(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* A token file of llm.c: its words 0 to 2, and ids 7, 8, 9, .. of `width` bytes. */
static size_t llmc_make(uint8_t *file, uint32_t magic, uint32_t version, uint32_t said, int count, int width)
{
    memset(file, 0, 1024);
    word_put(file, magic);
    word_put(file + 4, version);
    word_put(file + 8, said);
    for (int i = 0; i < count * width; i++)
        file[1024 + i] = i % width ? 0 : (uint8_t)(7 + i / width);
    return 1024 + (size_t)(count * width);
}

static yk_status llmc_open(uint32_t magic, uint32_t version, uint32_t said, int width, int asked, int32_t ids[4], yk_error *err)
{
    uint8_t bytes[1024 + 16];
    yk__tokens tokens;
    yk__file *file;
    const size_t n = llmc_make(bytes, magic, version, said, 4, width);
    ck_assert(!yk__file_from_memory("m", bytes, n, YK__FILE_AUTO, &file, err));
    yk_status s = yk__tokens_read(file, asked, &tokens, err);
    yk__file_close(file);
    if (s)
        return s;
    ck_assert(tokens.count == 4 && !yk__tokens_check(&tokens, err) && tokens.vocab == 11);
    s = yk__tokens_get(&tokens, 0, 4, ids, err);
    yk__tokens_close(&tokens);
    return s;
}

START_TEST(token_files_of_llm_c_are_read_behind_their_header)
{
    yk_error err = YK_ERROR_INIT;
    int32_t ids[4] = {0};
    ck_assert_msg(!llmc_open(20240520, 1, 4, 2, 0, ids, &err), "%s", err.text);
    ck_assert(ids[0] == 7 && ids[3] == 10);
    ck_assert_msg(!llmc_open(20240801, 7, 4, 4, 0, ids, &err), "%s", err.text);
    ck_assert(ids[0] == 7 && ids[3] == 10);
    ck_assert(llmc_open(20240520, 1, 5, 2, 0, ids, &err) == YK_E_FORMAT && strstr(err.text, "the number of ids that follow"));
    ck_assert(llmc_open(20240520, 2, 4, 2, 0, ids, &err) == YK_E_FORMAT && strstr(err.text, "expected version 1"));
    ck_assert(llmc_open(20240520, 1, 4, 2, 4, ids, &err) == YK_E_FORMAT && strstr(err.text, "ids have 2 bytes"));
    ck_assert(llmc_open(20240326, 3, 4, 2, 0, ids, &err) == YK_E_FORMAT && strstr(err.text, "llm.c's model"));
}
END_TEST

static yk__rows *rows_read(const char *text, size_t n, const yk__rows_options *options)
{
    yk_error err = YK_ERROR_INIT;
    yk__rows *rows = NULL;
    yk__file *file;
    ck_assert(!yk__file_from_memory("m", text, n, YK__FILE_AUTO, &file, &err));
    ck_assert_msg(!yk__rows_read(file, options, &rows, &err), "%s", err.text);
    yk__file_close(file);
    return rows;
}

/* The text with CR LF for each LF, behind a byte order mark if one is asked for. */
static size_t text_vary(const char *text, bool mark, bool cr, char *out)
{
    size_t n = 0;
    if (mark)
        n += (size_t)sprintf(out, "\xef\xbb\xbf");
    for (const char *p = text; *p; p++) {
        if (*p == '\n' && cr)
            out[n++] = '\r';
        out[n++] = *p;
    }
    return n;
}

START_TEST(rows_are_the_same_with_marks_and_carriage_returns)
{
    static const struct {
        yk__rows_options options;
        const char *text;
    } kinds[] = {{{.trains = true}, "text,label\nab,x\ncd,y\n"},
                 {{.trains = true, .json = 1}, "{\"text\":\"ab\",\"label\":\"x\"}\n{\"text\":\"cd\",\"label\":\"y\"}\n"},
                 {{.trains = true, .json = 1}, "[{\"text\":\"ab\",\"label\":\"x\"},\n{\"text\":\"cd\",\"label\":\"y\"}]\n"},
                 {{.trains = true, .lines = true, .unlabelled = true}, "ab\ncd\n"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (int way = 0; way < 4; way++) {
            char bytes[256];
            yk__rows *rows = rows_read(bytes, text_vary(kinds[i].text, way & 1, way & 2, bytes), &kinds[i].options);
            ck_assert_msg(rows->count == 2 && rows->at[2] == 4 && !memcmp(rows->text, "abcd", 4), "kind %zu, way %d", i, way);
            yk__rows_close(rows);
        }
}
END_TEST

START_TEST(text_has_the_line_ends_of_pythons_text_mode)
{
    static const char text[] = "\xef\xbb\xbf" "a\r\nb\rc\n\r\n\r\rd\r";
    yk_error err = YK_ERROR_INIT;
    yk__file *file;
    char *got;
    size_t n;
    ck_assert(!yk__file_from_memory("m", text, sizeof text - 1, YK__FILE_AUTO, &file, &err));
    ck_assert_msg(!yk__text_read(file, 0, &got, &n, &err), "%s", err.text);
    ck_assert_msg(n == 11 && !strcmp(got, "a\nb\nc\n\n\n\nd\n"), "%zu bytes", n);
    yk__free(got);
    yk__file_close(file);
    ck_assert(!yk__file_from_memory("m", text, sizeof text - 1, YK__FILE_AUTO, &file, &err));
    ck_assert(!yk__text_read(file, 1, &got, &n, &err) && n == sizeof text - 1 && !memcmp(got, text, n)); /* bytes stay */
    yk__free(got);
    yk__file_close(file);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("foreign");
    tcase_add_test(t, every_reader_refuses_every_signature_by_name);
    tcase_add_test(t, words_that_a_signature_begins_with_are_text);
    tcase_add_test(t, token_files_of_llm_c_are_read_behind_their_header);
    tcase_add_test(t, rows_are_the_same_with_marks_and_carriage_returns);
    tcase_add_test(t, text_has_the_line_ends_of_pythons_text_mode);
    return suite_run("foreign", t);
}
