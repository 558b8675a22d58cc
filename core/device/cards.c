/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards among selected devices: GPUs and other devices apart from the host's cores. Puts them first in a list, and writes their names.
 *
 * rank_device.c (core/job/team) and device_choice.c (core/launch) use it while they choose a rank's device, `yoke launch` (launch_words.c)
 * while it counts cards. No state; any thread.
 */
#include <stdio.h>
#include <string.h>

#include "core/device/device.h"

uint32_t yk__cards_first(yk__placement *place, uint32_t n)
{
    uint32_t cards = 0;
    for (uint32_t i = 0; i < n; i++) {
        const yk__placement one = place[i];
        if (one.by_cores)
            continue;
        memmove(&place[cards + 1], &place[cards], (i - cards) * sizeof *place);
        place[cards++] = one;
    }
    return cards;
}

void yk__cards_text(const yk__placement *place, uint32_t n, char *buf, size_t size)
{
    char text[64];
    *buf = 0;
    for (uint32_t i = 0; i < n; i++) {
        const size_t used = strlen(buf);
        yk__placement_text(&place[i], text, sizeof text);
        if (!place[i].by_cores)
            snprintf(buf + used, size - used, "%s%s", used ? ", " : "", text);
    }
}
