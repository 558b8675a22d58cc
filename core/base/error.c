/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills an error object. Its text has a few terminal lines. Text from files is made printable on the way in, so that no file can
 * control a terminal.
 */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *yk__printable(char *text)
{
    for (char *s = text; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
        else if ((unsigned char)*s == 0xc2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xa0)
            *s = s[1] = '?'; /* C1 controls: on some terminals U+009B begins a command, as ESC [ does */
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
