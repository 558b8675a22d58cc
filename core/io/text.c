/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and reads whole text files, gzip too, with one kind of line end. The check for UTF-8 catches a file in another encoding, which
 * would train nonsense. Data sets, tokenizers, host files and commands read their texts here, in the caller's thread; the caller frees the
 * text.
 */
#include "core/io/text.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/foreign.h"
#include "core/io/utf8.h"

#define LIMIT ((uint64_t)1 << 36)

static yk_status utf8_require(const yk__file *file, const char *p, size_t n, yk_error *err)
{
    size_t at = yk__utf8_check(p, n);
    int64_t line = 1;
    if (at == n)
        return YK_OK;
    for (size_t i = 0; i < at; i++)
        line += p[i] == '\n';
    return yk__fail(err, YK_E_FORMAT, "%s: line %" PRId64 ", byte %zu: 0x%02x is not UTF-8 (convert the file to UTF-8)",
                    yk__file_path(file), line, at, (unsigned char)p[at]);
}

size_t yk__text_unify(char *p, size_t n)
{
    size_t from = n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0, to = 0;
    while (from < n) {
        const char c = p[from++];
        p[to++] = c == '\r' ? '\n' : c;
        if (c == '\r' && from < n && p[from] == '\n')
            from++;
    }
    p[to] = 0;
    return to;
}

yk_status yk__text_read(yk__file *file, int any_bytes, char **text, size_t *bytes, yk_error *err)
{
    size_t n;
    char *p;
    yk_status s = yk__file_read_rest(file, LIMIT, &p, &n, err);
    if (s)
        return s;
    s = yk__foreign_refuse(yk__file_path(file), any_bytes ? YK__FOREIGN_BYTES : YK__FOREIGN_TEXT, p, n, n, err);
    if (!s && !any_bytes)
        s = utf8_require(file, p, n, err);
    if (s) {
        yk__free(p);
        return s;
    }
    if (!any_bytes)
        n = yk__text_unify(p, n);
    *text = p;
    *bytes = n;
    return YK_OK;
}

yk_status yk__text_open(const char *path, int any_bytes, char **text, size_t *bytes, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    s = yk__text_read(file, any_bytes, text, bytes, err);
    yk__file_close(file);
    return s;
}
