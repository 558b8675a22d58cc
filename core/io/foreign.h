/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other programs, recognized by their first bytes. A raw format (token ids, text, CIFAR's records) has no signature of its own:
 * its reader would take another program's header for content. Each reader of outside files asks here first.
 *
 * A signature of letters alone counts only if a control byte lies within the first YK__FOREIGN_HEAD bytes: "GGUF is a format" is text.
 */
#ifndef YOKE_CORE_IO_FOREIGN_H
#define YOKE_CORE_IO_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

enum { YK__FOREIGN_HEAD = 264 }; /* bytes of a file's beginning that suffice for every signature (tar's lies at byte 257) */

/* The reader's use of bytes: a mark of UTF-16 is no foreign header before ids or pixels, nor is safetensors' before a reader of
 * safetensors. */
enum yk__foreign_reader { YK__FOREIGN_BINARY, YK__FOREIGN_TEXT, YK__FOREIGN_TENSORS };

enum { YK__FOREIGN_WORDS = 192 };

/* True if the n bytes at `head`, a file's first, are another program's format; words: "this is FORMAT: REMEDY". Thread rule: any thread. */
bool yk__foreign_words(enum yk__foreign_reader reader, const void *head, size_t n, char words[YK__FOREIGN_WORDS]);

/* YK_E_FORMAT if the n bytes at `head`, a file's first, are another program's format, in those words behind the path. */
yk_status yk__foreign_refuse(const char *path, enum yk__foreign_reader reader, const void *head, size_t n, yk_error *err);

#endif
