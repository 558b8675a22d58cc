/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token files: ids as little-endian u16 (nanoGPT's train.bin) or u32, with or without this header of 32 bytes:
 *
 *   0  8 bytes "YKTOKENS"    8  u32 version 1     12  u32 bytes of an id (2 or 4)
 *  16  u64 number of ids    24  u32 vocabulary    28  u32 0
 *
 * All little-endian; a vocabulary of 0 is not known. Every id must be below the vocabulary. Without a header the
 * width is the caller's (2 by default) and the vocabulary is the largest id + 1. Plain or gzip. llm.c's token files, of a header of 1024
 * bytes, are read as well; another program's file that its signature tells (core/io/foreign.h) is refused.
 *
 * Opening looks at the header and the length alone; ids are checked when they are read. A plain file stays on disk.
 * Thread rule: any threads get ids, several at once; everything else one thread.
 */
#ifndef YOKE_CORE_READ_TOKENS_H
#define YOKE_CORE_READ_TOKENS_H

#include <stdbool.h>

#include "core/read/blob.h"

typedef struct yk__tokens {
    yk__blob *blob;
    int width;     /* bytes of an id, 2 or 4 */
    int header;    /* the file has one of ours */
    int64_t start; /* byte of the first id */
    int64_t count;
    int64_t vocab; /* all ids are below; 0: not known yet */
} yk__tokens;

/* width: 2 or 4 for files without a header, 0 for the default; a header that says otherwise is refused. */
yk_status yk__tokens_open(const char *path, int width, yk__tokens *out, yk_error *err);
yk_status yk__tokens_read(yk__file *file, int width, yk__tokens *out, yk_error *err); /* into memory */
bool yk__tokens_signed(const void *head, size_t n); /* true if a file's first n bytes begin a header of ours or of llm.c's */
void yk__tokens_close(yk__tokens *tokens);

/* Reads all ids once: refuses one that is not below the vocabulary, which is the largest + 1 where it was not known. */
yk_status yk__tokens_check(yk__tokens *tokens, yk_error *err);

/* Ids [first, first + count), checked against the vocabulary. */
yk_status yk__tokens_get(const yk__tokens *tokens, int64_t first, int64_t count, int32_t *ids, yk_error *err);

/* A token file with a header: ids of 2 bytes where the vocabulary allows. The caller frees *file. */
yk_status yk__tokens_pack(const int32_t *ids, int64_t count, int64_t vocab, char **file, size_t *bytes, yk_error *err);

#endif
