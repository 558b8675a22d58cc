/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: a file system that stops to answer. HUNG_READ=TEXT,N: reads of files whose path has the text never end after the Nth, and by
 * HUNG_SYNC=TEXT,N syncs. HUNG_RANK: in that rank alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRELOADED __attribute__((visibility("default")))

static atomic_int reads, syncs;

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
static void hang_on(const char *hung, int fd, atomic_int *count)
{
    const char *comma = hung ? strchr(hung, ',') : NULL;
    char link[64], path[4096], text[256];
    ssize_t n;
    if (!comma || !in_rank())
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    snprintf(text, sizeof text, "%.*s", (int)(comma - hung), hung);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return;
    path[n] = 0;
    if (strstr(path, text) && atomic_fetch_add(count, 1) >= atoi(comma + 1))
        sleep_forever();
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
