/* SPDX-License-Identifier: Apache-2.0 */
/* Values that the host reads. */
#ifndef YOKE_CORE_JOB_READ_H
#define YOKE_CORE_JOB_READ_H

#include "core/job/job.h"

yk__kept *yk__kept_add(yk_job *job, yk__vid v);
bool yk__kept_fetch(yk_job *job, yk__kept *k); /* its data is in host memory; may run the step */
double yk__kept_number(yk_job *job, yk__kept *k); /* of a loss the sum over ranks: collective */

/* This rank's part of a value of all ranks; all of it is 0 where the rank has none. The value: the sums, and weighted / items. */
typedef struct yk__part {
    bool own; /* of a run that did not know the other ranks' counts, as evaluation's */
    double sum, weighted, items; /* weighted: the mean of this rank's items, times them */
} yk__part;
bool yk__kept_part(yk_job *job, yk_t x, yk__part *part); /* false: x is no part, or a loss, which yk_item adds up */

#endif
