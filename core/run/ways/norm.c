/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The column `norm` of ways (core/run/way.h): sums of squares of the summed gradients. core/run/update.c calls it once a window, in the
 * step thread, and takes the root. All ranks get the same number.
 *
 * A device's program adds the squares of this rank's slices in f32, and the host adds one number from each member. Sums that went through
 * the host have exact squares (core/coll/exact.h) instead, so the norm does not depend on the cut into slices.
 */
#include <math.h>
#include <string.h>

#include "core/run/ways/ways.h"

/* Starts a device's sums for each bucket, in f32, of its gradients times `scale`. */
static yk_status begin_stats(yk__optim_programs *optim, double scale, yk_error *err)
{
    yk__exec *exec = optim->exec;
    const float in[64] = {(float)scale}; /* stat_prog has an input of 256 bytes, and reads its first number */
    const void *input = in;
    const uint64_t bytes = sizeof in;
    if (yk__optim_make_stats(optim, err) || yk__prog_run(exec, optim->stat_prog, (yk__inputs){1, &input, &bytes}, err) || !optim->n_stat)
        return err->status;
    return yk__queue_get(exec->queue, exec->instance.result, 0, optim->stats, optim->stat_prog->plan->result_bytes, err);
}

static yk_status end_stats(const yk__optim_programs *optim, double sum[2], yk_error *err)
{
    if (yk__queue_idle(optim->exec->queue, err))
        return err->status;
    for (size_t i = 0; i < optim->n_stat; i++) {
        const float *stats = optim->stats + optim->stat_prog->plan->result_offset[i] / sizeof *stats;
        sum[0] += (double)stats[0];
        sum[1] += (double)stats[1];
    }
    return YK_OK;
}

/* sum[0]: the squares of this rank's summed gradients, each times `scale` before it is squared; sum[1]: the number that are not finite. The
 * host adds the buckets' numbers in their order, whichever device updates a bucket. */
static yk_status scaled_stats(yk__updater *u, double scale, double sum[2], yk_error *err)
{
    for (uint32_t k = 0; k < u->n_optim; k++)
        if (begin_stats(&u->optim[k], scale, err))
            return err->status;
    sum[0] = sum[1] = 0.0;
    for (uint32_t k = 0; k < u->n_optim; k++)
        if (end_stats(&u->optim[k], sum, err))
            return err->status;
    return YK_OK;
}

#define FEW 0x1p-90 /* a sum of squares below it may lack terms: squares below 2^-149 are 0 in f32 */

/* The sums of this rank's gradients, each divided by `divisor`. Squares of finite gradients that leave f32's range are taken again on
 * another scale: 2^100 if their sum is too small, 2^-80 if it is infinite. */
yk_status yk__norm_own(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    if (scaled_stats(u, 1.0 / divisor, sum, err) || sum[1] > 0.0 ||
        (isfinite(sum[0]) && sum[0] >= FEW))
        return err->status;
    const double scale = isfinite(sum[0]) ? 0x1p100 : 0x1p-80;
    if (scaled_stats(u, scale / divisor, sum, err))
        return err->status;
    sum[0] = sum[0] / scale / scale;
    return YK_OK;
}

yk_status yk__norm_sum(yk__updater *u, double sum[2], yk_error *err)
{
    double v[2 + YK__SIGN_NUMBERS] = {sum[0], sum[1]};
    memcpy(v + 2, u->signs, sizeof u->signs);
    if (yk__exchange_sum(u->params->exchange, v, sizeof v / sizeof *v, err))
        return err->status;
    memcpy(sum, v, 2 * sizeof *v);
    memcpy(u->signs, v + 2, sizeof u->signs);
    return YK_OK;
}

/* An excluded rank has no sums of its own, and gets the members' result. */
yk_status yk__way_norm_on_device(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    sum[0] = sum[1] = 0.0;
    if (u->params->exchange->part != YK__PART_EXCLUDED && yk__norm_own(u, divisor, sum, err))
        return err->status;
    return yk__norm_sum(u, sum, err);
}

/* sum[1]: the number of parts of 64 elements that are not all finite. A rank adds only when its device is idle. So no transfer reads the
 * block for exchanges after the sum, and ranks with common memory may write it (shared.c). */
yk_status yk__way_norm_exact(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    double v[YK__EXACT_NUMBERS + YK__SIGN_NUMBERS];
    yk__exact_get(&u->params->squares, v);
    memcpy(v + YK__EXACT_NUMBERS, u->signs, sizeof u->signs);
    if (yk__queue_idle(u->params->queue, err) || yk__exchange_sum(u->params->exchange, v, sizeof v / sizeof *v, err))
        return err->status;
    memcpy(u->signs, v + YK__EXACT_NUMBERS, sizeof u->signs);
    sum[0] = yk__exact_value(v) / divisor / divisor;
    sum[1] = v[YK__EXACT_WORDS];
    return YK_OK;
}
