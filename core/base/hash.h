/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fast 64-bit hash for caches and for comparing parameters between ranks. Not for secrets. The value depends on the
 * bytes alone, so machines that store the same bytes get the same value.
 */
#ifndef YOKE_CORE_BASE_HASH_H
#define YOKE_CORE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define YK_HASH_SEED 0x9e3779b97f4a7c15ull

uint64_t yk__hash_bytes(uint64_t seed, const void *data, size_t bytes);

/* Mixes one word into a running hash (splitmix64 finaliser, Steele et al. 2014). */
static inline uint64_t yk__hash_u64(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
    return h ^ (h >> 31);
}

#endif
