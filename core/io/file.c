/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files from the beginning to the end: data sets (core/read), texts and vocabularies (text.c), JSON (json.c) and YAML (tree.c). One
 * thread at a time reads a file, and waits for the disk or pipe. Readers that seek use other descriptors: safetensors.c opens its own, and
 * core/read/blob.c takes a copy (yk__file_fd_copy).
 *
 * Raw bytes pass through one buffer of 64 KiB; zlib unpacks gzip from it, member by member, and a plain file is copied out of it. Each
 * read(2) is an act (core/base/advance.h), and counts as progress when it returns. So a disk that hangs is reported as the reason of a rank
 * that is stuck. Each read of a regular file ends with a check of its watch (core/io/stamp.h), as a caller of yk__file_read_exact never
 * comes to the end.
 */
#include "core/io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/absent.h"
#include "core/base/advance.h"
#include "core/base/mem.h"

#define CHUNK 65536u

struct yk__file {
    char *path;
    int fd;             /* -1 for memory */
    const uint8_t *mem; /* memory not yet taken, the caller's */
    size_t mem_left;
    int64_t size; /* bytes of the raw source, -1 if unknown */
    yk__watch *watch; /* NULL unless it is a regular file that was opened by its path */
    uint64_t raw; /* raw bytes taken so far */
    uint64_t offset; /* bytes given to the caller so far, after unpacking */
    uint8_t *buf; /* raw bytes read but not yet used: buf[pos..len) */
    size_t pos, len;
    int raw_end; /* the raw source has ended */
    int gzip;   /* the bytes are gzip members, which are unpacked */
    int z_live; /* z is initialised */
    int on_disk; /* a regular file or a block device: a read that takes long is a disk that hangs; else it may be a person or a program */
    int z_end;  /* the last member has ended */
    z_stream z;
};

/* ---- raw bytes ---- */

static yk_status raw_read(yk__file *file, void *buf, size_t n, size_t *got, yk_error *err)
{
    ssize_t r;
    if (file->fd < 0) {
        *got = n < file->mem_left ? n : file->mem_left;
        memcpy(buf, file->mem, *got);
        file->mem += *got;
        file->mem_left -= *got;
        return YK_OK;
    }
    const yk__act act = file->on_disk ? YK__ACT_FILE : YK__ACT_OUTSIDE;
    yk__act_begin(act);
    do
        r = read(file->fd, buf, n);
    while (r < 0 && errno == EINTR);
    yk__act_end(act);
    if (r < 0)
        return yk__fail(err, YK_E_IO, "%s: reading failed at byte %" PRIu64 ": %s", file->path, file->raw,
                        strerror(errno));
    yk__advance();
    *got = (size_t)r;
    if (!file->watch)
        return YK_OK;
    yk__watch_next(file->watch, buf, *got);
    return yk__watch_check(file->watch, file->fd, file->path, err);
}

/* Makes buf[pos..len) non-empty, or sets raw_end. */
static yk_status buffer_fill(yk__file *file, yk_error *err)
{
    yk_status s;
    size_t got = 0;
    if (file->pos < file->len || file->raw_end)
        return YK_OK;
    s = raw_read(file, file->buf, CHUNK, &got, err);
    if (s)
        return s;
    file->pos = 0;
    file->len = got;
    file->raw += got;
    file->raw_end = got == 0;
    return YK_OK;
}

static yk_status plain_read(yk__file *file, uint8_t *out, size_t n, size_t *got, yk_error *err)
{
    size_t have = 0;
    while (have < n) {
        size_t k;
        yk_status s = buffer_fill(file, err);
        if (s)
            return s;
        if (file->raw_end)
            break;
        k = file->len - file->pos < n - have ? file->len - file->pos : n - have;
        memcpy(out + have, file->buf + file->pos, k);
        file->pos += k;
        have += k;
    }
    *got = have;
    return YK_OK;
}

/* ---- gzip ---- */

static voidpf z_alloc(voidpf user, uInt count, uInt size)
{
    (void)user;
    return yk__calloc(count, size);
}

static void z_free(voidpf user, voidpf p)
{
    (void)user;
    yk__free(p);
}

static uint64_t raw_place(const yk__file *file)
{
    return file->raw - (file->len - file->pos);
}

static yk_status z_fail(yk__file *file, int code, yk_error *err)
{
    if (code == Z_MEM_ERROR)
        return yk__fail_mem(err, 1u << 16, "inflate");
    if (code == Z_BUF_ERROR)
        return yk__fail(err, YK_E_FORMAT, "%s: gzip data end at byte %" PRIu64 ", inside a member (the file is cut)",
                        file->path, raw_place(file));
    return yk__fail(err, YK_E_FORMAT, "%s: not a sound gzip file near byte %" PRIu64 ": %s", file->path,
                    raw_place(file), file->z.msg ? file->z.msg : "damaged data");
}

