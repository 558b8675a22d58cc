/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work stealing without locks: hands the pieces of a phase to the workers. cpu_pool.c calls it: one worker begins a phase, and each takes
 * pieces until none is left.
 *
 * Each worker has a range of the phase's pieces and takes from its front. A worker with an empty range takes from the end of another one. A
 * range is one word: the phase in the upper bits, then the end, then the first piece, 12 bits each. So taking is a compare and swap. A
 * worker that comes back from an older phase fails the comparison.
 */
#include "backends/cpu/exec/steal.h"

#include "backends/cpu/exec/cpu.h"

enum { BITS = 12 };

static uint64_t range_pack(uint64_t phase, int64_t first, int64_t end)
{
    return phase << 2 * BITS | (uint64_t)end << BITS | (uint64_t)first;
}

void cpu_steal_begin(cpu_range *range, int workers, uint64_t phase, int pieces)
{
    for (int i = 0; i < workers; i++) {
        int64_t first, end;
        cpu_part(pieces, i, workers, &first, &end);
        atomic_store_explicit(&range[i].word, range_pack(phase, first, end), memory_order_release);
    }
}

static bool range_steal(cpu_range *range, bool from_end, int *piece)
{
    uint64_t seen = atomic_load_explicit(&range->word, memory_order_acquire);
    for (;;) {
        const int64_t first = (int64_t)(seen & CPU_PIECES_MOST), end = (int64_t)(seen >> BITS & CPU_PIECES_MOST);
        if (first >= end)
            return false;
        *piece = (int)(from_end ? end - 1 : first);
        if (atomic_compare_exchange_weak_explicit(&range->word, &seen,
                                                  range_pack(seen >> 2 * BITS, from_end ? first : first + 1,
                                                             from_end ? end - 1 : end),
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    }
}

bool cpu_steal_next(cpu_range *range, int workers, int worker, int *piece)
{
    if (range_steal(&range[worker], false, piece))
        return true;
    for (int i = 1; i < workers; i++)
        if (range_steal(&range[(worker + i) % workers], true, piece))
            return true;
    return false;
}
