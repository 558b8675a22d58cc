/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading files. Raw bytes come through one buffer; gzip is unpacked from it by zlib, member by member, and a plain file is copied
 * out of it.
 */
#include "core/io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/advance.h"
#include "core/base/mem.h"

#define CHUNK 65536u

struct yk__file {
    char *path;
    int fd;             /* -1: memory */
    const uint8_t *mem; /* memory not yet taken */
    size_t mem_left;
    int64_t size; /* bytes of the raw source, -1 unknown */
    uint64_t raw; /* raw bytes taken so far */
    uint64_t offset;
    uint8_t *buf; /* raw bytes read but not yet used: buf[pos..len) */
    size_t pos, len;
    int raw_end;
    int gzip;   /* unpack */
    int z_live; /* z is initialised */
    int z_end;  /* the last member has ended */
    z_stream z;
};

/* ---- raw bytes ---- */

static yk_status raw_read(yk__file *f, void *buf, size_t n, size_t *got, yk_error *err)
{
    ssize_t r;
    if (f->fd < 0) {
        *got = n < f->mem_left ? n : f->mem_left;
        memcpy(buf, f->mem, *got);
        f->mem += *got;
        f->mem_left -= *got;
        return YK_OK;
    }
    do
        r = read(f->fd, buf, n);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return yk__fail(err, YK_E_IO, "%s: reading failed at byte %" PRIu64 ": %s", f->path, f->raw, strerror(errno));
    yk__advance();
    *got = (size_t)r;
    return YK_OK;
}

/* Makes buf[pos..len) non-empty, or sets raw_end. */
static yk_status buffer_fill(yk__file *f, yk_error *err)
{
    yk_status s;
    size_t got = 0;
    if (f->pos < f->len || f->raw_end)
        return YK_OK;
    s = raw_read(f, f->buf, CHUNK, &got, err);
    if (s)
        return s;
    f->pos = 0;
    f->len = got;
    f->raw += got;
    f->raw_end = got == 0;
    return YK_OK;
}

static yk_status plain_read(yk__file *f, uint8_t *out, size_t n, size_t *got, yk_error *err)
{
    size_t have = 0;
    while (have < n) {
        size_t k;
        yk_status s = buffer_fill(f, err);
        if (s)
            return s;
        if (f->raw_end)
            break;
        k = f->len - f->pos < n - have ? f->len - f->pos : n - have;
        memcpy(out + have, f->buf + f->pos, k);
        f->pos += k;
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

static uint64_t raw_place(const yk__file *f)
{
    return f->raw - (f->len - f->pos);
}

static yk_status z_fail(yk__file *f, int code, yk_error *err)
{
    if (code == Z_MEM_ERROR)
        return yk__fail_mem(err, 1u << 16, "inflate");
    if (code == Z_BUF_ERROR)
        return yk__fail(err, YK_E_FORMAT, "%s: gzip data end at byte %" PRIu64 ", inside a member (the file is cut)",
                        f->path, raw_place(f));
    return yk__fail(err, YK_E_FORMAT, "%s: not a sound gzip file near byte %" PRIu64 ": %s", f->path, raw_place(f),
                    f->z.msg ? f->z.msg : "damaged data");
}

/* A member has ended: another one may follow, and nothing else. */
static yk_status next_member(yk__file *f, yk_error *err)
{
    yk_status s = buffer_fill(f, err);
    if (s)
        return s;
    if (f->raw_end) {
        f->z_end = 1;
        return YK_OK;
    }
    if (f->buf[f->pos] != 0x1f)
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected the end or another gzip member, found 0x%02x",
                        f->path, raw_place(f), f->buf[f->pos]);
    return inflateReset(&f->z) == Z_OK ? YK_OK : yk__fail(err, YK_E_INTERNAL, "%s: inflateReset failed", f->path);
}

static yk_status inflate_some(yk__file *f, yk_error *err)
{
    int code;
    yk_status s = buffer_fill(f, err);
    if (s)
        return s;
    f->z.next_in = f->buf + f->pos;
    f->z.avail_in = (uInt)(f->len - f->pos);
    code = inflate(&f->z, Z_NO_FLUSH);
    f->pos = f->len - f->z.avail_in;
    if (code == Z_STREAM_END)
        return next_member(f, err);
    if (code == Z_BUF_ERROR && !f->raw_end)
        return YK_OK;
    return code == Z_OK ? YK_OK : z_fail(f, code == Z_NEED_DICT ? Z_DATA_ERROR : code, err);
}

static yk_status gzip_read(yk__file *f, uint8_t *out, size_t n, size_t *got, yk_error *err)
{
    size_t have = 0;
    while (have < n && !f->z_end) {
        size_t want = n - have < (1u << 30) ? n - have : (1u << 30);
        yk_status s;
        f->z.next_out = out + have;
        f->z.avail_out = (uInt)want;
        s = inflate_some(f, err);
        if (s)
            return s;
        have += want - f->z.avail_out;
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

static yk_status gzip_detect(yk__file *f, enum yk__file_mode mode, yk_error *err)
{
    int magic, code;
    size_t got = 1;
    yk_status s = buffer_fill(f, err);
    while (!s && got && f->len < 2) { /* a pipe may hand over one byte */
        s = raw_read(f, f->buf + f->len, CHUNK - f->len, &got, err);
        f->len += s ? 0 : got;
        f->raw += s ? 0 : got;
    }
    if (s)
        return s;
    magic = f->len >= 2 && f->buf[0] == 0x1f && f->buf[1] == 0x8b;
    f->gzip = mode == YK__FILE_GZIP || (mode == YK__FILE_AUTO && (magic || ends_in_gz(f->path)));
    if (!f->gzip)
        return YK_OK;
    if (!magic)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: expected the gzip magic 1f 8b, found %s", f->path,
                        f->len ? "something else" : "an empty file");
    f->z.zalloc = z_alloc;
    f->z.zfree = z_free;
    code = inflateInit2(&f->z, 15 + 16); /* 15: any window; 16: gzip frames only */
    if (code != Z_OK)
        return z_fail(f, code, err);
    f->z_live = 1;
    return YK_OK;
}

static yk_status file_new(const char *name, yk__file **out, yk_error *err)
{
    yk__file *f = yk__calloc(1, sizeof *f);
    if (!f)
        return yk__fail_mem(err, sizeof *f, "a file");
    f->fd = -1;
    f->size = -1;
    f->path = yk__strdup(name);
    f->buf = yk__malloc(CHUNK);
    if (!f->path || !f->buf) {
        yk__file_close(f);
        return yk__fail_mem(err, CHUNK, "a file buffer");
    }
    *out = f;
    return YK_OK;
}

static yk_status file_begin(yk__file *f, enum yk__file_mode mode, yk__file **out, yk_error *err)
{
    yk_status s = gzip_detect(f, mode, err);
    if (s)
        yk__file_close(f);
    else
        *out = f;
    return s;
}

yk_status yk__file_open(const char *path, enum yk__file_mode mode, yk__file **out, yk_error *err)
{
    int std = !strcmp(path, "-");
    struct stat st;
    yk__file *f;
    yk_status s = file_new(std ? "standard input" : path, &f, err);
    if (s)
        return s;
    f->fd = std ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &st)) {
        s = yk__fail_open(err, f->path, errno);
        yk__file_close(f);
        return s;
    }
    if (S_ISDIR(st.st_mode)) {
        yk__file_close(f);
        return yk__fail(err, YK_E_ARG, "%s: is a directory, expected a file", path);
    }
    if (S_ISREG(st.st_mode) && !std)
        f->size = st.st_size;
    return file_begin(f, mode, out, err);
}

