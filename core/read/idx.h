/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX, the format of MNIST: two bytes of 0, a type byte, the number of dimensions, each dimension as a big-endian u32,
 * then exactly the elements, big-endian. Plain or gzip.
 *
 * Lifetime: the object owns the data until yk__idx_close. Immutable, so any thread may read it.
 */
#ifndef YOKE_CORE_READ_IDX_H
#define YOKE_CORE_READ_IDX_H

#include "core/io/file.h"
#include "core/read/blob.h"

#define YK__IDX_DIMS 8

typedef struct yk__idx yk__idx;

enum yk__idx_type {
    YK__IDX_U8 = 0x08,
    YK__IDX_I8 = 0x09,
    YK__IDX_I16 = 0x0b,
    YK__IDX_I32 = 0x0c,
    YK__IDX_F32 = 0x0d,
    YK__IDX_F64 = 0x0e
};

yk_status yk__idx_open(const char *path, yk__idx **out, yk_error *err);
yk_status yk__idx_read(yk__file *file, yk__idx **out, yk_error *err); /* f stays the caller's */
/*
 * The header alone (yk__idx_data is NULL): the elements, big-endian, are the rest of *elements from *begin on, in memory where they
 * are at most `held` bytes and on disk where they can be (yk__blob_of_rest).
 */
yk_status yk__idx_open_blob(const char *path, uint64_t held, yk__idx **out, yk__blob **elements, uint64_t *begin, yk_error *err);
void yk__idx_close(yk__idx *idx);                                     /* takes NULL */

enum yk__idx_type yk__idx_type(const yk__idx *idx);
const char *yk__idx_type_name(const yk__idx *idx);
int yk__idx_rank(const yk__idx *idx);
const int64_t *yk__idx_shape(const yk__idx *idx);
const void *yk__idx_data(const yk__idx *idx); /* elements in the host's byte order */

/* Refuses a pair that does not belong together: images must be u8 of rank 3 (or 4), labels u8 of rank 1 below
 * `classes`, and as many labels as images. The names are for the message. */
yk_status yk__idx_check_pair(const yk__idx *images, const char *images_path, const yk__idx *labels,
                             const char *labels_path, int classes, yk_error *err);

#endif
