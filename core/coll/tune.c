/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the plan of a job's collectives over messages, by measured times. yk__coll_new calls yk__plan_make in the step thread, on all ranks
 * at the start of a job. A job without messages, or of at most two ranks, has no plan.
 *
 * A direct exchange of b bytes takes one round, a + s b: a is a message's latency, s its seconds per byte. By columns (msg_columns.c) it
 * takes two rounds, and each line carries 2/n of the bytes: 2 a + s b 2/n (Rabenseifner's argument, "Optimization of collective reduction
 * operations", 2004, with a direct exchange in both halves).
 *
 * Rounds (msg_rounds.c) carry the bytes of a direct exchange in fewer messages, but each waits for the one before. The faster way depends
 * on a message's cost and latency, so both are measured. Times are medians of several calls, as lines let the first bytes after a rest pass
 * faster than later ones.
 */
#include "core/coll/tune.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/coll/coll_state.h"
#include "core/coll/messages/msg_rounds.h"
#include "core/coll/request.h"

enum { CALLS = 5, FEW = 16, MANY = 16384 }; /* numbers of f32; with many ranks MANY would take too long on a slow line */

typedef struct plan {
    uint64_t columns_from, rounds_below, slices_below;
} plan;

uint64_t yk__plan_crossing(yk__plan_line one, yk__plan_line two)
{
    const double saved = one.slope_ns - two.slope_ns, more = two.ns > one.ns ? two.ns - one.ns : 0.0;
    return saved * YK__COLL_SMALL > more ? (uint64_t)(more / saved) + 1 : UINT64_MAX;
}

yk__plan_line yk__plan_by_columns(yk__plan_line direct, uint32_t ranks)
{
    return (yk__plan_line){2.0 * direct.ns, direct.slope_ns * 2.0 / ranks};
}

uint64_t yk__plan_rounds(yk__plan_line direct, yk__plan_line rounds)
{
    return rounds.ns < direct.ns ? yk__plan_crossing(rounds, direct) : 0;
}

yk__plan_line yk__plan_parts(yk__plan_line rounds, uint32_t ranks)
{
    const double times = log2(ranks) / 2.0;
    return (yk__plan_line){rounds.ns, rounds.slope_ns > 0.0 ? rounds.slope_ns * times : rounds.slope_ns};
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static yk_status time_sum(yk__coll *coll, float *numbers, uint32_t n, int64_t *median_ns, yk_error *err)
{
    int64_t ns[CALLS];
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = numbers, .count = n};
    for (int i = 0; i < CALLS; i++) {
        const int64_t begin = yk__clock_ns();
        if (yk__coll_run(coll->comm, &d, err))
            return err->status;
        ns[i] = yk__clock_ns() - begin;
    }
    qsort(ns, CALLS, sizeof *ns, compare_times);
    *median_ns = ns[CALLS / 2];
    return YK_OK;
}

/* Measures sums under the present coll->rounds_below. */
static yk_status measure_line(yk__coll *coll, yk__plan_line *line, yk_error *err)
{
    float *numbers = yk__calloc(MANY, sizeof *numbers);
    const uint32_t many = coll->size > 16 ? MANY / 16 : MANY;
    int64_t few_ns = 0, many_ns = 0;
    if (!numbers)
        return yk__fail_mem(err, MANY * sizeof *numbers, "the plan of collectives");
    if (!time_sum(coll, numbers, FEW, &few_ns, err) && !time_sum(coll, numbers, many, &many_ns, err))
        *line = (yk__plan_line){(double)few_ns, (double)(many_ns - few_ns) / ((many - FEW) * sizeof *numbers)};
    yk__free(numbers);
    return err->status;
}

/* Chooses columns from the size on at which they beat the faster of the other two ways. */
static yk_status measure_plan(yk__coll *coll, plan *own, yk_error *err)
{
    yk__plan_line direct, columns, rounds;
    uint64_t from;
    if (measure_line(coll, &direct, err))
        return err->status;
    columns = yk__plan_by_columns(direct, coll->size);
    own->columns_from = yk__plan_crossing(direct, columns);
    if (coll->size < YK__MSG_ROUNDS_LEAST)
        return YK_OK;
    coll->rounds_below = UINT64_MAX;
    if (measure_line(coll, &rounds, err))
        return err->status;
    own->rounds_below = yk__plan_rounds(direct, rounds);
    own->slices_below = yk__plan_rounds(direct, yk__plan_parts(rounds, coll->size));
    from = yk__plan_crossing(rounds, columns);
    if (own->columns_from < own->rounds_below)
        own->columns_from = from < own->rounds_below ? from : own->rounds_below;
    return YK_OK;
}

/* Ends the job unless every rank has rank 0's plan. */
static yk_status compare_plans(yk__coll *coll, const plan *own, yk_error *err)
{
    uint64_t hash = yk__hash_bytes(YK_HASH_SEED, own, sizeof *own), *all = yk__calloc(coll->size, sizeof *all);
    const yk__coll_desc d = {.kind = YK__COLL_ALL_GATHER, .dtype = YK_U8, .in = &hash, .out = all, .count = sizeof hash};
    if (!all)
        return yk__fail_mem(err, coll->size * sizeof *all, "the plan of collectives");
    yk__coll_run(coll->comm, &d, err);
    for (uint32_t r = 1; r < coll->size && !err->status; r++)
        if (all[r] != all[0])
            yk__fail(err, YK_E_INTERNAL, "the plan of collectives that %s got is not that of %s: expected the same on all ranks",
                     yk__control_name(coll->control, r), yk__control_name(coll->control, 0));
    yk__free(all);
    return err->status;
}

yk_status yk__plan_make(yk__coll *coll, yk_error *err)
{
    plan own = {UINT64_MAX, 0, 0};
    const yk__coll_desc d = {.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .out = &own, .count = sizeof own};
    if (!coll->plane || coll->size < 3)
        return YK_OK;
    if (measure_plan(coll, &own, err) || yk__coll_run(coll->comm, &d, err) || compare_plans(coll, &own, err))
        return err->status;
    coll->columns_from = own.columns_from;
    coll->rounds_below = own.rounds_below;
    coll->slices_below = own.slices_below;
    return YK_OK;
}
