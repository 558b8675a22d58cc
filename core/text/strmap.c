/* SPDX-License-Identifier: Apache-2.0 */
/* An open-addressed hash map with linear probing, at most half full; keys lie one behind the other in one block. */
#include "core/text/strmap.h"

#include <string.h>

#include "core/base/mem.h"

struct entry {
    uint64_t hash;
    size_t at, bytes; /* in keys */
    int32_t value;
};

struct yk__strmap {
    char *keys;
    size_t keys_len, keys_cap;
    struct entry *entry;
    size_t count, cap;
    uint32_t *slot; /* entry + 1, 0 empty */
    size_t n_slots; /* a power of two, at least twice count */
};

yk__strmap *yk__strmap_new(void)
{
    yk__strmap *m = yk__calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->n_slots = 64;
    m->slot = yk__calloc(m->n_slots, sizeof *m->slot);
    if (!m->slot) {
        yk__free(m);
        return NULL;
    }
    return m;
}

void yk__strmap_free(yk__strmap *m)
{
    if (!m)
        return;
    yk__free(m->keys);
    yk__free(m->entry);
    yk__free(m->slot);
    yk__free(m);
}

/* Keys are short: a loop without calls is the fastest. The last mix spreads the high bits. */
static uint64_t key_hash(const char *key, size_t n)
{
    uint64_t h = YK__STRMAP_HASH;
    for (size_t i = 0; i < n; i++)
        h = yk__strmap_step(h, key[i]);
    return h ^ h >> 29;
}

/* The slot of the key, or the empty one where it belongs. */
static size_t slot_find(const yk__strmap *m, const char *key, size_t n, uint64_t h)
{
    size_t i = (size_t)h & (m->n_slots - 1);
    for (; m->slot[i]; i = (i + 1) & (m->n_slots - 1)) {
        const struct entry *e = &m->entry[m->slot[i] - 1];
        if (e->hash == h && e->bytes == n && !memcmp(m->keys + e->at, key, n))
            break;
    }
    return i;
}

static int slots_double(yk__strmap *m)
{
    size_t n = m->n_slots * 2;
    uint32_t *slot = yk__calloc(n, sizeof *slot);
    if (!slot)
        return -1;
    for (size_t k = 0; k < m->count; k++) {
        size_t i = (size_t)m->entry[k].hash & (n - 1);
        while (slot[i])
            i = (i + 1) & (n - 1);
        slot[i] = (uint32_t)k + 1;
    }
    yk__free(m->slot);
    m->slot = slot;
    m->n_slots = n;
    return 0;
}

int yk__strmap_put(yk__strmap *m, const char *key, size_t bytes, int32_t value)
{
    uint64_t h = key_hash(key, bytes);
    size_t i = slot_find(m, key, bytes, h);
    if (m->slot[i]) {
        m->entry[m->slot[i] - 1].value = value;
        return 0;
    }
    if (m->count >= INT32_MAX || yk__grow(&m->entry, &m->cap, m->count + 1, sizeof *m->entry) ||
        yk__grow(&m->keys, &m->keys_cap, m->keys_len + bytes + 1, 1))
        return -1;
    if ((m->count + 1) * 2 > m->n_slots) {
        if (slots_double(m))
            return -1;
        i = slot_find(m, key, bytes, h);
    }
    memcpy(m->keys + m->keys_len, key, bytes);
    m->keys[m->keys_len + bytes] = 0;
    m->entry[m->count] = (struct entry){h, m->keys_len, bytes, value};
    m->keys_len += bytes + 1;
    m->slot[i] = (uint32_t)++m->count;
    return 0;
}

int32_t yk__strmap_get_hashed(const yk__strmap *m, const char *key, size_t bytes, uint64_t h)
{
    size_t i = slot_find(m, key, bytes, h ^ h >> 29);
    return m->slot[i] ? m->entry[m->slot[i] - 1].value : -1;
}

int32_t yk__strmap_get(const yk__strmap *m, const char *key, size_t bytes)
{
    size_t i = slot_find(m, key, bytes, key_hash(key, bytes));
    return m->slot[i] ? m->entry[m->slot[i] - 1].value : -1;
}

int yk__strmap_count(const yk__strmap *m)
{
    return (int)m->count;
}

const char *yk__strmap_key(const yk__strmap *m, int i)
{
    return m->keys + m->entry[i].at;
}

int32_t yk__strmap_value(const yk__strmap *m, int i, size_t *key_bytes)
{
    if (key_bytes)
        *key_bytes = m->entry[i].bytes;
    return m->entry[i].value;
}
