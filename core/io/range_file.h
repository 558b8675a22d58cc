/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that several processes write together, each its own ranges. One makes it at its full length, and the rest open it behind that.
 * Over a network file system, too: a process never reads the file, so no page goes back with another process's old bytes.
 *
 * Each process sums its ranges up (core/base/crc32c.h). Thread rule: one thread per object. Errors: YK_E_IO, YK_E_MEM; messages begin with
 * the path.
 */
#ifndef YOKE_CORE_IO_RANGE_FILE_H
#define YOKE_CORE_IO_RANGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__range_file {
    int fd;
    char *path;
    uint64_t bytes; /* the file's length */
    uint64_t ahead; /* bytes written since the system was last told to begin */
    uint32_t sum;   /* the parts of the file's CRC-32C that this object has written */
} yk__range_file;

/* dir: the open folder, which messages call `folder`; AT_FDCWD: the folder of that path. make: makes a file of that length; else it is
 * there. */
yk_status yk__range_file_open(yk__range_file *file, int dir, const char *folder, const char *name, uint64_t bytes, bool make,
                              yk_error *err);
/* Writes bytes [at, at + n), each byte of the file once. */
yk_status yk__range_file_write(yk__range_file *file, uint64_t at, const void *data, size_t n, yk_error *err);
/* Syncs, unless `err` says a failure, and closes. Takes a zeroed object. */
yk_status yk__range_file_close(yk__range_file *file, yk_error *err);

#endif
