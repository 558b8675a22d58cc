/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as rows: pixels stay bytes, in memory or on disk. A row becomes f32 by a table of 256 values per channel, in which mean and
 * deviation are applied already.
 *
 * The kinds of IDX and CIFAR files (kind_idx.c, kind_cifar10.c) add files when a set is opened, and the loader's thread asks for rows. The
 * set owns the images. A deviation must be above 0; images of other than 1 or 3 channels need mean= and std=.
 */
#include "core/data/images.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

yk_status yk__images_new(yk__dataset *set, yk__images **out, yk_error *err)
{
    set->state = *out = yk__calloc(1, sizeof **out);
    return *out ? YK_OK : yk__fail_mem(err, sizeof **out, "images");
}

void yk__images_close(void *state)
{
    yk__images *images = state;
    for (size_t i = 0; i < images->n_file; i++)
        yk__blob_close(images->file[i].blob);
    yk__free(images->file);
    yk__free(images->labels);
    yk__free(images);
}

uint64_t yk__images_left(const yk__images *images)
{
    return images->held < YK__IMAGES_HELD ? YK__IMAGES_HELD - images->held : 0;
}

yk_status yk__images_add(yk__images *images, yk__blob *blob, uint64_t begin, int64_t n, const uint8_t *labels, yk_error *err)
{
    const size_t count = (size_t)(images->count + n);
    if (yk__grow(&images->file, &images->cap_file, images->n_file + 1, sizeof *images->file) ||
        yk__grow(&images->labels, &images->cap_labels, count, 1)) {
        yk__blob_close(blob);
        return yk__fail_mem(err, count, "labels");
    }
    if (n)
        memcpy(images->labels + images->count, labels, (size_t)n);
    images->file[images->n_file++] = (yk__image_file){.blob = blob, .begin = begin, .first = images->count};
    images->held += yk__blob_memory(blob) ? yk__blob_bytes(blob) : 0;
    images->count = (int64_t)count;
    return YK_OK;
}

int64_t yk__images_width(const yk__dataset *set, const int64_t *rows, int64_t n)
{
    (void)set, (void)rows, (void)n;
    return 1;
}

/* ---- Records ---- */

/* The file that holds an image. */
static const yk__image_file *file_of(const yk__images *images, int64_t image)
{
    size_t below = 0, above = images->n_file; /* the sought file is in [below, above) */
    while (above - below > 1) {
        const size_t middle = below + (above - below) / 2;
        if (images->file[middle].first <= image)
            below = middle;
        else
            above = middle;
    }
    return &images->file[below];
}

/* An image's pixels in memory, or NULL if they are on disk. */
static const uint8_t *pixels_held(const yk__images *images, int64_t image)
{
    const yk__image_file *file = file_of(images, image);
    const uint8_t *memory = yk__blob_memory(file->blob);
    return memory ? memory + file->begin + (uint64_t)(image - file->first) * images->record + images->skip : NULL;
}

/* Reads bytes [at, at + n) of an image's record. */
static yk_status record_read(const yk__images *images, int64_t image, uint64_t at, void *to, size_t n, yk_error *err)
{
    const yk__image_file *file = file_of(images, image);
    return yk__blob_read(file->blob, file->begin + (uint64_t)(image - file->first) * images->record + at, to, n, err);
}

/* ---- Rows ---- */

static float *pixels_normalise(const yk__images *images, const uint8_t *pixels, float *x)
{
    const int64_t plane = images->chw[1] * images->chw[2];
    for (int64_t c = 0; c < images->chw[0]; c++)
        for (int64_t k = 0; k < plane; k++)
            *x++ = images->value[c][*pixels++];
    return x;
}

yk_status yk__images_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                          yk_error *err)
{
    const yk__images *images = set->state;
    const size_t bytes = images->record - images->skip;
    float *x = buffers[0];
    int32_t *label = buffers[1];
    yk_status s = YK_OK;
    uint8_t *copy = NULL; /* for an image on disk */
    (void)width;
    for (int64_t i = 0; i < n; i++) { /* shuffled rows are in no cache: prefetch takes their misses together, not one after another */
        __builtin_prefetch(pixels_held(images, images->first + rows[i]));
        __builtin_prefetch(images->labels + images->first + rows[i]);
    }
    for (int64_t i = 0; i < n && !s; i++) {
        const int64_t image = images->first + rows[i];
        const uint8_t *pixels = pixels_held(images, image);
        if (!pixels && !copy && !(copy = yk__malloc(bytes)))
            s = yk__fail_mem(err, bytes, "an image");
        if (!pixels && !s)
            s = record_read(images, image, images->skip, copy, bytes, err);
        if (!s)
            x = pixels_normalise(images, pixels ? pixels : copy, x);
        label[i] = images->labels[image];
    }
    yk__free(copy);
    return s;
}

