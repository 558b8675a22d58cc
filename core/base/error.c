/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills an error object (yk_error): status and text of the first failure of a call. All layers call yk__fail and its relatives, in any
 * thread; the object is the caller's.
 *
 * Its text has a few terminal lines. Text from files is made printable on the way in, so that no file can control a terminal.
 */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at s (RFC 3629, section 4); 0 if there is none. */
static size_t sequence_bytes(const unsigned char *s)
{
    const unsigned char least = *s == 0xe0 ? 0xa0 : *s == 0xf0 ? 0x90 : 0x80, most = *s == 0xed ? 0x9f : *s == 0xf4 ? 0x8f : 0xbf;
    const size_t n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
    if (n > 1 && (s[1] < least || s[1] > most))
        return 0;
    for (size_t i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xbf) /* also the NUL at the end */
            return 0;
    return n;
}

char *yk__printable(char *text)
{
    for (unsigned char *s = (unsigned char *)text; *s;) {
        const size_t n = sequence_bytes(s);
        if (n == 2 && *s == 0xc2 && s[1] < 0xa0)
            s[0] = s[1] = '?'; /* C1 controls: on some terminals U+009B begins a command, as ESC [ does */
        else if (n == 0 || *s < 0x20 || *s == 0x7f)
            *s = '?';
        s += n ? n : 1;
    }
    return text;
}

yk_status yk__fail(yk_error *err, yk_status status, const char *fmt, ...)
{
    va_list ap;
    err->status = status == YK_OK ? YK_E_INTERNAL : status;
    err->node = 0;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    yk__printable(err->text);
    return err->status;
}

yk_status yk__fail_in(yk_error *err, const char *fmt, ...)
{
    char prefix[256];
    va_list ap;
    size_t n, rest = strlen(err->text);
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix - 2, fmt, ap);
    va_end(ap);
    yk__printable(prefix);
    strcat(prefix, ": ");
    n = strlen(prefix);
    if (rest > sizeof err->text - 1 - n)
        rest = sizeof err->text - 1 - n;
    memmove(err->text + n, err->text, rest);
    memcpy(err->text, prefix, n);
    err->text[n + rest] = 0;
    yk__printable(err->text); /* the cut may have split a letter */
    return err->status;
}

yk_status yk__fail_node(yk_error *err, uint32_t node)
{
    err->node = err->node ? err->node : node;
    return err->status;
}

yk_status yk__fail_mem(yk_error *err, unsigned long long bytes, const char *what)
{
    return yk__fail(err, YK_E_MEM, "out of memory (%llu bytes for %s)", bytes, what);
}

const char *yk__status_name(yk_status status)
{
    static const char *const names[] = {
#define X(name, text) #name,
        YK_STATUS_TABLE(X)
#undef X
    };
    return (unsigned)status < YK_STATUS_COUNT ? names[status] : "YK_E_?";
}

const char *yk__status_text(yk_status status)
{
    static const char *const texts[] = {
#define X(name, text) text,
        YK_STATUS_TABLE(X)
#undef X
    };
    return (unsigned)status < YK_STATUS_COUNT ? texts[status] : "unknown status";
}
