/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8: decodes, encodes and checks, by the table of RFC 3629 section 4; ASCII, of which most text consists, eight bytes at a time.
 * Readers, tokenizers and checks of names call it. Pure; any thread.
 */
#include "core/io/utf8.h"

#include <string.h>

static int tail_valid(const uint8_t *p, size_t n, int k)
{
    if (n < (size_t)k + 1)
        return 0;
    for (int i = 1; i <= k; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return 1;
}

int32_t yk__utf8_get(const char *s, size_t n, int *len)
{
    const uint8_t *p = (const uint8_t *)s;
    int32_t c;
    *len = 1;
    if (p[0] < 0x80)
        return p[0];
    if (p[0] >= 0xc2 && p[0] <= 0xdf && tail_valid(p, n, 1)) {
        *len = 2;
        return (p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if (p[0] >= 0xe0 && p[0] <= 0xef && tail_valid(p, n, 2)) {
        c = (p[0] & 0x0f) << 12 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f);
        if (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))
            return -1;
        *len = 3;
        return c;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4 && tail_valid(p, n, 3)) {
        c = (p[0] & 0x07) << 18 | (p[1] & 0x3f) << 12 | (p[2] & 0x3f) << 6 | (p[3] & 0x3f);
        if (c < 0x10000 || c > 0x10ffff)
            return -1;
        *len = 4;
        return c;
    }
    return -1;
}

size_t yk__utf8_check(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t w;
        int len;
        while (n - i >= 8) { /* eight ASCII bytes at once */
            memcpy(&w, s + i, 8);
            if (w & 0x8080808080808080ull)
                break;
            i += 8;
        }
        if (i == n)
            break;
        if (yk__utf8_get(s + i, n - i, &len) < 0)
            return i;
        i += (size_t)len;
    }
    return n;
}

int yk__utf8_put(int32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

int yk__utf8_is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
