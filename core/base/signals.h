/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process does on signals is its program's. A driver or network library that is loaded, started or first used may take signals
 * over (libfabric's PSM: SIGINT, SIGTERM, SIGSEGV, SIGABRT; PoCL: SIGFPE), and run exit handlers inside them. So each such call stands
 * between the two functions below. Dispositions are the process's, the mask the thread's: both in one thread.
 */
#ifndef YOKE_CORE_BASE_SIGNALS_H
#define YOKE_CORE_BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { YK__SIGNALS = 65 };

typedef struct yk__signals {
    struct sigaction action[YK__SIGNALS];
    bool known[YK__SIGNALS]; /* not those of the C library */
    sigset_t mask;
} yk__signals;

void yk__signals_keep(yk__signals *kept);
/* Gives back what has changed since. */
void yk__signals_restore(const yk__signals *kept);

#endif
