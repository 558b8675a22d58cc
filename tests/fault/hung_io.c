/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: a file system that stops to answer. HUNG_READ=TEXT,N: reads of files whose path has the text never end after the Nth. So do
 * HUNG_WRITE, HUNG_SYNC, HUNG_RENAME (of the new path), HUNG_OPEN and HUNG_LOAD (dlopen). HUNG_RANK: in that rank alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRELOADED __attribute__((visibility("default")))

static atomic_int reads, writes, syncs, renames, opens, loads;

static int in_rank(void)
{
    const char *rank = getenv("YOKE_RANK"), *hung = getenv("HUNG_RANK");
    return !hung || (rank && !strcmp(rank, hung));
}

static void sleep_forever(void)
{
    for (;;)
        pause();
}

/* hung: TEXT,N, or NULL. */
static void path_hang(const char *hung, const char *path, atomic_int *count)
{
    const char *comma = hung ? strchr(hung, ',') : NULL;
    char text[256];
    if (!comma || !in_rank())
        return;
    snprintf(text, sizeof text, "%.*s", (int)(comma - hung), hung);
    if (strstr(path, text) && atomic_fetch_add(count, 1) >= atoi(comma + 1))
        sleep_forever();
}

static void hang_on(const char *hung, int fd, atomic_int *count)
{
    char link[64], path[4096];
    if (!hung)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    path_hang(hung, path, count);
}

PRELOADED ssize_t read(int fd, void *to, size_t n)
{
    ssize_t (*next)(int, void *, size_t) = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    hang_on(getenv("HUNG_READ"), fd, &reads);
    return next(fd, to, n);
}

/* Offsets have 64 bits: pread64 of the C library. */
PRELOADED ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    ssize_t (*next)(int, void *, size_t, off_t) = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    hang_on(getenv("HUNG_READ"), fd, &reads);
    return next(fd, to, n, at);
}

PRELOADED int fsync(int fd)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    hang_on(getenv("HUNG_SYNC"), fd, &syncs);
    return next(fd);
}

PRELOADED ssize_t write(int fd, const void *from, size_t n)
{
    ssize_t (*next)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    hang_on(getenv("HUNG_WRITE"), fd, &writes);
    return next(fd, from, n);
}

PRELOADED ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    ssize_t (*next)(int, const void *, size_t, off_t) = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
    hang_on(getenv("HUNG_WRITE"), fd, &writes);
    return next(fd, from, n, at);
}

PRELOADED void *dlopen(const char *path, int flags)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    path_hang(getenv("HUNG_LOAD"), path ? path : "", &loads);
    return next(path, flags);
}

PRELOADED int rename(const char *from, const char *to)
{
    int (*next)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    path_hang(getenv("HUNG_RENAME"), to, &renames);
    return next(from, to);
}

PRELOADED int openat(int folder, const char *path, int flags, ...)
{
    int (*next)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    path_hang(getenv("HUNG_OPEN"), path, &opens);
    return next(folder, path, flags, mode);
}

PRELOADED int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    path_hang(getenv("HUNG_OPEN"), path, &opens);
    return next(path, flags, mode);
}
