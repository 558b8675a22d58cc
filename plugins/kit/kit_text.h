/* SPDX-License-Identifier: Apache-2.0 */
/* A growing string for source text. A failed allocation makes it bad for good; ask once at the end. One thread. */
#ifndef YOKE_PLUGINS_KIT_KIT_TEXT_H
#define YOKE_PLUGINS_KIT_KIT_TEXT_H

#include <stdbool.h>

#include <yoke/plugin.h>

typedef struct kit_text {
    const yk_host *host;
    char *data; /* NUL-terminated once something was added */
    size_t length, cap;
    bool bad;       /* for good: */
    bool no_memory; /* for want of memory; else the text makes no sense */
} kit_text;

void kit_text_init(kit_text *text, const yk_host *host);
void kit_text_free(kit_text *text);
void kit_text_add(kit_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kit_text_put(kit_text *text, const char *s, size_t n);

/* 64-bit FNV-1a: names of kernels, keys of caches. */
uint64_t kit_hash(uint64_t seed, const void *data, size_t n);
#define KIT_HASH_SEED 0xcbf29ce484222325ull

#endif
