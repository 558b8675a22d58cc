/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kinds of images have in common: records of bytes, one label each; (pixel / 255 - mean) / std; a holdout.
 * Keys: mean, std, holdout. The state of such a kind is a yk__images.
 */
#ifndef YOKE_CORE_DATA_IMAGES_H
#define YOKE_CORE_DATA_IMAGES_H

#include "core/data/kind.h"

#define YK__IMAGE_CHANNELS 16

typedef struct yk__images {
    uint8_t *pixels;       /* image i at pixels + i * record + skip; owned */
    const uint8_t *labels; /* label i at labels[i * label_stride] */
    uint8_t *labels_memory; /* owned, or NULL: labels lie in the records */
    size_t record, skip, label_stride;
    int64_t chw[3];
    int64_t first; /* image of row 0 */
    float value[YK__IMAGE_CHANNELS][256]; /* what a byte of a channel becomes */
} yk__images;

/* A kind's open() makes its state first, fills in the records of `count` images and their shape, and finishes. */
yk_status yk__images_new(yk__dataset *set, yk__images **out, yk_error *err);
yk_status yk__images_finish(yk__dataset *set, const yk__spec *spec, int64_t count, yk_error *err);

/* The functions of the kind's table. */
void yk__images_close(void *state);
int64_t yk__images_width(const yk__dataset *set, const int64_t *rows, int64_t n);
yk_status yk__images_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                          yk_error *err);
void yk__images_where(const yk__dataset *set, int64_t row, char *buf, size_t n);
yk_status yk__images_hash(const yk__dataset *set, uint64_t *hash, yk_error *err);

#endif
