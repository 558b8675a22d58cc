/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where shared blocks lie in the object, and giving them back. All ranks make and release blocks in the same order, so each
 * knows which places are free. The memory goes when the last rank has released it; a block that takes the place is made by all
 * ranks together, after that.
 */
#include "config.h"

#include "transport/local/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/mem.h"

/* The first free place that is large enough, or the end. */
uint64_t yk__local_block_place(yk_tr *t, uint64_t bytes)
{
    for (size_t i = 0; i < t->gaps; i++) {
        yk__local_gap *gap = &t->gap[i];
        const uint64_t at = gap->offset;
        if (gap->bytes < bytes)
            continue;
        gap->offset += bytes;
        gap->bytes -= bytes;
        if (!gap->bytes)
            *gap = t->gap[--t->gaps];
        return at;
    }
    t->end += bytes;
    return t->end - bytes;
}

/* Places side by side become one. */
static void join_gap(yk_tr *t, yk__local_gap gap)
{
    for (size_t i = 0; i < t->gaps;) {
        const yk__local_gap other = t->gap[i];
        if (other.offset + other.bytes != gap.offset && gap.offset + gap.bytes != other.offset) {
            i++;
            continue;
        }
        gap.offset = other.offset < gap.offset ? other.offset : gap.offset;
        gap.bytes += other.bytes;
        t->gap[i] = t->gap[--t->gaps];
        i = 0;
    }
    t->gap[t->gaps++] = gap; /* there is room: a gap less, or what release made */
}

static bool released_by_all(yk_tr *t)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        if ((int32_t)(atomic_load(&t->head->slot[r].flag[YK_LOCAL_FLAG_RELEASED]) - t->released) < 0)
            return false;
    return true;
}

void yk__local_release(yk_tr *t, void *mem)
{
    size_t i = 0;
    while (i < t->blocks && t->block[i].mem != mem)
        i++;
    if (i == t->blocks)
        return;
    if (yk__grow(&t->gap, &t->gap_cap, t->gaps + 1, sizeof *t->gap)) { /* or the ranks' lists would differ */
        yk__local_end_for(t, t->rank, false, YK_E_MEM, "out of memory (the places of shared blocks)");
        return;
    }
    const yk__local_block b = t->block[i];
    t->block[i] = t->block[--t->blocks];
    munmap(b.mem, b.bytes);
    t->released++;
    yk__local_flag_set(t, YK_LOCAL_FLAG_RELEASED, t->released);
    if (released_by_all(t) &&
        fallocate(t->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b.offset, (off_t)b.bytes)) {
        yk_tr_error why;
        yk__local_fail(&why, YK_E_IO, "giving back %llu bytes of shared memory: %s", (unsigned long long)b.bytes, strerror(errno));
        yk__local_end_for(t, t->rank, false, YK_E_IO, why.text);
    }
    join_gap(t, (yk__local_gap){b.offset, b.bytes});
}
