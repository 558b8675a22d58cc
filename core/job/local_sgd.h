/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LocalSGD (Stich 2019; Accelerate's LocalSGD): with yk_config.local_sgd_steps = k each rank steps on the gradients of its own rows k
 * times; then the parameters become the mean of all ranks', weighted by the rows each trained on since the last mean. With rows n_r of
 * n, rank r's gradient is n / n_r times its part of the mean over all rows, so that for k = 1 and plain SGD the mean is the usual step.
 */
#ifndef YOKE_CORE_JOB_LOCAL_SGD_H
#define YOKE_CORE_JOB_LOCAL_SGD_H

#include "core/job/opt.h"

bool yk__local_sgd_on(const yk_job *job);
/* The part of the window's rows that is this rank's: its gradients are of all rows' mean, divided by it they are of its own rows'. 0:
 * it has none, and its parameters rest. 1 without LocalSGD. */
double yk__local_sgd_share(const yk_opt *opt);
/* A window was stepped; after k of them the ranks average. */
void yk__local_sgd_stepped(yk_opt *opt);
/* Parameters, and moments, are the same on all ranks afterwards. Collective. False: the job has failed. */
bool yk__local_sgd_average(yk_job *job, bool moments);

#endif
