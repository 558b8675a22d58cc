/* SPDX-License-Identifier: Apache-2.0 */
/* Reading token files: the ids stay as they are in the file, two or four bytes each; all are checked once. */
#include "core/read/tokens.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"

#define HEADER 32u
#define LIMIT ((uint64_t)1 << 40)

static uint32_t u32_get(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static yk_status header_fail(const yk__file *file, int at, const char *what, uint64_t found, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: byte %d: expected %s, found %" PRIu64, yk__file_path(file), at, what, found);
}

/* Reads the header where there is one; *from is where the ids begin. */
static yk_status read_header(const yk__file *file, const uint8_t *p, size_t n, int width, yk__tokens *tokens,
                             size_t *from, yk_error *err)
{
    uint64_t count;
    *from = 0;
    tokens->width = width ? width : 2;
    if (n < 8 || memcmp(p, "YKTOKENS", 8))
        return YK_OK;
    if (n < HEADER)
        return header_fail(file, 0, "a token header of 32 bytes", n, err);
    if (u32_get(p + 8) != 1)
        return header_fail(file, 8, "version 1", u32_get(p + 8), err);
    tokens->width = (int)u32_get(p + 12);
    if ((tokens->width != 2 && tokens->width != 4) || (width && width != tokens->width))
        return header_fail(file, 12,
                           width == 4 ? "ids of 4 bytes"
                           : width    ? "ids of 2 bytes"
                                      : "ids of 2 or 4 bytes",
                           u32_get(p + 12), err);
    count = (uint64_t)u32_get(p + 16) | (uint64_t)u32_get(p + 20) << 32;
    if (count != (n - HEADER) / (size_t)tokens->width)
        return header_fail(file, 16, "the number of ids that follow", count, err);
    tokens->vocab = u32_get(p + 24);
    tokens->header = 1;
    *from = HEADER;
    return YK_OK;
}

static void to_host(uint8_t *p, int64_t count, int width)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int64_t i = 0; i < count; i++, p += width)
        for (int k = 0; k < width / 2; k++) {
            uint8_t x = p[k];
            p[k] = p[width - 1 - k];
            p[width - 1 - k] = x;
        }
#else
    (void)p, (void)count, (void)width;
#endif
}

static yk_status check_ids(const yk__file *file, yk__tokens *tokens, size_t from, yk_error *err)
{
    int64_t most = -1;
    for (int64_t i = 0; i < tokens->count; i++) {
        int64_t v = (uint32_t)yk__tokens_at(tokens, i);
        if (v > INT32_MAX || (tokens->vocab && v >= tokens->vocab))
            return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRId64 ": id %" PRId64 ", expected less than %" PRId64,
                            yk__file_path(file), (int64_t)from + i * tokens->width, v,
                            tokens->vocab ? tokens->vocab : (int64_t)INT32_MAX + 1);
        if (v > most)
            most = v;
    }
    if (!tokens->vocab)
        tokens->vocab = most + 1;
    return YK_OK;
}

static yk_status tokens_parse(const yk__file *file, uint8_t *p, size_t n, int width, yk__tokens *tokens, yk_error *err)
{
    size_t from = 0;
    yk_status s = read_header(file, p, n, width, tokens, &from, err);
    if (s)
        return s;
    if (n == from || (n - from) % (size_t)tokens->width)
        return yk__fail(err, YK_E_FORMAT, "%s: %zu bytes of ids, expected a multiple of %d", yk__file_path(file),
                        n - from, tokens->width);
    tokens->memory = p;
    tokens->ids = p + from;
    tokens->count = (int64_t)((n - from) / (size_t)tokens->width);
    to_host(p + from, tokens->count, tokens->width);
    return check_ids(file, tokens, from, err);
}

yk_status yk__tokens_read(yk__file *file, int width, yk__tokens *out, yk_error *err)
{
    yk__tokens tokens = {0};
    char *p;
    size_t n;
    yk_status s = yk__file_read_rest(file, LIMIT, &p, &n, err);
    if (s)
        return s;
    s = tokens_parse(file, (uint8_t *)p, n, width, &tokens, err);
    if (s)
        yk__free(p);
    else
        *out = tokens;
    return s;
}

yk_status yk__tokens_open(const char *path, int width, yk__tokens *out, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    s = yk__tokens_read(file, width, out, err);
    yk__file_close(file);
    return s;
}

void yk__tokens_close(yk__tokens *tokens)
{
    yk__free(tokens->memory);
    memset(tokens, 0, sizeof *tokens);
}
