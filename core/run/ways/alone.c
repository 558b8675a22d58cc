/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of the table of ways (core/run/way.h) for a rank that updates all parameters by itself. It is the only rank of its job, or a rank
 * of LocalSGD. Also for a rank whose device plans only.
 *
 * choose.c picks the row, and the update (core/run/update.c) calls its columns in the step thread. Nothing is exchanged: the sums are this
 * rank's own, and the updated parameters stay on its device.
 */
#include "core/run/ways/ways.h"

static bool single_fits(const yk__params *p)
{
    return yk__exchange_updates_all(p->exchange);
}

yk_status yk__way_reduces_nothing(yk__params *p, yk_error *err)
{
    (void)p;
    (void)err;
    return YK_OK;
}

/* In LocalSGD each rank has its own norm; a gradient that is not finite on one stops all. */
static yk_status norm_single(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    double own;
    if (yk__norm_own(u, divisor, sum, err))
        return err->status;
    own = sum[0];
    yk__norm_sum(u, sum, err);
    sum[0] = own;
    return err->status;
}

/* The optimizer's program writes copies in the compute format itself. */
static yk_status publish_nothing(yk__updater *u, yk_error *err)
{
    (void)u;
    (void)err;
    return YK_OK;
}

const yk__way yk__way_single = {
    .name = "alone", .fits = single_fits, .reduce = yk__way_reduces_nothing, .norm = norm_single, .publish = publish_nothing};

static bool planned_fits(const yk__params *p)
{
    return p->exchange->medium == YK__NO_MEDIUM;
}

const yk__way yk__way_planned = {
    .name = "planned", .fits = planned_fits, .reduce = yk__way_reduces_nothing, .publish = yk__way_publishes_nothing};
