/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A count of this process's progress: calls of the library, reads and writes, compiled programs, results of a device. A rank is
 * stuck, though it lives, if its count stands still while other ranks wait for it.
 * Thread rule: any thread; two threads that raise the count at once may lose one.
 */
#ifndef YOKE_CORE_BASE_ADVANCE_H
#define YOKE_CORE_BASE_ADVANCE_H

#include <stdint.h>

extern uint32_t yk__advanced; /* accessed by the two functions below only */

/* A load and a store instead of a locked instruction, as every call of the library runs it. */
static inline void yk__advance(void)
{
    __atomic_store_n(&yk__advanced, __atomic_load_n(&yk__advanced, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}
const volatile uint32_t *yk__advance_count(void);

/* Long acts of a process; each ends by itself if the device, file or rank that it waits for works. */
typedef enum yk__act {
    YK__ACT_OWN,     /* none of the acts below: the program's own code */
    YK__ACT_WAIT,    /* waits for other ranks; only the control plane reports it */
    YK__ACT_SYNC,    /* waits until written bytes are on the disk */
    YK__ACT_COMPILE, /* before OPEN: the start-up probe compiles while a device is opened */
    YK__ACT_OPEN,    /* starts a driver, opens a device */
    YK__ACT_DEVICE,  /* waits for a device */
    YK__ACT_FILE,    /* reads or writes some bytes */
    YK__ACT_CALL,    /* in a call of this library, and in no other act */
    YK__ACT_OUTSIDE, /* before all others: reads a pipe, a socket or a terminal, or gives a log line; a person may be at its other end */
    YK__ACTS
} yk__act;

/* Each begin has its end, in any thread. Among several acts at once yk__act_now prefers OUTSIDE, then the first in the list. */
void yk__act_begin(yk__act act);
void yk__act_end(yk__act act);
yk__act yk__act_now(void);
/* Called before the process is watched. A forked child has the acts of its parent's threads, which do not run in it: they are forgotten. */
void yk__acts_own(void);
/* From here to the end of the block: for functions with several ways out. */
#define YK__ACT_HERE(act) const yk__act act_here __attribute__((cleanup(yk__act_left), unused)) = yk__act_entered(act)
yk__act yk__act_entered(yk__act act);
void yk__act_left(const yk__act *act);
const char *yk__act_name(yk__act act); /* "compiling a program" */

/* Milliseconds without progress after which an act counts as stuck: 20 times the longest such time so far, clamped to least_ms and
 * most_ms. least_ms 0: always most_ms. A process that has never waited for a disk gets most_ms there, as the amount of data is unknown. */
uint32_t yk__act_patience_ms(yk__act act, uint32_t least_ms, uint32_t most_ms, uint64_t longest_ms);
/* The same for an act in which the process computes all the while, which may be a large program's compiler: ten times as long. */
uint32_t yk__act_busy_ms(yk__act act, uint32_t patience_ms, uint32_t most_ms);
/* Milliseconds that the device of this process's last compilation allows for one; 0: it does not say. */
void yk__compile_allow(uint32_t ms);
uint32_t yk__compile_allowed_ms(void);
#define YK__CALL_MS 30000u

/* Counts a step between two looks, in any unit. A look that comes later than usual shows that the process was stopped, or got no processor;
 * such a step counts usual * (usual / step). So stops add little, and a process that is always late is found, if later. */
uint64_t yk__standing_step(uint64_t step, uint64_t usual);

/* An observer's view of an act without progress. Owner: one thread. */
typedef struct yk__standing {
    yk__act act;
    uint32_t calls, advance; /* the counts at the last look */
    uint64_t ms, used_ms;    /* used_ms: of ms, those with processor time, or with a thread or a compiler's process that is ready */
    uint64_t longest_ms[YK__ACTS]; /* the longest time that progress ended, by kind */
    int64_t cpu_ms;                /* processor time of the process at the last look */
} yk__standing;

/* Adds a step of step_ms, or begins the time anew if the act or a count has moved. calls: another count of the observer's, or 0. Returns
 * the act's patience in ms by the three functions above; least_ms, most_ms as there. 0: no limit. */
uint32_t yk__standing_note(yk__standing *standing, yk__act act, uint32_t calls, uint32_t advance, uint64_t step_ms, uint32_t least_ms,
                           uint32_t most_ms);
/* least_ms of this process: YK__CALL_MS; 0 if YOKE_STUCK_MS is set, which then decides alone, but for compilations with an allowance. */
uint32_t yk__call_ms(void);
/* YOKE_STUCK_MS: milliseconds that a rank or a device may do nothing while other ranks wait for it; 0: no limit. With YOKE_LIVENESS_MS=0,
 * by which a user stops ranks on purpose, it is 0 unless YOKE_STUCK_MS is set. */
uint32_t yk__stuck_ms(void);

#endif
