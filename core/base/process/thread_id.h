/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread as other processes of its host find it in /proc. So they tell a silent thread that waits for a processor from a stopped, hung or
 * dead one. Thread rule: any thread.
 */
#ifndef YOKE_CORE_BASE_PROCESS_THREAD_ID_H
#define YOKE_CORE_BASE_PROCESS_THREAD_ID_H

#include <stdbool.h>
#include <stdint.h>

typedef struct yk__thread_id {
    uint64_t space; /* namespace in which `number` counts; 0 if unknown */
    uint64_t began; /* its start, in ticks of the system: another thread with this number has another one */
    int32_t number; /* 0 if unknown: /proc is of another namespace, or absent */
} yk__thread_id;

/* The calling thread. */
yk__thread_id yk__thread_own(void);
/* True if the thread runs or waits for a processor. A stopped, frozen, sleeping or dead one does not, nor one of another namespace than
 * the caller's, own_space. */
bool yk__thread_ready(const yk__thread_id *thread, uint64_t own_space);
/* True if a thread of this process, other than the caller, runs or waits for a processor. children: or one of a process that it has
 * started, of that one's children, or of theirs, as the compiler behind a compiler's driver. */
bool yk__process_ready(bool children);
/* True for a process that has ended and that its parent has not reaped; false if it lives, or is not in /proc. */
bool yk__process_ended(int32_t process);

#endif
