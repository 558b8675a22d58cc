/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CIFAR-10's binary format: records of 3,073 bytes (one label 0 to 9, then 1,024 red, green and blue bytes, row-major).
 * Plain or gzip. The records stay unchanged in their place; labels are checked and kept.
 */
#ifndef YOKE_CORE_READ_CIFAR_H
#define YOKE_CORE_READ_CIFAR_H

#include "core/io/file.h"
#include "core/read/blob.h"

#define YK__CIFAR_RECORD 3073u
#define YK__CIFAR_CLASSES 10

typedef struct yk__cifar {
    yk__blob *records; /* all of the blob; in memory where they are at most `held` bytes, on disk where they can be */
    uint8_t *labels;   /* a label per record */
    int64_t count;
} yk__cifar;

/* *out is written on success only. yk__cifar_read: nothing of the file has been read; it stays the caller's. */
yk_status yk__cifar_open(const char *path, uint64_t held, yk__cifar *out, yk_error *err);
yk_status yk__cifar_read(yk__file *file, uint64_t held, yk__cifar *out, yk_error *err);
void yk__cifar_free(yk__cifar *cifar); /* a zeroed one too */

#endif
