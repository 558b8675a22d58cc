/* SPDX-License-Identifier: Apache-2.0 */
/* Plain text: a whole file (or gzip) in memory, checked to be UTF-8; a byte order mark at its start is dropped. */
#ifndef YOKE_CORE_TEXT_TEXT_H
#define YOKE_CORE_TEXT_TEXT_H

#include "core/io/file.h"

/* any_bytes: no UTF-8 check, nothing dropped. The caller frees *text; one 0 lies behind it. */
yk_status yk__text_open(const char *path, int any_bytes, char **text, size_t *bytes, yk_error *err);
yk_status yk__text_read(yk__file *file, int any_bytes, char **text, size_t *bytes, yk_error *err);

#endif
