/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats that no fixed first bytes tell: a form is a test of a file's first bytes against each other and the file's size. A form has to
 * be as unlikely in legal data as a long signature; each form's comment says how unlikely.
 *
 * Shapes: head[0..n) are the file's first bytes, n <= 264; size is the whole file's bytes, 0 if unknown. Thread rule: any thread.
 */
#ifndef YOKE_CORE_IO_FOREIGN_FORMS_H
#define YOKE_CORE_IO_FOREIGN_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef bool yk__foreign_form(const unsigned char *head, size_t n, uint64_t size);

yk__foreign_form yk__form_pickle, yk__form_tfrecord, yk__form_onnx, yk__form_sentencepiece, yk__form_idx, yk__form_safetensors,
    yk__form_gzip, yk__form_tar, yk__form_compress, yk__form_bmp, yk__form_marked_utf16, yk__form_marked_utf32, yk__form_bare_utf16,
    yk__form_bare_utf32, yk__form_text;

#endif
