/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing text, for sources and names, in the host's memory, and a 64-bit hash of bytes. After a failed allocation it ignores further
 * text, so a writer asks for the failure once, at the end. All plugins over the kit use it; one thread per text.
 */
#include "plugins/kit/kit_text.h"

#include <stdarg.h>
#include <stdio.h>

void kit_text_init(kit_text *text, const yk_host *host)
{
    *text = (kit_text){.host = host};
}

void kit_text_free(kit_text *text)
{
    if (text->data)
        text->host->free(text->data);
    kit_text_init(text, text->host);
}

static bool text_grow(kit_text *text, size_t more)
{
    if (text->bad || text->cap - text->length > more)
        return !text->bad;
    size_t cap = (text->length + more + 1) * 2;
    char *s = text->host->alloc(cap, 16);
    if (!s) {
        text->bad = text->no_memory = true;
        return false;
    }
    if (text->data) {
        memcpy(s, text->data, text->length + 1);
        text->host->free(text->data);
    }
    text->data = s;
    text->cap = cap;
    return true;
}

void kit_text_put(kit_text *text, const char *s, size_t n)
{
    if (!text_grow(text, n))
        return;
    memcpy(text->data + text->length, s, n);
    text->length += n;
    text->data[text->length] = 0;
}

void kit_text_add(kit_text *text, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line)
        text->bad = true;
    else
        kit_text_put(text, line, (size_t)n);
}

uint64_t kit_hash(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}
