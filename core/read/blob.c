/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads bytes at any offset of a file. pread reads a regular file. A gzip file or a pipe can be read in order only, so opening takes all of
 * it into memory.
 *
 * At most OPEN_FILES blobs of a process keep their descriptor. Further blobs open the file for every read, so that a data set of thousands
 * of files does not run into the limit of descriptors. Each read ends with a check of the file's watch (core/io/stamp.h), as headers and
 * labels were read before: a file that somebody replaces or writes to would give bytes of two files.
 */
#include "core/read/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/base/absent.h"
#include "core/base/advance.h"
#include "core/base/mem.h"

#define OPEN_FILES 256
#define CHUNK ((size_t)16 << 20) /* bytes of a read; each read counts as progress of this rank */
#define IN_MEMORY ((uint64_t)1 << 40) /* bytes; a gzip file or a pipe that unpacks to more is refused */

struct yk__blob {
    char *path;
    uint64_t bytes; /* as of opening; reads end there */
    char *memory;   /* all of the bytes; NULL if they stay on disk */
    yk__watch *watch; /* the file's, if it is on disk */
    int fd;         /* kept open; -1 if in memory, or if each read opens the path */
};

static atomic_int open_files; /* blobs that keep a descriptor; a closed blob gives its place to a later one */

static yk_status blob_new(const char *path, yk__blob **out, yk_error *err)
{
    yk__blob *blob = yk__calloc(1, sizeof *blob);
    char *copy = yk__strdup(path);
    if (!blob || !copy) {
        yk__free(blob);
        yk__free(copy);
        return yk__fail_mem(err, sizeof *blob, "a file");
    }
    blob->path = copy;
    blob->fd = -1;
    *out = blob;
    return YK_OK;
}

yk_status yk__blob_of_file(yk__file *file, yk__blob **out, yk_error *err)
{
    yk__blob *blob;
    size_t bytes;
    if (blob_new(yk__file_path(file), &blob, err))
        return err->status;
    if (yk__file_read_rest(file, IN_MEMORY, &blob->memory, &bytes, err)) {
        yk__blob_close(blob);
        return err->status;
    }
    blob->bytes = bytes;
    *out = blob;
    return YK_OK;
}

/* All of an open file on disk. */
static yk_status blob_on_disk(const yk__file *file, yk__blob **out, yk_error *err)
{
    yk__blob *blob;
    int fd;
    if (blob_new(yk__file_path(file), &blob, err))
        return err->status;
    blob->bytes = yk__file_whole(file);
    if (yk__file_fd_copy(file, &fd, &blob->watch, err)) {
        yk__blob_close(blob);
        return err->status;
    }
    if (atomic_fetch_add(&open_files, 1) >= OPEN_FILES) {
        atomic_fetch_sub(&open_files, 1);
        close(fd);
        fd = -1;
    }
    blob->fd = fd;
    *out = blob;
    return YK_OK;
}

yk_status yk__blob_open(const char *path, yk__blob **out, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    const int64_t left = yk__file_left(file); /* -1: gzip, a pipe */
    s = left < 0 ? yk__blob_of_file(file, out, err) : blob_on_disk(file, out, err);
    yk__file_close(file);
    return s;
}

/* A blob on disk is the whole file, so the rest begins at the file's offset. A blob in memory holds the rest alone, from byte 0. */
yk_status yk__blob_of_rest(yk__file *file, uint64_t n, const char *what, uint64_t held, yk__blob **out, uint64_t *begin, yk_error *err)
{
    const int64_t left = yk__file_left(file);
    yk__blob *blob;
    void *memory;
    *begin = 0;
    if (left >= 0 && (uint64_t)left == n && n > held) {
        *begin = yk__file_offset(file);
        return blob_on_disk(file, out, err);
    }
    if (yk__file_read_exact(file, n, what, &memory, err))
        return err->status;
    if (yk__file_expect_end(file, what, err) || blob_new(yk__file_path(file), &blob, err)) {
        yk__free(memory);
        return err->status;
    }
    blob->bytes = n;
    blob->memory = memory;
    *out = blob;
    return YK_OK;
}

void yk__blob_close(yk__blob *blob)
{
    if (!blob)
        return;
    if (blob->fd >= 0) {
        close(blob->fd);
        atomic_fetch_sub(&open_files, 1);
    }
    yk__watch_free(blob->watch);
    yk__free(blob->memory);
    yk__free(blob->path);
    yk__free(blob);
}

const char *yk__blob_path(const yk__blob *blob)
{
    return blob->path;
}

uint64_t yk__blob_bytes(const yk__blob *blob)
{
    return blob->bytes;
}

const void *yk__blob_memory(const yk__blob *blob)
{
    return blob->memory;
}

static yk_status fd_read(const yk__blob *blob, int fd, uint64_t at, char *to, size_t n, yk_error *err)
{
    size_t have = 0;
    while (have < n) {
        yk__act_begin(YK__ACT_FILE);
        const ssize_t got = pread(fd, to + have, n - have < CHUNK ? n - have : CHUNK, (off_t)(at + have));
        yk__act_end(YK__ACT_FILE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return yk__fail(err, YK_E_IO, "%s: reading failed at byte %" PRIu64 ": %s", blob->path, at + have, strerror(errno));
        if (!got)
            return yk__fail(err, YK_E_IO,
                            "%s: ends at byte %" PRIu64 " or before, and had %" PRIu64
                            " bytes when it was opened: a file must not be changed while it is read",
                            blob->path, at + have, blob->bytes);
        yk__advance();
        have += (size_t)got;
    }
    yk__watch_place(blob->watch, at, to, n);
    return yk__watch_check(blob->watch, fd, blob->path, err);
}

yk_status yk__blob_read(const yk__blob *blob, uint64_t at, void *to, size_t n, yk_error *err)
{
    if (at > blob->bytes || n > blob->bytes - at)
        return yk__fail(err, YK_E_INTERNAL, "%s: %zu bytes at byte %" PRIu64 " of %" PRIu64, blob->path, n, at, blob->bytes);
    if (blob->memory) {
        memcpy(to, blob->memory + at, n);
        return YK_OK;
    }
    if (blob->fd >= 0)
        return fd_read(blob, blob->fd, at, to, n, err);
    const int fd = open(blob->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO in the file's place would wait for a writer */
    if (fd < 0)
        return yk__fail_open(err, blob->path, errno);
    const yk_status s = fd_read(blob, fd, at, to, n, err);
    close(fd);
    return s;
}
