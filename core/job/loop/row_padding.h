/* SPDX-License-Identifier: Apache-2.0 */
/* Padding of short batches, so that they need no program of their own (decision 0095). */
#ifndef YOKE_CORE_JOB_LOOP_ROW_PADDING_H
#define YOKE_CORE_JOB_LOOP_ROW_PADDING_H

#include "core/job/job.h"

#define YK__IGNORED (-100) /* the class that yk_cross_entropy ignores by default */

/* Lets short batches have padding, where the device has a quantum of rows. The caller promises that only yk_cross_entropy, with its
 * default ignored class, makes a number of several rows. `loss`: the caller computes losses. yk_batch.rows has no padding in it. */
void yk__data_pad(yk_data *d, bool loss);
/* Padding of a batch of so many rows of this rank: 0, or what is missing to its rows of a whole batch. */
int64_t yk__data_padding(yk_data *d, int64_t rows);

#endif
