/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes and the format of an entry, shared by the plugin and the program that tries vendors' plugins. */
#ifndef YOKE_BACKENDS_PJRT_EXITS_H
#define YOKE_BACKENDS_PJRT_EXITS_H

#include <stdio.h>
#include <string.h>

enum { PJ_EXIT_LOAD = 3, PJ_EXIT_CLIENT = 4, PJ_EXIT_NUMBERS = 5 };

/* The file of an entry FILE[:NAME]. */
static inline void pj_entry_file(const char *entry, char *file, size_t n)
{
    const char *slash = strrchr(entry, '/'), *colon = strrchr(slash ? slash : entry, ':');
    snprintf(file, n, "%.*s", (int)(colon ? colon - entry : (long)strlen(entry)), entry);
}

/* Its name, NULL if absent. */
static inline const char *pj_entry_name(const char *entry)
{
    const char *slash = strrchr(entry, '/'), *colon = strrchr(slash ? slash : entry, ':');
    return colon && colon[1] ? colon + 1 : NULL;
}

#endif
