/* SPDX-License-Identifier: Apache-2.0 */
/* A job's data sets, as checkpoints, errors and the comparison of ranks see them. */
#ifndef YOKE_CORE_JOB_DATA_INFO_H
#define YOKE_CORE_JOB_DATA_INFO_H

#include "core/data/loader.h"
#include "core/data/spec.h"
#include "core/job/job.h"

struct yk_data {
    yk_job *job;
    yk__dataset *set;
    yk__loader *loader;
    bool eval, equal; /* equal: every rank has the same number of rows */
    int64_t batch; /* rows over all ranks */
    uint64_t epoch, next;
    bool in_loop; /* of yk_each: it was not at its end yet */
    uint64_t order_seed, content; /* of the order of rows; of what the rows are, 0: not computed yet */
    const yk__field *field;
    int n_field;
    const yk__loader_batch *current; /* of the step under way */
};

bool yk__data_trains(const yk_data *d);
int64_t yk__data_batch(const yk_data *d); /* rows of a batch over all ranks */
/* Where this rank's row of the step under way stands in its file; false: the step was not made of a data set's batch. */
bool yk__data_where(const yk_job *job, int64_t row, char *buf, size_t n);

#endif
