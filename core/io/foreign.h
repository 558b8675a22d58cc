/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other programs, recognized by their first bytes. A raw format (token ids, text, CIFAR's records) has no signature of its own:
 * its reader would take another program's header for content. Each reader of outside files asks here first.
 *
 * One table (foreign.c) serves every reader; tests/unit/data/foreign.c runs its formats through each reader. A signature of letters alone
 * counts only if a control byte lies within the first YK__FOREIGN_HEAD bytes: "GGUF is a format" is text.
 */
#ifndef YOKE_CORE_IO_FOREIGN_H
#define YOKE_CORE_IO_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum { YK__FOREIGN_HEAD = 264 }; /* bytes of a file's beginning that suffice for every signature (tar's lies at byte 257) */

/* The use that a reader makes of bytes; a reader's own format is not foreign to it. ANY stands before a guess of the kind. */
enum yk__foreign_reader {
    YK__FOREIGN_TOKENS,
    YK__FOREIGN_PIXELS, /* records of CIFAR */
    YK__FOREIGN_IDX,    /* asks only if the magic is not IDX's */
    YK__FOREIGN_TEXT,   /* text, CSV, JSON, settings, vocabularies */
    YK__FOREIGN_BYTES,  /* text whose bytes are the ids: any bytes are legal */
    YK__FOREIGN_TENSORS,
    YK__FOREIGN_ANY,
    YK__FOREIGN_READERS
};

enum { YK__FOREIGN_WORDS = 192 };

/*
 * True if the n bytes at `head`, a file's first, are another program's format; words: "this is FORMAT: REMEDY".
 * size: bytes of the whole file, unpacked; 0 if unknown, as of a pipe. Thread rule: any thread.
 */
bool yk__foreign_words(enum yk__foreign_reader reader, const void *head, size_t n, uint64_t size, char words[YK__FOREIGN_WORDS]);

/* YK_E_FORMAT if the n bytes at `head`, a file's first, are another program's format, in those words behind the path. */
yk_status yk__foreign_refuse(const char *path, enum yk__foreign_reader reader, const void *head, size_t n, uint64_t size, yk_error *err);

#endif
