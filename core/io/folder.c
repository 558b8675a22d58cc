/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders for safe saves: removes only files that the caller owns, syncs, exchanges two folders, and replaces several files together.
 *
 * core/io/checkpoint.c uses it for checkpoints, core/job/checkpoint/weights.c for a model's files, and other code for single files. All
 * work runs in the caller's thread.
 *
 * yk__folder_open and yk__folder_is refuse a link at the end of a path. A sync of a parent folder follows it, and so does yk__folder_move
 * at `to`.
 */
#define _GNU_SOURCE /* renameat2 */
#include "core/io/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define STAGE ".yoke-save"
#define GONE ".yoke-gone"
#define ACL "system.posix_acl_access"

/* Not inlined, as the library's size counts. */
__attribute__((noinline)) static yk_status path_fail(const char *path, const char *what, yk_error *err)
{
    return yk__fail(err, YK_E_IO, "%s: %s: %s", path, what, strerror(errno));
}

static bool name_is_dots(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

bool yk__folder_is(const char *dir)
{
    struct stat st;
    return !lstat(dir, &st) && S_ISDIR(st.st_mode);
}

yk_status yk__folder_make(const char *dir, yk_error *err)
{
    char *path = yk__strdup(dir);
    struct stat st;
    if (!path)
        return yk__fail_mem(err, strlen(dir), "a path");
    for (char *p = path + 1; *path && *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    const int failed = mkdir(path, 0777), why = errno;
    yk__free(path);
    if (failed && (stat(dir, &st) || !S_ISDIR(st.st_mode)))
        return yk__fail(err, YK_E_IO, "%s: cannot make the folder: %s", dir, strerror(why));
    return YK_OK;
}

int yk__folder_open(const char *dir, yk_error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        path_fail(dir, "cannot be opened as a folder", err);
    return fd;
}

/* The entries of an open folder, which the listing takes over. */
__attribute__((noinline)) static DIR *entries_of(int fd, const char *dir, yk_error *err)
{
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !d) {
        path_fail(dir, "cannot be listed", err);
        close(fd);
    }
    return d;
}

struct dirent *yk__folder_next(DIR *dir, const char *path, yk_error *err)
{
    errno = 0;
    struct dirent *entry = readdir(dir);
    if (!entry && errno)
        path_fail(path, "cannot be listed to its end", err);
    return entry;
}

yk_status yk__folder_remove(const char *dir, yk__folder_own own, void *user, yk_error *err)
{
    char stays[256] = "";
    struct stat st;
    if (lstat(dir, &st) && errno == ENOENT)
        return YK_OK;
    DIR *d = entries_of(yk__folder_open(dir, err), dir, err);
    if (!d)
        return err->status;
    yk_error cut = YK_ERROR_INIT;
    for (struct dirent *e; (e = yk__folder_next(d, dir, &cut));)
        if (!name_is_dots(e->d_name) && (!own(user, e->d_name) || unlinkat(dirfd(d), e->d_name, 0)))
            snprintf(stays, sizeof stays, "%s", e->d_name);
    closedir(d);
    if (cut.status)
        return yk__fail(err, cut.status, "%s", cut.text);
    if (stays[0])
        return yk__fail(err, YK_E_IO, "%s: %s in it cannot be removed or is not ours: the folder stays", dir, stays);
    return rmdir(dir) ? path_fail(dir, "cannot be removed", err) : YK_OK;
}

int yk__folder_sync_file(int fd)
{
    int failed;
    yk__act_begin(YK__ACT_SYNC);
    failed = fsync(fd);
    yk__act_end(YK__ACT_SYNC);
    yk__advance();
    return failed;
}

static yk_status sync_at(int folder, const char *name, const char *path, yk_error *err)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || yk__folder_sync_file(fd))
        path_fail(path, "cannot be synced", err);
    if (fd >= 0)
        close(fd);
    return err->status;
}

yk_status yk__folder_sync(const char *dir, yk_error *err)
{
    DIR *d = entries_of(yk__folder_open(dir, err), dir, err);
    if (!d)
        return err->status;
    for (struct dirent *e; !err->status && (e = yk__folder_next(d, dir, err));)
        if (strcmp(e->d_name, "..") != 0)
            sync_at(dirfd(d), e->d_name, dir, err);
    closedir(d);
    return err->status;
}

