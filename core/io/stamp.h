/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether a file is still the one that was opened: nobody replaced it under its name, and nobody wrote to it. Parts of two files
 * would otherwise pass for one.
 */
#ifndef YOKE_CORE_IO_STAMP_H
#define YOKE_CORE_IO_STAMP_H

#include <stdint.h>
#include <sys/stat.h>

#include "core/base/error.h"

typedef struct yk__stamp {
    uint64_t device, inode, bytes;
    int64_t changed_s, changed_ns; /* time of the last change of its bytes */
} yk__stamp;

yk__stamp yk__stamp_of(const struct stat *st);
/* YK_E_IO with `path` if the file that fd reads is another one, or has been written to. */
yk_status yk__stamp_check(const yk__stamp *stamp, int fd, const char *path, yk_error *err);

#endif