yk_status yk__file_from_memory(const char *name, const void *data, size_t bytes, enum yk__file_mode mode,
                               yk__file **out, yk_error *err)
{
    yk__file *f;
    yk_status s = file_new(name, &f, err);
    if (s)
        return s;
    f->mem = data;
    f->mem_left = bytes;
    f->size = (int64_t)bytes;
    return file_begin(f, mode, out, err);
}

void yk__file_close(yk__file *f)
{
    if (!f)
        return;
    if (f->z_live)
        inflateEnd(&f->z);
    if (f->fd >= 0)
        close(f->fd);
    yk__free(f->buf);
    yk__free(f->path);
    yk__free(f);
}

/* ---- reading ---- */

yk_status yk__file_read(yk__file *f, void *buf, size_t n, size_t *got, yk_error *err)
{
    yk_status s = f->gzip ? gzip_read(f, buf, n, got, err) : plain_read(f, buf, n, got, err);
    if (!s)
        f->offset += *got;
    return s;
}

/* Reads until `limit` bytes or the end, growing as the bytes come in. */
static yk_status read_growing(yk__file *f, uint64_t limit, char **out, size_t *bytes, yk_error *err)
{
    int64_t left = yk__file_left(f);
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
        s = yk__file_read(f, p + have, want - have, &got, err);
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

yk_status yk__file_read_exact(yk__file *f, uint64_t n, const char *what, void **out, yk_error *err)
{
    uint64_t from = f->offset;
    int64_t left = yk__file_left(f);
    size_t got;
    char *p;
    yk_status s;
    if ((left >= 0 && (uint64_t)left < n) || n >= SIZE_MAX / 2)
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected %" PRIu64 " bytes of %s, found %" PRId64,
                        f->path, from, n, what, left);
    s = read_growing(f, n, &p, &got, err);
    if (s)
        return s;
    if (got < n) {
        yk__free(p);
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected %" PRIu64 " bytes of %s, found %zu", f->path,
                        from, n, what, got);
    }
    *out = p;
    return YK_OK;
}

yk_status yk__file_read_rest(yk__file *f, uint64_t limit, char **out, size_t *bytes, yk_error *err)
{
    size_t n;
    char *p;
    yk_status s;
    if (limit > SIZE_MAX / 2)
        limit = SIZE_MAX / 2;
    s = read_growing(f, limit, &p, &n, err);
    if (s)
        return s;
    s = n == limit ? yk__file_expect_end(f, "the largest size read at once", err) : YK_OK;
    if (s) {
        yk__free(p);
        return s;
    }
    *out = p;
    *bytes = n;
    return YK_OK;
}

yk_status yk__file_expect_end(yk__file *f, const char *what, yk_error *err)
{
    uint64_t at = f->offset;
    uint8_t c;
    size_t got;
    yk_status s = yk__file_read(f, &c, 1, &got, err);
    if (!s && got)
        s = yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected the end of the file after %s, found more",
                     f->path, at, what);
    return s;
}

const char *yk__file_path(const yk__file *f)
{
    return f->path;
}

uint64_t yk__file_offset(const yk__file *f)
{
    return f->offset;
}

int64_t yk__file_left(const yk__file *f)
{
    if (f->gzip || f->size < 0 || (uint64_t)f->size < f->offset)
        return -1;
    return f->size - (int64_t)f->offset;
}

int yk__file_is_gzip(const yk__file *f)
{
    return f->gzip;
}