/* ---- Opening ---- */

/* Presets are those of the training images, else the usual numbers of Fashion-MNIST and CIFAR-10; other channel counts have none. */
static yk_status pixel_values_fill(yk__images *images, const yk__spec *spec, const yk__images *like, yk_error *err)
{
    static const double mean1[] = {0.2860}, std1[] = {0.3530};
    static const double mean3[] = {0.485, 0.456, 0.406}, std3[] = {0.229, 0.224, 0.225};
    double *const mean = images->mean, *const std = images->std;
    int c = (int)images->chw[0];
    const bool alike = like && like->chw[0] == c;
    yk_status st;
    if (c != 1 && c != 3 && !alike && (!yk__spec_get(spec, "mean") || !yk__spec_get(spec, "std")))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': images of %d channels need mean= and std=", spec->kind,
                        spec->path, c);
    st = yk__spec_reals(spec, "mean", alike ? like->mean : c == 1 ? mean1 : mean3, c, mean, err);
    if (!st)
        st = yk__spec_reals(spec, "std", alike ? like->std : c == 1 ? std1 : std3, c, std, err);
    for (int k = 0; k < c && !st; k++) {
        if (!(std[k] > 0))
            return yk__fail(err, YK_E_ARG, "data '%s:%.100s': std=%g: expected more than 0", spec->kind, spec->path,
                            std[k]);
        for (int v = 0; v < 256; v++)
            images->value[k][v] = (float)((v / 255.0 - mean[k]) / std[k]);
    }
    return st;
}

/* Chooses the images that are rows: holdout=N takes the last N of the training file for evaluation. */
static yk_status rows_choose(yk__dataset *set, const yk__spec *spec, int64_t count, yk_error *err)
{
    yk__images *images = set->state;
    int64_t holdout;
    yk_status st = yk__spec_int(spec, "holdout", 0, 1, count > 0 ? count - 1 : 0, &holdout, err);
    images->first = holdout && set->eval ? count - holdout : 0;
    set->rows = holdout && set->eval ? holdout : count - holdout;
    if (!st && set->rows < 1 && !set->may_be_empty)
        st = yk__fail(err, YK_E_FORMAT, "%s: expected images, found none", spec->path);
    return st;
}

yk_status yk__images_finish(yk__dataset *set, const yk__spec *spec, const yk__dataset *like, yk_error *err)
{
    yk__images *images = set->state;
    const bool alike = like && like->kind->close == yk__images_close;
    yk_status st = rows_choose(set, spec, images->count, err);
    if (!st)
        st = pixel_values_fill(images, spec, alike ? like->state : NULL, err);
    yk__kind_field(set, "x", YK_F32, 3, images->chw);
    yk__kind_field(set, "labels", YK_I32, 0, NULL);
    return st;
}

void yk__images_where(const yk__dataset *set, int64_t row, char *buf, size_t n)
{
    const yk__images *images = set->state;
    snprintf(buf, n, "%.200s: image %lld (from 0)", set->path, (long long)(images->first + row));
}

/* Reads bytes [at, at + n) of the records of all rows, one after the other. */
static yk_status rows_read(const void *user, uint64_t at, void *to, size_t n, yk_error *err)
{
    const yk__images *images = user;
    uint8_t *p = to;
    for (size_t done = 0, part; done < n; done += part) {
        const int64_t image = images->first + (int64_t)((at + done) / images->record);
        const uint64_t from = (at + done) % images->record;
        part = images->record - from < n - done ? images->record - from : n - done;
        if (record_read(images, image, from, p + done, part, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__images_hash(const yk__dataset *set, uint64_t *hash, yk_error *err)
{
    const yk__images *images = set->state;
    *hash = yk__hash_bytes(*hash, images->value, sizeof images->value); /* mean and deviation */
    for (int64_t i = 0; i < set->rows; i++)
        *hash = yk__hash_u64(*hash, images->labels[images->first + i]);
    return yk__kind_hash(rows_read, images, (uint64_t)set->rows * images->record, hash, err);
}
