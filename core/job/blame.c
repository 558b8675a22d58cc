/* SPDX-License-Identifier: Apache-2.0 */
/* Where numbers that are not finite came from, asked only when they are found: which input of the step holds one, and which rows
 * of which file the step was made of. */
#include "core/job/blame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/job/data_info.h"


static int64_t find_not_finite(const float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return i;
    return -1;
}

void yk__row_text(const yk_job *job, int64_t row, char *buf, size_t n)
{
    char where[280];
    const bool known = yk__data_where(job, row, where, sizeof where);
    snprintf(buf, n, "row %lld%s%s%s", (long long)row, known ? " (" : "", known ? where : "", known ? ")" : "");
}

static bool blame_input(const yk_job *job, char *buf, size_t n)
{
    char row[320];
    for (size_t i = 0; i < job->step.n_input; i++) {
        const yk__step_input *input = &job->step.input[i];
        if (input->scalars || job->step.trace.value[input->leaf].dtype != YK_F32)
            continue;
        const yk_value *x = &job->step.trace.value[input->leaf];
        const int64_t all = yk__count(x), at = find_not_finite(input->data, all);
        if (at < 0)
            continue;
        yk__row_text(job, x->dims ? at / (all / x->dim[0]) : 0, row, sizeof row);
        snprintf(buf, n, "; input %zu of the step holds %g in %s", i, fabs((double)((const float *)input->data)[at]), row);
        return true;
    }
    return false;
}

const char *yk__nonfinite_text(const yk_job *job, char *buf, size_t n)
{
    char where[280];
    size_t used;
    *buf = 0;
    if (job->step.empty || blame_input(job, buf, n) || !yk__data_where(job, 0, where, sizeof where))
        return buf;
    used = (size_t)snprintf(buf, n, "; its last rows on this rank are %s", where);
    for (int64_t row = 1; row < job->step.local_rows && used < n; row++) {
        const char *place = yk__data_where(job, row, where, sizeof where) ? strrchr(where, ':') : NULL;
        if (row == 8 || !place)
            break;
        used += (size_t)snprintf(buf + used, n - used, ",%s", place + 1);
    }
    return buf;
}
