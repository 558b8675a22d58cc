/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of other programs' formats: a signature or a form of each, from its published description, and the remedy that a message gives.
 * The first row that fits decides. So UTF-32's mark stands before UTF-16's, which it begins with.
 *
 * A reader (core/read, core/text, core/io, yoke inspect) asks once for a file, in its caller's thread, when it has the first bytes. A
 * format with a magic of its own (IDX, safetensors, token files with a header) asks only if the magic is absent. A format without one
 * (text, pixels, bare ids) asks before it takes the bytes for content. Without a row that fits the reader goes on.
 */
#include "core/io/foreign.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/io/foreign_forms.h"

typedef struct signature {
    uint16_t at;     /* byte of the file at which `bytes` begin */
    uint8_t length;  /* number of `bytes`, which may hold a NUL */
    uint8_t readers; /* a bit for each reader that refuses the format */
    const char *bytes;      /* NULL if the row has a form */
    yk__foreign_form *form; /* a test in place of bytes (foreign_forms.h); NULL if the row has bytes */
    const char *format, *remedy;
} signature;

/* Sets of readers. A row without ANY is a format that some reader of ours takes: ANY asks before the kind of a file is guessed. */
enum {
    ALL = (1 << YK__FOREIGN_READERS) - 1,
    TOKENS = 1 << YK__FOREIGN_TOKENS,
    IDX = 1 << YK__FOREIGN_IDX,
    TEXT = 1 << YK__FOREIGN_TEXT,
    TEXTS = TEXT | 1 << YK__FOREIGN_BYTES,
    TENSORS = 1 << YK__FOREIGN_TENSORS,
    ANY = 1 << YK__FOREIGN_ANY
};

#define LFS_POINTER "version https://git-lfs.github.com/spec/v1"
#define UNPACK "unpack it first"
#define TO_UTF8 "convert the file to UTF-8"
#define TO_TOKENS "tokens:FILE reads it"
#define TO_SAFETENSORS "write its weights as safetensors, its data in a format that docs/data.md lists"
#define TO_TEXT "write its columns as CSV or JSON lines"

#define SIGN(at, bytes, readers, format, remedy) {at, sizeof(bytes) - 1, readers, bytes, NULL, format, remedy}
#define FORM(form, readers, format, remedy) {0, 0, readers, NULL, form, format, remedy}

