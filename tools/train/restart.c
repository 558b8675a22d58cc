/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt leaves for the next one: a mark in the output folder, and logs that go on. */
#include "tools/train/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/option.h"

#define TAIL 65536 /* bytes of a log in which its last line's end is looked for */

const char *restart_run(void)
{
    return yk__option_text(YK__OPTION_RUN_ID);
}

static void mark_path(const char *dir, char *path, size_t size)
{
    snprintf(path, size, "%s/.yoke-run", dir);
}

bool restart_is_own(const char *dir)
{
    const char *own = restart_run();
    char path[4352], name[64] = "";
    FILE *f;
    if (!own)
        return false;
    mark_path(dir, path, sizeof path);
    f = fopen(path, "re");
    if (!f)
        return false;
    const bool whole = fscanf(f, "%63s", name) == 1;
    fclose(f);
    return whole && !strcmp(name, own);
}

const char *restart_claim(const char *dir)
{
    const char *own = restart_run();
    char path[4352];
    if (!own || restart_is_own(dir))
        return NULL;
    mark_path(dir, path, sizeof path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return strerror(errno);
    const bool failed = dprintf(fd, "%s\n", own) < 0;
    const char *why = failed ? strerror(errno) : NULL;
    close(fd);
    return why;
}

/* Where the last whole line ends, of `size` bytes; what is longer than TAIL is no line of a log. */
static off_t find_end(int fd, off_t size)
{
    static char tail[TAIL];
    const off_t from = size > TAIL ? size - TAIL : 0;
    ssize_t n = pread(fd, tail, sizeof tail, from);
    while (n > 0 && tail[n - 1] != '\n')
        n--;
    return n > 0 ? from + n : from;
}

static void cut_torn_line(const char *path)
{
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return; /* opening it to write says why */
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && ftruncate(fd, find_end(fd, st.st_size)))
        fprintf(stderr, "yoke train: %s: its last line is torn and cannot be cut off: %s\n", path, strerror(errno));
    close(fd);
}

FILE *restart_open_log(const char *path, bool again)
{
    FILE *f;
    if (again)
        cut_torn_line(path);
    f = fopen(path, again ? "ae" : "we");
    if (f && again)
        fseek(f, 0, SEEK_END); /* for who asks where it stands; a pipe does not */
    return f;
}
