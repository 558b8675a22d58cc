/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets of images: idx and cifar10. Pixels stay bytes; a table of 256 values per channel normalises them. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/read/cifar.h"
#include "core/data/internal.h"
#include "core/read/idx.h"

static int64_t width_one(const yk__dataset *set, const int64_t *rows, int64_t n)
{
    (void)set, (void)rows, (void)n;
    return 1;
}

static void fill_images(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers)
{
    float *x = buffers[0];
    int32_t *label = buffers[1];
    int64_t plane = set->chw[1] * set->chw[2];
    (void)width;
    for (int64_t i = 0; i < n; i++) { /* shuffled rows are in no cache: all misses at once, not one after the other */
        __builtin_prefetch(set->pixels + (size_t)(set->first + rows[i]) * set->record + set->skip);
        __builtin_prefetch(set->labels + (size_t)(set->first + rows[i]) * set->label_step);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = set->pixels + (size_t)(set->first + rows[i]) * set->record + set->skip;
        label[i] = set->labels[(size_t)(set->first + rows[i]) * set->label_step];
        for (int64_t c = 0; c < set->chw[0]; c++)
            for (int64_t k = 0; k < plane; k++)
                *x++ = set->value[c][*p++];
    }
}

/* Fashion-MNIST's and CIFAR-10's usual numbers; other channel counts have none. */
static yk_status pixel_values_fill(yk__dataset *set, const yk__spec *spec, yk_error *err)
{
    static const double mean1[] = {0.2860}, std1[] = {0.3530};
    static const double mean3[] = {0.485, 0.456, 0.406}, std3[] = {0.229, 0.224, 0.225};
    double mean[IMAGE_CHANNELS], std[IMAGE_CHANNELS];
    int c = (int)set->chw[0];
    yk_status st;
    if (c != 1 && c != 3 && (!yk__spec_get(spec, "mean") || !yk__spec_get(spec, "std")))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': images of %d channels need mean= and std=", spec->kind,
                        spec->path, c);
    st = yk__spec_reals(spec, "mean", c == 1 ? mean1 : mean3, c, mean, err);
    if (!st)
        st = yk__spec_reals(spec, "std", c == 1 ? std1 : std3, c, std, err);
    for (int k = 0; k < c && !st; k++) {
        if (!(std[k] > 0))
            return yk__fail(err, YK_E_ARG, "data '%s:%.100s': std=%g: expected more than 0", spec->kind, spec->path,
                            std[k]);
        for (int v = 0; v < 256; v++)
            set->value[k][v] = (float)((v / 255.0 - mean[k]) / std[k]);
    }
    return st;
}

/* Which of the file's images are rows: holdout=N takes the last N of the training file for evaluation. */
static yk_status rows_choose(yk__dataset *set, const yk__spec *spec, int64_t count, yk_error *err)
{
    int64_t holdout;
    yk_status st = yk__spec_int(spec, "holdout", 0, 0, count - 1, &holdout, err);
    set->first = holdout && set->eval ? count - holdout : 0;
    set->rows = holdout && set->eval ? holdout : count - holdout;
    if (!st && set->rows < 1)
        st = yk__fail(err, YK_E_FORMAT, "%s: expected images, found none", spec->path);
    return st;
}

static yk_status images_finish(yk__dataset *set, const yk__spec *spec, int64_t count, yk_error *err)
{
    yk_status st = rows_choose(set, spec, count, err);
    if (!st)
        st = pixel_values_fill(set, spec, err);
    yk__data_field(set, "x", YK_F32, 3, set->chw);
    yk__data_field(set, "labels", YK_I32, 0, NULL);
    return st;
}

/* ---- idx ---- */

/* DIR/PREFIX-WHAT-idxN-ubyte, with '.' for the last '-' before idx, and with .gz, in that order. NULL: none is there.
 */
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
    return yk__format("%s/%s-%s-idx%d-ubyte", dir, prefix, what, rank); /* for the message */
}

static yk_status idx_adopt(yk__dataset *set, yk__idx *images, yk__idx *labels, yk_error *err)
{
    const int64_t *shape = yk__idx_shape(images);
    int four = yk__idx_rank(images) == 4;
    set->chw[0] = four ? shape[1] : 1;
    set->chw[1] = shape[1 + four];
    set->chw[2] = shape[2 + four];
    if (set->chw[0] < 1 || set->chw[0] > IMAGE_CHANNELS || set->chw[1] < 1 || set->chw[2] < 1)
        return yk__fail(err, YK_E_FORMAT,
                        "images of %" PRId64 " x %" PRId64 " x %" PRId64
                        ": expected 1 to %d channels and at least one pixel",
                        set->chw[0], set->chw[1], set->chw[2], IMAGE_CHANNELS);
    set->record = (size_t)(set->chw[0] * set->chw[1] * set->chw[2]);
    set->label_step = 1;
    set->pixels = yk__idx_release(images);
    set->labels = set->labels_memory = yk__idx_release(labels);
    return YK_OK;
}

