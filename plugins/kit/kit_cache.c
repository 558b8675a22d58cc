/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of compiled code between processes: one file per key in the host's cache folder, with a header and a checksum.
 *
 * units.c keeps kernels in it, the PJRT plugin executables, the Vulkan plugin its driver's pipelines; in any thread. A file is written
 * under another name and renamed, so no process reads half a file. A file that does not match is deleted and counts as absent. A failed
 * write is ignored.
 */
#include "plugins/kit/kit_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
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
    if (data && cache->most)
        futimens(fileno(f), NULL); /* the time of the last use; a folder that cannot be written keeps its order */
    fclose(f);
    if (!data) {
        cache->host->log(2, cache->plugin, "%s is damaged: built anew", path);
        unlink(path);
    }
    return data;
}

/* ---- The limit ---- */

#define KEY_DIGITS 16

typedef struct kept_file {
    char name[96];
    int64_t sec, nsec; /* of the last use */
    uint64_t bytes;
} kept_file;

typedef struct kept_list {
    kept_file *file;
    size_t n, capacity;
    uint64_t bytes;
} kept_list;

/* "PREFIX-KEY.bin", or such a file that a process is writing, or was killed while it wrote. */
static bool name_fits(const kit_cache *cache, const char *name)
{
    const size_t n = strlen(cache->prefix);
    return !strncmp(name, cache->prefix, n) && name[n] == '-' && strspn(name + n + 1, "0123456789abcdef") == KEY_DIGITS &&
           !strncmp(name + n + 1 + KEY_DIGITS, ".bin", 4);
}

static bool list_add(const kit_cache *cache, kept_list *list, const char *name, const struct stat *st)
{
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        kept_file *more = cache->host->alloc(capacity * sizeof *more, 64);
        if (!more)
            return false;
        if (list->n)
            memcpy(more, list->file, list->n * sizeof *more);
        if (list->file)
            cache->host->free(list->file);
        list->file = more;
        list->capacity = capacity;
    }
    kept_file *f = &list->file[list->n++];
    *f = (kept_file){.sec = st->st_mtim.tv_sec, .nsec = st->st_mtim.tv_nsec, .bytes = (uint64_t)st->st_size};
    snprintf(f->name, sizeof f->name, "%.95s", name);
    list->bytes += f->bytes;
    return true;
}

static int file_older(const void *x, const void *y)
{
    const kept_file *a = x, *b = y;
    return a->sec != b->sec ? (a->sec < b->sec ? -1 : 1) : a->nsec != b->nsec ? (a->nsec < b->nsec ? -1 : 1) : strcmp(a->name, b->name);
}

/* Deletes the files that were used the longest time ago until the rest fits. */
static void cache_trim(const kit_cache *cache)
{
    kept_list list = {0};
    struct stat st;
    DIR *d = opendir(cache->host->cache_dir());
    if (!d)
        return;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (name_fits(cache, e->d_name) && !fstatat(dirfd(d), e->d_name, &st, 0) && !list_add(cache, &list, e->d_name, &st))
            break;
    if (list.bytes > cache->most)
        qsort(list.file, list.n, sizeof *list.file, file_older);
    for (size_t i = 0; i < list.n && list.bytes > cache->most; i++)
        if (!unlinkat(dirfd(d), list.file[i].name, 0))
            list.bytes -= list.file[i].bytes;
    closedir(d);
    if (list.file)
        cache->host->free(list.file);
}

void kit_cache_write(const kit_cache *cache, uint64_t key, const void *data, size_t bytes)
{
    char path[PATH], made[PATH + 32];
    const file_head h = {MAGIC, key, bytes, kit_hash(KIT_HASH_SEED, data, bytes)};
    if (!file_path(cache, key, path) || (cache->most && bytes + sizeof h > cache->most))
        return;
    snprintf(made, sizeof made, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(made, "wbe");
    if (!f)
        return;
    bool good = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(data, 1, bytes, f) == bytes;
    good = fclose(f) == 0 && good;
    if (!good || rename(made, path))
        unlink(made);
    else if (cache->most)
        cache_trim(cache);
}

void kit_cache_drop(const kit_cache *cache, uint64_t key)
{
    char path[PATH];
    if (file_path(cache, key, path))
        unlink(path);
}
