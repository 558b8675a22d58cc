/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes ranges of a file that other processes write at the same time. core/job/checkpoint/writers.c calls it in the step thread, for the
 * tensors of a checkpoint. The object holds a descriptor that only writes, and the sum of the ranges so far.
 */
#define _GNU_SOURCE /* sync_file_range */
#include "core/io/range_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/crc32c.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/io/folder.h"

#define WRITE_BACK ((uint64_t)32 << 20) /* bytes after which the system begins to write */

static yk_status fail_writing(const yk__range_file *file, yk_error *err)
{
    return yk__fail(err, YK_E_IO, "%s: writing failed: %s", file->path, strerror(errno));
}

/* Grows the file to its length. A process has a limit of file size. */
static yk_status file_lengthen(const yk__range_file *file, yk_error *err)
{
    yk__limit_held held;
    yk__limit_hold(&held);
    if (ftruncate(file->fd, (off_t)file->bytes))
        fail_writing(file, err);
    yk__limit_release(&held);
    return err->status;
}

yk_status yk__range_file_open(yk__range_file *file, int dir, const char *folder, const char *name, uint64_t bytes, bool make,
                              yk_error *err)
{
    YK__ACT_HERE(YK__ACT_FILE); /* a file system without holes writes zeros */
    *file = (yk__range_file){.fd = -1, .path = yk__format("%s/%s", folder, name), .bytes = bytes};
    if (!file->path)
        return yk__fail_mem(err, strlen(folder), "a path");
    file->fd = openat(dir, dir == AT_FDCWD ? file->path : name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (make ? O_CREAT | O_TRUNC : 0), 0666);
    if (file->fd < 0)
        return yk__fail(err, YK_E_IO, "%s: cannot be %s: %s", file->path, make ? "created" : "opened", strerror(errno));
    return make ? file_lengthen(file, err) : YK_OK;
}

yk_status yk__range_file_write(yk__range_file *file, uint64_t at, const void *data, size_t n, yk_error *err)
{
    const char *p = data;
    const size_t all = n;
    file->sum ^= yk__crc32c_part(data, n, file->bytes - at - n);
    while (n) {
        yk__limit_held held;
        yk__act_begin(YK__ACT_FILE);
        yk__limit_hold(&held);
        const ssize_t some = pwrite(file->fd, p, n, (off_t)at);
        const int error = errno;
        yk__limit_release(&held);
        yk__act_end(YK__ACT_FILE);
        errno = error;
        if (some < 0 && errno != EINTR)
            return fail_writing(file, err);
        yk__advance();
        p += some > 0 ? some : 0;
        at += some > 0 ? (uint64_t)some : 0;
        n -= some > 0 ? (size_t)some : 0;
    }
    file->ahead += all;
    if (file->ahead >= WRITE_BACK) { /* the disk works meanwhile, and the sync at the end waits for little */
        YK__ACT_HERE(YK__ACT_FILE);
        sync_file_range(file->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        file->ahead = 0;
    }
    return YK_OK;
}

yk_status yk__range_file_close(yk__range_file *file, yk_error *err)
{
    if (!file->path)
        return err->status;
    if (!err->status && yk__folder_sync_file(file->fd))
        yk__fail(err, YK_E_IO, "%s: cannot be synced: %s", file->path, strerror(errno));
    if (file->fd >= 0 && close(file->fd) && !err->status)
        yk__fail(err, YK_E_IO, "%s: cannot be closed: %s", file->path, strerror(errno));
    yk__free(file->path);
    file->path = NULL;
    return err->status;
}
