/* SPDX-License-Identifier: Apache-2.0 */
#include "take.h"

#include "cpu.h"

void cpu_take_begin(cpu_take *t, int nt, int64_t pieces)
{
    for (int i = 0; i < nt; i++) {
        int64_t lo, hi;
        cpu_part(pieces, i, nt, &lo, &hi);
        atomic_store(&t[i].range, (uint64_t)lo | (uint64_t)hi << 32);
    }
}

static bool take_from(cpu_take *t, bool last, int64_t *piece)
{
    uint64_t seen = atomic_load(&t->range);
    for (;;) {
        uint64_t lo = seen & UINT32_MAX, hi = seen >> 32;
        if (lo >= hi)
            return false;
        *piece = (int64_t)(last ? hi - 1 : lo);
        if (atomic_compare_exchange_weak(&t->range, &seen, last ? lo | (hi - 1) << 32 : (lo + 1) | hi << 32))
            return true;
    }
}

bool cpu_take_next(cpu_take *t, int nt, int tid, int64_t *piece)
{
    if (take_from(&t[tid], false, piece))
        return true;
    for (int i = 1; i < nt; i++)
        if (take_from(&t[(tid + i) % nt], true, piece))
            return true;
    return false;
}
