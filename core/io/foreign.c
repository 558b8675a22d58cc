/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of other programs' files, from their published formats, and the remedy for each. */
#include "core/io/foreign.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct signature {
    uint16_t at;
    uint8_t length;
    bool text_only; /* for readers of text alone */
    const char *bytes;
    const char *format, *remedy;
} signature;

#define LFS_POINTER "version https://git-lfs.github.com/spec/v1"
#define UNPACK "unpack it first"
#define TO_UTF8 "convert the file to UTF-8"
#define TO_TOKENS "tokens:FILE reads it"
#define TO_TEXT "write its columns as CSV or JSON lines"

static const signature signatures[] = {
    {0, 6, false, "\x93NUMPY", "a NumPy array (.npy)", "write token ids by numpy.load(FILE).astype('uint16').tofile(OUT)"},
    {0, 4, false, "PAR1", "a Parquet file", TO_TEXT},
    {0, 4, false, "PARE", "an encrypted Parquet file", TO_TEXT},
    {0, 6, false, "ARROW1", "an Arrow file", TO_TEXT},
    {0, 4, false, "FEA1", "a Feather file", TO_TEXT},
    {0, 4, false, "\xff\xff\xff\xff", "an Arrow stream", TO_TEXT},
    {0, 4, false, "Obj\x01", "an Avro file", TO_TEXT},
    {0, 3, false, "ORC", "an ORC file", TO_TEXT},
    {0, 8, false, "\x89HDF\r\n\x1a\n", "an HDF5 file", "write its data set in a format that docs/data.md lists"},
    {0, 16, false, "SQLite format 3\0", "an SQLite database", TO_TEXT},
    {0, 4, false, "GGUF", "a GGUF model", "take the safetensors files of the same model"},
    {0, 4, false, "lmgg", "a GGML model", "take the safetensors files of the same model"},
    {0, 4, false, "tjgg", "a GGML model", "take the safetensors files of the same model"},
    {0, 4, false, "PK\x03\x04", "a zip archive (.zip, .npz, .xlsx, PyTorch's .pt and .bin)", UNPACK},
    {0, 4, false, "PK\x05\x06", "an empty zip archive", UNPACK},
    {0, 4, false, "\x28\xb5\x2f\xfd", "a Zstandard file", UNPACK},
    {0, 6, false, "\xfd\x37zXZ\0", "an xz file", UNPACK},
    {0, 4, false, "\x04\x22\x4d\x18", "an LZ4 file", UNPACK},
    {0, 6, false, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK},
    {0, 6, false, "Rar!\x1a\x07", "a RAR archive", UNPACK},
    {4, 6, false, "1AY&SY", "a bzip2 file", UNPACK},
    {257, 5, false, "ustar", "a tar archive", UNPACK},
    {0, 3, false, "\x80\x02\x8a", "a pickle of PyTorch", "save it as safetensors"},
    {0, 3, false, "\x80\x04\x95", "a pickle", "save its values in a format that docs/data.md lists"},
    {0, 3, false, "\x80\x05\x95", "a pickle", "save its values in a format that docs/data.md lists"},
    {0, 9, false, "MMIDIDX\0\0", "the index of Megatron's token file", "name the .bin file beside it"},
    {0, 8, false, "\x89PNG\r\n\x1a\n", "a PNG picture", "docs/data.md lists the formats of pictures"},
    {0, 3, false, "\xff\xd8\xff", "a JPEG picture", "docs/data.md lists the formats of pictures"},
    {0, 5, false, "%PDF-", "a PDF document", "extract its text"},
    {0, 4, false, "\177ELF", "a program (ELF)", "name a data file"},
    {0, sizeof LFS_POINTER - 1, false, LFS_POINTER, "a pointer of Git LFS, not the file itself", "fetch the file by git lfs pull"},
    {0, 4, true, "\x88\xd8\x34\x01", "a token file of llm.c", TO_TOKENS},
    {0, 4, true, "\xa1\xd9\x34\x01", "a token file of llm.c", TO_TOKENS},
    {0, 4, true, "\xff\xfe\0\0", "text in UTF-32", TO_UTF8},
    {0, 4, true, "\0\0\xfe\xff", "text in UTF-32", TO_UTF8},
    {0, 2, true, "\xff\xfe", "text with a UTF-16 byte order mark", TO_UTF8},
    {0, 2, true, "\xfe\xff", "text with a UTF-16 byte order mark", TO_UTF8},
};

static bool is_letters(const signature *sign)
{
    for (int i = 0; i < sign->length; i++)
        if ((unsigned char)sign->bytes[i] < ' ' || (unsigned char)sign->bytes[i] > '~')
            return false;
    return true;
}

static bool has_control(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (head[i] < '\t' || (head[i] > '\r' && head[i] < ' '))
            return true;
    return false;
}

static bool is_lfs_pointer(const signature *sign)
{
    return !strcmp(sign->bytes, LFS_POINTER);
}

static bool signature_fits(const signature *sign, const unsigned char *head, size_t n)
{
    if (n < (size_t)sign->at + sign->length || memcmp(head + sign->at, sign->bytes, sign->length) != 0)
        return false;
    return !is_letters(sign) || is_lfs_pointer(sign) || has_control(head, n);
}

/* True for a frame of compress or gzip that yk__file was asked not to unpack; an unpacked one never comes here. */
static bool is_gzip(const unsigned char *head, size_t n)
{
    return n >= 10 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8 && !(head[3] & 0xe0);
}

/* True for the length of a JSON object that is below 2^32, in 8 bytes, and the beginning of that object. */
static bool is_safetensors(const unsigned char *head, size_t n)
{
    return n >= 10 && !memcmp(head + 4, "\0\0\0\0{", 5) && (head[9] == '"' || head[9] == '}');
}

bool yk__foreign_words(enum yk__foreign_reader reader, const void *head, size_t n, char words[YK__FOREIGN_WORDS])
{
    const unsigned char *byte = head;
    const bool is_gzipped = is_gzip(byte, n), is_model = reader != YK__FOREIGN_TENSORS && is_safetensors(byte, n);
    n = n < YK__FOREIGN_HEAD ? n : YK__FOREIGN_HEAD;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        const signature *sign = &signatures[i];
        if ((sign->text_only && reader == YK__FOREIGN_BINARY) || !signature_fits(sign, head, n))
            continue;
        snprintf(words, YK__FOREIGN_WORDS, "this is %s: %s", sign->format, sign->remedy);
        return true;
    }
    if (is_gzipped)
        snprintf(words, YK__FOREIGN_WORDS, "this is a gzip file within a gzip file: " UNPACK);
    else if (is_model)
        snprintf(words, YK__FOREIGN_WORDS, "this is a safetensors file of weights: name a data file");
    return is_gzipped || is_model;
}

yk_status yk__foreign_refuse(const char *path, enum yk__foreign_reader reader, const void *head, size_t n, yk_error *err)
{
    char words[YK__FOREIGN_WORDS];
    return yk__foreign_words(reader, head, n, words) ? yk__fail(err, YK_E_FORMAT, "%s: %s", path, words) : YK_OK;
}
