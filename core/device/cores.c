/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of cores as text, "0-3,6": parsing and formatting. select.c reads placements with it, bind.c and topology.c the cores of a
 * process, core/balance/seat.c the ranks' seats, and yoke launch its options. No state; any thread. 0 if the text is no such list.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/device/device_internal.h"

#define CORE_MAX 65535 /* more than any kernel counts */

static const char *core_read(const char *s, int *n)
{
    long v = 0;
    const char *begin = s;
    for (; *s >= '0' && *s <= '9' && v <= CORE_MAX; s++)
        v = v * 10 + (*s - '0');
    *n = (int)v;
    return s == begin || v > CORE_MAX ? NULL : s;
}

uint32_t yk__cores_parse(const char *list, int *core, uint32_t max)
{
    uint32_t n = 0;
    while (list) {
        int a, b;
        if (!(list = core_read(list, &a)))
            return 0;
        b = a;
        if (*list == '-' && !(list = core_read(list + 1, &b)))
            return 0;
        for (; a <= b; a++) {
            if (n == max)
                return 0;
            core[n++] = a;
        }
        if (a != b + 1)
            return 0;
        if (!*list)
            return n;
        if (*list++ != ',')
            return 0;
    }
    return 0;
}

char *yk__cores_text(const int *core, uint32_t n)
{
    size_t cap = (size_t)n * 12 + 1, used = 0;
    char *s = yk__malloc(cap);
    if (!s)
        return NULL;
    s[0] = 0;
    for (uint32_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && core[j] == core[j - 1] + 1; j++)
            ;
        used += (size_t)snprintf(s + used, cap - used, j - i > 1 ? "%s%d-%d" : "%s%d", i ? "," : "", core[i], core[j - 1]);
    }
    return s;
}
