/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads IDX, the format of MNIST's files: header, then exactly the elements, turned into the host's byte order in place. kind_idx.c and
 * `yoke inspect` open files with it, in the caller's thread. A length that differs from the header's is an error with both numbers.
 */
#include "core/read/idx.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/byte_order.h"
#include "core/base/mem.h"
#include "core/io/foreign.h"

struct yk__idx {
    enum yk__idx_type type;
    int rank;
    int64_t shape[YK__IDX_DIMS];
    void *data;
};

static const struct {
    uint8_t code, bytes;
    const char *name;
} types[] = {{YK__IDX_U8, 1, "u8"},   {YK__IDX_I8, 1, "i8"},   {YK__IDX_I16, 2, "i16"},
             {YK__IDX_I32, 4, "i32"}, {YK__IDX_F32, 4, "f32"}, {YK__IDX_F64, 8, "f64"}};

static int find_type(int code)
{
    for (int i = 0; i < (int)(sizeof types / sizeof types[0]); i++)
        if (types[i].code == code)
            return i;
    return -1;
}

static yk_status header_bytes(yk__file *file, uint8_t *to, size_t n, const char *what, yk_error *err)
{
    uint64_t at = yk__file_offset(file);
    size_t got;
    yk_status s = yk__file_read(file, to, n, &got, err);
    if (s)
        return s;
    if (got < n)
        return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": expected %s (%zu bytes), found %zu",
                        yk__file_path(file), at, what, n, got);
    return YK_OK;
}

/* Words for a file without IDX's magic m, which was read: another program's format, or the bytes found. */
static yk_status magic_refuse(yk__file *file, const uint8_t m[4], yk_error *err)
{
    uint8_t head[YK__FOREIGN_HEAD] = {m[0], m[1], m[2], m[3]};
    size_t got;
    if (yk__file_read(file, head + 4, sizeof head - 4, &got, err) ||
        yk__foreign_refuse(yk__file_path(file), YK__FOREIGN_IDX, head, got + 4, yk__file_whole(file), err))
        return err->status;
    if (m[0] || m[1])
        return yk__fail(err, YK_E_FORMAT,
                        "%s: byte 0: expected the IDX magic 00 00 TYPE RANK, found %02x %02x %02x %02x",
                        yk__file_path(file), m[0], m[1], m[2], m[3]);
    return yk__fail(err, YK_E_FORMAT, "%s: byte 2: expected an IDX type (08 09 0b 0c 0d 0e), found %02x", yk__file_path(file), m[2]);
}

static yk_status read_magic(yk__file *file, yk__idx *idx, yk_error *err)
{
    uint8_t m[4];
    yk_status s = header_bytes(file, m, 4, "the IDX magic", err);
    if (s)
        return s;
    if (m[0] || m[1] || find_type(m[2]) < 0)
        return magic_refuse(file, m, err);
    if (m[3] < 1 || m[3] > YK__IDX_DIMS)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 3: expected 1 to %d dimensions, found %d", yk__file_path(file),
                        YK__IDX_DIMS, m[3]);
    idx->type = m[2];
    idx->rank = m[3];
    return YK_OK;
}

/* The dimensions, and in *bytes the size of the data. A dimension of 0 leaves the other dimensions bounded too: a product without
 * it would overflow. */
static yk_status read_shape(yk__file *file, yk__idx *idx, uint64_t *bytes, yk_error *err)
{
    uint64_t n = types[find_type((int)idx->type)].bytes;
    bool is_empty = false;
    uint8_t d[4];
    for (int i = 0; i < idx->rank; i++) {
        uint64_t v;
        yk_status s = header_bytes(file, d, 4, "a dimension", err);
        if (s)
            return s;
        v = (uint64_t)d[0] << 24 | (uint64_t)d[1] << 16 | (uint64_t)d[2] << 8 | d[3];
        if (v && n > (uint64_t)(INT64_MAX) / v)
            return yk__fail(err, YK_E_FORMAT, "%s: byte %d: dimension %d is %" PRIu64 ", the size overflows 64 bits",
                            yk__file_path(file), 4 + 4 * i, i, v);
        n *= v ? v : 1;
        is_empty = is_empty || !v;
        idx->shape[i] = (int64_t)v;
    }
    *bytes = is_empty ? 0 : n;
    return YK_OK;
}

