/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a vector into slices, one per rank. */
#include "core/coll/slices.h"

void yk__slices_by(yk__slices *s, uint64_t n, uint32_t ranks, const double *part)
{
    const uint64_t blocks = n / 64 + (n % 64 != 0);
    double sum = 0.0, before = 0.0;
    for (uint32_t r = 0; r < ranks; r++)
        sum += part[r];
    for (uint32_t r = 0; r <= ranks; r++) {
        const uint64_t begin = before < sum ? (uint64_t)((double)blocks * before / sum) * 64 : n;
        s->begin[r] = begin < n ? begin : n;
        before += r < ranks ? part[r] : 0.0;
    }
}

void yk__slices_even(yk__slices *s, uint64_t n, uint32_t ranks)
{
    uint64_t blocks = n / 64 + (n % 64 != 0);
    for (uint32_t r = 0; r <= ranks; r++) {
        uint64_t begin = (blocks / ranks * r + blocks % ranks * r / ranks) * 64;
        s->begin[r] = begin < n ? begin : n;
    }
}
