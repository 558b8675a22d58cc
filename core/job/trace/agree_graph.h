/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of the ranks' graphs (agree.h), by the recipes of their values (recipe.h). */
#ifndef YOKE_CORE_JOB_TRACE_AGREE_GRAPH_H
#define YOKE_CORE_JOB_TRACE_AGREE_GRAPH_H

#include "core/job/job.h"

uint64_t yk__agree_loss(const yk_job *job); /* sign of the step's loss; 0 without a loss */
/* Collective over all ranks. Describes the call at which two ranks' graphs part: ": yk_tanh at a.c:9, ..", with the other rank's call;
 * "" if unknown. */
yk_status yk__agree_graph_place(yk_job *job, uint32_t odd, uint32_t like, char *buf, size_t n, yk_error *err);

#endif
