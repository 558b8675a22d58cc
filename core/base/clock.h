/* SPDX-License-Identifier: Apache-2.0 */
/* The time since some fixed moment: never set back, the same for all processes of a host, also while they are stopped. Any thread. */
#ifndef YOKE_CORE_BASE_CLOCK_H
#define YOKE_CORE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t yk__clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t yk__clock_ms(void)
{
    return yk__clock_ns() / 1000000;
}

#endif
