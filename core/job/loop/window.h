/* SPDX-License-Identifier: Apache-2.0 */
/* Between two batches of an iterator (yk_data_next, yk_sampler_next), and between two accumulation windows. The step thread. */
#ifndef YOKE_CORE_JOB_LOOP_WINDOW_H
#define YOKE_CORE_JOB_LOOP_WINDOW_H

#include "core/job/job.h"

/* Ends the step of the batch before, if an iterator began it. */
void yk__batch_leave(yk_job *job);
/*
 * Before each training batch of n rows over all ranks (0: shares are fixed): keeps the last whole step, if one is due (decision 0027), and
 * updates the shares of rows. An update may move parts of the optimizer between ranks. Collective. *changed: this rank has another part of
 * the rows from here on. False: the job has failed. Traces show the work between two windows as "window begin".
 */
bool yk__window_begin(yk_job *job, int64_t n, bool *changed);

#endif
