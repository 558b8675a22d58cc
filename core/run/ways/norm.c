/* SPDX-License-Identifier: Apache-2.0 */
/* The norm of summed gradients: by a program of the device, or exactly, from sums that went through the host. */
#include <math.h>

#include "core/run/ways/ways.h"

/* Sum of squares and number of not finite elements of all gradients, times `scale`. */
static yk_status scaled_stats(yk__updater *u, double scale, double sum[2], yk_error *err)
{
    yk__exec *exec = u->exec;
    const yk__optim_programs *optim = &u->optim;
    const float in[64] = {(float)scale};
    const void *input = in;
    const uint64_t bytes = sizeof in;
    if (yk__prog_run(exec, optim->stat_prog, (yk__inputs){1, &input, &bytes}, err) ||
        (optim->n_stat && yk__queue_get(exec->queue, exec->instance.result, 0, optim->stats, optim->stat_prog->plan->result_bytes, err)) ||
        yk__queue_idle(exec->queue, err))
        return err->status;
    sum[0] = sum[1] = 0.0;
    for (size_t i = 0; i < optim->n_stat; i++) {
        const float *stats = optim->stats + optim->stat_prog->plan->result_offset[i] / sizeof *stats;
        sum[0] += (double)stats[0];
        sum[1] += (double)stats[1];
    }
    return YK_OK;
}

#define FEW 0x1p-90 /* a sum of squares below it may lack terms: squares below 2^-149 are 0 in f32 */

/* The same, but squares of finite gradients that leave f32's range are taken again on another scale. */
yk_status yk__norm_own(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    if (yk__optim_make_stats(&u->optim, err) || scaled_stats(u, 1.0 / divisor, sum, err) || sum[1] > 0.0 ||
        (isfinite(sum[0]) && sum[0] >= FEW))
        return err->status;
    const double scale = isfinite(sum[0]) ? 0x1p100 : 0x1p-80;
    if (scaled_stats(u, scale / divisor, sum, err))
        return err->status;
    sum[0] = sum[0] / scale / scale;
    return YK_OK;
}

/* Excluded ranks get the members' result. */
yk_status yk__way_norm_on_device(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    sum[0] = sum[1] = 0.0;
    if (u->params->exchange->part != YK__PART_EXCLUDED && yk__norm_own(u, divisor, sum, err))
        return err->status;
    return yk__exchange_sum(u->params->exchange, sum, 2, err);
}

yk_status yk__way_norm_exact(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    double v[YK__EXACT_NUMBERS];
    yk__exact_get(&u->params->squares, v);
    if (yk__queue_idle(u->exec->queue, err) || yk__exchange_sum(u->params->exchange, v, YK__EXACT_NUMBERS, err))
        return err->status;
    sum[0] = yk__exact_value(v) / divisor / divisor;
    sum[1] = v[YK__EXACT_WORDS];
    return YK_OK;
}
