/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of plugins: nanoseconds since some fixed moment, never set back. Any thread. */
#ifndef YOKE_PLUGINS_KIT_KIT_CLOCK_H
#define YOKE_PLUGINS_KIT_KIT_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Time of a system clock: CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID .. */
static inline uint64_t kit_clock_ns(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t kit_now_ns(void)
{
    return kit_clock_ns(CLOCK_MONOTONIC);
}

#endif
