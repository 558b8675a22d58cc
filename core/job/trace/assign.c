/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yk_assign: a state takes a value of the step once the step has run, as running statistics do. The operation only notes the pair, once per
 * state and step. The planner (core/plan/place.c) makes the step's program write the state.
 *
 * The user's program and op_norm.c call it in the step thread. In training the value must be equal on all ranks.
 */
#include "core/job/param.h"
#include "core/job/trace/op.h"
#include "core/job/trace/sharding.h"

/* sign identifies the value's recipe. In evaluation a rank may assign alone. */
static void assign_put(yk_job *job, yk__job_param *p, yk__vid v, uint64_t sign)
{
    const yk__sharding s = yk__sharding_of(job, v);
    if (job->training && s.kind != YK__REPLICATED) {
        yk__job_failf(job, YK_E_ARG, "yk_assign to %s: each rank would assign a value of its own rows; take a sum, a mean or "
                                     "a maximum over the rows", p->name);
        return;
    }
    const yk_value *u = &job->step.trace.value[v];
    if (!p->state || u->dtype != p->dtype || yk__value_count(u) != (int64_t)p->n) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_assign to %s (%s, %llu elements): the value is %s", p->name,
                      p->state ? yk__dtype_name(p->dtype) : "a parameter", (unsigned long long)p->n,
                      yk__value_shape_text(u, text, sizeof text));
        return;
    }
    if (p->assigned == job->gen) {
        yk__job_failf(job, YK_E_ARG, "yk_assign to %s: it was assigned in this step already", p->name);
        return;
    }
    if (yk__grow(&job->step.assign, &job->step.cap_assign, job->step.n_assign + 1, sizeof *job->step.assign)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_assign");
        return;
    }
    p->assigned = job->gen;
    if (job->training && job->team.world > 1)
        yk__recipe_assigned(&job->step.recipes, sign);
    job->step.assigns_exchanged = job->step.assigns_exchanged || s.exchanged;
    job->step.assign[job->step.n_assign++] = (yk__assign){p->number, yk__dense(&job->step.trace, v)};
}

void yk__assign_result(yk_job *job, yk_t state, yk_t value)
{
    yk__job_param *p = yk__param_of(job, "yk_assign", state);
    const yk__vid v = p ? yk__operand(job, "yk_assign", value) : YK_NONE;
    if (v != YK_NONE)
        assign_put(job, p, v, yk__sharding_of(job, v).sign);
}

void yk_assign(yk_t state, yk_t value)
{
    const yk_t x[2] = {state, value};
    yk_job *job = yk__op_enter("yk_assign", 2, x);
    yk__job_param *p = job ? yk__param_of(job, "yk_assign", state) : NULL;
    const yk__vid v = p ? yk__operand(job, "yk_assign", value) : YK_NONE;
    if (v != YK_NONE)
        assign_put(job, p, v, job->team.world > 1 ? yk__recipe_end(&job->step.recipes) : 0);
}
