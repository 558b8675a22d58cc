/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of bytes from outside: a plain file, standard input ("-"), a gzip file (RFC 1952, several members), or memory.
 *
 * Gzip is recognized by its magic bytes or by a name that ends in ".gz"; a file of that name without gzip content is refused. Everything in
 * a gzip frame is checked (flags, header CRC, CRC-32, length, nothing behind the last member). Bytes stream through 64 KiB; a size that a
 * file merely declares never sets an allocation.
 *
 * Errors: YK_E_IO if the file cannot be opened or read, or if somebody writes to it meanwhile; YK_E_FORMAT if its gzip frame is broken;
 * YK_E_MEM. Messages begin with the path.
 * Thread rule: one thread at a time for a given object.
 */
#ifndef YOKE_CORE_IO_FILE_H
#define YOKE_CORE_IO_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/io/stamp.h"

typedef struct yk__file yk__file;

enum yk__file_mode {
    YK__FILE_AUTO, /* by magic and name, as above */
    YK__FILE_PLAIN,
    YK__FILE_GZIP /* anything else is refused */
};

yk_status yk__file_open(const char *path, enum yk__file_mode mode, yk__file **out, yk_error *err);

/* Reads from data[0..bytes), which must outlive the object. */
yk_status yk__file_from_memory(const char *name, const void *data, size_t bytes, enum yk__file_mode mode,
                               yk__file **out, yk_error *err);
void yk__file_close(yk__file *file); /* takes NULL */

/* Up to n bytes to buf; *got < n only at the end. */
yk_status yk__file_read(yk__file *file, void *buf, size_t n, size_t *got, yk_error *err);

/* Reads the n bytes that a header asks for: an error unless they are there. `what` names them in the message. The memory grows with the
 * bytes that were really read; the caller frees *out. One byte of 0 lies behind the data. */
yk_status yk__file_read_exact(yk__file *file, uint64_t n, const char *what, void **out, yk_error *err);

/* Reads the remaining bytes, at most `limit`; else as above. */
yk_status yk__file_read_rest(yk__file *file, uint64_t limit, char **out, size_t *bytes, yk_error *err);

/* Refuses further bytes. */
yk_status yk__file_expect_end(yk__file *file, const char *what, yk_error *err);

const char *yk__file_path(const yk__file *file);
uint64_t yk__file_offset(const yk__file *file); /* (unpacked) bytes handed out so far */
int64_t yk__file_left(const yk__file *file);    /* bytes not yet read, or -1 if unknown (gzip, pipes) */
uint64_t yk__file_whole(const yk__file *file);  /* bytes of the whole file, 0 if unknown (gzip, pipes) */
int yk__file_is_gzip(const yk__file *file);
/* A descriptor of the same open file, which the caller closes, and a copy of the file's watch, which the caller frees. The file is a
 * regular one that was opened by its path (yk__file_whole). YK_E_IO if no descriptor is left; then there is no watch either. */
yk_status yk__file_fd_copy(const yk__file *file, int *fd, yk__watch **watch, yk_error *err);

#endif
