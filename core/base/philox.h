/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): counter-based random numbers.
 * out = philox(counter, key); no state, thread-safe.
 */
#ifndef YOKE_CORE_BASE_PHILOX_H
#define YOKE_CORE_BASE_PHILOX_H

#include <stdint.h>

void yk__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#define YK__PHILOX_LANES 8
/* Philox in place on eight counters, word by word: lanes hide the latency of each multiplication. */
void yk__philox_lanes(uint32_t word[4][YK__PHILOX_LANES], const uint32_t key[2]);

#endif
