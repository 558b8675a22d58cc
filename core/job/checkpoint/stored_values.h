/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a parameter that stay in a safetensors file until they are read by range. */
#ifndef YOKE_CORE_JOB_CHECKPOINT_STORED_VALUES_H
#define YOKE_CORE_JOB_CHECKPOINT_STORED_VALUES_H

#include "core/io/safetensors.h"
#include "core/job/job.h"

/* Elements become f32, so the tensor's type must allow that. The source holds the file. finite: reading any other number is an error. */
yk_status yk__stored_values(yk__safetensors *file, const yk__safetensor *tensor, bool finite, yk__source *out, yk_error *err);
/* Reads all elements once, in pieces, and fails if one is not finite. */
yk_status yk__stored_check(yk__safetensors *file, const yk__safetensor *tensor, yk_error *err);

#endif
