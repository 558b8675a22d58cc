/* SPDX-License-Identifier: Apache-2.0 */
/* A stamp has what a change of a file's bytes changes; it costs one system call, and no byte is read again. */
#include "core/io/stamp.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/vfs.h>

yk__stamp yk__stamp_of(const struct stat *st)
{
    return (yk__stamp){.device = (uint64_t)st->st_dev,
                       .inode = (uint64_t)st->st_ino,
                       .bytes = (uint64_t)st->st_size,
                       .changed_s = (int64_t)st->st_mtim.tv_sec,
                       .changed_ns = (int64_t)st->st_mtim.tv_nsec};
}

/* A file system in user space may give an unchanged file a new number whenever the kernel has forgotten the old one. */
static bool inodes_last(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) != 0 || fs.f_type != FUSE_SUPER_MAGIC;
}

yk_status yk__stamp_check(const yk__stamp *stamp, int fd, const char *path, yk_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return yk__fail(err, YK_E_IO, "%s: reading failed: %s", path, strerror(errno));
    const yk__stamp now = yk__stamp_of(&st);
    if (now.device != stamp->device || (now.inode != stamp->inode && inodes_last(fd)))
        return yk__fail(err, YK_E_IO, "%s: is another file than the one that was opened: a file must not be replaced while it is read",
                        path);
    if (now.bytes != stamp->bytes)
        return yk__fail(err, YK_E_IO, "%s: has %" PRIu64 " bytes, and had %" PRIu64
                        " when it was opened: a file must not be changed while it is read", path, now.bytes, stamp->bytes);
    if (now.changed_s != stamp->changed_s || now.changed_ns != stamp->changed_ns)
        return yk__fail(err, YK_E_IO, "%s: was written to after it was opened: a file must not be changed while it is read", path);
    return YK_OK;
}
