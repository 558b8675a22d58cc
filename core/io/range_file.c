/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes ranges of a file that other processes write at the same time. core/job/checkpoint/writers.c calls it in the step thread, for the
 * tensors of a checkpoint. The object holds a descriptor that only writes, and the sum of the ranges so far.
 */
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

yk_status yk__range_file_open(yk__range_file *file, const char *dir, const char *name, uint64_t bytes, bool make, yk_error *err)
{
    *file = (yk__range_file){.fd = -1, .path = yk__format("%s/%s", dir, name), .bytes = bytes};
    if (!file->path)
        return yk__fail_mem(err, strlen(dir), "a path");
    file->fd = open(file->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (make ? O_CREAT | O_TRUNC : 0), 0666);
    if (file->fd < 0)
        return yk__fail(err, YK_E_IO, "%s: cannot be %s: %s", file->path, make ? "created" : "opened", strerror(errno));
    return make ? file_lengthen(file, err) : YK_OK;
}

yk_status yk__range_file_write(yk__range_file *file, uint64_t at, const void *data, size_t n, yk_error *err)
{
    const char *p = data;
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
