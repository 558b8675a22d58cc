/* SPDX-License-Identifier: Apache-2.0 */
/* Elements whose bytes a file has in another order than this machine. */
#ifndef YOKE_CORE_BASE_BYTE_ORDER_H
#define YOKE_CORE_BASE_BYTE_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/* A constant and no macro of the preprocessor's: what the other kind of machine needs is compiled on this one, too. */
#define YK__LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* Turns the bytes of each whole element of `width` bytes among the n bytes at p round. */
void yk__bytes_swap(void *p, size_t n, size_t width);

#endif
