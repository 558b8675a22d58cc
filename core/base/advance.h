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
/* YOKE_STUCK_MS: how long a rank or a device that others wait for may do nothing; 0: for ever. Where YOKE_LIVENESS_MS=0 says that
 * somebody stops ranks on purpose, only if it is set. */
uint32_t yk__stuck_ms(void);

#endif
