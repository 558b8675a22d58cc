/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers are bound to cores, so one that another program drove from its core in the midst of a piece stands in line there, and all
 * wait for that piece: milliseconds. Whoever waits takes such a worker over to its own core, goes to sleep, and so lets it finish;
 * afterwards it goes back where it belongs. What a hypervisor takes away is not seen from here: the worker seems to run.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_MIGRATE_H
#define YOKE_BACKENDS_CPU_EXEC_MIGRATE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Where a worker's thread is. All zero at first. */
typedef struct cpu_seat {
    _Atomic int thread;       /* the system's number; 0: not known yet */
    _Atomic bool holds_piece; /* others may have to wait for it */
    _Atomic int state;        /* in place, being moved, away */
    cpu_set_t own;           /* its own cores, while it is away */
} cpu_seat;

/* The calling thread is the one of this seat. */
void cpu_seat_take(cpu_seat *seat);
/* Whether it holds a piece and has not run for some microseconds; waits for as long. [any thread] */
bool cpu_seat_stalled(const cpu_seat *seat);
/* Moves the seat's thread to the caller's core, which the caller should leave. False where that cannot be. [any thread] */
bool cpu_seat_fetch(cpu_seat *seat);
/* Back to its own cores, by the thread itself after it has said that it holds no piece; it begins none elsewhere. */
void cpu_seat_return(cpu_seat *seat);

#endif
