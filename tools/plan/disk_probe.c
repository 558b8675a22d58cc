/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A short measurement of a disk. The state on disk (core/run/values/state_file.c) goes through core/io/tier.h in blocks of 4 MiB: each is
 * read, updated, and written behind the reads of the next two. The probe does the same without an update, so its rate has the turns between
 * reads and writes. A drive's cache may take a probe faster than hours of steps.
 *
 * search.c calls it in the main thread, before it plans.
 */
#include "tools/plan/disk_probe.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/io/tier.h"

enum { BLOCKS = 16, AREAS = 3 };
#define BLOCK ((uint64_t)4 << 20) /* bytes */
#define LEAST_SECONDS 0.25

/* Takes space, and writes it once: the first write of a block is slower. */
static yk_status blocks_make(yk__tier *tier, char *memory, yk_error *err)
{
    if (yk__tier_expect(tier, BLOCKS * BLOCK, "the measurement of this disk", err) || yk__tier_reserve(tier, 0, BLOCKS * BLOCK, err))
        return err->status;
    for (uint64_t i = 0; i < BLOCKS; i++)
        yk__tier_write(tier, memory, i * BLOCK, BLOCK);
    return yk__tier_idle(tier, err);
}

/* Reads and writes each block once. */
static yk_status blocks_move(yk__tier *tier, char *memory, yk_error *err)
{
    uint64_t request[AREAS] = {0};
    for (uint64_t i = 0; i < BLOCKS + AREAS; i++) {
        char *area = memory + i % AREAS * BLOCK;
        if (i >= AREAS && yk__tier_wait(tier, request[i % AREAS], err))
            return err->status;
        if (i >= AREAS)
            yk__tier_write(tier, area, (i - AREAS) * BLOCK, BLOCK);
        if (i < BLOCKS)
            request[i % AREAS] = yk__tier_read(tier, area, i * BLOCK, BLOCK);
    }
    return yk__tier_idle(tier, err);
}

static yk_status tier_measure(yk__tier *tier, char *memory, double *seconds, yk_error *err)
{
    double begun, took = 0;
    uint64_t rounds = 0;
    if (blocks_make(tier, memory, err))
        return err->status;
    for (begun = yk__clock_seconds(); took < LEAST_SECONDS; rounds++, took = yk__clock_seconds() - begun)
        if (blocks_move(tier, memory, err))
            return err->status;
    *seconds = took / (double)(rounds * 2 * BLOCKS * BLOCK);
    return YK_OK;
}

yk_status disk_probe(const char *dir, double *seconds, yk_error *err)
{
    yk__tier *tier = NULL;
    void *memory = yk__malloc_aligned(AREAS * BLOCK, YK__TIER_PAGE);
    if (!memory)
        return yk__fail_mem(err, AREAS * BLOCK, "the measurement of a disk");
    memset(memory, 1, AREAS * BLOCK);
    if (!yk__tier_open(dir, NULL, &tier, err))
        tier_measure(tier, memory, seconds, err);
    if (tier)
        yk__tier_close(tier, &memory, 1);
    else
        yk__free(memory);
    return err->status;
}
