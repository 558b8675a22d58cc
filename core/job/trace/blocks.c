/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a step that are computed differently: again in backward, to save memory (yk_recompute_begin), or in f32
 * (yk_full_precision_begin). The step notes each block's range of nodes or calls, for core/plan.
 *
 * Models and the user's program call it in the step thread. Each block must be ended before yk_step.
 */
#include "core/base/mem.h"
#include "core/job/job.h"

void yk_recompute_begin(yk_job *job)
{
    if (!yk_ok(job))
        return;
    yk__step *step = &job->step;
    if (step->recomputing) {
        yk__job_failf(job, YK_E_ARG, "yk_recompute_begin: a block is open already; blocks do not nest");
        return;
    }
    if (yk__grow(&step->recompute, &step->cap_recompute, step->n_recompute + 1, sizeof *step->recompute)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_recompute_begin");
        return;
    }
    step->recomputing = true;
    step->recompute[step->n_recompute] = (yk__recompute){(uint32_t)step->trace.n_node, (uint32_t)step->trace.n_node};
}

void yk_recompute_end(yk_job *job)
{
    if (!yk_ok(job))
        return;
    yk__step *step = &job->step;
    if (!step->recomputing) {
        yk__job_failf(job, YK_E_ARG, "yk_recompute_end without a yk_recompute_begin in this step");
        return;
    }
    step->recomputing = false;
    step->recompute[step->n_recompute].end = (uint32_t)step->trace.n_node;
    if (step->recompute[step->n_recompute].end > step->recompute[step->n_recompute].begin)
        step->n_recompute++;
}

void yk_full_precision_begin(yk_job *job)
{
    if (!yk_ok(job))
        return;
    yk__step *step = &job->step;
    if (step->is_full) {
        yk__job_failf(job, YK_E_ARG, "yk_full_precision_begin: a block is open already; blocks do not nest");
        return;
    }
    if (yk__grow(&step->full, &step->cap_full, step->n_full + 1, sizeof *step->full)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_full_precision_begin");
        return;
    }
    step->is_full = true;
    step->full[step->n_full] = (yk__full){.first = step->n_call + 1};
}

void yk_full_precision_end(yk_job *job)
{
    if (!yk_ok(job))
        return;
    yk__step *step = &job->step;
    if (!step->is_full) {
        yk__job_failf(job, YK_E_ARG, "yk_full_precision_end without a yk_full_precision_begin in this step");
        return;
    }
    step->is_full = false;
    step->full[step->n_full].last = step->n_call;
    if (step->full[step->n_full].last >= step->full[step->n_full].first)
        step->n_full++;
}
