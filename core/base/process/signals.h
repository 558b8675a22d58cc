/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal handling belongs to the program. A driver or network library may install handlers when it is loaded, started or first used, and
 * run exit handlers inside them. Examples are libfabric's PSM (SIGINT, SIGTERM, SIGSEGV, SIGABRT) and PoCL (SIGFPE). So each such call
 * stands between the two functions below. Dispositions belong to the process, the mask to the thread: call both in one thread.
 */
#ifndef YOKE_CORE_BASE_PROCESS_SIGNALS_H
#define YOKE_CORE_BASE_PROCESS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { YK__SIGNALS = 65 };

typedef struct yk__signals {
    struct sigaction action[YK__SIGNALS];
    bool known[YK__SIGNALS]; /* false for signals of the C library */
    sigset_t mask;
} yk__signals;

void yk__signals_keep(yk__signals *kept);
/* Restores the dispositions and the mask that changed since. */
void yk__signals_restore(const yk__signals *kept);

#endif
