/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), by the processor's instruction where it has one. Thread rule: any thread. */
#ifndef YOKE_CORE_BASE_CRC32C_H
#define YOKE_CORE_BASE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The CRC-32C of `data` behind bytes with the CRC `crc`; 0 for none. */
uint32_t yk__crc32c(uint32_t crc, const void *data, size_t bytes);
/* The number of a part of a whole, with `behind` bytes of the whole behind the part. The exclusive or of all parts' numbers, in any order,
 * gives the whole's CRC-32C. */
uint32_t yk__crc32c_part(const void *data, size_t bytes, uint64_t behind);
uint32_t yk__crc32c_whole(uint32_t parts, uint64_t bytes); /* bytes: of the whole */
/* A checksum of three CRCs that are computed side by side, and so three times as fast: of the three thirds, then of the rest. It finds
 * each error within 32 bits of a third. plain: without the instruction, for tests; the result is the same. */
uint32_t yk__crc32c_thirds(bool plain, uint32_t crc, const void *data, size_t bytes);

#endif
