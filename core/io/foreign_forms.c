/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests for file formats without a fixed signature (pickle, TFRecord, ONNX), from their published descriptions. foreign.c asks them about
 * the first bytes of a file that no reader takes, so that the error can name the format. A size of 0 is unknown. Pure; any thread.
 */
#include "core/io/foreign_forms.h"

#include <string.h>

static uint64_t little_get(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static uint32_t big_get(const unsigned char *p, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

/* ---- pickles ---- */

/* The bytes of an opcode's argument: 0, 1, 2, 4, 8 or one of these; -1 if there is no such opcode (pickletools of Python lists them). */
enum { OP_LINE = 16, OP_LINES = 17, OP_COUNT_1 = 18, OP_COUNT_4 = 19, OP_COUNT_8 = 20 };

static int opcode_argument(int op)
{
    static const struct {
        int argument;
        const char *ops;
    } kinds[] = {{0, "(.012NQRabde}l]ot)su\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98"},
                 {1, "Khq\x80\x82"},
                 {2, "M\x83"},
                 {4, "Jjr\x84"},
                 {8, "G\x95"},
                 {OP_LINE, "FILPSVgp"},
                 {OP_LINES, "ci"},
                 {OP_COUNT_1, "UC\x8a\x8c"},
                 {OP_COUNT_4, "TXB\x8b"},
                 {OP_COUNT_8, "\x8d\x8e\x96"}};
    for (size_t i = 0; op && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strchr(kinds[i].ops, op))
            return kinds[i].argument;
    return -1;
}

/* The place behind the argument at head[at], n or more if the argument passes the head's end. */
static uint64_t argument_end(const unsigned char *head, size_t n, size_t at, int argument)
{
    const int count_bytes = argument == OP_COUNT_1 ? 1 : argument == OP_COUNT_4 ? 4 : argument == OP_COUNT_8 ? 8 : 0;
    if (argument == OP_LINE || argument == OP_LINES) {
        for (int lines = argument - OP_LINE + 1; lines && at < n; at++)
            lines -= head[at] == '\n';
        return at;
    }
    if (!count_bytes)
        return at + (size_t)argument;
    if (at + (size_t)count_bytes > n)
        return n;
    const uint64_t count = little_get(head + at, count_bytes);
    return count > n ? n : at + (size_t)count_bytes + count;
}

/* True if text or bytes beyond the head leave at most 64 bytes of the file to opcodes: one chance in 2^26 of four bytes of ids. */
static bool is_one_value(const unsigned char *head, size_t n, size_t at, int argument, uint64_t size)
{
    const int bytes = argument == OP_COUNT_4 ? 4 : argument == OP_COUNT_8 ? 8 : 0;
    if (!bytes || at + (size_t)bytes > n)
        return false;
    const uint64_t begin = at + (uint64_t)bytes, count = little_get(head + at, bytes);
    return begin < size && count < size - begin && size - begin - count <= 64;
}

/*
 * Opcodes follow each other from byte 2 to a pickle's end, or to the head's. A quarter of all bytes are opcodes, so that four in a row
 * behind the two bytes of a protocol begin one file of ids in 10^6 or 10^7; the length of a frame within the file is rarer by far.
 */
bool yk__form_pickle(const unsigned char *head, size_t n, uint64_t size)
{
    uint64_t at = 2;
    int ops = 0;
    if (n < 4 || head[0] != 0x80 || head[1] < 2 || head[1] > 5)
        return false;
    for (; at < n; ops++) {
        const int op = head[at], argument = opcode_argument(op);
        if (argument < 0)
            return false;
        if (op == '.')
            return at + 1 == n || head[at + 1] == 0x80; /* PyTorch writes several pickles behind each other */
        if (op == 0x95) /* a frame */
            return at + 9 <= n && little_get(head + at + 1, 8) <= (size ? size : UINT32_MAX);
        if (is_one_value(head, n, (size_t)at + 1, argument, size))
            return true;
        at = argument_end(head, n, (size_t)at + 1, argument);
    }
    return ops >= 4;
}

/* ---- checksums, protocol buffers, tensors ---- */

/* A record of TensorFlow: its length in 8 bytes, then the length's CRC-32C, rotated by 15 bits plus a constant. One head in 2^32 fits. */
bool yk__form_tfrecord(const unsigned char *head, size_t n, uint64_t size)
{
    uint32_t crc = UINT32_MAX;
    if (n < 12 || (size && little_get(head, 8) > size))
        return false;
    for (int i = 0; i < 64; i++) {
        const uint32_t bit = (crc ^ (uint32_t)(head[i / 8] >> i % 8)) & 1;
        crc = crc >> 1 ^ (bit ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u == little_get(head + 8, 4);
}

/* The value of the varint at *at, which moves behind it; UINT64_MAX beyond the head or 5 bytes. */
static uint64_t varint_get(const unsigned char *head, size_t n, size_t *at)
{
    uint64_t v = 0;
    for (int i = 0; i < 5 && *at < n; i++) {
        const unsigned char c = head[(*at)++];
        v |= (uint64_t)(c & 0x7f) << 7 * i;
        if (c < 0x80)
            return v;
    }
    return UINT64_MAX;
}

static bool is_printed(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < ' ' || p[i] == 0x7f)
            return false;
    return true;
}

/*
 * ONNX: a version up to 63, the producer's names and notes (printed characters), then the graph (field 7) and in it a node or the graph's
 * name, in the order of their numbers. The first bytes and the graph's four fit one file of ids in 10^9; text has no byte 8.
 */
bool yk__form_onnx(const unsigned char *head, size_t n, uint64_t size)
{
    size_t at = 2;
    if (n < 6 || head[0] != 0x08 || !head[1] || head[1] > 63)
        return false;
    for (int last = 1; at < n;) {
        const int tag = head[at++], field = tag >> 3;
        const uint64_t v = varint_get(head, n, &at);
        if (field <= last || v == UINT64_MAX)
            return false;
        if (tag == 0x3a)
            return (!size || v <= size - at) && at < n && (head[at] == 0x0a || head[at] == 0x12);
        if ((tag & 7) == 2 && field <= 6 && v <= n - at && is_printed(head + at, (size_t)v))
            at += (size_t)v;
        else if (tag != 0x28)
            return false;
        last = field;
    }
    return false;
}

/* SentencePiece: two lengths that agree round a first piece, its score (4 bytes behind 0x15) and its kind. Text has no byte 0x15. */
bool yk__form_sentencepiece(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    if (n < 16 || head[0] != 0x0a || head[2] != 0x0a || !head[3] || head[3] > 100)
        return false;
    const size_t piece = head[3], score = 4 + piece;
    if (n < score + 8 || head[score] != 0x15 || !is_printed(head + 4, piece))
        return false;
    return (head[1] == piece + 7 && head[score + 5] == 0x0a) || (head[1] == piece + 9 && head[score + 5] == 0x18);
}

/* IDX: its sizes give the file's size to the byte. A file of ids that begins with its magic does so by one chance in 2^16 at most. */
bool yk__form_idx(const unsigned char *head, size_t n, uint64_t size)
{
    static const uint8_t widths[] = {1, 1, 0, 2, 4, 4, 8}; /* of the types 8 to 14 */
    if (n < 8 || head[0] || head[1] || head[2] < 8 || head[2] > 14 || !head[3] || head[3] > 8 || n < 4 + 4 * (size_t)head[3])
        return false;
    uint64_t bytes = widths[head[2] - 8];
    for (int i = 0; i < head[3]; i++) {
        const uint64_t d = big_get(head + 4 + 4 * i, 4);
        if (!bytes || bytes > size / (d ? d : 1))
            return false;
        bytes *= d;
    }
    return bytes && size == 4 + 4 * (uint64_t)head[3] + bytes;
}

/* The length of a JSON object below 2^32 in 8 bytes, and the beginning of that object: six fixed bytes. */
bool yk__form_safetensors(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return n >= 10 && !memcmp(head + 4, "\0\0\0\0{", 5) && (head[9] == '"' || head[9] == '}');
}

/* A frame of gzip that yk__file did not unpack, as it lies within another one. */
bool yk__form_gzip(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return n >= 10 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8 && !(head[3] & 0xe0);
}

/* The header of tar's first version, which has zeros behind byte 256: byte 148 has the sum of the header's bytes in octal digits, in which
 * its own eight count as blanks. Some six digits fit by chance. */
bool yk__form_tar(const unsigned char *head, size_t n, uint64_t size)
{
    enum { SUM = 148, SUM_BYTES = 8, END = 257 };
    uint32_t sum = 0, said = 0, digits = 0;
    (void)size;
    if (n < END || !head[0])
        return false;
    for (size_t i = 0; i < END; i++)
        sum += i >= SUM && i < SUM + SUM_BYTES ? ' ' : head[i];
    for (size_t i = SUM; i < SUM + SUM_BYTES && head[i] && (head[i] != ' ' || !digits); i++)
        if (head[i] >= '0' && head[i] < '8')
            said = 8 * said + head[i] - '0', digits++;
        else if (head[i] != ' ')
            return false;
    return digits >= 4 && said == sum;
}

/* compress writes codes of 16 bits at most, and first a letter of the text, or of the name that begins an archive: 25 bits. */
bool yk__form_compress(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return n >= 4 && head[0] == 0x1f && head[1] == 0x9d && head[2] == 0x90 && head[3] >= ' ' && head[3] <= '~';
}

/* "BM", the file's size, and zeros: 80 bits. */
bool yk__form_bmp(const unsigned char *head, size_t n, uint64_t size)
{
    return n >= 10 && head[0] == 'B' && head[1] == 'M' && (head[2] | head[3] << 8 | head[4] << 16 | (uint64_t)head[5] << 24) == size &&
           !head[6] && !head[7] && !head[8] && !head[9];
}

/* ---- text of two and four bytes a character, and text itself ---- */

static bool is_control(uint32_t c)
{
    return c < '\t' || (c > '\r' && c < ' ') || (c >= 0x7f && c < 0xa0);
}

/* The number of units of `width` bytes below 0x180 (Latin letters); -1 if a unit is no character. *blanks: of blanks and full stops. */
static int units_read(const unsigned char *head, size_t n, int width, bool is_big, size_t *blanks)
{
    int plain = 0;
    *blanks = 0;
    for (size_t at = 0; at + (size_t)width <= n; at += (size_t)width) {
        const uint32_t c = is_big ? big_get(head + at, width) : (uint32_t)little_get(head + at, width);
        if (is_control(c) || c > 0x10ffff || (width == 4 && c >= 0xd800 && c < 0xe000) || (c & 0xfffe) == 0xfffe)
            return -1;
        plain += c < 0x180;
        *blanks += c == ' ' || c == '\n' || c == 0x3000 || c == 0x3002 || c == 0xff0c;
    }
    return plain;
}

/*
 * A mark, then characters: all of Latin, or among them a blank or a full stop. Ids begin with the mark's 65279 in one file of 10^5 at most;
 * all that follow are characters, and one of them a blank, in a hundredth of these. A vocabulary below 65280 never begins so.
 */
static bool marked_fits(const unsigned char *head, size_t n, int width, uint32_t mark)
{
    size_t blanks;
    if (n < 2 * (size_t)width)
        return false;
    const bool is_big = big_get(head, width) == mark;
    if (!is_big && little_get(head, width) != mark)
        return false;
    const int plain = units_read(head + width, n - (size_t)width, width, is_big, &blanks);
    return plain >= 0 && (blanks || (size_t)plain == n / (size_t)width - 1);
}

bool yk__form_marked_utf16(const unsigned char *head, size_t n, uint64_t size)
{
    return size % 2 == 0 && marked_fits(head, n, 2, 0xfeff);
}

bool yk__form_marked_utf32(const unsigned char *head, size_t n, uint64_t size)
{
    return size % 4 == 0 && marked_fits(head, n, 4, 0xfeff);
}

/* Latin characters alone, each with its zeros: UTF-8 without characters of zero, which no text holds, never looks so. */
static bool bare_fits(const unsigned char *head, size_t n, int width)
{
    size_t blanks;
    for (int is_big = 0; is_big < 2 && n >= (size_t)width; is_big++)
        if (units_read(head, n, width, is_big, &blanks) == (int)(n / (size_t)width))
            return true;
    return false;
}

bool yk__form_bare_utf16(const unsigned char *head, size_t n, uint64_t size)
{
    return size % 2 == 0 && bare_fits(head, n, 2);
}

bool yk__form_bare_utf32(const unsigned char *head, size_t n, uint64_t size)
{
    return size % 4 == 0 && bare_fits(head, n, 4);
}

/* The bytes of the UTF-8 character at p[0..n), or 0; a character that the end cuts has n bytes. */
static size_t character_bytes(const unsigned char *p, size_t n)
{
    const size_t bytes = p[0] < 0x80 ? !is_control(p[0]) : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < bytes && i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return bytes < n ? bytes : n;
}

/* UTF-8 without control characters from the first byte to the head's end, 16 bytes at least: an id of two bytes is two such characters in
 * one case of six, so that eight ids in a row are so in one file of 10^6, and 132 ids never. */
bool yk__form_text(const unsigned char *head, size_t n, uint64_t size)
{
    size_t at = 0, bytes = 1;
    (void)size;
    for (; at < n && bytes; at += bytes)
        bytes = character_bytes(head + at, n - at);
    return n >= 16 && bytes;
}
