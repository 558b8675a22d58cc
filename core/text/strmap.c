/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from strings to numbers, for vocabularies and label names: open-addressed with linear probing, at most half full; the keys
 * form one contiguous block. core/text and core/read/rows.c fill it when a file is opened; look-ups change nothing, so any thread may ask.
 */
#include "core/text/strmap.h"

#include <string.h>

#include "core/base/mem.h"

struct entry {
    uint64_t hash;
    size_t at, bytes; /* offset and length in keys */
    int32_t value;
};

struct yk__strmap {
    char *keys;
    size_t keys_len, keys_cap;
    struct entry *entry;
    size_t count, cap;
    uint32_t *slot; /* entry + 1, 0 if empty */
    size_t n_slots; /* a power of two, at least twice count */
};

yk__strmap *yk__strmap_new(void)
{
    yk__strmap *map = yk__calloc(1, sizeof *map);
    if (!map)
        return NULL;
    map->n_slots = 64;
    map->slot = yk__calloc(map->n_slots, sizeof *map->slot);
    if (!map->slot) {
        yk__free(map);
        return NULL;
    }
    return map;
}

void yk__strmap_free(yk__strmap *map)
{
    if (!map)
        return;
    yk__free(map->keys);
    yk__free(map->entry);
    yk__free(map->slot);
    yk__free(map);
}

/* Keys are short: a loop without calls is the fastest. The last mix spreads the high bits. */
static uint64_t key_hash(const char *key, size_t n)
{
    uint64_t h = YK__STRMAP_HASH;
    for (size_t i = 0; i < n; i++)
        h = yk__strmap_step(h, key[i]);
    return h ^ h >> 29;
}

/* The slot of the key, or the empty one for it. */
static size_t slot_find(const yk__strmap *map, const char *key, size_t n, uint64_t h)
{
    size_t i = (size_t)h & (map->n_slots - 1);
    for (; map->slot[i]; i = (i + 1) & (map->n_slots - 1)) {
        const struct entry *e = &map->entry[map->slot[i] - 1];
        if (e->hash == h && e->bytes == n && !memcmp(map->keys + e->at, key, n))
            break;
    }
    return i;
}

static int slots_double(yk__strmap *map)
{
    size_t n = map->n_slots * 2;
    uint32_t *slot = yk__calloc(n, sizeof *slot);
    if (!slot)
        return -1;
    for (size_t k = 0; k < map->count; k++) {
        size_t i = (size_t)map->entry[k].hash & (n - 1);
        while (slot[i])
            i = (i + 1) & (n - 1);
        slot[i] = (uint32_t)k + 1;
    }
    yk__free(map->slot);
    map->slot = slot;
    map->n_slots = n;
    return 0;
}

int yk__strmap_put(yk__strmap *map, const char *key, size_t bytes, int32_t value)
{
    uint64_t h = key_hash(key, bytes);
    size_t i = slot_find(map, key, bytes, h);
    if (map->slot[i]) {
        map->entry[map->slot[i] - 1].value = value;
        return 0;
    }
    if (map->count >= INT32_MAX || yk__grow(&map->entry, &map->cap, map->count + 1, sizeof *map->entry) ||
        yk__grow(&map->keys, &map->keys_cap, map->keys_len + bytes + 1, 1))
        return -1;
    if ((map->count + 1) * 2 > map->n_slots) {
        if (slots_double(map))
            return -1;
        i = slot_find(map, key, bytes, h);
    }
    memcpy(map->keys + map->keys_len, key, bytes);
    map->keys[map->keys_len + bytes] = 0;
    map->entry[map->count] = (struct entry){h, map->keys_len, bytes, value};
    map->keys_len += bytes + 1;
    map->slot[i] = (uint32_t)++map->count;
    return 0;
}

int32_t yk__strmap_get_hashed(const yk__strmap *map, const char *key, size_t bytes, uint64_t h)
{
    size_t i = slot_find(map, key, bytes, h ^ h >> 29);
    return map->slot[i] ? map->entry[map->slot[i] - 1].value : -1;
}

int32_t yk__strmap_get(const yk__strmap *map, const char *key, size_t bytes)
{
    size_t i = slot_find(map, key, bytes, key_hash(key, bytes));
    return map->slot[i] ? map->entry[map->slot[i] - 1].value : -1;
}

int yk__strmap_count(const yk__strmap *map)
{
    return (int)map->count;
}

const char *yk__strmap_key(const yk__strmap *map, int i)
{
    return map->keys + map->entry[i].at;
}

int32_t yk__strmap_value(const yk__strmap *map, int i, size_t *key_bytes)
{
    if (key_bytes)
        *key_bytes = map->entry[i].bytes;
    return map->entry[i].value;
}
