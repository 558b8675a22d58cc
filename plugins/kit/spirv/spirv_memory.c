/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one translation to SPIR-V: pieces that are released all at once, growing lists of words and tokens. It keeps the first
 * failure, which ends the reading. All files of this folder call it; one thread per translation.
 */
#include "plugins/kit/spirv/compile.h"

#include <stdio.h>

#define CHUNK (64u << 10)

struct spv_chunk {
    struct spv_chunk *next;
    size_t used, size;
};

static struct spv_chunk *chunk_new(spv_compile *c, size_t bytes)
{
    const size_t size = bytes > CHUNK ? bytes : CHUNK;
    struct spv_chunk *chunk = c->target->host->alloc(sizeof *chunk + size, 64);
    if (!chunk) {
        if (!c->failed)
            snprintf(c->why, sizeof c->why, "out of memory: %zu bytes", size);
        c->failed = YK_E_MEM;
        return NULL;
    }
    *chunk = (struct spv_chunk){.next = c->chunks, .size = size};
    return c->chunks = chunk;
}

void *spv_take(spv_compile *c, size_t bytes)
{
    struct spv_chunk *chunk = c->chunks;
    bytes = kit_round_bytes(bytes, 16);
    if (c->failed == YK_E_MEM || ((!chunk || chunk->size - chunk->used < bytes) && !(chunk = chunk_new(c, bytes))))
        return NULL;
    void *p = (char *)(chunk + 1) + chunk->used;
    chunk->used += bytes;
    memset(p, 0, bytes);
    return p;
}

void spv_release(spv_compile *c)
{
    while (c->chunks) {
        struct spv_chunk *next = c->chunks->next;
        c->target->host->free(c->chunks);
        c->chunks = next;
    }
}

void spv_fail(spv_compile *c, const char *fmt, ...)
{
    va_list ap;
    if (c->failed)
        return;
    c->failed = YK_E_INTERNAL;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, ap);
    va_end(ap);
    c->at = c->token.n; /* ends the reading */
}

/* Room for n more entries; false after a failure. */
static bool list_reserve(spv_compile *c, void **at, size_t used, size_t *cap, size_t n, size_t entry)
{
    if (used + n <= *cap)
        return true;
    const size_t more = 2 * *cap + n + 256;
    void *bigger = spv_take(c, more * entry);
    if (!bigger)
        return false;
    if (used)
        memcpy(bigger, *at, used * entry);
    *at = bigger;
    *cap = more;
    return true;
}

void spv_tokens_add(spv_compile *c, spv_tokens *list, const spv_token *token)
{
    if (list_reserve(c, (void **)&list->at, list->n, &list->cap, 1, sizeof *list->at))
        list->at[list->n++] = *token;
}

void spv_words_add(spv_compile *c, spv_words *words, const uint32_t *from, size_t n)
{
    if (!n || !list_reserve(c, (void **)&words->at, words->n, &words->cap, n, sizeof *words->at))
        return;
    memcpy(words->at + words->n, from, n * sizeof *from);
    words->n += n;
}
