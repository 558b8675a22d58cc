/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format that each rank computes in: yk_config.precision, or its own of yk_config.precision_by_rank. Parameters, gradients and what
 * ranks exchange are f32 in all of them, so that ranks of one job may differ.
 */
#ifndef YOKE_CORE_JOB_PRECISION_H
#define YOKE_CORE_JOB_PRECISION_H

#include "core/job/job.h"

yk_status yk__precision_check(yk_job *job, yk_error *err); /* of the configuration; once the ranks are known. Keeps its text */
/* What the user asks of that rank's device: bf16 where the job is in fp8. */
yk_dtype yk__precision_of(const yk_job *job, uint32_t rank);
/* The job is in fp8: in bf16, but for operands of linear layers' products, which are rounded to 8 bits (core/plan/eight.h). */
bool yk__precision_rounds8(const yk_job *job);
/* Some rank is to compute in f16, so that the loss is scaled: on all, as their gradients are added up. */
bool yk__precision_scales(const yk_job *job);
const char *yk__precision_name(yk_dtype precision); /* "bf16"; "fp8" for that of config */
const char *yk__precision_text(const yk_job *job); /* for checkpoints: "bf16", "fp32,bf16" */

#endif
