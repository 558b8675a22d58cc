/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of token files as one long text: a table of each file's first id, searched by halves. kind_tokens.c opens it, and reads ranges
 * in the loader's thread. Offsets count ids. A folder without token files is an error, as are files with different types of ids.
 */
#include "core/read/shards.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/read/paths.h"

/* ---- which files ---- */

static bool accept_file(const void *user, const char *name)
{
    (void)user;
    return yk__paths_ends_with(name, ".bin") || yk__paths_ends_with(name, ".bin.gz");
}

static yk_status part_add(const char *part, yk__paths *paths, yk_error *err)
{
    const size_t before = paths->count;
    struct stat info;
    const bool is_there = !stat(part, &info);
    if (is_there && S_ISDIR(info.st_mode)) {
        yk_status s = yk__paths_add_folder(paths, part, accept_file, NULL, err);
        if (!s && paths->count == before)
            s = yk__fail(err, YK_E_ARG, "%s: expected token files, *.bin or *.bin.gz, found none", part);
        return s;
    }
    return is_there || !part[strcspn(part, "*?[")] ? yk__paths_add(paths, part, err) : yk__paths_add_glob(paths, part, err);
}

static yk_status parts_add(const char *name, yk__paths *paths, yk_error *err)
{
    struct stat info;
    yk_status s = YK_OK;
    if (!strchr(name, '+') || !stat(name, &info))
        return part_add(name, paths, err);
    for (const char *end; !s && name; name = end) {
        end = strchr(name, '+');
        char *part = yk__strndup(name, end ? (size_t)(end - name) : strlen(name));
        s = part ? part_add(part, paths, err) : yk__fail_mem(err, strlen(name), "a path");
        yk__free(part);
        end = end ? end + 1 : NULL;
    }
    return s;
}

/* ---- opening ---- */

static yk_status shard_add(yk__shards *shards, const char *path, int width, yk_error *err)
{
    yk__tokens *shard = &shards->shard[shards->count];
    yk_status s = yk__tokens_open(path, width, shard, err);
    if (s)
        return s;
    shards->start[shards->count + 1] = shards->start[shards->count] + shard->count;
    shards->count++;
    if (shard->width != shards->shard[0].width)
        return yk__fail(err, YK_E_FORMAT, "%s: ids of %d bytes, expected %d as in %s: the files of one stream have one dtype", path,
                        shard->width, shards->shard[0].width, yk__blob_path(shards->shard[0].blob));
    return YK_OK;
}

static yk_status shards_add(yk__shards *shards, const yk__paths *paths, int width, yk_error *err)
{
    yk_status s = YK_OK;
    shards->shard = yk__calloc(paths->count, sizeof *shards->shard);
    shards->start = yk__calloc(paths->count + 1, sizeof *shards->start);
    if (!shards->shard || !shards->start)
        return yk__fail_mem(err, paths->count * sizeof *shards->shard, "token files");
    for (size_t i = 0; i < paths->count && !s; i++)
        s = shard_add(shards, paths->path[i], width, err);
    return s;
}

/* Reads what has to be read before the first row: all ids of little, and of a file whose vocabulary nobody says. */
static yk_status shards_check(yk__shards *shards, int64_t vocab, yk_error *err)
{
    const uint64_t bytes = (uint64_t)shards->start[shards->count] * (uint64_t)shards->shard[0].width;
    for (size_t i = 0; i < shards->count; i++) {
        yk__tokens *shard = &shards->shard[i];
        if (!shard->vocab)
            shard->vocab = vocab;
        if (bytes > YK__SHARDS_CHECKED && !shard->vocab)
            yk__log(YK_LOG_WARN, "data", "%s: all %" PRId64 " ids are read to find the largest (vocab=N spares that)",
                    yk__blob_path(shard->blob), shard->count);
        if ((bytes <= YK__SHARDS_CHECKED || !shard->vocab) && yk__tokens_check(shard, err))
            return err->status;
        shards->vocab = shard->vocab > shards->vocab ? shard->vocab : shards->vocab;
    }
    return YK_OK;
}

yk_status yk__shards_open(const char *name, int width, int64_t vocab, yk__shards *out, yk_error *err)
{
    yk__shards shards = {0};
    yk__paths paths = {0};
    yk_status s = parts_add(name, &paths, err);
    if (!s)
        s = shards_add(&shards, &paths, width, err);
    if (!s)
        s = shards_check(&shards, vocab, err);
    yk__paths_free(&paths);
    if (s)
        yk__shards_close(&shards);
    else
        *out = shards;
    return s;
}

void yk__shards_close(yk__shards *shards)
{
    for (size_t i = 0; i < shards->count; i++)
        yk__tokens_close(&shards->shard[i]);
    yk__free(shards->shard);
    yk__free(shards->start);
    memset(shards, 0, sizeof *shards);
}

/* ---- reading ---- */

size_t yk__shards_find(const yk__shards *shards, int64_t id)
{
    size_t a = 0, b = shards->count;
    while (b - a > 1) {
        const size_t m = a + (b - a) / 2;
        if (shards->start[m] <= id)
            a = m;
        else
            b = m;
    }
    return a;
}

yk_status yk__shards_get(const yk__shards *shards, int64_t first, int64_t count, int32_t *ids, yk_error *err)
{
    for (size_t i = yk__shards_find(shards, first); count; i++) {
        const int64_t left = shards->start[i + 1] - first, n = left < count ? left : count;
        if (yk__tokens_get(&shards->shard[i], first - shards->start[i], n, ids, err))
            return err->status;
        first += n;
        ids += n;
        count -= n;
    }
    return YK_OK;
}
