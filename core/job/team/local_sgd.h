/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LocalSGD (Stich 2019; Accelerate's LocalSGD). With yk_config.local_sgd_steps = k each rank steps k times on the gradients of its own
 * rows. Then the parameters become the mean over all ranks, weighted by the rows that each rank trained on since the last mean. With n_r
 * of n rows, rank r's gradient is n / n_r times its part of the mean over all rows. So for k = 1 and plain SGD the mean is the usual
 * step.
 */
#ifndef YOKE_CORE_JOB_TEAM_LOCAL_SGD_H
#define YOKE_CORE_JOB_TEAM_LOCAL_SGD_H

#include "core/job/opt.h"

bool yk__local_sgd_on(const yk_job *job);
/* This rank's part of the window's rows. Its gradients are of the mean over all rows; divided by the part they are of its own mean. 0
 * for a rank without rows, whose parameters rest. 1 without LocalSGD. */
double yk__local_sgd_share(const yk_opt *opt);
/* Called after a window's step; averages after k of them. */
void yk__local_sgd_stepped(yk_opt *opt);
/* Makes parameters, and moments, equal on all ranks. Collective. False if the job has failed. */
bool yk__local_sgd_average(yk_job *job, bool moments);

#endif
