/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashing of long byte strings to 64 bits: four lanes, because a single lane would wait for its own multiplications. Ranks compare steps,
 * parameters and data by it, checkpoints check files, and ranks' meeting places take their names from it. Not for secrets
 * (core/net/auth.c). Equal bytes give equal hashes on all machines; any thread.
 */
#include "core/base/hash.h"

#include <string.h>

#include "core/base/byte_order.h"

/* Four independent lanes, so that hashing runs at memory speed; each word is mixed by multiply and rotate. */
static uint64_t lane_mix(uint64_t h, uint64_t w)
{
    h ^= w * 0x9fb21c651e98df25ull;
    h = (h << 31) | (h >> 33);
    return h * 0xa24baed4963ee407ull;
}

static uint64_t word_load(const unsigned char *p, size_t n)
{
    uint64_t w = 0;
    for (size_t i = 0; i < n; i++)
        w |= (uint64_t)p[i] << (8 * i);
    return w;
}

static uint64_t word_load8(const unsigned char *p)
{
    uint64_t w;
    if (!YK__LITTLE_ENDIAN)
        return word_load(p, 8);
    memcpy(&w, p, 8);
    return w;
}

uint64_t yk__hash_bytes(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t lane[4] = {seed, seed ^ 0x1, seed ^ 0x2, seed ^ 0x3}, h = seed;
    size_t left = bytes;
    for (; left >= 32; left -= 32, p += 32)
        for (int i = 0; i < 4; i++)
            lane[i] = lane_mix(lane[i], word_load8(p + 8 * i));
    for (int i = 0; i < 4; i++)
        h = yk__hash_u64(h, lane[i]);
    for (; left >= 8; left -= 8, p += 8)
        h = yk__hash_u64(h, word_load8(p));
    h = yk__hash_u64(h, word_load(p, left));
    return yk__hash_u64(h, (uint64_t)bytes);
}
