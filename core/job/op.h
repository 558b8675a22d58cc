/* SPDX-License-Identifier: Apache-2.0 */
/* What operations share. */
#ifndef YOKE_CORE_JOB_OP_H
#define YOKE_CORE_JOB_OP_H

#include "core/job/job.h"

/* yk__reshape, which looks at nothing where v has as many dimensions already and these are its lengths. */
static inline yk__vid yk__reshape_to(yk__graph *g, yk__vid v, uint32_t dims, const int64_t *dim)
{
    if (v == YK_NONE || g->value[v].dims != dims)
        return yk__reshape(g, v, dims, dim);
    for (uint32_t i = 0; i < dims; i++)
        if (g->value[v].dim[i] != dim[i])
            return yk__reshape(g, v, dims, dim);
    return v;
}

bool yk__dropout_wanted(yk_job *job, const char *name, float p); /* false in evaluation, and after a failure */
yk__vid yk__dropout(yk_job *job, yk__vid x, float p, yk__vid rows);

#endif
