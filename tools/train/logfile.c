/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a training's logs for writing, and first moves lines to PATH.cut. `kept` is the last step whose lines stay, or a constant below 0.
 * A resumed run passes its checkpoint's step, and later lines move. A new run passes LOGFILE_ASIDE, and each line moves; with
 * --overwrite-output-dir it passes LOGFILE_ANEW, and the lines are dropped. A restarted launch without a checkpoint passes
 * LOGFILE_NO_STEP, and lines move from the first one with a step on.
 *
 * reports.c (JSON lines) and trackers.c (the table, TensorBoard's new event file) call logfile_open in the main thread of rank 0, before
 * the loop, once for each file. A line is known by its step alone; its other figures do not matter here.
 */
#include "tools/train/logfile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/folder.h"

/* Step of a line; LOGFILE_NO_STEP if it has none. */
static int64_t line_step(const char *line)
{
    static const char key[] = "\"step\": ";
    const char *at = strstr(line, key);
    const char *number = isdigit((unsigned char)line[0]) ? line : at ? at + sizeof key - 1 : NULL;
    return number ? strtoll(number, NULL, 10) : LOGFILE_NO_STEP;
}

typedef struct cut {
    off_t at, end; /* range to move: whole lines, and the torn last line of another run's file */
    uint64_t lines;
    bool foreign;  /* the lines have no step, or are another run's */
} cut;

/* Finds the lines to move: from the first line whose step is above `kept` to the last whole line. A run resumed with another batch size
 * numbers its steps anew, so a line's step may be below the step before it. The search starts again at such a line: earlier lines stay,
 * even with steps above `kept`. */
static cut cut_find(FILE *f, int64_t kept)
{
    cut c = {.foreign = true};
    char *line = NULL;
    size_t capacity = 0;
    int64_t before = LOGFILE_NO_STEP;
    for (ssize_t n; (n = getline(&line, &capacity, f)) > 0 && line[n - 1] == '\n'; c.end += n) {
        const int64_t step = line_step(line);
        if (kept >= 0 && step != LOGFILE_NO_STEP && step < before)
            c = (cut){.at = c.end, .end = c.end};
        before = step != LOGFILE_NO_STEP ? step : before;
        c.foreign = kept == LOGFILE_ASIDE || before == LOGFILE_NO_STEP;
        if (c.lines || step > kept)
            c.lines++;
        else
            c.at += n;
    }
    free(line);
    return c;
}

/* Opens a file, which has the log's permissions if it is new: its lines are as private there. */
static FILE *stream_append(const char *name, FILE *like)
{
    yk__folder_rights log;
    const int fd = yk__folder_rights_of(fileno(like), NULL, &log)
                       ? open(name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR) : -1;
    if (fd < 0)
        return fopen(name, "ae");
    if (yk__folder_rights_keep(fd, &log))
        return fdopen(fd, "a");
    const int why = errno;
    close(fd);
    errno = why;
    return NULL;
}

/* Appends the range to PATH.cut. False with errno. */
static bool cut_keep(FILE *f, const char *path, const cut *c)
{
    char name[4400], block[4096];
    bool ok = !fseeko(f, c->at, SEEK_SET);
    snprintf(name, sizeof name, "%s.cut", path);
    FILE *to = stream_append(name, f);
    for (off_t left = c->end - c->at; to && ok && left > 0;) {
        const size_t n = fread(block, 1, left < (off_t)sizeof block ? (size_t)left : sizeof block, f);
        ok = n > 0 && fwrite(block, 1, n, to) == n;
        left -= (off_t)n;
    }
    return to && !fclose(to) && ok;
}

/* Moves the lines to PATH.cut and ends the file before them. False with errno. A special file stays as it is. */
static bool lines_cut(const char *path, int64_t kept)
{
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
    struct stat st;
    bool ok = true;
    if (!f && fd >= 0)
        close(fd);
    if (!f)
        return errno == ENOENT || errno == ENXIO; /* no file yet, or a socket: file_open makes the first, and refuses the second */
    if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
        cut c = cut_find(f, kept);
        if (c.foreign && c.end < st.st_size) { /* another run's torn line moves too; this run's is cut off, as the run writes it anew */
            c.end = st.st_size;
            c.lines++;
        }
        ok = (!c.lines || cut_keep(f, path, &c)) && (c.at == st.st_size || !ftruncate(fd, c.at));
        if (ok && c.lines)
            fprintf(stderr, "yoke train: %s: %llu lines of %s are in %s.cut now: this run writes %s\n", path, (unsigned long long)c.lines,
                    c.foreign ? "another run" : "later steps", path, c.foreign ? "its own" : "these steps anew");
    }
    fclose(f);
    return ok;
}

/* A FIFO that nobody reads is refused with ENXIO: its opening would wait for a reader, and the run with it, without a word. */
static FILE *file_open(const char *path, bool again)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (again ? O_APPEND : O_TRUNC), 0666);
    FILE *f = fd < 0 || fcntl(fd, F_SETFL, again ? O_APPEND : 0) ? NULL : fdopen(fd, again ? "a" : "w");
    if (!f && fd >= 0)
        close(fd);
    return f;
}

FILE *logfile_open(const char *path, int64_t kept)
{
    const bool again = kept != LOGFILE_ANEW;
    const int own = yk__folder_opened(path);
    FILE *f;
    if (own >= 0) /* the path names an open descriptor, as /dev/stdout does: the lines in its file are not this run's, and stay */
        return yk__folder_stream(own);
    if (again && !lines_cut(path, kept))
        return NULL;
    f = file_open(path, again);
    if (f && again)
        fseek(f, 0, SEEK_END); /* for callers of ftell; a pipe has no position */
    return f;
}
