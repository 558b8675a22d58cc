/* SPDX-License-Identifier: Apache-2.0 */
/* This process's memory, and its peak, as the kernel counts them. */
#ifndef YOKE_TESTS_SUPPORT_PEAK_H
#define YOKE_TESTS_SUPPORT_PEAK_H

#include <stdio.h>
#include <string.h>

/* MiB of a line of /proc/self/status: VmRSS, VmHWM. */
static inline double status_mib(const char *key)
{
    char line[160];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && (strncmp(line, key, strlen(key)) || sscanf(line + strlen(key), ": %lu", &kib) != 1))
        ;
    if (f)
        fclose(f);
    return (double)kib / 1024;
}

/* VmHWM begins anew with the memory that is there now. */
static inline void peak_reset(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

#endif
