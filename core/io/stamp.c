/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stamps of open files: finds that a file was replaced or changed while it is read (stamp.h). core/read and core/io note each read, and
 * check the stamp, in any thread; a watch has a lock.
 *
 * A check is one system call while the file's times stay. After a change of the time alone it reads the noted bytes again. These are the
 * first `next` bytes, whose checksum is exact, and BLOCKS places, a random sample of the blocks read. A write that leaves all of these
 * bytes alone is not found.
 */
#include "core/io/stamp.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/advance.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"

enum {
    BLOCKS = 40,       /* kept checksums of blocks */
    BLOCK = 4096,      /* bytes of a block at most */
    APART = 256 << 10, /* bytes from a block to the next one of a large read */
    AGAIN = 64 << 10   /* bytes of a read for the comparison */
};

struct yk__watch {
    pthread_mutex_t lock; /* guards all members below */
    yk__stamp stamp;
    uint64_t next; /* bytes from the beginning on */
    uint32_t sum;  /* CRC-32 of these */
    uint64_t seen; /* blocks read at a place */
    struct {
        uint64_t at;
        uint32_t bytes, sum;
    } block[BLOCKS];
};

static atomic_flag said = ATOMIC_FLAG_INIT; /* one line of the process, however many files were touched */

yk__stamp yk__stamp_of(const struct stat *st)
{
    return (yk__stamp){.device = (uint64_t)st->st_dev,
                       .inode = (uint64_t)st->st_ino,
                       .bytes = (uint64_t)st->st_size,
                       .changed_s = (int64_t)st->st_mtim.tv_sec,
                       .changed_ns = (int64_t)st->st_mtim.tv_nsec};
}

yk_status yk__watch_new(const struct stat *st, yk__watch **out, yk_error *err)
{
    yk__watch *watch = yk__calloc(1, sizeof *watch);
    if (!watch)
        return yk__fail_mem(err, sizeof *watch, "checksums of a file");
    pthread_mutex_init(&watch->lock, NULL);
    watch->stamp = yk__stamp_of(st);
    *out = watch;
    return YK_OK;
}

yk_status yk__watch_copy(const yk__watch *watch, yk__watch **out, yk_error *err)
{
    yk__watch *copy = yk__malloc(sizeof *copy);
    if (!copy)
        return yk__fail_mem(err, sizeof *copy, "checksums of a file");
    *copy = *watch;
    pthread_mutex_init(&copy->lock, NULL);
    *out = copy;
    return YK_OK;
}

void yk__watch_free(yk__watch *watch)
{
    if (watch)
        pthread_mutex_destroy(&watch->lock);
    yk__free(watch);
}

static uint32_t sum_bytes(uint32_t sum, const void *bytes, size_t n)
{
    return (uint32_t)crc32_z(sum, bytes, n);
}

void yk__watch_next(yk__watch *watch, const void *bytes, size_t n)
{
    pthread_mutex_lock(&watch->lock);
    watch->sum = sum_bytes(watch->sum, bytes, n);
    watch->next += n;
    pthread_mutex_unlock(&watch->lock);
}

/* Each block that was read has the same chance to be kept (Vitter 1985, algorithm R). */
void yk__watch_place(yk__watch *watch, uint64_t at, const void *bytes, size_t n)
{
    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < n; i += APART) {
        const uint64_t seen = watch->seen++, k = seen < BLOCKS ? seen : yk__hash_u64(YK_HASH_SEED, seen) % (seen + 1);
        const uint32_t m = n - i < BLOCK ? (uint32_t)(n - i) : BLOCK;
        if (k >= BLOCKS)
            continue;
        watch->block[k].at = at + i;
        watch->block[k].bytes = m;
        watch->block[k].sum = sum_bytes(0, (const char *)bytes + i, m);
    }
    pthread_mutex_unlock(&watch->lock);
}

/* ---- the comparison ---- */

/* False if the bytes [at, at + n) cannot be read or have another sum. */
static bool sum_holds(int fd, uint64_t at, uint64_t n, uint32_t sum)
{
    uint8_t bytes[AGAIN];
    uint32_t now = 0;
    while (n) {
        yk__act_begin(YK__ACT_FILE);
        const ssize_t r = pread(fd, bytes, n < AGAIN ? (size_t)n : AGAIN, (off_t)at);
        yk__act_end(YK__ACT_FILE);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        yk__advance();
        now = sum_bytes(now, bytes, (size_t)r);
        at += (uint64_t)r;
        n -= (uint64_t)r;
    }
    return now == sum;
}

static bool watch_holds(const yk__watch *watch, int fd)
{
    const uint64_t kept = watch->seen < BLOCKS ? watch->seen : BLOCKS;
    bool same = sum_holds(fd, 0, watch->next, watch->sum);
    for (uint64_t k = 0; k < kept && same; k++)
        same = sum_holds(fd, watch->block[k].at, watch->block[k].bytes, watch->block[k].sum);
    return same && (watch->next || kept);
}

/* A file system in user space may give an unchanged file a new number whenever the kernel has forgotten the old one. */
static bool inodes_last(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) != 0 || fs.f_type != FUSE_SUPER_MAGIC;
}

/* The caller holds the lock. A write during the comparison changes the time again, which the next check finds. */
static yk_status stamp_check(yk__watch *watch, int fd, const char *path, yk_error *err)
{
    struct stat st;
    const yk__stamp *was = &watch->stamp;
    if (fstat(fd, &st))
        return yk__fail(err, YK_E_IO, "%s: reading failed: %s", path, strerror(errno));
    const yk__stamp now = yk__stamp_of(&st);
    if (now.device != was->device || (now.inode != was->inode && inodes_last(fd)))
        return yk__fail(err, YK_E_IO, "%s: is another file than the one that was opened: a file must not be replaced while it is read",
                        path);
    if (now.bytes != was->bytes)
        return yk__fail(err, YK_E_IO, "%s: has %" PRIu64 " bytes, and had %" PRIu64
                        " when it was opened: a file must not be changed while it is read", path, now.bytes, was->bytes);
    if (now.changed_s == was->changed_s && now.changed_ns == was->changed_ns)
        return YK_OK;
    if (!watch_holds(watch, fd))
        return yk__fail(err, YK_E_IO, "%s: was written to after it was opened: a file must not be changed while it is read", path);
    watch->stamp = now;
    if (!atomic_flag_test_and_set(&said))
        yk__log(YK_LOG_WARN, path, "has a new time of change, and the bytes that were read before (they were compared): going on; later "
                "files like it go on without a line");
    return YK_OK;
}

yk_status yk__watch_check(yk__watch *watch, int fd, const char *path, yk_error *err)
{
    pthread_mutex_lock(&watch->lock);
    const yk_status s = stamp_check(watch, fd, path, err);
    pthread_mutex_unlock(&watch->lock);
    return s;
}
