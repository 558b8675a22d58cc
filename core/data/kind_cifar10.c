/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind cifar10:DIR, or one file of it: records of a label and 32 x 32 pixels (core/read/cifar.h). images.c keeps the pixels.
 *
 * dataset.c calls its functions through a table (kind.h): opening in the step thread, rows in the loader's. In a folder, names with "test"
 * are the files of an evaluation. A folder without a file for the set is an error.
 */
#include <string.h>
#include <sys/stat.h>

#include "core/data/images.h"
#include "core/read/cifar.h"
#include "core/read/paths.h"

static bool accept_file(const void *user, const char *name)
{
    const bool *eval = user;
    if (!yk__paths_ends_with(name, ".bin") && !yk__paths_ends_with(name, ".bin.gz"))
        return false;
    if (*eval)
        return strstr(name, "test") != NULL;
    return strstr(name, "train") != NULL || !strncmp(name, "data_batch_", 11);
}

/* Lists the files of a folder; or the one file at the path. */
static yk_status files_list(const char *path, bool eval, yk__paths *files, yk_error *err)
{
    struct stat info;
    yk_status st;
    if (stat(path, &info) || !S_ISDIR(info.st_mode))
        return yk__paths_add(files, path, err);
    st = yk__paths_add_folder(files, path, accept_file, &eval, err);
    if (!st && !files->count)
        st = yk__fail(err, YK_E_ARG, "%s: expected CIFAR-10 files, %s", path,
                      eval ? "*test*.bin[.gz]" : "data_batch_*.bin[.gz] or *train*.bin[.gz]");
    return st;
}

static yk_status file_add(yk__images *images, const char *path, yk_error *err)
{
    yk__cifar cifar;
    if (yk__cifar_open(path, yk__images_left(images), &cifar, err))
        return err->status;
    yk__images_add(images, cifar.records, 0, cifar.count, cifar.labels, err);
    cifar.records = NULL; /* images owns them now */
    yk__cifar_free(&cifar);
    return err->status;
}

static yk_status open_cifar(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    yk__paths files = {0};
    yk__images *images;
    if (yk__images_new(set, &images, err))
        return err->status;
    images->record = YK__CIFAR_RECORD;
    images->skip = 1;
    images->chw[0] = 3;
    images->chw[1] = images->chw[2] = 32;
    set->classes = YK__CIFAR_CLASSES;
    yk_status st = files_list(spec->path, options->eval && !yk__spec_get(spec, "holdout"), &files, err);
    for (size_t i = 0; i < files.count && !st; i++)
        st = file_add(images, files.path[i], err);
    yk__paths_free(&files);
    if (!st)
        st = yk__images_finish(set, spec, options->like, err);
    return st;
}

static const char *const keys[] = {"mean", "std", "holdout", NULL};
const yk__dataset_kind yk__kind_cifar10 = {.name = "cifar10",
                                           .keys = keys,
                                           .open = open_cifar,
                                           .close = yk__images_close,
                                           .width = yk__images_width,
                                           .fill = yk__images_fill,
                                           .where = yk__images_where,
                                           .hash = yk__images_hash};
