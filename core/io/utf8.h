/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Pure functions. */
#ifndef YOKE_CORE_IO_UTF8_H
#define YOKE_CORE_IO_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The offset of the first byte that does not begin a whole, valid character; n if there is none. */
size_t yk__utf8_check(const char *s, size_t n);

/* The character at s[0..n), n > 0, and its length in *len (at least 1). -1 if it is not valid. */
int32_t yk__utf8_get(const char *s, size_t n, int *len);

/* Writes c as UTF-8 and returns its length, 1 to 4. */
int yk__utf8_put(int32_t c, char out[4]);
int yk__utf8_is_space(int32_t c); /* White_Space of Unicode */

#endif
