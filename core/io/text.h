/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain text: a whole file (or gzip) in memory, checked to be UTF-8, with the line ends of Python's text mode. A file of another program
 * (core/io/foreign.h) is refused.
 */
#ifndef YOKE_CORE_IO_TEXT_H
#define YOKE_CORE_IO_TEXT_H

#include "core/io/file.h"

/* any_bytes: no UTF-8 check, and the bytes stay as they are. The caller frees *text; one 0 lies behind it. */
yk_status yk__text_open(const char *path, int any_bytes, char **text, size_t *bytes, yk_error *err);
yk_status yk__text_read(yk__file *file, int any_bytes, char **text, size_t *bytes, yk_error *err);

/* Drops a byte order mark, and turns each CR LF and CR into one LF. Returns the new length, and writes a 0 behind it, at most to
 * text[n]. */
size_t yk__text_unify(char *text, size_t n);

#endif
