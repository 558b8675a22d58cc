/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C, a checksum of bytes: by the processor's instruction, or by a table on processors without it and in tests, with the same
 * results.
 *
 * core/coll/messages/sealed.c seals messages with it, in the step or the progress thread, and checkpoints have the CRCs of their files. The
 * fast form runs three lanes over thirds of a long block, as the instruction has a latency of three, and joins their sums. No state; any
 * thread.
 */
#include "core/base/crc32c.h"

#include <stdbool.h>
#include <string.h>

/* The instruction: SSE 4.2 or ARMv8's, where the processor has it. */
#if defined __x86_64__
#include <nmmintrin.h>
#define TARGET __attribute__((target("sse4.2")))
#define CRC_WORD(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
#define CRC_BYTE(crc, byte) _mm_crc32_u8(crc, byte)
#define HAS_INSTRUCTION __builtin_cpu_supports("sse4.2")
#elif defined __ARM_FEATURE_CRC32 || (defined __aarch64__ && defined __linux__ && !defined __clang__)
#include <arm_acle.h>
#define CRC_WORD(crc, word) __crc32cd(crc, word)
#define CRC_BYTE(crc, byte) __crc32cb(crc, byte)
#ifdef __ARM_FEATURE_CRC32
#define TARGET
#define HAS_INSTRUCTION true
#else
#include <sys/auxv.h>
#define TARGET __attribute__((target("+crc")))
#define HAS_INSTRUCTION (getauxval(AT_HWCAP) & HWCAP_CRC32)
#endif
#endif

enum { LANES = 3 }; /* the instruction takes three cycles, and one begins in each cycle */

/* By halves of a byte; the polynomial is 0x82f63b78, lowest bit first. */
static uint32_t bytes_plain(uint32_t crc, const uint8_t *data, size_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u, 0x61c69362u, 0x7198540du,
        0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u, 0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u};
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

/* Advances each lane over its part of the data; the parts have `part` bytes, a multiple of 8. */
static void lanes_plain(uint32_t crc[LANES], const uint8_t *data, size_t part)
{
    for (size_t lane = 0; lane < LANES; lane++)
        crc[lane] = bytes_plain(crc[lane], data + lane * part, part);
}

#ifdef HAS_INSTRUCTION
static uint64_t word_at(const uint8_t *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

TARGET static void lanes_fast(uint32_t crc[LANES], const uint8_t *data, size_t part)
{
    uint32_t a = crc[0], b = crc[1], c = crc[2];
    for (size_t i = 0; i < part; i += 8) {
        a = CRC_WORD(a, word_at(data + i));
        b = CRC_WORD(b, word_at(data + part + i));
        c = CRC_WORD(c, word_at(data + 2 * part + i));
    }
    crc[0] = a;
    crc[1] = b;
    crc[2] = c;
}

TARGET static uint32_t bytes_fast(uint32_t crc, const uint8_t *data, size_t bytes)
{
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8)
        crc = CRC_WORD(crc, word_at(data + i));
    for (; i < bytes; i++)
        crc = CRC_BYTE(crc, data[i]);
    return crc;
}
#endif

static uint32_t bytes_any(bool plain, uint32_t crc, const void *data, size_t bytes)
{
#ifdef HAS_INSTRUCTION
    if (!plain && HAS_INSTRUCTION)
        return bytes_fast(crc, data, bytes);
#endif
    (void)plain;
    return bytes_plain(crc, data, bytes);
}

static void lanes_any(bool plain, uint32_t crc[LANES], const void *data, size_t part)
{
#ifdef HAS_INSTRUCTION
    if (!plain && HAS_INSTRUCTION) {
        lanes_fast(crc, data, part);
        return;
    }
#endif
    (void)plain;
    lanes_plain(crc, data, part);
}

uint32_t yk__crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return ~bytes_any(false, ~crc, data, bytes);
}

uint32_t yk__crc32c_thirds(bool plain, uint32_t crc, const void *data, size_t bytes)
{
    uint32_t lane[LANES] = {~crc, UINT32_MAX, UINT32_MAX};
    const size_t part = bytes / (LANES * 8) * 8, done = part * LANES;
    lanes_any(plain, lane, data, part);
    crc = bytes_any(plain, UINT32_MAX, lane, sizeof lane);
    return ~bytes_any(plain, crc, (const uint8_t *)data + done, bytes - done);
}

/* ---- A whole in parts: the CRC of zeros before and behind a part is a shift of the part's own ---- */

#define POLYNOMIAL 0x82f63b78u

/* The product of two polynomials of bits; the highest bit of a number is the coefficient of x^0. */
static uint32_t bits_product(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        sum ^= a & bit ? b : 0;
        b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
    }
    return sum;
}

/* crc times x^(8 bytes). */
static uint32_t crc_shift(uint32_t crc, uint64_t bytes)
{
    for (uint32_t power = 1u << 23; bytes; bytes >>= 1, power = bits_product(power, power))
        crc = bytes & 1 ? bits_product(power, crc) : crc;
    return crc;
}

uint32_t yk__crc32c_part(const void *data, size_t bytes, uint64_t behind)
{
    return crc_shift(bytes_any(false, 0, data, bytes), behind);
}

uint32_t yk__crc32c_whole(uint32_t parts, uint64_t bytes)
{
    return ~(parts ^ crc_shift(UINT32_MAX, bytes));
}
