/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a training run (yk_track): one JSON object per line. core/job/loop/job_log.c writes lines on rank 0, in the step thread.
 *
 * Each line is one write to the file's end. So other programs can read the file meanwhile, and a killed run leaves no half line. A failed
 * write is kept for close, as a full disk must not stop the training.
 */
#include "core/io/tracker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/number.h"

struct yk__tracker {
    int fd;
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
    tracker->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (tracker->fd < 0) {
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

static void put_line(FILE *f, uint64_t step, uint32_t n, const char *const *name, const double *value)
{
    fprintf(f, "{\"step\": %llu", (unsigned long long)step);
    for (uint32_t i = 0; i < n; i++) {
        fputs(", ", f);
        put_name(f, name[i]);
        if (isfinite(value[i]))
            fprintf(f, ": %s", yk__number_text(value[i], 9).text);
        else
            fputs(": null", f);
    }
    fputs("}\n", f);
}

/* 0 or errno. A full disk or a pipe may take the bytes in parts. */
static int write_whole(int fd, const char *p, size_t n)
{
    while (n) {
        const ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return w ? errno : EIO;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

void yk__tracker_line(yk__tracker *tracker, uint64_t step, uint32_t n, const char *const *name, const double *value)
{
    char *line = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&line, &bytes);
    if (f)
        put_line(f, step, n, name, value);
    int failed = !f || fclose(f) ? ENOMEM : 0;
    yk__limit_held held;
    yk__limit_hold(&held); /* a file above the limit of size (ulimit -f) is an error here, not a signal */
    if (!failed)
        failed = write_whole(tracker->fd, line, bytes);
    yk__limit_release(&held);
    if (!tracker->failed)
        tracker->failed = failed;
    free(line);
}

yk_status yk__tracker_close(yk__tracker *tracker, yk_error *err)
{
    if (!tracker)
        return YK_OK;
    if (close(tracker->fd) && !tracker->failed)
        tracker->failed = errno ? errno : EIO;
    if (tracker->failed)
        yk__fail(err, YK_E_IO, "%s: writing failed: %s", tracker->path, strerror(tracker->failed));
    yk_status s = tracker->failed ? err->status : YK_OK;
    yk__free(tracker->path);
    yk__free(tracker);
    return s;
}
