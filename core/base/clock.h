/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time: never set back, the same for all processes of a host, also while they are stopped. Any thread. */
#ifndef YOKE_CORE_BASE_CLOCK_H
#define YOKE_CORE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Reads another clock of the system, ns. */
static inline int64_t yk__clock_of(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t yk__clock_ns(void)
{
    return yk__clock_of(CLOCK_MONOTONIC);
}

static inline int64_t yk__clock_ms(void)
{
    return yk__clock_ns() / 1000000;
}

static inline double yk__clock_seconds(void)
{
    return 1e-9 * (double)yk__clock_ns();
}

#endif
