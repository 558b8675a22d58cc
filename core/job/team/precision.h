/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format that each rank computes in: yk_config.precision, or its own in yk_config.precision_by_rank. Parameters, gradients and
 * exchanged data are always f32, so ranks of one job may differ.
 */
#ifndef YOKE_CORE_JOB_TEAM_PRECISION_H
#define YOKE_CORE_JOB_TEAM_PRECISION_H

#include "core/job/job.h"

yk_status yk__precision_check(yk_job *job, yk_error *err); /* checks the configuration once the ranks are known, and keeps its text */
/* The format that the user wants on that rank's device: bf16 in a job in fp8. */
yk_dtype yk__precision_of(const yk_job *job, uint32_t rank);
/* True for a job in fp8: bf16, but operands of linear layers' products are rounded to 8 bits (core/plan/eight.h). */
bool yk__precision_rounds8(const yk_job *job);
/* True if some rank computes in f16: then every rank scales its loss, as gradients are summed over ranks. */
bool yk__precision_scales(const yk_job *job);
const char *yk__precision_name(yk_dtype precision); /* "bf16"; "fp8" for config's */
const char *yk__precision_text(const yk_job *job); /* text in checkpoints: "bf16", "fp32,bf16" */

#endif
