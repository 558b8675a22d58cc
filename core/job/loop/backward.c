/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yk_backward: names the loss to differentiate, its weight in the accumulation window, and the parameters that it trains. Nothing is
 * computed here; yk_step runs the trace.
 *
 * The user's program calls it once a micro batch, in the step thread, on all ranks. It sums the loss's counts over the ranks
 * (core/job/trace/count.c), so the ranks compare their programs here.
 */
#include "core/job/input.h"
#include "core/job/loop/read.h"
#include "core/job/operand.h"
#include "core/job/opt.h"
#include "core/job/trace/count.h"
#include "core/job/trace/sharding.h"

/* Sets the weight of this micro batch in its window, and marks the parameters that it trains. */
static bool weigh_loss(yk_job *job)
{
    yk__step *step = &job->step;
    const uint8_t *need = yk__count_reached(job, step->loss);
    bool trains = false;
    if (!need)
        return false;
    for (size_t i = 0; i < job->n_param; i++)
        if (job->param[i].leaf_gen == job->gen && need[job->param[i].leaf])
            job->param[i].used = trains = true;
    if (!trains) {
        yk__job_failf(job, YK_E_ARG, "yk_backward: the loss depends on no parameter, so there is nothing to train: expected one made of "
                                     "yk_param, of this step");
        return false;
    }
    step->loss_weight = 1.0;
    if (job->config.average == YK_AVERAGE_ROWS)
        step->loss_weight = (double)step->global_rows;
    if (job->config.average != YK_AVERAGE_ITEMS)
        return true;
    uint32_t mask = yk__count_terms(job, need);
    if (!mask || (mask & (mask - 1))) {
        yk__job_failf(job, YK_E_ARG, "yk_backward with YK_AVERAGE_ITEMS: the loss must have exactly one term that counts "
                                     "items (cross entropy, BCE or MSE); this one has %s",
                      mask ? "several" : "none");
        return false;
    }
    step->loss_weight = step->counted[__builtin_ctz(mask)].global;
    return true;
}

void yk_backward(yk_t loss)
{
    yk_job *job = yk__op_enter("yk_backward", 1, &loss);
    yk__vid v = job ? yk__step_value(job, "yk_backward", loss) : YK_NONE;
    if (v == YK_NONE || !yk__job_trains(job, "yk_backward"))
        return;
    if (job->step.trace.value[v].dtype != YK_F32 || yk__value_count(&job->step.trace.value[v]) != 1) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_backward: the loss is %s; it must be one f32 number",
                      yk__value_shape_text(&job->step.trace.value[v], text, sizeof text));
        return;
    }
    if (job->step.loss != YK_NONE) {
        yk__job_failf(job, YK_E_ARG, "yk_backward: a second time before yk_step: call yk_step(optimizer) after each, and of a micro batch "
                      "with several losses add them up and call it on their sum");
        return;
    }
    job->step.loss = v;
    if (!job->backwards++)
        yk__here_place(&job->backward_file, &job->backward_line);
    yk__job_meant(job);
    if (!yk__sharding_loss(job, v) || !yk__count_ranks(job) || !weigh_loss(job))
        return;
    /* if all ranks have the whole loss, each contributes its share */
    const double term = job->team.world > 1 && yk__sharding_of(job, v).kind == YK__REPLICATED ? job->step.row_share : 1.0;
    if (job->opt && job->opt->unit == 0.0 && job->step.loss_weight > 0.0)
        job->opt->unit = job->step.loss_weight;
    double unit = job->opt && job->opt->unit > 0.0 ? job->opt->unit : 1.0;
    double seed = (job->scaling ? job->scaler.scale : 1.0) * job->step.loss_weight / unit * term;
    yk__scalar_new(job, seed, &job->step.seed);
    yk__kept *k = yk__kept_add(job, v);
    if (!k)
        return;
    k->loss = k->outlives_step = true;
    k->factor = term;
    if (k->sent && yk__kept_fetch(job, k)) /* already read: its counts were only this rank's */
        k->sent = k->ready = k->summed = false;
}
