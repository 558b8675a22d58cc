/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/local/layout.h"

#include <string.h>

static uint64_t page_round(uint64_t bytes)
{
    return (bytes + YK_LOCAL_PAGE - 1) / YK_LOCAL_PAGE * YK_LOCAL_PAGE;
}

/* The object is sparse: a ring that is never used costs address space alone, which is kept small for many ranks. */
uint32_t yk__local_ring_bytes(uint32_t ranks)
{
    return ranks <= 16 ? 256u * 1024u : 16u * 1024u;
}

uint64_t yk__local_head_bytes(uint32_t ranks)
{
    return page_round(sizeof(yk__local_head) + ranks * sizeof(yk__local_slot));
}

uint64_t yk__local_bytes(uint32_t ranks)
{
    uint64_t ring = page_round(sizeof(yk__local_ring) + yk__local_ring_bytes(ranks));
    return yk__local_head_bytes(ranks) + (uint64_t)ranks * ranks * ring;
}

yk__local_ring *yk__local_ring_at(yk__local_head *head, uint32_t ranks, uint32_t from, uint32_t to)
{
    uint64_t ring = page_round(sizeof(yk__local_ring) + yk__local_ring_bytes(ranks));
    return (void *)((char *)head + yk__local_head_bytes(ranks) + ((uint64_t)from * ranks + to) * ring);
}

bool yk__local_same_secret(const uint8_t *a, const uint8_t *b)
{
    unsigned differ = 0;
    for (int i = 0; i < YK_LOCAL_SECRET; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return !differ;
}

void yk__local_name_copy(char *to, const char *from)
{
    size_t n = 0;
    for (; n < YK_LOCAL_NAME - 1 && from[n]; n++)
        to[n] = (unsigned char)from[n] < 0x20 || from[n] == 0x7f ? '?' : from[n];
    memset(to + n, 0, YK_LOCAL_NAME - n);
}
