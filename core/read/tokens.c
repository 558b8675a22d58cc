/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes token files, ids of 2 or 4 bytes: they are decoded and checked a piece at a time, through a buffer on the stack.
 * shards.c (in the loader's thread), `yoke inspect` and `yoke tokenize` (in the main thread) call it. An id that is not below the
 * vocabulary is an error with its place.
 */
#include "core/read/tokens.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/foreign.h"

#define HEADER 32u
#define LLMC_HEADER 1024u /* 256 words of 4 bytes */
#define PIECE 8192u /* bytes read at once */

static uint32_t u32_get(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static yk_status header_fail(const yk__tokens *tokens, int at, const char *what, uint64_t found, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: byte %d: expected %s, found %" PRIu64, yk__blob_path(tokens->blob), at, what, found);
}

static yk_status header_parse(yk__tokens *tokens, const uint8_t *p, int width, yk_error *err)
{
    const uint64_t bytes = yk__blob_bytes(tokens->blob);
    if (bytes < HEADER)
        return header_fail(tokens, 0, "a token header of 32 bytes", bytes, err);
    if (u32_get(p + 8) != 1)
        return header_fail(tokens, 8, "version 1", u32_get(p + 8), err);
    tokens->width = (int)u32_get(p + 12);
    if ((tokens->width != 2 && tokens->width != 4) || (width && width != tokens->width))
        return header_fail(tokens, 12,
                           width == 4 ? "ids of 4 bytes"
                           : width    ? "ids of 2 bytes"
                                      : "ids of 2 or 4 bytes",
                           u32_get(p + 12), err);
    const uint64_t count = (uint64_t)u32_get(p + 16) | (uint64_t)u32_get(p + 20) << 32;
    if (count != (bytes - HEADER) / (uint64_t)tokens->width)
        return header_fail(tokens, 16, "the number of ids that follow", count, err);
    tokens->vocab = u32_get(p + 24);
    tokens->header = 1;
    tokens->start = HEADER;
    return YK_OK;
}

/*
 * llm.c's token files: 256 words of 4 bytes, of which the first is the format, the second its version and the third the number of ids.
 * GPT-2's ids have 2 bytes, Llama 3's have 4. Its other files (weights, optimizer states, questions) hold no running ids.
 */
static const struct llmc_format {
    uint32_t magic, version;
    int width; /* bytes of an id; 0: no file of running ids */
    const char *name;
} llmc_formats[] = {
    {20240520, 1, 2, "llm.c's token file for GPT-2"}, {20240801, 7, 4, "llm.c's token file for Llama 3"},
    {20240326, 0, 0, "llm.c's model"},                {20240803, 0, 0, "llm.c's model"},
    {20240327, 0, 0, "llm.c's debugging state"},      {20240527, 0, 0, "llm.c's training state"},
    {20240522, 0, 0, "llm.c's multiple-choice questions"},
};

static const struct llmc_format *llmc_find(const uint8_t *head, size_t n)
{
    for (size_t i = 0; n >= 4 && i < sizeof llmc_formats / sizeof llmc_formats[0]; i++)
        if (u32_get(head) == llmc_formats[i].magic)
            return &llmc_formats[i];
    return NULL;
}

bool yk__tokens_signed(const void *head, size_t n)
{
    return (n >= 8 && !memcmp(head, "YKTOKENS", 8)) || llmc_find(head, n);
}

static yk_status llmc_parse(yk__tokens *tokens, const struct llmc_format *format, const uint8_t *head, int width, yk_error *err)
{
    const uint64_t bytes = yk__blob_bytes(tokens->blob);
    if (!format->width)
        return yk__fail(err, YK_E_FORMAT, "%s: this is %s: name a token file of llm.c", yk__blob_path(tokens->blob), format->name);
    if (width && width != format->width)
        return yk__fail(err, YK_E_FORMAT, "%s: this is %s, whose ids have %d bytes: expected ids of %d bytes", yk__blob_path(tokens->blob),
                        format->name, format->width, width);
    if (bytes < LLMC_HEADER)
        return header_fail(tokens, 0, "llm.c's header of 1024 bytes", bytes, err);
    if (u32_get(head + 4) != format->version)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 4: expected version %" PRIu32 " of %s, found %" PRIu32, yk__blob_path(tokens->blob),
                        format->version, format->name, u32_get(head + 4));
    tokens->width = format->width;
    tokens->start = LLMC_HEADER;
    if (u32_get(head + 8) != (bytes - LLMC_HEADER) / (uint64_t)format->width)
        return header_fail(tokens, 8, "the number of ids that follow", u32_get(head + 8), err);
    return YK_OK;
}

static uint32_t id_get(const uint8_t *p, int width)
{
    return width == 2 ? (uint32_t)p[0] | (uint32_t)p[1] << 8 : u32_get(p);
}

#define PAIRS_LEAST 32u /* fewer pairs of ids prove nothing */

/* NumPy's int32 or int64 ids, read with half their width, have a 0 behind each id. Every other word of running text is not 0. */
static yk_status width_check(const yk__tokens *tokens, const uint8_t *head, size_t n, yk_error *err)
{
    const int width = tokens->width;
    const size_t pairs = n / (2 * (size_t)width);
    size_t ids = 0, zeros = 0;
    for (size_t i = 0; i < pairs; i++) {
        ids += id_get(head + 2 * i * (size_t)width, width) != 0;
        zeros += id_get(head + (2 * i + 1) * (size_t)width, width) == 0;
    }
    if (pairs < PAIRS_LEAST || zeros < pairs || ids < pairs / 4)
        return YK_OK;
    return yk__fail(err, YK_E_FORMAT, "%s: every second id is 0 in its first %zu, as where wider ids are read as ids of %d bytes: %s",
                    yk__blob_path(tokens->blob), 2 * pairs, width,
                    width == 2 ? "give dtype=u32, for ids of 4 bytes" : "expected ids of 4 bytes (NumPy: .astype(\"uint32\"))");
}

/* A header of ours or of llm.c's; a file without a header begins with its first id. */
static yk_status head_parse(yk__tokens *tokens, const uint8_t *head, size_t n, int width, yk_error *err)
{
    const struct llmc_format *llmc = llmc_find(head, n);
    tokens->width = width ? width : 2;
    if (n >= 8 && !memcmp(head, "YKTOKENS", 8))
        return header_parse(tokens, head, width, err);
    if (llmc)
        return llmc_parse(tokens, llmc, head, width, err);
    if (yk__foreign_refuse(yk__blob_path(tokens->blob), YK__FOREIGN_TOKENS, head, n, yk__blob_bytes(tokens->blob), err))
        return err->status;
    return width_check(tokens, head, n, err);
}

/* Reads the header if there is one, and compares the length. */
static yk_status blob_parse(yk__tokens *tokens, int width, yk_error *err)
{
    const uint64_t bytes = yk__blob_bytes(tokens->blob);
    uint8_t head[YK__FOREIGN_HEAD] = {0};
    const size_t n = bytes < sizeof head ? (size_t)bytes : sizeof head;
    yk_status s = yk__blob_read(tokens->blob, 0, head, n, err);
    if (!s)
        s = head_parse(tokens, head, n, width, err);
    if (s)
        return s;
    const uint64_t left = bytes - (uint64_t)tokens->start;
    if (!left || left % (uint64_t)tokens->width)
        return yk__fail(err, YK_E_FORMAT, "%s: %" PRIu64 " bytes of ids, expected a multiple of %d", yk__blob_path(tokens->blob),
                        left, tokens->width);
    tokens->count = (int64_t)(left / (uint64_t)tokens->width);
    return YK_OK;
}

/* Adopts the blob. */
static yk_status tokens_begin(yk__blob *blob, int width, yk__tokens *out, yk_error *err)
{
    yk__tokens tokens = {.blob = blob};
    yk_status s = blob_parse(&tokens, width, err);
    if (s)
        yk__blob_close(blob);
    else
        *out = tokens;
    return s;
}

yk_status yk__tokens_read(yk__file *file, int width, yk__tokens *out, yk_error *err)
{
    yk__blob *blob;
    if (yk__blob_of_file(file, &blob, err))
        return err->status;
    return tokens_begin(blob, width, out, err);
}

yk_status yk__tokens_open(const char *path, int width, yk__tokens *out, yk_error *err)
{
    yk__blob *blob;
    if (yk__blob_open(path, &blob, err))
        return err->status;
    return tokens_begin(blob, width, out, err);
}

void yk__tokens_close(yk__tokens *tokens)
{
    yk__blob_close(tokens->blob);
    memset(tokens, 0, sizeof *tokens);
}

/* ---- ids ---- */

/* Decodes n ids, and returns the largest. */
static uint32_t ids_decode(const uint8_t *p, int width, int64_t n, int32_t *ids)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t id = id_get(p + width * i, width);
        ids[i] = (int32_t)id;
        most = id > most ? id : most;
    }
    return most;
}