static const signature signatures[] = {
    SIGN(0, "\x93NUMPY", ALL, "a NumPy array (.npy)", "write token ids by numpy.load(FILE).astype('uint16').tofile(OUT)"),
    SIGN(0, "PAR1", ALL, "a Parquet file", TO_TEXT),
    SIGN(0, "PARE", ALL, "an encrypted Parquet file", TO_TEXT),
    SIGN(0, "ARROW1", ALL, "an Arrow file", TO_TEXT),
    SIGN(0, "FEA1", ALL, "a Feather file", TO_TEXT),
    SIGN(0, "\xff\xff\xff\xff", ALL, "an Arrow stream", TO_TEXT),
    SIGN(0, "Obj\x01", ALL, "an Avro file", TO_TEXT),
    SIGN(0, "ORC", ALL, "an ORC file", TO_TEXT),
    SIGN(0, "RDX2\n", ALL, "a file of R", TO_TEXT),
    SIGN(0, "RDX3\n", ALL, "a file of R", TO_TEXT),
    SIGN(0, "\xd4\xc3\xb2\xa1", ALL, "a capture of a network (pcap)", TO_TEXT),
    SIGN(0, "\x89HDF\r\n\x1a\n", ALL, "an HDF5 file", "write its data set in a format that docs/data.md lists"),
    SIGN(0, "SQLite format 3\0", ALL, "an SQLite database", TO_TEXT),
    SIGN(0, "GGUF", ALL, "a GGUF model", "take the safetensors files of the same model"),
    SIGN(0, "lmgg", ALL, "a GGML model", "take the safetensors files of the same model"),
    SIGN(0, "tjgg", ALL, "a GGML model", "take the safetensors files of the same model"),
    SIGN(0, "PK\x03\x04", ALL, "a zip archive (.zip, .npz, .xlsx, PyTorch's .pt and .bin)", UNPACK),
    SIGN(0, "PK\x05\x06", ALL, "an empty zip archive", UNPACK),
    SIGN(0, "\x28\xb5\x2f\xfd", ALL, "a Zstandard file", UNPACK),
    SIGN(0, "\xfd\x37zXZ\0", ALL, "an xz file", UNPACK),
    SIGN(0, "\x04\x22\x4d\x18", ALL, "an LZ4 file", UNPACK),
    SIGN(0, "\x02\x21\x4c\x18", ALL, "an LZ4 file", UNPACK), /* of the older format */
    SIGN(0, "\x50\x2a\x4d\x18", ALL, "a Zstandard or LZ4 file", UNPACK), /* which begins with a skippable frame */
    SIGN(0, "\x5d\0\0\x80\0", ALL, "an LZMA file", UNPACK),
    SIGN(0, "LZIP\x01", ALL, "an lzip file", UNPACK),
    SIGN(0, "\x89LZO\0\r\n\x1a\n", ALL, "an lzop file", UNPACK),
    SIGN(0, "\xff\x06\0\0sNaPpY", ALL, "a Snappy file", UNPACK),
    SIGN(0, "7z\xbc\xaf\x27\x1c", ALL, "a 7-Zip archive", UNPACK),
    SIGN(0, "Rar!\x1a\x07", ALL, "a RAR archive", UNPACK),
    SIGN(4, "1AY&SY", ALL, "a bzip2 file", UNPACK),
    SIGN(257, "ustar", ALL, "a tar archive", UNPACK),
    FORM(yk__form_tar, ALL, "a tar archive", UNPACK),
    SIGN(0, "!<arch>\n", ALL, "an ar archive", UNPACK),
    SIGN(0, "070701", ALL, "a cpio archive", UNPACK),
    SIGN(0, "070702", ALL, "a cpio archive", UNPACK),
    SIGN(0, "\0\5\x16\7\0\2\0\0", ALL, "a file of attributes from macOS (AppleDouble)", "name the file without ._"),
    SIGN(0, "MSCF\0\0\0\0", ALL, "a cabinet archive", UNPACK),
    FORM(yk__form_compress, ALL, "a file of compress (.Z)", UNPACK),
    SIGN(0, "MMIDIDX\0\0", ALL, "the index of Megatron's token file", "name the .bin file beside it"),
    SIGN(0, "\xba\x16\x4f\x2f", ALL, "a model of fastText", TO_SAFETENSORS),
    SIGN(4, "TFL3", ALL, "a model of TensorFlow Lite", TO_SAFETENSORS),
    SIGN(4, "ORTM", ALL, "a model of ONNX Runtime", TO_SAFETENSORS),
    SIGN(4, "ET12", ALL, "a model of ExecuTorch", TO_SAFETENSORS),
    SIGN(0, "mmap lm http://kheafield.com/code format version", ALL, "a model of KenLM", "name a data file"),
    SIGN(0, "\x0a\x23\xd7\xce", ALL, "a RecordIO file of MXNet", TO_TEXT),
    SIGN(0, "MATLAB 5.0 MAT-file", ALL, "a MATLAB file", TO_TEXT),
    SIGN(0, "MATLAB 7.3 MAT-file", ALL, "a MATLAB file", TO_TEXT),
    SIGN(0, "CDF\x01", ALL, "a netCDF file", TO_TEXT),
    SIGN(0, "CDF\x02", ALL, "a netCDF file", TO_TEXT),
    SIGN(16, "\xde\xc0\xef\xbe\x01\0\0\0", ALL, "an LMDB database", TO_TEXT),
    SIGN(0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", ALL, "a document of Microsoft Office", TO_TEXT),
    SIGN(0, "RIFF", ALL, "a sound or picture (RIFF)", "docs/data.md lists the formats of data"),
    SIGN(0, "GIF8", ALL, "a GIF picture", "docs/data.md lists the formats of pictures"),
    SIGN(0, "\x89PNG\r\n\x1a\n", ALL, "a PNG picture", "docs/data.md lists the formats of pictures"),
    SIGN(0, "\xff\xd8\xff", ALL, "a JPEG picture", "docs/data.md lists the formats of pictures"),
    SIGN(0, "II*\0", ALL, "a TIFF picture", "docs/data.md lists the formats of pictures"),
    SIGN(0, "MM\0*", ALL, "a TIFF picture", "docs/data.md lists the formats of pictures"),
    SIGN(0, "8BPS", ALL, "a Photoshop picture", "docs/data.md lists the formats of pictures"),
    SIGN(128, "DICM", ALL, "a DICOM picture", "docs/data.md lists the formats of pictures"),
    FORM(yk__form_bmp, ALL, "a BMP picture", "docs/data.md lists the formats of pictures"),
    SIGN(0, "ID3", ALL, "a sound (MP3)", "docs/data.md lists the formats of data"),
    SIGN(4, "ftyp", ALL, "a film or picture (MP4, HEIC)", "docs/data.md lists the formats of data"),
    SIGN(0, "\x1a\x45\xdf\xa3", ALL, "a film (Matroska)", "docs/data.md lists the formats of data"),
    SIGN(0, "fLaC", ALL, "a sound (FLAC)", "docs/data.md lists the formats of data"),
    SIGN(0, "OggS", ALL, "a sound or film (Ogg)", "docs/data.md lists the formats of data"),
    SIGN(0, "%PDF-", ALL, "a PDF document", "extract its text"),
    SIGN(0, "\177ELF", ALL, "a program (ELF)", "name a data file"),
    SIGN(0, "\xcf\xfa\xed\xfe", ALL, "a program (Mach-O)", "name a data file"),
    SIGN(0, "\xca\xfe\xba\xbe", ALL, "a program (Java or Mach-O)", "name a data file"),
    SIGN(0, "MZ\x90\0", ALL, "a program of Windows", "name a data file"),
    SIGN(0, "\0asm\x01\0\0\0", ALL, "a program (WebAssembly)", "name a data file"),
    SIGN(0, LFS_POINTER, ALL, "a pointer of Git LFS, not the file itself", "fetch the file by git lfs pull"),
    SIGN(0, "YKTOKENS", ALL & ~TOKENS & ~ANY, "a token file of ours", TO_TOKENS),
    SIGN(0, "\x88\xd8\x34\x01", ALL & ~TOKENS & ~ANY, "a token file of llm.c", TO_TOKENS),
    SIGN(0, "\xa1\xd9\x34\x01", ALL & ~TOKENS & ~ANY, "a token file of llm.c", TO_TOKENS),
    FORM(yk__form_pickle, ALL, "a pickle, as PyTorch writes (.pt, .bin)", TO_SAFETENSORS),
    FORM(yk__form_tfrecord, ALL, "a TFRecord file", TO_TEXT),
    FORM(yk__form_onnx, ALL, "an ONNX model", TO_SAFETENSORS),
    FORM(yk__form_sentencepiece, ALL, "a SentencePiece model", "name the tokenizer.json of the same model"),
    /* all readers but TENSORS unpack a file before they ask, so their gzip is a second one within it */
    FORM(yk__form_gzip, ALL & ~TENSORS, "a gzip file within a gzip file", UNPACK),
    FORM(yk__form_gzip, TENSORS, "a gzip file", UNPACK),
    FORM(yk__form_safetensors, ALL & ~TENSORS & ~ANY, "a safetensors file of weights", "name a data file"),
    FORM(yk__form_idx, ALL & ~IDX & ~ANY, "an IDX file", "idx:DIR reads it"),
    FORM(yk__form_marked_utf32, ALL, "text in UTF-32", TO_UTF8),
    FORM(yk__form_marked_utf16, ALL, "text with a UTF-16 byte order mark", TO_UTF8),
    SIGN(0, "\xff\xfe", TEXTS, "text with a UTF-16 byte order mark", TO_UTF8),
    SIGN(0, "\xfe\xff", TEXTS, "text with a UTF-16 byte order mark", TO_UTF8),
    SIGN(0, "\xef\xbb\xbf\xef\xbb\xbf", TEXT, "text with two byte order marks", "leave one of them, or none"), /* readers drop one */
    FORM(yk__form_bare_utf32, TEXT, "text in UTF-32", TO_UTF8),
    FORM(yk__form_bare_utf16, TEXT, "text in UTF-16", TO_UTF8),
    FORM(yk__form_text, TOKENS | IDX, "text", "text:FILE, csv:FILE or jsonl:FILE reads it"),
    FORM(yk__form_text, TENSORS, "text", "fetch the file itself, not a page about it"),
};

/* True if the signature is printable ASCII only, so that an ordinary text may begin with it. */
static bool is_letters(const signature *sign)
{
    for (int i = 0; i < sign->length; i++)
        if ((unsigned char)sign->bytes[i] < ' ' || (unsigned char)sign->bytes[i] > '~')
            return false;
    return true;
}

/* True if the head holds a control byte that is no white space, as binary headers do and texts do not. */
static bool has_control(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (head[i] < '\t' || (head[i] > '\r' && head[i] < ' '))
            return true;
    return false;
}

/* The sign has bytes, no form. */
static bool is_lfs_pointer(const signature *sign)
{
    return !strcmp(sign->bytes, LFS_POINTER);
}

/* A signature of letters counts only in a file that is no text. The pointer of Git LFS is text itself. */
static bool signature_fits(const signature *sign, const unsigned char *head, size_t n)
{
    if (n < (size_t)sign->at + sign->length || memcmp(head + sign->at, sign->bytes, sign->length) != 0)
        return false;
    return !is_letters(sign) || is_lfs_pointer(sign) || has_control(head, n);
}

bool yk__foreign_words(enum yk__foreign_reader reader, const void *head, size_t n, uint64_t size, char words[YK__FOREIGN_WORDS])
{
    n = n < YK__FOREIGN_HEAD ? n : YK__FOREIGN_HEAD;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        const signature *sign = &signatures[i];
        if (!(sign->readers & 1u << reader) || !(sign->form ? sign->form(head, n, size) : signature_fits(sign, head, n)))
            continue;
        snprintf(words, YK__FOREIGN_WORDS, "this is %s: %s", sign->format, sign->remedy);
        return true;
    }
    return false;
}

yk_status yk__foreign_refuse(const char *path, enum yk__foreign_reader reader, const void *head, size_t n, uint64_t size, yk_error *err)
{
    char words[YK__FOREIGN_WORDS];
    return yk__foreign_words(reader, head, n, size, words) ? yk__fail(err, YK_E_FORMAT, "%s: %s", path, words) : YK_OK;
}
