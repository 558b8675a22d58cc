/* SPDX-License-Identifier: Apache-2.0 */
/* Values for the host. */
#ifndef YOKE_CORE_JOB_LOOP_READ_H
#define YOKE_CORE_JOB_LOOP_READ_H

#include "core/job/job.h"

yk__kept *yk__kept_add(yk_job *job, yk__vid v);
bool yk__kept_fetch(yk_job *job, yk__kept *k); /* fetches the data to host memory; may run the step */
double yk__kept_number(yk_job *job, yk__kept *k); /* collective for a loss, whose value is the sum over ranks */

/* This rank's part of a value of all ranks, all 0 on a rank without items. The whole value is the sums, or weighted / items. */
typedef struct yk__part {
    bool own; /* from a run without the other ranks' counts, as in evaluation */
    double sum, weighted, items; /* weighted: the mean of this rank's items times their number */
} yk__part;
bool yk__kept_part(yk_job *job, yk_t x, yk__part *part); /* false if x is no part, or is a loss, which yk_item sums */

#endif
