/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the ranks' comparison that is about the graph of the step (agree.h), by the recipes of its values (recipe.h). */
#ifndef YOKE_CORE_JOB_AGREE_GRAPH_H
#define YOKE_CORE_JOB_AGREE_GRAPH_H

#include "core/job/job.h"

uint64_t yk__agree_loss(const yk_job *job); /* the sign of the step's loss; 0: it has none */
/* Collective over all ranks. Where the graphs of two ranks part: ": yk_tanh at a.c:9, where that has yk_relu at b.c:7", or "". */
yk_status yk__agree_graph_place(yk_job *job, uint32_t odd, uint32_t like, char *buf, size_t n, yk_error *err);

#endif
