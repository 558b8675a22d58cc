/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "core/device/intern.h"

#define LONGEST 40

/* Levenshtein's distance of two short words. */
static uint32_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    uint32_t row[LONGEST + 1];
    for (size_t j = 0; j <= nb; j++)
        row[j] = (uint32_t)j;
    for (size_t i = 1; i <= na; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= nb; j++) {
            uint32_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[nb];
}

const char *yk__device_nearest(const char *word, const char *list, char *buf, size_t n)
{
    size_t len = strlen(word);
    uint32_t best = 1 + (uint32_t)len / 2; /* further away it is another word */
    buf[0] = 0;
    while (*list) {
        size_t skip = strspn(list, ", "), w = strcspn(list + skip, ", ");
        list += skip;
        if (w && w <= LONGEST && len <= LONGEST) {
            uint32_t d = distance(word, len, list, w);
            if (d < best) {
                best = d;
                snprintf(buf, n, "%.*s", (int)w, list);
            }
        }
        list += w;
    }
    return buf;
}
