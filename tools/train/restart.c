/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt leaves for the next one: a mark in the output folder. */
#include "tools/train/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/option.h"

/* What this launch calls itself; NULL: it does not restart. */
static const char *launch_name(void)
{
    return yk__option_text(YK__OPTION_RUN_ID);
}

bool restart_may_come(void)
{
    return launch_name() != NULL;
}

static void mark_path(const char *dir, char *path, size_t size)
{
    snprintf(path, size, "%s/.yoke-run", dir);
}

double restart_since(const char *dir)
{
    const char *own = launch_name();
    char path[4352], name[64] = "";
    long long seconds = 0;
    long nanoseconds = 0;
    FILE *f;
    if (!own)
        return 0;
    mark_path(dir, path, sizeof path);
    f = fopen(path, "re");
    if (!f)
        return 0;
    const bool whole = fscanf(f, "%63s %lld %ld", name, &seconds, &nanoseconds) == 3;
    fclose(f);
    return whole && !strcmp(name, own) ? (double)seconds + 1e-9 * (double)nanoseconds : 0;
}

const char *restart_claim(const char *dir)
{
    const char *own = launch_name();
    char path[4352];
    struct timespec now;
    if (!own || restart_since(dir) > 0)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    mark_path(dir, path, sizeof path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return strerror(errno);
    const bool failed = dprintf(fd, "%s %lld %ld\n", own, (long long)now.tv_sec, now.tv_nsec) < 0;
    const char *why = failed ? strerror(errno) : NULL;
    close(fd);
    return why;
}