/* The folder at path itself, links followed. */
static yk_status sync_folder(const char *path, yk_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || yk__folder_sync_file(fd))
        path_fail(path, "cannot be synced", err);
    if (fd >= 0)
        close(fd);
    return err->status;
}

yk_status yk__folder_sync_parent(const char *path, yk_error *err)
{
    char *p = yk__strdup(path), *slash = p ? strrchr(p, '/') : NULL;
    if (!p)
        return yk__fail_mem(err, strlen(path), "a path");
    if (slash && slash != p)
        *slash = 0;
    sync_folder(slash == p ? "/" : slash ? p : ".", err);
    yk__free(p);
    return err->status;
}

/* An entry that replaces another regular file takes over its permissions. */
static yk_status entry_rights_keep(int from, const char *name, const char *to, yk_error *err)
{
    yk__folder_rights old;
    char *path = yk__format("%s/%s", to, name);
    if (!path)
        return yk__fail_mem(err, strlen(to), "a path");
    const bool there = yk__folder_rights_of(-1, path, &old) && S_ISREG(old.st.st_mode);
    const int fd = there ? openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (there && (fd < 0 || !yk__folder_rights_keep(fd, &old)))
        path_fail(path, "its permissions cannot be given to the file that replaces it", err);
    if (fd >= 0)
        close(fd);
    yk__free(path);
    return err->status;
}

yk_status yk__folder_entries_keep(const char *fresh, const char *old, yk_error *err)
{
    struct stat st;
    DIR *d = entries_of(yk__folder_open(fresh, err), fresh, err);
    for (struct dirent *e; d && !err->status && (e = yk__folder_next(d, fresh, err));)
        if (!fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
            entry_rights_keep(dirfd(d), e->d_name, old, err);
    if (d)
        closedir(d);
    return err->status;
}

/* With `own`, entries that `to` has already stay in `from`, and so do the caller's own. */
yk_status yk__folder_move(const char *from, const char *to, yk__folder_own own, void *user, yk_error *err)
{
    struct stat st;
    int dest = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dest < 0)
        return path_fail(to, "cannot be opened as a folder", err);
    DIR *d = entries_of(yk__folder_open(from, err), from, err);
    for (struct dirent *e; d && !err->status && (e = yk__folder_next(d, from, err));) {
        if (name_is_dots(e->d_name) || (own && own(user, e->d_name)))
            continue;
        const bool there = !fstatat(dest, e->d_name, &st, own ? AT_SYMLINK_NOFOLLOW : 0);
        if (own && there)
            continue;
        if (there && entry_rights_keep(dirfd(d), e->d_name, to, err))
            break;
        if (renameat(dirfd(d), e->d_name, dest, e->d_name))
            path_fail(to, e->d_name, err);
    }
    if (d)
        closedir(d);
    close(dest);
    return err->status;
}

/* One system call if available (Linux); else three renames, by way of `aside`. */
yk_status yk__folder_exchange(const char *from, const char *to, const char *aside, yk_error *err)
{
    struct stat st;
    if (lstat(to, &st)) {
        if (!rename(from, to))
            return YK_OK;
    } else {
#ifdef RENAME_EXCHANGE
        if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE))
            return YK_OK;
#endif
        if (!rename(to, aside) && !rename(from, to) && !rename(aside, from))
            return YK_OK;
    }
    return path_fail(to, "the new folder cannot be renamed to it", err);
}

/* ---- Files ---- */

/* True if a failed call means that a file has no list of permissions, or its file system none. */
static bool acl_is_absent(int why)
{
    return why == ENODATA || why == ENOTSUP || why == ENOSYS;
}

bool yk__folder_rights_of(int fd, const char *path, yk__folder_rights *rights)
{
    if (path ? stat(path, &rights->st) : fstat(fd, &rights->st))
        return false;
    rights->acl_bytes = path ? getxattr(path, ACL, rights->acl, sizeof rights->acl) : fgetxattr(fd, ACL, rights->acl, sizeof rights->acl);
    if (rights->acl_bytes < 0)
        rights->acl_bytes = acl_is_absent(errno) ? 0 : -1;
    return true;
}

