/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of each rank in a batch of another size than the one that shares are for: a short last batch, an evaluation's.
 *
 * core/job/team/share_rows.c calls it for each batch, on all ranks with equal numbers, also in a loader's thread. Pure, without memory.
 */
#include "core/balance/balance.h"

static bool keeps_whole(const yk__cut *c, uint32_t r)
{
    return c->seat[r].quantum > 1 && c->share[r];
}

/* The rows of rank r if `rows` are split by the shares; *before: sum of the shares of lower ranks, which grows. */
static uint64_t rows_by_share(uint64_t rows, uint64_t share, uint64_t of, uint64_t *before)
{
    const uint64_t begin = of ? rows * *before / of : 0;
    *before += share;
    return of ? rows * *before / of - begin : 0;
}

/* Of a short batch each rank with a quantum keeps its rows of a usual batch, or gets none; the other ranks take the rest, if it is no more
 * than they have of a usual batch. Else all are cut by the shares. */
void yk__cut_begin(yk__cut *c, uint64_t usual, uint64_t rows)
{
    uint64_t before = 0, others = 0;
    c->usual = usual, c->rows = c->left = c->rest = rows;
    c->before = c->others_before = c->others = 0;
    for (uint32_t r = 0; r < c->ranks; r++) {
        const uint64_t whole = rows_by_share(usual, c->share[r], c->of, &before);
        if (!keeps_whole(c, r)) {
            c->others += c->share[r];
            others += whole;
        } else if (whole <= c->rest) {
            c->rest -= whole;
        }
    }
    c->whole = rows < usual && c->others && c->rest <= others;
}

uint64_t yk__cut_next(yk__cut *c, uint32_t r)
{
    uint64_t whole;
    if (!c->whole)
        return rows_by_share(c->rows, c->share[r], c->of, &c->before);
    whole = rows_by_share(c->usual, c->share[r], c->of, &c->before);
    if (!keeps_whole(c, r))
        return rows_by_share(c->rest, c->share[r], c->others, &c->others_before);
    if (whole > c->left)
        return 0;
    c->left -= whole;
    return whole;
}
