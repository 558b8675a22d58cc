/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seats: the host cores that a rank computes on, as bits. Ranks on the same cores may disturb each other in ways that no fitted line shows.
 *
 * core/job/team/share.c sets them when a job opens. rank_pace.c asks for turns, so that measurements of devices on the same cores do not
 * overlap. trial_schedule.c asks which ranks share cores. Pure, in the step thread.
 */
#include <string.h>

#include "core/balance/balance.h"
#include "core/device/device.h"

enum { WORD_BITS = 64 };

void yk__seat_cores(yk__seat *seat, const char *list)
{
    int core[YK__SEAT_CORES];
    const uint32_t n = *list ? yk__cores_parse(list, core, YK__SEAT_CORES) : 0;
    memset(seat->cores, n ? 0 : 0xff, sizeof seat->cores);
    for (uint32_t i = 0; i < n; i++)
        if (core[i] < YK__SEAT_CORES)
            seat->cores[core[i] / WORD_BITS] |= UINT64_C(1) << core[i] % WORD_BITS;
}

bool yk__seats_overlap(const yk__seat *a, const yk__seat *b)
{
    for (uint32_t i = 0; i < YK__SEAT_CORES / WORD_BITS; i++)
        if (a->cores[i] & b->cores[i])
            return true;
    return false;
}

/* Gives each rank the first turn in which no earlier rank is on its cores. */
uint32_t yk__seats_turns(uint32_t ranks, const yk__seat *seat, const uint32_t *host, uint32_t *turn)
{
    uint32_t turns = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        turn[r] = 0;
        for (uint32_t q = 0; q < r; q++)
            if (turn[q] == turn[r] && host[q] == host[r] && yk__seats_overlap(&seat[q], &seat[r])) {
                turn[r]++;
                q = UINT32_MAX; /* from the first one again */
            }
        turns = turn[r] < turns ? turns : turn[r] + 1;
    }
    return turns;
}