static yk_status read_all(yk__file *file, yk__idx *idx, yk_error *err)
{
    uint64_t bytes = 0;
    yk_status s = read_magic(file, idx, err);
    if (!s)
        s = read_shape(file, idx, &bytes, err);
    if (!s)
        s = yk__file_read_exact(file, bytes, "elements", &idx->data, err);
    if (!s)
        s = yk__file_expect_end(file, "the elements", err);
    if (!s && YK__LITTLE_ENDIAN) /* the file is big-endian */
        yk__bytes_swap(idx->data, bytes, types[find_type((int)idx->type)].bytes);
    return s;
}

yk_status yk__idx_read(yk__file *file, yk__idx **out, yk_error *err)
{
    yk__idx *idx = yk__calloc(1, sizeof *idx);
    yk_status s;
    if (!idx)
        return yk__fail_mem(err, sizeof *idx, "an IDX file");
    s = read_all(file, idx, err);
    if (s)
        yk__idx_close(idx);
    else
        *out = idx;
    return s;
}

yk_status yk__idx_open(const char *path, yk__idx **out, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    s = yk__idx_read(file, out, err);
    yk__file_close(file);
    return s;
}

static yk_status read_header(yk__file *file, yk__idx *idx, uint64_t held, yk__blob **elements, uint64_t *begin, yk_error *err)
{
    uint64_t bytes = 0;
    if (read_magic(file, idx, err) || read_shape(file, idx, &bytes, err))
        return err->status;
    return yk__blob_of_rest(file, bytes, "elements", held, elements, begin, err);
}

yk_status yk__idx_open_blob(const char *path, uint64_t held, yk__idx **out, yk__blob **elements, uint64_t *begin, yk_error *err)
{
    yk__idx *idx = yk__calloc(1, sizeof *idx);
    yk__file *file;
    yk_status s = idx ? yk__file_open(path, YK__FILE_AUTO, &file, err) : yk__fail_mem(err, sizeof *idx, "an IDX file");
    if (!s) {
        s = read_header(file, idx, held, elements, begin, err);
        yk__file_close(file);
    }
    if (s)
        yk__idx_close(idx);
    else
        *out = idx;
    return s;
}

void yk__idx_close(yk__idx *idx)
{
    if (idx)
        yk__free(idx->data);
    yk__free(idx);
}

enum yk__idx_type yk__idx_type(const yk__idx *idx)
{
    return idx->type;
}

const char *yk__idx_type_name(const yk__idx *idx)
{
    return types[find_type((int)idx->type)].name;
}

int yk__idx_rank(const yk__idx *idx)
{
    return idx->rank;
}

const int64_t *yk__idx_shape(const yk__idx *idx)
{
    return idx->shape;
}

const void *yk__idx_data(const yk__idx *idx)
{
    return idx->data;
}

static yk_status check_labels(const yk__idx *labels, const char *path, int classes, yk_error *err)
{
    const uint8_t *v = labels->data;
    for (int64_t i = 0; i < labels->shape[0]; i++)
        if (v[i] >= classes)
            return yk__fail(err, YK_E_FORMAT, "%s: label %" PRId64 " is %d, expected 0 to %d", path, i, v[i],
                            classes - 1);
    return YK_OK;
}

yk_status yk__idx_check_pair(const yk__idx *images, const char *images_path, const yk__idx *labels,
                             const char *labels_path, int classes, yk_error *err)
{
    if (images->type != YK__IDX_U8 || images->rank < 3 || images->rank > 4)
        return yk__fail(err, YK_E_FORMAT, "%s: expected images (u8 of 3 or 4 dimensions), found %s of %d", images_path,
                        yk__idx_type_name(images), images->rank);
    if (labels->type != YK__IDX_U8 || labels->rank != 1)
        return yk__fail(err, YK_E_FORMAT, "%s: expected labels (u8 of 1 dimension), found %s of %d", labels_path,
                        yk__idx_type_name(labels), labels->rank);
    if (images->shape[0] != labels->shape[0])
        return yk__fail(err, YK_E_FORMAT, "%s: %" PRId64 " labels for the %" PRId64 " images of %s", labels_path,
                        labels->shape[0], images->shape[0], images_path);
    return check_labels(labels, labels_path, classes, err);
}
