/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CIFAR-10's binary format: records of 3,073 bytes (one label 0 to 9, then 1,024 red, green and blue bytes, row-major).
 * Plain or gzip. The records stay as they are in memory.
 */
#ifndef YOKE_CORE_READ_CIFAR_H
#define YOKE_CORE_READ_CIFAR_H

#include "core/io/file.h"

#define YK__CIFAR_RECORD 3073u
#define YK__CIFAR_CLASSES 10

/* Reads all records of a file; the caller frees *records. */
yk_status yk__cifar_open(const char *path, uint8_t **records, int64_t *count, yk_error *err);
yk_status yk__cifar_read(yk__file *file, uint8_t **records, int64_t *count, yk_error *err);

#endif
