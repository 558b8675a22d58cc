/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggests the name in a list that is closest to a mistyped one, for the error of an unknown plugin (plugin.c). "" if none is near. Pure;
 * any thread.
 */
#include "core/base/nearest.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/device/device_internal.h"

#define NAMES 64

const char *yk__device_nearest(const char *name, const char *list, char *buf, size_t n)
{
    const char *names[NAMES], *found;
    char *copy = yk__strdup(list), *rest = NULL;
    size_t m = 0;
    buf[0] = 0;
    for (char *w = copy ? strtok_r(copy, ", ", &rest) : NULL; w && m < NAMES; w = strtok_r(NULL, ", ", &rest))
        names[m++] = w;
    found = yk__nearest_word(name, names, m);
    if (found)
        snprintf(buf, n, "%s", found);
    yk__free(copy);
    return buf;
}
