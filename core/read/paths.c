/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of files: paths, a folder's entries or a glob's matches. A folder's entries are added as readdir() has them and sorted when all
 * are there, so all ranks have one order. kind_cifar10.c and shards.c call it while a data set is opened, in the step thread; the caller
 * frees the list.
 */
#include "core/read/paths.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/absent.h"
#include "core/base/mem.h"
#include "core/io/folder.h"

static yk_status path_adopt(yk__paths *paths, char *path, yk_error *err)
{
    if (!path || yk__grow(&paths->path, &paths->capacity, paths->count + 1, sizeof *paths->path)) {
        yk__free(path);
        return yk__fail_mem(err, 64, "a path");
    }
    paths->path[paths->count++] = path;
    return YK_OK;
}

yk_status yk__paths_add(yk__paths *paths, const char *path, yk_error *err)
{
    return path_adopt(paths, yk__strdup(path), err);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the paths that were added. A file beside its compressed copy (gzip -k) would double its rows. */
static yk_status paths_sort(yk__paths *paths, size_t first, yk_error *err)
{
    if (paths->count > first)
        qsort(paths->path + first, paths->count - first, sizeof *paths->path, compare_paths);
    for (size_t i = first; i < paths->count; i++) {
        const char *path = paths->path[i];
        const size_t n = strlen(path);
        for (size_t k = first; k < i && yk__paths_ends_with(path, ".gz"); k++)
            if (strlen(paths->path[k]) == n - 3 && !strncmp(paths->path[k], path, n - 3))
                return yk__fail(err, YK_E_FORMAT, "%s: expected one copy of each file, and %s is there too: remove one", path,
                                paths->path[k]);
    }
    return YK_OK;
}

yk_status yk__paths_add_folder(yk__paths *paths, const char *dir, yk__paths_accept accept, const void *user, yk_error *err)
{
    const size_t before = paths->count;
    DIR *d = opendir(dir);
    struct dirent *entry;
    yk_error cut = YK_ERROR_INIT; /* `err` may hold an earlier failure */
    yk_status s = YK_OK;
    if (!d)
        return yk__fail_open(err, dir, errno);
    while (!s && (entry = yk__folder_next(d, dir, &cut)))
        if (entry->d_name[0] != '.' && accept(user, entry->d_name)) /* macOS puts a ._NAME beside a NAME, with attributes */
            s = path_adopt(paths, yk__format("%s/%s", dir, entry->d_name), err);
    closedir(d);
    if (!s)
        s = paths_sort(paths, before, err);
    return !s && cut.status ? yk__fail(err, cut.status, "%s", cut.text) : s;
}

yk_status yk__paths_add_glob(yk__paths *paths, const char *pattern, yk_error *err)
{
    const size_t before = paths->count;
    glob_t found = {0};
    const int code = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found); /* its order depends on the locale; ranks need one */
    yk_status s = YK_OK;
    if (code == GLOB_NOMATCH)
        s = yk__fail(err, YK_E_ARG, "%s: no file has such a name", pattern);
    else if (code == GLOB_NOSPACE)
        s = yk__fail_mem(err, 64, "the names of files");
    else if (code)
        s = yk__fail(err, YK_E_IO, "%s: a folder of it cannot be read", pattern);
    for (size_t i = 0; i < found.gl_pathc && !s; i++)
        s = yk__paths_add(paths, found.gl_pathv[i], err);
    globfree(&found);
    if (!s)
        s = paths_sort(paths, before, err);
    return s;
}

void yk__paths_free(yk__paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        yk__free(paths->path[i]);
    yk__free(paths->path);
    memset(paths, 0, sizeof *paths);
}

bool yk__paths_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}
