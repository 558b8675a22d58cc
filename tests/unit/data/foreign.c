/* SPDX-License-Identifier: Apache-2.0 */
/* Every reader of outside files tells other programs' files by their signatures; byte order marks and carriage returns follow one rule. */
#include <check.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/io/foreign.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "core/io/tree.h"
#include "core/read/cifar.h"
#include "core/read/csv.h"
#include "core/read/idx.h"
#include "core/read/jsonl.h"
#include "core/read/rows.h"
#include "core/read/tokens.h"
#include "core/io/text.h"
#include "tests/support/run.h"

#define TEN "\0\0\0\0\0\0\0\0\0\0"
#define ZEROS_95 TEN TEN TEN TEN TEN TEN TEN TEN TEN "\0\0\0\0\0"
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

static yk_status read_idx(yk__file *file, yk_error *err)
{
    yk__idx *idx;
    yk_status s = yk__idx_read(file, &idx, err);
    if (!s)
        yk__idx_close(idx);
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

enum { TOKENS, CIFAR, IDX, TENSORS, TEXT, RAW, CSV, JSONL, JSON, SETTINGS, READERS };

static const struct reader {
    const char *name;
    yk_status (*read)(yk__file *file, yk_error *err);
} readers[READERS] = {[TOKENS] = {"tokens", read_tokens}, [CIFAR] = {"cifar", read_cifar}, [IDX] = {"idx", read_idx},
                      [TENSORS] = {"safetensors", NULL},  [TEXT] = {"text", read_text},    [RAW] = {"bytes", read_bytes},
                      [CSV] = {"csv", read_csv},          [JSONL] = {"jsonl", read_jsonl}, [JSON] = {"json", read_json},
                      [SETTINGS] = {"settings", NULL}};

/* A reader that takes a path alone. */
static yk_status path_read(int k, const void *data, size_t n, yk_error *err)
{
    char path[] = "/tmp/yoke-foreign-XXXXXX";
    yk__safetensors *tensors;
    yk__tree *tree;
    yk_status s;
    const int fd = mkstemp(path);
    ck_assert(fd >= 0 && write(fd, data, n) == (ssize_t)n && !close(fd));
    if (k == TENSORS)
        s = yk__safetensors_open(path, &tensors, err);
    else
        s = yk__tree_load(path, &tree, err);
    unlink(path);
    if (!s && k == TENSORS)
        yk__safetensors_close(tensors);
    else if (!s)
        yk__tree_free(tree);
    return s;
}

static yk_status read_memory(int k, const void *data, size_t n, yk_error *err)
{
    yk__file *file;
    if (!readers[k].read)
        return path_read(k, data, n, err);
    yk_status s = yk__file_from_memory("m", data, n, YK__FILE_PLAIN, &file, err);
    ck_assert_msg(!s, "%s", err->text);
    s = readers[k].read(file, err);
    yk__file_close(file);
    return s;
}

#define NOT_TEXT ~(1u << TEXT | 1u << CSV | 1u << JSONL | 1u << JSON | 1u << SETTINGS)

/* First bytes as the formats' own pages give them, written down here a second time. */
static const struct sample {
    const char *format;
    int at, n;
    const char *bytes;
    enum { PAD, EXACT } end; /* zeros follow, up to BYTES; or nothing */
    unsigned legal;          /* readers to which it is no foreign format, a bit each */
} samples[] = {
    {"NumPy", 0, 10, "\x93NUMPY\1\0\x76\0", PAD, 0},
    {"Parquet", 0, 8, "PAR1\x15\x04\x15\x1c", PAD, 0},
    {"Arrow file", 0, 8, "ARROW1\0\0", PAD, 0},
    {"Arrow stream", 0, 8, "\xff\xff\xff\xff\x10\1\0\0", PAD, 0},
    {"Feather", 0, 8, "FEA1\0\0\0\0", PAD, 0},
    {"Avro", 0, 6, "Obj\1\4\x14", PAD, 0},
    {"ORC", 0, 5, "ORC\x08\3", PAD, 0},
    {"HDF5", 0, 8, "\x89HDF\r\n\x1a\n", PAD, 0},
    {"SQLite", 0, 16, "SQLite format 3\0", PAD, 0},
    {"GGUF", 0, 8, "GGUF\3\0\0\0", PAD, 0},
    {"zip", 0, 6, "PK\3\4\x14\0", PAD, 0},
    {"a gzip file", 0, 10, "\x1f\x8b\x08\0\0\0\0\0\0\3", PAD, 1 << SETTINGS} /* unpacks it */,
    {"Zstandard", 0, 6, "\x28\xb5\x2f\xfd\4\0", PAD, 0},
    {"xz", 0, 6, "\xfd\x37zXZ\0", PAD, 0},
    {"bzip2", 0, 10, "BZh91AY&SY", PAD, 0},
    {"tar", 257, 6, "ustar\0", PAD, 0},
    {"tar", 257, 8, "ustar  ", PAD, 0},
    {"tar", 0, 157, "a.txt" ZEROS_95 "0000644\0" "0001750\0" "0001750\0" "00000000005\0" "14700000000\0" "005550\0 0", PAD, 0},
    {"ar", 0, 16, "!<arch>\na.o/    ", PAD, 0},
    {"cpio", 0, 14, "07070100000001", PAD, 0},
    {"cpio", 0, 14, "07070200000001", PAD, 0},
    {"AppleDouble", 0, 16, "\0\5\x16\7\0\2\0\0Mac OS X", PAD, 0},
    {"cabinet", 0, 12, "MSCF\0\0\0\0\2\x18\0\0", PAD, 0},
    {"compress", 0, 6, "\x1f\x9d\x90T\xde\x80", PAD, 0},
    {"ONNX Runtime", 0, 8, "\x1c\0\0\0ORTM", PAD, 0},
    {"ExecuTorch", 0, 8, "\x1c\0\0\0ET12", PAD, 0},
    {"KenLM", 0, 50, "mmap lm http://kheafield.com/code format version 5", PAD, 0},
    {"Photoshop", 0, 6, "8BPS\0\1", PAD, 0},
    {"DICOM", 128, 4, "DICM", PAD, 0},
    {"BMP", 0, 14, "BM\2\x18\0\0\0\0\0\0\x36\0\0\0", PAD, 0},
    {"MP3", 0, 5, "ID3\3\0", PAD, 0},
    {"MP4", 0, 12, "\0\0\0\x20" "ftypisom", PAD, 0},
    {"Matroska", 0, 5, "\x1a\x45\xdf\xa3\x9f", PAD, 0},
    {"Java", 0, 8, "\xca\xfe\xba\xbe\0\0\0\x34", PAD, 0},
    {"of R", 0, 7, "RDX3\nX\n", PAD, 0},
    {"of R", 0, 7, "RDX2\nX\n", PAD, 0},
    {"pcap", 0, 8, "\xd4\xc3\xb2\xa1\2\0\4\0", PAD, 0},
    {"Megatron", 0, 9, "MMIDIDX\0\0", PAD, 0},
    {"PNG", 0, 8, "\x89PNG\r\n\x1a\n", PAD, 0},
    {"Git LFS", 0, 60, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214", PAD, 0},
    {"safetensors", 0, 12, "\x40\1\0\0\0\0\0\0{\"a\"", PAD, 1 << TENSORS},
    {"llm.c", 0, 8, "\x88\xd8\x34\x01\1\0\0\0", PAD, 1 << TOKENS},
    {"llm.c", 0, 8, "\xa1\xd9\x34\x01\7\0\0\0", PAD, 1 << TOKENS},
    {"fastText", 0, 8, "\xba\x16\x4f\x2f\x0c\0\0\0", PAD, 0},
    {"TensorFlow Lite", 0, 8, "\x1c\0\0\0TFL3", PAD, 0},
    {"RecordIO", 0, 8, "\x0a\x23\xd7\xce\x40\0\0\0", PAD, 0},
    {"MATLAB", 0, 29, "MATLAB 5.0 MAT-file, Platform", PAD, 0},
    {"RIFF", 0, 12, "RIFF\x24\x08\0\0WAVE", PAD, 0},
    {"GIF", 0, 10, "GIF89a\x10\0\x10\0", PAD, 0},
    {"JPEG", 0, 4, "\xff\xd8\xff\xe0", PAD, 0},
    {"Microsoft", 0, 8, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", PAD, 0},
    {"LZ4", 0, 4, "\x04\x22\x4d\x18", PAD, 0},
    {"LZ4", 0, 4, "\x02\x21\x4c\x18", PAD, 0},
    {"Zstandard or LZ4", 0, 12, "\x50\x2a\x4d\x18\4\0\0\0abcd", PAD, 0},
    {"LZMA", 0, 13, "\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff", PAD, 0},
    {"lzip", 0, 6, "LZIP\1\x0c", PAD, 0},
    {"lzop", 0, 9, "\x89LZO\0\r\n\x1a\n", PAD, 0},
    {"Snappy", 0, 10, "\xff\6\0\0sNaPpY", PAD, 0},
    {"MATLAB", 0, 29, "MATLAB 7.3 MAT-file, Platform", PAD, 0},
    {"netCDF", 0, 8, "CDF\1\0\0\0\0", PAD, 0},
    {"netCDF", 0, 8, "CDF\2\0\0\0\0", PAD, 0},
    {"LMDB", 16, 8, "\xde\xc0\xef\xbe\1\0\0\0", PAD, 0},
    {"TIFF", 0, 8, "II*\0\x08\0\0\0", PAD, 0},
    {"TIFF", 0, 8, "MM\0*\0\0\0\x08", PAD, 0},
    {"FLAC", 0, 8, "fLaC\0\0\0\x22", PAD, 0},
    {"Ogg", 0, 6, "OggS\0\2", PAD, 0},
    {"Mach-O", 0, 8, "\xcf\xfa\xed\xfe\7\0\0\1", PAD, 0},
    {"Windows", 0, 8, "MZ\x90\0\3\0\0\0", PAD, 0},
    {"WebAssembly", 0, 8, "\0asm\1\0\0\0", PAD, 0},
    {"PDF", 0, 9, "%PDF-1.7\n", PAD, 0},
    {"pickle", 0, 7, "\x80\2X\xf4\x17\0\0", PAD, 0},                                         /* a text of 6132 bytes */
    {"pickle", 0, 7, "\x80\3B\xf4\x17\0\0", PAD, 0},                                         /* bytes */
    {"pickle", 0, 24, "\x80\2c_codecs\nencode\nq\0X\xc8\x17\0\0", PAD, 0},                    /* bytes, as protocol 2 has them */
    {"ELF", 0, 8, "\177ELF\2\1\1\0", PAD, 0},
    {"pickle", 0, 27, "\x80\x02}q\x00X\x01\x00\x00\x00" "aq\x01]q\x02(K\x01K\x02M,\x01" "es.", EXACT, 0},
    {"pickle", 0, 27, "\x80\x03}q\x00X\x01\x00\x00\x00" "aq\x01]q\x02(K\x01K\x02M,\x01" "es.", EXACT, 0},
    {"pickle", 0, 30, "\x80\x04\x95\x13\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01" "a\x94]\x94(K\x01K\x02M,\x01" "es.", EXACT, 0},
    {"pickle", 0, 30, "\x80\x05\x95\x13\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01" "a\x94]\x94(K\x01K\x02M,\x01" "es.", EXACT, 0},
    {"pickle", 0, 22, "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00]\x94(K\x07K\x07K\x07" "e.", EXACT, 0},
    {"pickle", 0, 52, "\x80\x02" "ccollections\x0aOrderedDict\x0aq\x00)Rq\x01X\x01\x00\x00\x00" "aq\x02G\x3f\xf8\x00\x00"
     "\x00\x00\x00\x00s.", EXACT, 0},
    {"pickle", 0, 27, "\x80\x02\x8a\x0al\xfc\x9c" "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00.", EXACT, 0},
    {"TFRecord", 0, 39, "\x1b\x00\x00\x00\x00\x00\x00\x00\x1a\x0d\x9e\x13\x0a\x1b\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a"
     "\x02\x01\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", PAD, 0},
    {"ONNX", 0, 24, "\x08\x07\x12\x07pytorch\x1a\x03" "1.9:\x80\x01\x0a \x0a\x01x", PAD, 0},
    {"ONNX", 0, 41, "\x08\x09\x12\x08skl2onnx\x1a\x06" "1.16.0\x22\x07" "ai.onnx(\x00" "2\x00:\x80\x01\x0a \x0a\x01x", PAD, 0},
    {"ONNX", 0, 7, "\x08\x0a:@\x12\x01g", PAD, 0},
    {"SentencePiece", 0, 18, "\x0a\x0e\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02\x0a\x0c", PAD, 0},
    {"SentencePiece", 0, 16, "\x0a\x0c\x0a\x05<pad>\x15\x00\x00\x00\x00\x0a\x0c", PAD, 0},
    {"an IDX", 0, 44, "\x00\x00\x08\x02\x00\x00\x00\x08\x00\x00\x00\x04\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"
     "\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f", EXACT, 1 << IDX},
    {"a token file of ours", 0, 38, "YKTOKENS\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00"
     "\x00\x00\x00\x00\x00\x01\x00\x02\x00\x03\x00", EXACT, 1 << TOKENS},
    {"UTF-16", 0, 30, "\xff\xfek\x00" "e\x00y\x00:\x00 \x00g\x00o\x00o\x00" "d\x00 \x00" "d\x00" "a\x00y\x00\x0a\x00", EXACT, 0},
    {"UTF-16", 0, 30, "\xfe\xff\x00k\x00" "e\x00y\x00:\x00 \x00g\x00o\x00o\x00" "d\x00 \x00" "d\x00" "a\x00y\x00\x0a", EXACT, 0},
    {"UTF-32", 0, 60, "\xff\xfe\x00\x00k\x00\x00\x00" "e\x00\x00\x00y\x00\x00\x00:\x00\x00\x00 \x00\x00\x00g\x00\x00\x00"
     "o\x00\x00\x00o\x00\x00\x00" "d\x00\x00\x00 \x00\x00\x00" "d\x00\x00\x00" "a\x00\x00\x00y\x00\x00\x00\x0a\x00\x00"
     "\x00", EXACT, 0},
    {"UTF-32", 0, 60, "\x00\x00\xfe\xff\x00\x00\x00k\x00\x00\x00" "e\x00\x00\x00y\x00\x00\x00:\x00\x00\x00 \x00\x00\x00"
     "g\x00\x00\x00o\x00\x00\x00o\x00\x00\x00" "d\x00\x00\x00 \x00\x00\x00" "d\x00\x00\x00" "a\x00\x00\x00y\x00\x00\x00"
     "\x0a", EXACT, 0},
    {"UTF-16", 0, 12, "\xff\xfe\xe5" "e,g\x9e\x8a\x02" "0\x0a\x00", EXACT, 0},
    {"UTF-16", 0, 12, "\xfe\xff" "e\xe5g,\x8a\x9e" "0\x02\x00\x0a", EXACT, 0},
    {"UTF-32", 0, 24, "\xff\xfe\x00\x00\xe5" "e\x00\x00,g\x00\x00\x9e\x8a\x00\x00\x02" "0\x00\x00\x0a\x00\x00\x00", EXACT, 0},
    {"UTF-32", 0, 24, "\x00\x00\xfe\xff\x00\x00" "e\xe5\x00\x00g,\x00\x00\x8a\x9e\x00\x00" "0\x02\x00\x00\x00\x0a", EXACT, 0},
    {"UTF-16", 0, 20, "\xff\xfei\x00" "d\x00,\x00g\x00r\x00\xf6\x00\xdf\x00" "e\x00\x0a\x00", EXACT, 0},
    {"UTF-16", 0, 20, "\xfe\xff\x00i\x00" "d\x00,\x00g\x00r\x00\xf6\x00\xdf\x00" "e\x00\x0a", EXACT, 0},
    {"UTF-32", 0, 40, "\xff\xfe\x00\x00i\x00\x00\x00" "d\x00\x00\x00,\x00\x00\x00g\x00\x00\x00r\x00\x00\x00\xf6\x00\x00"
     "\x00\xdf\x00\x00\x00" "e\x00\x00\x00\x0a\x00\x00\x00", EXACT, 0},
    {"UTF-32", 0, 40, "\x00\x00\xfe\xff\x00\x00\x00i\x00\x00\x00" "d\x00\x00\x00,\x00\x00\x00g\x00\x00\x00r\x00\x00\x00"
     "\xf6\x00\x00\x00\xdf\x00\x00\x00" "e\x00\x00\x00\x0a", EXACT, 0},
    {"UTF-16", 0, 4, "a\x00" "b\x00", EXACT, NOT_TEXT},
    {"UTF-16", 0, 28, "\x00k\x00" "e\x00y\x00:\x00 \x00g\x00o\x00o\x00" "d\x00 \x00" "d\x00" "a\x00y\x00\x0a", EXACT, NOT_TEXT},
    {"UTF-32", 0, 56, "k\x00\x00\x00" "e\x00\x00\x00y\x00\x00\x00:\x00\x00\x00 \x00\x00\x00g\x00\x00\x00o\x00\x00\x00o"
     "\x00\x00\x00" "d\x00\x00\x00 \x00\x00\x00" "d\x00\x00\x00" "a\x00\x00\x00y\x00\x00\x00\x0a\x00\x00\x00", EXACT, NOT_TEXT},
    {"two byte order marks", 0, 14, "\xef\xbb\xbf\xef\xbb\xbf" "a: \"b\"\n", EXACT, NOT_TEXT},
    {"text", 0, 29, "To be, or not to be: gr\xc3\xb6\xc3\x9f" "e\x0a", EXACT, ~(1 << TOKENS | 1 << IDX | 1 << TENSORS)},
};

START_TEST(every_reader_refuses_every_signature_by_name)
{
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        for (int k = 0; k < READERS; k++) {
            static char file[BYTES];
            yk_error err = YK_ERROR_INIT;
            const size_t n = samples[i].end == PAD ? BYTES : (size_t)samples[i].n;
            if (samples[i].legal >> k & 1)
                continue;
            memset(file, 0, sizeof file);
            memcpy(file + samples[i].at, samples[i].bytes, (size_t)samples[i].n);
            const yk_status s = read_memory(k, file, n, &err);
            ck_assert_msg(s == YK_E_FORMAT && strstr(err.text, "this is ") && strstr(err.text, samples[i].format),
                          "sample %zu, %s, by the reader of %s: %d, %s", i, samples[i].format, readers[k].name, (int)s, err.text);
        }
}
END_TEST

START_TEST(words_that_a_signature_begins_with_are_text)
{
    static const char *const texts[] = {"GGUF is a format\n", "PAR1,label\nx,0\n", "ORC\n", "PK\n", "BZh9\n", "Obj\n",
                                        "%PDFs\n", "ARROW1\n", "BM is short for bitmap\n", "ID3,label\nx,0\n", "the ftyp\n",
                                        "8BPS\n", "070701,label\nx,0\n", "mmap lm\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        ck_assert_msg(!read_memory(TEXT, texts[i], strlen(texts[i]), &err), "%s", err.text);
        ck_assert_msg(!read_memory(CSV, texts[i], strlen(texts[i]), &err), "%s", err.text);
    }
}
END_TEST

static uint32_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Ids with each first id but UTF-16's mark (65279), and small ones as those of characters: no file of them is taken for another format. */
START_TEST(ids_are_no_foreign_format_whatever_the_first_one_is)
{
    uint64_t state = 1;
    for (uint32_t first = 0; first < 0xfeff; first++)
        for (int way = 0; way < 6; way++) {
            uint8_t ids[YK__FOREIGN_HEAD];
            char words[YK__FOREIGN_WORDS];
            const int width = way == 5 ? 4 : 2;
            memset(ids, 0, sizeof ids);
            for (int i = 0; i < (int)sizeof ids; i += width) {
                const uint32_t any = random_next(&state), id = !i ? first : way == 4 ? 32 + any % 96 : any % 50257;
                ids[i] = (uint8_t)id;
                ids[i + 1] = (uint8_t)(id >> 8);
            }
            ck_assert_msg(!yk__foreign_words(YK__FOREIGN_TOKENS, ids, sizeof ids, 1 << 20, words), "id %u, way %d: %s", first, way, words);
        }
}
END_TEST

/* Pictures: neighbours differ little, and the first byte is a label. */
START_TEST(records_of_pictures_are_no_foreign_format)
{
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        uint8_t record[YK__FOREIGN_HEAD] = {(uint8_t)(i % 10), (uint8_t)random_next(&state)};
        char words[YK__FOREIGN_WORDS];
        for (size_t k = 2; k < sizeof record; k++)
            record[k] = (uint8_t)(record[k - 1] + random_next(&state) % 5 - 2);
        ck_assert_msg(!yk__foreign_words(YK__FOREIGN_PIXELS, record, sizeof record, 3073000, words), "record %d: %s", i, words);
    }
}
END_TEST

static void word_put(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* 100 ids, 1 to 100, each with `width` bytes, read as ids of `asked` bytes (0: not said). spread: only every so many is not 0. */
static yk_status wide_ids_read(int width, int asked, int spread, yk_error *err)
{
    uint8_t bytes[800] = {0};
    yk__file *file;
    for (int i = 0; i < 100; i++)
        bytes[i * width] = i % spread ? 0 : (uint8_t)(i + 1);
    ck_assert(!yk__file_from_memory("ids.bin", bytes, (size_t)(100 * width), YK__FILE_PLAIN, &file, err));
    yk__tokens tokens;
    yk_status s = yk__tokens_read(file, asked, &tokens, err);
    yk__file_close(file);
    if (s)
        return s;
    ck_assert_int_eq(tokens.count, 100 * width / (asked ? asked : 2));
    yk__tokens_close(&tokens);
    return YK_OK;
}

START_TEST(ids_of_another_width)
{
    static const struct {
        int width, asked, spread;
        const char *wanted; /* NULL: they are read */
    } cases[] = {{2, 0, 1, NULL},
                 {2, 0, 5, NULL}, /* padding between ids */
                 {4, 4, 1, NULL},
                 {4, 0, 1, "ids.bin: every second id is 0 in its first 132, as where wider ids are read as ids of 2 bytes: give dtype=u32"},
                 {4, 2, 1, "dtype=u32"},
                 {8, 0, 1, "every second id is 0"},
                 {8, 4, 1, "as where wider ids are read as ids of 4 bytes: expected ids of 4 bytes (NumPy: .astype(\"uint32\"))"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_error err = YK_ERROR_INIT;
        const yk_status s = wide_ids_read(cases[i].width, cases[i].asked, cases[i].spread, &err);
        ck_assert_msg(cases[i].wanted ? s == YK_E_FORMAT && strstr(err.text, cases[i].wanted) : s == YK_OK, "case %zu: %s", i, err.text);
    }
}
END_TEST

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

/* Also at the end, and between the tokens of JSON, where one is a blank. */
START_TEST(a_lone_carriage_return_is_refused_where_lines_are_rows)
{
    static const struct {
        yk__rows_options options;
        const char *text;
    } kinds[] = {{{.trains = true}, "text,label\rab,x\rcd,y\r"},
                 {{.trains = true}, "text,label\nab,x\ncd,y\r"},
                 {{.trains = true, .json = 1}, "{\"text\":\"ab\",\"label\":\"x\"}\r{\"text\":\"cd\",\"label\":\"y\"}\r"},
                 {{.trains = true, .json = 1}, "{\"text\":\"ab\",\"label\":\"x\"}\n{\"text\":\"cd\",\r\"label\":\"y\"}\n"},
                 {{.trains = true, .json = 1}, "{\"text\":\"ab\",\"label\":\"x\"}\n{\"text\":\"cd\",\"label\":\"y\"}\r"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__file *file;
        yk__rows *rows;
        ck_assert(!yk__file_from_memory("m", kinds[i].text, strlen(kinds[i].text), YK__FILE_AUTO, &file, &err));
        ck_assert_msg(yk__rows_read(file, &kinds[i].options, &rows, &err) == YK_E_FORMAT && strstr(err.text, "a CR without LF"),
                      "kind %zu: %s", i, err.text);
        yk__file_close(file);
    }
}
END_TEST

/* The message says so only where no bracket or quote is wrong, and lines follow. */
START_TEST(an_object_over_several_lines_is_refused_by_name)
{
    static const struct {
        const char *text;
        int line; /* where an object goes on; 0: another error */
    } files[] = {{"{\n \"text\": \"ab\",\n \"label\": \"x\"\n}\n", 1},
                 {"{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": [\n1]}\n", 2},
                 {"{\"text\": \"a\\\"}\", \"label\":\n \"x\"}\n", 1},
                 {"{\"text\": \"a\", \"label\": \"x\"\n", 0},
                 {"{\"text\": \"a\", \"label\": \"x\"]\n{\"text\": \"b\", \"label\": \"y\"}\n", 0},
                 {"{\"text\": \"a, \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}\n", 0},
                 {"{\"text\": \"a\" \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}\n", 0}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        static const yk__rows_options options = {.trains = true, .json = 1};
        char expected[64];
        yk_error err = YK_ERROR_INIT;
        yk__file *file;
        yk__rows *rows;
        ck_assert(!yk__file_from_memory("m", files[i].text, strlen(files[i].text), YK__FILE_AUTO, &file, &err));
        snprintf(expected, sizeof expected, "m: line %d: expected one object per line", files[i].line);
        ck_assert_int_eq(yk__rows_read(file, &options, &rows, &err), YK_E_FORMAT);
        ck_assert_msg(files[i].line ? strstr(err.text, expected) != NULL : !strstr(err.text, "one object per line"), "file %zu: %s", i,
                      err.text);
        yk__file_close(file);
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
    tcase_add_test(t, ids_are_no_foreign_format_whatever_the_first_one_is);
    tcase_add_test(t, records_of_pictures_are_no_foreign_format);
    tcase_add_test(t, token_files_of_llm_c_are_read_behind_their_header);
    tcase_add_test(t, rows_are_the_same_with_marks_and_carriage_returns);
    tcase_add_test(t, a_lone_carriage_return_is_refused_where_lines_are_rows);
    tcase_add_test(t, an_object_over_several_lines_is_refused_by_name);
    tcase_add_test(t, ids_of_another_width);
    tcase_add_test(t, text_has_the_line_ends_of_pythons_text_mode);
    return suite_run("foreign", t);
}