/* The mode that remains for a file that has these permissions' list, if they have one. A list that cannot be kept leaves the bits to its
 * owner: it may have refused users who would have the bits of the group or of other users. */
static mode_t acl_keep(int fd, const yk__folder_rights *old, mode_t mode)
{
    if (old->acl_bytes > 0 && !fsetxattr(fd, ACL, old->acl, (size_t)old->acl_bytes, 0))
        return mode;
    const bool removed = !fremovexattr(fd, ACL) || acl_is_absent(errno); /* the folder may have given it one */
    return old->acl_bytes || !removed ? mode & ~(mode_t)(S_IRWXG | S_IRWXO) : mode;
}

/* A group that cannot be kept leaves its permissions to nobody: the members of another group would have them. Its members are other users
 * now, who get no more than it had. */
bool yk__folder_rights_keep(int fd, const yk__folder_rights *old)
{
    struct stat now;
    mode_t mode = old->st.st_mode & 07777;
    if (fstat(fd, &now))
        return false;
    if (now.st_gid != old->st.st_gid && fchown(fd, (uid_t)-1, old->st.st_gid)) {
        mode &= ~(mode_t)S_IRWXO | (mode & S_IRWXG) >> 3;
        mode = (mode & ~(mode_t)(S_ISGID | S_IRWXG)) | (mode & S_IRWXO) << 3;
        if (old->acl_bytes)
            mode &= ~(mode_t)(S_IRWXG | S_IRWXO);
    }
    if (now.st_uid != old->st.st_uid && fchown(fd, old->st.st_uid, (gid_t)-1))
        mode &= ~(mode_t)S_ISUID;
    mode = acl_keep(fd, old, mode);
    if (!fchmod(fd, mode))
        return true;
    const int why = errno; /* a file system without modes */
    const bool wider = fstat(fd, &now) || now.st_mode & 0777 & ~mode;
    errno = why;
    return !wider;
}

yk_status yk__folder_rights_keep_at(const char *dir, const yk__folder_rights *old, yk_error *err)
{
    const int fd = yk__folder_open(dir, err);
    if (fd >= 0 && !yk__folder_rights_keep(fd, old))
        path_fail(dir, "the permissions of the folder that it replaces cannot be given to it", err);
    if (fd >= 0)
        close(fd);
    return err->status;
}

/* A file of that name may be a killed run's, or one that another user keeps open: it is removed, and never written to. */
int yk__folder_successor(const char *fresh, const char *path)
{
    yk__folder_rights old;
    const bool there = yk__folder_rights_of(-1, path, &old) && S_ISREG(old.st.st_mode);
    const mode_t mode = there ? S_IRUSR | S_IWUSR : 0666; /* nobody else reads it before it has its mode */
    if (unlink(fresh) && errno != ENOENT)
        return -1;
    int fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0 && there && !yk__folder_rights_keep(fd, &old)) {
        const int why = errno;
        close(fd);
        unlink(fresh);
        errno = why;
        fd = -1;
    }
    return fd;
}

