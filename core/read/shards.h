/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token files that are one stream of ids, each going on where the one before it ends.
 *
 * Named by a file; a folder, for its *.bin and *.bin.gz; a glob; or several of these joined by '+'. Files of a folder and
 * of a glob come by the bytes of their names, those of a list as it has them. A file of the whole name comes first, so that names
 * may hold any of these characters.
 *
 * All have ids of one width. Thread rule: any threads read, several at once; everything else one thread.
 */
#ifndef YOKE_CORE_READ_SHARDS_H
#define YOKE_CORE_READ_SHARDS_H

#include "core/read/tokens.h"

/* Ids of so many bytes at most are checked when the files are opened. Those of more are checked as they are read, if the
 * vocabulary is known. */
#define YK__SHARDS_CHECKED ((uint64_t)64 << 20)

typedef struct yk__shards {
    yk__tokens *shard;
    int64_t *start; /* id of the stream that shard i begins with; start[count]: ids of all */
    size_t count;
    int64_t vocab; /* the largest of a file */
} yk__shards;

/* width: as yk__tokens_open. vocab: of files that do not say it, 0: not known. */
yk_status yk__shards_open(const char *name, int width, int64_t vocab, yk__shards *out, yk_error *err);
void yk__shards_close(yk__shards *shards);

/* Ids [first, first + count) of the stream. */
yk_status yk__shards_get(const yk__shards *shards, int64_t first, int64_t count, int32_t *ids, yk_error *err);
/* The shard that an id of the stream lies in. */
size_t yk__shards_find(const yk__shards *shards, int64_t id);

#endif
