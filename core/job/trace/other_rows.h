/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a step rewritten to another number of rows, so that its program can be made before a batch of that size comes. */
#ifndef YOKE_CORE_JOB_TRACE_OTHER_ROWS_H
#define YOKE_CORE_JOB_TRACE_OTHER_ROWS_H

#include "core/job/job.h"

/* Writes to out, an initialised graph, the trace that the same calls make for a batch of `rows` rows on this rank: the same numbers of
 * values, nodes and slots, and that trace's hash. False, with out undefined, if that is not certain: in a job of one rank; with fewer than
 * two rows, now or then; with packed tokens; and if an axis of rows is known by its length alone. Step thread. */
bool yk__trace_with_rows(const yk_job *job, int64_t rows, yk__graph *out);

#endif