/* The bytes reach the disk, if it is one: devices and pipes have none. */
static yk_status write_whole(int fd, const char *path, const char *text, size_t bytes, yk_error *err)
{
    while (bytes) {
        ssize_t n = yk__limit_write(fd, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return path_fail(path, "writing failed", err);
        yk__advance();
        text += n;
        bytes -= (size_t)n;
    }
    return yk__folder_sync_file(fd) && errno != EINVAL && errno != EROFS ? path_fail(path, "cannot be synced", err) : YK_OK;
}

static yk_status fd_write(int fd, const char *path, const char *text, size_t bytes, yk_error *err)
{
    if (fd < 0)
        return path_fail(path, "cannot be opened for writing", err);
    write_whole(fd, path, text, bytes, err);
    if (close(fd) && !err->status)
        path_fail(path, "cannot be closed", err);
    return err->status;
}

static yk_status file_replace(const char *path, const char *text, size_t bytes, yk_error *err)
{
    char *temp_path = yk__format("%s" YK__FOLDER_TMP, path);
    if (!temp_path)
        return yk__fail_mem(err, strlen(path), "a path");
    const int fd = yk__folder_successor(temp_path, path);
    if (!fd_write(fd, temp_path, text, bytes, err) && rename(temp_path, path))
        path_fail(path, "the new file cannot be renamed to it", err);
    if (err->status && fd >= 0)
        unlink(temp_path);
    yk__free(temp_path);
    return err->status ? err->status : yk__folder_sync_parent(path, err);
}

/* True if a chain of links ends in one of procfs, such as /dev/stdout: that stands for an open file, with a position. *own: its number, if
 * it is this process's, else -1. */
static bool link_opened(const char *path, int *own)
{
    char at[PATH_MAX], to[PATH_MAX];
    struct stat st, proc, here, there;
    snprintf(at, sizeof at, "%s", path);
    for (int depth = 0; depth < 40 && !lstat(at, &st) && S_ISLNK(st.st_mode) && !stat("/proc/self", &proc); depth++) {
        char *slash = strrchr(at, '/'), *name = slash ? slash + 1 : at;
        if (st.st_dev == proc.st_dev) {
            *own = atoi(name);
            *own = !fstat(*own, &here) && !stat(at, &there) && here.st_dev == there.st_dev && here.st_ino == there.st_ino ? *own : -1;
            return true;
        }
        const ssize_t n = readlink(at, to, sizeof to - 1);
        const size_t head = n > 0 && *to == '/' ? 0 : (size_t)(name - at);
        if (n <= 0 || head + (size_t)n >= sizeof at)
            return false;
        memcpy(at + head, to, (size_t)n);
        at[head + (size_t)n] = 0;
    }
    return false;
}

int yk__folder_opened(const char *path)
{
    int own = -1;
    return link_opened(path, &own) && own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 0) : -1;
}

bool yk__folder_file(const char *path, char real[PATH_MAX])
{
    struct stat st;
    const bool there = !lstat(path, &st), is_link = there && S_ISLNK(st.st_mode);
    int own;
    if (is_link && (link_opened(path, &own) || !realpath(path, real) || stat(real, &st)))
        return false;
    if (!is_link)
        snprintf(real, PATH_MAX, "%s", path);
    return strlen(path) < PATH_MAX && (!there || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

/* True for a file that another file system or a bind put there: no rename takes its place. */
static bool file_is_mount(const char *path)
{
#ifdef STATX_ATTR_MOUNT_ROOT
    struct statx st;
    return !statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_TYPE, &st) && st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
#else
    (void)path;
    return false;
#endif
}

bool yk__folder_keeps(const char *real)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", real);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = 0;
    return !access(real, W_OK) && (file_is_mount(real) || access(slash ? dir : ".", W_OK));
}

FILE *yk__folder_stream(int fd)
{
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    const int why = errno;
    if (!f && fd >= 0)
        close(fd);
    errno = why;
    return f;
}

