/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library is a guest in its program. A plugin or driver that starts may bind the calling thread, set environment variables, change the
 * floating-point mode and take signals over. The function yk_open gives each of these back before it returns. Threads and drivers that were
 * started in between have read what they needed. Affinity, mask and mode are the calling thread's, the rest is the process's.
 */
#ifndef YOKE_CORE_BASE_PROCESS_GUEST_H
#define YOKE_CORE_BASE_PROCESS_GUEST_H

#include <fenv.h>
#include <stddef.h>

#include "core/base/process/signals.h"

enum { YK__GUEST_CORES = 8192 }; /* bits of an affinity mask, the most that the kernel has */

typedef struct yk__guest {
    yk__signals signals;
    fenv_t mode;
    char **variable; /* "NAME=value", copied; NULL if memory ran out: then variables stay as the job leaves them */
    size_t variables;
    unsigned long affinity[YK__GUEST_CORES / 8 / sizeof(unsigned long)];
    size_t affinity_bytes; /* 0: unknown */
} yk__guest;

void yk__guest_keep(yk__guest *kept);
/* Gives back what has changed since, and frees what kept holds. */
void yk__guest_restore(yk__guest *kept);

#endif
