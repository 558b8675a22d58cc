/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: a disk under the optimizer's state (.yoke-state-) that breaks, from the BROKEN_AFTERth request of rank BROKEN_RANK on.
 * BROKEN_DISK: kill (the process dies in a write), full (half a write, then no space), end (a read finds the file's end), or, in all
 * requests of all ranks, part (half of each one's pages) or plain (no O_DIRECT). BROKEN_STAMP: a file that is made at the first fault.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRELOADED __attribute__((visibility("default")))
#define PAGE 4096u

static atomic_int requests, faults;

static int fault_is(const char *kind)
{
    const char *given = getenv("BROKEN_DISK");
    return given && !strcmp(given, kind);
}

static int is_state(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return strstr(path, "/.yoke-state-") != NULL;
}

/* True from the first request on that the fault strikes. */
static int fault_strikes(int fd, const char *kind)
{
    const char *rank = getenv("YOKE_RANK"), *broken = getenv("BROKEN_RANK"), *after = getenv("BROKEN_AFTER");
    const char *stamp = getenv("BROKEN_STAMP");
    if (!fault_is(kind) || !is_state(fd) || !rank || !broken || strcmp(rank, broken) || !after || requests < atoi(after))
        return 0;
    if (!atomic_fetch_add(&faults, 1) && stamp)
        close(open(stamp, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    return 1;
}

/* Half of the pages, at least one. */
static size_t part_of(int fd, size_t n)
{
    return n > PAGE && is_state(fd) ? (n / PAGE + 1) / 2 * PAGE : n;
}

PRELOADED ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    ssize_t (*next)(int, void *, size_t, off_t) = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    requests += is_state(fd);
    if (fault_strikes(fd, "end"))
        return faults > 1 ? 0 : next(fd, to, part_of(fd, n), at);
    return next(fd, to, fault_is("part") ? part_of(fd, n) : n, at);
}

PRELOADED ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    ssize_t (*next)(int, const void *, size_t, off_t) = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
    requests += is_state(fd);
    if (fault_strikes(fd, "kill"))
        raise(SIGKILL);
    if (fault_strikes(fd, "full") && faults > 1) {
        errno = ENOSPC;
        return -1;
    }
    return next(fd, from, fault_is("part") || faults ? part_of(fd, n) : n, at);
}

PRELOADED int fcntl(int fd, int command, ...)
{
    int (*next)(int, int, void *) = (int (*)(int, int, void *))dlsym(RTLD_NEXT, "fcntl");
    va_list more;
    va_start(more, command);
    void *value = va_arg(more, void *);
    va_end(more);
    if (command == F_SETFL && ((long)value & O_DIRECT) && fault_is("plain") && is_state(fd)) {
        errno = EINVAL;
        return -1;
    }
    return next(fd, command, value);
}
