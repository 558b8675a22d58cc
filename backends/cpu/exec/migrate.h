/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers are bound to cores. If another program takes a core from a worker within a piece, the piece waits in line there, and every
 * worker waits for it: milliseconds. A waiting worker then moves such a worker to its own core and sleeps, so that the piece finishes.
 * Afterwards the worker returns to its core. Cores that a hypervisor takes away are not noticed: the worker seems to run.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_MIGRATE_H
#define YOKE_BACKENDS_CPU_EXEC_MIGRATE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The place of a worker's thread. All zero at first. */
typedef struct cpu_seat {
    _Atomic int thread;       /* the system's number; 0: not known yet */
    _Atomic bool holds_piece; /* other workers may wait for the piece */
    _Atomic int state;        /* in place, being moved, away */
    cpu_set_t own;           /* its own cores, while it is away */
} cpu_seat;

/* The calling thread is the one of this seat. */
void cpu_seat_take(cpu_seat *seat);
/* True if it holds a piece and did not run for some microseconds; the call waits for as long. [any thread] */
bool cpu_seat_stalled(const cpu_seat *seat);
/* Moves the seat's thread to the caller's core, which the caller should leave. False if that cannot be. [any thread] */
bool cpu_seat_fetch(cpu_seat *seat);
/* Moves the thread back to its own cores. The thread itself calls it while it holds no piece, before it begins another. */
void cpu_seat_return(cpu_seat *seat);

#endif
