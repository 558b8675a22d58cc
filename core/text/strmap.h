/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from byte strings to numbers from 0 up, for vocabularies. Open addressing; keys are copied. Reading is thread-safe while no thread
 * writes.
 */
#ifndef YOKE_CORE_TEXT_STRMAP_H
#define YOKE_CORE_TEXT_STRMAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct yk__strmap yk__strmap;

yk__strmap *yk__strmap_new(void); /* NULL if memory ran out */
void yk__strmap_free(yk__strmap *map);

/* Adds or replaces; -1 if memory ran out. */
int yk__strmap_put(yk__strmap *map, const char *key, size_t bytes, int32_t value);
int32_t yk__strmap_get(const yk__strmap *map, const char *key, size_t bytes); /* -1 if absent */

/* The hash of a key, byte by byte, for callers that look up many prefixes of one text. */
#define YK__STRMAP_HASH 0xcbf29ce484222325ull
static inline uint64_t yk__strmap_step(uint64_t h, char c)
{
    return (h ^ (unsigned char)c) * 0x100000001b3ull; /* FNV-1a */
}
int32_t yk__strmap_get_hashed(const yk__strmap *map, const char *key, size_t bytes, uint64_t hash);

int yk__strmap_count(const yk__strmap *map);
const char *yk__strmap_key(const yk__strmap *map, int i);                  /* key number i in order of insertion, ending in 0 */
int32_t yk__strmap_value(const yk__strmap *map, int i, size_t *key_bytes); /* its value */

#endif
