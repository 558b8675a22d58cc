/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte swapping, in place, for elements of a file: IDX files are big-endian (core/read/idx.c), safetensors little-endian (core/io). No
 * state; any thread.
 */
#include "core/base/byte_order.h"

#include <stdint.h>

void yk__bytes_swap(void *p, size_t n, size_t width)
{
    uint8_t *byte = p;
    for (size_t i = 0; width > 1 && i + width <= n; i += width)
        for (size_t k = 0; k < width / 2; k++) {
            const uint8_t x = byte[i + k];
            byte[i + k] = byte[i + width - 1 - k];
            byte[i + width - 1 - k] = x;
        }
}
