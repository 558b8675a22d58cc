/* SPDX-License-Identifier: Apache-2.0 */
/* Whole multiples. `to` is above 0 and n + to fits 64 bits. */
#ifndef YOKE_CORE_BASE_ROUND_H
#define YOKE_CORE_BASE_ROUND_H

#include <stdint.h>

/* The number of parts of `to` that hold n: n / to, rounded up. */
static inline uint64_t yk__div_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to;
}

/* The least multiple of `to` that is at least n. */
static inline uint64_t yk__round_up(uint64_t n, uint64_t to)
{
    return yk__div_up(n, to) * to;
}

#endif