/* Follows a member that has ended: begins the next one, or notes the end of the file. */
static yk_status next_member(yk__file *file, yk_error *err)
{
    yk_status s = buffer_fill(file, err);
    if (s)
        return s;
    if (file->raw_end) {
        file->z_end = 1;
        return YK_OK;
    }
    if (file->buf[file->pos] != 0x1f)
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected the end or another gzip member, found 0x%02x",
                        file->path, raw_place(file), file->buf[file->pos]);
    return inflateReset(&file->z) == Z_OK ? YK_OK : yk__fail(err, YK_E_INTERNAL, "%s: inflateReset failed", file->path);
}

static yk_status inflate_some(yk__file *file, yk_error *err)
{
    int code;
    yk_status s = buffer_fill(file, err);
    if (s)
        return s;
    file->z.next_in = file->buf + file->pos;
    file->z.avail_in = (uInt)(file->len - file->pos);
    code = inflate(&file->z, Z_NO_FLUSH);
    file->pos = file->len - file->z.avail_in;
    if (code == Z_STREAM_END)
        return next_member(file, err);
    if (code == Z_BUF_ERROR && !file->raw_end)
        return YK_OK;
    return code == Z_OK ? YK_OK : z_fail(file, code == Z_NEED_DICT ? Z_DATA_ERROR : code, err);
}

static yk_status gzip_read(yk__file *file, uint8_t *out, size_t n, size_t *got, yk_error *err)
{
    size_t have = 0;
    while (have < n && !file->z_end) {
        size_t want = n - have < (1u << 30) ? n - have : (1u << 30);
        yk_status s;
        file->z.next_out = out + have;
        file->z.avail_out = (uInt)want;
        s = inflate_some(file, err);
        if (s)
            return s;
        have += want - file->z.avail_out;
    }
    *got = have;
    return YK_OK;
}

/* ---- opening ---- */

static int ends_in_gz(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".gz");
}

static yk_status gzip_detect(yk__file *file, enum yk__file_mode mode, yk_error *err)
{
    int magic, code;
    size_t got = 1;
    yk_status s = buffer_fill(file, err);
    while (!s && got && file->len < 2) { /* a pipe may hand over one byte */
        s = raw_read(file, file->buf + file->len, CHUNK - file->len, &got, err);
        file->len += s ? 0 : got;
        file->raw += s ? 0 : got;
    }
    if (s)
        return s;
    magic = file->len >= 2 && file->buf[0] == 0x1f && file->buf[1] == 0x8b;
    file->gzip = mode == YK__FILE_GZIP || (mode == YK__FILE_AUTO && (magic || ends_in_gz(file->path)));
    if (!file->gzip)
        return YK_OK;
    if (!magic)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: expected the gzip magic 1f 8b, found %s", file->path,
                        file->len ? "something else" : "an empty file");
    file->z.zalloc = z_alloc;
    file->z.zfree = z_free;
    code = inflateInit2(&file->z, 15 + 16); /* 15: any window; 16: gzip frames only */
    if (code != Z_OK)
        return z_fail(file, code, err);
    file->z_live = 1;
    return YK_OK;
}

static yk_status file_new(const char *name, yk__file **out, yk_error *err)
{
    yk__file *file = yk__calloc(1, sizeof *file);
    if (!file)
        return yk__fail_mem(err, sizeof *file, "a file");
    file->fd = -1;
    file->size = -1;
    file->path = yk__strdup(name);
    file->buf = yk__malloc(CHUNK);
    if (!file->path || !file->buf) {
        yk__file_close(file);
        return yk__fail_mem(err, CHUNK, "a file buffer");
    }
    *out = file;
    return YK_OK;
}

static yk_status file_begin(yk__file *file, enum yk__file_mode mode, yk__file **out, yk_error *err)
{
    yk_status s = gzip_detect(file, mode, err);
    if (s)
        yk__file_close(file);
    else
        *out = file;
    return s;
}

yk_status yk__file_open(const char *path, enum yk__file_mode mode, yk__file **out, yk_error *err)
{
    int std = !strcmp(path, "-");
    struct stat st;
    yk__file *file;
    yk_status s = file_new(std ? "standard input" : path, &file, err);
    if (s)
        return s;
    yk__act_begin(YK__ACT_FILE); /* opening a FIFO waits for its writer; where none comes, a command ends */
    file->fd = std ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    yk__act_end(YK__ACT_FILE);
    if (file->fd < 0 || fstat(file->fd, &st)) {
        s = yk__fail_open(err, file->path, errno);
        yk__file_close(file);
        return s;
    }
    if (S_ISDIR(st.st_mode)) {
        yk__file_close(file);
        return yk__fail(err, YK_E_ARG, "%s: is a directory, expected a file", path);
    }
    file->on_disk = S_ISREG(st.st_mode) || S_ISBLK(st.st_mode);
    if (S_ISREG(st.st_mode) && !std) {
        file->size = st.st_size;
        if (yk__watch_new(&st, &file->watch, err)) {
            yk__file_close(file);
            return err->status;
        }
    }
    return file_begin(file, mode, out, err);
}

