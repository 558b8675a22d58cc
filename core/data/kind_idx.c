/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind idx:DIR: MNIST's four files of images and labels (core/read/idx.h), of which training and evaluation use two each. images.c
 * keeps the pixels.
 *
 * dataset.c calls its functions through a table (kind.h): opening in the step thread, rows in the loader's. Images and labels must have
 * equal numbers. A folder without the two files of the set is an error.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/data/images.h"
#include "core/io/folder.h"
#include "core/read/idx.h"

/* The first existing file of DIR/PREFIX-WHAT-idxN-ubyte, the same with .gz, and each with '.' before "idx" (names by some unpackers).
 * Without one, the first name, for the message. NULL if memory ran out. */
static char *idx_path(const char *dir, const char *prefix, const char *what)
{
    int rank = strcmp(what, "images") ? 1 : 3;
    for (int i = 0; i < 4; i++) {
        char name[128], *path;
        snprintf(name, sizeof name, "%s-%s%cidx%d-ubyte%s", prefix, what, i < 2 ? '-' : '.', rank, i & 1 ? ".gz" : "");
        path = yk__format("%s/%s", dir, name);
        if (!path || !access(path, R_OK))
            return path;
        yk__free(path);
    }
    return yk__format("%s/%s-%s-idx%d-ubyte", dir, prefix, what, rank);
}

static yk_status shape_take(yk__images *images, const yk__idx *pixels, yk_error *err)
{
    const int64_t *shape = yk__idx_shape(pixels);
    int four = yk__idx_rank(pixels) == 4;
    images->chw[0] = four ? shape[1] : 1;
    images->chw[1] = shape[1 + four];
    images->chw[2] = shape[2 + four];
    if (images->chw[0] < 1 || images->chw[0] > YK__IMAGE_CHANNELS || images->chw[1] < 1 || images->chw[2] < 1)
        return yk__fail(err, YK_E_FORMAT,
                        "images of %" PRId64 " x %" PRId64 " x %" PRId64
                        ": expected 1 to %d channels and at least one pixel",
                        images->chw[0], images->chw[1], images->chw[2], YK__IMAGE_CHANNELS);
    images->record = (size_t)(images->chw[0] * images->chw[1] * images->chw[2]);
    return YK_OK;
}

/* Adds the labels of images whose header has been read; takes the blob over. */
static yk_status labels_join(yk__images *images, const yk__idx *pixels, const char *pixels_path, yk__blob *blob, uint64_t begin,
                             const char *labels_path, int classes, yk_error *err)
{
    yk__idx *labels = NULL;
    yk_status st = yk__idx_open(labels_path, &labels, err);
    if (!st)
        st = yk__idx_check_pair(pixels, pixels_path, labels, labels_path, classes, err);
    if (!st && shape_take(images, pixels, err))
        st = yk__fail_in(err, "%s", pixels_path);
    if (st)
        yk__blob_close(blob);
    else
        st = yk__images_add(images, blob, begin, yk__idx_shape(labels)[0], yk__idx_data(labels), err);
    yk__idx_close(labels);
    return st;
}

static yk_status read_pair(yk__dataset *set, const yk__spec *spec, const yk__dataset *like, const char *pixels_path,
                           const char *labels_path, yk_error *err)
{
    yk__idx *pixels = NULL;
    yk__images *images;
    yk__blob *blob;
    uint64_t begin;
    int64_t classes;
    yk_status st = yk__spec_int(spec, "classes", 10, 1, 256, &classes, err);
    if (!st)
        st = yk__images_new(set, &images, err);
    if (!st)
        st = yk__idx_open_blob(pixels_path, yk__images_left(images), &pixels, &blob, &begin, err);
    if (!st)
        st = labels_join(images, pixels, pixels_path, blob, begin, labels_path, (int)classes, err);
    yk__idx_close(pixels);
    set->classes = (int)classes;
    if (!st)
        st = yk__images_finish(set, spec, like, err);
    return st;
}

/* A folder without any of MNIST's files, `name` first, is of another kind. An absent folder or file is the reader's error. */
static yk_status folder_check(const char *dir, const char *name, yk_error *err)
{
    bool idx = false, cifar = false, pictures = false;
    DIR *d = opendir(dir);
    struct dirent *entry;
    yk_error cut = YK_ERROR_INIT;
    if (!d)
        return YK_OK;
    while ((entry = yk__folder_next(d, dir, &cut))) {
        const char *dot = strrchr(entry->d_name, '.');
        idx = idx || strstr(entry->d_name, "-ubyte");
        cifar = cifar || (dot && !strcmp(dot, ".bin")) || strstr(entry->d_name, ".bin.gz");
        pictures = pictures || entry->d_type == DT_DIR || (dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg")));
    }
    closedir(d);
    if (idx)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "%s: expected MNIST's files, %s[.gz]: this folder has none%s", dir, name,
                    cifar ? "; cifar10:DIR reads *.bin files"
                    : pictures ? "; folders of pictures are not read: write them into such a file, as docs/data.md says"
                               : "");
}

static yk_status open_idx(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    const char *prefix = options->eval && !yk__spec_get(spec, "holdout") ? "t10k" : "train";
    char *pixels = idx_path(spec->path, prefix, "images"), *labels = idx_path(spec->path, prefix, "labels");
    yk_status st = pixels && labels ? folder_check(spec->path, strrchr(pixels, '/') + 1, err)
                                    : yk__fail_mem(err, strlen(spec->path), "a path");
    if (!st)
        st = read_pair(set, spec, options->like, pixels, labels, err);
    yk__free(pixels);
    yk__free(labels);
    return st;
}

static const char *const keys[] = {"mean", "std", "classes", "holdout", NULL};
const yk__dataset_kind yk__kind_idx = {.name = "idx",
                                       .keys = keys,
                                       .open = open_idx,
                                       .close = yk__images_close,
                                       .width = yk__images_width,
                                       .fill = yk__images_fill,
                                       .where = yk__images_where,
                                       .hash = yk__images_hash};
