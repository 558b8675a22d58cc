/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/kit/text.h"

#include <stdarg.h>
#include <stdio.h>

void kit_text_init(kit_text *t, const yk_host *host)
{
    *t = (kit_text){.host = host};
}

void kit_text_free(kit_text *t)
{
    if (t->s)
        t->host->free(t->s);
    kit_text_init(t, t->host);
}

static bool text_grow(kit_text *t, size_t more)
{
    if (t->bad || t->cap - t->n > more)
        return !t->bad;
    size_t cap = (t->n + more + 1) * 2;
    char *s = t->host->alloc(cap, 16);
    if (!s) {
        t->bad = t->no_memory = true;
        return false;
    }
    if (t->s) {
        memcpy(s, t->s, t->n + 1);
        t->host->free(t->s);
    }
    t->s = s;
    t->cap = cap;
    return true;
}

void kit_text_put(kit_text *t, const char *s, size_t n)
{
    if (!text_grow(t, n))
        return;
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void kit_text_add(kit_text *t, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line)
        t->bad = true;
    else
        kit_text_put(t, line, (size_t)n);
}

uint64_t kit_hash(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}
