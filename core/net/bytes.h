/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in wire format: little-endian on every host. */
#ifndef YOKE_CORE_NET_BYTES_H
#define YOKE_CORE_NET_BYTES_H

#include <stdint.h>

static inline void yk__bytes_put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static inline void yk__bytes_put64(uint8_t *to, uint64_t value)
{
    yk__bytes_put32(to, (uint32_t)value);
    yk__bytes_put32(to + 4, (uint32_t)(value >> 32));
}

static inline uint32_t yk__bytes_get32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t yk__bytes_get64(const uint8_t *from)
{
    return yk__bytes_get32(from) | (uint64_t)yk__bytes_get32(from + 4) << 32;
}

#endif
