/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes and texts of the control object, the shared memory in which the ranks of a host show their state. The launcher's process, each
 * rank and the agent's thread use these functions, so all agree on the layout. Sizes are bytes. Pure; any thread.
 */
#include "core/control/control_internal.h"

#include <string.h>

#define PAGE 4096u

uint64_t yk__control_bytes(uint32_t ranks)
{
    return (sizeof(yk__control_head) + (uint64_t)ranks * sizeof(yk__control_slot) + PAGE - 1) / PAGE * PAGE;
}

bool yk__control_same_secret(const uint8_t *a, const uint8_t *b)
{
    unsigned differ = 0;
    for (int i = 0; i < YK__CONTROL_SECRET; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return !differ;
}

void yk__control_copy_name(char *to, const char *from)
{
    size_t n = 0;
    for (; n < YK__CONTROL_NAME - 1 && from[n]; n++)
        to[n] = (unsigned char)from[n] < 0x20 || from[n] == 0x7f ? '?' : from[n];
    memset(to + n, 0, YK__CONTROL_NAME - n);
}
