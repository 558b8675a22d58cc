/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds that an open file was replaced under its name, or that its bytes were changed. Parts of two files would otherwise pass for one.
 *
 * A stamp has the numbers of a file that a write changes. It costs one system call. A copy over the same bytes and `touch` change its time
 * alone, so a watch then compares bytes: all bytes of a reader from the beginning to the end, and a sample of blocks of a reader at any
 * place.
 *
 * Thread rule: any threads read, several at once; opening and closing one thread.
 */
#ifndef YOKE_CORE_IO_STAMP_H
#define YOKE_CORE_IO_STAMP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/base/error.h"

typedef struct yk__stamp {
    uint64_t device, inode, bytes;
    int64_t changed_s, changed_ns; /* time of the last change of its bytes */
} yk__stamp;

yk__stamp yk__stamp_of(const struct stat *st);

typedef struct yk__watch yk__watch; /* an open file's stamp, and checksums of its bytes read so far; about 700 bytes */

/* The file was opened, and nothing is read of it yet. YK_E_MEM. */
yk_status yk__watch_new(const struct stat *st, yk__watch **out, yk_error *err);
yk_status yk__watch_copy(const yk__watch *watch, yk__watch **out, yk_error *err);
void yk__watch_free(yk__watch *watch); /* takes NULL */

/* Notes the next n bytes of a reader from the beginning on. */
void yk__watch_next(yk__watch *watch, const void *bytes, size_t n);
/* Notes n bytes that were read at a place. */
void yk__watch_place(yk__watch *watch, uint64_t at, const void *bytes, size_t n);

/* YK_E_IO with `path` if the file that fd reads is another one, or has other bytes than were noted. It notes a new time, and says so in one
 * line of the process, if the bytes are the same. */
yk_status yk__watch_check(yk__watch *watch, int fd, const char *path, yk_error *err);

#endif
