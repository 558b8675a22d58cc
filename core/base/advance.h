/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A count of what this process has done: calls of the library, reads and writes, compiled programs, results of a device. A
 * rank whose count stands still while others wait for it is stuck, though it lives.
 * Thread rule: any thread; a count that two threads raise at once may miss one.
 */
#ifndef YOKE_CORE_BASE_ADVANCE_H
#define YOKE_CORE_BASE_ADVANCE_H

#include <stdint.h>

extern uint32_t yk__advanced; /* by the two functions alone */

/* A load and a store, no locked instruction, as every call of the library does it. */
static inline void yk__advance(void)
{
    __atomic_store_n(&yk__advanced, __atomic_load_n(&yk__advanced, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}
const volatile uint32_t *yk__advance_count(void);

/* What a process does that may take long and ends by itself, if what it needs works. */
typedef enum yk__act {
    YK__ACT_OWN,     /* nothing of these: its program's own code */
    YK__ACT_WAIT,    /* for other ranks; told by the control plane alone */
    YK__ACT_OPEN,    /* a driver starts, a device is opened */
    YK__ACT_COMPILE,
    YK__ACT_DEVICE,  /* waits for a device */
    YK__ACT_FILE,    /* reads or writes some bytes */
    YK__ACT_SYNC,    /* waits until the disk has what was written */
    YK__ACTS
} yk__act;

/* Begins and ends are pairs, of any thread. */
void yk__act_begin(yk__act act);
void yk__act_end(yk__act act);
yk__act yk__act_now(void);
const char *yk__act_name(yk__act act); /* "compiling a program" */

/* After how long an act in which nothing has moved is taken for stuck: 20 times the longest such time so far, at least `least_ms`, at most
 * `most_ms`. least_ms 0: most_ms in every case. What has never waited for a disk gets most_ms there: how much is written nobody knows. */
uint32_t yk__act_patience_ms(yk__act act, uint32_t least_ms, uint32_t most_ms, uint64_t longest_ms);
#define YK__CALL_MS 30000u
/* least_ms of this process: YK__CALL_MS; 0 where YOKE_STUCK_MS is set, which then rules for every case. */
uint32_t yk__call_ms(void);
/* YOKE_STUCK_MS: how long a rank or a device that others wait for may do nothing; 0: for ever. Where YOKE_LIVENESS_MS=0 says that
 * somebody stops ranks on purpose, only if it is set. */
uint32_t yk__stuck_ms(void);

#endif
