/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and states of a job. */
#ifndef YOKE_CORE_JOB_PARAM_H
#define YOKE_CORE_JOB_PARAM_H

#include "core/job/job.h"

yk__job_param *yk__param_of(yk_job *job, const char *name, yk_t x); /* NULL after a failure */
yk__vid yk__param_leaf(yk_job *job, yk__job_param *p);
bool yk__params_ready(yk_job *job);                   /* puts first values on the device */
yk_t yk__param_handle(const yk_job *job, size_t i);
yk__job_param *yk__param_named(const yk_job *job, const char *name); /* NULL if unknown */
bool yk__param_put(yk_job *job, yk__job_param *p, const void *data); /* f32, or a state's i32 */
/* Values that the engine makes or reads when it has memory for them; not for a state. Takes the source. */
bool yk__param_give(yk_job *job, yk__job_param *p, yk__source source);
bool yk__param_get(yk_job *job, yk__job_param *p, void *data);
/* The type in files: f32, or i64 for a state of i32 (a batch norm's count of batches), exact both ways. */
yk_dtype yk__param_file_type(const yk__job_param *p);
bool yk__param_put_file(yk_job *job, yk__job_param *p, void *data); /* changes `data` */
void yk__param_to_file(const yk__job_param *p, void *data); /* converts from the parameter's own type, in place */
bool yk__param_get_file(yk_job *job, yk__job_param *p, void *data);

#endif