static yk_status ids_refuse(const yk__tokens *tokens, int64_t first, const int32_t *ids, int64_t bound, yk_error *err)
{
    int64_t i = 0;
    while ((uint32_t)ids[i] < bound)
        i++;
    return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRId64 ": id %" PRIu32 ", expected less than %" PRId64,
                    yk__blob_path(tokens->blob), tokens->start + (first + i) * tokens->width, (uint32_t)ids[i], bound);
}

/* Up to a piece of ids; *largest: of them. */
static yk_status piece_get(const yk__tokens *tokens, int64_t first, int64_t count, int32_t *ids, int64_t *largest, yk_error *err)
{
    const int64_t bound = tokens->vocab && tokens->vocab <= INT32_MAX ? tokens->vocab : (int64_t)INT32_MAX + 1;
    const uint64_t at = (uint64_t)(tokens->start + first * tokens->width);
    uint8_t bytes[PIECE];
    yk_status s = yk__blob_read(tokens->blob, at, bytes, (size_t)(count * tokens->width), err);
    if (s)
        return s;
    *largest = ids_decode(bytes, tokens->width, count, ids);
    return *largest < bound ? YK_OK : ids_refuse(tokens, first, ids, bound, err);
}

yk_status yk__tokens_get(const yk__tokens *tokens, int64_t first, int64_t count, int32_t *ids, yk_error *err)
{
    const int64_t piece = PIECE / tokens->width;
    int64_t largest;
    for (int64_t done = 0; done < count; done += piece) {
        const int64_t n = count - done < piece ? count - done : piece;
        if (piece_get(tokens, first + done, n, ids + done, &largest, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__tokens_check(yk__tokens *tokens, yk_error *err)
{
    const int64_t piece = PIECE / tokens->width;
    int32_t ids[PIECE / 2];
    int64_t most = 0, largest = 0;
    for (int64_t first = 0; first < tokens->count; first += piece) {
        const int64_t n = tokens->count - first < piece ? tokens->count - first : piece;
        if (piece_get(tokens, first, n, ids, &largest, err))
            return err->status;
        most = largest > most ? largest : most;
    }
    if (!tokens->vocab)
        tokens->vocab = most + 1;
    return YK_OK;
}

/* ---- writing ---- */

static void value_put(uint8_t *p, int bytes, uint64_t value)
{
    for (int k = 0; k < bytes; k++)
        p[k] = (uint8_t)(value >> 8 * k);
}

yk_status yk__tokens_pack(const int32_t *ids, int64_t count, int64_t vocab, char **file, size_t *bytes, yk_error *err)
{
    const int width = vocab <= 65536 ? 2 : 4;
    const size_t n = HEADER + (size_t)count * (size_t)width;
    uint8_t *p = yk__calloc(n, 1);
    if (!p)
        return yk__fail_mem(err, n, "a token file");
    memcpy(p, "YKTOKENS", 8);
    value_put(p + 8, 4, 1);
    value_put(p + 12, 4, (uint64_t)width);
    value_put(p + 16, 8, (uint64_t)count);
    value_put(p + 24, 4, (uint64_t)vocab);
    for (int64_t i = 0; i < count; i++)
        value_put(p + HEADER + i * width, width, (uint32_t)ids[i]);
    *file = (char *)p;
    *bytes = n;
    return YK_OK;
}
