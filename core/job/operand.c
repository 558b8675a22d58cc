/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a handle, a yk_t of the user's program, into a value of the current step's graph. A parameter gets a leaf of that graph. Also tells
 * the shape of any handle (yk_dims, yk_dim).
 *
 * Nearly every operation calls yk__step_value, in the step thread. A handle of an ended step, or of another job, is an error with the
 * reason.
 */
#include "core/job/operand.h"

#include <string.h>

#include "core/job/param.h"

/* Fails with the reason why a handle is no value of the current step. */
static void fail_dead(yk_job *job, const char *name, yk_t x)
{
    if (!x.id)
        yk__job_failf(job, YK_E_ARG, "%s: an operand is YK_NO", name);
    else if ((uint16_t)(x.id >> 48) != job->serial)
        yk__job_failf(job, YK_E_ARG, "%s: a value of another job, or of one that was closed", name);
    else if (yk__kept_find(&job->values, (uint16_t)(x.id >> 32), (yk__vid)x.id))
        yk__job_failf(job, YK_E_ARG, "%s: the value was kept for reading; its step is over, so it cannot be computed with",
                      name);
    else
        yk__job_failf(job, YK_E_ARG, "%s: the value died at the end of its step (yk_keep makes a value readable after it)",
                      name);
}

yk__vid yk__step_value(yk_job *job, const char *name, yk_t x)
{
    uint32_t index = (uint32_t)x.id;
    uint16_t gen = (uint16_t)(x.id >> 32);
    if (!yk_ok(job))
        return YK_NONE;
    if ((uint16_t)(x.id >> 48) == job->serial) {
        if (gen == 0 && index < job->n_param)
            return yk__param_leaf(job, &job->param[index]);
        if (gen == job->gen && index < job->step.trace.n_value)
            return index;
    }
    fail_dead(job, name, x);
    return YK_NONE;
}

const yk_value *yk__handle_info(const yk_job *job, yk_t x, yk_value *buf)
{
    uint32_t index = (uint32_t)x.id;
    uint16_t gen = (uint16_t)(x.id >> 32);
    if (gen == 0 && index < job->n_param) {
        const yk__job_param *p = &job->param[index];
        *buf = (yk_value){.dtype = (uint8_t)p->dtype, .dims = (uint8_t)p->dims};
        memcpy(buf->dim, p->dim, sizeof p->dim);
        return buf;
    }
    if (gen == job->gen && index < job->step.trace.n_value)
        return &job->step.trace.value[index];
    for (size_t i = 0; i < job->values.n_kept; i++)
        if (job->values.kept[i].gen == gen && job->values.kept[i].vid == index)
            return &job->values.kept[i].value;
    return NULL;
}

uint32_t yk_dims(yk_t x)
{
    yk_value buf;
    yk_job *job = yk__job_of(x);
    const yk_value *v = job ? yk__handle_info(job, x, &buf) : NULL;
    return v ? v->dims : 0;
}

int64_t yk_dim(yk_t x, int32_t axis)
{
    yk_value buf;
    yk_job *job = yk__job_of(x);
    const yk_value *v = job ? yk__handle_info(job, x, &buf) : NULL;
    if (!v)
        return -1;
    if (axis < 0)
        axis += v->dims;
    return axis >= 0 && axis < v->dims ? v->dim[axis] : -1;
}
