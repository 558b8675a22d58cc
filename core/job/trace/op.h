/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that operations share. */
#ifndef YOKE_CORE_JOB_TRACE_OP_H
#define YOKE_CORE_JOB_TRACE_OP_H

#include "core/job/job.h"

/* yk__reshape, skipped if v has these lengths already. */
static inline yk__vid yk__reshape_to(yk__graph *g, yk__vid v, uint32_t dims, const int64_t *dim)
{
    if (v == YK_NONE || g->value[v].dims != dims)
        return yk__reshape(g, v, dims, dim);
    for (uint32_t i = 0; i < dims; i++)
        if (g->value[v].dim[i] != dim[i])
            return yk__reshape(g, v, dims, dim);
    return v;
}

/* Axes as ranks compare them: counted from the last, as packed rows of tokens have one axis less. */
static inline double yk__axis_from_last(int64_t axis, uint32_t dims)
{
    return (double)(axis - (int64_t)dims);
}

static inline double yk__axes_from_last(uint32_t axes, uint32_t dims)
{
    return (double)((uint64_t)axes << (YK_MAX_DIMS - dims));
}

void yk__assign_result(yk_job *job, yk_t state, yk_t value); /* part of the current call, not a call of its own */
bool yk__dropout_wanted(yk_job *job, const char *name, float p); /* false in evaluation, and after a failure */
yk__vid yk__dropout(yk_job *job, yk__vid x, float p, yk__vid rows);

#endif
