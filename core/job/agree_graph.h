/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the ranks' comparison that is about the graph of the step (agree.h). */
#ifndef YOKE_CORE_JOB_AGREE_GRAPH_H
#define YOKE_CORE_JOB_AGREE_GRAPH_H

#include "core/job/job.h"

/* Of what the loss depends on, in no order: parameters by what is done with them, and functions without. false after a failure. */
bool yk__agree_graph_hash(yk_job *job, uint64_t *hash);
/* Collective over all ranks. Where the graphs of two ranks part: ": tanh at a.c:9, where that has relu at b.c:7", or "". */
yk_status yk__agree_graph_place(yk_job *job, uint32_t odd, uint32_t like, char *buf, size_t n, yk_error *err);

#endif
