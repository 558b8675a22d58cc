/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a vector of n elements into slices, one per rank, at multiples of 64 elements: even, or in proportion to weights.
 *
 * core/run cuts buckets of gradients and parameters with it; the owner of a slice updates it. All ranks cut alike from equal weights. The
 * caller frees the lists. Pure but for the allocation; any thread.
 */
#include "core/coll/slices.h"

#include <string.h>

#include "core/base/mem.h"

static yk_status slices_reserve(yk__slices *s, uint32_t ranks, yk_error *err)
{
    const uint64_t bytes = (ranks + 1ull) * sizeof *s->begin;
    if (s->begin && s->ranks == ranks)
        return YK_OK;
    uint64_t *begin = yk__malloc(bytes);
    if (!begin)
        return yk__fail_mem(err, bytes, "slices");
    yk__free(s->begin);
    *s = (yk__slices){ranks, begin};
    return YK_OK;
}

yk_status yk__slices_by(yk__slices *s, uint64_t n, uint32_t ranks, const double *part, yk_error *err)
{
    const uint64_t blocks = n / 64 + (n % 64 != 0);
    double sum = 0.0, before = 0.0;
    if (slices_reserve(s, ranks, err))
        return err->status;
    for (uint32_t r = 0; r < ranks; r++)
        sum += part[r];
    for (uint32_t r = 0; r <= ranks; r++) {
        const uint64_t begin = before < sum ? (uint64_t)((double)blocks * before / sum) * 64 : n;
        s->begin[r] = begin < n ? begin : n;
        before += r < ranks ? part[r] : 0.0;
    }
    return YK_OK;
}

yk_status yk__slices_even(yk__slices *s, uint64_t n, uint32_t ranks, yk_error *err)
{
    const uint64_t blocks = n / 64 + (n % 64 != 0);
    if (slices_reserve(s, ranks, err))
        return err->status;
    for (uint32_t r = 0; r <= ranks; r++) {
        const uint64_t begin = (blocks / ranks * r + blocks % ranks * r / ranks) * 64;
        s->begin[r] = begin < n ? begin : n;
    }
    return YK_OK;
}

yk_status yk__slices_copy(yk__slices *to, const yk__slices *from, yk_error *err)
{
    if (slices_reserve(to, from->ranks, err))
        return err->status;
    memcpy(to->begin, from->begin, (from->ranks + 1ull) * sizeof *to->begin);
    return YK_OK;
}

bool yk__slices_same(const yk__slices *a, const yk__slices *b)
{
    return a->ranks == b->ranks && !memcmp(a->begin, b->begin, (a->ranks + 1ull) * sizeof *a->begin);
}

void yk__slices_free(yk__slices *s)
{
    yk__free(s->begin);
    *s = (yk__slices){0};
}
