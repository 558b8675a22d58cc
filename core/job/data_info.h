/* SPDX-License-Identifier: Apache-2.0 */
/* A job's data sets, for checkpoints, errors and the comparison of ranks. */
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
    uint64_t shares; /* changes of the shares before its loader last read ahead */
    bool in_loop; /* inside yk_each, before its end */
    uint64_t order_seed, content; /* hash of the order of rows; hash of the rows' contents, 0 before it is computed */
    const yk__field *field;
    int n_field;
    const yk__loader_batch *current; /* batch of the current step */
    bool pads, pads_loss; /* by yk__data_pad (loop/row_padding.h) */
    struct {
        bool whole;        /* a step had this rank's rows of a whole batch */
        const char *mixes; /* an operation over rows that padding would change; NULL if there was none */
        bool said;
    } traced[2]; /* in evaluation, in training */
};

/* Notes an operation that makes a number of several rows: its data's short batches have no padding. */
void yk__rows_mixed(yk_job *job, const char *what);
bool yk__data_trains(const yk_data *d);
int64_t yk__data_batch(const yk_data *d); /* rows of a batch over all ranks */
/* Writes the place of this rank's row in its file; false if the current step is no batch of a data set. */
bool yk__data_where(const yk_job *job, int64_t row, char *buf, size_t n);

#endif
