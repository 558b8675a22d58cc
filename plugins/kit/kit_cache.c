/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of compiled code. A file is written under another name and renamed, so that no process ever reads half a file. */
#include "plugins/kit/kit_cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "plugins/kit/kit_text.h"

#define MAGIC 0x314c434f454b4f59ull /* "YOKEOCL1" */
#define MOST (256u << 20)
#define PATH 512

typedef struct file_head {
    uint64_t magic, key, bytes, sum;
} file_head;

static bool file_path(const kit_cache *cache, uint64_t key, char path[PATH])
{
    const char *folder = cache->host->cache_dir();
    const int n = folder ? snprintf(path, PATH, "%s/%s-%016llx.bin", folder, cache->prefix, (unsigned long long)key) : -1;
    return n > 0 && n < PATH;
}

/* Reads the bytes after the head; NULL if they do not match. */
static void *file_read(const kit_cache *cache, FILE *f, uint64_t key, size_t *bytes)
{
    file_head h;
    if (fread(&h, sizeof h, 1, f) != 1 || h.magic != MAGIC || h.key != key || !h.bytes || h.bytes > MOST)
        return NULL;
    void *data = cache->host->alloc(h.bytes, 64);
    if (data && (fread(data, 1, h.bytes, f) != h.bytes || fgetc(f) != EOF || kit_hash(KIT_HASH_SEED, data, h.bytes) != h.sum)) {
        cache->host->free(data);
        data = NULL;
    }
    *bytes = h.bytes;
    return data;
}

void *kit_cache_read(const kit_cache *cache, uint64_t key, size_t *bytes)
{
    char path[PATH];
    FILE *f = file_path(cache, key, path) ? fopen(path, "rbe") : NULL;
    if (!f)
        return NULL;
    void *data = file_read(cache, f, key, bytes);
    fclose(f);
    if (!data) {
        cache->host->log(2, cache->plugin, "%s is damaged: built anew", path);
        unlink(path);
    }
    return data;
}

void kit_cache_write(const kit_cache *cache, uint64_t key, const void *data, size_t bytes)
{
    char path[PATH], made[PATH + 32];
    const file_head h = {MAGIC, key, bytes, kit_hash(KIT_HASH_SEED, data, bytes)};
    if (!file_path(cache, key, path))
        return;
    snprintf(made, sizeof made, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(made, "wbe");
    if (!f)
        return;
    bool good = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(data, 1, bytes, f) == bytes;
    good = fclose(f) == 0 && good;
    if (!good || rename(made, path))
        unlink(made);
}

void kit_cache_drop(const kit_cache *cache, uint64_t key)
{
    char path[PATH];
    if (file_path(cache, key, path))
        unlink(path);
}
