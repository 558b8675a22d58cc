/* SPDX-License-Identifier: Apache-2.0 */
/* The tracker's file: a line is written as a whole and flushed, so that whoever reads along sees whole lines. */
#include "core/io/tracker.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/number.h"

struct yk__tracker {
    FILE *file;
    char *path;
    int failed; /* errno of the first failure */
};

yk_status yk__tracker_open(const char *path, yk__tracker **out, yk_error *err)
{
    yk__tracker *t = yk__calloc(1, sizeof *t);
    if (!t || !(t->path = yk__strdup(path))) {
        yk__free(t);
        return yk__fail_mem(err, sizeof *t, "a log");
    }
    t->file = fopen(path, "a");
    if (!t->file) {
        yk__fail(err, YK_E_IO, "%s: cannot be opened for writing: %s", path, strerror(errno));
        yk__free(t->path);
        yk__free(t);
        return err->status;
    }
    *out = t;
    return YK_OK;
}

static void put_name(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            fprintf(f, "\\u%04x", (unsigned)*s);
        else
            fputc(*s, f);
    fputc('"', f);
}

void yk__tracker_line(yk__tracker *t, uint64_t step, uint32_t n, const char *const *name, const double *value)
{
    fprintf(t->file, "{\"step\": %llu", (unsigned long long)step);
    for (uint32_t i = 0; i < n; i++) {
        fputs(", ", t->file);
        put_name(t->file, name[i]);
        if (isfinite(value[i]))
            fprintf(t->file, ": %s", yk__number_text(value[i], 9).text);
        else
            fputs(": null", t->file);
    }
    errno = 0;
    if ((fputs("}\n", t->file) < 0 || fflush(t->file)) && !t->failed)
        t->failed = errno ? errno : EIO;
}

yk_status yk__tracker_close(yk__tracker *t, yk_error *err)
{
    if (!t)
        return YK_OK;
    errno = 0;
    if (fclose(t->file) && !t->failed)
        t->failed = errno ? errno : EIO;
    if (t->failed)
        yk__fail(err, YK_E_IO, "%s: writing failed: %s", t->path, strerror(t->failed));
    yk_status s = t->failed ? err->status : YK_OK;
    yk__free(t->path);
    yk__free(t);
    return s;
}
