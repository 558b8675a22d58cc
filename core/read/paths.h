/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of files that are read as one, in an order that is the same on every machine: by the bytes of their paths.
 *
 * Thread rule: one thread at a time.
 */
#ifndef YOKE_CORE_READ_PATHS_H
#define YOKE_CORE_READ_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

typedef struct yk__paths {
    char **path;
    size_t count, capacity;
} yk__paths;

typedef bool (*yk__paths_accept)(const void *user, const char *name);

yk_status yk__paths_add(yk__paths *paths, const char *path, yk_error *err);
/* Adds the entries of a folder whose names accept() takes, sorted; hidden ones never. YK_E_ARG if the folder cannot be read. */
yk_status yk__paths_add_folder(yk__paths *paths, const char *dir, yk__paths_accept accept, const void *user, yk_error *err);
/* Adds the files that a shell's pattern (*, ?, [...]) names, sorted. YK_E_ARG: there is none. */
yk_status yk__paths_add_glob(yk__paths *paths, const char *pattern, yk_error *err);
void yk__paths_free(yk__paths *paths);

bool yk__paths_ends_with(const char *name, const char *end);

#endif
