/* SPDX-License-Identifier: Apache-2.0 */
/* Byte swapping, for files in the other byte order than this machine. */
#ifndef YOKE_CORE_BASE_BYTE_ORDER_H
#define YOKE_CORE_BASE_BYTE_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/* A constant instead of a preprocessor condition, so that both branches are compiled on every machine. */
#define YK__LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* Swaps the bytes of each element of `width` bytes in the n bytes at p; a partial element at the end stays. */
void yk__bytes_swap(void *p, size_t n, size_t width);

#endif
