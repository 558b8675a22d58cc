/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work stealing. A worker takes pieces from its own range in order, then from the end of other workers' ranges. So no worker waits for
 * one whose core is busy elsewhere, except for the one piece that it may have begun. The pieces do not depend on the workers, so neither
 * do results.
 *
 * A range is one word, {phase, end, first}: a worker that missed phases cannot take a piece, as its compare and swap includes the phase.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_STEAL_H
#define YOKE_BACKENDS_CPU_EXEC_STEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CPU_PIECES_MOST 4095 /* pieces of a phase, at most: 12 bits */

/* A worker's range, in its own cache line. */
typedef struct cpu_range {
    _Alignas(64) _Atomic uint64_t word;
} cpu_range;

/* Publishes the pieces [0, pieces) of a phase. A worker that takes one sees the caller's earlier writes. The previous phase must be
 * finished; phases count upwards. */
void cpu_steal_begin(cpu_range *range, int workers, uint64_t phase, int pieces);
/* The worker's next piece; false when all are taken. [any thread] */
bool cpu_steal_next(cpu_range *range, int workers, int worker, int *piece);

#endif
