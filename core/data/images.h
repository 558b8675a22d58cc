/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared part of kinds of images: records of bytes, one label each; (pixel / 255 - mean) / std; a holdout. Keys: mean, std, holdout.
 * The state of such a kind is a yk__images.
 *
 * Rows need not fit memory. Opening reads the first YK__IMAGES_HELD bytes of a set, since a small image costs less than the system call
 * that fetches it. Records of later files are read on demand. Labels are always in memory, a byte each.
 */
#ifndef YOKE_CORE_DATA_IMAGES_H
#define YOKE_CORE_DATA_IMAGES_H

#include "core/data/kind.h"
#include "core/read/blob.h"

#define YK__IMAGE_CHANNELS 16

#define YK__IMAGES_HELD ((uint64_t)256 << 20)

typedef struct yk__image_file {
    yk__blob *blob; /* owned */
    uint64_t begin; /* byte of the first record */
    int64_t first;  /* number of the first image in the set's files, from 0 */
} yk__image_file;

typedef struct yk__images {
    yk__image_file *file; /* sorted by first */
    size_t n_file, cap_file;
    uint8_t *labels; /* one per image */
    size_t cap_labels;
    int64_t count; /* images in all files */
    uint64_t held; /* bytes of them in memory */
    size_t record, skip; /* bytes of a record, and of its part before the pixels */
    int64_t chw[3];
    int64_t first; /* image of row 0 */
    double mean[YK__IMAGE_CHANNELS], std[YK__IMAGE_CHANNELS];
    float value[YK__IMAGE_CHANNELS][256]; /* normalised value of each byte of a channel */
} yk__images;

/* A kind's open() makes its state first, sets its shape and record, adds files, and finishes. */
yk_status yk__images_new(yk__dataset *set, yk__images **out, yk_error *err);
/* Largest size of the next file that may be read into memory, in bytes. */
uint64_t yk__images_left(const yk__images *images);
/* Adds a file of n records from byte `begin` of the blob on; copies their labels. Takes the blob over, also after a failure. */
yk_status yk__images_add(yk__images *images, yk__blob *blob, uint64_t begin, int64_t n, const uint8_t *labels, yk_error *err);
/* like: the set whose mean and deviation are the presets, if it has such images; NULL without one. */
yk_status yk__images_finish(yk__dataset *set, const yk__spec *spec, const yk__dataset *like, yk_error *err);

/* The functions of the kind's table. */
void yk__images_close(void *state);
int64_t yk__images_width(const yk__dataset *set, const int64_t *rows, int64_t n);
yk_status yk__images_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                          yk_error *err);
void yk__images_where(const yk__dataset *set, int64_t row, char *buf, size_t n);
yk_status yk__images_hash(const yk__dataset *set, uint64_t *hash, yk_error *err);

#endif
