/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a training run (yk_track): one JSON object per line. Each line ends with a flush, so that other programs can read the file
 * meanwhile. A failed write is kept for close, as a full disk must not stop the training.
 */
#include "core/io/tracker.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/number.h"

struct yk__tracker {
    FILE *file;
    char *path;
    int failed; /* errno of the first failure */
};

yk_status yk__tracker_open(const char *path, yk__tracker **out, yk_error *err)
{
    yk__tracker *tracker = yk__calloc(1, sizeof *tracker);
    if (!tracker || !(tracker->path = yk__strdup(path))) {
        yk__free(tracker);
        return yk__fail_mem(err, sizeof *tracker, "a log");
    }
    tracker->file = fopen(path, "ae");
    if (!tracker->file) {
        yk__fail(err, YK_E_IO, "%s: cannot be opened for writing: %s", path, strerror(errno));
        yk__free(tracker->path);
        yk__free(tracker);
        return err->status;
    }
    *out = tracker;
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

void yk__tracker_line(yk__tracker *tracker, uint64_t step, uint32_t n, const char *const *name, const double *value)
{
    fprintf(tracker->file, "{\"step\": %llu", (unsigned long long)step);
    for (uint32_t i = 0; i < n; i++) {
        fputs(", ", tracker->file);
        put_name(tracker->file, name[i]);
        if (isfinite(value[i]))
            fprintf(tracker->file, ": %s", yk__number_text(value[i], 9).text);
        else
            fputs(": null", tracker->file);
    }
    yk__limit_held held;
    yk__limit_hold(&held); /* a file above the limit of size (ulimit -f) is an error here, not a signal */
    errno = 0;
    if ((fputs("}\n", tracker->file) < 0 || fflush(tracker->file)) && !tracker->failed)
        tracker->failed = errno ? errno : EIO;
    yk__limit_release(&held);
}

yk_status yk__tracker_close(yk__tracker *tracker, yk_error *err)
{
    if (!tracker)
        return YK_OK;
    errno = 0;
    if (fclose(tracker->file) && !tracker->failed)
        tracker->failed = errno ? errno : EIO;
    if (tracker->failed)
        yk__fail(err, YK_E_IO, "%s: writing failed: %s", tracker->path, strerror(tracker->failed));
    yk_status s = tracker->failed ? err->status : YK_OK;
    yk__free(tracker->path);
    yk__free(tracker);
    return s;
}