yk_status yk__file_from_memory(const char *name, const void *data, size_t bytes, enum yk__file_mode mode,
                               yk__file **out, yk_error *err)
{
    yk__file *file;
    yk_status s = file_new(name, &file, err);
    if (s)
        return s;
    file->mem = data;
    file->mem_left = bytes;
    file->size = (int64_t)bytes;
    return file_begin(file, mode, out, err);
}

void yk__file_close(yk__file *file)
{
    if (!file)
        return;
    if (file->z_live)
        inflateEnd(&file->z);
    if (file->fd >= 0)
        close(file->fd);
    yk__watch_free(file->watch);
    yk__free(file->buf);
    yk__free(file->path);
    yk__free(file);
}

/* core/read/blob.c alone calls it. Its pread on the copy leaves the place of this file as it is. */
yk_status yk__file_fd_copy(const yk__file *file, int *fd, yk__watch **watch, yk_error *err)
{
    *fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0)
        return yk__fail_open(err, file->path, errno);
    if (yk__watch_copy(file->watch, watch, err)) {
        close(*fd);
        return err->status;
    }
    return YK_OK;
}

/* ---- reading ---- */

yk_status yk__file_read(yk__file *file, void *buf, size_t n, size_t *got, yk_error *err)
{
    yk_status s = file->gzip ? gzip_read(file, buf, n, got, err) : plain_read(file, buf, n, got, err);
    if (!s)
        file->offset += *got;
    return s;
}

/* Reads until `limit` bytes or the end. The array grows with the bytes read, as a size that a file claims may be false. */
static yk_status read_growing(yk__file *file, uint64_t limit, char **out, size_t *bytes, yk_error *err)
{
    int64_t left = yk__file_left(file);
    size_t cap = 0, have = 0, got = 0;
    uint64_t first = left >= 0 && (uint64_t)left < limit ? (uint64_t)left : limit;
    char *p = NULL;
    yk_status s = YK_OK;
    if (left < 0 && first > CHUNK)
        first = CHUNK;
    do {
        size_t want = have ? have * 2 : (size_t)first;
        if (want > limit || (have && want / 2 != have))
            want = (size_t)limit;
        if (yk__grow(&p, &cap, want + 1, 1)) {
            s = yk__fail_mem(err, want, "the contents of a file");
            break;
        }
        s = yk__file_read(file, p + have, want - have, &got, err);
        have += s ? 0 : got;
        if (!s && have < want)
            break;
    } while (!s && have < limit && got);
    if (s) {
        yk__free(p);
        return s;
    }
    p[have] = 0;
    *out = p;
    *bytes = have;
    return YK_OK;
}

yk_status yk__file_read_exact(yk__file *file, uint64_t n, const char *what, void **out, yk_error *err)
{
    uint64_t from = file->offset;
    int64_t left = yk__file_left(file);
    size_t got;
    char *p;
    yk_status s;
    if (n >= SIZE_MAX / 2)
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": %" PRIu64 " bytes of %s, expected less than 2^63", file->path, from, n,
                        what);
    if (left >= 0 && (uint64_t)left < n)
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected %" PRIu64 " bytes of %s, found %" PRId64,
                        file->path, from, n, what, left);
    s = read_growing(file, n, &p, &got, err);
    if (s)
        return s;
    if (got < n) {
        yk__free(p);
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected %" PRIu64 " bytes of %s, found %zu",
                        file->path, from, n, what, got);
    }
    *out = p;
    return YK_OK;
}

yk_status yk__file_read_rest(yk__file *file, uint64_t limit, char **out, size_t *bytes, yk_error *err)
{
    size_t n;
    char *p;
    yk_status s;
    if (limit > SIZE_MAX / 2)
        limit = SIZE_MAX / 2;
    s = read_growing(file, limit, &p, &n, err);
    if (s)
        return s;
    s = n == limit ? yk__file_expect_end(file, "the largest size read at once", err) : YK_OK;
    if (s) {
        yk__free(p);
        return s;
    }
    *out = p;
    *bytes = n;
    return YK_OK;
}

yk_status yk__file_expect_end(yk__file *file, const char *what, yk_error *err)
{
    uint64_t at = file->offset;
    uint8_t c;
    size_t got;
    yk_status s = yk__file_read(file, &c, 1, &got, err);
    if (!s && got)
        s = yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected the end of the file after %s, found more",
                     file->path, at, what);
    return s;
}

const char *yk__file_path(const yk__file *file)
{
    return file->path;
}

uint64_t yk__file_offset(const yk__file *file)
{
    return file->offset;
}

int64_t yk__file_left(const yk__file *file)
{
    if (file->gzip || file->size < 0 || (uint64_t)file->size < file->offset)
        return -1;
    return file->size - (int64_t)file->offset;
}

uint64_t yk__file_whole(const yk__file *file)
{
    return file->gzip || file->size < 0 ? 0 : (uint64_t)file->size;
}

int yk__file_is_gzip(const yk__file *file)
{
    return file->gzip;
}