bool yk__folder_same(const char *one, const char *two)
{
    struct stat a, b;
    return !stat(one, &a) && !stat(two, &b) && S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

yk_status yk__folder_write_file(const char *path, const char *text, size_t bytes, yk_error *err)
{
    char real[PATH_MAX];
    int own = -1;
    if (yk__folder_file(path, real) && !yk__folder_keeps(real))
        return file_replace(real, text, bytes, err);
    const int append = link_opened(path, &own) ? O_APPEND : 0; /* another process's file; the end of a disk takes no bytes */
    if (own >= 0)
        return fd_write(fcntl(own, F_DUPFD_CLOEXEC, 0), path, text, bytes, err);
    const int fd = open(path, O_WRONLY | O_CREAT | (append ? append : O_TRUNC) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0 && errno == ENXIO)
        return yk__fail(err, YK_E_IO, "%s: is a FIFO that no program reads: start its reader first", path);
    if (fd >= 0)
        fcntl(fd, F_SETFL, append);
    return fd_write(fd, path, text, bytes, err);
}

/* ---- Several files together ----
 *
 * A save writes new files into DIR/.yoke-save.tmp. yk__stage_commit syncs them and renames the folder to DIR/.yoke-save. From that moment
 * the new files count, and yk__stage_commit moves them to their places one by one. A file NAME.yoke-gone says that NAME goes. The next
 * yk__stage_begin removes a left .yoke-save.tmp, and finishes a left .yoke-save. yk__stage_check makes a left .yoke-save an error that
 * names the remedy. It ignores a .yoke-save.tmp. */

static bool stage_owns(void *user, const char *name)
{
    (void)user, (void)name; /* no other program uses a folder of that name */
    return true;
}

/* Removes, for each NAME.yoke-gone in the stage, NAME in dir; without dir that file itself. */
static yk_status gone_remove(const char *whole, const char *dir, yk_error *err)
{
    const size_t k = strlen(GONE);
    const int place = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir && place < 0)
        return path_fail(dir, "cannot be opened as a folder", err);
    DIR *d = entries_of(yk__folder_open(whole, err), whole, err);
    for (struct dirent *e; d && !err->status && (e = yk__folder_next(d, whole, err));) {
        const size_t n = strlen(e->d_name);
        if (n <= k || strcmp(e->d_name + n - k, GONE) != 0)
            continue;
        if (dir)
            e->d_name[n - k] = 0;
        if (!unlinkat(dir ? place : dirfd(d), e->d_name, 0)) {
            if (dir)
                yk__log(YK_LOG_WARN, "save", "%s: %s belongs to the files that are replaced, and is removed", dir, e->d_name);
        } else if (errno != ENOENT && errno != EISDIR) /* a folder of that name is no file of a model */
            yk__fail(err, YK_E_IO, "%s: the former %s cannot be removed: %s", dir ? dir : whole, e->d_name, strerror(errno));
    }
    if (d)
        closedir(d);
    if (place >= 0)
        close(place);
    return err->status;
}

/* Brings the files of a whole stage to their places. */
static yk_status stage_finish(const char *whole, const char *dir, yk_error *err)
{
    if (gone_remove(whole, dir, err) || sync_folder(dir, err) || gone_remove(whole, NULL, err) ||
        yk__folder_move(whole, dir, NULL, NULL, err) || sync_folder(dir, err))
        return err->status;
    return rmdir(whole) ? path_fail(whole, "cannot be removed", err) : sync_folder(dir, err);
}

yk_status yk__stage_begin(const char *dir, char **stage, yk_error *err)
{
    char *whole = yk__format("%s/" STAGE, dir), *path = yk__format("%s/" STAGE ".tmp", dir);
    if (!whole || !path)
        yk__fail_mem(err, strlen(dir), "a path");
    else if (!yk__folder_remove(path, stage_owns, NULL, err) && (!yk__folder_is(whole) || !stage_finish(whole, dir, err)) &&
             mkdir(path, S_IRWXU)) /* a file in it may replace a closed one, whose mode it has once it is moved */
        path_fail(path, "cannot make the folder", err);
    yk__free(whole);
    if (err->status)
        yk__free(path);
    else
        *stage = path;
    return err->status;
}

yk_status yk__stage_commit(const char *dir, yk_error *err)
{
    char *whole = yk__format("%s/" STAGE, dir), *path = yk__format("%s/" STAGE ".tmp", dir);
    if (!whole || !path)
        yk__fail_mem(err, strlen(dir), "a path");
    else if (!yk__folder_sync(path, err)) {
        if (rename(path, whole))
            path_fail(whole, "the new files' folder cannot be renamed to it", err);
        else if (!sync_folder(dir, err))
            stage_finish(whole, dir, err);
    }
    yk__free(whole);
    yk__free(path);
    return err->status;
}

void yk__stage_abandon(const char *dir)
{
    yk_error ignored = YK_ERROR_INIT;
    char *path = yk__format("%s/" STAGE ".tmp", dir);
    if (path)
        yk__folder_remove(path, stage_owns, NULL, &ignored);
    yk__free(path);
}

yk_status yk__stage_check(const char *dir, yk_error *err)
{
    char *whole = yk__format("%s/" STAGE, dir);
    if (!whole)
        return yk__fail_mem(err, strlen(dir), "a path");
    if (yk__folder_is(whole))
        yk__fail(err, YK_E_FORMAT,
                 "%s: a save was interrupted while new files took the place of old ones; they lie whole in " STAGE
                 " in it: move those that are left there to %s (NAME" GONE " says that NAME is removed) and remove that folder",
                 dir, dir);
    yk__free(whole);
    return err->status;
}
