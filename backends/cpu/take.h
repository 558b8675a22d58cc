/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of a step taken in turn, so that nobody waits for a worker whose core does something else meanwhile. Each
 * worker begins with a range of its own, in order; who has none left takes from the end of another's. Results must not
 * depend on who does a piece.
 */
#ifndef CPU_TAKE_H
#define CPU_TAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One for each worker, in shared scratch: a line of the cache each. */
typedef struct cpu_take {
    _Atomic uint64_t range; /* first piece left, and 32 bits higher the end */
    uint64_t pad[7];
} cpu_take;

/* Before the step, by one worker. At most 2^31 pieces. */
void cpu_take_begin(cpu_take *t, int nt, int64_t pieces);
/* Worker tid's next piece; false when all are taken. */
bool cpu_take_next(cpu_take *t, int nt, int tid, int64_t *piece);

#endif
