/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a file, to be read at any offset: of a file on disk by pread(), of a gzip file or a pipe from memory.
 *
 * pread() and not mmap(): a file that becomes shorter under a mapping ends the process by SIGBUS, between any check and the use. Here it is
 * an error that names the file. It needs no address space either (ulimit -v, 32 bits), and what the system caches of the file is not memory
 * of the process. A read costs a system call, about 0.3 us beside the copy.
 *
 * Thread rule: opening and closing one thread; any threads read, several at once.
 */
#ifndef YOKE_CORE_READ_BLOB_H
#define YOKE_CORE_READ_BLOB_H

#include <stdint.h>

#include "core/io/file.h"

typedef struct yk__blob yk__blob;

/* "-" is standard input. Gzip is found as by yk__file_open. */
yk_status yk__blob_open(const char *path, yk__blob **out, yk_error *err);
/* All that is left of a file, in memory. */
yk_status yk__blob_of_file(yk__file *file, yk__blob **out, yk_error *err);
/*
 * The next n bytes of a file, which are its last: `what` in the message where they are not. More than `held` bytes of a file
 * that was opened by its path stay on disk; all others are read into memory. They are bytes [*begin, *begin + n) of the blob.
 */
yk_status yk__blob_of_rest(yk__file *file, uint64_t n, const char *what, uint64_t held, yk__blob **out, uint64_t *begin, yk_error *err);
void yk__blob_close(yk__blob *blob); /* takes NULL */

const char *yk__blob_path(const yk__blob *blob);
uint64_t yk__blob_bytes(const yk__blob *blob); /* when it was opened */
const void *yk__blob_memory(const yk__blob *blob); /* all of it; NULL: it is on disk */

/* Bytes [at, at + n), which lie below yk__blob_bytes. YK_E_IO where the file has become shorter. */
yk_status yk__blob_read(const yk__blob *blob, uint64_t at, void *to, size_t n, yk_error *err);

#endif
