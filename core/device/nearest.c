/* SPDX-License-Identifier: Apache-2.0 */
/* The name a mistyped one was probably meant to be, out of a list of names. */
#include "core/base/nearest.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/device/intern.h"

#define WORDS 64

const char *yk__device_nearest(const char *word, const char *list, char *buf, size_t n)
{
    const char *words[WORDS], *found;
    char *copy = yk__strdup(list), *rest = NULL;
    size_t m = 0;
    buf[0] = 0;
    for (char *w = copy ? strtok_r(copy, ", ", &rest) : NULL; w && m < WORDS; w = strtok_r(NULL, ", ", &rest))
        words[m++] = w;
    found = yk__nearest_word(word, words, m);
    if (found)
        snprintf(buf, n, "%s", found);
    yk__free(copy);
    return buf;
}