static yk_status read_pair(yk__dataset *set, const yk__spec *spec, const char *pi, const char *pl, yk_error *err)
{
    yk__idx *images = NULL, *labels = NULL;
    int64_t classes, count = 0;
    yk_status st = yk__spec_int(spec, "classes", 10, 1, 256, &classes, err);
    if (!st)
        st = yk__idx_open(pi, &images, err);
    if (!st)
        st = yk__idx_open(pl, &labels, err);
    if (!st)
        st = yk__idx_check_pair(images, pi, labels, pl, (int)classes, err);
    if (!st) {
        count = yk__idx_shape(images)[0];
        st = idx_adopt(set, images, labels, err);
        if (st)
            yk__fail_in(err, "%s", pi);
    }
    yk__idx_close(images);
    yk__idx_close(labels);
    set->classes = (int)classes;
    if (!st)
        st = images_finish(set, spec, count, err);
    return st;
}

static yk_status open_idx(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    const char *prefix = options->eval && !yk__spec_get(spec, "holdout") ? "t10k" : "train";
    char *pi = idx_path(spec->path, prefix, "images"), *pl = idx_path(spec->path, prefix, "labels");
    yk_status st = pi && pl ? read_pair(set, spec, pi, pl, err) : yk__fail_mem(err, strlen(spec->path), "a path");
    yk__free(pi);
    yk__free(pl);
    return st;
}

/* ---- cifar10 ---- */

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static int is_cifar_file(const char *name, bool eval)
{
    if (!ends_with(name, ".bin") && !ends_with(name, ".bin.gz"))
        return 0;
    if (eval)
        return strstr(name, "test") != NULL;
    return strstr(name, "train") != NULL || !strncmp(name, "data_batch_", 11);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **path;
    size_t count, cap;
};

static void free_names(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        yk__free(n->path[i]);
    yk__free(n->path);
}

static yk_status add_name(struct names *n, char *path, yk_error *err)
{
    if (!path || yk__grow(&n->path, &n->cap, n->count + 1, sizeof *n->path)) {
        yk__free(path);
        return yk__fail_mem(err, 64, "a path");
    }
    n->path[n->count++] = path;
    return YK_OK;
}

/* The files of a directory, sorted; or the one file that the path is. */
static yk_status files_list(const char *dir, bool eval, struct names *n, yk_error *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    yk_status st = YK_OK;
    if (!d)
        return add_name(n, yk__strdup(dir), err);
    while (!st && (e = readdir(d)))
        if (is_cifar_file(e->d_name, eval))
            st = add_name(n, yk__format("%s/%s", dir, e->d_name), err);
    closedir(d);
    if (!st && !n->count)
        st = yk__fail(err, YK_E_ARG, "%s: expected CIFAR-10 files, %s", dir,
                      eval ? "*test*.bin[.gz]" : "data_batch_*.bin[.gz] or *train*.bin[.gz]");
    if (!st)
        qsort(n->path, n->count, sizeof *n->path, by_name);
    return st;
}

static yk_status append_file(yk__dataset *set, const char *path, int64_t *count, yk_error *err)
{
    uint8_t *p, *all;
    int64_t n;
    yk_status st = yk__cifar_open(path, &p, &n, err);
    if (st)
        return st;
    all = yk__realloc(set->pixels, (size_t)(*count + n), YK__CIFAR_RECORD);
    if (!all) {
        yk__free(p);
        return yk__fail_mem(err, (size_t)(*count + n) * YK__CIFAR_RECORD, "images");
    }
    memcpy(all + (size_t)*count * YK__CIFAR_RECORD, p, (size_t)n * YK__CIFAR_RECORD);
    yk__free(p);
    set->pixels = all;
    *count += n;
    return YK_OK;
}

static yk_status open_cifar(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    struct names n = {0};
    int64_t count = 0;
    yk_status st = files_list(spec->path, options->eval && !yk__spec_get(spec, "holdout"), &n, err);
    for (size_t i = 0; i < n.count && !st; i++)
        st = append_file(set, n.path[i], &count, err);
    free_names(&n);
    if (st)
        return st;
    set->labels = set->pixels;
    set->record = set->label_step = YK__CIFAR_RECORD;
    set->skip = 1;
    set->chw[0] = 3;
    set->chw[1] = set->chw[2] = 32;
    set->classes = YK__CIFAR_CLASSES;
    return images_finish(set, spec, count, err);
}

static const char *const idx_keys[] = {"mean", "std", "classes", "holdout"};
static const char *const cifar_keys[] = {"mean", "std", "holdout"};
const struct data_kind yk__data_idx = {"idx", idx_keys, 4, open_idx, width_one, fill_images, false};
const struct data_kind yk__data_cifar10 = {"cifar10", cifar_keys, 3, open_cifar, width_one, fill_images, false};
