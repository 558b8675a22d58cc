/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token files: ids as little-endian u16 (nanoGPT's train.bin) or u32, with or without this header of 32 bytes:
 *
 *   0  8 bytes "YKTOKENS"    8  u32 version 1     12  u32 bytes of an id (2 or 4)
 *  16  u64 number of ids    24  u32 vocabulary    28  u32 0
 *
 * All little-endian; a vocabulary of 0 is not known. Every id must be below the vocabulary. Without the header the
 * width is the caller's (2 by default) and the vocabulary is the largest id + 1. Plain or gzip.
 */
#ifndef YOKE_CORE_READ_TOKENS_H
#define YOKE_CORE_READ_TOKENS_H

#include "core/io/file.h"

typedef struct yk__tokens {
    int width;  /* bytes of an id, 2 or 4 */
    int header; /* the file has one */
    int64_t count;
    int64_t vocab;   /* all ids are below */
    const void *ids; /* uint16_t or uint32_t in the host's byte order */
    void *memory;    /* what yk__tokens_close frees */
} yk__tokens;

/* width: 2 or 4 for files without a header, 0 for the default; a header that says otherwise is refused. */
yk_status yk__tokens_open(const char *path, int width, yk__tokens *out, yk_error *err);
yk_status yk__tokens_read(yk__file *file, int width, yk__tokens *out, yk_error *err);
void yk__tokens_close(yk__tokens *tokens);

static inline int32_t yk__tokens_at(const yk__tokens *tokens, int64_t i)
{
    return tokens->width == 2 ? ((const uint16_t *)tokens->ids)[i] : (int32_t)((const uint32_t *)tokens->ids)[i];
}

#endif
