/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work stealing. The pieces of a phase are handed out one by one: a worker begins with a range of its own, in order, and
 * takes from the end of another's when that is done. So nobody waits for a worker whose core does something else, but for
 * the one piece it may have begun. Which pieces there are does not depend on who does them, so neither do results.
 *
 * A range is one word, {phase, end, first}: a worker that was away while phases went by cannot take what it has not seen,
 * since the phase's number is compared with the rest.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_STEAL_H
#define YOKE_BACKENDS_CPU_EXEC_STEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CPU_PIECES_MOST 4095 /* of a phase: 12 bits */

/* A worker's range, in a line of the cache of its own. */
typedef struct cpu_range {
    _Alignas(64) _Atomic uint64_t word;
} cpu_range;

/* Publishes the pieces [0, pieces) of a phase. Whoever takes one sees what the caller wrote before. The phase before must be
 * finished; phases are numbered upwards. */
void cpu_steal_begin(cpu_range *range, int workers, uint64_t phase, int pieces);
/* The worker's next piece; false when all are taken. [any thread] */
bool cpu_steal_next(cpu_range *range, int workers, int worker, int *piece);

#endif
