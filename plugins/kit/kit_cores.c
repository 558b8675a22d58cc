/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads lists of cores such as "0-3,6" into a set, for plugins, which may not call core/device/cores.c. kit_options.c checks options with
 * it; the CPU, OpenCL, Vulkan and PJRT plugins bind threads to the set. Pure; false if the text is no list.
 */
#define _GNU_SOURCE
#include "plugins/kit/kit_cores.h"

#include <stdlib.h>

int kit_cores_parse(const char *list, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (const char *p = list; *p;) {
        char *end;
        long a = strtol(p, &end, 10), b = a;
        if (end == p)
            return 0;
        if (*end == '-') {
            p = end + 1;
            b = strtol(p, &end, 10);
            if (end == p)
                return 0;
        }
        if (a < 0 || b < a || b >= CPU_SETSIZE)
            return 0;
        for (long i = a; i <= b; i++)
            CPU_SET((size_t)i, set);
        if (*end && *end != ',')
            return 0;
        p = *end ? end + 1 : end;
    }
    return CPU_COUNT(set);
}
