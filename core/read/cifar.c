/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads CIFAR-10: the file is its records, so only size and labels have to be checked, in one pass in pieces. kind_cifar10.c and `yoke
 * inspect` open files with it, in the caller's thread. A wrong file is an error with its path.
 */
#include "core/read/cifar.h"

#include <inttypes.h>

#include "core/base/mem.h"
#include "core/io/foreign.h"

#define PIECE_RECORDS 256 /* records of a pass: 768 KiB */

static yk_status size_check(const char *path, uint64_t bytes, yk_error *err)
{
    if (bytes % YK__CIFAR_RECORD)
        return yk__fail(err, YK_E_FORMAT, "%s: %" PRIu64 " bytes, expected a multiple of %u (CIFAR-10 records)", path, bytes,
                        YK__CIFAR_RECORD);
    return YK_OK;
}

static yk_status head_check(const yk__blob *blob, uint64_t bytes, yk_error *err)
{
    uint8_t head[YK__FOREIGN_HEAD];
    const size_t n = bytes < sizeof head ? (size_t)bytes : sizeof head;
    if (yk__blob_read(blob, 0, head, n, err))
        return err->status;
    return yk__foreign_refuse(yk__blob_path(blob), YK__FOREIGN_PIXELS, head, n, bytes, err);
}

static yk_status piece_labels(const yk__blob *blob, uint8_t *piece, int64_t from, int64_t n, uint8_t *labels, yk_error *err)
{
    const uint64_t at = (uint64_t)from * YK__CIFAR_RECORD;
    if (yk__blob_read(blob, at, piece, (size_t)n * YK__CIFAR_RECORD, err))
        return err->status;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t label = piece[i * YK__CIFAR_RECORD];
        if (label >= YK__CIFAR_CLASSES)
            return yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": label %d of record %" PRId64 ", expected 0 to %d",
                            yk__blob_path(blob), at + (uint64_t)i * YK__CIFAR_RECORD, label, from + i, YK__CIFAR_CLASSES - 1);
        labels[from + i] = label;
    }
    return YK_OK;
}

static yk_status labels_read(const yk__blob *blob, uint8_t *labels, int64_t count, yk_error *err)
{
    uint8_t *piece = yk__malloc(PIECE_RECORDS * YK__CIFAR_RECORD);
    yk_status s = piece ? YK_OK : yk__fail_mem(err, PIECE_RECORDS * YK__CIFAR_RECORD, "CIFAR-10 records");
    for (int64_t from = 0; from < count && !s; from += PIECE_RECORDS)
        s = piece_labels(blob, piece, from, count - from < PIECE_RECORDS ? count - from : PIECE_RECORDS, labels, err);
    yk__free(piece);
    return s;
}

static yk_status records_read(yk__file *file, uint64_t held, yk__cifar *out, yk_error *err)
{
    const int64_t left = yk__file_left(file);
    uint64_t begin; /* 0: nothing of the file was read before */
    if (left < 0)
        return yk__blob_of_file(file, &out->records, err);
    return yk__blob_of_rest(file, (uint64_t)left, "records", held, &out->records, &begin, err);
}

yk_status yk__cifar_read(yk__file *file, uint64_t held, yk__cifar *out, yk_error *err)
{
    yk__cifar cifar = {0};
    if (records_read(file, held, &cifar, err))
        return err->status;
    const uint64_t bytes = yk__blob_bytes(cifar.records);
    yk_status s = head_check(cifar.records, bytes, err);
    if (!s)
        s = size_check(yk__file_path(file), bytes, err);
    cifar.count = (int64_t)(bytes / YK__CIFAR_RECORD);
    cifar.labels = s ? NULL : yk__malloc((size_t)cifar.count + 1);
    if (!s && !cifar.labels)
        s = yk__fail_mem(err, (uint64_t)cifar.count, "labels");
    if (!s)
        s = labels_read(cifar.records, cifar.labels, cifar.count, err);
    if (s)
        yk__cifar_free(&cifar);
    else
        *out = cifar;
    return s;
}

yk_status yk__cifar_open(const char *path, uint64_t held, yk__cifar *out, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    s = yk__cifar_read(file, held, out, err);
    yk__file_close(file);
    return s;
}

void yk__cifar_free(yk__cifar *cifar)
{
    yk__blob_close(cifar->records);
    yk__free(cifar->labels);
    *cifar = (yk__cifar){0};
}
